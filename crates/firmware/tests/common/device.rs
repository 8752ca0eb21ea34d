//! A small device without a host: requests in, answers and their times out.

use crate::common::{Bench, Costs};
use firmware::{
    BlockWriteAck, CacheConfig, CachePolicy, CleanVictims, CompactionConfig, CompactionLaunch,
    CompactionTakes, Controller, ControllerConfig, Cost, DramAccess, DramOrder, EstimatorKind,
    Fill, FirstWrite, FtlConfig, GcKind, LogConfig, LogIndexKind, LogMode, LogTakes, MissAnswer,
    PowerLossProtection, PrefetchConfig, PrefetcherKind, ProgramTo, PromotionConfig,
    PromotionCounts, Request, RequestOp, Response, SsdConfig, Throttle, VictimOrder,
};
use units::{Bytes, BytesPerSec, FlashGeometry, LineAddr, PageSize, Picos, Ratio, RequestId, Time};

#[allow(dead_code, reason = "not every test asks")]
pub const LOG_LOOKUP: Picos = Picos::from_nanos(72);
#[allow(dead_code, reason = "not every test asks")]
pub const CACHE_LOOKUP: Picos = Picos::from_nanos(49);
/// A line of device DRAM in [`COSTS`].
#[allow(dead_code, reason = "not every test asks")]
pub const LINE: Picos = Picos::from_nanos(46);
/// A page of device DRAM in [`COSTS`].
#[allow(dead_code, reason = "not every test asks")]
pub const PAGE: Picos = Picos::from_nanos(30 + 1024);
pub const COSTS: Costs = Costs {
    dram_fixed: Picos::from_nanos(30),
    dram_per_byte: Picos::new(250),
};
#[allow(dead_code, reason = "not every test asks")]
pub const READ: RequestOp = RequestOp::Read {
    delay_allowed: true,
};

pub fn ftl() -> FtlConfig {
    FtlConfig {
        mapping_unit: PageSize::KIB_4,
        over_provisioning: Ratio::percent(40),
        fill: Ratio::percent(50),
        overwritten: Ratio::percent(0),
        placement: 0,
        first_write: FirstWrite::FirstDie,
        program_to: ProgramTo::InTurn,
        gc: GcKind::Incremental,
        gc_start_blocks: 2,
        reserve_blocks: 1,
        gc_pages: 1,
        gc_foreground_pages: 2,
        gc_buffers: 2,
        gc_page_cost: Picos::ZERO,
        gc_threshold: Ratio::percent(80),
        gc_bulk_blocks: 1,
        wear_spread: 0,
        estimator: EstimatorKind::Channel,
    }
}

/// A log of two halves of `half` lines and 8 frames; no prefetch, no delay, no promotion.
pub fn config(half: u64) -> ControllerConfig {
    let write_log = Bytes::new(64) * (2 * half);
    ControllerConfig {
        ssd: SsdConfig {
            dram: write_log + Bytes::from_kib(32),
            buffer_hits: true,
            delay_answer_cost: Picos::ZERO,
            dram_access: DramAccess::Timed,
            dram_latency: Picos::from_nanos(46),
            dram_order: DramOrder::InTurn,
            miss_answer: MissAnswer::Frame,
            fill: Fill::AtOnce,
            fill_buffers: 512,
            read_rate: BytesPerSec::new(11_930_000_000),
            write_rate: BytesPerSec::new(9_370_000_000),
            buffers: 4,
            firmware_cores: 4,
            block_write_ack: BlockWriteAck::Buffered,
            power_loss_protection: PowerLossProtection::Battery,
            flush_cost: Picos::ZERO,
            log: LogConfig {
                size: write_log,
                design_share: Ratio::percent(100),
                entry: Bytes::new(64),
                mode: LogMode::Halves,
                seal_at: Ratio::percent(100),
                index: LogIndexKind::TwoLevelHash,
                tx_log: Bytes::ZERO,
                write_updates_cache: true,
                write_lookup: Cost::Charged,
                merge_on_fill: Cost::Charged,
                takes: LogTakes::All,
                least: Bytes::ZERO,
                sparse: 16,
                lookup: LOG_LOOKUP,
            },
            cache: CacheConfig {
                ways: 8,
                policy: CachePolicy::Lru,
                clean_victims: CleanVictims::Drop,
                victim_order: VictimOrder::BeforeRead,
                mshr_count: 4,
                lookup: CACHE_LOOKUP,
            },
            compaction: CompactionConfig {
                copies: Cost::Charged,
                takes: CompactionTakes::SealedHalf,
                launch: CompactionLaunch::AtOnce,
                page_cost: Picos::from_nanos(500),
                batch: 2,
                leaves: 0,
            },
            promotion: PromotionConfig {
                counts: PromotionCounts::Uses,
                threshold: 3,
                fetch_uses: 0,
                remembers: false,
            },
            prefetch: PrefetchConfig {
                kind: PrefetcherKind::NextN,
                pages: 0,
                on_first_use: false,
                reserve: 0,
                streams: 8,
                regions: 16,
                throttle: Throttle::Off,
            },
        },
        ftl: ftl(),
        geometry: FlashGeometry {
            channel_count: 2,
            chips_per_channel: 1,
            dies_per_chip: 1,
            planes_per_die: 1,
            blocks_per_plane: 32,
            units_per_block: 8,
            unit_size: PageSize::KIB_4,
            units_per_page: 1,
        },
        timing: units::Timing::constant(
            Picos::from_micros(3),
            Picos::from_micros(100),
            Picos::from_micros(1000),
        ),
        delay_enabled: false,
        promotion_enabled: false,
        switch_threshold: Picos::from_micros(2),
    }
}

pub struct Device {
    pub controller: Controller,
    pub bench: Bench,
    pub now: Time,
}

impl Device {
    pub fn new(config: &ControllerConfig) -> Self {
        Self {
            controller: Controller::new(config),
            bench: Bench::new(config, COSTS, 1000),
            now: Time::ZERO + Picos::from_micros(1),
        }
    }

    /// Sends a request for a line of a page and returns the answers that come at once.
    pub fn send(&mut self, id: u32, op: RequestOp, page: u64, line: u64) -> Vec<Response> {
        let request = Request {
            id: RequestId::new(id),
            op,
            line: LineAddr::new(page * 64 + line),
            source: None,
        };
        self.bench.host[id as usize] = u64::from(id);
        self.controller
            .on_request(self.now, request, &mut self.bench);
        self.answers()
    }

    pub fn answers(&mut self) -> Vec<Response> {
        self.bench.audit(&self.controller);
        std::mem::take(&mut self.bench.responses)
    }

    /// Ends everything that is in flight `after` from now; returns the answers.
    pub fn settle(&mut self, after: Picos) -> Vec<Response> {
        self.now += after;
        while self.step() {}
        self.answers()
    }

    /// Ends the next thing that is in flight; says whether there was one.
    pub fn step(&mut self) -> bool {
        if let Some(timer) = self.bench.timers.pop_front() {
            self.controller.on_timer(self.now, timer, &mut self.bench);
            return true;
        }
        let Some(tag) = self.bench.finish_any() else {
            return false;
        };
        self.controller.on_nand_done(self.now, tag, &mut self.bench);
        self.bench.forget_register(tag);
        true
    }

    /// Brings a mapped page into the data cache.
    pub fn fetch(&mut self, page: u64) {
        self.send(999, RequestOp::PromotionRead, page, 0);
        assert_eq!(self.settle(Picos::from_micros(5)).len(), 1);
    }
}
