//! The whole device against a plain map: millions of random operations on small devices of random
//! shape, with compaction, eviction, GC, promotion and demotion interleaved and NAND operations
//! ending in random order across dies.
//!
//! A failure names its seed; `MODEL_SEED=<seed> cargo test -p firmware --test device_model` repeats
//! that run alone.

mod common;
#[path = "common/lab.rs"]
mod lab;

use common::Misfortune;
use firmware::{
    BlockWriteAck, CachePolicy, CleanVictims, ControllerConfig, ControllerStats, Cost, DramAccess,
    EstimatorKind, FirstWrite, FlashTiming, FtlConfig, FtlStats, GcKind, LogIndexKind, LogMode,
    PrefetcherKind, PromotionCounts, SsdConfig, VictimOrder,
};
use lab::{Lab, Mix};
use units::address::LINE_BYTES;
use units::{Bytes, BytesPerSec, FlashGeometry, PageSize, Picos, Ratio, Stream};

/// Operations that were done; those that could not be are not counted.
const OPERATIONS_PER_RUN: u64 = 50_000;
const RUNS: u64 = 204;
const OPERATIONS_PER_AUDIT: u64 = 500;

fn pick<T: Copy>(random: &mut Stream, choices: &[T]) -> T {
    choices[random.below(choices.len() as u64) as usize]
}

fn random_ftl(random: &mut Stream) -> FtlConfig {
    FtlConfig {
        over_provisioning: Ratio::percent(pick(random, &[40, 50])),
        fill: Ratio::percent(pick(random, &[100, 100, 60, 0])),
        overwritten: Ratio::percent(pick(random, &[100, 0])),
        placement: 0,
        first_write: FirstWrite::FirstDie,
        gc: pick(
            random,
            &[GcKind::Incremental, GcKind::Incremental, GcKind::Bulk],
        ),
        gc_start_blocks: pick(random, &[2, 3]),
        gc_pages: pick(random, &[1, 2]),
        gc_foreground_pages: pick(random, &[2, 4]),
        gc_buffers: pick(random, &[1, 3, 8]),
        gc_page_cost: Picos::from_nanos(500),
        gc_threshold: Ratio::percent(80),
        gc_bulk_blocks: 8,
        wear_spread: pick(random, &[0, 2]),
        estimator: pick(random, &[EstimatorKind::Channel, EstimatorKind::Die]),
    }
}

fn random_ssd(random: &mut Stream, page: PageSize) -> SsdConfig {
    let log_lines = pick(random, &[0, 0, 2, 16, 64, 200, 400]);
    let write_log = LINE_BYTES * log_lines;
    let frames = pick(random, &[1, 4, 16, 40, 400]);
    SsdConfig {
        dram: write_log + page.bytes() * frames,
        write_log,
        cache_ways: pick(random, &[1, 2, 4, 16]),
        cache_policy: pick(
            random,
            &[
                CachePolicy::Lru,
                CachePolicy::Clock,
                CachePolicy::TwoQ,
                CachePolicy::S3Fifo,
            ],
        ),
        mshr_count: pick(random, &[1, 2, 8, 64]),
        prefetcher: pick(
            random,
            &[
                PrefetcherKind::NextN,
                PrefetcherKind::NextN,
                PrefetcherKind::Stride,
                PrefetcherKind::BestOffset,
                PrefetcherKind::Spatial,
            ],
        ),
        prefetch_pages: pick(random, &[0, 1, 3]),
        prefetch_on_first_use: random.below(2) == 0,
        prefetch_reserve: pick(random, &[0, 0, 1]),
        prefetch_streams: pick(random, &[1, 4]),
        prefetch_regions: pick(random, &[1, 8]),
        log_lookup: Picos::from_nanos(72),
        cache_lookup: Picos::from_nanos(49),
        read_rate: BytesPerSec::new(11_930_000_000),
        write_rate: BytesPerSec::new(9_370_000_000),
        buffers: pick(random, &[1, 2, 8]),
        firmware_cores: 4,
        compaction_page_cost: Picos::from_micros(1),
        compaction_batch: pick(random, &[1, 3, 16]),
        promotion_threshold: pick(random, &[1, 5, 30]),
        block_write_ack: pick(
            random,
            &[BlockWriteAck::Buffered, BlockWriteAck::Programmed],
        ),
        log_design_share: Ratio::percent(100),
        log_entry: LINE_BYTES,
        log_mode: pick(random, &[LogMode::Halves, LogMode::Ring]),
        log_seal_at: Ratio::percent(pick(random, &[100, 100, 50])),
        log_index: LogIndexKind::TwoLevelHash,
        tx_log: Bytes::ZERO,
        log_write_updates_cache: pick(random, &[true, true, false]),
        write_lookup: pick(random, &[Cost::Charged, Cost::Free]),
        merge_on_fill: pick(random, &[Cost::Charged, Cost::Free]),
        clean_victims: pick(random, &[CleanVictims::Drop, CleanVictims::Program]),
        victim_order: VictimOrder::BeforeRead,
        buffer_hits: pick(random, &[true, true, false]),
        delay_answer_cost: pick(random, &[Picos::ZERO, Picos::from_nanos(46)]),
        dram_access: DramAccess::Timed,
        dram_latency: Picos::from_nanos(46),
        compaction_copies: pick(random, &[Cost::Charged, Cost::Free]),
        promotion_counts: pick(random, &[PromotionCounts::Uses, PromotionCounts::CacheHits]),
    }
}

fn random_config(random: &mut Stream) -> ControllerConfig {
    let lines = pick(random, &[2, 8, 8, 8, 64]);
    let page = PageSize::new(LINE_BYTES * lines).expect("a power of two");
    let geometry = FlashGeometry {
        channel_count: 2,
        chips_per_channel: 1,
        dies_per_chip: pick(random, &[1, 2]),
        planes_per_die: 1,
        blocks_per_plane: 16,
        pages_per_block: pick(random, &[4, 8]),
        page_size: page,
    };
    ControllerConfig {
        ssd: random_ssd(random, page),
        ftl: random_ftl(random),
        delay_enabled: random.below(2) == 0,
        promotion_enabled: random.below(2) == 0,
        geometry,
        timing: FlashTiming {
            read: Picos::from_micros(3),
            program: Picos::from_micros(100),
            erase: Picos::from_micros(1000),
        },
        switch_threshold: pick(random, &[Picos::from_micros(2), Picos::from_micros(50)]),
    }
}

fn random_mix(random: &mut Stream) -> Mix {
    Mix {
        reads: pick(random, &[20, 35]),
        writes: pick(random, &[10, 25]),
        migrations: pick(random, &[0, 8, 8]),
        pages: pick(random, &[0, 5, 15]),
        runs: pick(random, &[0, 5, 15]),
        hot_pages: pick(random, &[2, 8, 30]),
    }
}

/// What happened in all runs, to show that the mechanisms really met.
#[derive(Default)]
struct Activity {
    checked_reads: u64,
    checked_page_reads: u64,
    checked_run_reads: u64,
    delays: u64,
    clean_demotions: u64,
    erases: u64,
    controller: Vec<ControllerStats>,
    ftl: Vec<FtlStats>,
}

impl Activity {
    fn sum(&self, counter: impl Fn(&ControllerStats) -> u64) -> u64 {
        self.controller.iter().map(counter).sum()
    }
}

fn run(seed: u64, activity: &mut Activity) {
    let mut random = Stream::new(seed, "device_model");
    let mut config = random_config(&mut random);
    if seed % 2 == 1 {
        config.ssd.victim_order = VictimOrder::BehindRead;
    }
    if seed % 5 == 0 && config.ssd.half_slot_count() > 0 {
        config.ssd.cache_policy = CachePolicy::None;
        config.ssd.prefetcher = PrefetcherKind::None;
    }
    println!("MODEL_SEED={seed}: {config:?}");
    assert_eq!(config.validate(), Vec::<String>::new());
    let mut lab = Lab::new(&config, random_mix(&mut random), seed);
    let (mut operations, mut attempts) = (0, 0);
    while operations < OPERATIONS_PER_RUN {
        operations += u64::from(lab.step());
        attempts += 1;
        assert!(
            attempts < 1000 + 50 * operations,
            "the device is stuck after {operations} operations"
        );
        if operations % OPERATIONS_PER_AUDIT == 0 {
            lab.controller.audit();
        }
    }
    lab.settle();
    activity.checked_reads += lab.checked_reads;
    activity.checked_page_reads += lab.checked_page_reads;
    activity.checked_run_reads += lab.checked_run_reads;
    activity.delays += lab.delays;
    activity.clean_demotions += lab.clean_demotions;
    activity.erases += lab.bench.erases;
    activity.controller.push(*lab.controller.stats());
    activity.ftl.push(*lab.controller.ftl_stats());
}

/// A run on flash of which programs, erases and reads fail now and then.
fn run_on_failing_flash(seed: u64) -> Lab {
    let mut random = Stream::new(seed, "device_model/failing");
    let mut config = random_config(&mut random);
    config.promotion_enabled = false;
    println!("MODEL_SEED={seed}, failing: {config:?}");
    let mix = Mix {
        migrations: 0,
        ..random_mix(&mut random)
    };
    let mut lab = Lab::new(&config, mix, seed);
    let often = pick(&mut random, &[1, 1, 10]);
    let misfortune = Misfortune {
        programs: Ratio::new(often, 1000),
        erases: Ratio::new(often, 200),
        reads: Ratio::new(1, 100),
    };
    lab.bench.misfortune = Some((misfortune, Stream::new(seed, "misfortune")));
    for step in 0..20_000 {
        lab.step();
        if step % OPERATIONS_PER_AUDIT == 0 {
            lab.controller.audit();
        }
        if lab.controller.health().is_read_only {
            lab.bench.misfortune = None;
        }
    }
    lab.settle();
    if !lab.controller.health().is_read_only {
        lab.heal();
    }
    lab
}

/// No line is wrong, some are poison until they are written again, and a device that has lost too
/// many blocks only reads.
#[test]
fn on_flash_that_fails_no_line_is_wrong() {
    if let Ok(seed) = std::env::var("MODEL_SEED") {
        run_on_failing_flash(seed.parse().expect("a seed is a number"));
        return;
    }
    let (mut poisoned, mut refused, mut retired) = (0, 0, 0);
    for lab in (0..60).map(run_on_failing_flash) {
        poisoned += lab.poisoned_reads;
        refused += lab.refused_writes;
        retired += lab.controller.health().retired_blocks;
    }
    println!("{poisoned} poisoned, {refused} refused, {retired} retired");
    assert!(poisoned > 1000 && refused > 1000 && retired > 100);
}

#[test]
fn ten_million_random_operations_agree_with_a_map() {
    let mut activity = Activity::default();
    if let Ok(seed) = std::env::var("MODEL_SEED") {
        return run(seed.parse().expect("a seed is a number"), &mut activity);
    }
    for seed in 0..RUNS {
        run(seed, &mut activity);
    }
    const { assert!(RUNS * OPERATIONS_PER_RUN >= 10_000_000) };
    let happened = [
        ("reads compared", activity.checked_reads),
        ("page reads compared", activity.checked_page_reads),
        ("page writes", activity.sum(|s| s.page_writes)),
        ("run reads compared", activity.checked_run_reads),
        ("run writes", activity.sum(|s| s.run_writes)),
        ("trims", activity.sum(|s| s.trims)),
        ("flushes", activity.sum(|s| s.flushes)),
        ("delays", activity.delays),
        ("clean demotions", activity.clean_demotions),
        ("erases", activity.erases),
        (
            "GC relocations",
            activity.ftl.iter().map(|stats| stats.gc_programs).sum(),
        ),
        ("log hits", activity.sum(|s| s.served.log_hit)),
        ("buffer hits", activity.sum(|s| s.served.buffer_hit)),
        ("merged misses", activity.sum(|s| s.served.merged_miss)),
        ("unmapped reads", activity.sum(|s| s.served.unmapped)),
        ("compactions", activity.sum(|s| s.compactions)),
        ("coalescing reads", activity.sum(|s| s.coalescing_reads)),
        (
            "cached pages compacted",
            activity.sum(|s| s.compacted_cached_pages),
        ),
        ("clean evictions", activity.sum(|s| s.evictions_clean)),
        ("dirty evictions", activity.sum(|s| s.evictions_dirty)),
        ("useful prefetches", activity.sum(|s| s.prefetches_useful)),
        ("log stalls", activity.sum(|s| s.log_stalls)),
        ("miss stalls", activity.sum(|s| s.miss_stalls)),
        ("promotions", activity.sum(|s| s.promotions_done)),
        ("dirty promotions", activity.sum(|s| s.promotions_dirty)),
        ("offers", activity.sum(|s| s.promotions_requested)),
    ];
    for (what, count) in happened {
        println!("{count:>10} {what}");
        assert!(count > 1000, "{what} happened only {count} times");
    }
}
