//! What the host knows of pages in the device's persistent memory (the window of the port).
//!
//! A page of an upgraded range has a *frame* in the window when it is synced: from then on the
//! frame has what the last sync has made durable, and the place of the page on flash something
//! that is not newer. A header of one line says whose the frame is; a header of zeroes says that it
//! is nobody's. The host's copy of the page stays in the page cache, and reads come from there.

use super::State;
use crate::Ino;
use crate::gate::Passed;
use crate::layout::{BLOCK, LINE, LINES, get_u32, get_u64, is_sealed, put_u32, put_u64, seal};
use crate::state::batch::BatchId;
use core::ops::Range;
use dax::{Dax, FileId};
use port::Shape;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use units::{ByteAddr, Time};

const PAGE: u64 = BLOCK as u64;
const MAGIC: u32 = u32::from_le_bytes(*b"ENPM");
/// Frames that are made free at a time.
const RECLAIMED: usize = 64;

/// Where headers and frames are in the window: headers first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    base: u64,
    /// How many.
    pub frames: u32,
}

impl Window {
    /// That of a device; None if it has none, or one without room for a frame.
    pub fn of(shape: &Shape) -> Option<Self> {
        let room = shape.pmem.get().checked_sub(PAGE)?;
        let frames = u32::try_from(room / (PAGE + LINE as u64)).ok()?;
        let base = shape.capacity.get();
        (frames > 0).then_some(Self { base, frames })
    }

    /// Where a header is.
    pub fn header(&self, frame: u32) -> ByteAddr {
        ByteAddr::new(self.base + u64::from(frame) * LINE as u64)
    }

    /// Where a frame is.
    pub fn frame(&self, frame: u32) -> ByteAddr {
        let headers = (u64::from(self.frames) * LINE as u64).next_multiple_of(PAGE);
        ByteAddr::new(self.base + headers + u64::from(frame) * PAGE)
    }
}

/// Whose a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    /// Of which file system.
    pub seed: u64,
    pub ino: Ino,
    pub generation: u32,
    pub page: u64,
    /// Bytes of the page that are the file's.
    pub len: u32,
    /// Of two headers of one page the later one counts.
    pub number: u64,
    /// When the file was written.
    pub written: u64,
}

impl Header {
    pub fn encode(&self) -> [u8; LINE] {
        let mut line = [0; LINE];
        put_u32(&mut line, 0, MAGIC);
        put_u32(&mut line, 4, self.ino.0);
        put_u32(&mut line, 8, self.generation);
        put_u32(&mut line, 12, self.len);
        put_u64(&mut line, 16, self.page);
        put_u64(&mut line, 24, self.number);
        put_u64(&mut line, 32, self.seed);
        put_u64(&mut line, 40, self.written);
        seal(&mut line);
        line
    }

    /// None if it is no header of this file system.
    pub fn decode(line: &[u8], seed: u64) -> Option<Self> {
        let is_mine = is_sealed(line) && get_u32(line, 0) == MAGIC && get_u64(line, 32) == seed;
        let header = Self {
            seed,
            ino: Ino(get_u32(line, 4)),
            generation: get_u32(line, 8),
            len: get_u32(line, 12),
            page: get_u64(line, 16),
            number: get_u64(line, 24),
            written: get_u64(line, 40),
        };
        (is_mine && header.len as usize <= BLOCK).then_some(header)
    }
}

/// A page that has a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Framed {
    pub frame: u32,
    /// Lines that the frame has not as they are.
    pub lines: u64,
    /// What its header says of its bytes; none before there is one.
    pub len: Option<u32>,
}

/// A file of which something is tracked.
#[derive(Debug)]
struct Tracked {
    id: FileId,
    generation: Option<u32>,
    /// Pages that were written and neither synced nor written back since.
    unsynced: BTreeSet<u64>,
}

/// What syncs of files have had of the window.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PmemStats {
    /// Syncs that the window has answered alone.
    pub light_syncs: u64,
    /// Syncs of files in persistent memory that had to take the usual way for want of frames.
    pub without_room: u64,
    /// Lines stored in frames.
    pub lines: u64,
    /// Pages found in the window at the mount, and brought back.
    pub recovered: u64,
}

/// Everything that is known of the window.
pub(crate) struct Pmem {
    pub dax: Dax,
    pub window: Window,
    pub free: Vec<u32>,
    framed: BTreeMap<(Ino, u64), Framed>,
    files: FxHashMap<Ino, Tracked>,
    names: FxHashMap<FileId, Ino>,
    /// Frames of files that are removed: free when that is durable.
    dying: Vec<(BatchId, u32)>,
    /// Files with pages that were written back and may not be durable yet, and since when.
    pending: FxHashMap<Ino, u64>,
    /// Write-backs so far.
    pub mark: u64,
    number: u64,
    pub stats: PmemStats,
}

/// What a sync stores in the window: contents, and behind them headers.
#[derive(Default)]
pub(crate) struct Stores {
    pub parts: Vec<(ByteAddr, Vec<u8>)>,
    pub headers: Vec<(ByteAddr, [u8; LINE])>,
    pub pages: u64,
}

/// Frames that were taken from clean pages.
#[derive(Default)]
pub(crate) struct Reclaimed {
    pub frames: Vec<u32>,
    /// Gates of their files.
    pub passed: Vec<Passed>,
    /// Files that have frames and of which nothing else is known: they have no gate.
    pub unknown: BTreeSet<Ino>,
}

impl Pmem {
    pub fn new(dax: Dax, window: Window) -> Self {
        Self {
            dax,
            window,
            free: (0..window.frames).rev().collect(),
            framed: BTreeMap::new(),
            files: FxHashMap::default(),
            names: FxHashMap::default(),
            dying: Vec::new(),
            pending: FxHashMap::default(),
            mark: 0,
            number: 0,
            stats: PmemStats::default(),
        }
    }

    fn file(&mut self, ino: Ino) -> FileId {
        if let Some(tracked) = self.files.get(&ino) {
            return tracked.id;
        }
        let id = self.dax.open();
        let tracked = Tracked {
            id,
            generation: None,
            unsynced: BTreeSet::new(),
        };
        self.files.insert(ino, tracked);
        self.names.insert(id, ino);
        id
    }

    /// The number of a file's inode.
    pub fn name(&self, file: FileId) -> Option<Ino> {
        self.names.get(&file).copied()
    }

    /// Whether it must be told the generation of an inode.
    pub fn lacks_generation(&self, ino: Ino) -> bool {
        let tracked = self.files.get(&ino);
        tracked.is_some_and(|tracked| tracked.generation.is_none())
    }

    pub fn set_generation(&mut self, ino: Ino, generation: u32) {
        if let Some(tracked) = self.files.get_mut(&ino) {
            tracked.generation = Some(generation);
        }
    }

    /// Frames in use.
    pub fn used(&self) -> usize {
        self.framed.len()
    }

    /// Pages of a file are changed by something else than a write, or written back.
    pub fn begin_write_back(&mut self, ino: Ino) {
        self.mark += 1;
        self.pending.insert(ino, self.mark);
    }

    /// These pages are written back.
    pub fn take_pages(&mut self, ino: Ino, pages: &[u64]) {
        if let Some(tracked) = self.files.get_mut(&ino) {
            for page in pages {
                tracked.unsynced.remove(page);
            }
        }
    }

    /// Whether a frame of a page that is to be written back is older than the page.
    pub fn has_stale_frame(&self, ino: Ino, pages: &[u64]) -> bool {
        pages.iter().any(|page| {
            let framed = self.framed.get(&(ino, *page));
            framed.is_some_and(|framed| framed.lines != 0)
        })
    }

    /// What was written back up to a mark is durable: of a file, or of all.
    pub fn settle(&mut self, ino: Option<Ino>, mark: u64) {
        match ino {
            Some(ino) => {
                if self.pending.get(&ino).is_some_and(|since| *since <= mark) {
                    self.pending.remove(&ino);
                }
            }
            None => self.pending.retain(|_, since| *since > mark),
        }
    }

    /// Takes the frames of pages of a file.
    pub fn take_frames(&mut self, ino: Ino, pages: Range<u64>) -> Vec<u32> {
        let keys: Vec<_> = self
            .framed
            .range((ino, pages.start)..(ino, pages.end))
            .map(|(key, _)| *key)
            .collect();
        let taken = keys.into_iter().filter_map(|key| self.framed.remove(&key));
        taken.map(|framed| framed.frame).collect()
    }

    /// Whether a page of these has a frame.
    pub fn has_frames(&self, ino: Ino, pages: Range<u64>) -> bool {
        let mut range = self.framed.range((ino, pages.start)..(ino, pages.end));
        range.next().is_some()
    }

    /// A file is removed, which is durable when a batch is.
    pub fn remove(&mut self, ino: Ino, batch: BatchId) {
        let frames = self.take_frames(ino, 0..u64::MAX);
        self.dying
            .extend(frames.into_iter().map(|frame| (batch, frame)));
        self.pending.remove(&ino);
        if let Some(tracked) = self.files.remove(&ino) {
            self.names.remove(&tracked.id);
            self.dax.forget(tracked.id);
        }
    }

    /// A file is cut to so many pages.
    pub fn truncate(&mut self, ino: Ino, pages: u64) {
        if let Some(tracked) = self.files.get(&ino) {
            self.dax.truncate(tracked.id, pages);
        }
    }

    /// Frames of removed files whose removal is durable.
    pub fn take_dead(&mut self, committed: BatchId) -> Vec<u32> {
        let dead = self.dying.extract_if(.., |(batch, _)| *batch <= committed);
        dead.map(|(_, frame)| frame).collect()
    }

    /// All frames in use.
    pub fn take_all(&mut self) -> Vec<u32> {
        let framed = core::mem::take(&mut self.framed);
        let dying = self.dying.drain(..).map(|(_, frame)| frame);
        framed
            .into_values()
            .map(|framed| framed.frame)
            .chain(dying)
            .collect()
    }
}

/// The lines of a page that bytes of it lie in.
fn lines(bytes: Range<u64>) -> u64 {
    let (first, last) = (bytes.start / LINE as u64, (bytes.end - 1) / LINE as u64);
    (u64::MAX >> (63 - last)) & (u64::MAX << first)
}

impl State {
    /// Bytes of a file were written to the cache.
    pub fn note_written(&mut self, ino: Ino, at: u64, size: u64, now: Time) {
        let Some(pmem) = &mut self.pmem else {
            return;
        };
        if size == 0 {
            return;
        }
        let (first, last) = (at / PAGE, (at + size - 1) / PAGE);
        let file = pmem.file(ino);
        pmem.dax.wrote(file, first, (last - first + 1) as u32, now);
        if let Some(tracked) = pmem.files.get_mut(&ino) {
            tracked.unsynced.extend(first..=last);
        }
        for ((_, page), framed) in pmem.framed.range_mut((ino, first)..=(ino, last)) {
            let begin = at.max(page * PAGE) - page * PAGE;
            let end = (at + size).min((page + 1) * PAGE) - page * PAGE;
            framed.lines |= lines(begin..end);
        }
    }

    /// Counts the pages that a sync of a file makes durable, and has them judged.
    pub fn note_synced(&mut self, ino: Ino, now: Time) {
        let Some(pmem) = &mut self.pmem else {
            return;
        };
        let file = pmem.file(ino);
        let Some(tracked) = pmem.files.get(&ino) else {
            return;
        };
        let mut pages = tracked.unsynced.iter().copied().peekable();
        while let Some(first) = pages.next() {
            let mut count = 1;
            while pages.next_if_eq(&(first + u64::from(count))).is_some() {
                count += 1;
            }
            pmem.dax.wrote_back(file, first, count, now);
        }
    }

    /// What makes everything durable that was written to a file, if the window alone can.
    pub fn stores_of_sync(&mut self, ino: Ino) -> Option<Stores> {
        let is_changed = |batch: BatchId| {
            let is_empty = batch == self.batch.id && self.batch.is_empty();
            batch > self.committed && !is_empty
        };
        let node = self.nodes.get(&ino)?;
        let pmem = self.pmem.as_mut()?;
        if pmem.pending.contains_key(&ino) || is_changed(node.batch) {
            return None;
        }
        let tracked = pmem.files.get(&ino)?;
        let spans = pmem.dax.spans(tracked.id);
        let mut lacking = Vec::new();
        for page in &tracked.unsynced {
            if node.dirty.contains(page) && !pmem.framed.contains_key(&(ino, *page)) {
                spans.find(*page)?;
                lacking.push(*page);
            }
        }
        if lacking.len() > pmem.free.len() {
            pmem.stats.without_room += 1;
            return None;
        }
        for page in lacking {
            let frame = pmem.free.pop()?;
            let framed = Framed {
                frame,
                lines: u64::MAX,
                len: None,
            };
            pmem.framed.insert((ino, page), framed);
        }
        pmem.stats.light_syncs += 1;
        self.stores_of_frames(ino)
    }

    /// What brings the frames of a file up to its pages.
    pub fn stores_of_frames(&mut self, ino: Ino) -> Option<Stores> {
        let node = self.nodes.get(&ino)?;
        let pmem = self.pmem.as_mut()?;
        let tracked = pmem.files.get_mut(&ino)?;
        let generation = tracked.generation?;
        let mut stores = Stores::default();
        let unsynced = core::mem::take(&mut tracked.unsynced);
        for at in unsynced {
            let Some(framed) = pmem.framed.get_mut(&(ino, at)) else {
                tracked.unsynced.insert(at);
                continue;
            };
            let Some(page) = node.pages.get(&at).filter(|_| framed.lines != 0) else {
                continue;
            };
            let mut line = 0;
            while line < LINES {
                let rest = framed.lines >> line;
                if rest & 1 == 0 {
                    line += 1;
                    continue;
                }
                let count = (rest.trailing_ones() as usize).min(LINES - line);
                let bytes = page.data[line * LINE..(line + count) * LINE].to_vec();
                let to = pmem.window.frame(framed.frame).get() + (line * LINE) as u64;
                stores.parts.push((ByteAddr::new(to), bytes));
                pmem.stats.lines += count as u64;
                line += count;
            }
            framed.lines = 0;
            stores.pages += 1;
            let len = node.size.saturating_sub(at * PAGE).min(PAGE) as u32;
            if framed.len != Some(len) {
                framed.len = Some(len);
                pmem.number += 1;
                let header = Header {
                    seed: self.hash_seed,
                    ino,
                    generation,
                    page: at,
                    len,
                    number: pmem.number,
                    written: node.written.map_or(0, |written| written.0 as u64),
                };
                let to = pmem.window.header(framed.frame);
                stores.headers.push((to, header.encode()));
            }
        }
        Some(stores)
    }

    /// Takes frames of pages whose place has the same, so that others may have them. Who takes
    /// frames of a file has passed its gate until their headers say so for good: a sync that came
    /// meanwhile and went to flash would be answered for, and undone by the older frame. Files
    /// whose gate another one has passed keep theirs; `mine` the caller has passed.
    pub fn reclaim_frames(&mut self, least: usize, mine: Option<Ino>) -> Reclaimed {
        let mut reclaimed = Reclaimed::default();
        let Some(pmem) = &mut self.pmem else {
            return reclaimed;
        };
        let Pmem {
            framed, pending, ..
        } = pmem;
        let most = least.max(RECLAIMED);
        let mut passed: FxHashMap<Ino, Option<Passed>> = FxHashMap::default();
        let mut keys = Vec::new();
        for ((ino, page), place) in &*framed {
            if keys.len() == most {
                break;
            }
            let Some(node) = self.nodes.get(ino) else {
                reclaimed.unknown.insert(*ino);
                continue;
            };
            let is_dirty = node.dirty.contains(page) || place.lines != 0;
            if is_dirty || pending.contains_key(ino) {
                continue;
            }
            let is_mine = mine == Some(*ino);
            let mut pass = || {
                passed
                    .entry(*ino)
                    .or_insert_with(|| node.gate.try_pass())
                    .is_some()
            };
            if is_mine || pass() {
                keys.push((*ino, *page));
            }
        }
        let taken = keys.into_iter().filter_map(|key| framed.remove(&key));
        reclaimed.frames = taken.map(|framed| framed.frame).collect();
        reclaimed.passed = passed.into_values().flatten().collect();
        reclaimed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Bytes;

    #[test]
    fn headers_and_frames_fit_into_the_window_and_do_not_overlap() {
        for kib in [0, 4, 8, 12, 64, 1000, 4096] {
            let shape = Shape {
                pmem: Bytes::from_kib(kib),
                ..Shape::plain(Bytes::from_mib(1), Bytes::from_kib(4))
            };
            let Some(window) = Window::of(&shape) else {
                assert!(kib <= 8, "{kib} KiB have room");
                continue;
            };
            let last = window.frames - 1;
            let begin = shape.capacity.get();
            assert_eq!(window.header(0).get(), begin);
            assert!(window.header(last).get() + 64 <= window.frame(0).get());
            let end = window.frame(last).get() + PAGE;
            assert!(end <= begin + shape.pmem.get(), "{kib} KiB");
            assert!(
                end + 2 * PAGE + 4096 > begin + shape.pmem.get(),
                "{kib} KiB"
            );
        }
    }

    #[test]
    fn a_header_is_read_back_by_its_file_system_alone() {
        let header = Header {
            seed: 7,
            ino: Ino(12),
            generation: 3,
            page: 1 << 33,
            len: 100,
            number: 99,
            written: 5,
        };
        let line = header.encode();
        assert_eq!(Header::decode(&line, 7), Some(header));
        assert_eq!(Header::decode(&line, 8), None);
        assert_eq!(Header::decode(&[0; LINE], 0), None, "nobody's");
        let mut torn = line;
        torn[20] ^= 1;
        assert_eq!(Header::decode(&torn, 7), None);
    }

    #[test]
    fn lines_are_those_that_bytes_lie_in() {
        assert_eq!(lines(0..1), 1);
        assert_eq!(lines(63..65), 3);
        assert_eq!(lines(0..4096), u64::MAX);
        assert_eq!(lines(4095..4096), 1 << 63);
    }
}
