//! The engine of a device without the bytes.

use device::DeviceConfig;
use soc::EngineConfig;

/// The host's side of a device of this configuration that has bytes nowhere.
pub fn host(config: &DeviceConfig) -> EngineConfig {
    EngineConfig {
        link: config.device.link(),
        page: config.page(),
        capacity: config.capacity(),
        pmem: config.device.pmem,
        has_log: true,
        has_battery: true,
        keeps_frames: false,
        transactions: config.device.transactions,
        next_transaction: 1,
        no_transactions: None,
        operations_at_a_time: 256,
        block: Some(config.device.block),
    }
}
