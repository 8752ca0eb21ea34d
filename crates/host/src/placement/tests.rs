mod bytes;
mod moving;

use super::config::tests::config;
use super::*;
use units::{Bytes, PageSize};

const LINES: u16 = 4;

fn small_page() -> PageSize {
    PageSize::new(Bytes::new(256)).expect("four lines are a page")
}
fn placement(host_pages: u64, plb: u32, pages: u64) -> Placement {
    let mut config = config(1);
    config.promoted = small_page().bytes() * host_pages;
    config.plb = plb;
    Placement::new(&config, small_page(), pages)
}
/// As `placement`, for an operating system that locks pages on their way.
fn locking(host_pages: u64, migrations: u32, pages: u64) -> Placement {
    let mut config = config(1);
    config.promoted = small_page().bytes() * host_pages;
    let mut tpp = super::tpp::tests::config();
    tpp.migrations = migrations;
    Placement::locking(&config, &tpp, small_page(), pages)
}
/// As `placement`, in sets.
fn in_sets(host_pages: u64, ways: u32, pages: u64) -> Placement {
    let mut config = config(1);
    config.promoted = small_page().bytes() * host_pages;
    Placement::in_sets(&config, ways, small_page(), pages)
}
/// As `placement`, for huge pages of two chunks.
fn huge(host_pages: u64, plb: u32, pages: u64) -> Placement {
    let mut config = config(1);
    config.promoted = small_page().bytes() * host_pages * 2;
    config.plb = plb;
    Placement::of_chunks(&config, small_page(), Chunking { bits: 1 }, pages)
}
fn lines() -> impl Iterator<Item = LineInPage> {
    (0..LINES).map(LineInPage::new)
}
/// Copies what is left of a page, without interference.
fn copy_all(placement: &mut Placement, lpa: Lpa) {
    while let Some((chunk, line)) = placement.next_line(lpa) {
        placement.line_copied(chunk, line);
    }
}
fn promote(placement: &mut Placement, lpa: Lpa, was_dirty: bool) -> HostPage {
    placement.begin_promotion(lpa).expect("there is room");
    copy_all(placement, lpa);
    placement.finish_promotion(lpa, was_dirty)
}

#[test]
fn a_page_starts_on_the_device_and_is_in_host_dram_after_promotion() {
    let mut placement = placement(2, 2, 8);
    let lpa = Lpa::new(5);
    assert_eq!(placement.locate(lpa), Location::Device);
    let page = promote(&mut placement, lpa, false);
    assert_eq!(placement.locate(lpa), Location::Host(page));
    assert!(lines().all(|line| placement.read(lpa, line) == Target::Host(page)));
    assert_eq!(placement.resident_count(), 1);
}

#[test]
fn promotions_are_refused_with_their_reason() {
    let mut placement = placement(3, 2, 8);
    promote(&mut placement, Lpa::new(0), false);
    let begin = |placement: &mut Placement, lpa| placement.begin_promotion(Lpa::new(lpa));
    assert_eq!(begin(&mut placement, 0), Err(Refusal::NotOnDevice));
    assert!(begin(&mut placement, 1).is_ok());
    assert_eq!(begin(&mut placement, 1), Err(Refusal::NotOnDevice));
    assert!(begin(&mut placement, 2).is_ok());
    assert_eq!(begin(&mut placement, 3), Err(Refusal::PlbFull));
    copy_all(&mut placement, Lpa::new(1));
    placement.finish_promotion(Lpa::new(1), false);
    assert_eq!(begin(&mut placement, 3), Err(Refusal::NoHostPage));
    assert_eq!(placement.stats().refusals, 4);
}

#[test]
fn in_sets_a_page_takes_the_ways_of_its_set_only() {
    let mut placement = in_sets(4, 2, 8);
    let [even, other, third, odd] = [0, 2, 4, 1].map(Lpa::new);
    promote(&mut placement, even, false);
    promote(&mut placement, other, true);
    assert!(!placement.wants_reclaim(odd) && placement.wants_reclaim(third));
    assert_eq!(placement.begin_promotion(third), Err(Refusal::NoHostPage));
    placement.read(even, LineInPage::new(0));
    assert_eq!(placement.reclaim(third), Reclaimed::Copying(other));
    assert!(!placement.wants_reclaim(third), "one is coming");
    copy_all(&mut placement, other);
    placement.finish_demotion(other);
    assert!(placement.begin_promotion(third).is_ok());
    placement.audit();
}

#[test]
fn in_sets_a_page_that_comes_makes_no_room_for_another_one() {
    let mut placement = in_sets(4, 2, 8);
    let [even, other, third] = [0, 2, 4].map(Lpa::new);
    promote(&mut placement, even, false);
    placement.begin_promotion(other).expect("one way is free");
    assert!(placement.wants_reclaim(third), "none will be free");
    assert_eq!(placement.reclaim(third), Reclaimed::Dropped(even));
    assert!(placement.begin_promotion(third).is_ok());
    placement.audit();
}

#[test]
fn without_host_pages_nothing_is_promoted_and_nothing_wanted() {
    let mut placement = placement(0, 64, 8);
    assert_eq!(
        placement.begin_promotion(Lpa::new(0)),
        Err(Refusal::NoHostPage)
    );
    assert!(!placement.wants_reclaim(Lpa::new(0)));
    assert_eq!(placement.reclaim(Lpa::new(0)), Reclaimed::Nothing);
}

#[test]
fn a_line_goes_to_the_destination_once_it_is_copied() {
    let mut placement = placement(1, 1, 8);
    let lpa = Lpa::new(3);
    let page = placement.begin_promotion(lpa).expect("there is room");
    let (_, first) = placement.next_line(lpa).expect("no line is copied");
    assert_eq!(first, LineInPage::new(0));
    assert_eq!(placement.read(lpa, first), Target::Device);
    assert_eq!(placement.line_copied(lpa, first), Copied::Done);
    assert_eq!(placement.read(lpa, first), Target::Host(page));
    assert_eq!(placement.write(lpa, first), Target::Host(page));
    assert_eq!(placement.write(lpa, LineInPage::new(1)), Target::Device);
}

#[test]
fn a_line_written_while_it_is_copied_is_copied_again() {
    let mut placement = placement(1, 1, 8);
    let lpa = Lpa::new(3);
    placement.begin_promotion(lpa).expect("there is room");
    let (_, line) = placement.next_line(lpa).expect("no line is copied");
    assert_eq!(placement.write(lpa, line), Target::Device);
    assert_eq!(placement.line_copied(lpa, line), Copied::Again);
    assert_eq!(placement.next_line(lpa), Some((lpa, line)));
    assert_eq!(placement.line_copied(lpa, line), Copied::Done);
    assert_eq!(placement.stats().lines_repeated, 1);
}

#[test]
fn warm_up_promotes_without_copying_line_by_line() {
    let mut placement = placement(1, 1, 8);
    let lpa = Lpa::new(2);
    placement.begin_promotion(lpa).expect("there is room");
    placement.copy_at_once(lpa);
    assert_eq!(placement.next_line(lpa), None);
    let page = placement.finish_promotion(lpa, true);
    assert_eq!(placement.locate(lpa), Location::Host(page));
    assert_eq!(placement.reclaim(Lpa::new(0)), Reclaimed::Copying(lpa));
}

#[test]
fn clean_pages_are_dropped_and_dirty_ones_copied_back() {
    let mut placement = placement(3, 2, 8);
    promote(&mut placement, Lpa::new(0), false);
    promote(&mut placement, Lpa::new(1), true);
    promote(&mut placement, Lpa::new(2), false);
    placement.write(Lpa::new(2), LineInPage::new(1));
    assert_eq!(
        placement.reclaim(Lpa::new(0)),
        Reclaimed::Dropped(Lpa::new(0))
    );
    assert_eq!(placement.locate(Lpa::new(0)), Location::Device);
    assert_eq!(
        placement.reclaim(Lpa::new(0)),
        Reclaimed::Copying(Lpa::new(1))
    );
    assert_eq!(
        placement.reclaim(Lpa::new(0)),
        Reclaimed::Copying(Lpa::new(2))
    );
    placement.audit();
    copy_all(&mut placement, Lpa::new(1));
    placement.finish_demotion(Lpa::new(1));
    assert_eq!(placement.locate(Lpa::new(1)), Location::Device);
    assert_eq!(placement.reclaim(Lpa::new(0)), Reclaimed::Nothing);
    let stats = placement.stats();
    assert_eq!((stats.drops, stats.demotions), (1, 1));
}

#[test]
fn a_full_look_aside_buffer_delays_the_demotion_of_a_dirty_page() {
    let mut placement = placement(2, 1, 8);
    promote(&mut placement, Lpa::new(0), true);
    placement
        .begin_promotion(Lpa::new(1))
        .expect("there is room");
    assert_eq!(placement.reclaim(Lpa::new(0)), Reclaimed::PlbFull);
    copy_all(&mut placement, Lpa::new(1));
    placement.finish_promotion(Lpa::new(1), false);
    assert_eq!(
        placement.reclaim(Lpa::new(0)),
        Reclaimed::Copying(Lpa::new(0))
    );
}

#[test]
fn reclaim_is_wanted_below_the_reserve_counting_what_is_on_its_way() {
    let mut small = config(1);
    small.promoted = small_page().bytes() * 4;
    small.reserve = 2;
    let mut placement = Placement::new(&small, small_page(), 8);
    promote(&mut placement, Lpa::new(0), true);
    promote(&mut placement, Lpa::new(1), true);
    assert!(!placement.wants_reclaim(Lpa::new(0)), "two pages are free");
    promote(&mut placement, Lpa::new(2), true);
    assert!(placement.wants_reclaim(Lpa::new(0)));
    assert_eq!(
        placement.reclaim(Lpa::new(0)),
        Reclaimed::Copying(Lpa::new(0))
    );
    assert!(
        !placement.wants_reclaim(Lpa::new(0)),
        "one is free and one coming"
    );
}

#[test]
fn dram_only_keeps_every_page_in_host_dram() {
    let mut placement = Placement::dram_only(PageSize::KIB_4, 100);
    for lpa in [0, 99].map(Lpa::new) {
        let page = HostPage::new(lpa.get() as u32);
        assert_eq!(
            placement.write(lpa, LineInPage::new(63)),
            Target::Host(page)
        );
        assert_eq!(placement.begin_promotion(lpa), Err(Refusal::NotOnDevice));
    }
    assert_eq!(placement.reclaim(Lpa::new(0)), Reclaimed::Nothing);
    placement.audit();
}

#[test]
#[should_panic(expected = "all lines of L0 are copied")]
fn a_promotion_does_not_end_before_its_last_line() {
    let mut placement = placement(1, 1, 8);
    placement
        .begin_promotion(Lpa::new(0))
        .expect("there is room");
    placement.next_line(Lpa::new(0));
    placement.finish_promotion(Lpa::new(0), false);
}

#[test]
fn the_operating_system_locks_a_page_on_its_way_and_always_copies_it_back() {
    let mut placement = locking(1, 1, 8);
    let lpa = Lpa::new(3);
    placement.begin_promotion(lpa).expect("there is room");
    assert_eq!(placement.read(lpa, LineInPage::new(0)), Target::Locked);
    assert_eq!(placement.write(lpa, LineInPage::new(0)), Target::Locked);
    copy_all(&mut placement, lpa);
    assert_eq!(placement.read(lpa, LineInPage::new(0)), Target::Locked);
    placement.finish_promotion(lpa, false);
    assert_eq!(
        placement.reclaim(Lpa::new(0)),
        Reclaimed::Copying(lpa),
        "though clean"
    );
}

#[test]
fn the_watermark_is_what_is_kept_free() {
    let mut config = config(1);
    config.promoted = small_page().bytes() * 100;
    let tpp = super::tpp::tests::config();
    let mut placement = Placement::locking(&config, &tpp, small_page(), 100);
    for page in 0..98 {
        assert!(
            !placement.wants_reclaim(Lpa::new(0)),
            "2% of 100 pages are free"
        );
        placement
            .begin_promotion(Lpa::new(page))
            .expect("there is room");
        copy_all(&mut placement, Lpa::new(page));
        placement.finish_promotion(Lpa::new(page), true);
    }
    promote(&mut placement, Lpa::new(98), true);
    assert!(placement.wants_reclaim(Lpa::new(0)));
}

#[test]
fn a_pinned_page_is_never_promoted_and_its_neighbours_are() {
    let mut placement = placement(4, 2, 8).pinning(Lpa::new(2)..Lpa::new(4));
    for pinned in [2, 3] {
        let begun = placement.begin_promotion(Lpa::new(pinned));
        assert_eq!(begun, Err(Refusal::Pinned));
    }
    promote(&mut placement, Lpa::new(1), false);
    promote(&mut placement, Lpa::new(4), false);
    placement.audit();
    let stats = placement.stats();
    assert_eq!((stats.refusals_pinned, stats.promotions), (2, 2));
    assert_eq!(placement.pinned_count(), 2);
}
