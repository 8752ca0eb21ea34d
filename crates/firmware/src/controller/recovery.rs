//! The controller after a power cut, from what survived it (ByteFS §4.7).
//!
//! Mapping and blocks are as recorded. Of the log, the lines that are committed are indexed anew in
//! the order of their writes: the half of the latest one is active, and if the other one has lines
//! too, it was being compacted, which begins again. A page that a buffer has is programmed again,
//! and log lines that are older than it count no more. Then the device serves.
//!
//! Power may fail again at any moment of it: what is dropped here counted for nothing already, as
//! something newer or no commit says, so whoever recovers next comes to the same.

use super::Controller;
use crate::config::ControllerConfig;
use crate::durable::{BufferedPage, Durable, LoggedLine, Record};
use crate::ftl::{Ftl, UnsoundTables};
use crate::log_index::LogIndex;
use crate::page_buffers::Job;
use crate::platform::{BufferId, Platform};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::fmt;
use units::{LogSlot, Lpa, Time, TxId};

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
}

impl fmt::Display for UnsoundState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            Self::Flash(unsound) => return unsound.fmt(f),
            Self::NoSuchSlot(slot) => return write!(f, "the write log has no {slot}: {DAMAGED}"),
            Self::NoSuchCommit => {
                return write!(f, "the TxLog has no room for its entries: {DAMAGED}");
            }
            Self::NoSuchLine(slot, lpa) => (slot.get(), "slot", lpa),
            Self::NoSuchBuffer(buffer, lpa) => (buffer.get(), "buffer", lpa),
        };
        let (number, place, lpa) = what;
        write!(f, "{place} {number} cannot hold a part of {lpa}: {DAMAGED}")
    }
}

const DAMAGED: &str = "the tables are damaged, or of another device";

impl core::error::Error for UnsoundState {}

/// The lines and pages that count.
struct Survivors {
    /// In the order of their writes.
    lines: Vec<(LogSlot, LoggedLine)>,
    buffers: BTreeMap<Lpa, (BufferId, BufferedPage)>,
}

impl<I: LogIndex> Controller<I> {
    /// The controller of a device that `durable` has survived of.
    ///
    /// # Errors
    /// If the tables are damaged or of another device.
    ///
    /// # Panics
    /// If `config.validate()` has problems.
    pub fn recover<D: Durable, P: Platform>(
        config: &ControllerConfig,
        durable: &D,
        now: Time,
        platform: &mut P,
    ) -> Result<Self, UnsoundState> {
        let first_gc_buffer = BufferId::new(config.ssd.buffers);
        let parts = (config.geometry, &config.ftl, config.timing);
        let ftl = Ftl::restore(parts, first_gc_buffer, durable, now, platform)
            .map_err(UnsoundState::Flash)?;
        let mut controller = Self::with_ftl(config, |_| ftl);
        controller.check_tables(durable)?;
        let survivors = controller.survivors(durable, platform);
        controller.restore_commits(durable, survivors.lines.is_empty(), platform)?;
        controller.restore_log(&survivors.lines, platform);
        controller.restore_buffers(now, &survivors.buffers, platform);
        controller.pump_log(now, platform);
        controller.end_vain_waits(now, platform);
        Ok(controller)
    }

    fn check_tables<D: Durable>(&self, durable: &D) -> Result<(), UnsoundState> {
        let slots = self.log.as_ref().map_or(0, |log| log.slot_count());
        let pages = self.ftl.logical_page_count();
        for (slot, logged) in durable.logged() {
            if slot.get() >= slots {
                return Err(UnsoundState::NoSuchSlot(slot));
            }
            let is_line = logged.line.get() < self.constants.page.line_count();
            if logged.lpa.get() >= pages || !is_line {
                return Err(UnsoundState::NoSuchLine(slot, logged.lpa));
            }
        }
        for (buffer, page) in durable.buffered() {
            if page.lpa.get() >= pages || buffer.index() >= self.buffers.count() {
                return Err(UnsoundState::NoSuchBuffer(buffer, page.lpa));
            }
        }
        Ok(())
    }

    /// What counts; the rest is dropped.
    fn survivors<D: Durable, P: Platform>(&mut self, durable: &D, platform: &mut P) -> Survivors {
        let mut buffers: BTreeMap<Lpa, (BufferId, BufferedPage)> = BTreeMap::new();
        for (buffer, page) in durable.buffered() {
            self.write_order = self.write_order.max(page.order);
            let other = buffers.get(&page.lpa).copied();
            let outdated = match other {
                Some((_, newer)) if newer.order > page.order => Some(buffer),
                _ => buffers
                    .insert(page.lpa, (buffer, page))
                    .map(|(older, _)| older),
            };
            if let Some(outdated) = outdated {
                platform.record(Record::Unbuffered(outdated));
            }
        }
        let committed: BTreeSet<TxId> = durable.committed().map(|(_, tx)| tx).collect();
        let mut lines = Vec::new();
        for (slot, logged) in durable.logged() {
            self.write_order = self.write_order.max(logged.order);
            let buffer = buffers.get(&logged.lpa);
            let is_newest = buffer.is_none_or(|(_, page)| page.order < logged.order);
            if is_newest && (logged.tx == TxId::NONE || committed.contains(&logged.tx)) {
                lines.push((slot, logged));
            } else {
                platform.record(Record::Dropped(slot));
            }
        }
        lines.sort_unstable_by_key(|(_, logged)| logged.order);
        Survivors { lines, buffers }
    }

    /// What is committed counts until its lines are on flash; without lines it is forgotten.
    fn restore_commits<D: Durable, P: Platform>(
        &mut self,
        durable: &D,
        is_log_empty: bool,
        platform: &mut P,
    ) -> Result<(), UnsoundState> {
        let committed: Vec<_> = durable.committed().collect();
        let Some(transactions) = self.transactions.as_mut() else {
            let is_sound = committed.is_empty();
            return is_sound.then_some(()).ok_or(UnsoundState::NoSuchCommit);
        };
        if !transactions.restore(committed) {
            return Err(UnsoundState::NoSuchCommit);
        }
        if is_log_empty {
            transactions.forget(platform);
        }
        Ok(())
    }

    fn restore_log<P: Platform>(&mut self, lines: &[(LogSlot, LoggedLine)], platform: &mut P) {
        let Some(log) = self.log.as_mut() else { return };
        for (slot, logged) in lines {
            if let Some(replaced) = log.restore(*slot, logged.lpa, logged.line) {
                platform.record(Record::Dropped(replaced));
            }
        }
    }

    fn restore_buffers<P: Platform>(
        &mut self,
        now: Time,
        buffers: &BTreeMap<Lpa, (BufferId, BufferedPage)>,
        platform: &mut P,
    ) {
        for (lpa, (buffer, _)) in buffers {
            self.buffers.retake(*buffer, *lpa, Job::BlockWrite);
            self.buffers.keep(*lpa, *buffer);
            self.page_writes_in_flight += 1;
            self.submit(now, *buffer, platform);
        }
    }
}
