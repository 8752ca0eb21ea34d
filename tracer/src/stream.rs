//! One thread's stream: raw words in, chunks out.

use crate::frame;
use crate::tables::{BlockFacts, Tables, VariantFacts};
use crate::word;
use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use trace::AccessKind;
use trace::chunk::{ChunkSummary, RawSync, StreamEncoder, StreamId};
use trace::dictionary::Access;

/// Blocks of a chunk. Large enough that what a chunk must learn anew costs little.
const CHUNK_BLOCKS: u32 = trace::chunk::MOST_BLOCKS;
/// Smallest piece that an emulator makes of a vector access.
const PIECE: u8 = 8;
/// Entries of the filter in front of the page set.
const FILTER: usize = 256;

/// A finished chunk.
pub type Chunk = (Vec<u8>, ChunkSummary);

/// Which instructions of a run of words are recorded: leave out `skip`, record `record`, leave
/// out the rest. Cut at whole blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Instructions left out first.
    pub skip: u64,
    /// Instructions recorded then.
    pub record: u64,
}

impl Window {
    /// Everything.
    pub const ALL: Self = Self {
        skip: 0,
        record: u64::MAX,
    };
    /// Nothing.
    pub const NONE: Self = Self {
        skip: u64::MAX,
        record: 0,
    };

    /// Whether the next block, of `instructions`, is recorded.
    fn admits(&mut self, instructions: u64) -> bool {
        if self.skip > 0 {
            self.skip = self.skip.saturating_sub(instructions);
            return false;
        }
        let admitted = self.record > 0;
        self.record = self.record.saturating_sub(instructions);
        admitted
    }
}

/// A sync event and the raw word before which it happened.
struct Pending {
    before: usize,
    event: RawSync,
}

/// What the recorder knows of one thread.
pub struct Stream {
    encoder: StreamEncoder,
    /// For each translated block, the variant it had last.
    recent: Vec<Option<Arc<VariantFacts>>>,
    facts: Vec<BlockFacts>,
    previous: Option<BlockFacts>,
    accesses: Vec<Access>,
    addresses: Vec<u64>,
    pending: VecDeque<Pending>,
    filter: Box<[u64; FILTER]>,
    /// Pages touched.
    pub pages: HashSet<u64, FxBuildHasher>,
    /// Wakes that are in the chunks.
    pub wakes: Vec<u32>,
    /// Threads whose creation is in the chunks.
    pub created: Vec<StreamId>,
    /// Whether any chunk was finished.
    pub has_chunks: bool,
}

impl Stream {
    /// An empty stream.
    pub fn new(id: StreamId) -> Self {
        Self {
            encoder: StreamEncoder::new(id),
            recent: Vec::new(),
            facts: Vec::new(),
            previous: None,
            accesses: Vec::new(),
            addresses: Vec::new(),
            pending: VecDeque::new(),
            filter: Box::new([u64::MAX; FILTER]),
            pages: HashSet::default(),
            wakes: Vec::new(),
            created: Vec::new(),
            has_chunks: false,
        }
    }
    /// The stream's number.
    pub fn id(&self) -> StreamId {
        self.encoder.summary().stream
    }
    /// Notes an event that happened after `before` raw words that are not yet encoded; without any
    /// the block that made the call is gone already, and the event with it.
    pub fn note(&mut self, before: usize, event: RawSync) {
        if before > 0 {
            self.pending.push_back(Pending { before, event });
        }
    }
    /// Encodes `words` as far as blocks are complete and gives the number used; the rest comes
    /// again with the next call. With `complete` the last block has made all its accesses.
    pub fn encode(
        &mut self,
        words: &[u64],
        complete: bool,
        mut window: Window,
        tables: &Mutex<Tables>,
        mut emit: impl FnMut(Chunk),
    ) -> usize {
        // Accesses before the first block belong to a block that was cut off.
        let mut at = words
            .iter()
            .take_while(|word| !word::is_block(**word))
            .count();
        while at < words.len() {
            let accesses = words[at + 1..]
                .iter()
                .take_while(|word| !word::is_block(**word));
            let end = at + 1 + accesses.count();
            if end == words.len() && !complete {
                break;
            }
            let recorded = window.admits(word::instructions(words[at]));
            if recorded {
                self.block(word::block_number(words[at]), &words[at + 1..end], tables);
            } else {
                self.previous = None;
            }
            self.settle_events(end, recorded);
            let repeating = self.previous.is_some_and(|facts| facts.repeats);
            if self.encoder.summary().blocks >= CHUNK_BLOCKS && !repeating {
                self.finish_chunk(&mut emit);
            }
            at = end;
        }
        for pending in &mut self.pending {
            pending.before = pending.before.saturating_sub(at);
        }
        at
    }
    /// Ends the open chunk, if there is one.
    pub fn finish_chunk(&mut self, emit: &mut impl FnMut(Chunk)) {
        let mut bytes = Vec::new();
        if let Some(summary) = self.encoder.finish(&mut bytes) {
            self.has_chunks = true;
            emit((bytes, summary));
        }
    }

    /// Attaches or drops the events that happened before word `end`. A system call has one event.
    fn settle_events(&mut self, end: usize, recorded: bool) {
        let mut attached = false;
        while self
            .pending
            .front()
            .is_some_and(|pending| pending.before <= end)
        {
            let event = self.pending.pop_front().expect("there is a first").event;
            if !recorded || attached {
                continue;
            }
            attached = true;
            self.encoder.sync(self.encoder.summary().blocks - 1, event);
            match event {
                RawSync::Wake(_, count) => self.wakes.push(count),
                RawSync::Create(child) => self.created.push(child),
                _ => {}
            }
        }
    }

    fn block(&mut self, number: u32, words: &[u64], tables: &Mutex<Tables>) {
        self.gather(words);
        let index = number as usize;
        if index >= self.facts.len() {
            self.learn_blocks(index, tables);
        }
        let recent = &mut self.recent[index];
        let same = recent
            .as_ref()
            .filter(|variant| variant.accesses == self.accesses);
        let variant = match same {
            Some(variant) => variant,
            None => {
                let mut tables = tables.lock().expect("no thread panicked");
                keep_own(&mut self.accesses, &mut self.addresses, &tables, number);
                &*recent.insert(tables.variant(number, &self.accesses))
            }
        };
        self.encoder
            .block(variant.id, variant.first_slot, &self.addresses);
        let facts = self.facts[index];
        // A repeated string operation runs as one block per iteration and counts once.
        let again = self
            .previous
            .is_some_and(|p| p.repeats && p.last_pc == facts.pc);
        let instructions = facts.instructions - u32::from(again);
        self.encoder
            .count(instructions, variant.loads, variant.stores);
        self.previous = Some(facts);
        self.touch();
    }

    fn learn_blocks(&mut self, index: usize, tables: &Mutex<Tables>) {
        let tables = tables.lock().expect("no thread panicked");
        for number in self.facts.len()..=index {
            self.facts.push(tables.block(number as u32));
            self.recent.push(None);
        }
    }

    /// Collects a block's accesses, joining the pieces of wide ones and the two halves of
    /// read-modify-writes.
    fn gather(&mut self, words: &[u64]) {
        self.accesses.clear();
        self.addresses.clear();
        for word in words {
            let Some((inst, kind, bytes, addr)) = word::parts(*word) else {
                continue;
            };
            if let (Some(last), Some(start)) = (self.accesses.last_mut(), self.addresses.last()) {
                if last.inst > inst {
                    continue;
                }
                if last.inst == inst && joins(last, *start, kind, bytes, addr) {
                    continue;
                }
            }
            self.accesses.push(Access { inst, kind, bytes });
            self.addresses.push(addr);
        }
    }

    /// Adds the pages of the accesses gathered.
    #[inline]
    fn touch(&mut self) {
        for (access, start) in self.accesses.iter().zip(&self.addresses) {
            let (first, last) = (start >> 12, (start + u64::from(access.bytes) - 1) >> 12);
            add_page(&mut self.pages, &mut self.filter, first);
            if last != first {
                add_page(&mut self.pages, &mut self.filter, last);
            }
        }
    }
}

#[inline]
fn add_page(pages: &mut HashSet<u64, FxBuildHasher>, filter: &mut [u64; FILTER], page: u64) {
    let known = &mut filter[page as usize % FILTER];
    if *known != page {
        *known = page;
        pages.insert(page);
    }
}

/// Leaves out a signal's frame, and the accesses that block `number` cannot have made.
fn keep_own(accesses: &mut Vec<Access>, addresses: &mut Vec<u64>, tables: &Tables, number: u32) {
    let saves = |inst| tables.saves_state(number, inst);
    let mut kept = 0;
    for at in 0..frame::own(accesses, addresses, saves) {
        if tables.belongs(number, accesses[at]) {
            accesses[kept] = accesses[at];
            addresses[kept] = addresses[at];
            kept += 1;
        }
    }
    accesses.truncate(kept);
    addresses.truncate(kept);
}

/// Whether an access is part of the one before, of the same instruction; extends that if so.
fn joins(last: &mut Access, start: u64, kind: AccessKind, bytes: u8, addr: u64) -> bool {
    let continues = last.kind == kind && bytes >= PIECE && last.bytes + bytes <= 64;
    if continues && addr == start + u64::from(last.bytes) {
        last.bytes += bytes;
        return true;
    }
    let updates = last.kind == AccessKind::Load && kind == AccessKind::Store;
    if updates && addr == start && bytes == last.bytes {
        last.kind = AccessKind::Update;
        return true;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::{Inst, OpClass};

    fn tables() -> Mutex<Tables> {
        let mut tables = Tables::default();
        for n in 0..3_u64 {
            let inst = |k: u64| {
                (
                    Inst::new(OpClass::Move, 0x1000 + n * 0x100 + k * 4, 4).with_memory(true, true),
                    "mov".into(),
                )
            };
            tables.add(vec![n as u8], (0..4).map(inst).collect());
        }
        let string = Inst::new(OpClass::Move, 0x2000, 2).repeated();
        tables.add(vec![9], vec![(string, "movsb".into())]);
        Mutex::new(tables)
    }

    fn load(inst: usize, shift: u32, addr: u64) -> u64 {
        word::access(1 << 16 | shift << 4, addr, word::origin(0, inst))
    }

    fn store(inst: usize, shift: u32, addr: u64) -> u64 {
        word::access(2 << 16 | shift << 4, addr, word::origin(0, inst))
    }

    fn gathered(words: &[u64]) -> Vec<(AccessKind, u8, u64)> {
        let mut stream = Stream::new(StreamId(0));
        stream.gather(words);
        let both = stream.accesses.iter().zip(&stream.addresses);
        both.map(|(access, addr)| (access.kind, access.bytes, *addr))
            .collect()
    }

    #[test]
    fn pieces_of_a_vector_access_are_one_access() {
        let words: Vec<_> = (0..4).map(|n| load(1, 3, 0x100 + n * 8)).collect();
        assert_eq!(gathered(&words), [(AccessKind::Load, 32, 0x100)]);
        let apart = [load(1, 3, 0x100), load(1, 3, 0x110)];
        assert_eq!(gathered(&apart).len(), 2, "a gather's loads stay apart");
        let other = [load(1, 3, 0x100), load(2, 3, 0x108)];
        assert_eq!(
            gathered(&other).len(),
            2,
            "another instruction's load stays apart"
        );
    }

    #[test]
    fn a_load_and_a_store_of_the_same_bytes_are_an_update() {
        assert_eq!(
            gathered(&[load(0, 2, 0x40), store(0, 2, 0x40)]),
            [(AccessKind::Update, 4, 0x40)]
        );
        assert_eq!(gathered(&[load(0, 2, 0x40), store(0, 2, 0x44)]).len(), 2);
    }

    #[test]
    fn an_access_across_pages_touches_both() {
        let mut stream = Stream::new(StreamId(0));
        stream.gather(&[load(0, 3, 0x1ffc)]);
        stream.touch();
        assert!(stream.pages.contains(&1) && stream.pages.contains(&2));
    }

    fn encode(stream: &mut Stream, words: &[u64], complete: bool, window: Window) -> usize {
        stream.encode(words, complete, window, &tables(), |_| {
            panic!("no chunk is full")
        })
    }

    #[test]
    fn a_block_waits_for_its_accesses() {
        let mut stream = Stream::new(StreamId(0));
        let words = [
            word::block(0, 4),
            load(0, 3, 8),
            word::block(1, 4),
            load(1, 3, 16),
        ];
        assert_eq!(encode(&mut stream, &words, false, Window::ALL), 2);
        assert_eq!(stream.encoder.summary().instructions, 4);
        assert_eq!(encode(&mut stream, &words[2..], true, Window::ALL), 2);
        assert_eq!(stream.encoder.summary().loads, 2);
    }

    #[test]
    fn an_access_that_the_block_did_not_make_is_left_out() {
        let mut tables = Tables::default();
        let loads = Inst::new(OpClass::Move, 0x1000, 4).with_memory(true, false);
        let plain = Inst::new(OpClass::IntAlu, 0x1004, 2);
        let call = Inst::new(OpClass::IndirectCall, 0x1006, 2).with_memory(false, true);
        let insts = [loads, plain, call].map(|inst| (inst, "x".into()));
        tables.add(vec![1], insts.to_vec());
        let mut stream = Stream::new(StreamId(0));
        let words = [
            word::block(0, 3),
            load(0, 3, 0x40),
            store(0, 3, 0x80),
            store(1, 3, 0xc0),
            store(2, 3, 0x100),
            load(8, 3, 0x140),
            store(2, 1, 0x1180),
            store(2, 1, 0x1182),
            store(2, 1, 0x1184),
            store(2, 3, 0x1188),
            store(2, 3, 0x11a0),
        ];
        stream.encode(&words, true, Window::ALL, &Mutex::new(tables), |_| {});
        assert_eq!(
            (stream.addresses.as_slice(), stream.accesses.len()),
            (&[0x40, 0x100][..], 2)
        );
        let summary = stream.encoder.summary();
        assert_eq!((summary.loads, summary.stores), (1, 1));
        assert!(stream.pages.contains(&0) && !stream.pages.contains(&1));
    }

    #[test]
    fn a_window_records_its_instructions_only() {
        let mut stream = Stream::new(StreamId(0));
        let words = [word::block(0, 4); 10];
        encode(
            &mut stream,
            &words,
            true,
            Window {
                skip: 8,
                record: 12,
            },
        );
        assert_eq!(stream.encoder.summary().instructions, 12);
        encode(&mut stream, &words, true, Window::NONE);
        assert_eq!(stream.encoder.summary().instructions, 12);
    }

    #[test]
    fn iterations_of_a_string_operation_count_once() {
        let mut stream = Stream::new(StreamId(0));
        let words = [3, 3, 3, 0, 3].map(|number| word::block(number, 1));
        encode(&mut stream, &words, true, Window::ALL);
        assert_eq!(stream.encoder.summary().instructions, 1 + 4 + 1);
    }

    #[test]
    fn an_event_goes_to_the_block_that_made_the_call() {
        let mut stream = Stream::new(StreamId(0));
        stream.note(1, RawSync::Wake(0, 1));
        stream.note(2, RawSync::Create(StreamId(1)));
        encode(
            &mut stream,
            &[word::block(0, 4), word::block(1, 4)],
            true,
            Window::ALL,
        );
        assert_eq!(
            (stream.wakes.as_slice(), stream.created.as_slice()),
            (&[1][..], &[StreamId(1)][..])
        );
        stream.note(1, RawSync::Wake(0, 2));
        encode(&mut stream, &[word::block(0, 4)], true, Window::NONE);
        assert_eq!(stream.wakes, [1], "outside the window nothing is recorded");
    }
}
