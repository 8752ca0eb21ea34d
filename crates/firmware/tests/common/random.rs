//! Small devices of random shape.

use crate::lab::Mix;
use firmware::{
    BlockWriteAck, CacheConfig, CachePolicy, CleanVictims, CompactionConfig, CompactionLaunch,
    CompactionTakes, ControllerConfig, Cost, DramAccess, DramOrder, EstimatorKind, Fill,
    FirstWrite, FtlConfig, GcKind, LogConfig, LogIndexKind, LogMode, LogTakes, MissAnswer,
    PowerLossProtection, PrefetchConfig, PrefetcherKind, ProgramTo, PromotionConfig,
    PromotionCounts, SsdConfig, Throttle, VictimOrder,
};
use units::address::LINE_BYTES;
use units::{Bytes, BytesPerSec, FlashGeometry, PageSize, Picos, Ratio, Stream};

pub fn pick<T: Copy>(random: &mut Stream, choices: &[T]) -> T {
    choices[random.below(choices.len() as u64) as usize]
}

fn random_ftl(random: &mut Stream, page: PageSize) -> FtlConfig {
    FtlConfig {
        mapping_unit: page,
        over_provisioning: Ratio::percent(pick(random, &[40, 50])),
        fill: Ratio::percent(pick(random, &[100, 100, 60, 0])),
        overwritten: Ratio::percent(pick(random, &[100, 0])),
        placement: 0,
        first_write: FirstWrite::FirstDie,
        program_to: ProgramTo::InTurn,
        gc: pick(
            random,
            &[GcKind::Incremental, GcKind::Incremental, GcKind::Bulk],
        ),
        gc_start_blocks: pick(random, &[2, 3]),
        reserve_blocks: 1,
        gc_pages: pick(random, &[1, 2]),
        gc_foreground_pages: pick(random, &[2, 4]),
        gc_buffers: pick(random, &[1, 3, 8]),
        gc_page_cost: Picos::from_nanos(500),
        gc_threshold: Ratio::percent(80),
        gc_bulk_blocks: 8,
        wear_spread: pick(random, &[0, 2]),
        estimator: pick(
            random,
            &[
                EstimatorKind::Channel,
                EstimatorKind::Die,
                EstimatorKind::Reads,
            ],
        ),
    }
}

fn random_ssd(random: &mut Stream, page: PageSize) -> SsdConfig {
    let log_lines = pick(random, &[0, 0, 2, 16, 64, 200, 400]);
    let write_log = LINE_BYTES * log_lines;
    let frames = pick(random, &[1, 4, 16, 40, 400]);
    SsdConfig {
        dram: write_log + page.bytes() * frames,
        read_rate: BytesPerSec::new(11_930_000_000),
        write_rate: BytesPerSec::new(9_370_000_000),
        buffers: pick(random, &[1, 2, 8]),
        firmware_cores: 4,
        power_loss_protection: PowerLossProtection::Battery,
        flush_cost: Picos::ZERO,
        block_write_ack: pick(
            random,
            &[BlockWriteAck::Buffered, BlockWriteAck::Programmed],
        ),
        buffer_hits: pick(random, &[true, true, false]),
        delay_answer_cost: pick(random, &[Picos::ZERO, Picos::from_nanos(46)]),
        dram_access: DramAccess::Timed,
        dram_latency: Picos::from_nanos(46),
        dram_order: DramOrder::InTurn,
        miss_answer: pick(random, &[MissAnswer::Frame, MissAnswer::Register]),
        fill: Fill::AtOnce,
        fill_buffers: 512,
        log: LogConfig {
            size: write_log,
            lookup: Picos::from_nanos(72),
            design_share: Ratio::percent(100),
            entry: LINE_BYTES,
            mode: pick(random, &[LogMode::Halves, LogMode::Ring]),
            seal_at: Ratio::percent(pick(random, &[100, 100, 50])),
            index: LogIndexKind::TwoLevelHash,
            tx_log: Bytes::ZERO,
            write_updates_cache: pick(random, &[true, true, false]),
            write_lookup: pick(random, &[Cost::Charged, Cost::Free]),
            merge_on_fill: pick(random, &[Cost::Charged, Cost::Free]),
            takes: LogTakes::All,
            least: Bytes::ZERO,
            sparse: pick(random, &[0, 1, 3, 64]),
        },
        cache: CacheConfig {
            ways: pick(random, &[1, 2, 4, 16]),
            policy: pick(
                random,
                &[
                    CachePolicy::Lru,
                    CachePolicy::Clock,
                    CachePolicy::TwoQ,
                    CachePolicy::S3Fifo,
                ],
            ),
            mshr_count: pick(random, &[1, 2, 8, 64]),
            lookup: Picos::from_nanos(49),
            clean_victims: pick(random, &[CleanVictims::Drop, CleanVictims::Program]),
            victim_order: VictimOrder::BeforeRead,
        },
        prefetch: PrefetchConfig {
            kind: pick(
                random,
                &[
                    PrefetcherKind::NextN,
                    PrefetcherKind::NextN,
                    PrefetcherKind::Stride,
                    PrefetcherKind::BestOffset,
                    PrefetcherKind::Spatial,
                ],
            ),
            pages: pick(random, &[0, 1, 3]),
            on_first_use: random.below(2) == 0,
            reserve: pick(random, &[0, 0, 1]),
            streams: pick(random, &[1, 4]),
            regions: pick(random, &[1, 8]),
            throttle: pick(random, &[Throttle::Off, Throttle::ByUse]),
        },
        compaction: CompactionConfig {
            page_cost: Picos::from_micros(1),
            batch: pick(random, &[1, 3, 16]),
            leaves: 0,
            copies: pick(random, &[Cost::Charged, Cost::Free]),
            takes: pick(
                random,
                &[CompactionTakes::SealedHalf, CompactionTakes::BothHalves],
            ),
            launch: pick(
                random,
                &[
                    CompactionLaunch::AtOnce,
                    CompactionLaunch::IdleDies,
                    CompactionLaunch::Sequential,
                    CompactionLaunch::ChannelParallel,
                ],
            ),
        },
        promotion: PromotionConfig {
            threshold: pick(random, &[1, 5, 30]),
            fetch_uses: pick(random, &[0, 3]),
            remembers: pick(random, &[false, true]),
            counts: pick(random, &[PromotionCounts::Uses, PromotionCounts::CacheHits]),
        },
    }
}

/// Puts three quarters of the log into frames of the data cache, where that goes: of a log that is
/// four times as large, for a few frames seldom change hands.
fn share_room(ssd: &mut SsdConfig) {
    let log = &mut ssd.log;
    let goes = log.mode == LogMode::Halves
        && log.seal_at == Ratio::percent(100)
        && log.size >= LINE_BYTES * 2
        && ssd.cache.ways > 1;
    if goes {
        log.least = log.size;
        log.size = log.least * 4;
        ssd.dram += log.least * 7;
    }
}

/// Whether the log of a run has the skip list for its index: two seeds of four, so that both meet
/// what else depends on the seed.
pub fn has_skip_list(seed: u64) -> bool {
    seed % 4 >= 2
}

pub fn random_config(random: &mut Stream) -> ControllerConfig {
    let lines = pick(random, &[2, 8, 8, 8, 64]);
    let page = PageSize::new(LINE_BYTES * lines).expect("a power of two");
    let geometry = FlashGeometry {
        channel_count: 2,
        chips_per_channel: 1,
        dies_per_chip: pick(random, &[1, 2]),
        planes_per_die: 1,
        blocks_per_plane: 16,
        units_per_block: pick(random, &[4, 8]),
        unit_size: page,
        units_per_page: 1,
    };
    let mut ssd = random_ssd(random, page);
    let program_to = match ssd.compaction.launch {
        CompactionLaunch::IdleDies => ProgramTo::IdleDie,
        _ => ProgramTo::InTurn,
    };
    if random.below(2) == 0 {
        share_room(&mut ssd);
    }
    ControllerConfig {
        ssd,
        ftl: FtlConfig {
            program_to,
            ..random_ftl(random, page)
        },
        delay_enabled: random.below(2) == 0,
        promotion_enabled: random.below(2) == 0,
        geometry,
        timing: units::Timing::constant(
            Picos::from_micros(3),
            Picos::from_micros(100),
            Picos::from_micros(1000),
        ),
        switch_threshold: pick(random, &[Picos::from_micros(2), Picos::from_micros(50)]),
    }
}

/// Puts one, two or four pages into a flash page, by seed: with either index of the log.
pub fn fill_flash_pages(config: &mut ControllerConfig, seed: u64) {
    let units = [1, 2, 1, 4][(seed / 4 % 4) as usize];
    if units > 1 {
        config.geometry.units_per_block *= units;
        config.geometry.units_per_page = units;
        config.ftl.over_provisioning = Ratio::percent(50);
    }
}

#[allow(dead_code, reason = "not every test wants a host like this")]
pub fn random_mix(random: &mut Stream) -> Mix {
    Mix {
        reads: pick(random, &[20, 35]),
        writes: pick(random, &[10, 25]),
        migrations: pick(random, &[0, 8, 8]),
        pages: pick(random, &[0, 5, 15]),
        runs: pick(random, &[0, 5, 15]),
        transactions: 0,
        hot_pages: pick(random, &[2, 8, 30]),
    }
}
