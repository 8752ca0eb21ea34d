//! What a power cut has left in an image, before the firmware sees it.

use crate::config::DeviceConfig;
use crate::error::DeviceFileError;
use crate::tables::Tables;
use firmware::{Durable, UnsoundState, WriteOrder};
use std::collections::BTreeMap;
use std::path::Path;
use units::address::LINE_BYTES;
use units::{LineMask, Lpa, Picos};

/// What opening an image takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recovered {
    /// Slots of the write log, whose headers are read.
    pub slots: u64,
    /// Lines among them that a record vouches for, committed or not.
    pub lines: u64,
    /// Commits in the log of transactions.
    pub commits: u64,
    /// Accounted time: an access to device DRAM for each header of a slot, buffer or frame, for
    /// each line of 64 B of the TxLog and for each line that is copied into a frame, one more where
    /// it comes from a buffer; and an access to the index for each line of the log.
    pub scan: Picos,
}

/// What the headers of the log say, which are read once: there are millions.
#[derive(Clone, Copy, Default)]
pub struct Logged {
    lines: u64,
    /// The last transaction that has a line.
    last: u32,
}

impl Logged {
    /// Of tables.
    pub fn of(tables: &Tables) -> Self {
        tables
            .logged()
            .fold(Self::default(), |seen, (_, line)| Self {
                lines: seen.lines + 1,
                last: seen.last.max(line.tx.get()),
            })
    }
}

impl Recovered {
    /// Of an image that is about to be opened, with so much in its log.
    pub fn of(config: &DeviceConfig, tables: &Tables, logged: Logged) -> Self {
        let slots = 2 * config.ssd.log.half_slot_count();
        let lines = logged.lines;
        let buffers = config.controller().buffer_count();
        let of_commits = config.ssd.log.tx_log.get().div_ceil(LINE_BYTES.get());
        let frames = match config.ssd.power_loss_protection.keeps_frames() {
            true => config.ssd.frame_count(config.page().bytes()),
            false => 0,
        };
        let headers = slots + buffers + frames + of_commits;
        let accesses = headers + accesses_to_complete(config, tables);
        Self {
            slots,
            lines,
            commits: tables.committed().count() as u64,
            scan: config.ssd.dram_latency * accesses + config.ssd.log.lookup * lines,
        }
    }
}

/// Accesses to device DRAM for what frames that are kept lack of their pages, unless it comes from
/// flash: that is a read as at any time.
fn accesses_to_complete(config: &DeviceConfig, tables: &Tables) -> u64 {
    let all = LineMask::full(config.page());
    let mut parts = tables.framed().filter(|(_, kept)| kept.lines != all);
    let Some(first) = parts.next() else { return 0 };
    let mut buffers: BTreeMap<Lpa, WriteOrder> = BTreeMap::new();
    for (_, page) in tables.buffered() {
        let newest = buffers.entry(page.lpa).or_default();
        *newest = page.order.max(*newest);
    }
    let accesses = [first].into_iter().chain(parts).map(|(_, kept)| {
        let lacking = u64::from(all.without(kept.lines).count());
        match buffers.get(&kept.lpa) {
            Some(order) if *order > kept.order => 0,
            Some(_) => 2 * lacking,
            None if tables.place_of(kept.lpa).is_some() => 0,
            None => lacking,
        }
    });
    accesses.sum()
}

/// What is wrong with the line on its way into a frame, if there is one: opening would write it
/// where nothing or something else is.
pub fn incoming_fault(tables: &Tables, was_cut_off: bool) -> Option<String> {
    let (frame, line) = tables.incoming()?;
    let what = match tables.has_frame_line(frame, line) {
        false => "which there is not",
        true if !was_cut_off => "of an image that was closed",
        true => return None,
    };
    Some(format!(
        "line {} of {frame}, {what}, is on its way: the tables are damaged",
        line.get()
    ))
}

/// Checks tables that are about to be changed before the firmware sees them.
///
/// # Errors
/// The tables are damaged.
pub fn check(config: &DeviceConfig, tables: &Tables, dram: &Path) -> Result<(), DeviceFileError> {
    let mut first = None;
    firmware::check_tables(&config.controller(), tables, &mut |unsound| {
        first.get_or_insert(unsound);
    });
    let damaged = |unsound: UnsoundState| DeviceFileError::damaged(dram, unsound.to_string());
    first.map_or(Ok(()), |unsound| Err(damaged(unsound)))
}

/// The first name for a transaction that nothing in the tables has.
pub fn first_free_transaction(tables: &Tables, logged: Logged) -> u32 {
    let committed = tables.committed().map(|(_, tx)| tx.get());
    let last = committed.fold(logged.last, u32::max);
    last.wrapping_add(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;
    use crate::mapped::Mapped;
    use firmware::{BufferId, BufferedPage, KeptFrame, Record};
    use units::{FrameId, LineInPage, Ppa};

    #[test]
    fn what_a_frame_lacks_takes_accesses_to_dram_or_a_read_of_flash() {
        let small = ["nand.blocks_per_plane=64", "ssd.dram=1MiB"];
        let layers = small.map(|set| settings::Layer::assignment(set).expect("it is one"));
        let config = DeviceConfig::of_preset("bytefs-cache", &layers).expect("it is in range");
        let layout = Layout::new(&config);
        let map = Mapped::anonymous(layout.dram_bytes).expect("there is memory");
        let mut tables = Tables::new(map, layout);
        let scan = |tables: &Tables| Recovered::of(&config, tables, Logged::default()).scan;
        let latency = config.ssd.dram_latency;
        let before = scan(&tables);
        let kept = |lpa, order, lines: u16| KeptFrame {
            lpa: Lpa::new(lpa),
            order: WriteOrder::new(order),
            lines: LineMask::from_iter((0..lines).map(LineInPage::new)),
        };
        // Of 64 lines there are all; 60, and the rest is zeroes; 61, and a buffer has the rest.
        let rest_of = [(1, 64, 0), (2, 60, 4), (3, 61, 2 * 3)];
        let buffered = |lpa, order| BufferedPage {
            lpa: Lpa::new(lpa),
            order: WriteOrder::new(order),
        };
        tables.record(Record::Buffered(BufferId::new(0), buffered(3, 1)));
        let mut accesses = 0;
        for (lpa, lines, of_rest) in rest_of {
            let frame = FrameId::new(lpa as u32);
            tables.record(Record::Framed(frame, kept(lpa, 10 + lpa, lines)));
            accesses += of_rest;
            assert_eq!(scan(&tables), before + latency * accesses, "page {lpa}");
        }
        // A buffer that is newer is the page; of what is on flash the rest is read.
        tables.record(Record::Buffered(BufferId::new(1), buffered(3, 20)));
        tables.record(Record::Mapped(Lpa::new(2), Ppa::new(7)));
        assert_eq!(scan(&tables), before);
    }
}
