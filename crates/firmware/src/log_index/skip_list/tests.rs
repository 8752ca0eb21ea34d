//! What the model does not ask: memory, and how long the way to a page is.

use super::*;

const PAGES: u64 = 4096;

fn index() -> SkipList {
    SkipList::new(PageSize::KIB_4, LogSlot::new(0))
}

fn log(index: &mut SkipList, lpa: u64, lines: core::ops::Range<u16>, first_slot: u32) {
    for (line, slot) in lines.zip(first_slot..) {
        index.insert(Lpa::new(lpa), LineInPage::new(line), LogSlot::new(slot));
    }
}

/// Nodes that a search for a page goes to.
fn steps_to(index: &SkipList, lpa: u64) -> u32 {
    let (partition, page) = index.split(Lpa::new(lpa));
    let (mut at, mut steps) = (index.heads[partition], 0);
    for level in (0..MOST_LEVELS).rev() {
        while index.next(at, level) < link(page, 0) {
            at = index.next(at, level) as Node;
            steps += 1;
        }
    }
    steps
}

#[test]
fn a_run_is_one_chunk_and_a_line_written_anew_splits_it() {
    let mut index = index();
    log(&mut index, 5, 0..64, 100);
    let alone = index.memory();
    log(&mut index, 6, 0..1, 200);
    assert_eq!(
        index.memory() - alone,
        CHUNK_BYTES_OF_ONE + (1 + height(Lpa::new(6)) as u64) * 8
    );
    log(&mut index, 5, 9..10, 300);
    let node = index.node(Lpa::new(5)).expect("it is logged");
    assert_eq!(index.list(node).count, 3);
    for (line, slot) in [(8, 108), (9, 300), (10, 110), (63, 163)] {
        let found = index.find(Lpa::new(5), LineInPage::new(line));
        assert_eq!(found, Some(LogSlot::new(slot)));
    }
    // The run written anew in order takes the place of the old one line by line.
    log(&mut index, 5, 10..64, 301);
    assert_eq!(index.list(node).count, 2);
}

const CHUNK_BYTES_OF_ONE: u64 = 6;

#[test]
fn the_way_to_a_page_of_a_full_partition_is_short_whatever_the_distance_of_pages() {
    for distance in [1, 2, 3, 7, 64] {
        let mut index = index();
        let pages: Vec<u64> = (0..PAGES / distance)
            .map(|page| PAGES + page * distance)
            .collect();
        for page in &pages {
            log(&mut index, *page, 0..1, 0);
        }
        let steps: u32 = pages.iter().map(|page| steps_to(&index, *page)).sum();
        let average = f64::from(steps) / pages.len() as f64;
        // Of each level 3 nodes, if chance makes the levels.
        let levels = (pages.len() as f64).log(4.0);
        assert!(
            average < 3.5 * levels,
            "{average} steps among {} pages",
            pages.len()
        );
    }
}

#[test]
fn nodes_and_chunks_of_pages_that_left_are_used_again() {
    let mut index = index();
    let mut sizes = Vec::new();
    for round in 0..3 {
        for page in 0..500 {
            log(&mut index, page * 11, 0..3, round * 2000 + page as u32 * 3);
            log(
                &mut index,
                page * 11,
                1..2,
                round * 2000 + 1500 + page as u32,
            );
        }
        sizes.push((index.words.len(), index.memory()));
        for page in 0..500 {
            assert!(index.remove_page(Lpa::new(page * 11)));
        }
        index.reset();
    }
    assert!(sizes.windows(2).all(|two| two[0] == two[1]), "{sizes:?}");
}
