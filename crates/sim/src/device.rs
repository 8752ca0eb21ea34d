//! The simulated device: the controller of `soc` without bytes, as a configuration describes it.

use crate::config::{Config, OtherPages};
use firmware::{Controller, DramAccess, DramOrder, EstimatorKind, FirstWrite, WorkCosts};
use host::os::WakePolicy;
use soc::{NoBytes, ResourceConfig, Soc};
use units::{Lpa, PageSize, Time};

/// Firmware, flash, device DRAM and firmware cores.
pub type Device = Soc<Controller, NoBytes>;

/// Its resources.
pub type Resources = soc::Resources<NoBytes>;

/// A preconditioned device with empty DRAM.
pub fn of_config(config: &Config) -> Device {
    Soc {
        controller: Controller::new(&config.controller()),
        resources: resources(config),
    }
}

/// Idle resources.
pub fn resources(config: &Config) -> Resources {
    let resources = ResourceConfig {
        nand: &config.nand,
        mapping_unit: config.ftl.mapping_unit,
        dram: config.ssd_dram.spec(),
        dram_latency: (config.ssd.dram_access == DramAccess::Constant)
            .then_some(config.ssd.dram_latency),
        lines_first: config.ssd.dram_order == DramOrder::LinesFirst,
        firmware_cores: config.ssd.firmware_cores,
        work: WorkCosts::new(&config.ssd, &config.ftl),
        interrupt_latency: config.host.interrupt_latency,
        tells_pages: config.os.wake == WakePolicy::OnData,
        forecasts: config.ftl.estimator == EstimatorKind::Exact,
        faults: None,
        now: Time::ZERO,
    };
    Resources::new(resources, NoBytes)
}

/// An idle device for a program of `page_count` pages of 4 KiB.
pub fn for_pages(config: &Config, page_count: u64) -> Device {
    let mut device = of_config(config);
    let size = config.ftl.mapping_unit.bytes() / PageSize::KIB_4.bytes();
    let behind = Lpa::new(page_count.div_ceil(size));
    if config.ftl.first_write == FirstWrite::BehindPages {
        device.controller.start_programs_behind(behind);
    }
    match config.run.other_pages {
        OtherPages::None => {}
        OtherPages::Clean => device.controller.fill_cache_behind(behind, false),
        OtherPages::Dirty => device.controller.fill_cache_behind(behind, true),
    }
    device
}
