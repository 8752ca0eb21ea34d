//! Parameters of the FTL.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use units::{FlashGeometry, Picos, Ratio};

/// When and how much garbage collection runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GcKind {
    /// Per die, a few pages at a time, while it has fewer free blocks than `gc_start_blocks`.
    Incremental,
    /// The whole device at once: beyond `gc_threshold` of its blocks in use, erase
    /// `gc_bulk_blocks` (SkyByte Table II).
    Bulk,
}

/// Whose queue Algorithm 1 adds up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EstimatorKind {
    /// The channel's, as the paper writes it.
    Channel,
    /// The die's, which is what the page really waits for.
    Die,
}

units::parameters! {
    /// Flash translation layer: space, preconditioning, garbage collection, delay estimate.
    pub struct FtlConfig: "ftl" {
        /// Share of the raw flash that is not exported.
        over_provisioning: Ratio, "above 0% and below 100%; leaves each die gc_start_blocks + 3 blocks or more", "D18; SkyByte gives none, 12.5% is usual";
        /// Share of the exported pages that hold data at the start, from page 0 up.
        fill: Ratio, "0% to 100%", "D18: a device in use";
        /// Share of the filled pages that was overwritten before the start; their old copies still
        /// occupy blocks, up to where GC would have reclaimed them.
        overwritten: Ratio, "0% or more", "D18; SkyByte §VI-A preconditions so that GC is triggered, without a number";
        /// How GC is scheduled.
        gc: GcKind, "incremental or bulk", "D18: the bulk policy of Table II cannot run within milliseconds";
        /// Incremental: GC of a die runs while it has fewer free blocks than this.
        gc_start_blocks: u32, "at least 2", "ours: one block for GC, one for the host";
        /// Pages that GC of one die has in flight beside host work.
        gc_pages: u32, "at least 1", "ours: bounds the delay of a host read to a few operations";
        /// Pages that GC of one die has in flight when host programs wait for it.
        gc_foreground_pages: u32, "at least gc_pages", "ours";
        /// Buffers that GC of all dies share, a page each.
        gc_buffers: u32, "at least 1", "ours";
        /// Work of a firmware core per relocated page.
        gc_page_cost: Picos, "any", "D16; no value in the paper";
        /// Bulk: GC starts beyond this share of blocks in use.
        gc_threshold: Ratio, "above fill × exported share, at most 100%", "SkyByte Table II";
        /// Bulk: blocks that one GC erases, spread evenly over the dies.
        gc_bulk_blocks: u32, "at least 1", "SkyByte Table II";
        /// Whose queue the delay estimate adds up.
        estimator: EstimatorKind, "channel or die", "SkyByte Algorithm 1; D14";
    }
}

impl FtlConfig {
    /// Everything wrong with the parameters on this flash, one sentence each.
    pub fn validate(&self, geometry: &FlashGeometry) -> Vec<String> {
        let _ = geometry;
        let mut problems = Vec::new();
        if self.gc_start_blocks < 2 {
            problems.push(format!(
                "ftl.gc_start_blocks is {}; it must be at least 2",
                self.gc_start_blocks
            ));
        }
        problems
    }
}
