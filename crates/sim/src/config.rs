//! The configuration of a run: layered TOML, every key known, every value in its range (D22).
//!
//! Layers, later ones win: the machine's base, the machine, the NAND type, the design, the fidelity
//! switches, the user's files, `--set`. Each layer is a TOML text of `section.key = value`; a key
//! that no section declares is an error that names the layer. The effective values identify the
//! run by their digest.

pub mod fidelity;
mod papers;
pub mod presets;
mod sections;
#[cfg(test)]
mod tests;
mod unread;

pub use fidelity::Fidelity;
pub use sections::{
    DesignConfig, MemoryKind, Migration, OtherPages, RunConfig, WarmAccesses, WarmCounts,
};
pub use settings::{Layer, values};

use crate::error::SimError;
use serde::{Deserialize, Serialize};
use settings::Known;
use units::parameter::{Sections, Texts};

/// Every parameter of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The run itself.
    pub run: RunConfig,
    /// What the design consists of.
    pub design: DesignConfig,
    /// Cores and caches.
    pub cpu: host::CpuConfig,
    /// The scheduler.
    pub os: host::os::OsConfig,
    /// Promoted pages and what migration costs.
    pub host: host::placement::HostConfig,
    /// Sampling and migration by the operating system.
    pub tpp: host::placement::TppConfig,
    /// Host DRAM as a page cache.
    pub astriflash: host::placement::AstriflashConfig,
    /// Nodes.
    pub numa: host::NumaConfig,
    /// Host DRAM timing.
    pub host_dram: dram::HostDramConfig,
    /// The CXL link.
    pub link: cxl::LinkConfig,
    /// The device's DRAM management.
    pub ssd: firmware::SsdConfig,
    /// Device DRAM timing.
    pub ssd_dram: dram::SsdDramConfig,
    /// The flash translation layer.
    pub ftl: firmware::FtlConfig,
    /// The flash.
    pub nand: nand::NandConfig,
}

/// The sections, in the order of the reference page.
pub const KNOWN: Known = settings::known! {
    "run": RunConfig,
    "design": DesignConfig,
    "cpu": host::CpuConfig,
    "os": host::os::OsConfig,
    "host": host::placement::HostConfig,
    "tpp": host::placement::TppConfig,
    "astriflash": host::placement::AstriflashConfig,
    "numa": host::NumaConfig,
    "host_dram": dram::HostDramConfig,
    "link": cxl::LinkConfig,
    "ssd": firmware::SsdConfig,
    "ssd.log": firmware::LogConfig,
    "ssd.cache": firmware::CacheConfig,
    "ssd.prefetch": firmware::PrefetchConfig,
    "ssd.compaction": firmware::CompactionConfig,
    "ssd.promotion": firmware::PromotionConfig,
    "ssd_dram": dram::SsdDramConfig,
    "ftl": firmware::FtlConfig,
    "nand": nand::NandConfig,
    "nand.empirical": nand::EmpiricalConfig,
}
.renamed(firmware::RENAMED);
/// The sections with the documentation of their parameters.
pub const SECTIONS: &Sections = KNOWN.sections;

impl Config {
    /// The effective configuration of some layers.
    ///
    /// # Errors
    /// A layer that is not TOML, an unknown key, a value of the wrong kind or out of range; all
    /// problems of a stage are reported together.
    pub fn from_layers(layers: &[Layer]) -> Result<Self, SimError> {
        Self::checked(layers, true)
    }

    /// As [`Config::from_layers`], for a device that is run without a host: what only a host needs
    /// is not asked for.
    ///
    /// # Errors
    /// As [`Config::from_layers`].
    pub fn of_device(layers: &[Layer]) -> Result<Self, SimError> {
        Self::checked(layers, false)
    }

    fn checked(layers: &[Layer], has_host: bool) -> Result<Self, SimError> {
        let config: Self = KNOWN.configuration(layers)?;
        let mut problems = config.validate();
        if has_host {
            problems.extend(config.beyond_the_sections());
        }
        if problems.is_empty() {
            Ok(config)
        } else {
            Err(SimError::Config(problems))
        }
    }

    /// The effective values as TOML with sorted keys: the canonical text.
    pub fn to_toml(&self) -> String {
        settings::to_toml(self)
    }

    /// Identifies the effective values.
    pub fn digest(&self) -> String {
        blake3::hash(self.to_toml().as_bytes()).to_hex()[..16].to_string()
    }

    /// The values as text, by section and key, in the order of declaration.
    pub fn texts(&self) -> Texts {
        KNOWN.texts(self)
    }

    /// The design as it is simulated. A page cache that is filled by hotness is adaptive migration
    /// into sets, with the coordinated context switch.
    pub fn mechanisms(&self) -> DesignConfig {
        let mut design = self.design.clone();
        let is_by_hotness = self.astriflash.fill == host::placement::FillPolicy::Hotness;
        if design.migration == Migration::HostCache && is_by_hotness {
            design.migration = Migration::Adaptive;
            design.context_switch = true;
        }
        design
    }

    /// The pages that are moved to host DRAM: those that the operating system maps, or whatever a
    /// design moves that has nothing to do with them.
    pub(crate) fn moved_page(&self) -> host::MappedPage {
        match self.mechanisms().migration {
            Migration::Adaptive => self.cpu.page_size,
            _ => host::MappedPage::Kib4,
        }
    }

    /// Pages in a set of host DRAM, if a page may not be in any.
    pub fn host_ways(&self) -> Option<u32> {
        if self.design.migration == Migration::HostCache {
            return Some(self.astriflash.ways);
        }
        let is_small = self.cpu.page_size == host::MappedPage::Kib4;
        let pages = self.host.host_page_count(self.ftl.mapping_unit);
        (self.host.sets > 0 && is_small).then(|| (pages / self.host.sets).max(1))
    }

    /// How the flash is organised, in the units of the device's FTL.
    pub fn geometry(&self) -> units::FlashGeometry {
        self.nand.geometry(self.ftl.mapping_unit)
    }

    /// What the device's controller is told: without the log if the design has none, and so on.
    pub fn controller(&self) -> firmware::ControllerConfig {
        let mut ssd = self.ssd.clone();
        if !self.design.write_log {
            ssd.log.size = units::Bytes::ZERO;
        } else {
            let share =
                |size: units::Bytes| units::Bytes::new(self.ssd.log.design_share.of(size.get()));
            (ssd.dram, ssd.log.size) = (share(ssd.dram), share(ssd.log.size));
        }
        firmware::ControllerConfig {
            ssd,
            delay_enabled: self.mechanisms().context_switch,
            promotion_enabled: self.mechanisms().migration == Migration::Adaptive,
            ftl: self.ftl.clone(),
            geometry: self.geometry(),
            timing: self.nand.timing(),
            switch_threshold: self.os.switch_threshold,
        }
    }

    /// Everything that is out of range, as sentences.
    fn validate(&self) -> Vec<String> {
        let mut problems = self.run.validate();
        problems.extend(self.cpu.validate());
        problems.extend(self.os.validate());
        problems.extend(self.host.validate(self.moved_page().bytes()));
        problems.extend(self.tpp.validate());
        if self.design.migration == Migration::HostCache {
            let page = units::PageSize::KIB_4;
            problems.extend(self.astriflash.validate(self.host.promoted, page));
        }
        problems.extend(self.host_dram.validate());
        problems.extend(self.link.validate());
        problems.extend(self.ssd_dram.validate());
        if self.ssd.log.index == firmware::LogIndexKind::SkipList {
            problems.push(
                "ssd.log.index is skip_list, which is for devices; of a simulated one only \
                 ssd.log.lookup tells: set that"
                    .to_string(),
            );
        }
        let nand_problems = self.nand.validate();
        if nand_problems.is_empty() {
            problems.extend(self.controller().validate());
        }
        problems.extend(nand_problems);
        problems
    }

    /// What is not simulated with huge pages.
    fn huge_page_problems(&self) -> Option<String> {
        let is_huge = self.cpu.page_size == host::MappedPage::Mib2;
        let what = match self.mechanisms().migration {
            _ if !is_huge || self.design.memory == MemoryKind::Dram => return None,
            Migration::Tpp => "design.migration = tpp moves pages of 4KiB only",
            Migration::Adaptive if self.host_ways().is_some() => {
                "astriflash.fill = hotness has sets of pages of 4KiB only"
            }
            Migration::Adaptive if self.numa.nodes > 1 => {
                "numa.nodes above 1 splits host DRAM into pages of 4KiB only"
            }
            _ => return None,
        };
        Some(format!(
            "cpu.page_size is 2MiB, but {what}; take --set cpu.page_size=4KiB, or a design of \
             adaptive migration on one node"
        ))
    }

    /// Pages that have a set of host DRAM, and with it no choice of a node.
    fn set_problems(&self) -> Option<String> {
        let moves_pages = match self.mechanisms().migration {
            Migration::Adaptive | Migration::Tpp => true,
            Migration::None | Migration::HostCache => false,
        };
        if self.numa.nodes <= 1 || !moves_pages || self.host_ways().is_none() {
            return None;
        }
        let (what, instead) = match self.design.migration {
            Migration::HostCache => ("astriflash.fill = hotness", "astriflash.fill=on_demand"),
            _ => ("host.sets above 0", "host.sets=0"),
        };
        Some(format!(
            "numa.nodes is {}, but {what} gives each page a set of host DRAM, whatever its node; \
             take --set numa.nodes=1, or --set {instead}",
            self.numa.nodes
        ))
    }

    /// Scans and hint faults that leave no core any time, so that the run would never end.
    fn sampling_problems(&self) -> Vec<String> {
        if !crate::fabric::samples(self) || self.tpp.scan_pages == 0 {
            return Vec::new();
        }
        let mut problems = Vec::new();
        let (scan, slice) = (self.tpp.scan_period, self.os.time_slice);
        let (fault, shootdown) = (self.tpp.fault_cost, self.host.shootdown_cost);
        if scan <= shootdown {
            problems.push(format!(
                "tpp.scan_period is {scan}, all of which the shootdown of a scan takes from every \
                 core (host.shootdown_cost = {shootdown}); scan less often"
            ));
        }
        if scan.max(slice) <= fault {
            problems.push(format!(
                "tpp.scan_period is {scan} and os.time_slice {slice}; one must be longer than \
                 tpp.fault_cost = {fault}, or a page is sampled again before its access is done"
            ));
        }
        problems
    }

    /// What no section can know alone.
    fn beyond_the_sections(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.ftl.mapping_unit != units::PageSize::KIB_4 {
            problems.push(format!(
                "ftl.mapping_unit is {}; the simulated host has pages of 4KiB and those of the \
                 device's logical space must be as large",
                self.ftl.mapping_unit
            ));
        }
        problems.extend(self.numa.validate(&[
            ("cpu.cores", u64::from(self.cpu.cores), "cores"),
            (
                "host_dram.channels",
                u64::from(self.host_dram.channels),
                "channels",
            ),
            (
                "host.promoted",
                self.host.promoted / units::PageSize::KIB_4.bytes(),
                "pages",
            ),
        ]));
        problems.extend(self.huge_page_problems());
        problems.extend(self.set_problems());
        problems.extend(self.sampling_problems());
        if self.design.migration != Migration::None && self.host.promoted.is_zero() {
            problems.push(
                "host.promoted is 0B, but the design moves hot pages to host DRAM; give it a size \
                 or take --set design.migration=none"
                    .to_string(),
            );
        }
        problems
    }
}
