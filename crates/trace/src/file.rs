//! An open capture: everything that is static, checked once.
//!
//! Opening reads the whole file into memory and verifies every checksum, every count and every
//! address, so that the cursors' path has no error to return.

use crate::chunk::{self, Column, StreamId};
use crate::container::{self, ChunkPlace, Footer, HEAD_BYTES, StreamInfo, VirtualPage};
use crate::cursor::ThreadCursor;
use crate::dictionary::Dictionary;
use crate::error::{Fault, TraceError};
use crate::inst::{Inst, InstId};
use crate::provenance::Provenance;
use crate::tally::Counts;
use crate::template::Templates;
use crate::translate::PageIndex;
use crate::wire::Wire;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use units::ThreadId;

/// A thread of the capture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Thread {
    /// Its number: threads are numbered in order of creation, from 0.
    pub id: ThreadId,
    /// The thread whose [`ThreadCreate`](crate::SyncEvent::ThreadCreate) starts it; `None` for a
    /// thread that runs from the start of the capture.
    pub parent: Option<ThreadId>,
    /// Instructions, each counted once.
    pub instructions: u64,
    /// Loads, accesses that read and write included.
    pub loads: u64,
    /// Stores, accesses that read and write included.
    pub stores: u64,
}

/// An open capture. Cloning is cheap: clones share one copy.
#[derive(Clone)]
pub struct TraceFile {
    pub(crate) shared: Arc<Shared>,
    pub(crate) index: Arc<PageIndex>,
}

pub(crate) struct ChunkEntry {
    pub(crate) place: ChunkPlace,
    pub(crate) columns: [Column; 4],
}

pub(crate) struct Shared {
    pub(crate) bytes: Vec<u8>,
    pub(crate) dictionary: Dictionary,
    pub(crate) templates: Templates,
    pub(crate) pages: Vec<VirtualPage>,
    pub(crate) chunks: Vec<Vec<ChunkEntry>>,
    pub(crate) streams: Vec<StreamInfo>,
    pub(crate) numbers: ThreadNumbers,
    threads: Vec<Thread>,
    provenance: Provenance,
}

impl TraceFile {
    /// Opens the capture at `path`.
    ///
    /// # Errors
    /// When it cannot be read, or is not a complete and undamaged capture of this version.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TraceError> {
        Self::open_unless(path, &mut || false)
    }
    /// As [`TraceFile::open`], but asks before each chunk whether to give up.
    ///
    /// # Errors
    /// As [`TraceFile::open`], and [`Fault::Interrupted`].
    pub fn open_unless(
        path: impl AsRef<Path>,
        gives_up: &mut dyn FnMut() -> bool,
    ) -> Result<Self, TraceError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let bytes = std::fs::read(path).map_err(|error| Fault::from(error).of(&name))?;
        Self::new(bytes, &name, gives_up)
    }
    /// Opens the capture in `bytes`; errors call it `name`.
    ///
    /// # Errors
    /// When it is not a complete and undamaged capture of this version.
    pub fn from_bytes(bytes: Vec<u8>, name: &str) -> Result<Self, TraceError> {
        Self::new(bytes, name, &mut || false)
    }

    fn new(
        bytes: Vec<u8>,
        name: &str,
        gives_up: &mut dyn FnMut() -> bool,
    ) -> Result<Self, TraceError> {
        let (shared, index) = Shared::new(bytes, gives_up).map_err(|fault| fault.of(name))?;
        Ok(Self {
            index,
            shared: Arc::new(shared),
        })
    }
    /// The threads, in order of their numbers.
    pub fn threads(&self) -> &[Thread] {
        &self.shared.threads
    }
    /// The pages touched, in order: position is the canonical page number (D9).
    pub fn pages(&self) -> &[VirtualPage] {
        &self.shared.pages
    }
    /// The same capture with canonical pages for whole 2 MiB: where it touched one page of 512 that
    /// begin at a multiple, there are all of them, so that cursors give other addresses.
    #[must_use]
    pub fn in_huge_pages(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            index: Arc::new(PageIndex::whole(&self.shared.pages)),
        }
    }
    /// Canonical pages: those touched, or those of the 2 MiB in which one was.
    pub fn page_count(&self) -> u64 {
        self.index.page_count()
    }
    /// The virtual page number of each canonical page.
    pub fn page_numbers(&self) -> Vec<u64> {
        self.index.page_numbers(&self.shared.pages)
    }
    /// The static instructions; [`InstId`] is the position.
    pub fn insts(&self) -> &[Inst] {
        &self.shared.dictionary.insts
    }
    /// A static instruction.
    #[inline]
    pub fn inst(&self, id: InstId) -> &Inst {
        &self.shared.dictionary.insts[id.index()]
    }
    /// The mnemonic of an instruction.
    pub fn mnemonic(&self, inst: &Inst) -> &str {
        &self.shared.dictionary.mnemonics[usize::from(inst.mnemonic)]
    }
    /// How the capture was made.
    pub fn provenance(&self) -> &Provenance {
        &self.shared.provenance
    }
    /// BLAKE3-free identity of the contents: CRC-32C over the whole file.
    pub fn checksum(&self) -> u32 {
        checksum::crc32c(&self.shared.bytes)
    }
    /// A cursor at the first instruction of `thread`, which must exist.
    pub fn cursor(&self, thread: ThreadId) -> ThreadCursor {
        ThreadCursor::new(self.clone(), thread)
    }
}

/// The number of each stream's thread.
pub(crate) type ThreadNumbers = BTreeMap<StreamId, ThreadId>;

impl Shared {
    fn new(
        bytes: Vec<u8>,
        gives_up: &mut dyn FnMut() -> bool,
    ) -> Result<(Self, Arc<PageIndex>), Fault> {
        let (footer, footer_start, lens) = container::open(&bytes)?;
        let Footer {
            dictionary,
            pages,
            streams,
            provenance,
        } = footer;
        let damaged = |part| Fault::Damaged {
            part,
            at: footer_start,
        };
        let numbers = number(&streams).ok_or_else(|| damaged("thread list"))?;
        let templates = Templates::new(&dictionary)?;
        let mut chunks: Vec<Vec<ChunkEntry>> = streams.iter().map(|_| Vec::new()).collect();
        let mut at = HEAD_BYTES as u64;
        for len in lens {
            let entry = read_chunk(&bytes, at, len, footer_start)?;
            at += u64::from(len);
            let thread = numbers.get(&entry.place.summary.stream);
            let thread = thread.ok_or_else(|| damaged("thread list"))?;
            add(&mut chunks[thread.index()], entry)?;
        }
        if at != footer_start {
            return Err(damaged("index"));
        }
        let threads = describe(&streams, &numbers, &chunks);
        let accesses = threads.iter().map(|thread| thread.loads + thread.stores);
        let mut wire = Wire::new(&pages, "page list", footer_start);
        let pages = container::pages_from_bytes(&mut wire, accesses.sum())?;
        let index = Arc::new(PageIndex::new(&pages));
        let mut counts = Counts::new(&dictionary, &templates, &index);
        for entry in chunks.iter().flatten() {
            if gives_up() {
                return Err(Fault::Interrupted);
            }
            counts.check(&bytes, entry)?;
        }
        let shared = Self {
            bytes,
            dictionary,
            templates,
            pages,
            chunks,
            streams,
            numbers,
            threads,
            provenance,
        };
        Ok((shared, index))
    }
}

/// The threads' numbers; `None` if a stream is there twice.
fn number(streams: &[StreamInfo]) -> Option<ThreadNumbers> {
    let numbered = streams.iter().enumerate();
    let numbers: ThreadNumbers = numbered
        .map(|(n, info)| (info.stream, ThreadId::from_index(n)))
        .collect();
    (numbers.len() == streams.len()).then_some(numbers)
}

fn read_chunk(bytes: &[u8], at: u64, len: u32, end: u64) -> Result<ChunkEntry, Fault> {
    let range = at as usize..(at + u64::from(len)).min(end) as usize;
    let (summary, columns) = chunk::check(&bytes[range], at)?;
    Ok(ChunkEntry {
        place: ChunkPlace {
            offset: at,
            len,
            summary,
        },
        columns,
    })
}

/// Adds a chunk to those of its thread, which it must continue.
fn add(chunks: &mut Vec<ChunkEntry>, entry: ChunkEntry) -> Result<(), Fault> {
    let place = &entry.place;
    let before = chunks.last().map_or(0, |last| {
        let summary = &last.place.summary;
        summary.first_instruction + u64::from(summary.instructions)
    });
    if place.summary.first_instruction != before {
        return Err(Fault::Count {
            what: "instructions before it",
            said: place.summary.first_instruction,
            found: before,
            at: place.offset,
        });
    }
    chunks.push(entry);
    Ok(())
}

fn describe(
    streams: &[StreamInfo],
    numbers: &ThreadNumbers,
    chunks: &[Vec<ChunkEntry>],
) -> Vec<Thread> {
    let describe_one = |(n, (info, chunks)): (usize, (&StreamInfo, &Vec<ChunkEntry>))| {
        let sum = |count: fn(&ChunkEntry) -> u32| chunks.iter().map(|c| u64::from(count(c))).sum();
        Thread {
            id: ThreadId::from_index(n),
            parent: info.parent.and_then(|parent| numbers.get(&parent).copied()),
            instructions: sum(|chunk| chunk.place.summary.instructions),
            loads: sum(|chunk| chunk.place.summary.loads),
            stores: sum(|chunk| chunk.place.summary.stores),
        }
    };
    streams
        .iter()
        .zip(chunks)
        .enumerate()
        .map(describe_one)
        .collect()
}
