//! The promotion look-aside buffer: pages on their way, and which of their lines have arrived
//! (SkyByte §III-C).
//!
//! A huge page moves chunk by chunk (§IV): an entry of the first level says which chunks have
//! arrived, its entry of the second level which lines of the chunk that is under way. A page of
//! 4 KiB is one chunk.

mod chunks;

use super::HostPage;
use chunks::ChunkMask;
use units::{LineInPage, LineMask, Lpa, PageSize};

units::ids! {
    /// A chunk of a page, by its place in it.
    Chunk, "chunk";
    /// An entry of the look-aside buffer.
    PlbIndex, "entry";
}

/// Which way a page is moving.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the device to host DRAM.
    Promotion,
    /// From host DRAM to the device.
    Demotion,
}

/// What became of a line's copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Copied {
    /// The destination has the newest bytes.
    Done,
    /// It has, and the chunk is complete: the next one is to be copied.
    ChunkDone,
    /// It was written at the source in the meantime and is to be copied again.
    Again,
}

/// A page on its way. The paper's entry has source, destination, the bitmap of migrated lines and
/// a valid bit, and for huge pages that of migrated chunks; the masks of lines under way stand for
/// what the copy engine has in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlbEntry {
    /// The page, by its first chunk.
    pub lpa: Lpa,
    pub host_page: HostPage,
    pub direction: Direction,
    /// Chunks whose newest bytes are at the destination.
    chunks: ChunkMask,
    /// The chunk under way, the last one when all are at the destination.
    chunk: Chunk,
    /// Its lines whose newest bytes are at the destination.
    migrated: LineMask,
    /// Its lines being copied.
    in_flight: LineMask,
    /// Its lines being copied that were written meanwhile.
    stale: LineMask,
    /// Whether a line was written in host DRAM during the migration.
    pub is_host_written: bool,
}

impl PlbEntry {
    /// Whether the newest bytes of a line are in host DRAM.
    #[inline]
    fn is_in_host(&self, chunk: Chunk, line: LineInPage) -> bool {
        let is_migrated = if chunk == self.chunk {
            self.migrated.contains(line)
        } else {
            self.chunks.contains(chunk)
        };
        is_migrated == (self.direction == Direction::Promotion)
    }
}

/// The buffer.
#[derive(Clone, Debug)]
pub(super) struct Plb {
    entries: Vec<Option<PlbEntry>>,
    free: Vec<PlbIndex>,
    all_lines: LineMask,
    /// Chunks in a page.
    chunk_count: u32,
    demotion_count: usize,
}

impl Plb {
    /// For pages of `chunk_count` chunks of size `chunk`.
    pub fn new(entry_count: u32, chunk: PageSize, chunk_count: u32) -> Self {
        Self {
            entries: vec![None; entry_count as usize],
            free: (0..entry_count).rev().map(PlbIndex::new).collect(),
            all_lines: LineMask::full(chunk),
            chunk_count,
            demotion_count: 0,
        }
    }

    pub fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Pages that move in `direction`.
    pub fn count_of(&self, direction: Direction) -> usize {
        match direction {
            Direction::Demotion => self.demotion_count,
            Direction::Promotion => self.entries.len() - self.free.len() - self.demotion_count,
        }
    }

    /// Pages on their way of which host DRAM has what the device has not.
    pub fn owed_count(&self) -> usize {
        let owed =
            |entry: &&PlbEntry| entry.direction == Direction::Demotion || entry.is_host_written;
        self.entries.iter().flatten().filter(owed).count()
    }

    /// Takes an entry, of which one is free, for a page of which this chunk is copied first.
    pub fn begin(
        &mut self,
        lpa: Lpa,
        chunk: Chunk,
        host_page: HostPage,
        direction: Direction,
    ) -> PlbIndex {
        let index = self.free.pop().expect("an entry is free");
        self.entries[index.index()] = Some(PlbEntry {
            lpa,
            host_page,
            direction,
            chunks: ChunkMask::EMPTY,
            chunk,
            migrated: LineMask::EMPTY,
            in_flight: LineMask::EMPTY,
            stale: LineMask::EMPTY,
            is_host_written: false,
        });
        self.demotion_count += usize::from(direction == Direction::Demotion);
        index
    }

    /// The host page, if the newest bytes of a line are there; else they are on the device.
    pub fn target(&self, index: PlbIndex, chunk: Chunk, line: LineInPage) -> Option<HostPage> {
        let entry = self.entry(index);
        entry.is_in_host(chunk, line).then_some(entry.host_page)
    }

    /// As `target`, for a write of the line. A copy that is under way is stale from now on.
    pub fn write(&mut self, index: PlbIndex, chunk: Chunk, line: LineInPage) -> Option<HostPage> {
        let target = self.target(index, chunk, line);
        let entry = self.entry_mut(index);
        entry.is_host_written |= target.is_some();
        if chunk == entry.chunk && entry.in_flight.contains(line) {
            entry.stale.insert(line);
        }
        target
    }

    /// Starts the copy of the first line, of the chunk under way, that is neither copied nor being
    /// copied.
    pub fn next_line(&mut self, index: PlbIndex) -> Option<(Chunk, LineInPage)> {
        let all_lines = self.all_lines;
        let entry = self.entry_mut(index);
        let rest = all_lines.without(entry.migrated.union(entry.in_flight));
        let line = rest.iter().next()?;
        entry.in_flight.insert(line);
        Some((entry.chunk, line))
    }

    /// Ends the copy of a line. With the last one of its chunk, the copy of the next chunk begins.
    pub fn line_copied(&mut self, index: PlbIndex, chunk: Chunk, line: LineInPage) -> Copied {
        let (all_lines, chunk_count) = (self.all_lines, self.chunk_count);
        let entry = self.entry_mut(index);
        assert_eq!(entry.chunk, chunk, "what arrives is of the chunk under way");
        assert!(entry.in_flight.remove(line), "a line that arrives was sent");
        if entry.stale.remove(line) {
            return Copied::Again;
        }
        entry.migrated.insert(line);
        if entry.migrated != all_lines {
            return Copied::Done;
        }
        entry.chunks.insert(chunk);
        let Some(next) = entry.chunks.first_absent(chunk_count) else {
            return Copied::Done;
        };
        entry.chunk = next;
        entry.migrated = LineMask::EMPTY;
        Copied::ChunkDone
    }

    /// Takes every line as copied; none is being copied.
    pub fn copy_at_once(&mut self, index: PlbIndex) {
        let (all_lines, chunk_count) = (self.all_lines, self.chunk_count);
        let entry = self.entry_mut(index);
        assert!(
            entry.in_flight.is_empty(),
            "no line of {} is being copied",
            entry.lpa
        );
        entry.migrated = all_lines;
        entry.chunks = ChunkMask::full(chunk_count);
    }

    /// Whether every line of the page is at its destination.
    pub fn is_copied(&self, index: PlbIndex) -> bool {
        self.entry(index).migrated == self.all_lines
    }

    /// Gives up the entry of a page whose lines have all been copied.
    pub fn finish(&mut self, index: PlbIndex, direction: Direction) -> PlbEntry {
        let entry = self.entries[index.index()]
            .take()
            .expect("a migration that ends has an entry");
        assert_eq!(entry.direction, direction, "{} moves that way", entry.lpa);
        assert_eq!(
            entry.migrated, self.all_lines,
            "all lines of {} are copied",
            entry.lpa
        );
        self.demotion_count -= usize::from(direction == Direction::Demotion);
        self.free.push(index);
        entry
    }

    /// Entries in use.
    pub fn live(&self) -> impl Iterator<Item = &PlbEntry> {
        self.entries.iter().flatten()
    }

    /// The host page of the entry, which is `lpa`'s.
    pub fn host_page(&self, index: PlbIndex, lpa: Lpa) -> HostPage {
        let entry = self.entry(index);
        assert_eq!(entry.lpa, lpa, "{index} is the entry of {lpa}");
        entry.host_page
    }

    /// Which way the entry's page moves.
    pub fn direction(&self, index: PlbIndex) -> Direction {
        self.entry(index).direction
    }

    /// Each entry is in use or free, once; a line is copied or being copied, not both; the chunk
    /// under way has not arrived, unless all have.
    pub fn audit(&self) {
        assert_eq!(
            self.live().count() + self.free.len(),
            self.entries.len(),
            "an entry is in use or free"
        );
        let demotions = self
            .live()
            .filter(|entry| entry.direction == Direction::Demotion);
        assert_eq!(
            demotions.count(),
            self.demotion_count,
            "demotions are counted"
        );
        for index in &self.free {
            assert!(
                self.entries[index.index()].is_none(),
                "{index} is free when listed"
            );
        }
        for entry in self.live() {
            let both = entry.in_flight.without(entry.migrated) != entry.in_flight;
            assert!(!both, "no line of {} is copied and being copied", entry.lpa);
            let are_all_copied = entry.migrated == self.all_lines;
            assert_eq!(
                entry.chunks.contains(entry.chunk),
                are_all_copied,
                "a chunk of {} is at its destination when its lines are",
                entry.lpa
            );
            let missing = entry.chunks.first_absent(self.chunk_count);
            assert_eq!(
                missing.is_none(),
                are_all_copied,
                "no chunk of it is forgotten"
            );
            assert!(
                entry.stale.without(entry.in_flight).is_empty(),
                "only what is being copied grows stale"
            );
        }
    }

    fn entry(&self, index: PlbIndex) -> &PlbEntry {
        self.entries[index.index()]
            .as_ref()
            .expect("a page on its way has an entry")
    }
    fn entry_mut(&mut self, index: PlbIndex) -> &mut PlbEntry {
        self.entries[index.index()]
            .as_mut()
            .expect("a page on its way has an entry")
    }
}
