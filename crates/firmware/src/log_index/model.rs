//! Every index against a plain map.

use super::{IndexCursor, LogIndex, SkipList, TwoLevelHash};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use proptest::prelude::*;
use units::{LineInPage, LogSlot, Lpa, PageSize};

/// Page, line and what is done: lines are logged, or one of them or the page is forgotten.
type Step = (u64, u16, u8);

const FIRST_SLOT: u32 = 1000;

struct Tried<I> {
    index: I,
    model: BTreeMap<(u64, u16), u32>,
    /// Pages in the order of first logging.
    order: Vec<u64>,
    next_slot: u32,
    stride: u32,
}

/// Several pages of a partition of 16 MiB, in several partitions.
fn lpa(page: u64) -> u64 {
    page * 777
}

impl<I: LogIndex> Tried<I> {
    /// Of slots that are so far apart.
    fn new(stride: u32) -> Self {
        Self {
            index: I::new(PageSize::KIB_4, LogSlot::new(FIRST_SLOT), stride),
            model: BTreeMap::new(),
            order: Vec::new(),
            next_slot: FIRST_SLOT,
            stride,
        }
    }

    fn step(&mut self, (page, line, action): Step) {
        let page = lpa(page);
        match action {
            0 => {
                let was_there = self.index.remove_page(Lpa::new(page));
                assert_eq!(was_there, self.order.contains(&page));
                self.model.retain(|key, _| key.0 != page);
                self.order.retain(|other| *other != page);
            }
            1..8 => {
                let slot = self
                    .index
                    .remove_line(Lpa::new(page), LineInPage::new(line));
                assert_eq!(slot.map(LogSlot::get), self.model.remove(&(page, line)));
                if !self.model.keys().any(|key| key.0 == page) {
                    self.order.retain(|other| *other != page);
                }
            }
            8..30 => self.log(page, line),
            _ => {
                (line..64.min(line + u16::from(action) - 28)).for_each(|line| self.log(page, line))
            }
        }
    }

    fn log(&mut self, page: u64, line: u16) {
        let slot = self.next_slot;
        self.next_slot += self.stride;
        let old = self
            .index
            .insert(Lpa::new(page), LineInPage::new(line), LogSlot::new(slot));
        assert_eq!(old.map(LogSlot::get), self.model.insert((page, line), slot));
        if !self.order.contains(&page) {
            self.order.push(page);
        }
    }

    /// An empty index gets all lines at once.
    fn fill(&mut self, steps: Vec<Step>) {
        let (mut lines, mut replaced) = (Vec::new(), Vec::new());
        for (page, line, action) in steps {
            let page = lpa(page);
            for line in line..64.min(line + 1 + u16::from(action) / 4) {
                let slot = self.next_slot;
                self.next_slot += self.stride;
                lines.push((Lpa::new(page), LineInPage::new(line), LogSlot::new(slot)));
                replaced.extend(self.model.insert((page, line), slot));
                if !self.order.contains(&page) {
                    self.order.push(page);
                }
            }
        }
        let mut told = Vec::new();
        let tell = |slot: LogSlot| told.push(slot.get());
        self.index.fill(lines.iter().copied(), tell);
        told.sort_unstable();
        replaced.sort_unstable();
        assert_eq!(told, replaced);
    }

    fn compare(&self) {
        for page in (0..12).map(lpa) {
            let mut lines: Vec<_> = self
                .index
                .lines(Lpa::new(page))
                .map(|(line, slot)| ((page, line.get()), slot.get()))
                .collect();
            lines.sort_unstable();
            let expected = self.model.range((page, 0)..(page + 1, 0));
            assert!(
                lines
                    .into_iter()
                    .eq(expected.map(|(key, slot)| (*key, *slot)))
            );
            assert_eq!(
                self.index.has_page(Lpa::new(page)),
                self.order.contains(&page)
            );
            for line in 0..64 {
                let found = self.index.find(Lpa::new(page), LineInPage::new(line));
                let expected = self.model.get(&(page, line)).copied();
                assert_eq!(found.map(LogSlot::get), expected);
            }
        }
        assert_eq!(self.index.page_count(), self.order.len());
    }

    fn scanned(&self) -> Vec<u64> {
        let mut cursor = IndexCursor::default();
        core::iter::from_fn(|| self.index.next_page(&mut cursor))
            .map(Lpa::get)
            .collect()
    }

    /// What is there leaves again, page by page as a scan finds them.
    fn empty(&mut self) {
        let mut cursor = IndexCursor::default();
        while let Some(page) = self.index.next_page(&mut cursor) {
            assert!(self.index.remove_page(page));
        }
        assert_eq!(self.index.page_count(), 0);
        self.index.reset();
        assert!(self.scanned().is_empty());
        self.model.clear();
        self.order.clear();
        self.compare();
    }
}

/// Two halves of a log: of a line in both, the newer one counts.
fn compare_halves<I: LogIndex>(newer: Vec<Step>, older: Vec<Step>) {
    let mut halves = [Tried::<I>::new(1), Tried::new(1)];
    halves[1].next_slot += 100_000;
    for (half, steps) in halves.iter_mut().zip([newer, older]) {
        steps.into_iter().for_each(|step| half.step(step));
    }
    let [newer, older] = &halves;
    for key in (0..12).flat_map(|page| (0..64).map(move |line| (lpa(page), line))) {
        let (page, line) = (Lpa::new(key.0), LineInPage::new(key.1));
        let found = I::find_newest(&newer.index, &older.index, page, line);
        let expected = newer.model.get(&key).or_else(|| older.model.get(&key));
        assert_eq!(found.map(LogSlot::get), expected.copied());
    }
}

/// An index that has its first lines at once.
fn filled<I: LogIndex>(lines: Vec<Step>, then: Vec<Step>, stride: u32) {
    let mut tried = Tried::<I>::new(stride);
    tried.fill(lines);
    tried.compare();
    then.into_iter().for_each(|step| tried.step(step));
    tried.compare();
    tried.empty();
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((0u64..12, 0u16..64, 0u8..40), 1..600)
}

proptest! {
    #[test]
    fn the_hash_behaves_as_a_map_in_order_of_first_logging(first in steps(), second in steps(), stride in 1u32..=2) {
        let mut tried = Tried::<TwoLevelHash>::new(stride);
        for steps in [first, second] {
            for step in steps {
                tried.step(step);
            }
            tried.compare();
            prop_assert_eq!(tried.scanned(), tried.order.clone());
            tried.empty();
            prop_assert_eq!(tried.index.memory(), 0);
        }
    }

    #[test]
    fn the_skip_list_behaves_as_a_map_in_ascending_order(first in steps(), second in steps(), stride in 1u32..=2) {
        let mut tried = Tried::<SkipList>::new(stride);
        for steps in [first, second] {
            for step in steps {
                tried.step(step);
            }
            tried.compare();
            tried.order.sort_unstable();
            prop_assert_eq!(tried.scanned(), tried.order.clone());
            tried.empty();
        }
    }

    #[test]
    fn an_index_that_was_filled_at_once_behaves_as_any(lines in steps(), then in steps(), stride in 1u32..=2) {
        filled::<TwoLevelHash>(lines.clone(), then.clone(), stride);
        filled::<SkipList>(lines, then, stride);
    }

    #[test]
    fn of_a_line_in_both_halves_the_newer_one_counts(newer in steps(), older in steps()) {
        compare_halves::<TwoLevelHash>(newer.clone(), older.clone());
        compare_halves::<SkipList>(newer, older);
    }
}
