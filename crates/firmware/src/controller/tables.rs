//! What a power cut has left, checked before anything is made of it.
//!
//! One search for whoever begins with the tables, which ends at the first thing that is wrong, and
//! for whoever only looks at them, which finds everything. It changes nothing.

use crate::config::ControllerConfig;
use crate::durable::{Durable, LoggedLine, WriteOrder};
use crate::ftl::{self, UnsoundTables};
use crate::log::TX_LOG_ENTRY;
use crate::platform::BufferId;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::fmt;
use units::{FrameId, LineMask, LogSlot, Lpa};

/// Why tables are none that a controller of this configuration has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnsoundState {
    /// Those of the flash translation layer.
    Flash(UnsoundTables),
    /// The log has no such slot.
    NoSuchSlot(LogSlot),
    /// The slot holds a line that the device does not have.
    NoSuchLine(LogSlot, Lpa),
    /// The buffer holds a page that the device does not have, or there is no such buffer.
    NoSuchBuffer(BufferId, Lpa),
    /// The log of transactions has no room for what it holds.
    NoSuchCommit,
    /// Nobody can say which of the two was written last.
    LinesAtOnce(LogSlot, LogSlot),
    /// Nor of this buffer and another one, or a line.
    BufferAtOnce(BufferId, WriteOrder),
    /// The page has no place in the frame, or lines that it has not, or more pages were on their
    /// way than can be, or no frame counts on such a device.
    NoSuchFrame(FrameId, Lpa),
    /// Nobody can say whether the frame or what else has this order was written last.
    FrameAtOnce(FrameId, WriteOrder),
    /// Hardly anything can be written later than this.
    NoLaterOrder(WriteOrder),
}

impl fmt::Display for UnsoundState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flash(unsound) => return unsound.fmt(f),
            Self::NoSuchSlot(slot) => write!(f, "the write log has no {slot}"),
            Self::NoSuchCommit => write!(f, "the TxLog has no room for its entries"),
            Self::NoSuchLine(slot, lpa) => write!(f, "{slot} cannot hold a part of {lpa}"),
            Self::NoSuchBuffer(buffer, lpa) => write!(f, "{buffer} cannot hold a part of {lpa}"),
            Self::NoSuchFrame(frame, lpa) => write!(f, "{frame} cannot hold {lpa}"),
            Self::FrameAtOnce(frame, order) => {
                let order = order.get();
                write!(
                    f,
                    "{frame} has write order {order}, as another frame, a buffer or a slot has"
                )
            }
            Self::NoLaterOrder(order) => {
                let order = order.get();
                write!(f, "write order {order} leaves no room for later ones")
            }
            Self::LinesAtOnce(one, other) => {
                write!(f, "{one} and {other} have the same write order")
            }
            Self::BufferAtOnce(buffer, order) => {
                let order = order.get();
                write!(
                    f,
                    "{buffer} has write order {order}, as another buffer or slot has"
                )
            }
        }?;
        f.write_str(": the tables are damaged, or of another device")
    }
}

impl core::error::Error for UnsoundState {}

/// Finds everything for which [`Controller::recover`](super::Controller::recover) would refuse the
/// tables.
pub fn check_tables<D: Durable>(
    config: &ControllerConfig,
    durable: &D,
    found: &mut dyn FnMut(UnsoundState),
) {
    let mut go_on = |unsound| {
        found(unsound);
        Ok(())
    };
    let searched = CheckedTables::read(config, durable, &mut go_on);
    assert!(searched.is_ok(), "the search goes on whatever it finds");
}

/// Is told of something wrong; an error ends the search.
type Judge<'a> = &'a mut dyn FnMut(UnsoundState) -> Result<(), UnsoundState>;

/// What recovery begins with.
pub(super) struct CheckedTables {
    /// Of the log, committed or not, in the order of their writes.
    pub lines: Vec<(LogSlot, LoggedLine)>,
    /// Mapping and blocks.
    pub flash: ftl::CheckedTables,
}

impl CheckedTables {
    /// Reads the tables.
    ///
    /// # Errors
    /// Those of `judge`.
    pub fn read<D: Durable>(
        config: &ControllerConfig,
        durable: &D,
        judge: Judge<'_>,
    ) -> Result<Self, UnsoundState> {
        let mut judge_flash = |unsound| match judge(UnsoundState::Flash(unsound)) {
            Ok(()) => Ok(()),
            Err(_) => Err(unsound),
        };
        let flash =
            ftl::CheckedTables::read(config.geometry, &config.ftl, durable, &mut judge_flash);
        let flash = flash.map_err(UnsoundState::Flash)?;
        let pages = flash.logical_page_count();
        let lines = lines(config, durable, pages, judge)?;
        let mut orders = Orders {
            lines: &lines,
            buffers: BTreeSet::new(),
        };
        check_buffers(config, durable, (pages, &mut orders), judge)?;
        let of_frames = check_frames(config, durable, (pages, &orders), judge)?;
        if let Some(last) = of_frames.max(orders.last())
            && !last.has_room()
        {
            judge(UnsoundState::NoLaterOrder(last))?;
        }
        let commits = config.ssd.log.tx_log / TX_LOG_ENTRY;
        if durable.committed().any(|(at, _)| u64::from(at) >= commits) {
            judge(UnsoundState::NoSuchCommit)?;
        }
        Ok(Self { lines, flash })
    }
}

/// Write orders of what has been checked: of millions of lines, which are sorted already, and of
/// some buffers.
struct Orders<'a> {
    lines: &'a [(LogSlot, LoggedLine)],
    buffers: BTreeSet<WriteOrder>,
}

impl Orders<'_> {
    fn contain(&self, order: WriteOrder) -> bool {
        let found = self.lines.binary_search_by_key(&order, |line| line.1.order);
        found.is_ok() || self.buffers.contains(&order)
    }

    fn last(&self) -> Option<WriteOrder> {
        let of_lines = self.lines.last().map(|line| line.1.order);
        of_lines.max(self.buffers.last().copied())
    }
}

fn lines<D: Durable>(
    config: &ControllerConfig,
    durable: &D,
    pages: u64,
    judge: Judge<'_>,
) -> Result<Vec<(LogSlot, LoggedLine)>, UnsoundState> {
    let slots = 2 * config.ssd.log.half_slot_count();
    let page_lines = config.geometry.unit_size.line_count();
    // Millions: to look twice takes less than to find room for more of them again and again.
    let mut lines = Vec::with_capacity(durable.logged().count());
    for (slot, logged) in durable.logged() {
        if u64::from(slot.get()) >= slots {
            judge(UnsoundState::NoSuchSlot(slot))?;
        } else if logged.lpa.get() >= pages || logged.line.get() >= page_lines {
            judge(UnsoundState::NoSuchLine(slot, logged.lpa))?;
        }
        lines.push((slot, logged));
    }
    lines.sort_unstable_by_key(|(_, logged)| logged.order);
    for pair in lines.windows(2) {
        if pair[0].1.order == pair[1].1.order {
            let (one, other) = (pair[0].0, pair[1].0);
            judge(UnsoundState::LinesAtOnce(one.min(other), one.max(other)))?;
        }
    }
    Ok(lines)
}

/// Adds the orders of buffers.
fn check_buffers<D: Durable>(
    config: &ControllerConfig,
    durable: &D,
    (pages, orders): (u64, &mut Orders<'_>),
    judge: Judge<'_>,
) -> Result<(), UnsoundState> {
    for (buffer, page) in durable.buffered() {
        if page.lpa.get() >= pages || buffer.get() >= config.ssd.buffers {
            judge(UnsoundState::NoSuchBuffer(buffer, page.lpa))?;
        }
        if orders.contain(page.order) {
            judge(UnsoundState::BufferAtOnce(buffer, page.order))?;
        }
        orders.buffers.insert(page.order);
    }
    Ok(())
}

/// The latest write order of a frame.
fn check_frames<D: Durable>(
    config: &ControllerConfig,
    durable: &D,
    (pages, orders): (u64, &Orders<'_>),
    judge: Judge<'_>,
) -> Result<Option<WriteOrder>, UnsoundState> {
    let page = config.geometry.unit_size;
    let keeps_frames = config.ssd.power_loss_protection.keeps_frames();
    let shape = keeps_frames.then(|| config.ssd.cache_shape(page));
    let mut of_frames = Vec::new();
    let (all, mut in_flight) = (LineMask::full(page), 0);
    for (frame, kept) in durable.framed() {
        in_flight += u32::from(kept.lines != all);
        let has_place = shape.is_some_and(|shape| shape.has_place(frame, kept.lpa))
            && kept.lines.without(all).is_empty()
            && in_flight <= config.ssd.cache.mshr_count;
        if kept.lpa.get() >= pages || !has_place {
            judge(UnsoundState::NoSuchFrame(frame, kept.lpa))?;
        }
        if orders.contain(kept.order) {
            judge(UnsoundState::FrameAtOnce(frame, kept.order))?;
        }
        of_frames.push((kept.order, frame));
    }
    of_frames.sort_unstable();
    for pair in of_frames.windows(2) {
        if pair[0].0 == pair[1].0 {
            judge(UnsoundState::FrameAtOnce(pair[1].1, pair[1].0))?;
        }
    }
    Ok(of_frames.last().map(|(order, _)| *order))
}
