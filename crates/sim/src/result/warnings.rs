//! What the reader must know before believing a difference (D5): mechanisms that could not show
//! what they are worth.

use super::View;
use crate::config::{Config, MemoryKind, Migration};
use host::{Balancing, SimulatedThread};

impl<S: SimulatedThread> View<'_, S> {
    /// Of the run's mechanisms: what did not act.
    pub(super) fn idle_mechanisms(&self) -> Vec<String> {
        let design = self.config.mechanisms();
        let c = &self.totals.controller;
        let placement = self.simulation.fabric.placement.stats();
        let mut warnings = Vec::new();
        let mut warn = |applies: bool, text: &str| {
            if applies {
                warnings.push(text.to_string());
            }
        };
        let is_ssd = self.simulation.fabric.device.is_some();
        // Nobody knows what a device of its own does inside.
        let is_known = is_ssd && self.simulation.fabric.in_loop.believed().is_none();
        warn(
            is_known && design.write_log && c.log_fills == 0,
            "the write log never filled: its effect on flash writes is not visible in this run",
        );
        warn(
            is_known && self.totals.ftl.gc_victims == 0,
            "garbage collection never ran: its effect is not visible in this run",
        );
        warn(
            is_ssd && design.migration == Migration::Tpp && self.hints().scans == 0,
            "the operating system never scanned, so TPP found no hot page: the run is shorter than \
             tpp.scan_period, or tpp.scan_pages is 0",
        );
        warn(
            is_ssd && design.migration == Migration::HostCache && self.host_cache().fills == 0,
            "no page came to the page cache in host DRAM: its effect is not visible in this run",
        );
        warn(
            is_ssd && self.simulation.fabric.stats.persisted_in_host > 0,
            "cache lines were written back to pages in host DRAM, which a loss of power takes away: \
             pin those pages to the device (host.pinned)",
        );
        let is_promoting = matches!(design.migration, Migration::Adaptive | Migration::Tpp);
        warn(
            is_ssd && is_promoting && placement.promotions == 0,
            "no page was promoted: the effect of page migration is not visible in this run",
        );
        warn(
            self.config.numa.balancing != Balancing::None && placement.moves == 0,
            "no page moved between nodes: the effect of numa.balancing is not visible in this run",
        );
        warn(
            is_ssd && design.context_switch && self.simulation.switches.long_delay == 0,
            "no coordinated context switch happened: its effect is not visible in this run",
        );
        warn(
            is_ssd && self.cold_miss_share_milli() > 500,
            "more than half of the flash fetches were first touches, which no cache could serve",
        );
        warnings
    }

    /// A design that switches threads, and nobody to switch to.
    pub(super) fn lonely_threads(&self, threads: usize) -> Option<String> {
        let switches = self.simulation.switches.long_delay;
        let cores = self.config.cpu.cores;
        (threads <= cores as usize && switches > 0).then(|| {
            format!(
                "{threads} threads on {cores} cores: none of the {switches} coordinated context \
                 switches found another thread to run; run more threads than cores"
            )
        })
    }
}

/// A program that is too small for what is to be seen.
pub(super) fn small_programs(config: &Config, pages: u64) -> Vec<String> {
    let design = config.mechanisms();
    if design.memory == MemoryKind::Dram {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    let ssd = &config.controller().ssd;
    // The program's pages are of 4 KiB, those of the cache of the device.
    let unit = config.ftl.mapping_unit.bytes();
    let frames = ssd.frame_count(unit) * (unit.get() / 4096);
    if pages <= frames {
        warnings.push(format!(
            "all {pages} pages of the program fit in the {frames} of the device's data cache: once \
             touched, none is read from flash again; take a larger capture or less ssd.dram"
        ));
    }
    let promoted = config.host.promoted.get() / 4096;
    if design.migration != Migration::None && pages <= promoted {
        warnings.push(format!(
            "all {pages} pages of the program fit in the {promoted} that host.promoted has room \
             for: no page has to leave host DRAM again"
        ));
    }
    warnings
}
