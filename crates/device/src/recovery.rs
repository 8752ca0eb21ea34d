//! What a power cut has left in an image, before the firmware sees it.

use crate::config::DeviceConfig;
use crate::error::DeviceFileError;
use crate::tables::Tables;
use firmware::{Durable, UnsoundState};
use std::path::Path;
use units::Picos;
use units::address::LINE_BYTES;

/// What opening an image takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recovered {
    /// Slots of the write log, whose headers are read.
    pub slots: u64,
    /// Lines among them that a record vouches for, committed or not.
    pub lines: u64,
    /// Commits in the log of transactions.
    pub commits: u64,
    /// Accounted time: an access to device DRAM for each header of a slot or buffer and for each
    /// line of 64 B of the TxLog, and an access to the index for each line.
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
        let read = config.ssd.dram_latency * (slots + buffers + frames + of_commits);
        Self {
            slots,
            lines,
            commits: tables.committed().count() as u64,
            scan: read + config.ssd.log.lookup * lines,
        }
    }
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
