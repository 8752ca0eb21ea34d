use super::*;
use crate::ftl::FtlConfig;
use crate::ftl::testing::{self, GEOMETRY};
use units::{PageSize, Ratio};

fn allocator() -> Allocator {
    Allocator::new(
        GEOMETRY,
        &Precondition::new(GEOMETRY, &testing::config()),
        1,
    )
}

fn empty(geometry: FlashGeometry) -> Allocator {
    let config = FtlConfig {
        fill: Ratio::percent(0),
        ..testing::config()
    };
    Allocator::new(geometry, &Precondition::new(geometry, &config), 1)
}

#[test]
fn host_pages_go_round_channels_then_dies() {
    let mut allocator = empty(GEOMETRY);
    let dies: Vec<u32> = (0..8)
        .map(|_| {
            GEOMETRY
                .die_of_unit(allocator.take_host_page(1).unwrap())
                .get()
        })
        .collect();
    assert_eq!(dies, [0, 1, 2, 3, 0, 1, 2, 3]);
}

#[test]
fn the_round_spans_words_of_the_ready_set_and_wraps() {
    let geometry = FlashGeometry {
        chips_per_channel: 65,
        unit_size: PageSize::KIB_4,
        units_per_page: 1,
        ..GEOMETRY
    };
    let mut allocator = empty(geometry);
    for turn in 0..260 {
        let page = allocator.take_host_page(1).unwrap();
        assert_eq!(geometry.die_of_unit(page).get(), turn % 130);
    }
}

#[test]
fn the_host_leaves_each_die_its_last_free_block() {
    let mut allocator = allocator();
    let taken = core::iter::from_fn(|| allocator.take_host_page(1)).count();
    // Of 3 free blocks of 8 pages 2 are taken, and what the open blocks have left.
    let state = Precondition::new(GEOMETRY, &testing::config());
    let open: u32 = (0..4).map(|die| state.open_pages(DieId::new(die))).sum();
    let opened = (0..4)
        .filter(|die| state.open_pages(DieId::new(*die)) > 0)
        .count() as u32;
    let left: u32 = (0..4)
        .map(|die| allocator.free_blocks(DieId::new(die)) as u32)
        .sum();
    assert_eq!(left, 4);
    // A die whose open block starts empty has one more free block to begin with.
    assert_eq!(
        taken as u32,
        opened * 8 - open + 4 * 2 * 8 + (4 - opened) * 8
    );
}

#[test]
fn a_die_without_room_is_passed_over() {
    let mut allocator = empty(GEOMETRY);
    let full = DieId::new(1);
    for _ in 0..15 * 8 {
        allocator.take_gc_page(full, 1);
    }
    let dies: Vec<u32> = (0..4)
        .map(|_| {
            GEOMETRY
                .die_of_unit(allocator.take_host_page(1).unwrap())
                .get()
        })
        .collect();
    assert_eq!(dies, [0, 2, 3, 0]);
}

#[test]
fn a_die_takes_no_more_pages_than_gc_can_move() {
    let mut allocator = empty(GEOMETRY);
    let taken = core::iter::from_fn(|| allocator.take_host_page(1)).count();
    assert_eq!(taken, 4 * 13 * 8);
    allocator.release_page(DieId::new(2));
    let page = allocator
        .take_host_page(1)
        .expect("a page has become invalid");
    assert_eq!(GEOMETRY.die_of_unit(page), DieId::new(2));
}

#[test]
fn blocks_freed_first_are_used_first_and_wear_counts_erases() {
    let mut allocator = allocator();
    let die = DieId::new(0);
    let victim = GEOMETRY.block_on(die, 0);
    allocator.block_mut(victim).state = BlockState::Victim;
    allocator.release_block(victim);
    assert_eq!(allocator.block(victim).wear, 1);
    let free = allocator.free_blocks(die);
    let opened: Vec<BlockAddr> = (0..free)
        .map(|_| allocator.open_block(die, For::Host).block)
        .collect();
    assert_eq!(opened.last(), Some(&victim));
}

#[test]
fn with_levelling_gc_writes_the_most_worn_block_and_the_host_the_least() {
    let mut allocator = empty(GEOMETRY);
    allocator.level_wear(true);
    let die = DieId::new(1);
    for nth in 0..GEOMETRY.blocks_per_die() {
        // 7 and 16 have no common divisor: every wear from 0 to 15 once.
        allocator.block_mut(GEOMETRY.block_on(die, nth)).wear = nth * 7 % 16;
    }
    let mut wear_of = |whose| {
        let open = allocator.open_block(die, whose);
        allocator.block(open.block).wear
    };
    let wears = [For::Gc, For::Host, For::Gc, For::Host].map(&mut wear_of);
    assert_eq!(wears, [15, 0, 14, 1]);
}
