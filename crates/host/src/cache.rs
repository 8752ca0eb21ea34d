//! A set-associative array of lines with LRU replacement: tags and dirty bits, no data, no time.

use crate::page_numbers::PageNumbers;
use crate::port::HostLine;
use units::Bytes;

/// Ways are stored in groups of this many, which two vector comparisons search.
const GROUP: usize = 8;
const EMPTY: u32 = HostLine::NONE;

/// A line that had to make room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Victim {
    /// Which line.
    pub line: HostLine,
    /// Whether it was written since it was filled.
    pub is_dirty: bool,
}

/// Where a line is in a [`CacheArray`], until the next fill.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place(u32);

impl Place {
    /// The place as an index below [`CacheArray::place_count`].
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Some ways of a set. A miss of a large cache is mostly the host's own misses: tags and stamps of
/// a group lie in one line of the host.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Group {
    tags: [u32; GROUP],
    /// When each way was last used; larger is younger; only the order within a set means anything.
    /// Ways that the cache does not have stay the youngest.
    stamps: [u32; GROUP],
}

impl Group {
    #[inline]
    fn position(&self, line: HostLine) -> Option<usize> {
        // A bit for each way and no early exit, so that it becomes two vector comparisons; for that
        // no bit may be the lowest.
        let ways = (1..).zip(&self.tags);
        let found = ways.fold(0u32, |found, (bit, tag)| {
            found | (u32::from(*tag == line.get()) << bit)
        });
        (found != 0).then(|| found.trailing_zeros() as usize - 1)
    }
}

/// The line of a set that was used last.
#[derive(Clone, Copy, Debug)]
struct Youngest {
    tag: u32,
    place: u32,
}

/// Tags, dirty bits and recency of a set-associative cache. `NUMBERED` ones can choose sets by
/// other numbers of pages; the others, which are first-level caches, do not even ask.
#[derive(Clone, Debug)]
pub struct CacheArray<const NUMBERED: bool = false> {
    set_mask: u32,
    ways: u32,
    /// Ways rounded up to whole groups.
    stride: u32,
    groups: Vec<Group>,
    /// One bit for each way of a set.
    dirty: Vec<u32>,
    /// The youngest line of each set and its place, which many accesses ask for again and whose
    /// stamp need not be renewed. None if caches are `NUMBERED`: what first-level caches let pass
    /// asks seldom twice.
    youngest: Vec<Youngest>,
    clock: u32,
    /// What chooses the sets of data lines, if not their own numbers.
    numbers: Option<PageNumbers>,
}

impl<const NUMBERED: bool> CacheArray<NUMBERED> {
    /// An empty cache. `size` is `ways` lines times a power of two and `ways` at most 32, which
    /// `CpuConfig::validate` checks.
    pub fn new(size: Bytes, ways: u32) -> Self {
        let sets = (size / (units::address::LINE_BYTES * u64::from(ways))) as u32;
        assert!(
            sets.is_power_of_two() && ways <= 32,
            "a cache has 2^n sets of at most 32 ways"
        );
        let stride = ways.next_multiple_of(GROUP as u32);
        Self {
            set_mask: sets - 1,
            ways,
            stride,
            groups: groups_of_set(ways).repeat(sets as usize),
            dirty: vec![0; sets as usize],
            youngest: match NUMBERED {
                true => Vec::new(),
                false => vec![
                    Youngest {
                        tag: EMPTY,
                        place: 0
                    };
                    sets as usize
                ],
            },
            clock: 0,
            numbers: None,
        }
    }
    /// One more than the largest index of a [`Place`].
    pub fn place_count(&self) -> usize {
        self.groups.len() * GROUP
    }

    /// Looks a line up and makes it the youngest of its set.
    // As `Core::execute`.
    #[inline(always)]
    pub fn access(&mut self, line: HostLine) -> Option<Place> {
        if !NUMBERED {
            let youngest = self.youngest[self.set_of(line) as usize];
            if youngest.tag == line.get() {
                return Some(Place(youngest.place));
            }
        }
        self.search(line)
    }
    /// As [`CacheArray::access`], among all ways.
    #[inline(never)]
    fn search(&mut self, line: HostLine) -> Option<Place> {
        let place = self.find(line)?;
        self.touch(self.set_of(line), line, place);
        Some(place)
    }
    /// As [`CacheArray::access`], and marks the line dirty.
    // As `Core::execute`.
    #[inline(always)]
    pub fn write(&mut self, line: HostLine) -> Option<Place> {
        let place = self.access(line)?;
        let set = self.set_of(line);
        self.dirty[set as usize] |= 1 << (place.0 - set * self.stride);
        Some(place)
    }
    /// Marks a line clean, if present, and says whether it was dirty.
    pub fn clean(&mut self, line: HostLine) -> bool {
        let Some(place) = self.find(line) else {
            return false;
        };
        let set = self.set_of(line);
        let bit = 1 << (place.0 - set * self.stride);
        let dirty = &mut self.dirty[set as usize];
        let was_dirty = *dirty & bit != 0;
        *dirty &= !bit;
        was_dirty
    }
    /// Somebody looks the line up soon.
    #[inline]
    pub fn foresee(&self, line: HostLine) {
        for group in self.set(self.set_of(line) * self.stride) {
            units::foresee(group);
        }
    }
    /// Looks a line up and changes nothing.
    #[inline]
    pub fn find(&self, line: HostLine) -> Option<Place> {
        let first = self.set_of(line) * self.stride;
        for (number, group) in (0..).zip(self.set(first)) {
            if let Some(way) = group.position(line) {
                return Some(Place(first + number * GROUP as u32 + way as u32));
            }
        }
        None
    }
    /// Puts an absent line in, over the oldest of its set.
    pub fn fill(&mut self, line: HostLine, is_dirty: bool) -> (Place, Option<Victim>) {
        debug_assert!(self.find(line).is_none(), "a line is in a cache once");
        let set = self.set_of(line);
        let first = set * self.stride;
        let way = oldest(self.set(first));
        let place = Place(first + way);
        let bit = 1 << way;
        let dirty = &mut self.dirty[set as usize];
        let group = &mut self.groups[place.index() / GROUP];
        let tag = std::mem::replace(&mut group.tags[place.index() % GROUP], line.get());
        let victim = (tag != EMPTY).then(|| Victim {
            line: HostLine::from_raw(tag),
            is_dirty: *dirty & bit != 0,
        });
        *dirty = if is_dirty {
            *dirty | bit
        } else {
            *dirty & !bit
        };
        self.touch(set, line, place);
        (place, victim)
    }
    /// Lines present and how many of them are dirty.
    pub fn occupancy(&self) -> (u64, u64) {
        let tags = self.groups.iter().flat_map(|group| group.tags);
        let present = tags.filter(|tag| *tag != EMPTY).count() as u64;
        (
            present,
            self.dirty
                .iter()
                .map(|bits| u64::from(bits.count_ones()))
                .sum(),
        )
    }

    #[inline]
    fn set_of(&self, line: HostLine) -> u32 {
        match &self.numbers {
            Some(numbers) if NUMBERED => numbers.line(line) & self.set_mask,
            _ => line.get() & self.set_mask,
        }
    }
    /// The ways of the set whose first place is `first`.
    #[inline]
    fn set(&self, first: u32) -> &[Group] {
        let first = first as usize / GROUP;
        &self.groups[first..first + self.stride as usize / GROUP]
    }

    #[inline]
    fn touch(&mut self, set: u32, line: HostLine, place: Place) {
        if self.clock == u32::MAX {
            self.renumber();
        }
        self.clock += 1;
        self.groups[place.index() / GROUP].stamps[place.index() % GROUP] = self.clock;
        if !NUMBERED {
            let (tag, place) = (line.get(), place.0);
            self.youngest[set as usize] = Youngest { tag, place };
        }
    }
    /// Replaces stamps by their rank in the set, before the clock would wrap.
    #[cold]
    fn renumber(&mut self) {
        for set in self.groups.chunks_exact_mut(self.stride as usize / GROUP) {
            let stamps = set.iter_mut().flat_map(|group| &mut group.stamps);
            let stamps: Vec<&mut u32> = stamps.take(self.ways as usize).collect();
            let old: Vec<u32> = stamps.iter().map(|stamp| **stamp).collect();
            for stamp in stamps {
                *stamp = old.iter().filter(|other| **other < *stamp).count() as u32;
            }
        }
        self.clock = self.stride;
    }
}

impl CacheArray<true> {
    /// From now on these numbers of pages choose the sets of their lines. The cache is empty.
    pub fn number_pages(&mut self, numbers: &PageNumbers) {
        assert_eq!(self.occupancy().0, 0, "no line changes its set");
        self.numbers = Some(numbers.clone());
    }
}

/// The way used longest ago; of several that never were, the first.
#[inline]
fn oldest(set: &[Group]) -> u32 {
    // Two passes without branches, which become vector operations.
    let oldest = set.iter().fold([u32::MAX; GROUP], |mut oldest, group| {
        for (oldest, stamp) in oldest.iter_mut().zip(group.stamps) {
            *oldest = (*oldest).min(stamp);
        }
        oldest
    });
    let oldest = oldest.into_iter().fold(u32::MAX, u32::min);
    for (number, group) in (0..).zip(set) {
        let ways = (0..).zip(&group.stamps);
        let found = ways.fold(0u32, |found, (way, stamp)| {
            found | (u32::from(*stamp == oldest) << way)
        });
        if found != 0 {
            return number * GROUP as u32 + found.trailing_zeros();
        }
    }
    0
}

/// An empty set.
fn groups_of_set(ways: u32) -> Vec<Group> {
    let group = |number| Group {
        tags: [EMPTY; GROUP],
        stamps: std::array::from_fn(|way| match number * GROUP + way < ways as usize {
            true => 0,
            false => u32::MAX,
        }),
    };
    (0..(ways as usize).div_ceil(GROUP)).map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same cache as lists ordered by recency.
    struct Model {
        sets: Vec<Vec<(u32, bool)>>,
        ways: usize,
    }

    impl Model {
        fn access(&mut self, line: u32, writes: bool) -> (bool, Option<(u32, bool)>) {
            let count = self.sets.len();
            let set = &mut self.sets[line as usize % count];
            if let Some(at) = set.iter().position(|entry| entry.0 == line) {
                let (_, was_dirty) = set.remove(at);
                set.push((line, was_dirty || writes));
                return (true, None);
            }
            let victim = (set.len() == self.ways).then(|| set.remove(0));
            set.push((line, writes));
            (false, victim)
        }
    }

    fn agrees(ways: u32, sets: usize, accesses: &[(u32, bool)], clock: u32) {
        let size = Bytes::new(64 * u64::from(ways) * sets as u64);
        let mut cache: CacheArray = CacheArray::new(size, ways);
        cache.clock = clock;
        let mut model = Model {
            sets: vec![Vec::new(); sets],
            ways: ways as usize,
        };
        for &(number, writes) in accesses {
            let line = HostLine::from_raw(number);
            let hit = if writes {
                cache.write(line)
            } else {
                cache.access(line)
            };
            let victim = if hit.is_none() {
                cache.fill(line, writes).1
            } else {
                None
            };
            let victim = victim.map(|victim| (victim.line.get(), victim.is_dirty));
            assert_eq!((hit.is_some(), victim), model.access(number, writes));
        }
    }

    #[test]
    fn numbers_of_pages_choose_the_sets_of_data_lines() {
        // Sets 0 to 127, one way: two pages, of which the second would be in the upper half.
        let mut cache = CacheArray::new(Bytes::new(64 * 128), 1);
        let [one, other] = [3, 64 + 3].map(HostLine::from_raw);
        let both_stay = |mut cache: CacheArray<true>| {
            cache.fill(one, false);
            cache.fill(other, false).1.is_none()
        };
        assert!(both_stay(cache.clone()));
        cache.number_pages(&PageNumbers::new(vec![10, 12]));
        assert!(!both_stay(cache.clone()));
        cache.number_pages(&PageNumbers::new(vec![10, 11]));
        assert!(both_stay(cache));
    }

    proptest! {
        #[test]
        fn a_cache_behaves_as_lists_ordered_by_recency(
            ways in 1u32..=32, set_bits in 0u32..3, accesses in prop::collection::vec((0u32..200, any::<bool>()), 0..400),
        ) {
            agrees(ways, 1 << set_bits, &accesses, 0);
        }
        #[test]
        fn order_survives_the_wrap_of_the_clock(
            accesses in prop::collection::vec((0u32..12, any::<bool>()), 0..200),
        ) {
            agrees(8, 1, &accesses, u32::MAX - 50);
            agrees(3, 1, &accesses, u32::MAX - 50);
        }
    }
}
