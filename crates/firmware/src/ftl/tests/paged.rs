//! Flash pages of several mapping units.

use super::*;
use units::BlockAddr;

fn programs_of_flash(bench: &Bench<ImplicitMapping>) -> usize {
    let dies = (0..GEOMETRY.die_count()).map(DieId::new);
    let queued = dies.flat_map(|die| bench.flash.queue(die));
    queued
        .filter(|command| matches!(command.op, NandOp::Program { .. }))
        .count()
}

fn place(bench: &Bench<ImplicitMapping>, lpa: u64) -> Ppa {
    bench.ftl.mapping.lookup(Lpa::new(lpa)).expect("mapped")
}

fn empty_bench(units_per_page: u64) -> Bench<ImplicitMapping> {
    let config = FtlConfig {
        fill: Ratio::percent(0),
        ..testing::paged(units_per_page)
    };
    Bench::new(implicit(&config), &config, 1)
}

#[test]
fn every_read_returns_the_page_last_programmed() {
    for (seed, units_per_page) in [(0, 2), (1, 4), (2, 4), (3, 8)] {
        let config = testing::paged(units_per_page);
        let mut bench = Bench::new(implicit(&config), &config, seed);
        bench.run(100_000);
        let stats = *bench.ftl.stats();
        assert!(stats.erases > 100 && stats.gc_drops > 10, "{stats:?}");
        assert!(bench.stale_reads > 10);
        assert!(stats.padding > 10 && stats.waits > 10, "{stats:?}");
    }
}

#[test]
fn a_die_that_reorders_operations_loses_nothing() {
    for (seed, units_per_page) in [(0, 2), (1, 4)] {
        let config = FtlConfig {
            gc_pages: 1,
            gc_foreground_pages: 3,
            gc_buffers: 2,
            ..testing::paged(units_per_page)
        };
        let mut bench = Bench::new(implicit(&config), &config, seed);
        bench.flash = bench.flash.reordering();
        bench.run(40_000);
    }
}

#[test]
fn units_of_a_flash_page_are_one_program_on_one_die_and_map_one_by_one() {
    let mut bench = empty_bench(4);
    for lpa in 0..3 {
        bench.program(Lpa::new(lpa));
        assert_eq!(
            (bench.ftl.gathered(), programs_of_flash(&bench)),
            (lpa as usize + 1, 0)
        );
    }
    bench.program(Lpa::new(3));
    assert_eq!((bench.ftl.gathered(), programs_of_flash(&bench)), (0, 1));
    assert_eq!(bench.ftl.estimator, {
        let mut one = bench.ftl.estimator.emptied();
        one.enter(DieId::new(0), FlashOp::Program, false);
        one
    });
    bench.ftl.audit();
    bench.finish_all();
    let first = place(&bench, 0);
    for lpa in 0..4 {
        assert_eq!(place(&bench, u64::from(lpa)), first.offset(lpa));
    }
    bench.program(Lpa::new(4));
    bench.ftl.close_page(Time::ZERO, &mut bench.flash);
    bench.finish_all();
    let geometry = bench.ftl.geometry;
    assert_ne!(
        geometry.die_of_unit(place(&bench, 4)),
        geometry.die_of_unit(first)
    );
    assert_eq!(bench.ftl.stats().padding, 3);
    assert_eq!(bench.ftl.stats().host_programs, 5);
}

#[test]
fn a_page_that_is_written_twice_into_one_flash_page_is_the_later_one() {
    let mut bench = empty_bench(4);
    for lpa in [7, 7, 8, 7] {
        bench.program(Lpa::new(lpa));
    }
    bench.finish_all();
    bench.read(Lpa::new(7));
    bench.finish_all();
    bench.ftl.audit();
    let block = bench.ftl.geometry.block_of(place(&bench, 7));
    assert_eq!(bench.ftl.mapping.valid_count(block), 2);
}

#[test]
fn all_units_of_a_failed_flash_page_are_programmed_anew() {
    let mut bench = empty_bench(4);
    let always = Ratio::percent(100);
    for lpa in 0..4 {
        bench.program(Lpa::new(lpa));
    }
    bench.flash.fault_rates = Some(testing::FaultRates {
        programs: always,
        erases: Ratio::percent(0),
        reads: Ratio::percent(0),
    });
    bench.finish();
    bench.flash.fault_rates = None;
    assert_eq!(bench.ftl.failures().programs, 1);
    assert_eq!(programs_of_flash(&bench), 1);
    bench.finish_all();
    for lpa in 0..4 {
        bench.read(Lpa::new(lpa));
    }
    bench.finish_all();
    bench.ftl.audit();
    let failed = BlockAddr::new(0);
    assert!(bench.ftl.allocator.block(failed).state != BlockState::Free);
    assert_ne!(bench.ftl.geometry.block_of(place(&bench, 0)), failed);
}

/// Whole flash pages from the host: padding is GC's alone, less than a flash page for a victim.
#[test]
fn gc_fills_its_flash_pages() {
    for units_per_page in [2, 4] {
        let config = testing::paged(units_per_page);
        let mut bench = Bench::new(implicit(&config), &config, 1);
        let pages = bench.ftl.logical_page_count();
        for _ in 0..20_000 {
            for _ in 0..units_per_page {
                let lpa = Lpa::new(bench.stream.below(pages));
                bench.program(lpa);
            }
            bench.finish_all();
        }
        let stats = bench.ftl.stats();
        assert!(stats.gc_programs > 10_000, "{stats:?}");
        let most = stats.gc_victims * (units_per_page - 1) + stats.gc_drops;
        assert!(stats.padding <= most, "{stats:?}");
    }
}

/// As many writes as the device has room for, each in a flash page of its own.
#[test]
fn a_device_of_padding_still_finds_room() {
    let config = testing::paged(4);
    let mut bench = Bench::new(implicit(&config), &config, 1);
    let pages = bench.ftl.logical_page_count();
    for _ in 0..10_000 {
        let lpa = Lpa::new(bench.stream.below(pages));
        bench.program(lpa);
        bench.ftl.close_page(Time::ZERO, &mut bench.flash);
        bench.finish_all();
    }
    assert_eq!(bench.ftl.stats().host_programs, 10_000);
    bench.run(1_000);
}
