use super::*;
use crate::ftl::testing::{self, Flash, GEOMETRY, TIMING, Tables, Token};
use crate::ftl::tests::{Bench, HOST_BUFFERS, implicit};
use alloc::collections::BTreeMap;
use units::{PageSize, Ratio, Stream};

const BUFFER: BufferId = BufferId::new(HOST_BUFFERS);

fn restore(config: &FtlConfig, flash: &mut Flash) -> Result<Ftl, UnsoundTables> {
    let tables = flash.tables.clone();
    Ftl::restore(
        (testing::geometry(config), config, TIMING),
        BUFFER,
        &tables,
        Time::ZERO,
        flash,
    )
}

/// What each mapped page holds.
fn contents(flash: &Flash) -> BTreeMap<Lpa, (Lpa, Token)> {
    let place =
        |(lpa, ppa): (&Lpa, &Ppa)| (*lpa, flash.content(*ppa).expect("mapped, so on flash"));
    flash.tables.mapped.iter().map(place).collect()
}

/// A device in use whose power is cut `cuts` times, each time after a few records; work between
/// the cuts is random.
fn cut_again_and_again(
    config: &FtlConfig,
    seed: u64,
    cuts: u64,
    spacing: u64,
) -> Bench<ImplicitMapping> {
    let mut stream = Stream::new(seed, "ftl/restore");
    let mut bench = Bench::new(implicit(config), config, seed);
    bench.ftl.record_state(&mut bench.flash);
    for cut in 0..cuts {
        bench.flash.cut_after = Some(1 + stream.below(spacing));
        while !bench.flash.is_dead() {
            bench.step();
        }
        let held = contents(&bench.flash);
        let mut flash = bench.flash.power_up(&mut stream);
        assert_eq!(
            contents(&flash),
            held,
            "what is in flight touches nothing that is mapped"
        );
        let places = flash.tables.mapped.clone();
        let ftl = restore(config, &mut flash).expect("what an FTL leaves is sound");
        ftl.audit();
        for lpa in (0..ftl.logical_page_count()).map(Lpa::new) {
            assert_eq!(ftl.mapping.lookup(lpa), places.get(&lpa).copied(), "{lpa}");
        }
        bench = Bench::on(ftl, flash, seed * cuts + cut);
    }
    bench
}

#[test]
fn a_cut_at_any_record_loses_nothing_that_was_mapped() {
    for (seed, units_per_page) in (0..8).zip([1, 1, 2, 4].into_iter().cycle()) {
        let mut bench = cut_again_and_again(&testing::paged(units_per_page), seed, 300, 200);
        bench.run(2_000);
    }
}

#[test]
fn a_device_that_is_cut_at_every_turn_still_finds_room() {
    for (seed, units_per_page) in (0..8).zip([1, 1, 2, 4].into_iter().cycle()) {
        let mut bench = cut_again_and_again(&testing::paged(units_per_page), seed, 600, 12);
        bench.run(2_000);
        assert!(bench.ftl.stats().erases > 0);
    }
}

#[test]
fn bulk_gc_goes_on_after_a_cut() {
    let config = FtlConfig {
        gc: crate::GcKind::Bulk,
        fill: Ratio::percent(70),
        gc_threshold: Ratio::percent(70),
        ..testing::config()
    };
    cut_again_and_again(&config, 1, 100, 100).run(2_000);
}

#[test]
fn wear_goes_on_and_retired_blocks_stay_out_of_use() {
    let config = testing::config();
    let bad = [BlockAddr::new(3), BlockAddr::new(16), BlockAddr::new(17)];
    let mut flash = Flash::new(GEOMETRY, BTreeMap::new());
    for block in bad {
        flash.tables.apply(&GEOMETRY, Record::Retired(block));
    }
    flash
        .tables
        .apply(&GEOMETRY, Record::Erased(BlockAddr::new(5), 1));
    let ftl = restore(&config, &mut flash).unwrap();
    assert_eq!(ftl.wear().max, 1);
    let mut bench = Bench::on(ftl, flash, 1);
    bench.run(20_000);
    assert!(bench.ftl.wear().max > 2);
    for block in bad {
        let record = bench.flash.tables.blocks[&block];
        assert!(record.is_retired && record.begun == 0, "{block:?}");
    }
}

#[test]
fn damaged_tables_are_refused_with_what_is_wrong() {
    let begun = BlockRecord {
        begun: 2,
        ..BlockRecord::default()
    };
    let check = |mapped: &[(u64, u64)], block: (u32, BlockRecord), expected: UnsoundTables| {
        let mut flash = Flash::new(GEOMETRY, BTreeMap::new());
        flash.tables = Tables::default();
        let places = mapped
            .iter()
            .map(|(lpa, ppa)| (Lpa::new(*lpa), Ppa::new(*ppa)));
        flash.tables.mapped = places.collect();
        flash.tables.blocks.insert(BlockAddr::new(block.0), block.1);
        let refused = restore(&testing::config(), &mut flash).err();
        assert_eq!(refused, Some(expected));
    };
    let (lpa, ppa) = (Lpa::new, Ppa::new);
    let pages = Precondition::empty(GEOMETRY, &testing::config()).logical_page_count();
    check(
        &[(pages, 0)],
        (0, begun),
        UnsoundTables::NoSuchPage(lpa(pages)),
    );
    let places = GEOMETRY.unit_count();
    check(
        &[(1, places)],
        (0, begun),
        UnsoundTables::NoSuchPlace(lpa(1), ppa(places)),
    );
    check(
        &[(1, 0), (2, 0)],
        (0, begun),
        UnsoundTables::PlaceTwice(lpa(1), lpa(2), ppa(0)),
    );
    check(
        &[(1, 2)],
        (0, begun),
        UnsoundTables::NothingThere(lpa(1), ppa(2)),
    );
    let retired = BlockRecord {
        is_retired: true,
        ..begun
    };
    check(
        &[(1, 0)],
        (0, retired),
        UnsoundTables::Retired(lpa(1), ppa(0)),
    );
    let beyond = GEOMETRY.block_count();
    check(
        &[],
        (beyond, begun),
        UnsoundTables::NoSuchBlock(BlockAddr::new(beyond)),
    );
    let overfull = BlockRecord { begun: 9, ..begun };
    check(
        &[],
        (0, overfull),
        UnsoundTables::NoSuchBlock(BlockAddr::new(0)),
    );
    let mut flash = Flash::new(testing::geometry(&testing::paged(4)), BTreeMap::new());
    flash.tables.blocks.insert(BlockAddr::new(7), begun);
    let refused = restore(&testing::paged(4), &mut flash).err();
    assert_eq!(refused, Some(UnsoundTables::PartOfPage(BlockAddr::new(7))));
    let sentence = alloc::format!("{}", UnsoundTables::NothingThere(lpa(1), ppa(2)));
    assert!(
        sentence.ends_with("where no program has begun"),
        "{sentence}"
    );
    let sentence = alloc::format!("{}", UnsoundTables::Retired(lpa(1), ppa(0)));
    assert!(sentence.ends_with("in a retired block"), "{sentence}");
}

/// 32 GB with every page mapped: what a restart takes. The bound is far above what it needs.
#[test]
fn a_device_of_32_gb_is_restored_without_a_search() {
    struct Whole(FlashGeometry, u64);
    impl Durable for Whole {
        fn logged(&self) -> impl Iterator<Item = (units::LogSlot, crate::LoggedLine)> {
            core::iter::empty()
        }
        fn buffered(&self) -> impl Iterator<Item = (BufferId, crate::BufferedPage)> {
            core::iter::empty()
        }
        fn framed(&self) -> impl Iterator<Item = (units::FrameId, crate::KeptFrame)> {
            core::iter::empty()
        }
        fn committed(&self) -> impl Iterator<Item = (u32, units::TxId)> {
            core::iter::empty()
        }
        fn mapped(&self) -> impl Iterator<Item = (Lpa, Ppa)> {
            // Scattered: an odd factor is a bijection of a power of two.
            let mask = self.0.unit_count() - 1;
            (0..self.1).map(move |lpa| {
                (
                    Lpa::new(lpa),
                    Ppa::new(lpa.wrapping_mul(0x9e37_79b1) & mask),
                )
            })
        }
        fn blocks(&self) -> impl Iterator<Item = (BlockAddr, BlockRecord)> {
            let full = BlockRecord {
                begun: self.0.units_per_block,
                ..BlockRecord::default()
            };
            (0..self.0.block_count()).map(move |block| (BlockAddr::new(block), full))
        }
    }
    let geometry = FlashGeometry {
        channel_count: 8,
        chips_per_channel: 4,
        dies_per_chip: 2,
        planes_per_die: 1,
        blocks_per_plane: 512,
        units_per_block: 256,
        unit_size: PageSize::KIB_4,
        units_per_page: 1,
    };
    let config = FtlConfig {
        over_provisioning: Ratio::new(125, 1000),
        ..testing::config()
    };
    let exported = Precondition::empty(geometry, &config).logical_page_count();
    let device = Whole(geometry, exported);
    let mut flash = Flash::vast(geometry);
    let ftl = Ftl::restore(
        (geometry, &config, TIMING),
        BUFFER,
        &device,
        Time::ZERO,
        &mut flash,
    );
    let ftl = ftl.expect("sound");
    assert_eq!(ftl.mapping.changed_page_count(), exported);
    assert!(
        !ftl.is_idle(),
        "GC of dies without a free block begins at once"
    );
}
