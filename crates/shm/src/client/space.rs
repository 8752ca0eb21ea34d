//! Which bytes of the data area are free.

use crate::submission::DataRange;

/// Pieces begin at lines of the host's caches.
const LINE: usize = 64;

/// Free ranges, in order. The first that fits is taken: few requests use few pages, which stay in
/// the caches.
#[derive(Clone, Debug)]
pub struct Space {
    /// Begin and end, never touching.
    free: Vec<(usize, usize)>,
}

impl Space {
    /// All free.
    pub fn new(bytes: usize) -> Self {
        Self {
            free: vec![(0, bytes)],
        }
    }

    /// Some bytes, if there are so many in a row.
    pub fn take(&mut self, size: usize) -> Option<DataRange> {
        if size == 0 {
            return Some(DataRange::NONE);
        }
        let room = size.next_multiple_of(LINE);
        let index = self
            .free
            .iter()
            .position(|(begin, end)| end - begin >= room)?;
        let range = &mut self.free[index];
        let place = range.0;
        range.0 += room;
        if range.0 == range.1 {
            self.free.remove(index);
        }
        Some(DataRange { place, size })
    }

    /// Gives a range back.
    pub fn give(&mut self, range: DataRange) {
        if range.size == 0 {
            return;
        }
        let begin = range.place;
        let end = begin + range.size.next_multiple_of(LINE);
        let next = self.free.partition_point(|range| range.0 < begin);
        let joins_next = self.free.get(next).is_some_and(|range| range.0 == end);
        let joins_last = next > 0 && self.free[next - 1].1 == begin;
        match (joins_last, joins_next) {
            (true, true) => self.free[next - 1].1 = self.free.remove(next).1,
            (true, false) => self.free[next - 1].1 = end,
            (false, true) => self.free[next].0 = begin,
            (false, false) => self.free.insert(next, (begin, end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_never_overlap_and_all_comes_back(
            steps in proptest::collection::vec((any::<bool>(), 0..5_000_usize), 1..200),
        ) {
            let all = 1 << 16;
            let mut space = Space::new(all);
            let mut taken: Vec<DataRange> = Vec::new();
            for (takes, number) in steps {
                if takes {
                    let Some(range) = space.take(number) else {
                        continue;
                    };
                    prop_assert!(range.place.is_multiple_of(64));
                    prop_assert!(range.place + range.size <= all);
                    for other in taken.iter().filter(|other| other.size > 0 && range.size > 0) {
                        let apart = range.place + range.size <= other.place
                            || other.place + other.size <= range.place;
                        prop_assert!(apart, "{range:?} and {other:?}");
                    }
                    taken.push(range);
                } else if !taken.is_empty() {
                    space.give(taken.swap_remove(number % taken.len()));
                }
            }
            for range in taken {
                space.give(range);
            }
            prop_assert_eq!(space.free, vec![(0, all)]);
        }
    }
}
