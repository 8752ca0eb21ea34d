//! Power cuts: small devices of random shape lose power at random moments and recover; every line
//! is then what was acknowledged last, or of one of the writes that had no answer.
//!
//! `MODEL_SEED=<seed> cargo test -p entresol-firmware --test all recovery` repeats one run alone,
//! `FRAMES_SEED=<seed>` one with frames that survive.

use crate::lab::{Lab, Mix};
use crate::random::{fill_flash_pages, has_skip_list, pick, random_config};
use firmware::log_index::{LogIndex, SkipList, TwoLevelHash};
use firmware::{CachePolicy, ControllerConfig, LogMode, PowerLossProtection, PrefetcherKind};
use units::{Bytes, Ratio, Stream};

const RUNS: u64 = 150;
/// Of devices with frames that survive.
const FRAMES_RUNS: u64 = 60;
const STEPS: u64 = 6_000;
/// One step in so many is a cut.
const STEPS_PER_CUT: u64 = 150;

/// A device that is for use and not for simulation, and new: with a log, or with frames that
/// survive.
fn durable_config(random: &mut Stream, seed: u64, has_log: bool) -> ControllerConfig {
    loop {
        let mut config = random_config(random);
        config.promotion_enabled = false;
        config.delay_enabled = false;
        config.ftl.fill = Ratio::percent(0);
        config.ssd.log.mode = LogMode::Halves;
        config.ssd.buffer_hits = true;
        config.ssd.log.tx_log = Bytes::new(4 * pick(random, &[1, 3, 100]));
        config.ssd.dram += config.ssd.log.tx_log;
        config.ssd.dram += Bytes::from_kib(4);
        let policies = (config.ssd.cache.policy, config.ssd.prefetch.kind);
        if random.below(3) == 0 {
            config.ssd.cache.policy = CachePolicy::None;
            config.ssd.prefetch.kind = PrefetcherKind::None;
        }
        if !has_log {
            config.ssd.dram = config.ssd.dram - config.ssd.log.tx_log;
            config.ssd.log.tx_log = Bytes::ZERO;
            config.ssd.power_loss_protection = PowerLossProtection::Dram;
            (config.ssd.cache.policy, config.ssd.prefetch.kind) = policies;
        }
        if has_log && config.ssd.log.least > Bytes::ZERO {
            // Not both: lines of transactions have room that nobody takes back.
            match random.below(2) {
                0 => config.ssd.log.least = Bytes::ZERO,
                _ => {
                    config.ssd.dram = config.ssd.dram - config.ssd.log.tx_log;
                    config.ssd.log.tx_log = Bytes::ZERO;
                }
            }
        }
        if has_log == (config.ssd.log.half_slot_count() > 0) {
            fill_flash_pages(&mut config, seed);
            assert_eq!(config.validate(), Vec::<String>::new());
            return config;
        }
    }
}

fn mix(random: &mut Stream) -> Mix {
    Mix {
        reads: 15,
        writes: pick(random, &[10, 25]),
        migrations: 0,
        pages: pick(random, &[5, 15]),
        runs: pick(random, &[5, 15]),
        transactions: pick(random, &[0, 20, 40]),
        hot_pages: pick(random, &[2, 8]),
    }
}

/// A device without a log whose frames survive: what it has to do between cuts and after them.
fn run_with_frames(seed: u64) -> [u64; 4] {
    let mut random = Stream::new(seed, "recovery/frames");
    let config = durable_config(&mut random, seed, false);
    println!("FRAMES_SEED={seed}: {config:?}");
    let mix = Mix {
        transactions: 0,
        ..mix(&mut random)
    };
    let mut lab = Lab::<TwoLevelHash>::new(&config, mix, seed);
    let (mut evicted, mut kept) = (0, 0);
    for _ in 0..STEPS {
        if random.below(STEPS_PER_CUT) == 0 {
            evicted += lab.controller.stats().evictions_dirty;
            kept += lab.bench.tables.frames.len() as u64;
            lab.cut(&config);
        } else {
            lab.step();
        }
    }
    lab.settle();
    [lab.cuts, lab.checked_reads, evicted, kept]
}

#[test]
fn what_was_acknowledged_survives_every_cut_in_frames() {
    if let Ok(seed) = std::env::var("FRAMES_SEED") {
        run_with_frames(seed.parse().expect("a seed is a number"));
        return;
    }
    let runs: Vec<_> = (0..FRAMES_RUNS).map(run_with_frames).collect();
    let names = ["cuts", "reads compared", "dirty evictions", "frames kept"];
    for (nth, what) in names.into_iter().enumerate() {
        let count: u64 = runs.iter().map(|run| run[nth]).sum();
        println!("{count:>10} {what}");
        assert!(count > 1000, "{what} happened only {count} times");
    }
}

fn run<I: LogIndex>(seed: u64) -> [u64; 8] {
    let mut random = Stream::new(seed, "recovery");
    let config = durable_config(&mut random, seed, true);
    println!("MODEL_SEED={seed}: {config:?}");
    let mut mix = mix(&mut random);
    if config.ssd.log.tx_log == Bytes::ZERO {
        mix.transactions = 0;
    }
    let mut lab = Lab::<I>::new(&config, mix, seed);
    let mut sums = [0; 4];
    for _ in 0..STEPS {
        if random.below(STEPS_PER_CUT) == 0 {
            let stats = lab.controller.stats();
            sums[0] += stats.compactions;
            sums[1] += stats.migrated_lines;
            sums[2] += stats.aborts;
            sums[3] += stats.commit_stalls;
            lab.cut(&config);
        } else {
            lab.step();
        }
    }
    lab.settle();
    let [compactions, migrated, aborts, stalls] = sums;
    let of_lab = [lab.cuts, lab.checked_reads, lab.commits, lab.conflicts];
    let [cuts, reads, commits, conflicts] = of_lab;
    [
        cuts,
        reads,
        commits,
        conflicts,
        compactions,
        migrated,
        aborts,
        stalls,
    ]
}

fn run_with_its_index(seed: u64) -> [u64; 8] {
    match has_skip_list(seed) {
        true => run::<SkipList>(seed),
        false => run::<TwoLevelHash>(seed),
    }
}

#[test]
fn what_was_acknowledged_survives_every_cut() {
    if let Ok(seed) = std::env::var("MODEL_SEED") {
        run_with_its_index(seed.parse().expect("a seed is a number"));
        return;
    }
    let runs: Vec<_> = (0..RUNS).map(run_with_its_index).collect();
    let names = [
        "cuts",
        "reads compared",
        "commits",
        "conflicts",
        "compactions",
        "lines migrated",
        "aborts",
        "commits that waited",
    ];
    for (nth, what) in names.into_iter().enumerate() {
        let count: u64 = runs.iter().map(|run| run[nth]).sum();
        println!("{count:>10} {what}");
        assert!(count > 1000, "{what} happened only {count} times");
    }
}
