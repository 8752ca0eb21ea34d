//! Blocks of a file system that overwrites nothing: where each number is now, and the logs of
//! segments to which blocks are appended (F2FS §2).
//!
//! Every block has a number that stays, by which the common structures know it, and a place that
//! changes when it is written. The table of places is what F2FS has in its NAT and in the pointers
//! of its nodes. Free is a segment again when nothing in it is valid and a checkpoint that says so
//! is durable: until then a power cut goes back to the older one, which needs the old places.

mod checkpoint;
mod cleaning;
mod load;
mod record;

pub(crate) use cleaning::Policy;
pub(crate) use load::load;
pub(crate) use record::records_of;

use crate::layout::{BLOCK, Geometry, INODE_BYTES, LINE, LOGS, Segmentation};
use crate::{BlockNo, Ino};
use core::ops::Range;
use rustc_hash::FxHashSet;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Pages to which an inode points itself, and those of each block of pointers behind it (F2FS
/// §2.2: 923 and 1018).
const POINTERS_OF_INODE: u64 = 923;
const POINTERS_OF_BLOCK: u64 = 1018;

/// Where a block is appended, by what it is and how soon it is expected to change (F2FS Table 1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Log {
    /// Inodes of directories; bitmaps.
    HotNode,
    /// Inodes of files; records.
    WarmNode,
    /// Extents and extended attributes.
    ColdNode,
    /// Names.
    HotData,
    /// Contents.
    WarmData,
    /// What cleaning has moved.
    ColdData,
}

/// Cleaning that nobody waits for begins when this share of the segments is left: a 20th.
const TIGHT_SHARE: u32 = 20;

/// A segment.
#[derive(Clone, Copy, Default, Debug)]
struct Segment {
    /// Blocks that are where their numbers lead.
    valid: u32,
    /// Blocks that are being written.
    busy: u32,
    is_free: bool,
    is_open: bool,
    /// The checkpoint during which it was last written: its age.
    written: u64,
}

/// Blocks that have another place since the last record, or none if that is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Moved {
    pub number: u32,
    pub place: u32,
    pub count: u32,
    /// Of their bytes.
    pub sum: u32,
}

impl Moved {
    /// Where they are.
    fn places(&self) -> Range<u32> {
        match self.place {
            0 => 0..0,
            first => first..first + self.count,
        }
    }
}

/// Where everything is.
pub(crate) struct Segments {
    pub layout: Segmentation,
    /// Inodes, of whose blocks the head alone counts.
    inode_table: Range<u32>,
    /// By number; 0: it was never written and reads as zeroes.
    places: Vec<u32>,
    /// By place, from the first segment on: its number; 0 where nothing valid is.
    owners: Vec<u32>,
    segments: Vec<Segment>,
    free: VecDeque<u32>,
    /// By log: the next place, in a segment that has room.
    heads: [Option<u32>; LOGS],
    /// Numbers whose place the table on the device does not say.
    changed: BTreeSet<u32>,
    /// Which copy of each block of the table counts.
    copies: Vec<bool>,
    /// Blocks of the table whose copies differ.
    unequal: BTreeSet<u32>,
    /// The last checkpoint.
    pub version: u64,
    /// In which of two places it is.
    slot: usize,
    /// Records since then.
    records: u64,
    /// Where the next one begins.
    next_record: u32,
    moved: Vec<Moved>,
    /// Places that may not be overwritten: a record has a sum of what is there, or will have.
    pending: FxHashSet<u32>,
    recorded: FxHashSet<u32>,
    /// Blocks of pointers that F2FS would have changed, by file.
    pointers: BTreeMap<Ino, BTreeSet<u64>>,
    /// Something has another place than the last checkpoint says.
    is_dirty: bool,
    /// The segment that is cleaned.
    victim: Option<usize>,
    /// What is made durable next is to be a checkpoint.
    pub wants_checkpoint: bool,
    /// Files whose sync waits.
    pub synced: BTreeSet<Ino>,
    /// Times that the clock has asked to write back since the last checkpoint.
    pub beats: u32,
    /// Segments cleaned and blocks moved by that.
    pub cleaned: u64,
    pub relocated: u64,
}

/// Places behind each other: none if the numbers have none, and how many blocks.
pub(crate) type Run = (Option<u32>, u32);

impl Segments {
    /// None is in use.
    pub fn new(geometry: &Geometry, layout: &Segmentation) -> Self {
        let count = layout.count();
        let segment = Segment {
            is_free: true,
            ..Segment::default()
        };
        Self {
            inode_table: geometry.inode_table.clone(),
            places: vec![0; geometry.blocks as usize],
            owners: vec![0; layout.main.len()],
            segments: vec![segment; count as usize],
            free: (0..count).collect(),
            heads: [None; LOGS],
            changed: BTreeSet::new(),
            copies: vec![false; layout.tables as usize],
            unequal: BTreeSet::new(),
            version: 0,
            slot: 1,
            records: 0,
            next_record: 0,
            moved: Vec::new(),
            pending: FxHashSet::default(),
            recorded: FxHashSet::default(),
            pointers: BTreeMap::new(),
            is_dirty: false,
            victim: None,
            wants_checkpoint: false,
            synced: BTreeSet::new(),
            beats: 0,
            cleaned: 0,
            relocated: 0,
            layout: layout.clone(),
        }
    }

    /// Where a block is.
    pub fn place(&self, number: BlockNo) -> Option<u32> {
        let place = self.places.get(number.0 as usize).copied();
        place.filter(|place| *place != 0)
    }

    /// Where blocks with numbers behind each other are.
    pub fn runs(&self, first: BlockNo, count: u32) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for number in first.0..first.0 + count {
            let place = self.place(BlockNo(number));
            match runs.last_mut() {
                Some((Some(begin), length)) if place == Some(*begin + *length) => *length += 1,
                Some((None, length)) if place.is_none() => *length += 1,
                _ => runs.push((place, 1)),
            }
        }
        runs
    }

    /// Of a block of the table of inodes the head alone counts: behind it there may be a record.
    pub fn trim_node(&self, number: BlockNo, bytes: &mut [u8]) {
        if self.inode_table.contains(&number.0) {
            bytes[INODE_BYTES..].fill(0);
        }
    }

    /// Whether a block is an inode's.
    pub fn is_node(&self, number: BlockNo) -> bool {
        self.inode_table.contains(&number.0)
    }

    /// The block of an inode.
    pub fn node_of(&self, ino: Ino) -> BlockNo {
        BlockNo(self.inode_table.start + ino.0)
    }

    /// Blocks that contents may take without touching what a checkpoint needs.
    pub fn room(&self) -> u32 {
        let segments = (self.free.len() as u32).saturating_sub(self.layout.kept_free());
        segments * self.layout.blocks
    }

    /// Free segments.
    pub fn free_segments(&self) -> u32 {
        self.free.len() as u32
    }

    /// Takes places behind each other at the head of a log, at most so many; they are busy until
    /// they are settled. None: no segment is free.
    pub fn take(&mut self, log: Log, most: u32) -> Option<Range<u32>> {
        let head = &mut self.heads[log as usize];
        let begin = match *head {
            Some(place) => place,
            None => {
                let segment = self.free.pop_front()? as usize;
                self.segments[segment].is_free = false;
                self.segments[segment].is_open = true;
                self.layout.first_of(segment)
            }
        };
        let segment = self.layout.segment_of(begin);
        let end = self.layout.first_of(segment) + self.layout.blocks;
        let taken = begin..end.min(begin + most);
        let state = &mut self.segments[segment];
        state.busy += taken.len() as u32;
        state.written = self.version;
        state.is_open = taken.end < end;
        *head = state.is_open.then_some(taken.end);
        Some(taken)
    }

    /// As [`Segments::take`], so many in all; none are taken if there is no room for all.
    pub fn take_all(&mut self, log: Log, count: u32) -> Option<Vec<Range<u32>>> {
        let rest = self.heads[log as usize].map_or(0, |place| {
            let segment = self.layout.segment_of(place);
            self.layout.first_of(segment) + self.layout.blocks - place
        });
        let wanted = count.saturating_sub(rest).div_ceil(self.layout.blocks);
        if wanted > self.free_segments() {
            return None;
        }
        let mut left = count;
        let mut taken = Vec::new();
        while left > 0 {
            let run = self.take(log, left)?;
            left -= run.len() as u32;
            taken.push(run);
        }
        Some(taken)
    }

    /// Blocks are there now, or will never be.
    pub fn settle(&mut self, places: Range<u32>) {
        for place in places {
            self.segments[self.layout.segment_of(place)].busy -= 1;
        }
    }

    /// A number leads to a place from now on.
    pub fn set(&mut self, number: u32, place: u32) {
        self.unset(number);
        self.places[number as usize] = place;
        self.owners[(place - self.layout.main.start) as usize] = number;
        self.segments[self.layout.segment_of(place)].valid += 1;
        self.is_dirty = true;
        self.changed.insert(number);
    }

    /// A number leads nowhere from now on.
    pub fn unset(&mut self, number: u32) {
        let place = core::mem::take(&mut self.places[number as usize]);
        if place != 0 {
            self.owners[(place - self.layout.main.start) as usize] = 0;
            self.segments[self.layout.segment_of(place)].valid -= 1;
            self.is_dirty = true;
            self.changed.insert(number);
        }
    }

    /// Contents have another place, which the next record is to say.
    pub fn note_moved(&mut self, moved: Moved) {
        for offset in 0..moved.count {
            self.set(moved.number + offset, moved.place + offset);
            self.pending.insert(moved.place + offset);
        }
        self.moved.push(moved);
    }

    /// A number leads nowhere, which the next record is to say.
    pub fn note_unset(&mut self, number: u32) {
        self.unset(number);
        match self.moved.last_mut() {
            Some(last) if last.place == 0 && last.number + last.count == number => last.count += 1,
            _ => self.moved.push(Moved {
                number,
                place: 0,
                count: 1,
                sum: 0,
            }),
        }
    }

    /// Whether the last checkpoint is not the whole truth.
    pub fn is_dirty(&self) -> bool {
        self.is_dirty || self.has_moved() || self.records > 0
    }

    /// Whether segments are few, but not so few that somebody would have to wait.
    pub fn is_tight(&self) -> bool {
        self.free_segments() < self.layout.kept_free() + self.layout.count() / TIGHT_SHARE
    }

    /// Whether segments are as few as checkpoints need, while others have holes that cleaning makes
    /// into more than it takes.
    pub fn wants_balance(&self) -> bool {
        let size = self.layout.blocks;
        if self.free_segments() >= self.layout.kept_free() + 2 {
            return false;
        }
        let taken = self.segments.iter().filter(|segment| !segment.is_free);
        let holes: u32 = taken
            .map(|segment| size - segment.valid - segment.busy)
            .sum();
        holes >= 8 * size
    }

    /// Whether something has moved that no record says.
    pub fn has_moved(&self) -> bool {
        !self.moved.is_empty()
    }

    /// Whether what is at a place may be overwritten there: it is in no segment that is cleaned,
    /// and no record has a sum of it.
    pub fn may_overwrite(&self, place: u32) -> bool {
        self.victim != Some(self.layout.segment_of(place))
            && !self.pending.contains(&place)
            && !self.recorded.contains(&place)
    }

    /// Blocks are overwritten where they are.
    pub fn overwrite(&mut self, places: Range<u32>) {
        for place in places {
            self.segments[self.layout.segment_of(place)].busy += 1;
        }
    }

    /// Pages of a file have other places: the blocks of pointers behind its inode that say so.
    pub fn note_pointers(&mut self, ino: Ino, pages: impl Iterator<Item = u64>) {
        let blocks = pages
            .filter_map(|page| page.checked_sub(POINTERS_OF_INODE))
            .map(|page| page / POINTERS_OF_BLOCK);
        let mut blocks = blocks.peekable();
        if blocks.peek().is_some() {
            self.pointers.entry(ino).or_default().extend(blocks);
        }
    }

    /// The log of a block of metadata.
    pub fn log_of(&self, number: BlockNo, data: &[u8; BLOCK]) -> Log {
        if self.is_node(number) {
            return match crate::layout::kind_of(data) {
                Some(crate::FileKind::Directory) => Log::HotNode,
                _ => Log::WarmNode,
            };
        }
        if number.0 < self.inode_table.start {
            return Log::HotNode;
        }
        match crate::dir::is_names(data) {
            true => Log::HotData,
            false => Log::ColdNode,
        }
    }

    /// Numbers that lead somewhere, in a range.
    pub fn placed(&self, range: Range<u32>) -> Vec<u32> {
        range
            .filter(|number| self.places[*number as usize] != 0)
            .collect()
    }
}

/// A part of a block from a line on.
pub(crate) fn line_range(line: u32) -> Range<usize> {
    let at = line as usize * LINE;
    at..at + LINE
}
