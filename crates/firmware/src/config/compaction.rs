//! What compaction of the log costs: section `ssd.compaction`.

use super::{Cost, check};
use alloc::string::String;
use serde::{Deserialize, Serialize};
use units::Picos;

/// Which lines of a page compaction takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactionTakes {
    /// Those of the sealed half.
    SealedHalf,
    /// Those of both halves: a page that both have is programmed once.
    BothHalves,
}

/// When compaction takes up a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactionLaunch {
    /// As soon as the batch and the buffers have room.
    AtOnce,
    /// When there is also a die with nothing to do (`ftl.program_to`: which die takes its program).
    IdleDies,
    /// When the page before it is on flash: one at a time.
    Sequential,
    /// When all pages of the batch before are on flash: a batch at a time, over all channels.
    ChannelParallel,
}

units::parameters! {
    /// Compaction of the write log.
    pub struct CompactionConfig: "ssd.compaction" {
        /// Work of a firmware core per compacted page.
        page_cost: Picos, "at most 1ms", "ours; the paper gives none (D16)";
        /// Whether compaction's copies between log, data cache and buffers occupy device DRAM.
        copies: Cost, "charged or free", "SkyByte III-B (charged); its artifact: free";
        /// Pages that compaction may have in flight at one time.
        batch: u32, "1 to 65536, and never more at a time than ssd.buffers less leaves", "ours; SkyByte III-B batches without a number";
        /// Page buffers that compaction leaves to pages that go to flash otherwise: with 0 it may
        /// hold all of them, and a page that leaves the data cache then waits for a program.
        leaves: u32, "0 or more, below ssd.buffers", "ours (0): the papers say of no reserve";
        /// Which lines of a page it takes: those of the half that is being compacted, or newer ones
        /// of the other half too, so that the page need not be programmed again for them.
        takes: CompactionTakes, "sealed_half or both_halves", "SkyByte III-B (sealed_half); both_halves is ours";
        /// When it takes a page up: as soon as batch and buffers have room; when a die has nothing
        /// to do besides; when the page before is on flash; or a batch at a time, when that before
        /// is on flash.
        launch: CompactionLaunch, "at_once, idle_dies, sequential or channel_parallel", "SkyByte III-B (at_once); OpenCXD V-D (sequential, channel_parallel); idle_dies is ours";
    }
}

impl CompactionConfig {
    /// Every parameter that is out of range, as a sentence.
    pub(super) fn validate(&self) -> impl Iterator<Item = String> {
        [
            check::work("ssd.compaction.page_cost", self.page_cost),
            check::number("ssd.compaction.batch", self.batch, 1, 65_536),
        ]
        .into_iter()
        .flatten()
    }
}
