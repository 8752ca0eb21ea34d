//! What the controller takes from its configuration once.

use crate::config::{
    BlockWriteAck, CachePolicy, CleanVictims, ControllerConfig, Cost, PowerLossProtection,
    PromotionCounts, VictimOrder,
};
use crate::ftl::EstimatorKind;
use units::address::LINE_BYTES;
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
    pub(super) log_lookup: Picos,
    pub(super) cache_lookup: Picos,
    pub(super) read_occupancy: Picos,
    pub(super) write_occupancy: Picos,
    /// What the SkyByte-Delay answer takes.
    pub(super) delay_answer_cost: Picos,
    /// A write to the log waits for the lookups.
    pub(super) write_lookup_charged: bool,
    /// A write to the log updates and touches the page in the data cache.
    pub(super) log_write_updates_cache: bool,
    /// Log lines merged into a page that comes occupy device DRAM.
    pub(super) merge_charged: bool,
    /// Clean pages that leave the data cache are programmed.
    pub(super) programs_clean_victims: bool,
    /// Pages that leave for another one are sent to flash behind the read of that one.
    pub(super) victims_go_behind: bool,
    pub(super) buffer_hits: bool,
    /// Pages only pass through the data cache.
    pub(super) keeps_nothing: bool,
    pub(super) compaction_page_cost: Picos,
    /// Compaction's copies occupy device DRAM.
    pub(super) compaction_copies_charged: bool,
    pub(super) compaction_batch: u32,
    pub(super) prefetch_pages: u32,
    pub(super) prefetch_on_first_use: bool,
    pub(super) prefetch_reserve: usize,
    pub(super) block_write_ack: BlockWriteAck,
    /// Buffers survive when the power goes.
    pub(super) is_protected: bool,
    /// What a flush takes beyond what it waits for.
    pub(super) flush_cost: Picos,
    /// None: SkyByte-Delay is not used.
    pub(super) delay_threshold: Option<Picos>,
    /// The flash is asked when a page will come.
    pub(super) knows_ends: bool,
    /// What remains is too long if it is longer than the threshold less this.
    pub(super) delay_margin: Picos,
    /// None: pages are not offered to the host.
    pub(super) promotion_threshold: Option<u32>,
    /// Only what the data cache serves at once makes a page hot.
    pub(super) only_hits_count: bool,
}

impl Constants {
    pub(super) fn new(config: &ControllerConfig) -> Self {
        let ssd = &config.ssd;
        Self {
            page: config.geometry.page_size,
            all_lines: LineMask::full(config.geometry.page_size),
            frames_base: ssd.write_log + ssd.tx_log,
            tx_log_base: ssd.write_log,
            log_lookup: ssd.log_lookup,
            cache_lookup: ssd.cache_lookup,
            read_occupancy: ssd.read_rate.time_for(LINE_BYTES),
            write_occupancy: ssd.write_rate.time_for(LINE_BYTES),
            delay_answer_cost: ssd.delay_answer_cost,
            write_lookup_charged: ssd.write_lookup == Cost::Charged,
            log_write_updates_cache: ssd.log_write_updates_cache,
            merge_charged: ssd.merge_on_fill == Cost::Charged,
            victims_go_behind: ssd.victim_order == VictimOrder::BehindRead,
            programs_clean_victims: ssd.clean_victims == CleanVictims::Program
                && ssd.half_slot_count() == 0,
            buffer_hits: ssd.buffer_hits,
            keeps_nothing: ssd.cache_policy == CachePolicy::None,
            compaction_page_cost: ssd.compaction_page_cost,
            compaction_copies_charged: ssd.compaction_copies == Cost::Charged,
            compaction_batch: ssd.compaction_batch,
            prefetch_pages: ssd.prefetch_pages,
            prefetch_on_first_use: ssd.prefetch_on_first_use,
            prefetch_reserve: ssd.prefetch_reserve as usize,
            block_write_ack: ssd.block_write_ack,
            is_protected: ssd.power_loss_protection == PowerLossProtection::Battery,
            flush_cost: match ssd.power_loss_protection {
                PowerLossProtection::Battery => Picos::ZERO,
                PowerLossProtection::None => ssd.flush_cost,
            },
            delay_threshold: config.delay_enabled.then_some(config.switch_threshold),
            knows_ends: config.delay_enabled && config.ftl.estimator == EstimatorKind::Exact,
            delay_margin: match config.ftl.estimator {
                EstimatorKind::Exact => Picos::new(1),
                EstimatorKind::Channel | EstimatorKind::Die => Picos::ZERO,
            },
            promotion_threshold: config.promotion_enabled.then_some(ssd.promotion_threshold),
            only_hits_count: ssd.promotion_counts == PromotionCounts::CacheHits,
        }
    }
}
