//! The log after a power cut: the indexes of both halves, from the lines that count.
//!
//! Lines come in the order of their writes, which is no order of pages: each one put where it
//! belongs would wait for the memory of its own page. So an index that keeps neighbouring pages
//! together gets the lines of one region behind those of the other.

use super::WriteLog;
use crate::log_index::LogIndex;
use alloc::vec;
use alloc::vec::Vec;
use units::{LineInPage, LogSlot, Lpa};

/// A line of a half: of which page, where.
type Placed = (Lpa, LogSlot, LineInPage);

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
        for (slot, ..) in lines.clone() {
            self.active = half_of(slot);
            let half = &mut self.halves[self.active];
            half.used = half.used.max(slot.get() - half.first_slot + 1);
        }
        for (number, half) in self.halves.iter_mut().enumerate() {
            let of_half = lines.clone().filter(|(slot, ..)| half_of(*slot) == number);
            let placed = of_half.map(|(slot, lpa, line)| (lpa, slot, line));
            let sorted = by_region(placed.clone(), &half.index);
            let mut put = |(lpa, slot, line): Placed| half.index.insert(lpa, line, slot);
            match sorted {
                Some(sorted) => sorted
                    .into_iter()
                    .filter_map(&mut put)
                    .for_each(&mut replaced),
                None => placed.filter_map(&mut put).for_each(&mut replaced),
            }
        }
    }
}

/// The lines region by region, those of each in the order in which they come. None where that
/// order is to be seen in the index.
fn by_region<I: LogIndex>(
    lines: impl Iterator<Item = Placed> + Clone,
    index: &I,
) -> Option<Vec<Placed>> {
    let mut counts: Vec<usize> = Vec::new();
    for (lpa, ..) in lines.clone() {
        let region = index.region(lpa)?;
        if region >= counts.len() {
            counts.resize(region + 1, 0);
        }
        counts[region] += 1;
    }
    // Where the next line of each region goes.
    let mut next = 0;
    for count in &mut counts {
        next += core::mem::replace(count, next);
    }
    let nothing = (Lpa::new(0), LogSlot::new(0), LineInPage::new(0));
    let mut sorted = vec![nothing; next];
    for line in lines {
        let at = &mut counts[index.region(line.0)?];
        sorted[*at] = line;
        *at += 1;
    }
    Some(sorted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LogMode;
    use crate::log_index::{IndexCursor, SkipList, TwoLevelHash};
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
