//! What compaction of the log costs: section `ssd.compaction`.

use super::{Cost, check};
use alloc::string::String;
use units::Picos;

units::parameters! {
    /// Compaction of the write log.
    pub struct CompactionConfig: "ssd.compaction" {
        /// Work of a firmware core per compacted page.
        page_cost: Picos, "at most 1ms", "ours; the paper gives none (D16)";
        /// Whether compaction's copies between log, data cache and buffers occupy device DRAM.
        copies: Cost, "charged or free", "SkyByte III-B (charged); its artifact: free";
        /// Pages that compaction may have in flight at one time.
        batch: u32, "1 to 65536", "ours; SkyByte III-B batches without a number";
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
