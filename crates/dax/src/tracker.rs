//! Counts of ranges of files.

use crate::radix::{NONE, Radix, Root};
use crate::stage::Stage;
use crate::wheel::{Place, Wheel};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use units::{Picos, Time};

/// A file, as the tracker calls it: from [`Dax::open`](crate::Dax::open) to
/// [`Dax::forget`](crate::Dax::forget).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct FileId(pub(crate) u32);

/// What is counted of a range: pages written, and pages that syncs have written back.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Pages written.
    pub writes: u32,
    /// Pages that were written back because somebody asked for it.
    pub write_backs: u32,
}

/// Memory of a tracker.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Footprint {
    /// Ranges that have counts or marks.
    pub ranges: usize,
    /// Bytes of one range: its counts, marks and places in the wheels.
    pub range_bytes: usize,
    /// Bytes held for ranges.
    pub held: usize,
    /// Bytes held to find ranges: trees, and the way back from a range to its file.
    pub index: usize,
    /// Counts under way, those of one range and slot together, and bytes held for them.
    pub decaying: (usize, usize),
}

/// A range. What else there is to know of it lies in bits of its counts that are to spare.
#[derive(Clone, Copy)]
struct Range {
    writes: u32,
    write_backs: u32,
    /// Its newest counts.
    write_place: Place,
    write_back_place: Place,
}

const _: () = assert!(size_of::<Range>() == 16);

/// Counts are below it; what would make more is not counted.
const MOST: u32 = 1 << 29;
/// Of `writes`: the range is in the queue.
const IS_QUEUED: u32 = 1 << 31;
/// Of `writes`: a worker has it.
const IS_TAKEN: u32 = 1 << 30;
/// Of `writes`: it is among those whose last counts have ended.
const IS_IDLE: u32 = 1 << 29;
/// Of `write_backs`: the lowest mark.
const MARKS: u32 = 29;

/// Whether so many more can be counted.
const fn has_room(count: u32, more: u32) -> bool {
    (count & (MOST - 1)) as u64 + (more as u64) < MOST as u64
}

/// Whose a range is.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Owner {
    file: u32,
    range: u32,
}

/// It was cut off: it stays until nothing refers to it.
const NOBODY: Owner = Owner {
    file: NONE,
    range: NONE,
};

pub(crate) struct Tracker {
    order: u32,
    files: Vec<Root>,
    free_files: Vec<u32>,
    ranges: Vec<Range>,
    owners: Vec<Owner>,
    free_ranges: Vec<u32>,
    radix: Radix,
    writes: Wheel,
    write_backs: Wheel,
    /// When a count may end.
    next: Time,
    /// The range that was asked for last.
    last: (Owner, u32),
    /// Ranges of which nothing is counted any more, and that have marks still; if anybody wants to
    /// know. Each is in it once, and none is another one's before it was taken out.
    idle: Option<Vec<RangeId>>,
}

/// A range by its number.
pub(crate) type RangeId = u32;

impl Tracker {
    pub fn new(order: u32, write_delay: Picos, write_back_delay: Picos) -> Self {
        Self {
            order,
            files: Vec::new(),
            free_files: Vec::new(),
            ranges: Vec::new(),
            owners: Vec::new(),
            free_ranges: Vec::new(),
            radix: Radix::default(),
            writes: Wheel::new(write_delay),
            write_backs: Wheel::new(write_back_delay),
            next: Time::from_picos(0),
            last: (NOBODY, NONE),
            idle: None,
        }
    }

    /// Whether ranges are to be kept that have marks and no counts, for [`Tracker::take_idle`].
    pub fn keep_idle(&mut self, is_wanted: bool) {
        for id in self.take_idle() {
            self.settle(id);
        }
        self.idle = is_wanted.then(Vec::new);
        // Counts may have ended while nobody wanted to know, or have been listed before.
        for id in 0..self.ranges.len() as RangeId {
            if self.counts(id) == Counts::default() && self.stage(id) != Stage::Plain {
                self.put_idle(id);
            }
        }
    }

    /// Ranges whose last counts have ended since this was asked for last. They may have counts
    /// again, or be nobody's. Who asks settles them.
    pub fn take_idle(&mut self) -> Vec<RangeId> {
        let taken = self.idle.as_mut().map(core::mem::take).unwrap_or_default();
        for id in &taken {
            self.set_flag(*id, IS_IDLE, false);
        }
        taken
    }

    /// A range is to be among those that are idle once more.
    pub fn put_idle(&mut self, id: RangeId) {
        if self.ranges[id as usize].writes & IS_IDLE != 0 {
            return;
        }
        if let Some(idle) = &mut self.idle {
            idle.push(id);
            self.set_flag(id, IS_IDLE, true);
        }
    }

    pub fn open(&mut self) -> FileId {
        FileId(match self.free_files.pop() {
            Some(file) => file,
            None => {
                self.files.push(Root::EMPTY);
                self.files.len() as u32 - 1
            }
        })
    }

    pub fn close(&mut self, file: FileId) {
        self.free_files.push(file.0);
    }

    /// The number of the range that a page is in; None beyond those that are tracked.
    pub fn range_of(&self, page: u64) -> Option<u32> {
        u32::try_from(page >> self.order).ok()
    }

    /// The number of the range that pages are in, if they are some and in one that is tracked.
    #[inline]
    pub fn only_range_of(&self, page: u64, pages: u32) -> Option<u32> {
        let last = page.saturating_add(u64::from(pages).wrapping_sub(1));
        let range = page >> self.order;
        let is_one = range == last >> self.order && pages > 0;
        u32::try_from(range).ok().filter(|_| is_one)
    }

    /// The pages of a range.
    pub fn pages_of(&self, range: u32) -> core::ops::Range<u64> {
        u64::from(range) << self.order..(u64::from(range) + 1) << self.order
    }

    /// The range, which is tracked from now on.
    #[inline]
    pub fn range(&mut self, file: FileId, range: u32) -> RangeId {
        let owner = Owner {
            file: file.0,
            range,
        };
        if self.last.0 == owner {
            return self.last.1;
        }
        let root = self.files[file.0 as usize];
        let id = self.radix.get(root, range);
        let id = id.unwrap_or_else(|| self.begin(owner));
        self.last = (owner, id);
        id
    }

    #[cold]
    fn begin(&mut self, owner: Owner) -> RangeId {
        const NEW: Range = Range {
            writes: 0,
            write_backs: 0,
            write_place: Place::NOWHERE,
            write_back_place: Place::NOWHERE,
        };
        let id = match self.free_ranges.pop() {
            Some(id) => {
                self.ranges[id as usize] = NEW;
                self.owners[id as usize] = owner;
                id
            }
            None => {
                self.ranges.push(NEW);
                self.owners.push(owner);
                self.ranges.len() as u32 - 1
            }
        };
        let root = &mut self.files[owner.file as usize];
        self.radix.put(root, owner.range, id);
        id
    }

    /// Counts pages of a range that are written.
    #[inline]
    pub fn count_writes(&mut self, file: FileId, range: u32, pages: u32, now: Time) {
        self.advance(now);
        let id = self.range(file, range);
        let of = &mut self.ranges[id as usize];
        if has_room(of.writes, pages) {
            of.writes += pages;
            of.write_place = self.writes.count(id, pages, of.write_place);
        }
    }

    /// Counts pages of a range that are written back.
    pub fn count_write_backs(
        &mut self,
        file: FileId,
        range: u32,
        pages: u32,
        now: Time,
    ) -> RangeId {
        self.advance(now);
        let id = self.range(file, range);
        let of = &mut self.ranges[id as usize];
        if has_room(of.write_backs, pages) {
            of.write_backs += pages;
            of.write_back_place = self.write_backs.count(id, pages, of.write_back_place);
        }
        id
    }

    /// Ends what has been counted for long enough.
    #[inline]
    pub fn advance(&mut self, now: Time) {
        if now >= self.next {
            self.turn(now);
        }
    }

    #[cold]
    fn turn(&mut self, now: Time) {
        while self.writes.turn(now) {
            while let Some(expired) = self.writes.take_expired() {
                for ended in expired.records() {
                    let range = &mut self.ranges[ended.range as usize];
                    range.writes -= ended.count;
                    if range.writes & (MOST - 1) == 0 {
                        range.write_place = Place::NOWHERE;
                        self.end_counts(ended.range);
                    }
                }
            }
        }
        while self.write_backs.turn(now) {
            while let Some(expired) = self.write_backs.take_expired() {
                for ended in expired.records() {
                    let range = &mut self.ranges[ended.range as usize];
                    range.write_backs -= ended.count;
                    if range.write_backs & (MOST - 1) == 0 {
                        range.write_back_place = Place::NOWHERE;
                        self.end_counts(ended.range);
                    }
                }
            }
        }
        self.next = self.writes.end().min(self.write_backs.end());
    }

    /// The last counts of a kind have ended, of a range.
    fn end_counts(&mut self, id: RangeId) {
        let range = &self.ranges[id as usize];
        let has_counts = (range.writes | range.write_backs) & (MOST - 1) != 0;
        if !has_counts && range.write_backs >> MARKS != 0 {
            self.put_idle(id);
        }
        self.settle(id);
    }

    /// Forgets a range of which nothing is known. Its number is not used afterwards.
    pub fn settle(&mut self, id: RangeId) {
        let range = self.ranges[id as usize];
        if range.writes | range.write_backs != 0 {
            return;
        }
        self.cut(id);
        self.free_ranges.push(id);
    }

    /// Takes a range from its file. What is under way of it ends by and by.
    fn cut(&mut self, id: RangeId) {
        let owner = core::mem::replace(&mut self.owners[id as usize], NOBODY);
        if owner != NOBODY {
            let root = &mut self.files[owner.file as usize];
            self.radix.remove(root, owner.range);
        }
        if self.last.1 == id {
            self.last = (NOBODY, NONE);
        }
    }

    /// Takes a range from its file for good, and its marks. It is settled then.
    pub fn remove(&mut self, id: RangeId) {
        self.cut(id);
        self.set_stage(id, Stage::Plain);
        self.settle(id);
    }

    /// Ranges of a file from one on.
    pub fn ranges_from(&self, file: FileId, first: u32) -> Vec<(u32, RangeId)> {
        self.radix.from(self.files[file.0 as usize], first)
    }

    /// Whose a range is, unless it was cut off.
    pub fn owner(&self, id: RangeId) -> Option<(FileId, u32)> {
        let owner = self.owners[id as usize];
        (owner != NOBODY).then_some((FileId(owner.file), owner.range))
    }

    pub fn counts(&self, id: RangeId) -> Counts {
        let range = &self.ranges[id as usize];
        Counts {
            writes: range.writes & (MOST - 1),
            write_backs: range.write_backs & (MOST - 1),
        }
    }

    #[inline]
    pub fn stage(&self, id: RangeId) -> Stage {
        Stage::of(self.ranges[id as usize].write_backs >> MARKS)
    }

    /// Sets the marks. Who sets marks or flags settles the range afterwards.
    pub fn set_stage(&mut self, id: RangeId, stage: Stage) {
        let range = &mut self.ranges[id as usize];
        range.write_backs = range.write_backs & (MOST - 1) | stage.marks() << MARKS;
    }

    pub fn is_queued(&self, id: RangeId) -> bool {
        self.ranges[id as usize].writes & IS_QUEUED != 0
    }

    pub fn is_taken(&self, id: RangeId) -> bool {
        self.ranges[id as usize].writes & IS_TAKEN != 0
    }

    pub fn set_queued(&mut self, id: RangeId, is_queued: bool) {
        self.set_flag(id, IS_QUEUED, is_queued);
    }

    pub fn set_taken(&mut self, id: RangeId, is_taken: bool) {
        self.set_flag(id, IS_TAKEN, is_taken);
    }

    fn set_flag(&mut self, id: RangeId, flag: u32, is_set: bool) {
        let writes = &mut self.ranges[id as usize].writes;
        *writes = *writes & !flag | if is_set { flag } else { 0 };
    }

    /// Checks that each idle range is in its list once, and is nobody else's; for tests.
    ///
    /// # Panics
    /// It is not so.
    pub fn audit(&self) {
        let idle = self.idle.iter().flatten();
        let listed: BTreeSet<_> = idle.clone().collect();
        assert_eq!(listed.len(), idle.count(), "a range is idle twice");
        let flagged = self.ranges.iter().filter(|of| of.writes & IS_IDLE != 0);
        assert_eq!(flagged.count(), listed.len());
        let is_free = |id: &&RangeId| self.free_ranges.contains(id);
        assert!(
            !listed.into_iter().any(|id| is_free(&id)),
            "it is another's"
        );
    }

    pub fn footprint(&self) -> Footprint {
        let (_, nodes) = self.radix.memory();
        let (writes, write_bytes) = self.writes.memory();
        let (write_backs, write_back_bytes) = self.write_backs.memory();
        Footprint {
            ranges: self.ranges.len() - self.free_ranges.len(),
            range_bytes: size_of::<Range>(),
            held: self.ranges.capacity() * size_of::<Range>(),
            index: nodes
                + self.owners.capacity() * size_of::<Owner>()
                + self.free_ranges.capacity() * size_of::<u32>()
                + self.files.capacity() * size_of::<Root>(),
            decaying: (writes + write_backs, write_bytes + write_back_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slots that places cannot tell apart are 64 from each other: an upgraded range without counts
    /// lives from one to the next, and another one has the record then that it had.
    #[test]
    fn a_range_without_counts_has_no_record() {
        let slot = |number: u64| Time::from_picos(number * 100);
        let mut tracker = Tracker::new(0, Picos::new(3200), Picos::new(3200));
        let file = tracker.open();
        for first in 0..130 {
            let id = tracker.count_write_backs(file, 7, 1, slot(first));
            tracker.count_writes(file, 7, 1, slot(first));
            tracker.set_stage(id, Stage::Upgraded);
            tracker.advance(slot(first + 40));
            assert_eq!(tracker.counts(id), Counts::default());
            let again = slot(first + 64);
            for (range, pages) in [(8, 1), (7, 5)] {
                tracker.count_writes(file, range, pages, again);
                tracker.count_write_backs(file, range, pages, again);
            }
            tracker.advance(slot(first + 64 + 40));
            assert_eq!(tracker.counts(id), Counts::default());
            tracker.remove(id);
            assert_eq!(tracker.footprint().ranges, 0, "from slot {first}");
            tracker = Tracker::new(0, Picos::new(3200), Picos::new(3200));
            tracker.open();
        }
    }
}
