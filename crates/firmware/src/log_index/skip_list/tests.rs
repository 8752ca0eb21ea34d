//! What the model does not ask: memory, how pages spread over nodes and lanes, large pages.

use super::*;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use units::Stream;

const PAGES: u64 = 4096;
/// Bytes of a node, and of the shortest lane.
const LINE_BYTES: u64 = 64;
/// Bytes of the smallest block, which a run or two lines fill.
const SMALLEST: u64 = 8;

fn index() -> SkipList {
    SkipList::new(PageSize::KIB_4, LogSlot::new(0), 1)
}

fn log(index: &mut SkipList, lpa: u64, lines: core::ops::Range<u16>, first_slot: u32) {
    for (line, slot) in lines.zip(first_slot..) {
        index.insert(Lpa::new(lpa), LineInPage::new(line), LogSlot::new(slot));
    }
}

fn scanned(index: &SkipList) -> Vec<u64> {
    let mut cursor = IndexCursor::default();
    core::iter::from_fn(|| index.next_page(&mut cursor))
        .map(Lpa::get)
        .collect()
}

/// All pages of a partition in an order of chance.
fn shuffled(random: &mut Stream) -> Vec<u64> {
    let mut pages: Vec<u64> = (0..PAGES).collect();
    for last in (1..pages.len()).rev() {
        pages.swap(last, random.below(last as u64 + 1) as usize);
    }
    pages
}

#[test]
fn a_run_is_one_chunk_and_a_line_written_anew_splits_it() {
    let mut index = index();
    log(&mut index, 5, 0..64, 100);
    let one = index.memory();
    log(&mut index, 6, 0..1, 200);
    assert_eq!(index.memory() - one, SMALLEST);
    log(&mut index, 5, 9..10, 300);
    // Two runs and a line are five codes, in a block of eight instead of two.
    assert_eq!(index.memory() - one, 4 * SMALLEST);
    for (line, slot) in [(8, 108), (9, 300), (10, 110), (63, 163)] {
        let found = index.find(Lpa::new(5), LineInPage::new(line));
        assert_eq!(found, Some(LogSlot::new(slot)));
    }
    // The run written anew in order takes the place of the old one line by line.
    log(&mut index, 5, 10..64, 301);
    assert_eq!(index.memory() - one, 2 * SMALLEST);
}

#[test]
fn a_full_partition_takes_little_more_than_its_pages_in_whatever_order_they_come() {
    let mut random = Stream::new(1, "skip list");
    let ascending: Vec<u64> = (0..PAGES).collect();
    let descending: Vec<u64> = (0..PAGES).rev().collect();
    // One node is full before pages behind it come.
    let behind_a_node = (0..10).chain((10..PAGES).rev()).collect();
    let (lows, highs) = (0..PAGES / 2, PAGES / 2..PAGES);
    let in_two_places = lows
        .zip(highs)
        .flat_map(|(low, high)| [low, high])
        .collect();
    // Bytes of nodes and lanes for a page, of which 6 cannot be less.
    let orders = [
        (ascending, 8),
        (descending, 16),
        (behind_a_node, 8),
        (in_two_places, 8),
        (shuffled(&mut random), 12),
    ];
    for (order, most) in orders {
        let mut index = index();
        for page in &order {
            log(&mut index, PAGES + *page, 0..1, 0);
        }
        let bytes = index.memory() - PAGES * SMALLEST;
        assert!(bytes <= PAGES * most, "{bytes} bytes for {PAGES} pages");
        assert!(scanned(&index).into_iter().eq(PAGES..2 * PAGES));
        for page in &order {
            assert!(index.remove_page(Lpa::new(PAGES + *page)));
        }
        assert_eq!(scanned(&index), []);
    }
}

/// The model has a few pages of a partition; this has all of them, so that nodes part, lanes are
/// too long for one comparison, and both become empty.
#[test]
fn a_partition_behaves_as_a_set_while_it_fills_and_empties() {
    let mut random = Stream::new(2, "skip list");
    let mut index = index();
    let mut is_there = [false; PAGES as usize];
    for share in [90, 50, 10, 80, 0] {
        for _ in 0..2 * PAGES {
            let page = random.below(PAGES);
            let lpa = Lpa::new(2 * PAGES + page);
            assert_eq!(index.has_page(lpa), is_there[page as usize]);
            if random.below(100) < share {
                index.insert(lpa, LineInPage::new(3), LogSlot::new(page as u32));
            } else {
                assert_eq!(index.remove_page(lpa), is_there[page as usize]);
            }
            is_there[page as usize] = index.has_page(lpa);
        }
        let there = (0..PAGES).filter(|page| is_there[*page as usize]);
        assert!(
            scanned(&index)
                .into_iter()
                .eq(there.map(|page| 2 * PAGES + page))
        );
        let found = (0..PAGES).filter(|page| {
            let found = index.find(Lpa::new(2 * PAGES + page), LineInPage::new(3));
            found == Some(LogSlot::new(*page as u32))
        });
        assert_eq!(found.count(), index.page_count());
    }
    assert!(index.page_count() < PAGES as usize / 4);
}

#[test]
fn a_page_of_256_lines_has_256_chunks_at_most() {
    let mut index = SkipList::new(PageSize::KIB_16, LogSlot::new(0), 1);
    let lines = (0..256).map(|line| line * 77 % 256);
    for (slot, line) in lines.clone().enumerate() {
        let line = LineInPage::new(line);
        assert_eq!(index.find(Lpa::new(9), line), None);
        index.insert(Lpa::new(9), line, LogSlot::new(2 * slot as u32));
    }
    for (slot, line) in lines.enumerate() {
        let slot = LogSlot::new(2 * slot as u32);
        assert_eq!(index.find(Lpa::new(9), LineInPage::new(line)), Some(slot));
        assert_eq!(
            index.remove_line(Lpa::new(9), LineInPage::new(line)),
            Some(slot)
        );
    }
    assert_eq!(index.page_count(), 0);
}

#[test]
fn an_empty_index_takes_the_memory_of_its_partitions_only() {
    let mut index = index();
    log(&mut index, 3 * PAGES, 0..1, 0);
    assert_eq!(index.memory(), 4 * 8 + SMALLEST + 2 * LINE_BYTES);
    index.remove_page(Lpa::new(3 * PAGES));
    assert_eq!(index.memory(), 4 * 8);
}

#[test]
fn blocks_nodes_and_lanes_of_pages_that_left_are_used_again() {
    let mut index = index();
    let mut sizes = Vec::new();
    for round in 0..3 {
        for page in 0..3000 {
            let slot = round * 20_000 + page as u32 * 4;
            log(&mut index, page * 3, 0..3, slot);
            log(&mut index, page * 3, 1..2, slot + 3);
        }
        sizes.push((index.nodes.room(), index.chunks.extents(), index.memory()));
        for page in 0..3000 {
            assert!(index.remove_page(Lpa::new(page * 3)));
        }
        index.reset();
    }
    assert!(sizes.windows(2).all(|two| two[0] == two[1]), "{sizes:?}");
}

/// Two partitions of as many pages as there can be, in runs: of the smallest pages, numbers reach
/// as far as they ever do; of the largest, lists are too long for one comparison.
#[test]
fn pages_of_every_size_behave_as_a_map_while_partitions_fill_and_empty() {
    for line_bits in 0..=8 {
        let size = PageSize::new(Bytes::new(64 << line_bits)).expect("a power of two lines");
        let mut index = SkipList::new(size, LogSlot::new(0), 1);
        let mut model = BTreeMap::new();
        let mut random = Stream::new(line_bits, "skip list");
        let pages = 2 * (PARTITION / size.bytes()).min(MOST_PAGES);
        for (round, is_ascending) in [true, false].into_iter().cycle().take(24).enumerate() {
            let (from, stride) = (random.below(pages), 1 + random.below(11));
            let (is_removed, lines) = (round % 3 == 2, 1 + random.below(1 << line_bits));
            for step in (0..random.below(pages)).step_by(stride as usize) {
                let step = if is_ascending { step } else { pages - step };
                let page = (from + step) % pages;
                // A few pages get many lines.
                let count = if page.is_multiple_of(64) { lines } else { 1 };
                for line in (0..count).map(|nth| (nth * 77 % (1 << line_bits)) as u16) {
                    let (lpa, number) = (Lpa::new(page), LineInPage::new(line));
                    let slot = LogSlot::new((round as u32) << 16 | page as u32);
                    let (old, expected) = if is_removed {
                        let expected = model.remove(&(page, line));
                        (index.remove_line(lpa, number), expected)
                    } else {
                        let expected = model.insert((page, line), slot);
                        (index.insert(lpa, number, slot), expected)
                    };
                    assert_eq!(old, expected);
                }
            }
            let mut there: Vec<u64> = model.keys().map(|(page, _)| *page).collect();
            there.dedup();
            assert_eq!(scanned(&index), there);
            for page in 0..pages {
                let line = random.below(1 << line_bits) as u16;
                let found = index.find(Lpa::new(page), LineInPage::new(line));
                assert_eq!(found, model.get(&(page, line)).copied());
            }
        }
    }
}

/// Runs that part, join and go back to the slots that they had, as those of transactions that are
/// aborted; of halves and of rings, and up to the last slot that there can be.
#[test]
fn runs_behave_as_a_map_in_pages_of_every_size_and_up_to_the_last_slot() {
    const STEPS: u32 = 200;
    for (line_bits, stride) in (0..=8).flat_map(|bits| [(bits, 1), (bits, 2)]) {
        let size = PageSize::new(Bytes::new(64 << line_bits)).expect("a power of two lines");
        let (lines, slots) = (1u16 << line_bits, (1 << (31 - line_bits)) - 1);
        let first = if stride == 1 { slots } else { 1 };
        let slot = |number| LogSlot::new(first + number * stride);
        let mut index = SkipList::new(size, slot(0), stride);
        let mut model = BTreeMap::new();
        let mut random = Stream::new(line_bits, "runs");
        for step in 1..=STEPS {
            let is_last = step == STEPS;
            let page = if is_last { 0 } else { random.below(3) };
            let from = random.below(u64::from(lines)) as u16;
            let range = if is_last {
                0..lines
            } else {
                from..lines.min(from + 9)
            };
            let action = if is_last { 0 } else { random.below(8) };
            let number = slots - (STEPS - step + 1) * u32::from(lines);
            let mut replaced = Vec::new();
            let mut put = |line, slot: Option<LogSlot>| {
                let (lpa, number) = (Lpa::new(page), LineInPage::new(line));
                let (old, expected) = match slot {
                    Some(slot) => {
                        let expected = model.insert((page, line), slot);
                        (index.insert(lpa, number, slot), expected)
                    }
                    None => (index.remove_line(lpa, number), model.remove(&(page, line))),
                };
                assert_eq!(old, expected);
                old
            };
            for line in range {
                let new = slot(number + u32::from(line));
                replaced.push((line, put(line, (action != 5).then_some(new))));
            }
            if action > 5 {
                for (line, old) in replaced {
                    put(line, old);
                }
            }
            let there = index.lines(Lpa::new(page));
            let expected = model.range((page, 0)..(page + 1, 0));
            assert!(there.eq(expected.map(|((_, line), slot)| (LineInPage::new(*line), *slot))));
            for line in 0..lines {
                let found = index.find(Lpa::new(page), LineInPage::new(line));
                assert_eq!(found, model.get(&(page, line)).copied());
            }
        }
        // What is left is one run, to the last slot.
        assert_eq!(model[&(0, lines - 1)], slot(slots - 1));
        for page in [1, 2] {
            index.remove_page(Lpa::new(page));
        }
        assert_eq!(index.memory(), 8 + SMALLEST + 2 * LINE_BYTES);
    }
}
