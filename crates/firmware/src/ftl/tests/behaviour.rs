//! What GC and estimator do in situations with a known outcome.

use super::*;

/// A bench on which every operation is done before the next is submitted.
fn quiet_bench(config: &FtlConfig) -> Bench<ImplicitMapping> {
    Bench::new(implicit(config), config, 1)
}

fn drain(bench: &mut Bench<ImplicitMapping>) {
    while !(bench.ftl.is_idle() && bench.pending.is_empty()) {
        bench.finish();
    }
}

/// GC operations in flight on each die.
fn gc_operations(ftl: &Ftl) -> Vec<u32> {
    let mut counts = alloc::vec![0; GEOMETRY.die_count() as usize];
    for operation in ftl.operations.iter() {
        let page = match *operation {
            Operation::GcRead { source, .. } => source,
            Operation::GcProgram { ppa, .. } | Operation::GcPage { ppa, .. } => ppa,
            Operation::Erase { block } => GEOMETRY.unit_on(block, 0),
            Operation::HostRead { .. } | Operation::HostProgram { .. } => continue,
        };
        counts[GEOMETRY.die_of_unit(page).index()] += 1;
    }
    counts
}

/// Runs until the flash is about to serve an operation for which `is_wanted`.
fn run_until(bench: &mut Bench<ImplicitMapping>, is_wanted: impl Fn(&Operation) -> bool) {
    let found = (0..10_000).any(|_| {
        bench.step();
        bench.ftl.operations.iter().any(&is_wanted)
    });
    assert!(found, "the situation does not come up in 10,000 steps");
}

#[test]
fn a_preconditioned_device_collects_as_soon_as_a_block_is_full() {
    let config = testing::config();
    let mut bench = quiet_bench(&config);
    for page in 0..GEOMETRY.die_count() * GEOMETRY.units_per_block {
        bench.program(Lpa::new(u64::from(page)));
        drain(&mut bench);
    }
    // Each die has filled its open block once.
    assert!(bench.ftl.stats().gc_victims >= u64::from(GEOMETRY.die_count()));
}

#[test]
fn overwriting_in_order_relocates_nothing() {
    let config = testing::config();
    let mut bench = quiet_bench(&config);
    for round in 0..4 {
        bench.ftl.reset_stats();
        for page in 0..bench.ftl.logical_page_count() {
            bench.program(Lpa::new(page));
            drain(&mut bench);
        }
        let stats = bench.ftl.stats();
        assert_eq!(stats.host_programs, bench.ftl.logical_page_count());
        assert!(
            round < 2 || (stats.gc_programs == 0 && stats.erases > 0),
            "{round}: {stats:?}"
        );
    }
}

#[test]
fn every_gc_program_follows_a_gc_read_and_every_victim_is_erased() {
    let config = testing::config();
    let mut bench = Bench::new(implicit(&config), &config, 3);
    bench.run(20_000);
    let stats = bench.ftl.stats();
    assert_eq!(stats.erases, stats.gc_victims);
    assert_eq!(stats.erases, bench.ftl.wear().total);
    // A page overwritten before its relocation was programmed is not programmed.
    assert!(stats.gc_programs < stats.gc_reads);
    assert!(stats.gc_reads <= stats.gc_programs + stats.gc_drops);
}

/// What GC does while the host rests is what it owes less afterwards, place by place.
#[test]
fn gc_pays_what_it_owes() {
    let (mut paying, mut different) = (0, 0);
    let (mut pages, mut pages_beside) = (0, 0);
    for (seed, gc) in [
        (11, GcKind::Incremental),
        (12, GcKind::Incremental),
        (13, GcKind::Bulk),
    ] {
        let config = FtlConfig {
            gc,
            gc_bulk_blocks: 12,
            over_provisioning: Ratio::percent(50),
            ..testing::config()
        };
        let mut bench = Bench::new(implicit(&config), &config, seed);
        for _ in 0..300 {
            (0..40).for_each(|_| bench.step());
            while !bench.pending.is_empty() {
                bench.finish();
            }
            let owed = bench.ftl.gc_owed();
            let (mut moving, mut erasing) = (0, 0);
            for operation in bench.ftl.operations.iter() {
                match operation {
                    Operation::GcProgram { .. } => moving += 1,
                    Operation::Erase { .. } => erasing += 1,
                    _ => {}
                }
            }
            let before = *bench.ftl.stats();
            drain(&mut bench);
            let after = bench.ftl.stats();
            let still = bench.ftl.gc_owed();
            let moved = after.gc_programs - before.gc_programs + moving;
            let erased = after.erases - before.erases + erasing;
            let erased = erased * u64::from(GEOMETRY.units_per_block);
            let differs = (owed.moved, owed.erased) != (still.moved + moved, still.erased + erased);
            different += u64::from(differs);
            paying += u64::from(erased > 0);
            pages += moved;
            pages_beside += owed.moved.abs_diff(still.moved + moved);
        }
    }
    assert!(paying > 100, "{paying}");
    // What is in flight may make another block the best victim, and where nothing else is left to
    // be gained a block that GC fills meanwhile may have something.
    assert!(different * 20 < paying, "{different} of {paying}");
    assert!(pages_beside * 20 < pages, "{pages_beside} of {pages}");
}

/// Every place that is written is owed, not only those of blocks that are full.
#[test]
fn a_place_that_the_host_writes_is_owed_at_once() {
    let config = testing::config();
    let mut bench = Bench::new(implicit(&config), &config, 14);
    bench.run(5_000);
    drain(&mut bench);
    let lacking = |bench: &Bench<_>| {
        let owed = bench.ftl.gc_owed();
        owed.erased - owed.moved
    };
    for page in 0..200 {
        let (before, stats) = (lacking(&bench), *bench.ftl.stats());
        bench.program(Lpa::new(page));
        drain(&mut bench);
        let after = bench.ftl.stats();
        let written = after.host_programs + after.gc_programs;
        let written = written - stats.host_programs - stats.gc_programs;
        let erased = after.erases - stats.erases;
        assert_eq!(
            lacking(&bench) + erased * u64::from(GEOMETRY.units_per_block),
            before + written,
        );
    }
}

/// The most operations that GC of a die had in flight in a run.
fn most_gc_in_flight(gc_pages: u32, gc_foreground_pages: u32) -> u32 {
    let config = FtlConfig {
        gc_pages,
        gc_foreground_pages,
        gc_buffers: 64,
        ..testing::config()
    };
    let mut bench = Bench::new(implicit(&config), &config, 5);
    let most_now = |ftl: &Ftl| gc_operations(ftl).into_iter().max().unwrap_or(0);
    let steps = (0..20_000).map(|_| {
        bench.step();
        most_now(&bench.ftl)
    });
    steps.max().unwrap_or(0)
}

#[test]
fn gc_of_a_die_has_a_few_pages_in_flight_and_more_when_the_host_waits() {
    assert_eq!(most_gc_in_flight(2, 2), 2);
    assert_eq!(most_gc_in_flight(1, 4), 4);
}

#[test]
fn a_program_that_waits_for_room_goes_when_a_page_becomes_invalid() {
    let config = FtlConfig {
        fill: Ratio::percent(0),
        ..testing::config()
    };
    let mut bench = quiet_bench(&config);
    let buffer = BufferId::new(0);
    bench.flash.fill(buffer, 1);
    // All dies are filled up to the spare blocks with programs of one page, and one waits.
    let room = 4 * 13 * 8;
    for owner in (0..=room).map(Owner::new) {
        let from = PagePlace::Buffer(buffer);
        let (ftl, flash) = (&mut bench.ftl, &mut bench.flash);
        ftl.program(Time::ZERO, Lpa::new(0), from, owner, flash);
    }
    let mut finish = || {
        let tag = bench
            .flash
            .finish_one(&mut bench.stream)
            .expect("programs are queued");
        bench
            .ftl
            .on_nand_done(Time::from_picos(7), tag, &mut bench.flash);
        bench.ftl.waiting.len()
    };
    // The first to end is mapped; with the second, one of the two is invalid.
    assert_eq!((finish(), finish()), (1, 0));
    let stats = bench.ftl.stats();
    assert_eq!((stats.waits, stats.wait_time), (1, Picos::new(7)));
}

#[test]
fn a_read_behind_gc_switches_at_once() {
    let config = FtlConfig {
        estimator: EstimatorKind::Die,
        ..testing::config()
    };
    let mut bench = Bench::new(implicit(&config), &config, 7);
    run_until(&mut bench, |operation| {
        matches!(operation, Operation::Erase { .. })
    });
    let collecting = gc_operations(&bench.ftl);
    for lpa in (0..bench.ftl.logical_page_count()).map(Lpa::new) {
        let Some(die) = bench.ftl.die_of(lpa) else {
            continue;
        };
        let is_behind_gc = collecting[die.index()] > 0;
        assert_eq!(bench.ftl.estimate(lpa).gc_in_progress, is_behind_gc);
    }
}

#[test]
fn a_block_is_erased_after_the_last_read_of_it() {
    let config = FtlConfig {
        gc_pages: 8,
        gc_foreground_pages: 8,
        gc_buffers: 32,
        ..testing::config()
    };
    let mut bench = Bench::new(implicit(&config), &config, 9);
    bench.flash = bench.flash.reordering();
    for _ in 0..40_000 {
        bench.step();
        for operation in bench.ftl.operations.iter() {
            if let Operation::Erase { block } = operation {
                assert_eq!(bench.ftl.host_reads_of(*block), 0);
            }
        }
    }
}

/// Uniform overwrites at α = pages in circulation ÷ valid pages: victims hold a share U of valid
/// pages with U = e^(−α(1−U)), and write amplification is 1 ÷ (1 − U) (Desnoyers, "Analytic models
/// of SSD write performance", ACM TOS 2014). Of a die's 16 blocks 2 to 4 are free or open, so α is
/// between 12 × 8 ÷ 77 and 14 × 8 ÷ 77, and write amplification between 1.82 and 2.70.
#[test]
fn write_amplification_of_random_overwrites_meets_theory() {
    let config = testing::config();
    let mut bench = quiet_bench(&config);
    let pages = bench.ftl.logical_page_count();
    for round in 0..40 {
        if round == 10 {
            bench.ftl.reset_stats();
        }
        for _ in 0..pages {
            let lpa = Lpa::new(bench.stream.below(pages));
            bench.program(lpa);
            drain(&mut bench);
        }
    }
    let stats = bench.ftl.stats();
    let percent = (stats.host_programs + stats.gc_programs) * 100 / stats.host_programs;
    assert!(
        (182..=270).contains(&percent),
        "write amplification is {percent} %"
    );
}

#[test]
fn wear_is_spread_over_the_blocks_of_a_die() {
    let config = testing::config();
    let mut bench = quiet_bench(&config);
    let pages = bench.ftl.logical_page_count();
    for _ in 0..100 * pages {
        let lpa = Lpa::new(bench.stream.below(pages));
        bench.program(lpa);
        drain(&mut bench);
    }
    let wear = bench.ftl.wear();
    let mean = wear.total / u64::from(GEOMETRY.block_count());
    assert!(
        u64::from(wear.max) < 2 * mean && u64::from(wear.min) > mean / 2,
        "{wear:?}"
    );
}

#[test]
fn the_full_size_device_runs_in_memory_that_follows_changes() {
    let geometry = FlashGeometry {
        channel_count: 16,
        chips_per_channel: 8,
        dies_per_chip: 8,
        planes_per_die: 1,
        blocks_per_plane: 128,
        units_per_block: 256,
        unit_size: units::PageSize::KIB_4,
        units_per_page: 1,
    };
    let config = FtlConfig {
        over_provisioning: Ratio::new(125, 1000),
        gc_buffers: 256,
        ..testing::config()
    };
    assert!(config.validate(&geometry).is_empty());
    let mut ftl = Ftl::new(geometry, &config, TIMING, BufferId::new(1));
    let mut flash = Flash::vast(geometry);
    flash.fill(BufferId::new(0), 1);
    let mut stream = Stream::new(1, "full size");
    for program in 0..10_000 {
        let lpa = Lpa::new(stream.below(ftl.logical_page_count()));
        let from = PagePlace::Buffer(BufferId::new(0));
        ftl.program(Time::ZERO, lpa, from, Owner::new(program), &mut flash);
        while let Some(tag) = flash.finish_one(&mut stream) {
            ftl.on_nand_done(Time::ZERO, tag, &mut flash);
        }
    }
    let stats = *ftl.stats();
    assert!(ftl.mapping.changed_page_count() <= stats.host_programs + stats.gc_programs);
    assert!(stats.gc_victims > 0, "some die fills its open block");
}
