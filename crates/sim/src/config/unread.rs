//! Which parameters a configuration's design does not read.

use super::{Config, MemoryKind, Migration};

/// Parameters of pages that come to host DRAM. `host.interrupt_latency` is also that of other
/// messages.
const OF_MIGRATION: &[&str] = &[
    "host.promoted",
    "host.reserve",
    "host.inactive_ratio",
    "host.plb",
    "host.handler_cost",
    "host.page_table_cost",
    "host.shootdown_cost",
    "host.migration_batch",
    "host.batched_cost",
    "host.migration",
    "host.promoted_dirt",
    "host.demotion",
    "host.reclaim",
    "host.sets",
    "host.page_access",
    "host.page_latency",
];
/// Parameters of reads that are answered by SkyByte-Delay.
const OF_SWITCHES: &[&str] = &[
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
    /// mechanisms are looked at: a key that one value of another key makes idle counts as read.
    pub fn reads(&self, key: &str) -> bool {
        let design = self.mechanisms();
        if design.memory == MemoryKind::Dram {
            let of_device = [
                "ssd.",
                "ssd_dram.",
                "ftl.",
                "nand.",
                "tpp.",
                "astriflash.",
                "cpu.store_grants",
            ];
            let is_of_device = of_device.iter().any(|section| key.starts_with(section));
            return !is_of_device && !OF_MIGRATION.contains(&key) && !OF_SWITCHES.contains(&key);
        }
        let is_in = |section: &str| key.starts_with(section);
        if is_in("ssd.log.") || is_in("ssd.compaction.") {
            return design.write_log;
        }
        if is_in("ssd.promotion.") {
            return design.migration == Migration::Adaptive;
        }
        if is_in("tpp.") {
            return design.migration == Migration::Tpp;
        }
        if is_in("astriflash.") {
            return self.design.migration == Migration::HostCache;
        }
        if OF_MIGRATION.contains(&key) {
            return design.migration != Migration::None;
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
    fn a_design_reads_what_its_mechanisms_need() {
        let cases = [
            ("ssd.log.size", "skybyte-w skybyte-wp skybyte-full"),
            ("ssd.compaction.batch", "skybyte-w skybyte-wp skybyte-full"),
            (
                "ssd.promotion.threshold",
                "skybyte-wp skybyte-full skybyte-p",
            ),
            ("os.switch_threshold", "skybyte-full skybyte-c"),
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
                let is_reader = readers.split(' ').any(|reader| reader == design);
                let is_switching_tpp = key == "os.switch_threshold" && design == "skybyte-ct";
                let expected = is_reader || is_switching_tpp;
                assert_eq!(config(design).reads(key), expected, "{design} {key}");
            }
        }
        assert!(config("base-cssd").reads("nand.t_r") && config("base-cssd").reads("run.seed"));
        assert!(!config("dram-only").reads("nand.t_r"));
    }

    #[test]
    fn every_key_that_is_named_is_known() {
        for key in OF_MIGRATION.iter().chain(OF_SWITCHES) {
            let mut known = SECTIONS.iter().flat_map(|(_, keys)| keys.iter());
            assert!(known.any(|known| known.key == *key), "{key}");
        }
    }
}
