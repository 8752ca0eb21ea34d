//! What the controller takes from its configuration once.

use crate::config::{BlockWriteAck, CachePolicy, ControllerConfig, PowerLossProtection};
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
    /// Pages only pass through the data cache.
    pub(super) keeps_nothing: bool,
    pub(super) block_write_ack: BlockWriteAck,
    /// What a flush takes beyond what it waits for.
    pub(super) flush_cost: Picos,
}

impl Constants {
    pub(super) fn new(config: &ControllerConfig) -> Self {
        let ssd = &config.ssd;
        Self {
            page: config.geometry.unit_size,
            all_lines: LineMask::full(config.geometry.unit_size),
            frames_base: ssd.log.size + ssd.log.tx_log,
            tx_log_base: ssd.log.size,
            keeps_nothing: ssd.cache.policy == CachePolicy::None,
            block_write_ack: ssd.block_write_ack,
            flush_cost: match ssd.power_loss_protection {
                PowerLossProtection::Battery => Picos::ZERO,
                PowerLossProtection::None => ssd.flush_cost,
            },
        }
    }
}
