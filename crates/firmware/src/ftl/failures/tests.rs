use super::*;
use crate::ftl::mapping::ImplicitMapping;
use crate::ftl::testing::{self, FaultRates, GEOMETRY, TIMING};
use crate::ftl::tests::{Bench, HOST_BUFFERS, implicit};
use crate::ftl::{FtlConfig, Wear};
use crate::platform::BufferId;
use units::{Lpa, Ratio, Stream};

/// A device in use that keeps records; one in `one_in` operations of these kinds fails.
fn bench(config: &FtlConfig, seed: u64, one_in: [u64; 3]) -> Bench<ImplicitMapping> {
    let mut bench = Bench::new(implicit(config), config, seed);
    bench.ftl.record_state(&mut bench.flash);
    let chance = |one_in: u64| Ratio::new(u64::from(one_in > 0), one_in.max(1));
    let [programs, erases, reads] = one_in.map(chance);
    bench.flash.fault_rates = Some(FaultRates {
        programs,
        erases,
        reads,
    });
    bench
}

fn retired(bench: &Bench<ImplicitMapping>) -> u64 {
    u64::from(bench.ftl.allocator.retired_count())
}

#[test]
fn failed_programs_and_erases_lose_nothing() {
    for (seed, one_in, units_per_page) in [
        (1, [3000, 0, 0], 1),
        (2, [0, 200, 0], 1),
        (3, [6000, 400, 0], 1),
        (4, [600, 0, 0], 2),
        (5, [1000, 200, 0], 4),
    ] {
        let mut bench = bench(&testing::paged(units_per_page), seed, one_in);
        bench.run(20_000);
        let failures = bench.ftl.failures();
        let lost = retired(&bench);
        assert!(
            lost > 1 && lost <= failures.programs + failures.erases,
            "{lost}: {failures:?}"
        );
        assert_eq!(bench.poisoned_reads, 0);
        let as_recorded = bench.flash.tables.blocks.values();
        let recorded = as_recorded.filter(|block| block.is_retired).count() as u64;
        assert_eq!(recorded, lost, "what is retired is recorded");
        assert!(
            !bench.ftl.is_read_only(),
            "{lost} of 14 spare blocks are lost"
        );
    }
}

#[test]
fn a_device_without_spare_blocks_is_read_only_and_still_right() {
    for (seed, units_per_page) in (0..6).zip([1, 1, 1, 1, 2, 4]) {
        let mut bench = bench(&testing::paged(units_per_page), seed, [500, 100, 0]);
        for _ in 0..200_000 {
            bench.step();
            if bench.ftl.is_read_only() {
                break;
            }
        }
        assert!(bench.ftl.is_read_only());
        let (spare, whole) = bench.ftl.spare_pages();
        let least = 2 * u64::from(bench.ftl.geometry.units_per_block);
        assert!(spare < least && whole >= 5 * least, "{spare} of {whole}");
        // Nothing more fails, so what was accepted finds its place.
        bench.flash.fault_rates = None;
        bench.run(1_000);
    }
}

#[test]
fn a_page_that_cannot_be_corrected_stays_poison_until_it_is_written() {
    let mut bench = bench(&testing::config(), 1, [0, 0, 50]);
    bench.run(40_000);
    let failures = bench.ftl.failures();
    assert!(failures.reads > 100 && bench.poisoned_reads > 100);
    assert_eq!(
        retired(&bench),
        0,
        "a page that cannot be read costs no block"
    );
    bench.flash.fault_rates = None;
    let before = bench.poisoned_reads;
    for lpa in 0..bench.ftl.logical_page_count() {
        bench.program(Lpa::new(lpa));
        bench.finish_all();
        bench.read(Lpa::new(lpa));
    }
    bench.finish_all();
    assert_eq!(
        bench.poisoned_reads, before,
        "written anew it is right again"
    );
}

#[test]
fn everything_at_once_and_power_cuts_besides_loses_nothing_that_can_be_read() {
    for (seed, units_per_page) in (0..6).zip([1, 1, 1, 1, 2, 4]) {
        let config = testing::paged(units_per_page);
        let mut bench = bench(&config, seed, [600, 150, 100]);
        let mut stream = Stream::new(seed, "ftl/failures");
        for cut in 0..60 {
            bench.flash.cut_after = Some(1 + stream.below(300));
            let mut steps = 0;
            while !bench.flash.is_dead() && steps < 5_000 {
                bench.step();
                steps += 1;
            }
            let mut flash = bench.flash.power_up(&mut stream);
            let tables = flash.tables.clone();
            let buffer = BufferId::new(HOST_BUFFERS);
            let parts = (testing::geometry(&config), &config, TIMING);
            let ftl = Ftl::restore(parts, buffer, &tables, Time::ZERO, &mut flash).unwrap();
            ftl.audit();
            bench = Bench::on(ftl, flash, seed * 1000 + cut);
        }
        bench.flash.fault_rates = None;
        bench.run(2_000);
        assert!(retired(&bench) > 0, "seed {seed}");
    }
}

#[test]
fn pages_of_a_die_that_has_lost_blocks_go_to_others() {
    let mut bench = bench(&testing::config(), 5, [0, 0, 0]);
    let die = DieId::new(1);
    for _ in 0..20_000 {
        bench.step();
        let condemned = (0..GEOMETRY.blocks_per_die())
            .map(|nth| GEOMETRY.block_on(die, nth))
            .filter(|block| bench.ftl.allocator.block(*block).is_condemned)
            .count();
        let has_open = bench.ftl.operations.iter().any(|operation| {
            matches!(operation, Operation::HostProgram { ppa, .. }
                if GEOMETRY.die_of_unit(*ppa) == die)
        });
        let fails = condemned < 6 && has_open;
        let rate = Ratio::new(u64::from(fails), 20);
        if let Some(fault_rates) = &mut bench.flash.fault_rates {
            fault_rates.programs = rate;
        }
    }
    bench.ftl.audit();
    bench.flash.fault_rates = None;
    bench.run(5_000);
    assert!(retired(&bench) >= 6);
    assert!(
        !bench.ftl.allocator.is_over(die),
        "the pages it has no room for have gone elsewhere"
    );
}

/// Nine of ten writes go to a tenth of the pages.
fn wear_after_skewed_writes(wear_spread: u32) -> (Wear, u64) {
    let config = FtlConfig {
        wear_spread,
        ..testing::config()
    };
    let mut bench = bench(&config, 1, [0, 0, 0]);
    let mut stream = Stream::new(1, "ftl/skewed");
    let pages = bench.ftl.logical_page_count();
    for _ in 0..60_000 {
        bench.program(Lpa::new(stream.below(pages / 10)));
        bench.finish();
        bench.finish();
    }
    bench.run(100);
    (bench.ftl.wear(), bench.ftl.stats().gc_programs)
}

#[test]
fn blocks_with_cold_pages_take_their_share_of_wear() {
    let (uneven, _) = wear_after_skewed_writes(0);
    let (even, moved) = wear_after_skewed_writes(8);
    assert!(uneven.max - uneven.min > 60, "{uneven:?}");
    assert!(even.max - even.min <= 2 * 8, "{even:?}");
    assert!(moved < 60_000, "{moved} pages moved for it");
}
