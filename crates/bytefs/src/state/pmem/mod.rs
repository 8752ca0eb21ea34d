//! What the host knows of pages in the device's persistent memory (the window of the port).
//!
//! A page of an upgraded range has a *frame* in the window when it is synced: from then on the
//! frame has what the last sync has made durable, and the place of the page on flash something
//! that is not newer. A header of one line says whose the frame is; a header of zeroes says that it
//! is nobody's. The host's copy of the page stays in the page cache, and reads come from there.
//! Where the device's log is persistent memory instead ([`DaxAt::Log`]) there are no frames.

mod by_log;
mod reclaim;
mod refused;
mod view;
mod wanted;
mod window;

pub use by_log::DaxAt;
pub(crate) use reclaim::Reclaimed;
pub(crate) use refused::Refusals;
pub use refused::Refused;
pub use view::{DaxFile, DaxView, Lacked};
pub use wanted::DAX_ATTRIBUTE;
pub(crate) use wanted::{wanted_pages, whole_file};
pub(crate) use window::{Header, Window};

use super::State;
use crate::Ino;
use crate::layout::{BLOCK, LINE, LINES};
use crate::state::batch::BatchId;
use crate::state::pages::MANY_NODES;
use core::ops::Range;
use dax::{Dax, FileId, PolicyKind};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use units::{ByteAddr, Time};

const PAGE: u64 = BLOCK as u64;
/// A page that has a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Framed {
    pub frame: u32,
    /// Lines that the frame has not as they are.
    pub lines: u64,
    /// What its header says of its bytes; none before there is one.
    pub len: Option<u32>,
    /// A program asks for the page.
    pub is_requested: bool,
}

/// A file of which something is tracked.
#[derive(Debug)]
struct Tracked {
    id: FileId,
    /// Known once its inode was looked at, and what its attribute asks for.
    generation: Option<u32>,
    /// Pages that were written and neither synced nor written back since, and whether a sync that
    /// is under way has counted them.
    unsynced: BTreeMap<u64, bool>,
    /// A size that syncs by the window have made durable: the file's own is not smaller.
    durable: u64,
    /// The last batch with its inode or with lines or blocks of its pages.
    batch: BatchId,
}

/// What syncs of files have had of the window.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PmemStats {
    /// Syncs of something that was written which the window has answered alone.
    pub light_syncs: u64,
    /// Syncs of files in persistent memory that had to take the usual way for want of frames.
    pub without_room: u64,
    /// Lines stored in frames, or in the log by light syncs.
    pub lines: u64,
    /// Frames that were in use at a time, at most.
    pub most_frames: u64,
    /// Pages found in the window at the mount, and brought back.
    pub recovered: u64,
}

/// Everything that is known of the window.
pub(crate) struct Pmem {
    pub dax: Dax,
    /// What is persistent memory. If it is the log, there are no frames, and of what follows only
    /// files, write-backs and what was refused are in use.
    pub at: DaxAt,
    pub window: Window,
    pub free: Vec<u32>,
    framed: BTreeMap<(Ino, u64), Framed>,
    files: FxHashMap<Ino, Tracked>,
    /// How many there may be before those are forgotten of which nothing is known.
    pub most_files: usize,
    names: FxHashMap<FileId, Ino>,
    /// Frames of files that are removed: free when that is durable.
    dying: Vec<(BatchId, u32)>,
    /// Files with pages that were written back and may not be durable yet, and since when.
    pending: FxHashMap<Ino, u64>,
    /// Write-backs so far.
    pub mark: u64,
    number: u64,
    /// Frames of pages that programs have asked for.
    requested: usize,
    /// The last sync that found no frames.
    lacked: Option<Lacked>,
    pub refused: Refusals,
    pub stats: PmemStats,
}

/// What a sync stores in the window: contents, and behind them headers.
#[derive(Default)]
pub(crate) struct Stores {
    pub parts: Vec<(ByteAddr, Vec<u8>)>,
    pub headers: Vec<(ByteAddr, [u8; LINE])>,
    /// Headers that make the file longer than it is known to be, in the order of their pages. Each
    /// is durable before the next one, or a later page could bring zeroes in place of an earlier.
    pub growing: Vec<(ByteAddr, [u8; LINE])>,
    pub pages: u64,
    /// The size of the file that is durable when all of it is.
    pub size: u64,
    /// Something was written to the file.
    pub has_work: bool,
}

/// What frames are brought up to their pages for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Renewal {
    /// A sync: then the file is durable as it is.
    Sync,
    /// Pages of the file will be written back: it does not become longer before they are.
    WriteBack,
}

impl Pmem {
    pub fn new(dax: Dax, at: DaxAt, window: Window) -> Self {
        Self {
            dax,
            at,
            window,
            free: (0..window.frames).rev().collect(),
            framed: BTreeMap::new(),
            files: FxHashMap::default(),
            most_files: MANY_NODES,
            names: FxHashMap::default(),
            dying: Vec::new(),
            pending: FxHashMap::default(),
            mark: 0,
            number: 0,
            requested: 0,
            lacked: None,
            refused: Refusals::default(),
            stats: PmemStats::default(),
        }
    }

    fn file(&mut self, ino: Ino) -> FileId {
        if let Some(tracked) = self.files.get(&ino) {
            return tracked.id;
        }
        let id = self.dax.open_as(ino.0.into());
        let tracked = Tracked {
            id,
            generation: None,
            unsynced: BTreeMap::new(),
            durable: 0,
            batch: BatchId(0),
        };
        self.files.insert(ino, tracked);
        self.names.insert(id, ino);
        id
    }

    /// Forgets files that nobody uses and of which nothing is known, once there are many. The next
    /// sync of one is its first, and takes the usual way.
    pub fn shrink(&mut self, is_used: impl Fn(Ino) -> bool) {
        if self.files.len() <= self.most_files {
            return;
        }
        let (dax, framed, pending) = (&mut self.dax, &self.framed, &self.pending);
        // What is asked for of all files is so again when one is looked at.
        let is_always = dax.settings().kind == PolicyKind::Always;
        let names = &mut self.names;
        self.files.retain(|ino, tracked| {
            let mut frames = framed.range((*ino, 0)..(*ino, u64::MAX));
            let is_idle = tracked.unsynced.is_empty()
                && !pending.contains_key(ino)
                && frames.next().is_none()
                && !dax.has_ranges(tracked.id)
                && (is_always || dax.spans(tracked.id).is_empty());
            if is_used(*ino) || !is_idle {
                return true;
            }
            names.remove(&tracked.id);
            dax.forget(tracked.id);
            false
        });
        self.most_files = MANY_NODES.max(2 * self.files.len());
    }

    /// The number of a file's inode.
    pub fn name(&self, file: FileId) -> Option<Ino> {
        self.names.get(&file).copied()
    }

    /// Whether it must be told the generation of an inode, and what its attribute asks for.
    pub fn lacks_generation(&self, ino: Ino) -> bool {
        let tracked = self.files.get(&ino);
        tracked.is_some_and(|tracked| tracked.generation.is_none())
    }

    /// An inode was looked at.
    pub fn set_generation(&mut self, ino: Ino, generation: u32, wanted: &[Range<u64>]) {
        if let Some(tracked) = self.files.get_mut(&ino) {
            tracked.generation = Some(generation);
            self.want_pages(ino, wanted);
        }
    }

    /// Programs ask for these pages of a file and for no others; gives those that nobody wants
    /// there any more.
    pub fn want_pages(&mut self, ino: Ino, wanted: &[Range<u64>]) -> Vec<Range<u64>> {
        let file = self.file(ino);
        let gone = self.dax.unmap(file, 0..u64::MAX);
        for pages in wanted {
            self.dax.map(file, pages.clone());
        }
        let spans = self.dax.spans(file);
        for ((_, page), framed) in self.framed.range_mut((ino, 0)..(ino, u64::MAX)) {
            self.requested -= usize::from(framed.is_requested);
            framed.is_requested = spans.find(*page).is_some_and(|span| span.is_requested);
            self.requested += usize::from(framed.is_requested);
        }
        let is_wanted = |pages: &Range<u64>| {
            spans
                .iter()
                .any(|span| span.pages.start <= pages.start && pages.end <= span.pages.end)
        };
        gone.into_iter().filter(|pages| !is_wanted(pages)).collect()
    }

    /// Files of which something is kept.
    #[cfg(test)]
    pub fn tracked(&self) -> usize {
        self.files.len()
    }

    /// Frames in use, those of removed files among them until the removal is durable.
    pub fn used(&self) -> usize {
        self.framed.len() + self.dying.len()
    }

    /// A batch has the inode of a file, or something of its pages.
    pub fn note_batch(&mut self, ino: Ino, batch: BatchId) {
        if let Some(tracked) = self.files.get_mut(&ino) {
            tracked.batch = batch;
        }
    }

    /// Pages of a file are changed by something else than a write, or written back. It is said when
    /// that begins, and again when the device has answered for all of it and the running batch has
    /// the rest: a flush that came between has made none of it durable.
    pub fn begin_write_back(&mut self, ino: Ino) {
        self.mark += 1;
        self.pending.insert(ino, self.mark);
    }

    /// Bytes of a file, one at least, are others in the cache than the window and flash have. The
    /// next sync of a file of which nothing is known yet takes the usual way.
    pub fn change(&mut self, ino: Ino, at: u64, size: u64) {
        let (first, last) = (at / PAGE, (at + size - 1) / PAGE);
        if let Some(tracked) = self.files.get_mut(&ino) {
            for page in first..=last {
                tracked.unsynced.entry(page).or_default();
            }
        }
        for ((_, page), framed) in self.framed.range_mut((ino, first)..=(ino, last)) {
            let begin = at.max(page * PAGE) - page * PAGE;
            let end = (at + size).min((page + 1) * PAGE) - page * PAGE;
            framed.lines |= lines(begin..end);
        }
    }

    /// These pages are written back.
    pub fn take_pages(&mut self, ino: Ino, pages: &[u64]) {
        if let Some(tracked) = self.files.get_mut(&ino) {
            for page in pages {
                tracked.unsynced.remove(page);
            }
        }
    }

    /// These pages are dropped: what was written to them counts for nothing.
    pub fn drop_pages(&mut self, ino: Ino, pages: Range<u64>) {
        if let Some(tracked) = self.files.get_mut(&ino) {
            let dropped = tracked.unsynced.extract_if(pages, |_, _| true);
            dropped.for_each(drop);
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
    pub fn take_frames(&mut self, ino: Ino, pages: Range<u64>, whose: Whose) -> Vec<u32> {
        let framed = self.framed.range((ino, pages.start)..(ino, pages.end));
        let keys: Vec<_> = framed
            .filter(|(_, framed)| whose == Whose::All || !framed.is_requested)
            .map(|(key, _)| *key)
            .collect();
        keys.into_iter()
            .filter_map(|key| self.unframe(key))
            .collect()
    }

    /// Takes the frame of a page.
    fn unframe(&mut self, key: (Ino, u64)) -> Option<u32> {
        let framed = self.framed.remove(&key)?;
        self.requested -= usize::from(framed.is_requested);
        Some(framed.frame)
    }

    /// Whether a page of these has a frame.
    pub fn has_frames(&self, ino: Ino, pages: Range<u64>) -> bool {
        let mut range = self.framed.range((ino, pages.start)..(ino, pages.end));
        range.next().is_some()
    }

    /// A file is removed, which is durable when a batch is. Says whether it has had frames.
    pub fn remove(&mut self, ino: Ino, batch: BatchId) -> bool {
        let frames = self.take_frames(ino, 0..u64::MAX, Whose::All);
        let has_frames = !frames.is_empty();
        self.dying
            .extend(frames.into_iter().map(|frame| (batch, frame)));
        self.pending.remove(&ino);
        if let Some(tracked) = self.files.remove(&ino) {
            self.names.remove(&tracked.id);
            self.dax.forget(tracked.id);
        }
        has_frames
    }

    /// A file is cut to so many pages.
    pub fn truncate(&mut self, ino: Ino, pages: u64) {
        if let Some(tracked) = self.files.get_mut(&ino) {
            self.dax.truncate(tracked.id, pages);
            tracked.durable = tracked.durable.min(pages.saturating_sub(1) * PAGE);
        }
    }

    /// A sync by the window has made a file durable with this size.
    pub fn set_durable(&mut self, ino: Ino, size: u64) {
        if let Some(tracked) = self.files.get_mut(&ino) {
            tracked.durable = size;
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
        self.requested = 0;
        let dying = self.dying.drain(..).map(|(_, frame)| frame);
        framed
            .into_values()
            .map(|framed| framed.frame)
            .chain(dying)
            .collect()
    }
}

/// Which frames of pages are taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Whose {
    All,
    /// Those that no program has asked for.
    Policy,
}

/// Pages that follow each other: the first, and how many.
fn runs(pages: impl Iterator<Item = u64>) -> impl Iterator<Item = (u64, u32)> {
    let mut pages = pages.peekable();
    core::iter::from_fn(move || {
        let first = pages.next()?;
        let mut count = 1;
        while pages.next_if_eq(&(first + u64::from(count))).is_some() {
            count += 1;
        }
        Some((first, count))
    })
}

/// The lines of a page that bytes of it lie in.
fn lines(bytes: Range<u64>) -> u64 {
    let (first, last) = (bytes.start / LINE as u64, (bytes.end - 1) / LINE as u64);
    (u64::MAX >> (63 - last)) & (u64::MAX << first)
}

impl State {
    /// Whether a page of a file has a frame.
    pub fn has_frames(&self, ino: Ino) -> bool {
        let pmem = self.pmem.as_ref();
        pmem.is_some_and(|pmem| pmem.has_frames(ino, 0..u64::MAX))
    }

    /// So many blocks were reserved for pages of a file that goes. It may come back with what its
    /// frames have, and needs its room then: nobody gets it before the removal is durable.
    pub fn keep_until_durable(&mut self, blocks: u32) {
        self.reserved += blocks;
        self.pending_free += blocks;
        self.batch.keep(blocks);
    }

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
        pmem.change(ino, at, size);
    }

    /// Counts the pages that a sync of a file makes durable, and has them judged. A page that two
    /// syncs write back at once is written back once. What a sync takes the usual way for whatever
    /// the window has, an upgrade would not help.
    pub fn note_synced(&mut self, ino: Ino, data_only: bool, now: Time) {
        let Some(pmem) = &mut self.pmem else {
            return;
        };
        let file = pmem.file(ino);
        let may_be_light = data_only || pmem.at == DaxAt::Log;
        let Some(tracked) = pmem.files.get_mut(&ino) else {
            return;
        };
        let new = tracked.unsynced.iter_mut();
        let new = new.filter_map(|(page, counted)| {
            let is_new = !core::mem::replace(counted, true);
            is_new.then_some(*page)
        });
        for (first, count) in runs(new) {
            match may_be_light {
                true => pmem.dax.wrote_back(file, first, count, now),
                false => pmem.dax.wrote_back_usually(file, first, count, now),
            }
        }
    }

    /// Pages that must get frames for the window alone to make everything durable that was written
    /// to a file, and whether programs have asked for them; None: it cannot.
    pub fn lacking(&self, ino: Ino) -> Option<Vec<(u64, bool)>> {
        let is_changed = |batch: BatchId| {
            let is_empty = batch == self.batch.id && self.batch.is_empty();
            batch > self.committed && !is_empty
        };
        let node = self.nodes.get(&ino)?;
        let pmem = self.pmem.as_ref()?;
        let tracked = pmem.files.get(&ino)?;
        if pmem.pending.contains_key(&ino) || is_changed(tracked.batch) {
            return None;
        }
        let spans = pmem.dax.spans(tracked.id);
        let mut lacking = Vec::new();
        for page in tracked.unsynced.keys() {
            if node.dirty.contains(*page) && !pmem.framed.contains_key(&(ino, *page)) {
                let span = spans.find(*page)?;
                lacking.push((*page, span.is_requested));
            }
        }
        Some(lacking)
    }

    /// What makes everything durable that was written to a file, if the window alone can.
    pub fn stores_of_sync(&mut self, ino: Ino, now: Time) -> Option<Stores> {
        let lacking = self.lacking(ino)?;
        let pmem = self.pmem.as_mut()?;
        if !pmem.has_room(&lacking) {
            pmem.stats.without_room += 1;
            pmem.lacked = Some(Lacked {
                at: now,
                ino,
                page: lacking.first()?.0,
                frames: lacking.len(),
                free: pmem.free.len(),
                kept: pmem.kept_for(&lacking),
            });
            return None;
        }
        for (page, is_requested) in lacking {
            let frame = pmem.free.pop()?;
            let framed = Framed {
                frame,
                lines: u64::MAX,
                len: None,
                is_requested,
            };
            pmem.requested += usize::from(is_requested);
            pmem.framed.insert((ino, page), framed);
        }
        pmem.stats.most_frames = pmem.stats.most_frames.max(pmem.used() as u64);
        if let Some(tracked) = pmem.files.get(&ino) {
            // One that has nothing to do is answered by nobody's memory.
            pmem.stats.light_syncs += u64::from(!tracked.unsynced.is_empty());
            for (first, count) in runs(tracked.unsynced.keys().copied()) {
                pmem.dax.served(tracked.id, first, count);
            }
        }
        self.stores_of_frames(ino, Renewal::Sync)
    }

    /// What brings the frames of a file up to its pages, before these are written back.
    pub fn stores_of_write_back(&mut self, ino: Ino) -> Option<Stores> {
        self.stores_of_frames(ino, Renewal::WriteBack)
    }

    fn stores_of_frames(&mut self, ino: Ino, renewal: Renewal) -> Option<Stores> {
        let node = self.nodes.get(&ino)?;
        let pmem = self.pmem.as_mut()?;
        let tracked = pmem.files.get_mut(&ino)?;
        let generation = tracked.generation?;
        let mut stores = Stores {
            size: node.size,
            has_work: !tracked.unsynced.is_empty(),
            ..Stores::default()
        };
        let unsynced = core::mem::take(&mut tracked.unsynced);
        for (at, is_counted) in unsynced {
            let Some(framed) = pmem.framed.get_mut(&(ino, at)) else {
                tracked.unsynced.insert(at, is_counted);
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
            // The bytes behind what the header says come with the page that is written back.
            let is_longer = framed.len.is_none_or(|before| before < len);
            if framed.len != Some(len) && !(is_longer && renewal == Renewal::WriteBack) {
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
                match at * PAGE + u64::from(len) <= tracked.durable {
                    true => stores.headers.push((to, header.encode())),
                    false => stores.growing.push((to, header.encode())),
                }
            }
        }
        Some(stores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_that_bytes_lie_in() {
        assert_eq!(lines(0..1), 1);
        assert_eq!(lines(63..65), 3);
        assert_eq!(lines(0..4096), u64::MAX);
        assert_eq!(lines(4095..4096), 1 << 63);
    }
}
