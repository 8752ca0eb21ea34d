//! A thread's instructions in order, with a window to go back in.
//!
//! The cursor decodes ahead into a ring. Squashing a thread is going back to an earlier position
//! (D12): free of cost, as far as [`ThreadCursor::REWIND`] pieces. After construction nothing is
//! allocated except when a chunk is larger than all before.

use crate::chunk::{ADDRESSES, RUNS, RawSync, SURPRISES, SYNC, StreamId, take_sync};
use crate::columns::Columns;
use crate::dynamic::{DurationClass, DynInst, FutexId, SyncEvent, Wake};
use crate::error::{Fault, TraceError};
use crate::file::{Shared, TraceFile};
use crate::predictor::{AddressPredictor, FlowPredictor};
use crate::template::{Holes, TemplateStep, VariantShape};
use crate::translate::Translator;
use crate::wire::{Wire, unzigzag};
use std::sync::Arc;
use units::ThreadId;

const RING: usize = 2048;
const MASK: usize = RING - 1;
/// Pieces decoded at a time.
const BATCH: usize = 128;

/// One thread's pieces, in order. Positions count pieces from 0.
#[derive(Clone)]
pub struct ThreadCursor {
    next: u64,
    decoded: u64,
    ring: Box<[DynInst; RING]>,
    file: TraceFile,
    decoder: Decoder,
}

impl ThreadCursor {
    /// How far back [`ThreadCursor::rewind_to`] reaches at least.
    pub const REWIND: u64 = 1024;

    pub(crate) fn new(file: TraceFile, thread: ThreadId) -> Self {
        let ring = vec![DynInst::plain(0); RING].into_boxed_slice();
        let ring = ring.try_into().expect("the ring has that many pieces");
        let decoder = Decoder::new(&file, thread);
        Self {
            next: 0,
            decoded: 0,
            ring,
            file,
            decoder,
        }
    }
    /// The piece at the cursor; `None` at the thread's end.
    #[inline]
    pub fn peek(&mut self) -> Option<&DynInst> {
        if self.next == self.decoded && !self.refill() {
            return None;
        }
        Some(&self.ring[self.next as usize & MASK])
    }
    /// Moves on by one piece; only after [`ThreadCursor::peek`] gave one.
    #[inline]
    pub fn advance(&mut self) {
        debug_assert!(
            self.next < self.decoded,
            "only a piece that was seen is passed"
        );
        self.next += 1;
    }
    /// The piece at the cursor, moving past it.
    #[inline]
    pub fn take(&mut self) -> Option<DynInst> {
        let piece = *self.peek()?;
        self.next += 1;
        Some(piece)
    }
    /// Pieces passed: the position of the piece that [`ThreadCursor::peek`] gives.
    #[inline]
    pub fn position(&self) -> u64 {
        self.next
    }
    /// Goes back to `position`, at most [`ThreadCursor::REWIND`] before the furthest position
    /// ever peeked at.
    #[inline]
    pub fn rewind_to(&mut self, position: u64) {
        let oldest = self.decoded.saturating_sub(RING as u64);
        assert!(
            (oldest..=self.next).contains(&position),
            "the position is still in the ring"
        );
        self.next = position;
    }
    /// The thread.
    pub fn thread(&self) -> ThreadId {
        self.decoder.thread
    }
    /// Goes to the first block whose instructions begin at or after `instruction`, reading no
    /// chunk before the one that holds it. Positions count from there on.
    pub fn seek(&mut self, instruction: u64) {
        let mut seen = self.decoder.seek(&self.file.shared, instruction);
        (self.next, self.decoded) = (0, 0);
        while seen < instruction {
            match self.take() {
                Some(piece) => seen += u64::from(piece.counts()),
                None => return,
            }
        }
    }
    /// What ended the thread early, if something did: nothing, for opening has checked it all.
    pub fn error(&self) -> Option<TraceError> {
        self.decoder.fault.clone().map(|fault| fault.of("capture"))
    }

    #[cold]
    #[inline(never)]
    fn refill(&mut self) -> bool {
        let start = self.decoded;
        while (self.decoded - start) < BATCH as u64 {
            // A piece of the next batch never overwrites the last REWIND ones.
            let room = RING - Self::REWIND as usize - (self.decoded - start) as usize;
            let wrote = self
                .decoder
                .decode(&self.file.shared, &mut self.ring, self.decoded, room);
            if wrote == 0 {
                break;
            }
            self.decoded += wrote as u64;
        }
        self.decoded > start
    }
}

/// Adds the instructions of `thread` to the counts of their blocks, without decoding addresses.
/// Asks at the end of each chunk whether to give up.
pub(crate) fn count_blocks(
    file: &TraceFile,
    thread: ThreadId,
    counts: &mut [u64],
    gives_up: &mut dyn FnMut() -> bool,
) -> Result<(), Fault> {
    let shared = &*file.shared;
    let mut decoder = Decoder::new(file, thread);
    while let Some(variant) = decoder.block {
        if decoder.blocks_left == 0 && gives_up() {
            return Err(Fault::Interrupted);
        }
        decoder.open_next_block(shared);
        let shape = &shared.templates.shapes[variant as usize];
        let next = decoder
            .block
            .map(|next| shared.templates.shapes[next as usize].pc);
        let continues = shape.repeats && next == Some(shape.last_pc);
        let block = shared.dictionary.variants[variant as usize].block as usize;
        let instructions = shared.dictionary.blocks[block].count - u32::from(continues);
        counts[block] += u64::from(instructions);
    }
    decoder.fault.map_or(Ok(()), Err)
}

#[derive(Clone)]
struct Decoder {
    thread: ThreadId,
    fault: Option<Fault>,
    columns: Columns,
    flow: FlowPredictor,
    addresses: AddressPredictor,
    translator: Translator,
    /// The chunk to load next, and blocks of the loaded one not yet begun.
    next_chunk: usize,
    blocks_left: u32,
    foreseen_left: u64,
    /// The open block, and the piece to copy next.
    block: Option<u32>,
    piece: u32,
    slot: u32,
    /// Blocks until the next sync event, counted from the open block; `None` without events.
    sync_in: Option<(u32, SyncEvent)>,
}

impl Decoder {
    fn new(file: &TraceFile, thread: ThreadId) -> Self {
        let mut this = Self {
            thread,
            fault: None,
            columns: Columns::default(),
            flow: FlowPredictor::new(),
            addresses: AddressPredictor::new(),
            translator: Translator::new(Arc::clone(&file.index)),
            next_chunk: 0,
            blocks_left: 0,
            foreseen_left: 0,
            block: None,
            piece: 0,
            slot: 0,
            sync_in: None,
        };
        this.open_next_block(&file.shared);
        this
    }

    /// Begins at the chunk that holds `instruction`; the number of instructions before that chunk.
    fn seek(&mut self, shared: &Shared, instruction: u64) -> u64 {
        let chunks = &shared.chunks[self.thread.index()];
        let after = chunks.partition_point(|c| c.place.summary.first_instruction <= instruction);
        self.next_chunk = after.saturating_sub(1);
        let first = chunks
            .get(self.next_chunk)
            .map_or(0, |c| c.place.summary.first_instruction);
        self.blocks_left = 0;
        self.sync_in = None;
        self.open_next_block(shared);
        first
    }

    /// Copies up to `room` pieces of the open block into the ring from position `at`; when the
    /// block ends, opens the next and settles what its last piece needs to know of it.
    fn decode(
        &mut self,
        shared: &Shared,
        ring: &mut [DynInst; RING],
        at: u64,
        room: usize,
    ) -> usize {
        let Some(block) = self.block else { return 0 };
        let shape = shared.templates.shapes[block as usize];
        let end = shape.pieces.1.min(self.piece + room as u32);
        let count = (end - self.piece) as usize;
        for (n, piece) in shared.templates.pieces[self.piece as usize..end as usize]
            .iter()
            .enumerate()
        {
            match self.fill(piece) {
                Some(dynamic) => ring[(at as usize + n) & MASK] = dynamic,
                None => return self.fail(n),
            }
        }
        self.piece = end;
        if end == shape.pieces.1 {
            self.settle(shared, &shape, &mut ring[(at as usize + count - 1) & MASK]);
        }
        count
    }

    /// Opens the next block and tells the `last` piece of this one what depends on it.
    #[inline]
    fn settle(&mut self, shared: &Shared, shape: &VariantShape, last: &mut DynInst) {
        let event = self.due_event(shared);
        self.open_next_block(shared);
        let next = self
            .block
            .map(|next| shared.templates.shapes[next as usize].pc);
        if shape.conditional && next.is_some_and(|pc| pc != shape.fallthrough) {
            last.flags |= DynInst::TAKEN;
        }
        if shape.repeats && next == Some(shape.last_pc) {
            last.flags &= !DynInst::COUNTS;
        }
        match event {
            Some(event) if last.load_bytes | last.store_bytes == 0 => last.set_sync(event),
            Some(_) => {
                self.fail(0);
            }
            None => {}
        }
    }

    #[inline]
    fn fill(&mut self, piece: &TemplateStep) -> Option<DynInst> {
        let mut dynamic = piece.dynamic;
        match piece.holes {
            Holes::None => {}
            Holes::Load => dynamic.first = self.address()?,
            Holes::Store => dynamic.second = self.address()?,
            Holes::LoadStore => {
                dynamic.first = self.address()?;
                dynamic.second = self.address()?;
            }
            Holes::Update => {
                dynamic.first = self.address()?;
                dynamic.second = dynamic.first;
            }
        }
        Some(dynamic)
    }

    /// The canonical address of the next access.
    #[inline]
    fn address(&mut self) -> Option<u64> {
        let residual = unzigzag(self.columns.varint(ADDRESSES)?);
        let addr = self.addresses.address(self.slot as usize, residual);
        self.slot += 1;
        self.translator.translate(addr)
    }

    /// The open block's sync event, if it has one.
    fn due_event(&mut self, shared: &Shared) -> Option<SyncEvent> {
        let (0, event) = self.sync_in? else {
            return None;
        };
        self.sync_in = None;
        self.read_event(shared);
        Some(event)
    }

    fn open_next_block(&mut self, shared: &Shared) {
        if self.blocks_left == 0 && !self.load_chunk(shared) {
            self.block = None;
            return;
        }
        self.blocks_left -= 1;
        let variant = self.next_variant();
        let shapes = &shared.templates.shapes;
        self.block = variant.filter(|v| (*v as usize) < shapes.len());
        let Some(variant) = self.block else {
            self.fail(0);
            return;
        };
        self.piece = shapes[variant as usize].pieces.0;
        self.slot = shapes[variant as usize].first_slot;
        self.flow.learn(variant);
        if let Some((blocks, _)) = &mut self.sync_in {
            *blocks = blocks.saturating_sub(1);
        }
    }

    fn next_variant(&mut self) -> Option<u32> {
        if self.foreseen_left > 0 {
            self.foreseen_left -= 1;
            return Some(self.flow.expected());
        }
        let variant = u32::try_from(self.columns.varint(SURPRISES)?).ok()?;
        self.foreseen_left = self.columns.varint(RUNS).unwrap_or(u64::MAX);
        Some(variant)
    }

    /// Loads the next chunk; false when there is none.
    fn load_chunk(&mut self, shared: &Shared) -> bool {
        let Some(entry) = shared.chunks[self.thread.index()].get(self.next_chunk) else {
            return false;
        };
        self.next_chunk += 1;
        if !self.columns.load(&shared.bytes, entry) {
            self.fail(0);
            return false;
        }
        self.flow.reset();
        self.addresses.reset(shared.templates.slots);
        self.blocks_left = entry.place.summary.blocks;
        self.foreseen_left = self.columns.varint(RUNS).unwrap_or(u64::MAX);
        self.read_event(shared);
        if let Some((blocks, _)) = &mut self.sync_in {
            *blocks += 1;
        }
        true
    }

    /// Reads the next sync event of the chunk.
    fn read_event(&mut self, shared: &Shared) {
        self.sync_in = None;
        let rest = &self.columns.bytes[SYNC][self.columns.at[SYNC]..];
        if rest.is_empty() {
            return;
        }
        let mut wire = Wire::new(rest, "instruction stream", 0);
        match take_sync(&mut wire) {
            Ok((gap, raw)) => {
                self.columns.at[SYNC] += wire.position();
                self.sync_in = Some((gap, resolve(shared, self.thread, raw)));
            }
            Err(_) => {
                self.fail(0);
            }
        }
    }

    /// Ends the thread here, after `wrote` pieces.
    fn fail(&mut self, wrote: usize) -> usize {
        self.block = None;
        self.blocks_left = 0;
        self.next_chunk = usize::MAX;
        self.fault = Some(Fault::Damaged {
            part: "instruction stream",
            at: 0,
        });
        wrote
    }
}

/// The event in terms of the file's threads; what points outside the file becomes a plain call.
fn resolve(shared: &Shared, own: ThreadId, raw: RawSync) -> SyncEvent {
    let thread = |stream: StreamId| shared.numbers.get(&stream).copied();
    let count = |thread: ThreadId, wake: u32| {
        let at = shared.streams[thread.index()]
            .wakes
            .binary_search(&wake)
            .ok()?;
        Some(at as u32 + 1)
    };
    let plain = |number| SyncEvent::Syscall {
        number,
        duration: DurationClass::from_log2(0),
    };
    match raw {
        RawSync::Create(child) => {
            thread(child).map_or(plain(56), |child| SyncEvent::ThreadCreate { child })
        }
        RawSync::Exit => SyncEvent::ThreadExit,
        RawSync::Join(child) => thread(child).map_or(plain(202), |child| SyncEvent::Join { child }),
        RawSync::Wake(futex, wake) => {
            count(own, wake).map_or(plain(202), |count| SyncEvent::FutexWake {
                futex: FutexId::new(futex),
                count,
            })
        }
        RawSync::Wait(futex, by) => {
            let woken_by = by.and_then(|(stream, wake)| {
                let thread = thread(stream)?;
                Some(Wake {
                    thread,
                    count: count(thread, wake)?,
                })
            });
            SyncEvent::FutexWait {
                futex: FutexId::new(futex),
                woken_by,
            }
        }
        RawSync::Syscall(number, log2) => SyncEvent::Syscall {
            number,
            duration: DurationClass::from_log2(log2),
        },
    }
}
