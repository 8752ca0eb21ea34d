use super::*;
use crate::ftl::testing::{self, GEOMETRY};
use proptest::prelude::*;
use units::{PageSize, Ratio};

fn precondition(fill: u64, overwritten: u64) -> Precondition {
    placed(fill, overwritten, 0)
}

fn placed(fill: u64, overwritten: u64, placement: u64) -> Precondition {
    let config = FtlConfig {
        placement,
        fill: Ratio::percent(fill),
        overwritten: Ratio::percent(overwritten),
        ..testing::config()
    };
    assert_eq!(
        config.validate(&GEOMETRY),
        Vec::<alloc::string::String>::new()
    );
    Precondition::new(GEOMETRY, &config)
}

fn blocks() -> impl Iterator<Item = BlockAddr> {
    (0..GEOMETRY.block_count()).map(BlockAddr::new)
}

proptest! {
    #[test]
    fn the_formula_is_a_bijection_and_counts_itself(
        fill in 0u64..=100,
        overwritten in 0u64..300,
        placement in 0u64..3,
    ) {
        let state = placed(fill, overwritten, placement);
        for page in 0..state.mapped_page_count() {
            let place = state.lookup(Lpa::new(page)).expect("pages below the fill are mapped");
            prop_assert_eq!(state.reverse(place), Some(Lpa::new(page)));
        }
        prop_assert_eq!(state.lookup(Lpa::new(state.mapped_page_count())), None);
        let mut mapped = 0;
        let mut counts = state.valid_counts().into_iter();
        for block in blocks() {
            let pages = (0..GEOMETRY.units_per_block).map(|page| GEOMETRY.unit_on(block, page));
            let valid = pages.filter(|page| state.reverse(*page).is_some()).count() as u32;
            prop_assert_eq!(Some(valid), counts.next());
            mapped += u64::from(valid);
        }
        prop_assert_eq!(counts.next(), None);
        prop_assert_eq!(mapped, state.mapped_page_count());
    }
}

#[test]
fn consecutive_pages_are_on_consecutive_channels_then_dies() {
    let state = precondition(100, 100);
    for page in 0..state.mapped_page_count() {
        let die = GEOMETRY.die_of_unit(state.lookup(Lpa::new(page)).unwrap());
        assert_eq!(u64::from(die.get()), page % 4);
        assert_eq!(u64::from(GEOMETRY.channel_of(die).get()), page % 2);
    }
}

#[test]
fn a_placement_turns_stripes_and_keeps_each_on_all_dies() {
    let (in_order, turned) = (precondition(100, 100), placed(100, 100, 7));
    let die = |state: &Precondition, page: u64| {
        GEOMETRY
            .die_of_unit(state.lookup(Lpa::new(page)).unwrap())
            .get()
    };
    let pages = 0..in_order.mapped_page_count();
    let moved = pages
        .filter(|page| die(&in_order, *page) != die(&turned, *page))
        .count() as u64;
    // A stripe stays where it is with one chance in four.
    let expected = in_order.mapped_page_count() * 3 / 4;
    assert!(
        moved.abs_diff(expected) < expected / 4,
        "{moved} of {expected}"
    );
    for stripe in 0..in_order.mapped_page_count() / 4 {
        let mut dies: Vec<u32> = (0..4).map(|lane| die(&turned, stripe * 4 + lane)).collect();
        dies.sort_unstable();
        assert_eq!(dies, [0, 1, 2, 3]);
    }
}

#[test]
fn a_fresh_device_has_its_pages_in_as_few_blocks_as_they_need() {
    let state = precondition(100, 0);
    // 60 % of 128 pages are exported: 77 pages, 10 blocks.
    assert_eq!((state.mapped_per_die(), state.full_blocks()), (77, 10));
}

#[test]
fn a_used_device_stands_at_the_watermark_with_its_oldest_blocks_emptiest() {
    let state = precondition(100, 300);
    // 16 blocks, less 3 free and the open one.
    assert_eq!(state.full_blocks(), 12);
    let valid: Vec<u64> = (0..12)
        .map(|nth| state.starts[nth + 1] - state.starts[nth])
        .collect();
    // Of 12 × 8 pages 19 are overwritten copies: a ramp from about 2 × 19 / 12 of a block to none.
    assert_eq!(valid.iter().sum::<u64>(), 77);
    let is_ramp = valid.windows(2).all(|pair| pair[0] <= pair[1] + 1);
    assert!(is_ramp && valid[0] <= 5 && valid[11] == 8, "{valid:?}");
}

#[test]
fn dies_stand_at_different_places_in_their_open_block() {
    let state = precondition(100, 100);
    let mut pages: Vec<u32> = (0..4)
        .map(|die| state.open_pages(DieId::new(die)))
        .collect();
    pages.sort_unstable();
    pages.dedup();
    assert_eq!(pages.len(), 4);
}

#[test]
fn the_full_size_device_costs_a_table_of_one_die() {
    let geometry = FlashGeometry {
        channel_count: 16,
        chips_per_channel: 8,
        dies_per_chip: 8,
        planes_per_die: 1,
        blocks_per_plane: 128,
        units_per_block: 256,
        unit_size: PageSize::KIB_4,
        units_per_page: 1,
    };
    let config = FtlConfig {
        over_provisioning: Ratio::new(125, 1000),
        ..testing::config()
    };
    let state = Precondition::new(geometry, &config);
    assert_eq!(state.starts.len(), 125);
    let pages = state.logical_page_count();
    assert_eq!(pages, geometry.unit_count() / 8 * 7);
    for page in (0..pages).step_by(999_983).chain([pages - 1]) {
        assert_eq!(
            state.reverse(state.lookup(Lpa::new(page)).unwrap()),
            Some(Lpa::new(page))
        );
    }
}
