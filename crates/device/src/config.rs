//! What a device is made of: five sections of TOML, layered, every key known.
//!
//! Layers, later ones win: the machine `table2` (its sections `ssd`, `ftl` and `nand` are what they
//! are in the simulator), `configs/devices/base.toml`, a preset, the user's files, `--set`. The
//! effective values are written into the image and never change in its life.

mod presets;

pub use presets::{PRESETS, Preset, preset};
pub use settings::Layer;

use crate::error::DeviceFileError;
use firmware::WorkCosts;
use nand::{Calendar, Faults};
use port::DeviceError;
use serde::{Deserialize, Serialize};
use settings::Known;
use soc::{LinkConfig, ResourceConfig};
use units::parameter::{Sections, Texts};
use units::{Bytes, BytesPerSec, FlashGeometry, PageSize, Picos, Time};

units::parameters! {
    /// What lies between host and device, and what the host may have under way.
    pub struct PortConfig: "device" {
        /// A load of a line, there and back, beyond what the device itself takes.
        line_read: Picos, "at most 1ms", "ByteFS Table 4 (4.8us in all), §5.6 (175ns in all); SkyByte Table II (40ns)";
        /// What a posted store of a line takes until the device has it, which is when the host goes
        /// on.
        line_write: Picos, "at most 1ms", "ByteFS Table 4 (0.6us); half of line_read over CXL";
        /// Loads that one request has under way at a time.
        line_reads: u32, "1 to 64", "ours: 1 over PCIe, whose uncached loads are ordered; 10 over CXL, the line fill buffers of a core";
        /// Stores that one request has under way at a time.
        line_writes: u32, "1 to 64", "ours: 10, the line fill buffers of a core";
        /// A block command without its data, there and back: submission, doorbell, completion.
        block_command: Picos, "at most 10ms", "ours: 5us; the papers give none";
        /// Bandwidth from device to host.
        read_bandwidth: BytesPerSec, "1MB/s to 1000GB/s, or unlimited", "ByteFS Table 4 (3.5GB/s); SkyByte Table II (16GB/s)";
        /// Bandwidth from host to device.
        write_bandwidth: BytesPerSec, "1MB/s to 1000GB/s, or unlimited", "ByteFS Table 4 (2.5GB/s); SkyByte Table II (16GB/s)";
        /// The block of the block port, which takes any number of them. A write of a part of a
        /// mapping unit is put together with the rest in the device.
        block: PageSize, "a power of two from 64B to ftl.mapping_unit", "ours: 4KiB; 512B is the sector of older file systems";
        /// The window: battery-backed memory that the byte port addresses behind the logical space,
        /// beside ssd.dram. It survives a power cut without log and flush, and nobody but the host
        /// brings its bytes to flash.
        pmem: Bytes, "0B, or whole mapping units up to 64GiB", "ours (0B); Transparent DAX 6.1 has 256 GB, CMM-H 16 GB";
        /// Transactions that may be open at a time.
        transactions: u32, "1 to 1048576", "ours";
    }
}

impl PortConfig {
    /// The link that these ports lead over.
    pub fn link(&self) -> LinkConfig {
        LinkConfig {
            line_read: self.line_read,
            line_write: self.line_write,
            line_reads: self.line_reads,
            line_writes: self.line_writes,
            block_command: self.block_command,
            read_bandwidth: self.read_bandwidth,
            write_bandwidth: self.write_bandwidth,
        }
    }

    /// Everything that is out of range, one sentence each.
    pub fn validate(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for (key, value, most) in [
            ("line_reads", self.line_reads, 64),
            ("line_writes", self.line_writes, 64),
            ("transactions", self.transactions, 1 << 20),
        ] {
            if !(1..=most).contains(&value) {
                problems.push(format!("device.{key} is {value}; it must be 1 to {most}"));
            }
        }
        for (key, span, most) in [
            ("line_read", self.line_read, 1_000),
            ("line_write", self.line_write, 1_000),
            ("block_command", self.block_command, 10_000),
        ] {
            let longest = Picos::from_micros(most);
            if span > longest {
                problems.push(format!(
                    "device.{key} is {span}; it must be at most {longest}"
                ));
            }
        }
        for (key, rate) in [
            ("read_bandwidth", self.read_bandwidth),
            ("write_bandwidth", self.write_bandwidth),
        ] {
            let is_finite = (1_000_000..=1_000_000_000_000).contains(&rate.get());
            if !is_finite && rate != BytesPerSec::UNLIMITED {
                problems.push(format!(
                    "device.{key} is {rate}; it must be 1MB/s to 1000GB/s, or unlimited"
                ));
            }
        }
        problems
    }
}

/// Every parameter of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceConfig {
    /// Its ports.
    pub device: PortConfig,
    /// Its controller.
    pub ssd: firmware::SsdConfig,
    /// Its controller's DRAM.
    pub ssd_dram: dram::SsdDramConfig,
    /// Its flash translation layer.
    pub ftl: firmware::FtlConfig,
    /// Its flash.
    pub nand: nand::NandConfig,
    /// What goes wrong in it.
    pub faults: nand::FaultConfig,
}

/// The sections, in the order of the reference page.
pub const KNOWN: Known = settings::known! {
    "device": PortConfig,
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
    "faults": nand::FaultConfig,
}
.renamed(firmware::RENAMED);
/// The sections with the documentation of their parameters.
pub const SECTIONS: &Sections = KNOWN.sections;

impl DeviceConfig {
    /// The effective configuration of a preset with the user's layers over it.
    ///
    /// # Errors
    /// An unknown preset; a layer that is not TOML, an unknown key, a value of the wrong kind or
    /// out of range.
    pub fn of_preset(name: &str, layers: &[Layer]) -> Result<Self, DeviceFileError> {
        let preset = preset(name)?;
        let mut all = presets::base_layers();
        all.push(preset.layer());
        all.extend_from_slice(layers);
        Self::of_layers(&all)
    }

    /// The configuration that [`DeviceConfig::to_toml`] wrote. Images that were made before there
    /// was a parameter say nothing of it: they have what all presets stand on, as flash that does
    /// not fail. What they map is the flash page, which was one with mapping unit and block. Keys
    /// that have another name now are read as that one. Of `device.dram_bandwidth`, which older
    /// ones have, nothing is taken.
    ///
    /// # Errors
    /// As [`DeviceConfig::of_preset`].
    pub fn from_toml(text: &str) -> Result<Self, DeviceFileError> {
        let mut all = presets::base_layers();
        // The section ssd_dram says what it said.
        let kept = text
            .lines()
            .filter(|line| !line.starts_with("dram_bandwidth = "));
        let kept: Vec<&str> = kept.collect();
        let says = |key: &str| kept.iter().any(|line| line.starts_with(key));
        let (has_unit, has_block) = (says("mapping_unit = "), says("block = "));
        let written = Layer::new("the image", kept.join("\n"));
        all.push(KNOWN.translated(&written)?);
        let mut config: Self = KNOWN.configuration(&all)?;
        if !has_unit {
            config.ftl.mapping_unit = config.nand.page_size;
        }
        if !has_block {
            config.device.block = config.ftl.mapping_unit;
        }
        config.checked()
    }

    fn of_layers(layers: &[Layer]) -> Result<Self, DeviceFileError> {
        KNOWN.configuration::<Self>(layers)?.checked()
    }

    fn checked(self) -> Result<Self, DeviceFileError> {
        let problems = self.validate();
        if problems.is_empty() {
            Ok(self)
        } else {
            Err(DeviceFileError::Config(problems))
        }
    }

    /// The effective values as TOML with sorted keys.
    pub fn to_toml(&self) -> String {
        settings::to_toml(self)
    }

    /// The values as text, by section and key, in the order of declaration.
    pub fn texts(&self) -> Texts {
        KNOWN.texts(self)
    }

    /// What the firmware is told.
    pub fn controller(&self) -> firmware::ControllerConfig {
        firmware::ControllerConfig {
            ssd: self.ssd.clone(),
            ftl: self.ftl.clone(),
            geometry: self.geometry(),
            timing: self.nand.timing(),
            // Nobody switches threads or takes pages over (SkyByte §III-A, §III-C).
            delay_enabled: false,
            promotion_enabled: false,
            switch_threshold: Picos::MAX,
        }
    }

    /// What surrounds it in the controller, with what goes wrong in the flash, from `now` on.
    pub fn resources(&self, faults: Option<(Faults, Calendar)>, now: Time) -> ResourceConfig<'_> {
        let is_constant = self.ssd.dram_access == firmware::DramAccess::Constant;
        ResourceConfig {
            nand: &self.nand,
            mapping_unit: self.ftl.mapping_unit,
            dram: self.ssd_dram.spec(),
            dram_latency: is_constant.then_some(self.ssd.dram_latency),
            work: WorkCosts::new(&self.ssd, &self.ftl),
            lines_first: self.ssd.dram_order == firmware::DramOrder::LinesFirst,
            firmware_cores: self.ssd.firmware_cores,
            // Nobody is interrupted: no page is offered, none is waited for.
            interrupt_latency: Picos::ZERO,
            tells_pages: false,
            forecasts: false,
            faults,
            now,
        }
    }

    /// The size of a logical page: what the FTL maps.
    pub fn page(&self) -> PageSize {
        self.ftl.mapping_unit
    }

    /// How the flash is organised, in the units of the FTL.
    pub fn geometry(&self) -> FlashGeometry {
        self.nand.geometry(self.ftl.mapping_unit)
    }

    /// Bytes of the logical space.
    pub fn capacity(&self) -> Bytes {
        let pages = self.ftl.exported_pages(&self.geometry());
        Bytes::new(pages * self.page().bytes().get())
    }

    /// Why the device has no transactions, if it has none.
    pub(crate) fn lacks_for_transactions(&self) -> Option<DeviceError> {
        let has_log = !self.ssd.log.size.is_zero();
        let refusal = DeviceError::NoTransactions { has_log };
        self.ssd.log.tx_log.is_zero().then_some(refusal)
    }

    fn validate(&self) -> Vec<String> {
        let mut problems = self.device.validate();
        problems.extend(self.ssd_dram.validate());
        let nand_problems = self.nand.validate();
        if nand_problems.is_empty() {
            problems.extend(self.controller().validate());
        }
        problems.extend(nand_problems);
        problems.extend(self.faults.validate());
        problems.extend(self.beyond_the_sections());
        problems
    }

    /// What a device of real bytes cannot be.
    fn beyond_the_sections(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let (pmem, page) = (self.device.pmem, self.ftl.mapping_unit.bytes());
        let most = Bytes::from_mib(64 << 10);
        if !pmem.get().is_multiple_of(page.get()) || pmem > most {
            problems.push(format!(
                "device.pmem is {pmem}; it must be 0B, or a multiple of ftl.mapping_unit, which is \
                 {page}, up to {most}"
            ));
        }
        let (block, unit) = (self.device.block, self.ftl.mapping_unit);
        if block.bytes() > unit.bytes() {
            problems.push(format!(
                "device.block is {block}; it must be at most ftl.mapping_unit, which is {unit}: \
                 set one or the other"
            ));
        }
        for (key, share) in [
            ("fill", self.ftl.fill),
            ("overwritten", self.ftl.overwritten),
        ] {
            if share.numerator() != 0 {
                problems.push(format!(
                    "ftl.{key} is {share}; a device of real bytes begins empty, so it must be 0%"
                ));
            }
        }
        if self.ssd.log.mode == firmware::LogMode::Ring {
            problems.push(
                "ssd.log.mode is ring, which takes any number of lines and is for simulation \
                 alone; it must be halves"
                    .to_owned(),
            );
        }
        if self.ssd.log.takes == firmware::LogTakes::Absent {
            problems.push(
                "ssd.log.takes is absent, which leaves written lines in frames that no battery \
                 keeps and is for simulation alone; it must be all"
                    .to_owned(),
            );
        }
        if self.nand.scheduling == nand::Scheduling::Split {
            problems.push(
                "nand.scheduling is split, an artifact's order for simulation alone; it must be \
                 fifo or read_priority"
                    .to_owned(),
            );
        }
        if self.ftl.estimator == firmware::EstimatorKind::Exact {
            problems.push(
                "ftl.estimator is exact, which nobody asks here; it must be channel, die or reads"
                    .to_owned(),
            );
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(set: &str) -> String {
        let layers = [Layer::assignment(set).unwrap()];
        let error = DeviceConfig::of_preset("bytefs", &layers).unwrap_err();
        error.to_string()
    }

    #[test]
    fn every_preset_is_a_device() {
        for preset in PRESETS {
            let config = DeviceConfig::of_preset(preset.name, &[]).unwrap();
            let again = DeviceConfig::from_toml(&config.to_toml()).unwrap();
            assert_eq!(config, again, "{}", preset.name);
        }
    }

    #[test]
    fn the_bytefs_preset_is_table_4() {
        let config = DeviceConfig::of_preset("bytefs", &[]).unwrap();
        assert_eq!(config.capacity(), Bytes::from_mib(32 * 1024));
        let table_4 = (config.nand.channels, config.nand.t_r, config.nand.t_prog);
        let expected = (8, Picos::from_micros(40), Picos::from_micros(60));
        assert_eq!(table_4, expected);
    }

    #[test]
    fn what_says_nothing_of_faults_has_none() {
        let config = DeviceConfig::of_preset("bytefs", &[]).unwrap();
        let mut table: toml::Table = toml::from_str(&config.to_toml()).unwrap();
        table.remove("faults").unwrap();
        let older = DeviceConfig::from_toml(&toml::to_string(&table).unwrap()).unwrap();
        assert!(older == config && older.faults.is_off());
    }

    #[test]
    fn what_says_nothing_of_a_mapping_unit_maps_flash_pages() {
        let layers = [
            "nand.page_size=16KiB",
            "ftl.mapping_unit=16KiB",
            "device.block=16KiB",
        ];
        let layers = layers.map(|set| Layer::assignment(set).unwrap());
        let config = DeviceConfig::of_preset("bytefs", &layers).unwrap();
        let mut table: toml::Table = toml::from_str(&config.to_toml()).unwrap();
        let ftl = table.get_mut("ftl").unwrap().as_table_mut().unwrap();
        ftl.remove("mapping_unit").unwrap();
        let device = table.get_mut("device").unwrap().as_table_mut().unwrap();
        device.remove("block").unwrap();
        let older = DeviceConfig::from_toml(&toml::to_string(&table).unwrap()).unwrap();
        assert_eq!(older, config);
        assert_eq!(older.geometry().units_per_page, 1);
    }

    #[test]
    fn a_wrong_value_is_named_with_its_key() {
        assert!(problems("device.line_reads=0").contains("device.line_reads is 0"));
        assert!(problems("ftl.fill=10%").contains("begins empty"));
        assert!(problems("device.block=8KiB").contains("at most ftl.mapping_unit, which is 4KiB"));
        let unit = problems("ftl.mapping_unit=8KiB");
        assert!(
            unit.contains("must be at most nand.page_size, which is 4KiB"),
            "{unit}"
        );
        assert!(problems("ssd.log.mode=ring").contains("must be halves"));
        assert!(problems("nand.t_r=soon").contains("nand.t_r"));
        assert!(problems("nand.channels=many").contains("nand.channels"));
        assert!(problems("nand.colour=red").contains("colour"));
        assert!(problems("faults.program_failure=3").contains("faults.program_failure"));
        assert!(problems("faults.retry_steps=65").contains("it must be 0 to 64"));
        assert!(problems("faults.luck=1").contains("unknown key faults.luck"));
        assert!(problems("faults.seed=-1").contains("faults.seed"));
        assert!(problems("cpu.cores=8").contains("unknown section cpu; there are device, ssd"));
        assert!(problems("nand.channels=-3").contains("-3 is not a whole number from 0 to"));
        let unknown = DeviceConfig::of_preset("optane", &[]).unwrap_err();
        assert!(unknown.to_string().contains("bytefs"), "{unknown}");
    }
}
