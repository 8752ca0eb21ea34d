//! How the device is: what a SMART log says (NVMe Base Specification, log page 02h).
//!
//! Wear, retired blocks and spare survive a power cut with the records. Counts are since the power
//! came on; whoever runs the firmware adds what came before, and unsafe shutdowns, of which the
//! firmware cannot know.

use crate::controller::Controller;
use crate::ftl::{Failures, Wear};
use crate::log_index::LogIndex;
use units::Bytes;
use units::address::LINE_BYTES;

/// Share of the spare, in percent, below which a device should be replaced.
pub const SPARE_THRESHOLD: u32 = 10;

/// How the device is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Health {
    /// Room beyond the exported pages that is left, in percent of what flash without a bad block
    /// has; below [`SPARE_THRESHOLD`] the device should be replaced.
    pub available_spare: u32,
    /// So many blocks are lost that nothing more may be written.
    pub is_read_only: bool,
    /// Flash has no room for what has been accepted and nothing makes any: it stays in log and
    /// buffers, and the device is read-only until the power has been off.
    pub is_stuck: bool,
    /// Blocks that are never used again, bad ones from the factory among them.
    pub retired_blocks: u32,
    /// Blocks in which a program has failed: nothing more is written to them, and once they are
    /// empty they are retired.
    pub condemned_blocks: u32,
    /// Blocks of the device.
    pub blocks: u32,
    /// Erases of blocks that serve.
    pub wear: Wear,
    /// Programs, erases and reads that failed; the reads are what SMART calls media errors.
    pub failures: Failures,
    /// Bytes that the host has sent.
    pub host_written: Bytes,
    /// Bytes that have been programmed.
    pub flash_written: Bytes,
    /// Power cuts without a shutdown; zero until the harness says.
    pub unsafe_shutdowns: u64,
}

impl Health {
    /// Mean erases of a block, rounded down.
    pub fn average_wear(&self) -> u64 {
        self.wear.total / u64::from((self.blocks - self.retired_blocks).max(1))
    }

    /// Percent of the erases that blocks are rated for that have been used, on average; may exceed
    /// 100.
    pub fn percentage_used(&self, rated_wear: u32) -> u64 {
        let serving = u64::from((self.blocks - self.retired_blocks).max(1));
        let rated = u128::from(serving) * u128::from(rated_wear.max(1));
        (u128::from(self.wear.total) * 100 / rated) as u64
    }
}

impl<I: LogIndex> Controller<I> {
    /// What has failed since the power came on.
    pub fn failures(&self) -> Failures {
        self.ftl().failures()
    }

    /// How the device is. Walks all blocks.
    pub fn health(&self) -> Health {
        let (stats, ftl) = (self.stats(), self.ftl());
        let stats_of_ftl = ftl.stats();
        let programs = stats_of_ftl.host_programs + stats_of_ftl.gc_programs + stats_of_ftl.padding;
        let page = ftl.geometry().unit_size.bytes();
        Health {
            available_spare: ftl.available_spare(),
            is_read_only: ftl.is_read_only(),
            is_stuck: ftl.is_stuck(),
            retired_blocks: ftl.retired_blocks(),
            condemned_blocks: ftl.condemned_blocks(),
            blocks: ftl.geometry().block_count(),
            wear: ftl.wear(),
            failures: ftl.failures(),
            host_written: LINE_BYTES * (stats.writes + stats.run_lines) + page * stats.page_writes,
            flash_written: page * programs,
            unsafe_shutdowns: 0,
        }
    }
}
