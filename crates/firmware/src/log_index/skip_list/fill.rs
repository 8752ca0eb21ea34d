//! An empty index is filled with lines that come in the order of their writes, which is no order of
//! pages: each one put where it belongs would wait for the memory of its own page, and lists would
//! grow line by line. So lines are sorted by page first, in two passes whose memory is at hand:
//! partition by partition, and each of them page by page. Then every page comes once, behind all
//! others, with a list of the right size.

use super::SkipList;
use crate::log_index::Placed;
use alloc::vec;
use alloc::vec::Vec;
use units::{LineInPage, LogSlot};

/// A line of a partition.
#[derive(Clone, Copy)]
struct OfPartition {
    slot: u32,
    page: u16,
    line: u16,
}

const NOTHING: OfPartition = OfPartition {
    slot: 0,
    page: 0,
    line: 0,
};

impl SkipList {
    /// See [`LogIndex::fill`](crate::log_index::LogIndex::fill).
    pub(super) fn fill_by_page(
        &mut self,
        lines: impl Iterator<Item = Placed> + Clone,
        mut replaced: impl FnMut(LogSlot),
    ) {
        assert_eq!(self.page_count, 0, "only an empty index is filled");
        let (by_partition, ends) = self.by_partition(lines);
        let (mut by_page, mut places) = (Vec::new(), Vec::new());
        let (mut of_page, mut codes) = (Vec::new(), Vec::new());
        let mut start = 0;
        for (partition, end) in ends.into_iter().enumerate() {
            sort_by_page(&by_partition[start..end], &mut places, &mut by_page);
            start = end;
            for lines in by_page.chunk_by_mut(|one, next| one.page == next.page) {
                newest(lines, &mut of_page, &mut replaced);
                let list = self.chunks.of_lines(&of_page, &mut codes);
                self.nodes.insert(partition, lines[0].page, list);
                self.page_count += 1;
            }
        }
    }

    /// The lines, those of each partition in the order in which they come, and where each
    /// partition's end.
    fn by_partition(
        &self,
        lines: impl Iterator<Item = Placed> + Clone,
    ) -> (Vec<OfPartition>, Vec<usize>) {
        let mut places: Vec<usize> = Vec::new();
        for (lpa, ..) in lines.clone() {
            let (partition, _) = self.split(lpa);
            if partition >= places.len() {
                places.resize(partition + 1, 0);
            }
            places[partition] += 1;
        }
        let mut sorted = vec![NOTHING; begins(&mut places)];
        for (lpa, line, slot) in lines {
            let (partition, page) = self.split(lpa);
            let place = &mut places[partition];
            sorted[*place] = OfPartition {
                slot: slot.get(),
                page,
                line: line.get(),
            };
            *place += 1;
        }
        (sorted, places)
    }
}

/// Puts the lines of a partition into the order of their pages, those of each in the order in which
/// they come.
fn sort_by_page(lines: &[OfPartition], places: &mut Vec<usize>, sorted: &mut Vec<OfPartition>) {
    let last = lines.iter().map(|line| line.page).max().unwrap_or(0);
    places.clear();
    places.resize(usize::from(last) + 1, 0);
    for line in lines {
        places[usize::from(line.page)] += 1;
    }
    begins(places);
    sorted.clear();
    sorted.resize(lines.len(), NOTHING);
    for line in lines {
        let place = &mut places[usize::from(line.page)];
        sorted[*place] = *line;
        *place += 1;
    }
}

/// Of counts makes where each kind begins; gives the sum.
fn begins(counts: &mut [usize]) -> usize {
    let mut next = 0;
    for count in counts {
        next += core::mem::replace(count, next);
    }
    next
}

/// The newest copies of the lines of a page, in ascending order; tells of the others.
fn newest(
    lines: &mut [OfPartition],
    of_page: &mut Vec<(LineInPage, LogSlot)>,
    replaced: &mut impl FnMut(LogSlot),
) {
    // Copies of a line stay in their order.
    lines.sort_by_key(|line| line.line);
    of_page.clear();
    for copies in lines.chunk_by(|one, next| one.line == next.line) {
        let [older @ .., newest] = copies else {
            continue;
        };
        older
            .iter()
            .for_each(|line| replaced(LogSlot::new(line.slot)));
        of_page.push((LineInPage::new(newest.line), LogSlot::new(newest.slot)));
    }
}
