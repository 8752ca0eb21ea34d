//! Power cuts: small devices of random shape lose power at random moments and recover; every line
//! is then what was acknowledged last, or of one of the writes that had no answer.
//!
//! `MODEL_SEED=<seed> cargo test -p firmware --test recovery` repeats one run alone.

mod common;
#[path = "common/lab.rs"]
mod lab;
#[path = "common/random.rs"]
mod random;

use firmware::{CachePolicy, ControllerConfig, LogMode, PrefetcherKind};
use lab::{Lab, Mix};
use random::{pick, random_config};
use units::{Ratio, Stream};

const RUNS: u64 = 150;
const STEPS: u64 = 6_000;
/// One step in so many is a cut.
const STEPS_PER_CUT: u64 = 150;

/// A device that is for use and not for simulation, and new.
fn durable_config(random: &mut Stream) -> ControllerConfig {
    loop {
        let mut config = random_config(random);
        config.promotion_enabled = false;
        config.delay_enabled = false;
        config.ftl.fill = Ratio::percent(0);
        config.ssd.log_mode = LogMode::Halves;
        if random.below(3) == 0 {
            config.ssd.cache_policy = CachePolicy::None;
            config.ssd.prefetcher = PrefetcherKind::None;
        }
        if config.ssd.half_slot_count() > 0 {
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
        hot_pages: pick(random, &[2, 8]),
    }
}

fn run(seed: u64) -> [u64; 4] {
    let mut random = Stream::new(seed, "recovery");
    let config = durable_config(&mut random);
    println!("MODEL_SEED={seed}: {config:?}");
    let mut lab = Lab::new(&config, mix(&mut random), seed);
    let (mut compactions, mut erases) = (0, 0);
    for _ in 0..STEPS {
        if random.below(STEPS_PER_CUT) == 0 {
            compactions += lab.controller.stats().compactions;
            lab.cut(&config);
        } else {
            lab.step();
        }
    }
    erases += lab.bench.erases;
    lab.settle();
    [lab.cuts, lab.checked_reads, compactions, erases]
}

#[test]
fn what_was_acknowledged_survives_every_cut() {
    if let Ok(seed) = std::env::var("MODEL_SEED") {
        run(seed.parse().expect("a seed is a number"));
        return;
    }
    let runs: Vec<_> = (0..RUNS).map(run).collect();
    for (what, nth) in [
        ("cuts", 0),
        ("reads compared", 1),
        ("compactions", 2),
        ("erases", 3),
    ] {
        let count: u64 = runs.iter().map(|run| run[nth]).sum();
        println!("{count:>10} {what}");
        assert!(count > 1000, "{what} happened only {count} times");
    }
}
