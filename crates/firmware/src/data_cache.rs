//! The set-associative page cache in device DRAM: which page is in which frame.
//!
//! A frame is free, in flight (its page is on its way from flash; an MSHR knows more) or resident.
//! Its tag is 32 bits, so a set of 16 is one host cache line, and all tables start as zeroes, so a
//! cache that is larger than the footprint costs the memory of what is used.
//!
//! Invariants: a page is in at most one frame, in its own set; a frame in flight is never evicted;
//! a free frame has no flags.
//!
//! Source: SkyByte §III-B, Table II.

pub mod clock;
mod ghosts;
pub mod lru;
mod order;
pub mod policy;
pub mod s3_fifo;
pub mod two_q;

#[cfg(test)]
mod reference;

use crate::config::CachePolicy;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use policy::{EvictionPolicy, FullSet, PageTag, Policy, SERVES_LOG, Shape};
use units::{FrameId, LineInPage, LineMask, Lpa};

units::ids! {
    /// A miss status holding register: a page on its way into its frame.
    MshrId, "MSHR";
}

/// The tag of a frame that serves the log: of no page, since pages have 32-bit numbers with room
/// for two more.
const RESERVED: PageTag = u32::MAX;
const DIRTY: u32 = 1;
const PREFETCHED: u32 = 2;
const OFFERED: u32 = 4;
/// The rest of the word is 0, or the number of the frame's MSHR + 1.
const MSHR_SHIFT: u32 = 3;

/// The data cache.
#[derive(Clone)]
pub struct DataCache {
    /// By frame: LPA + 1, 0 = free.
    tags: Vec<PageTag>,
    /// By frame: flags and MSHR.
    states: Vec<u32>,
    /// By frame: accesses since the page came.
    accesses: Vec<u32>,
    /// By frame, if anybody asks: the lines that are dirty.
    dirty_lines: Vec<LineMask>,
    /// Frames without a page.
    free_count: usize,
    /// Frames that serve the log: the last way of each set in turn, then the one before.
    reserved: u32,
    policy: Policy,
    shape: Shape,
    /// By page, its set, if its number does not choose it; pages beyond go by their numbers.
    sets: Vec<u32>,
    /// 2^64 over the number of sets, rounded up, modulo 2^64.
    set_share: u64,
}

/// Frame tags and LPAs share 32 bits with "free".
fn tag_of(lpa: Lpa) -> PageTag {
    lpa.get() as u32 + 1
}

/// The first way of a set with this tag.
#[inline]
fn way_with(set: &[PageTag], wanted: PageTag) -> Option<usize> {
    // A bit for each way and no early exit among them, so that they become vector comparisons, and
    // no branch depends on the way; for that no bit may be the lowest.
    let (groups, rest) = set.as_chunks::<16>();
    for (first, group) in (0..).step_by(16).zip(groups) {
        let ways = (1..).zip(group);
        let found = ways.fold(0u32, |found, (bit, tag)| {
            found | u32::from(*tag == wanted) << bit
        });
        if found != 0 {
            return Some(first + found.trailing_zeros() as usize - 1);
        }
    }
    let way = rest.iter().position(|tag| *tag == wanted)?;
    Some(set.len() - rest.len() + way)
}

impl DataCache {
    /// An empty cache of at most `frame_count` frames.
    pub fn new(frame_count: u32, ways: u32, policy: CachePolicy) -> Self {
        let shape = Shape::new(frame_count, ways);
        let frames = shape.frame_count();
        Self {
            tags: vec![0; frames],
            states: vec![0; frames],
            accesses: vec![0; frames],
            dirty_lines: Vec::new(),
            free_count: frames,
            reserved: 0,
            policy: Policy::new(policy, shape),
            set_share: (u64::MAX / u64::from(shape.set_count)).wrapping_add(1),
            shape,
            sets: Vec::new(),
        }
    }

    /// The same, which knows of each dirty page which of its lines are.
    #[must_use]
    pub fn with_dirty_lines(self) -> Self {
        let dirty_lines = vec![LineMask::EMPTY; self.tags.len()];
        Self {
            dirty_lines,
            ..self
        }
    }

    /// From now on page 0, 1, 2, … is in the set of the page with the first, second, … of these
    /// numbers. None of these pages is cached.
    pub fn number_pages(&mut self, numbers: impl Iterator<Item = u64>) {
        let set_count = u64::from(self.shape.set_count);
        self.sets = numbers.map(|number| (number % set_count) as u32).collect();
        let numbered = self.sets.len();
        let changes = |tag: &PageTag| (1..=numbered).contains(&(*tag as usize));
        assert!(!self.tags.iter().any(changes), "no page changes its set");
    }

    /// For each frame another page behind `lpa` that may be in it, those that come first.
    pub fn one_each(&self, lpa: Lpa) -> impl Iterator<Item = (FrameId, Lpa)> + use<> {
        let Shape { set_count, ways } = self.shape;
        let sets = u64::from(set_count);
        let first = lpa.get().next_multiple_of(sets);
        (0..ways).flat_map(move |way| {
            (0..set_count).map(move |set| {
                let page = first + u64::from(way) * sets + u64::from(set);
                (FrameId::new(set * ways + way), Lpa::new(page))
            })
        })
    }

    /// Whether it knows which lines of a page are dirty.
    pub fn knows_lines(&self) -> bool {
        !self.dirty_lines.is_empty()
    }

    /// Frames that have a page, or wait for one.
    pub fn used_frames(&self) -> usize {
        self.tags.len() - self.free_count - self.reserved as usize
    }

    /// Frames that serve the log.
    pub fn reserved(&self) -> u32 {
        self.reserved
    }

    /// Whether the frame does.
    pub fn is_reserved(&self, frame: FrameId) -> bool {
        self.tags[frame.index()] == RESERVED
    }

    /// The frame that serves the log behind `count` others.
    fn reserved_frame(&self, count: u32) -> FrameId {
        let Shape { set_count, ways } = self.shape;
        FrameId::new(count % set_count * ways + (ways - 1 - count / set_count))
    }

    /// The frame that is to serve the log next.
    pub fn next_reserved(&self) -> FrameId {
        self.reserved_frame(self.reserved)
    }

    /// One more frame serves the log. It is free.
    pub fn reserve(&mut self) {
        let frame = self.next_reserved().index();
        assert_eq!(self.tags[frame], 0, "a free frame serves the log");
        self.tags[frame] = RESERVED;
        // As of a page in flight: it stays.
        self.states[frame] = SERVES_LOG;
        self.free_count -= 1;
        self.reserved += 1;
    }

    /// One frame less does.
    pub fn give_back(&mut self) {
        self.reserved -= 1;
        let frame = self.next_reserved().index();
        self.tags[frame] = 0;
        self.states[frame] = 0;
        self.free_count += 1;
    }

    /// Frames of the cache.
    pub fn frame_count(&self) -> usize {
        self.tags.len()
    }

    #[inline]
    fn set_of(&self, lpa: Lpa) -> Range<usize> {
        let set = match self.sets.get(lpa.get() as usize) {
            Some(set) => *set,
            None => self.remainder_of(lpa.get() as u32),
        };
        let first = (set * self.shape.ways) as usize;
        first..first + self.shape.ways as usize
    }

    /// `number` modulo the number of sets, by two products, which take less than half the time of
    /// a division (Lemire, Kaser and Kurz 2019): exact for all numbers of 32 bits.
    #[inline]
    fn remainder_of(&self, number: u32) -> u32 {
        let fraction = self.set_share.wrapping_mul(u64::from(number));
        let product = u128::from(fraction) * u128::from(self.shape.set_count);
        (product >> 64) as u32
    }

    /// Somebody looks the page up soon.
    #[inline]
    pub fn foresee(&self, lpa: Lpa) {
        let set = self.set_of(lpa);
        // Of a set of sixteen both lines of the host that it may be in.
        for end in [set.start, set.end - 1] {
            units::foresee(&self.tags[end]);
            units::foresee(&self.states[end]);
            units::foresee(&self.accesses[end]);
        }
    }

    /// The frame of a page, resident or in flight.
    #[inline]
    pub fn find(&self, lpa: Lpa) -> Option<FrameId> {
        let set = self.set_of(lpa);
        let tag = tag_of(lpa);
        let way = way_with(&self.tags[set.clone()], tag)?;
        Some(FrameId::new((set.start + way) as u32))
    }

    /// The page in a frame.
    pub fn page_in(&self, frame: FrameId) -> Option<Lpa> {
        let tag = self.tags[frame.index()];
        (tag != 0 && tag != RESERVED).then(|| Lpa::new(u64::from(tag) - 1))
    }

    /// The MSHR of a frame in flight.
    #[inline]
    pub fn mshr_of(&self, frame: FrameId) -> Option<MshrId> {
        (self.states[frame.index()] >> MSHR_SHIFT)
            .checked_sub(1)
            .map(MshrId::new)
    }

    /// Where a page can go: a free frame of its set, or the policy's choice among the resident
    /// ones, of which dirty ones count only if `dirty_may_leave`. The policy takes it as done: the
    /// caller evicts what is in the frame.
    pub fn place_for(&mut self, lpa: Lpa, dirty_may_leave: bool) -> Option<FrameId> {
        let set = self.set_of(lpa);
        if self.free_count > 0
            && let Some(way) = way_with(&self.tags[set.clone()], 0)
        {
            return Some(FrameId::from_index(set.start + way));
        }
        // In flight is everything from the first bit of the MSHR on.
        let keeps_in = match dirty_may_leave {
            true => u32::MAX << MSHR_SHIFT,
            false => u32::MAX << MSHR_SHIFT | DIRTY,
        };
        let first = set.start as u32;
        let full = FullSet::new(first, &self.states[set], keeps_in);
        self.policy.victim(full)
    }

    /// Puts a page into a free frame, in flight if an MSHR is given.
    pub fn install(&mut self, frame: FrameId, lpa: Lpa, mshr: Option<MshrId>) {
        assert!(
            self.set_of(lpa).contains(&frame.index()),
            "a page goes to its own set"
        );
        assert_eq!(self.tags[frame.index()], 0, "a page goes to a free frame");
        self.tags[frame.index()] = tag_of(lpa);
        self.free_count -= 1;
        self.states[frame.index()] = mshr.map_or(0, |mshr| (mshr.get() + 1) << MSHR_SHIFT);
        self.accesses[frame.index()] = 0;
        self.policy.insert(frame, tag_of(lpa));
    }

    /// The page of a frame in flight has come.
    pub fn settle(&mut self, frame: FrameId) {
        assert!(self.mshr_of(frame).is_some(), "only a page in flight comes");
        self.states[frame.index()] &= (1 << MSHR_SHIFT) - 1;
        self.policy.arrive(frame);
        if self.states[frame.index()] & PREFETCHED == 0 {
            self.policy.first_use(frame);
        }
    }

    /// Frees the frame of a resident page, whose place another one needs.
    pub fn evict(&mut self, frame: FrameId) {
        self.policy.evict(frame, self.tags[frame.index()]);
        self.remove(frame);
    }

    /// Frees the frame of a resident page that is not needed here any more.
    pub fn remove(&mut self, frame: FrameId) {
        assert!(
            self.mshr_of(frame).is_none(),
            "a page in flight is not evicted"
        );
        assert!(self.tags[frame.index()] != 0, "a page leaves once");
        self.mark_clean(frame);
        self.tags[frame.index()] = 0;
        self.free_count += 1;
        self.states[frame.index()] = 0;
    }

    /// The page was used. Says whether it was fetched ahead and this is its first use.
    #[inline(always)]
    pub fn touch(&mut self, frame: FrameId) -> bool {
        let is_first = self.take_prefetched(frame);
        if is_first {
            self.policy.first_use(frame);
        } else {
            self.policy.touch(frame);
        }
        is_first
    }

    /// Counts an access and returns how many there were since the page came or was declined.
    #[inline]
    pub fn count_access(&mut self, frame: FrameId) -> u32 {
        let count = &mut self.accesses[frame.index()];
        *count = count.saturating_add(1);
        *count
    }

    /// Counts accesses that were elsewhere.
    #[inline]
    pub fn add_accesses(&mut self, frame: FrameId, more: u32) {
        let count = &mut self.accesses[frame.index()];
        *count = count.saturating_add(more);
    }

    /// How many accesses have been counted.
    #[inline]
    pub fn accesses(&self, frame: FrameId) -> u32 {
        self.accesses[frame.index()]
    }

    /// Starts counting accesses anew and allows another offer.
    pub fn cool(&mut self, frame: FrameId) {
        self.accesses[frame.index()] = 0;
        self.states[frame.index()] &= !OFFERED;
    }

    /// Starts counting accesses of all pages anew.
    pub fn forget_accesses(&mut self) {
        self.accesses.fill(0);
    }

    /// Marks the page as offered to the host; says whether it was not.
    #[inline]
    pub fn offer(&mut self, frame: FrameId) -> bool {
        self.set_flag(frame, OFFERED)
    }

    /// Marks the page as newer than flash and than every buffer.
    pub fn mark_dirty(&mut self, frame: FrameId) {
        self.set_flag(frame, DIRTY);
    }

    /// Marks the page as equal to what is on flash or in the newest buffer.
    pub fn mark_clean(&mut self, frame: FrameId) {
        self.states[frame.index()] &= !DIRTY;
        if let Some(lines) = self.dirty_lines.get_mut(frame.index()) {
            *lines = LineMask::EMPTY;
        }
    }

    /// Marks a line as newer than log, flash and every buffer, in a cache that knows lines.
    #[inline]
    pub fn mark_line_dirty(&mut self, frame: FrameId, line: LineInPage) {
        self.dirty_lines[frame.index()].insert(line);
        self.mark_dirty(frame);
    }

    /// The lines of a page that are.
    #[inline]
    pub fn dirty_lines(&self, frame: FrameId) -> LineMask {
        self.dirty_lines[frame.index()]
    }

    /// Whether the page is newer than flash and than every buffer.
    #[inline]
    pub fn is_dirty(&self, frame: FrameId) -> bool {
        self.states[frame.index()] & DIRTY != 0
    }

    /// Whether the policy would keep the page for what it has seen of it.
    pub fn is_known(&self, frame: FrameId) -> bool {
        self.policy.is_known(frame)
    }

    /// Marks the page as fetched ahead.
    pub fn mark_prefetched(&mut self, frame: FrameId) {
        self.set_flag(frame, PREFETCHED);
    }

    /// Whether the page was fetched ahead and has not been asked for.
    #[inline]
    pub fn is_prefetched(&self, frame: FrameId) -> bool {
        self.states[frame.index()] & PREFETCHED != 0
    }

    /// Whether the page was fetched ahead and is asked for now for the first time.
    #[inline]
    pub fn take_prefetched(&mut self, frame: FrameId) -> bool {
        let state = &mut self.states[frame.index()];
        let was_prefetched = *state & PREFETCHED != 0;
        *state &= !PREFETCHED;
        was_prefetched
    }

    fn set_flag(&mut self, frame: FrameId, flag: u32) -> bool {
        let state = &mut self.states[frame.index()];
        let was_clear = *state & flag == 0;
        *state |= flag;
        was_clear
    }

    /// The frames in flight with their pages and MSHRs.
    pub fn in_flight(&self) -> impl Iterator<Item = (FrameId, Lpa, MshrId)> + '_ {
        (0..self.tags.len()).filter_map(|i| {
            let frame = FrameId::from_index(i);
            Some((frame, self.page_in(frame)?, self.mshr_of(frame)?))
        })
    }

    /// Checks the invariants of the module.
    ///
    /// # Panics
    /// With a sentence, if one is broken.
    pub fn audit(&self) {
        let free = self.tags.iter().filter(|tag| **tag == 0).count();
        assert_eq!(free, self.free_count, "free frames are counted");
        let mut reserved = 0;
        for index in 0..self.tags.len() {
            let frame = FrameId::from_index(index);
            match self.page_in(frame) {
                Some(lpa) => assert_eq!(
                    self.find(lpa),
                    Some(frame),
                    "{lpa} is in two frames or outside its set"
                ),
                None if self.tags[index] == RESERVED => reserved += 1,
                None => assert_eq!(self.states[index], 0, "free {frame} has flags"),
            }
        }
        assert_eq!(reserved, self.reserved, "frames of the log are counted");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sets of two ways: even pages in frames 0 and 1, odd ones in 2 and 3.
    fn cache() -> DataCache {
        DataCache::new(5, 2, CachePolicy::Lru)
    }

    #[test]
    fn one_page_for_each_frame_is_of_its_set_and_comes_behind() {
        let mut cache = cache();
        let pages: Vec<_> = cache.one_each(Lpa::new(3)).collect();
        let numbers: Vec<_> = pages.iter().map(|(_, page)| page.get()).collect();
        assert_eq!(numbers, [4, 5, 6, 7]);
        for (frame, page) in pages {
            cache.install(frame, page, None);
            assert_eq!(cache.find(page), Some(frame));
        }
        assert_eq!(cache.used_frames(), cache.frame_count());
    }

    fn fill(cache: &mut DataCache, lpa: u64) -> FrameId {
        let frame = cache.place_for(Lpa::new(lpa), true).unwrap();
        if cache.page_in(frame).is_some() {
            cache.evict(frame);
        }
        cache.install(frame, Lpa::new(lpa), None);
        frame
    }

    #[test]
    fn the_least_recently_used_page_of_the_set_leaves() {
        let mut cache = cache();
        assert_eq!(cache.frame_count(), 4);
        let (first, second) = (fill(&mut cache, 0), fill(&mut cache, 2));
        fill(&mut cache, 1);
        cache.touch(first);
        assert_eq!(cache.place_for(Lpa::new(4), true), Some(second));
        assert_eq!(fill(&mut cache, 4), second);
        assert_eq!(cache.find(Lpa::new(2)), None);
        assert_eq!(cache.find(Lpa::new(0)), Some(first));
        cache.audit();
    }

    #[test]
    fn pages_in_flight_never_leave_and_dirty_ones_only_if_they_may() {
        let mut cache = cache();
        let place = cache.place_for(Lpa::new(0), true).unwrap();
        cache.install(place, Lpa::new(0), Some(MshrId::new(0)));
        let dirty = fill(&mut cache, 2);
        cache.mark_dirty(dirty);
        assert_eq!(cache.place_for(Lpa::new(4), true), Some(dirty));
        assert_eq!(cache.place_for(Lpa::new(4), false), None);
        assert_eq!(cache.mshr_of(place), Some(MshrId::new(0)));
        assert_eq!(cache.in_flight().count(), 1);
        cache.settle(place);
        assert_eq!(cache.place_for(Lpa::new(4), false), Some(place));
    }

    #[test]
    fn flags_and_counts_leave_with_the_page() {
        let mut cache = cache();
        let frame = fill(&mut cache, 0);
        cache.mark_dirty(frame);
        cache.mark_prefetched(frame);
        assert!(cache.offer(frame) && !cache.offer(frame));
        assert_eq!(
            [cache.count_access(frame), cache.count_access(frame)],
            [1, 2]
        );
        cache.cool(frame);
        assert!(cache.offer(frame) && cache.is_dirty(frame));
        assert!(cache.take_prefetched(frame) && !cache.take_prefetched(frame));
        cache.evict(frame);
        assert_eq!(fill(&mut cache, 0), frame);
        assert!(!cache.is_dirty(frame));
        assert_eq!(cache.count_access(frame), 1);
        cache.audit();
    }

    #[test]
    fn a_set_is_a_remainder() {
        for sets in [1, 2, 3, 7, 1_024, 28_672, 65_535, 1 << 22, (1 << 22) - 1] {
            let cache = DataCache::new(sets, 1, CachePolicy::Lru);
            for number in [0, 1, 2, 1_000_003, sets - 1, sets, u32::MAX - 1, u32::MAX] {
                assert_eq!(cache.remainder_of(number), number % sets);
            }
        }
    }

    #[test]
    fn fewer_frames_than_ways_make_one_set() {
        let cache = DataCache::new(3, 16, CachePolicy::Lru);
        assert_eq!(cache.frame_count(), 3);
    }
}
