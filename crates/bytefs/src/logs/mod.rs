//! A log for each inode, as in NOVA: a list of pages to which batches append what they change of
//! the inode and of its blocks of metadata. What counts of a log ends at its tail; a batch counts
//! when the tails of the logs that it has appended to have moved.
//!
//! Log 0 is nobody's: it has what is of no inode, and inodes that are none any more.

mod area;
mod group;
mod replay;

pub(crate) use area::{Area, ENTRIES, ENTRY, Place};
pub(crate) use group::{Change, LineNo, differing};
pub(crate) use replay::{record_head, record_lines, recover};

use crate::fs::address;
use crate::journal::Line;
use crate::layout::{BLOCK, LINE, get_u32, is_sealed, put_u32, seal};
use crate::{BlockNo, Ino};
use group::{PAGE_END, change_bytes};
use std::collections::{BTreeMap, BTreeSet};
use units::ByteAddr;

/// The log of what is of no inode.
pub(crate) const NOBODY: Ino = Ino::NONE;

const MAGIC: u32 = 0x674f_4c4e;

/// The line that says which logs count: those of this number.
pub(crate) fn head_line(epoch: u32) -> [u8; LINE] {
    let mut line = [0; LINE];
    put_u32(&mut line, 0, MAGIC);
    put_u32(&mut line, 4, epoch);
    seal(&mut line);
    line
}

/// What that line says, if it is one.
pub(crate) fn head_epoch(line: &[u8]) -> Option<u32> {
    let is_one = is_sealed(line) && get_u32(line, 0) == MAGIC;
    is_one.then(|| get_u32(line, 4)).filter(|epoch| *epoch > 0)
}

/// The number behind one; never that of a page of zeroes.
pub(crate) fn next_epoch(epoch: u32) -> u32 {
    epoch.wrapping_add(1).max(1)
}

/// Which words of which lines are to be said.
pub(crate) type Words = BTreeMap<LineNo, u8>;

/// A log.
#[derive(Default)]
struct Log {
    /// The first one first.
    pages: Vec<u32>,
    /// Bytes of the last page that count.
    used: usize,
    /// Those of its last line.
    open: Vec<u8>,
    /// What it says, of blocks that are metadata still.
    words: Words,
    /// Bytes that this takes, each word once.
    live: usize,
}

impl Log {
    fn place(&self) -> Option<Place> {
        let (first, last) = (self.pages.first()?, self.pages.last()?);
        Some(Place {
            head: *first,
            tail: (*last, self.used),
        })
    }

    fn bytes(&self) -> usize {
        (self.pages.len().saturating_sub(1)) * PAGE_END + self.used
    }

    fn has(&self, block: BlockNo) -> bool {
        self.words.range(lines_of(block)).next().is_some()
    }

    fn note(&mut self, change: &Change) {
        match change {
            Change::Revoked(block) => {
                let gone: Vec<LineNo> = self
                    .words
                    .range(lines_of(*block))
                    .map(|(at, _)| *at)
                    .collect();
                for at in gone {
                    self.live -= self.words.remove(&at).map_or(0, change_bytes);
                }
            }
            Change::Words(at, words, _) => {
                let known = self.words.entry(*at).or_insert(0);
                if *known != 0 {
                    self.live -= change_bytes(*known);
                }
                *known |= words;
                self.live += change_bytes(*known);
            }
        }
    }

    /// It needs another page, and less than half of it still says something: then it is written
    /// anew (NOVA's thorough garbage collection).
    fn is_to_be_cleaned(&self, more: usize) -> bool {
        !self.pages.is_empty() && more > PAGE_END - self.used && self.live * 2 < self.bytes()
    }
}

fn lines_of(block: BlockNo) -> std::ops::RangeInclusive<LineNo> {
    (block, 0)..=(block, u8::MAX)
}

/// What a batch says in one log.
#[derive(Default)]
pub(crate) struct Said {
    /// Blocks that are none of metadata any more.
    pub revoked: Vec<BlockNo>,
    pub words: Words,
}

/// All logs that count.
pub(crate) struct Logs {
    pub area: Area,
    /// Logs count whose entries have this number.
    pub epoch: u32,
    all: BTreeMap<Ino, Log>,
    free: BTreeSet<u32>,
}

/// A batch as it goes to logs.
pub(crate) struct Prepared {
    /// What is written behind tails, and counts when these have moved.
    pub lines: Vec<Line>,
    /// Lines of the table: which, what they are and what they are to be.
    pub table: Vec<(u32, [u8; LINE], [u8; LINE])>,
    grown: Vec<(Ino, Grown)>,
    dropped: Vec<Ino>,
    /// Logs that are written anew.
    pub cleaned: u64,
}

/// What becomes of a log.
struct Grown {
    is_anew: bool,
    pages: Vec<u32>,
    used: usize,
    open: Vec<u8>,
    changes: Vec<Change>,
}

impl Logs {
    /// None yet.
    pub fn new(area: Area, epoch: u32) -> Self {
        let free = (0..area.pages).collect();
        Self {
            area,
            epoch,
            all: BTreeMap::new(),
            free,
        }
    }

    /// Whether an inode has one.
    pub fn has(&self, ino: Ino) -> bool {
        self.all.contains_key(&ino)
    }

    /// Whether a log says something of a block.
    pub fn says_of(&self, ino: Ino, block: BlockNo) -> bool {
        self.all.get(&ino).is_some_and(|log| log.has(block))
    }

    /// What a log says.
    pub fn words(&self, ino: Ino) -> impl Iterator<Item = (LineNo, u8)> {
        let log = self.all.get(&ino).into_iter();
        log.flat_map(|log| log.words.iter().map(|(at, words)| (*at, *words)))
    }

    /// Every line of which some log says something.
    pub fn every_line(&self) -> BTreeSet<LineNo> {
        let logs = self.all.values();
        logs.flat_map(|log| log.words.keys().copied()).collect()
    }

    /// No log counts any more but those to come.
    pub fn empty(&mut self) {
        self.epoch = next_epoch(self.epoch);
        self.all.clear();
        self.free = (0..self.area.pages).collect();
    }

    /// Says where everything goes. None: there is no room for it.
    pub fn prepare(
        &mut self,
        batch: u32,
        said: BTreeMap<Ino, Said>,
        dropped: Vec<Ino>,
        value: &dyn Fn(LineNo) -> Option<[u8; LINE]>,
    ) -> Option<Prepared> {
        let mut prepared = Prepared {
            lines: Vec::new(),
            table: Vec::new(),
            grown: Vec::new(),
            dropped,
            cleaned: 0,
        };
        for (ino, said) in said {
            match self.grow(ino, said, batch, value, &mut prepared.lines) {
                Some(grown) => {
                    let is_old = grown.is_anew && self.has(ino);
                    prepared.cleaned += u64::from(is_old);
                    prepared.grown.push((ino, grown));
                }
                None => {
                    let taken = prepared
                        .grown
                        .into_iter()
                        .flat_map(|(_, grown)| grown.pages);
                    self.free.extend(taken);
                    return None;
                }
            }
        }
        prepared.table = self.table_lines(&prepared);
        Some(prepared)
    }

    fn grow(
        &mut self,
        ino: Ino,
        said: Said,
        batch: u32,
        value: &dyn Fn(LineNo) -> Option<[u8; LINE]>,
        lines: &mut Vec<Line>,
    ) -> Option<Grown> {
        let log = self.all.get(&ino);
        let more = said.words.values().map(|words| change_bytes(*words)).sum();
        let is_anew = log.is_none_or(|log| log.is_to_be_cleaned(more));
        let mut words = said.words;
        let mut changes = Vec::new();
        if is_anew {
            let old = log.into_iter().flat_map(|log| &log.words);
            for (at, old) in old.filter(|((block, _), _)| !said.revoked.contains(block)) {
                *words.entry(*at).or_default() |= old;
            }
        } else {
            changes.extend(said.revoked.into_iter().map(Change::Revoked));
        }
        for (at, words) in words {
            changes.push(Change::Words(at, words, value(at)?));
        }
        let start = log.filter(|_| !is_anew);
        let start = start.and_then(|log| Some((*log.pages.last()?, log.used, log.open.clone())));
        let mut writer = Writer {
            area: &self.area,
            page: start.as_ref().map(|(page, ..)| *page),
            used: start.as_ref().map_or(0, |(_, used, _)| *used),
            bytes: start.map(|(.., open)| open).unwrap_or_default(),
            pages: Vec::new(),
            lines,
        };
        let is_done = writer.append(&changes, (self.epoch, batch), &mut self.free);
        let Writer {
            pages, used, bytes, ..
        } = writer;
        if !is_done {
            self.free.extend(pages);
            return None;
        }
        Some(Grown {
            is_anew,
            pages,
            used,
            open: bytes,
            changes,
        })
    }

    /// Lines of the table that a batch changes.
    fn table_lines(&self, prepared: &Prepared) -> Vec<(u32, [u8; LINE], [u8; LINE])> {
        let mut places: BTreeMap<Ino, Option<Place>> = BTreeMap::new();
        for ino in prepared.dropped.iter().filter(|ino| self.has(**ino)) {
            places.insert(*ino, None);
        }
        for (ino, grown) in &prepared.grown {
            let old = self.all.get(ino).and_then(Log::place);
            let head = match (grown.is_anew, old) {
                (false, Some(old)) => Some(old.head),
                _ => grown.pages.first().copied(),
            };
            let last = grown.pages.last().copied().or(old.map(|old| old.tail.0));
            let place = head.zip(last).map(|(head, last)| Place {
                head,
                tail: (last, grown.used),
            });
            places.insert(*ino, place);
        }
        let numbers: BTreeSet<u32> = places.keys().map(|ino| ino.0 / ENTRIES).collect();
        let now = |ino: Ino| self.all.get(&ino).and_then(Log::place);
        let line = |number: u32, place: &dyn Fn(Ino) -> Option<Place>| {
            let mut line = [0; LINE];
            for (ino, entry) in (number * ENTRIES..).zip(line.chunks_exact_mut(ENTRY)) {
                if let Some(place) = place(Ino(ino)) {
                    entry.copy_from_slice(&place.encode(Ino(ino), self.epoch));
                }
            }
            line
        };
        let then = |ino: Ino| places.get(&ino).copied().unwrap_or_else(|| now(ino));
        let lines = numbers.into_iter();
        lines
            .map(|number| (number, line(number, &now), line(number, &then)))
            .collect()
    }

    /// It is durable.
    pub fn finish(&mut self, prepared: Prepared) {
        for ino in prepared.dropped {
            if let Some(old) = self.all.remove(&ino) {
                self.free.extend(old.pages);
            }
        }
        for (ino, grown) in prepared.grown {
            let log = self.all.entry(ino).or_default();
            if grown.is_anew {
                let old = core::mem::take(log);
                self.free.extend(old.pages);
            }
            log.pages.extend(grown.pages);
            (log.used, log.open) = (grown.used, grown.open);
            grown.changes.iter().for_each(|change| log.note(change));
        }
    }

    /// Pages that no log has.
    #[cfg(test)]
    fn free_pages(&self) -> usize {
        self.free.len()
    }
}

/// Appends to a log.
struct Writer<'a> {
    area: &'a Area,
    page: Option<u32>,
    used: usize,
    /// Bytes of the page from the line on in which the first of them was to come.
    bytes: Vec<u8>,
    /// Those that were taken.
    pages: Vec<u32>,
    lines: &'a mut Vec<Line>,
}

impl Writer<'_> {
    /// Says whether there was room.
    fn append(
        &mut self,
        mut changes: &[Change],
        number: (u32, u32),
        free: &mut BTreeSet<u32>,
    ) -> bool {
        while !changes.is_empty() {
            let room = match self.page {
                Some(_) => PAGE_END - self.used,
                None => 0,
            };
            if let Some((bytes, count)) = group::encode(changes, room, number) {
                self.used += bytes.len();
                self.bytes.extend(bytes);
                changes = &changes[count..];
                continue;
            }
            let Some(next) = free.pop_first() else {
                return false;
            };
            self.emit();
            if let Some(page) = self.page {
                let at = address(self.area.page(page)).get() + PAGE_END as u64;
                let link = group::link(next, self.used, number.0);
                self.lines.push((ByteAddr::new(at), link));
            }
            self.pages.push(next);
            self.page = Some(next);
            self.used = 0;
            self.bytes.clear();
        }
        self.emit();
        // The last line is written again with what comes next.
        let open = self.used % LINE;
        self.bytes.drain(..self.bytes.len() - open);
        true
    }

    fn emit(&mut self) {
        let Some(page) = self.page else { return };
        let begin = (self.used - self.bytes.len()) as u64;
        let at = address(self.area.page(page)).get() + begin;
        for (index, bytes) in self.bytes.chunks(LINE).enumerate() {
            let mut line = [0; LINE];
            line[..bytes.len()].copy_from_slice(bytes);
            let at = at + (index * LINE) as u64;
            self.lines.push((ByteAddr::new(at), line));
        }
        debug_assert!(self.used <= BLOCK - LINE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Personality, Superblock};
    use crate::{FormatOptions, Timestamp};

    fn logs(pages: u32) -> Logs {
        let superblock = Superblock {
            blocks: 2048,
            inodes: 200,
            journal: pages + 4,
            personality: Personality::NovaLike,
            is_clean: true,
            is_repairing: false,
            mounts: 0,
            uuid: FormatOptions::new(Personality::NovaLike).uuid,
            created: Timestamp(0),
            checkpoint: 0,
        };
        let area = Area::of(&superblock.geometry().unwrap()).unwrap();
        Logs::new(area, 1)
    }

    fn value(at: LineNo) -> Option<[u8; LINE]> {
        Some([at.1 + 1; LINE])
    }

    fn say(
        logs: &mut Logs,
        batch: u32,
        ino: u32,
        lines: &[(u32, u8)],
        words: u8,
    ) -> Option<Prepared> {
        let lines = lines
            .iter()
            .map(|(block, line)| ((BlockNo(*block), *line), words));
        let said = Said {
            revoked: Vec::new(),
            words: lines.collect(),
        };
        logs.prepare(batch, [(Ino(ino), said)].into(), Vec::new(), &value)
    }

    #[test]
    fn a_log_that_says_the_same_again_and_again_is_cleaned_and_gives_its_pages_back() {
        let mut logs = logs(40);
        let all = logs.free_pages();
        let mut cleaned = 0;
        for batch in 0..2000 {
            let prepared = say(&mut logs, batch, 7, &[(900, 3), (900, 4)], 0xff).unwrap();
            assert_eq!(prepared.table.len(), 1, "one line counts");
            cleaned += prepared.cleaned;
            logs.finish(prepared);
            assert!(logs.free_pages() >= all - 2);
        }
        assert!(cleaned > 20, "{cleaned}");
        assert_eq!(logs.every_line().len(), 2);
    }

    #[test]
    fn what_finds_no_room_takes_no_page() {
        let mut logs = logs(40);
        let all = logs.free_pages();
        let many: Vec<(u32, u8)> = (0..64 * 60)
            .map(|line| (900 + line / 64, line as u8 % 64))
            .collect();
        assert!(say(&mut logs, 1, 7, &many, 0xff).is_none());
        assert_eq!(logs.free_pages(), all);
    }

    #[test]
    fn tails_of_four_logs_are_in_one_line() {
        let mut logs = logs(40);
        let said = |ino: u32| {
            let words = [((BlockNo(900 + ino), 1), 1)].into();
            let revoked = Vec::new();
            (Ino(ino), Said { revoked, words })
        };
        let said = [4, 5, 7, 8].map(said).into();
        let prepared = logs.prepare(1, said, Vec::new(), &value).unwrap();
        let numbers: Vec<u32> = prepared.table.iter().map(|(number, ..)| *number).collect();
        assert_eq!(numbers, [1, 2]);
        logs.finish(prepared);
        let prepared = logs
            .prepare(2, BTreeMap::new(), vec![Ino(5)], &value)
            .unwrap();
        let (_, old, new) = prepared.table[0];
        let entry = |line: &[u8; LINE], ino: u32| {
            let at = (ino % ENTRIES) as usize * ENTRY;
            Place::decode(Ino(ino), &line[at..], 1, logs.area.pages).unwrap()
        };
        assert!(entry(&old, 5).is_some() && entry(&new, 5).is_none());
        assert_eq!(entry(&old, 7), entry(&new, 7));
    }
}
