//! What the controller takes from its configuration once.

use crate::config::{
    BlockWriteAck, CachePolicy, CompactionLaunch, ControllerConfig, LogTakes, MissAnswer,
};
use units::{Bytes, LineMask, PageSize, Picos};

/// What does not change in a run, taken from the configuration.
#[derive(Clone)]
pub(super) struct Constants {
    pub(super) page: PageSize,
    pub(super) all_lines: LineMask,
    /// The data cache lies behind the log in device DRAM.
    pub(super) frames_base: Bytes,
    /// The TxLog lies between the two.
    pub(super) tx_log_base: Bytes,
    /// The window lies behind everything else.
    pub(super) window_base: Bytes,
    /// Pages only pass through the data cache.
    pub(super) keeps_nothing: bool,
    pub(super) block_write_ack: BlockWriteAck,
    /// A cached page takes its writes alone: the log has those of absent pages, and lines of pages
    /// that left.
    pub(super) frames_take_writes: bool,
    /// Most dirty lines of a page that go to the log when it leaves.
    pub(super) sparse: u32,
    pub(super) miss_answer: MissAnswer,
    /// What the log has at least, where the rest lies in frames.
    pub(super) log_least: Bytes,
    pub(super) log_entry: Bytes,
    /// Lines of a half of the log that has all of its size.
    pub(super) log_half_slots: u32,
    pub(super) launch: CompactionLaunch,
    /// Buffers that compaction leaves free.
    pub(super) leaves: usize,
    /// What a flush takes beyond what it waits for.
    pub(super) flush_cost: Picos,
    /// Dirty frames survive a power cut.
    pub(super) keeps_frames: bool,
}

impl Constants {
    pub(super) fn new(config: &ControllerConfig) -> Self {
        let ssd = &config.ssd;
        Self {
            page: config.geometry.unit_size,
            all_lines: LineMask::full(config.geometry.unit_size),
            frames_base: ssd.log.beside_frames() + ssd.log.tx_log,
            tx_log_base: ssd.log.size,
            window_base: ssd.dram,
            keeps_nothing: ssd.cache.policy == CachePolicy::None,
            block_write_ack: ssd.block_write_ack,
            frames_take_writes: takes_writes(config),
            sparse: ssd.log.sparse,
            miss_answer: ssd.miss_answer,
            log_least: ssd.log.least,
            log_entry: ssd.log.entry,
            log_half_slots: u32::try_from(ssd.log.half_slot_count()).expect("validated"),
            launch: ssd.compaction.launch,
            leaves: ssd.compaction.leaves as usize,
            flush_cost: match ssd.power_loss_protection.keeps_buffers() {
                true => Picos::ZERO,
                false => ssd.flush_cost,
            },
            keeps_frames: ssd.power_loss_protection.keeps_frames(),
        }
    }
}

/// Whether frames of a device with a log take writes that the log then has not.
pub(super) fn takes_writes(config: &ControllerConfig) -> bool {
    config.ssd.log.takes == LogTakes::Absent && config.ssd.log.half_slot_count() > 0
}
