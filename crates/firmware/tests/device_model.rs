//! The whole device against a plain map: millions of random operations on small devices of random
//! shape, with compaction, eviction, GC, promotion and demotion interleaved and NAND operations
//! ending in random order across dies.
//!
//! A failure names its seed; `MODEL_SEED=<seed> cargo test -p entresol-firmware --test
//! device_model` repeats that run alone.

use crate::common::FaultRates;
use crate::lab::{Lab, Mix};
use crate::random::{fill_flash_pages, has_skip_list, pick, random_config, random_mix};
use firmware::log_index::{LogIndex, SkipList, TwoLevelHash};
use firmware::{
    CachePolicy, CleanVictims, ControllerStats, Fill, FtlStats, LogMode, LogTakes,
    PowerLossProtection, PrefetcherKind, VictimOrder,
};
use units::{Picos, Ratio, Stream};

/// Operations that were done; those that could not be are not counted.
const OPERATIONS_PER_RUN: u64 = 50_000;
const RUNS: u64 = 204;
const OPERATIONS_PER_AUDIT: u64 = 500;

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

fn run<I: LogIndex>(seed: u64, activity: &mut Activity) {
    let mut random = Stream::new(seed, "device_model");
    let mut config = random_config(&mut random);
    fill_flash_pages(&mut config, seed);
    if seed % 2 == 1 {
        config.ssd.cache.victim_order = VictimOrder::BehindRead;
    }
    if seed.is_multiple_of(5) && config.ssd.log.half_slot_count() > 0 {
        config.ssd.cache.policy = CachePolicy::None;
        config.ssd.prefetch.kind = PrefetcherKind::None;
    }
    let has_halves = config.ssd.log.half_slot_count() > 0
        && config.ssd.log.mode == LogMode::Halves
        && config.ssd.buffer_hits;
    if !seed.is_multiple_of(3) && has_halves && config.ssd.cache.policy != CachePolicy::None {
        config.ssd.log.takes = LogTakes::Absent;
    }
    if seed.is_multiple_of(4) {
        (config.ssd.fill, config.ssd.fill_buffers) = (Fill::Buffered, 1 + seed as u32 % 12);
    }
    if seed % 4 == 2 && config.ssd.cache.policy != CachePolicy::None {
        config.ssd.cache.policy = CachePolicy::S3Fifo;
        config.ssd.cache.clean_victims = CleanVictims::Drop;
        (config.ssd.fill, config.ssd.fill_buffers) = (Fill::Buffered, 2);
    }
    if !seed.is_multiple_of(3) && config.ssd.log.half_slot_count() == 0 {
        config.ssd.power_loss_protection = PowerLossProtection::Dram;
        config.ssd.fill = Fill::AtOnce;
    }
    println!("MODEL_SEED={seed}: {config:?}");
    assert_eq!(config.validate(), Vec::<String>::new());
    let mut lab = Lab::<I>::new(&config, random_mix(&mut random), seed);
    if config.ssd.fill_buffers == 2 {
        // Pages come faster than device DRAM takes them.
        lab.bench.costs.dram_per_byte = Picos::new(4000);
    }
    let (mut operations, mut attempts) = (0, 0);
    while operations < OPERATIONS_PER_RUN {
        operations += u64::from(lab.step());
        attempts += 1;
        assert!(
            attempts < 1000 + 50 * operations,
            "the device is stuck after {operations} operations"
        );
        if operations % OPERATIONS_PER_AUDIT == 0 {
            lab.bench.audit(&lab.controller);
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

fn run_with_its_index(seed: u64, activity: &mut Activity) {
    match has_skip_list(seed) {
        true => run::<SkipList>(seed, activity),
        false => run::<TwoLevelHash>(seed, activity),
    }
}

/// A run on flash of which programs, erases and reads fail now and then.
fn run_on_failing_flash<I: LogIndex>(seed: u64) -> Lab<I> {
    let mut random = Stream::new(seed, "device_model/failing");
    let mut config = random_config(&mut random);
    fill_flash_pages(&mut config, seed);
    config.promotion_enabled = false;
    println!("MODEL_SEED={seed}, failing: {config:?}");
    let mix = Mix {
        migrations: 0,
        ..random_mix(&mut random)
    };
    let mut lab = Lab::<I>::new(&config, mix, seed);
    let often = pick(&mut random, &[1, 1, 10]);
    let fault_rates = FaultRates {
        programs: Ratio::new(often, 1000),
        erases: Ratio::new(often, 200),
        reads: Ratio::new(1, 100),
    };
    lab.bench.fault_rates = Some((fault_rates, Stream::new(seed, "fault_rates")));
    for step in 0..20_000 {
        lab.step();
        if step % OPERATIONS_PER_AUDIT == 0 {
            lab.controller.audit();
        }
        if lab.controller.health().is_read_only {
            lab.bench.fault_rates = None;
        }
    }
    lab.settle();
    if !lab.controller.health().is_read_only {
        lab.heal();
    }
    lab
}

/// Poisoned reads, refused writes and retired blocks of a run with the index of its seed.
fn fail_and_count(seed: u64) -> [u64; 3] {
    fn counts<I: LogIndex>(lab: &Lab<I>) -> [u64; 3] {
        let retired = lab.controller.health().retired_blocks;
        [lab.poisoned_reads, lab.refused_writes, u64::from(retired)]
    }
    match has_skip_list(seed) {
        true => counts(&run_on_failing_flash::<SkipList>(seed)),
        false => counts(&run_on_failing_flash::<TwoLevelHash>(seed)),
    }
}

/// No line is wrong, some are poison until they are written again, and a device that has lost too
/// many blocks only reads.
#[test]
fn on_flash_that_fails_no_line_is_wrong() {
    if let Ok(seed) = std::env::var("MODEL_SEED") {
        fail_and_count(seed.parse().expect("a seed is a number"));
        return;
    }
    let (mut poisoned, mut refused, mut retired) = (0, 0, 0);
    for of_run in (0..60).map(fail_and_count) {
        poisoned += of_run[0];
        refused += of_run[1];
        retired += of_run[2];
    }
    println!("{poisoned} poisoned, {refused} refused, {retired} retired");
    assert!(poisoned > 1000 && refused > 1000 && retired > 100);
}

#[test]
fn ten_million_random_operations_agree_with_a_map() {
    let mut activity = Activity::default();
    if let Ok(seed) = std::env::var("MODEL_SEED") {
        return run_with_its_index(seed.parse().expect("a seed is a number"), &mut activity);
    }
    for seed in 0..RUNS {
        run_with_its_index(seed, &mut activity);
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
        ("fills given up", activity.sum(|s| s.fills_given_up)),
        (
            "reads before the page",
            activity.sum(|s| s.reads_before_page),
        ),
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
        (
            "lines logged at evictions",
            activity.sum(|s| s.evicted_lines_logged),
        ),
        (
            "frames that the log took",
            activity.sum(|s| s.log_frames_taken),
        ),
        (
            "frames that it gave back",
            activity.sum(|s| s.log_frames_given),
        ),
        ("useful prefetches", activity.sum(|s| s.prefetches_useful)),
        ("log stalls", activity.sum(|s| s.log_stalls)),
        ("miss stalls", activity.sum(|s| s.miss_stalls)),
        ("promotions", activity.sum(|s| s.promotions_done)),
        ("dirty promotions", activity.sum(|s| s.promotions_dirty)),
        ("offers", activity.sum(|s| s.promotions_requested)),
    ];
    for (what, count) in happened {
        println!("{count:>10} {what}");
        assert!(count > 500, "{what} happened only {count} times");
    }
}
