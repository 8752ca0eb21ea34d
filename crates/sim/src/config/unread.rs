//! Which parameters a configuration's design does not read.

use super::{Config, MemoryKind, Migration};
use crate::fabric::samples;
use host::os::SchedulerPolicy;

/// Who moves pages to host DRAM in one way or another.
const MOVERS: &[Migration] = &[Migration::Adaptive, Migration::Tpp, Migration::HostCache];
/// Who moves pages between the device and pages of host DRAM of their own.
const PROMOTERS: &[Migration] = &[Migration::Adaptive, Migration::Tpp];
/// Whose device offers pages.
const OFFERERS: &[Migration] = &[Migration::Adaptive];

/// Parameters of pages that come to host DRAM, and who reads them.
const OF_MIGRATION: &[(&str, &[Migration])] = &[
    ("host.promoted", MOVERS),
    ("host.page_access", MOVERS),
    ("host.page_latency", MOVERS),
    ("host.pinned", MOVERS),
    ("host.inactive_ratio", PROMOTERS),
    ("host.reclaim", PROMOTERS),
    ("host.page_table_cost", PROMOTERS),
    ("host.shootdown_cost", PROMOTERS),
    ("host.migration", PROMOTERS),
    ("host.demotion", PROMOTERS),
    ("host.plb", OFFERERS),
    ("host.reserve", OFFERERS),
    ("host.handler_cost", OFFERERS),
    ("host.migration_batch", OFFERERS),
    ("host.batched_cost", OFFERERS),
    ("host.promoted_dirt", OFFERERS),
    ("host.sets", OFFERERS),
];
/// Parameters of TPP that balancing between nodes shares.
const OF_SCANS: &[&str] = &[
    "tpp.scan_period",
    "tpp.scan_pages",
    "tpp.arm_cost",
    "tpp.fault_cost",
    "tpp.migration_cost",
];
/// Parameters of reads that are answered by SkyByte-Delay.
const OF_SWITCHES: &[&str] = &[
    "os.wake",
    "os.switch_threshold",
    "os.stores_switch",
    "os.delayed_line",
    "os.switch_at",
    "os.squash",
    "ftl.estimator",
    "ssd.delay_answer_cost",
];

impl Config {
    /// Whether the design's mechanisms have a use for the parameter of that key. Only whole
    /// mechanisms are looked at: a key that one value of another key makes idle counts as read. But
    /// for the seed: who repeats a run with others wants other runs.
    pub fn reads(&self, key: &str) -> bool {
        if key == "run.seed" {
            return self.os.scheduler == SchedulerPolicy::Random;
        }
        let design = self.mechanisms();
        if design.memory == MemoryKind::Dram {
            let of_device = [
                "ssd.",
                "ssd_dram.",
                "ftl.",
                "nand.",
                "link.",
                "host.",
                "tpp.",
                "astriflash.",
                "cpu.store_grants",
            ];
            let is_of_device = of_device.iter().any(|section| key.starts_with(section));
            return !is_of_device && !OF_SWITCHES.contains(&key);
        }
        let is_in = |section: &str| key.starts_with(section);
        if is_in("ssd.log.") || is_in("ssd.compaction.") {
            return design.write_log;
        }
        if is_in("ssd.promotion.") {
            return design.migration == Migration::Adaptive;
        }
        if is_in("tpp.") {
            let is_of_scans = OF_SCANS.contains(&key) && samples(self);
            return design.migration == Migration::Tpp || is_of_scans;
        }
        if is_in("astriflash.") {
            return self.design.migration == Migration::HostCache;
        }
        if key == "host.interrupt_latency" {
            // Offers of pages, and notices of those that threads sleep for.
            return design.migration == Migration::Adaptive || design.context_switch;
        }
        if let Some((_, readers)) = OF_MIGRATION.iter().find(|(name, _)| *name == key) {
            return readers.contains(&design.migration);
        }
        !OF_SWITCHES.contains(&key) || design.context_switch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SECTIONS;
    use crate::run::RunSpec;

    fn config(design: &str) -> Config {
        let spec = RunSpec {
            trace: String::new(),
            machine: "demo".to_string(),
            design: design.to_string(),
            nand: None,
            fidelity: Default::default(),
            files: Vec::new(),
            overrides: Vec::new(),
            threads: None,
            is_audited: false,
            mode: crate::run::Mode::Detailed,
        };
        spec.config().expect("a design as it is shipped")
    }

    #[test]
    fn balancing_between_nodes_reads_how_pages_are_scanned() {
        let mut config = config("skybyte-p");
        let reads =
            |config: &Config| ["tpp.scan_period", "tpp.migrations"].map(|key| config.reads(key));
        assert_eq!(reads(&config), [false, false]);
        config.numa.balancing = host::numa::Balancing::HintFaults;
        assert_eq!(reads(&config), [true, false]);
    }

    #[test]
    fn a_design_reads_what_its_mechanisms_need() {
        let cases = [
            (
                "link.bandwidth",
                "base-cssd skybyte-w skybyte-wp skybyte-full skybyte-p skybyte-c skybyte-ct \
                 astriflash-cxl",
            ),
            ("os.wake", "skybyte-full skybyte-c skybyte-ct"),
            (
                "host.interrupt_latency",
                "skybyte-wp skybyte-full skybyte-p skybyte-c skybyte-ct",
            ),
            ("host.plb", "skybyte-wp skybyte-full skybyte-p"),
            ("host.handler_cost", "skybyte-wp skybyte-full skybyte-p"),
            ("host.sets", "skybyte-wp skybyte-full skybyte-p"),
            ("host.batched_cost", "skybyte-wp skybyte-full skybyte-p"),
            (
                "host.shootdown_cost",
                "skybyte-wp skybyte-full skybyte-p skybyte-ct",
            ),
            (
                "host.pinned",
                "skybyte-wp skybyte-full skybyte-p skybyte-ct astriflash-cxl",
            ),
            ("ssd.log.size", "skybyte-w skybyte-wp skybyte-full"),
            ("ssd.compaction.batch", "skybyte-w skybyte-wp skybyte-full"),
            (
                "ssd.promotion.threshold",
                "skybyte-wp skybyte-full skybyte-p",
            ),
            ("os.switch_threshold", "skybyte-full skybyte-c skybyte-ct"),
            ("tpp.scan_period", "skybyte-ct"),
            ("astriflash.ways", "astriflash-cxl"),
            (
                "host.promoted",
                "skybyte-wp skybyte-full skybyte-p skybyte-ct astriflash-cxl",
            ),
        ];
        let designs = "base-cssd skybyte-w skybyte-wp skybyte-full skybyte-p skybyte-c skybyte-ct \
                       astriflash-cxl dram-only";
        for (key, readers) in cases {
            for design in designs.split(' ') {
                let expected = readers.split(' ').any(|reader| reader == design);
                assert_eq!(config(design).reads(key), expected, "{design} {key}");
            }
        }
        assert!(config("base-cssd").reads("nand.t_r"));
        assert!(!config("dram-only").reads("nand.t_r"));
    }

    #[test]
    fn the_seed_is_read_where_threads_are_picked_at_random() {
        for design in ["base-cssd", "skybyte-full", "dram-only"] {
            let mut chosen = config(design);
            for (policy, reads) in [
                (SchedulerPolicy::Cfs, false),
                (SchedulerPolicy::RoundRobin, false),
                (SchedulerPolicy::Random, true),
            ] {
                chosen.os.scheduler = policy;
                assert_eq!(chosen.reads("run.seed"), reads, "{design} {policy:?}");
            }
        }
    }

    #[test]
    fn every_key_that_is_named_is_known() {
        let of_migration = OF_MIGRATION.iter().map(|(key, _)| key);
        for key in of_migration.chain(OF_SWITCHES) {
            let mut known = SECTIONS.iter().flat_map(|(_, keys)| keys.iter());
            assert!(known.any(|known| known.key == *key), "{key}");
        }
    }
}
