//! Small devices: the firmware with so little of everything that each mechanism runs all the time.

use crate::flash::Flash;
use crate::media::Media;
use crate::tables::Tables;
use firmware::{
    BlockWriteAck, CacheConfig, CachePolicy, CleanVictims, CompactionConfig, CompactionLaunch,
    CompactionTakes, Controller, ControllerConfig, Cost, DramAccess, DramOrder, EstimatorKind,
    Fill, FirstWrite, FtlConfig, GcKind, LogConfig, LogIndexKind, LogMode, LogTakes, MissAnswer,
    PowerLossProtection, PrefetchConfig, PrefetcherKind, ProgramTo, PromotionConfig,
    PromotionCounts, SsdConfig, Throttle, VictimOrder,
};
use units::address::LINE_BYTES;
use units::{Bytes, BytesPerSec, FlashGeometry, PageSize, Picos, Ratio, Stream, Timing};

/// What distinguishes one small device from another. In a script: `device key=value …`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Device {
    /// Lines of a page: a power of two.
    pub page_lines: u32,
    /// Lines of half the log; 0 without a battery.
    pub half_lines: u32,
    /// Frames of the data cache.
    pub frames: u32,
    /// Page buffers of the controller.
    pub buffers: u32,
    /// Pages that compaction has in flight.
    pub batch: u32,
    /// Dies, each on a channel of its own.
    pub dies: u32,
    /// Blocks of a die.
    pub blocks: u32,
    /// Blocks of a die that are not exported.
    pub spare_blocks: u32,
    /// Free blocks of a die that the host leaves to garbage collection.
    pub reserve: u32,
    /// Flash pages of a block.
    pub block_pages: u32,
    /// Mapping units of a flash page: a power of two.
    pub page_units: u32,
    /// Buffers of garbage collection.
    pub gc_buffers: u32,
    /// Pages that garbage collection of a die has in flight.
    pub gc_pages: u32,
    /// Share of half the log after which it is sealed, in percent.
    pub seal_percent: u32,
    /// Pages only pass through the data cache (1) or stay in it (0).
    pub cacheless: u32,
    /// The index of the log: `two_level_hash` (0) or `skip_list` (1).
    pub skip_list: u32,
    /// A page write is answered when it is on flash (1) or when a buffer has it (0).
    pub ack_programmed: u32,
    /// Entries of the TxLog; 0: the device has no transactions.
    pub tx_log: u32,
    /// Nothing keeps DRAM when the power goes (1), so there is no log; the log alone has a battery
    /// (2); log and page buffers have one (0); or there is no log, and page buffers and frames have
    /// one (3).
    pub no_battery: u32,
    /// Pages behind one that is missed which are fetched ahead.
    pub prefetch: u32,
    /// The first use of a page that was fetched ahead counts as a miss (1) or does not (0).
    pub first_use: u32,
}

/// An entry of the TxLog (ByteFS §4.3).
const TX_LOG_ENTRY: Bytes = Bytes::new(4);

/// Garbage collection of the FTL wants that many blocks of a die that are not exported, and two
/// more for each further block that the host leaves to it.
const SPARE_BLOCKS: u32 = 5;

impl Default for Device {
    fn default() -> Self {
        Self {
            page_lines: 4,
            half_lines: 8,
            frames: 4,
            buffers: 2,
            batch: 2,
            dies: 2,
            blocks: 8,
            spare_blocks: SPARE_BLOCKS,
            reserve: 1,
            block_pages: 4,
            page_units: 1,
            gc_buffers: 2,
            gc_pages: 1,
            seal_percent: 100,
            cacheless: 0,
            skip_list: 0,
            ack_programmed: 0,
            tx_log: 0,
            no_battery: 0,
            prefetch: 0,
            first_use: 0,
        }
    }
}

impl Device {
    /// One of many, by chance.
    pub fn random(random: &mut Stream) -> Self {
        let mut pick = |from: &[u32]| from[random.below(from.len() as u64) as usize];
        let reserve = pick(&[1, 1, 2]);
        let least_spare = SPARE_BLOCKS + 2 * (reserve - 1);
        let spare_blocks = least_spare + pick(&[0, 3]);
        Self {
            page_lines: pick(&[2, 4, 4, 8]),
            half_lines: pick(&[3, 8, 8, 20]),
            frames: pick(&[1, 4, 16]),
            buffers: pick(&[1, 2, 3]),
            batch: pick(&[1, 2, 3]),
            dies: pick(&[1, 2]),
            blocks: spare_blocks + pick(&[2, 3, 5]),
            spare_blocks,
            reserve,
            block_pages: pick(&[2, 4]),
            gc_buffers: pick(&[1, 2]),
            gc_pages: pick(&[1, 2]),
            seal_percent: pick(&[100, 85, 50]),
            cacheless: pick(&[0, 1]),
            skip_list: pick(&[0, 1]),
            ack_programmed: pick(&[0, 0, 1]),
            tx_log: pick(&[0, 1, 1, 2, 8]),
            no_battery: 0,
            page_units: pick(&[1, 1, 2, 4]),
            prefetch: 0,
            first_use: 0,
        }
        .with_room()
    }

    /// With as many more spare blocks as flash pages of several units take, so that the same blocks
    /// are exported.
    fn with_room(self) -> Self {
        let exported = self.blocks - self.spare_blocks;
        let units = self.block_pages * self.page_units;
        let that_count = units - (self.page_units - 1);
        let more = (exported * units).div_ceil(that_count) - exported;
        Self {
            blocks: self.blocks + more,
            spare_blocks: self.spare_blocks + more,
            ..self
        }
    }

    /// One of many with little room beside what it exports, so that garbage collection has to move
    /// what is still valid.
    pub fn full(random: &mut Stream) -> Self {
        let base = match random.below(3) {
            0 => Self::unprotected(random),
            _ => Self::random(random),
        };
        let mut pick = |from: &[u32]| from[random.below(from.len() as u64) as usize];
        let reserve = pick(&[1, 1, 1, 2]);
        let spare_blocks = SPARE_BLOCKS + 2 * (reserve - 1);
        Self {
            page_lines: pick(&[2, 4]),
            blocks: spare_blocks + pick(&[8, 12, 16]),
            spare_blocks,
            reserve,
            block_pages: pick(&[2, 4]),
            ..base
        }
        .with_room()
    }

    /// One of many without a battery.
    pub fn unprotected(random: &mut Stream) -> Self {
        Self {
            half_lines: 0,
            cacheless: 0,
            skip_list: 0,
            tx_log: 0,
            no_battery: 1,
            ..Self::random(random)
        }
    }

    /// One of many without a log, all of whose DRAM has a battery.
    pub fn with_safe_frames(random: &mut Stream) -> Self {
        Self {
            no_battery: 3,
            ..Self::unprotected(random)
        }
    }

    /// One of many of which the log alone has a battery.
    pub fn with_safe_log(random: &mut Stream) -> Self {
        Self {
            no_battery: 2,
            ..Self::random(random)
        }
    }

    /// One of many that fetches pages ahead, with so few frames that what comes drives out what was
    /// just used, and with whatever battery.
    pub fn fetching_ahead(random: &mut Stream) -> Self {
        let base = match random.below(4) {
            0 => Self::random(random),
            1 => Self::unprotected(random),
            _ => Self::with_safe_frames(random),
        };
        let mut pick = |from: &[u32]| from[random.below(from.len() as u64) as usize];
        Self {
            frames: pick(&[2, 2, 3]),
            buffers: pick(&[1, 1, 2]),
            cacheless: 0,
            prefetch: pick(&[1, 1, 2]),
            first_use: pick(&[1, 1, 1, 0]),
            ..base
        }
    }

    /// Whether buffers are lost with the power.
    pub fn loses_buffers(&self) -> bool {
        !self.protection().keeps_buffers()
    }

    fn has_log(&self) -> bool {
        !matches!(self.no_battery, 1 | 3)
    }

    /// What keeps DRAM.
    pub fn protection(&self) -> PowerLossProtection {
        match self.no_battery {
            0 => PowerLossProtection::Battery,
            1 => PowerLossProtection::None,
            2 => PowerLossProtection::Log,
            _ => PowerLossProtection::Dram,
        }
    }

    /// The one with least of everything.
    pub fn simplest() -> Self {
        Self {
            page_lines: 2,
            half_lines: 2,
            frames: 1,
            buffers: 1,
            batch: 1,
            dies: 1,
            blocks: SPARE_BLOCKS + 2,
            spare_blocks: SPARE_BLOCKS,
            reserve: 1,
            block_pages: 2,
            page_units: 1,
            gc_buffers: 1,
            gc_pages: 1,
            seal_percent: 100,
            cacheless: 0,
            skip_list: 0,
            ack_programmed: 0,
            tx_log: 0,
            no_battery: 0,
            prefetch: 0,
            first_use: 0,
        }
    }

    /// Every key with the place of its value, in the order of the script.
    pub(crate) fn fields_mut(&mut self) -> [(&'static str, &mut u32); 21] {
        [
            ("page_lines", &mut self.page_lines),
            ("half_lines", &mut self.half_lines),
            ("frames", &mut self.frames),
            ("buffers", &mut self.buffers),
            ("batch", &mut self.batch),
            ("dies", &mut self.dies),
            ("blocks", &mut self.blocks),
            ("spare_blocks", &mut self.spare_blocks),
            ("reserve", &mut self.reserve),
            ("block_pages", &mut self.block_pages),
            ("page_units", &mut self.page_units),
            ("gc_buffers", &mut self.gc_buffers),
            ("gc_pages", &mut self.gc_pages),
            ("seal_percent", &mut self.seal_percent),
            ("cacheless", &mut self.cacheless),
            ("skip_list", &mut self.skip_list),
            ("ack_programmed", &mut self.ack_programmed),
            ("tx_log", &mut self.tx_log),
            ("no_battery", &mut self.no_battery),
            ("prefetch", &mut self.prefetch),
            ("first_use", &mut self.first_use),
        ]
    }

    /// What is wrong with it, as sentences.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let least_spare = SPARE_BLOCKS + 2 * (self.reserve.clamp(1, 16) - 1);
        for (key, value) in self.clone().fields_mut() {
            let range = match key {
                "page_lines" => 2..=64,
                "page_units" => 1..=8,
                "blocks" => self.spare_blocks.saturating_add(1)..=64,
                "spare_blocks" => least_spare..=63,
                "reserve" => 1..=16,
                "seal_percent" => 1..=100,
                // These need a log.
                "cacheless" | "skip_list" | "half_lines" if !self.has_log() => 0..=0,
                "ack_programmed" | "cacheless" | "skip_list" => 0..=1,
                "first_use" if self.prefetch == 0 => 0..=0,
                "first_use" => 0..=1,
                "prefetch" => 0..=8,
                "no_battery" => 0..=3,
                "tx_log" if !self.has_log() => 0..=0,
                "tx_log" => 0..=64,
                _ => 1..=64,
            };
            if !range.contains(value) {
                let (low, high) = (range.start(), range.end());
                problems.push(format!("{key} is {value}; it must be {low} to {high}"));
            }
        }
        for (key, value) in [
            ("page_lines", self.page_lines),
            ("page_units", self.page_units),
        ] {
            if !value.is_power_of_two() {
                problems.push(format!("{key} is {value}; it must be a power of two"));
            }
        }
        if problems.is_empty() {
            problems = self.config().validate();
        }
        problems
    }

    /// What the firmware is told.
    ///
    /// # Panics
    /// If there are [`Device::problems`].
    pub fn config(&self) -> ControllerConfig {
        ControllerConfig {
            ssd: self.ssd(),
            ftl: self.ftl(),
            geometry: FlashGeometry {
                channel_count: self.dies,
                chips_per_channel: 1,
                dies_per_chip: 1,
                planes_per_die: 1,
                blocks_per_plane: self.blocks,
                units_per_block: self.block_pages * self.page_units,
                unit_size: self.page_size(),
                units_per_page: self.page_units,
            },
            timing: Timing::constant(
                Picos::from_micros(3),
                Picos::from_micros(100),
                Picos::from_micros(1000),
            ),
            delay_enabled: false,
            promotion_enabled: false,
            switch_threshold: Picos::from_micros(2),
        }
    }

    fn page_size(&self) -> PageSize {
        let size = LINE_BYTES * u64::from(self.page_lines);
        PageSize::new(size).expect("a power of two lines")
    }

    fn ssd(&self) -> SsdConfig {
        let write_log = LINE_BYTES * (2 * u64::from(self.half_lines));
        let tx_log = TX_LOG_ENTRY * u64::from(self.tx_log);
        let frame = LINE_BYTES * u64::from(self.page_lines);
        SsdConfig {
            dram: write_log + tx_log + frame * u64::from(self.frames),
            buffer_hits: true,
            delay_answer_cost: Picos::ZERO,
            dram_access: DramAccess::Timed,
            dram_latency: Picos::from_nanos(46),
            dram_order: DramOrder::InTurn,
            miss_answer: MissAnswer::Frame,
            fill: Fill::AtOnce,
            fill_buffers: 512,
            read_rate: BytesPerSec::UNLIMITED,
            write_rate: BytesPerSec::UNLIMITED,
            buffers: self.buffers,
            firmware_cores: 1,
            block_write_ack: match self.ack_programmed {
                0 => BlockWriteAck::Buffered,
                _ => BlockWriteAck::Programmed,
            },
            power_loss_protection: self.protection(),
            flush_cost: Picos::from_micros(50),
            log: LogConfig {
                size: write_log,
                seal_at: Ratio::percent(self.seal_percent.into()),
                index: match self.skip_list {
                    0 => LogIndexKind::TwoLevelHash,
                    _ => LogIndexKind::SkipList,
                },
                tx_log,
                design_share: Ratio::percent(100),
                entry: LINE_BYTES,
                mode: LogMode::Halves,
                write_updates_cache: true,
                write_lookup: Cost::Charged,
                merge_on_fill: Cost::Charged,
                takes: LogTakes::All,
                least: Bytes::ZERO,
                sparse: 16,
                lookup: Picos::from_nanos(72),
            },
            cache: CacheConfig {
                ways: self.frames,
                policy: match self.cacheless {
                    0 => CachePolicy::Lru,
                    _ => CachePolicy::None,
                },
                clean_victims: CleanVictims::Drop,
                victim_order: VictimOrder::BeforeRead,
                mshr_count: 4,
                lookup: Picos::from_nanos(49),
            },
            compaction: CompactionConfig {
                copies: Cost::Charged,
                takes: CompactionTakes::SealedHalf,
                launch: CompactionLaunch::AtOnce,
                page_cost: Picos::from_nanos(500),
                batch: self.batch,
                leaves: 0,
            },
            promotion: PromotionConfig {
                counts: PromotionCounts::Uses,
                threshold: 1_000_000,
                fetch_uses: 0,
                remembers: false,
            },
            prefetch: PrefetchConfig {
                kind: match self.prefetch {
                    0 => PrefetcherKind::None,
                    _ => PrefetcherKind::NextN,
                },
                pages: self.prefetch,
                on_first_use: self.first_use == 1,
                reserve: 0,
                streams: 1,
                regions: 1,
                throttle: Throttle::Off,
            },
        }
    }

    fn ftl(&self) -> FtlConfig {
        FtlConfig {
            mapping_unit: self.page_size(),
            over_provisioning: Ratio::new(self.spare_blocks.into(), self.blocks.into()),
            fill: Ratio::percent(0),
            overwritten: Ratio::percent(0),
            placement: 0,
            first_write: FirstWrite::FirstDie,
            program_to: ProgramTo::InTurn,
            gc: GcKind::Incremental,
            gc_start_blocks: self.reserve + 1,
            reserve_blocks: self.reserve,
            gc_pages: self.gc_pages,
            gc_foreground_pages: self.gc_pages,
            gc_buffers: self.gc_buffers,
            gc_page_cost: Picos::ZERO,
            gc_threshold: Ratio::percent(80),
            gc_bulk_blocks: 1,
            wear_spread: 0,
            estimator: EstimatorKind::Die,
        }
    }

    /// Lines that may be open at a time; none on a device without transactions.
    pub fn most_open_lines(&self) -> Option<usize> {
        let sealed = self.config().ssd.log.seal_slot_count() / 2;
        let most = usize::try_from(sealed).expect("a small device");
        (self.tx_log > 0).then_some(most)
    }

    /// The exported pages.
    pub fn page_count(&self) -> usize {
        let controller = Controller::new(&self.config());
        usize::try_from(controller.logical_page_count()).expect("a small device")
    }

    /// What a device that was never used holds.
    pub fn new_media(&self) -> Media {
        let config = self.config();
        let slots = 2 * self.half_lines as usize;
        let buffers = config.buffer_count() as usize;
        let counts = (slots, buffers, self.frames as usize);
        let tables = Tables::new(config.geometry, counts, self.page_count());
        let flash = Flash::new(config.geometry);
        Media::new(flash, counts, tables, config.geometry.unit_size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_random_device_is_one_that_the_firmware_takes() {
        let mut random = Stream::new(1, "device");
        for _ in 0..200 {
            for device in [
                Device::random(&mut random),
                Device::with_safe_log(&mut random),
                Device::with_safe_frames(&mut random),
                Device::fetching_ahead(&mut random),
            ] {
                assert_eq!(device.problems(), Vec::<String>::new(), "{device:?}");
                assert!(device.page_count() >= 2);
            }
        }
    }

    #[test]
    fn a_device_that_cannot_be_is_refused_in_sentences() {
        let wrong = Device {
            page_lines: 3,
            buffers: 0,
            ..Device::default()
        };
        assert_eq!(wrong.problems().len(), 2, "{:?}", wrong.problems());
    }
}
