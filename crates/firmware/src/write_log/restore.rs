//! The log after a power cut: the indexes of both halves, from the lines that count.

use super::WriteLog;
use crate::log_index::LogIndex;
use units::{LineInPage, LogSlot, Lpa};

impl<I: LogIndex> WriteLog<I> {
    /// Puts lines back that survived a power cut, in the order of their writes: the half of the
    /// last one is the active one. Tells of slots whose line has a newer copy in its half.
    pub fn restore(
        &mut self,
        lines: impl Iterator<Item = (LogSlot, Lpa, LineInPage)> + Clone,
        mut replaced: impl FnMut(LogSlot),
    ) {
        let second = self.halves[1].first_slot;
        let half_of = |slot: LogSlot| usize::from(slot.get() >= second);
        // Among which of all lines those of each half are.
        let mut spans = [(usize::MAX, 0); 2];
        for (nth, (slot, ..)) in lines.clone().enumerate() {
            self.active = half_of(slot);
            let half = &mut self.halves[self.active];
            half.used = half.used.max(slot.get() - half.first_slot + 1);
            let (first, end) = &mut spans[self.active];
            (*first, *end) = (nth.min(*first), nth + 1);
        }
        for (number, half) in self.halves.iter_mut().enumerate() {
            let (first, end) = spans[number];
            let span = lines.clone().skip(first).take(end.saturating_sub(first));
            let of_half = span.filter(|(slot, ..)| half_of(*slot) == number);
            let placed = of_half.map(|(slot, lpa, line)| (lpa, line, slot));
            half.index.fill(placed, &mut replaced);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LogMode;
    use crate::log_index::{IndexCursor, SkipList, TwoLevelHash};
    use alloc::vec::Vec;
    use units::{PageSize, Stream};

    const HALF: u32 = 500;
    /// Beyond what a region has, of both indexes.
    const PAGES: u64 = 10_000;

    fn log<I: LogIndex>() -> WriteLog<I> {
        WriteLog::new(HALF, PageSize::KIB_4, LogMode::Halves)
    }

    fn sealed_pages<I: LogIndex>(log: &WriteLog<I>) -> Vec<Lpa> {
        let mut cursor = IndexCursor::default();
        core::iter::from_fn(|| log.next_sealed_page(&mut cursor)).collect()
    }

    /// A log that lines were written to, and one that has them back: with lines in the first half,
    /// in both, and in the second one and the first again.
    fn comes_back<I: LogIndex>() {
        for written in [0, 1, HALF / 2, HALF, HALF + 1, 2 * HALF, 2 * HALF + 200] {
            let mut random = Stream::new(u64::from(written), "restored log");
            let (mut before, mut lines, mut outdated) = (log::<I>(), Vec::new(), Vec::new());
            for _ in 0..written {
                if !before.has_room() {
                    if before.is_compacting() {
                        sealed_pages(&before).into_iter().for_each(|lpa| {
                            before.drop_sealed_page(lpa);
                        });
                        before.release_sealed();
                        lines.retain(|(slot, ..): &(LogSlot, _, _)| slot.get() >= HALF);
                        outdated.retain(|slot: &LogSlot| slot.get() >= HALF);
                    }
                    before.seal();
                }
                let lpa = Lpa::new(random.below(40) * (PAGES / 40));
                let line = LineInPage::new(random.below(8) as u16);
                let (slot, replaced) = before.append(lpa, line);
                lines.push((slot, lpa, line));
                outdated.extend(replaced);
            }
            let (mut after, mut replaced) = (log::<I>(), Vec::new());
            after.restore(lines.iter().copied(), |slot| replaced.push(slot));
            after.audit();
            replaced.sort_unstable();
            outdated.sort_unstable();
            assert_eq!(replaced, outdated, "{written} lines");
            assert_eq!(after.used_slots(), before.used_slots(), "{written} lines");
            assert_eq!(after.next_slot(), before.next_slot(), "{written} lines");
            assert_eq!(
                sealed_pages(&after),
                sealed_pages(&before),
                "{written} lines"
            );
            for (_, lpa, line) in lines {
                assert_eq!(after.find(lpa, line), before.find(lpa, line));
                assert_eq!(after.find_sealed(lpa, line), before.find_sealed(lpa, line));
                let (after, before) = (after.newest_lines(lpa), before.newest_lines(lpa));
                assert!(after.eq(before), "lines of {lpa} come in another order");
            }
        }
    }

    #[test]
    fn a_log_comes_back_as_it_was_whatever_its_index() {
        comes_back::<SkipList>();
        comes_back::<TwoLevelHash>();
    }
}
