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
use crate::template::{Holes, Templates};
use crate::translate::Translator;
use crate::wire::{Wire, unzigzag};
use std::sync::Arc;
use units::ThreadId;

const RING: usize = 2048;
const MASK: usize = RING - 1;
/// Pieces decoded at a time.
const BATCH: usize = 128;
/// Pieces of a block that has room behind any part of a batch.
const SHORT: usize = 512;
/// Blocks until a sync event, if there is none.
const NEVER: u32 = u32::MAX;

/// One thread's pieces, in order. Positions count pieces from 0.
#[derive(Clone)]
pub struct ThreadCursor {
    next: u64,
    decoded: u64,
    ring: Box<[DynInst; RING]>,
    file: TraceFile,
    decoder: Decoder,
    /// Bytes of an access that are seen.
    most_bytes: u8,
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
            most_bytes: u8::MAX,
        }
    }
    /// The same cursor, whose addresses lie so many pages further: those of a capture that is not
    /// the first one of a run. Nothing has been read yet.
    #[must_use]
    pub fn placed_behind(mut self, pages: u64) -> Self {
        self.decoder.translator.place_behind(pages);
        self
    }
    /// The same cursor, of whose sync events only creation and exit of threads are seen. Nothing
    /// has been read yet.
    #[must_use]
    pub fn ignoring_edges(mut self) -> Self {
        self.decoder.ignores_edges = true;
        self
    }
    /// The same cursor, of whose accesses only the first byte is seen, and so one line. Nothing has
    /// been read yet.
    #[must_use]
    pub fn in_one_line(self) -> Self {
        Self {
            most_bytes: 1,
            ..self
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
        let shared = &*self.file.shared;
        self.decoded = self.decoder.decode(shared, &mut self.ring, start);
        if self.most_bytes < u8::MAX {
            self.shorten(start);
        }
        self.decoded > start
    }

    /// Of accesses from the piece at `start` on, some bytes are not seen.
    #[cold]
    fn shorten(&mut self, start: u64) {
        for position in start..self.decoded {
            let piece = &mut self.ring[position as usize & MASK];
            piece.load_bytes = piece.load_bytes.min(self.most_bytes);
            piece.store_bytes = piece.store_bytes.min(self.most_bytes);
        }
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
    /// The next sync event of the chunk, if it has one, and the blocks until then, counted from the
    /// open block.
    event: Option<SyncEvent>,
    sync_after: u32,
    /// Of sync events only beginnings and ends of threads are seen.
    ignores_edges: bool,
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
            event: None,
            sync_after: NEVER,
            ignores_edges: false,
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
        (self.event, self.sync_after) = (None, NEVER);
        self.open_next_block(shared);
        first
    }

    /// Copies a batch of pieces into the ring from position `start` on: the rest of the open block
    /// and those that follow. Gives the position behind them, which is `start` at the thread's end.
    fn decode(&mut self, shared: &Shared, ring: &mut [DynInst; RING], start: u64) -> u64 {
        let Templates { pieces, shapes, .. } = &shared.templates;
        let mut at = start;
        while at - start < BATCH as u64
            && let Some(block) = self.decode_foreseen(&shared.templates, ring, &mut at, start)
        {
            let shape = &shapes[block as usize];
            // A piece of the batch never overwrites the last REWIND ones before it.
            let room = (RING - ThreadCursor::REWIND as usize) as u64 - (at - start);
            let end = shape.pieces.1.min(self.piece + room as u32);
            for step in &pieces[self.piece as usize..end as usize] {
                let place = &mut ring[at as usize & MASK];
                *place = step.dynamic;
                if step.holes != Holes::None && self.fill(step.holes, place).is_none() {
                    self.fail();
                    return at;
                }
                at += 1;
            }
            self.piece = end;
            if end == shape.pieces.1 {
                let last = &mut ring[(at - 1) as usize & MASK];
                if self.sync_after == 0 {
                    self.attach_event(shared, last);
                }
                self.open_next_block(shared);
                if let Some(next) = self.block.filter(|_| shape.asks_next) {
                    shape.settle(&shapes[next as usize], last);
                }
            }
        }
        at
    }

    /// As [`Decoder::decode`], while whole blocks come as foreseen and without events: what is
    /// counted down to something else is counted once for all of them. Gives the block that is then
    /// open.
    #[inline(always)]
    fn decode_foreseen(
        &mut self,
        templates: &Templates,
        ring: &mut [DynInst; RING],
        at: &mut u64,
        start: u64,
    ) -> Option<u32> {
        let Templates { pieces, shapes, .. } = templates;
        let mut block = self.block?;
        let mut shape = &shapes[block as usize];
        let left = self.foreseen_left.min(self.blocks_left.into());
        let most = match self.piece == shape.pieces.0 {
            true => left.min(self.sync_after.into()) as u32,
            false => 0,
        };
        let mut closed = 0;
        let mut path = self.flow.path();
        while closed < most && *at - start < BATCH as u64 {
            let variant = self.flow.expected_on(path);
            let steps = &pieces[shape.pieces.0 as usize..shape.pieces.1 as usize];
            let Some(next) = shapes
                .get(variant as usize)
                .filter(|_| steps.len() <= SHORT)
            else {
                break;
            };
            self.slot = shape.first_slot;
            for step in steps {
                let place = &mut ring[*at as usize & MASK];
                *place = step.dynamic;
                if step.holes != Holes::None && self.fill(step.holes, place).is_none() {
                    self.fail();
                    return None;
                }
                *at += 1;
            }
            if shape.asks_next {
                shape.settle(next, &mut ring[(*at - 1) as usize & MASK]);
            }
            path.take(variant);
            (block, shape) = (variant, next);
            closed += 1;
        }
        if closed > 0 {
            self.block = Some(block);
            (self.piece, self.slot) = (shape.pieces.0, shape.first_slot);
            self.blocks_left -= closed;
            self.sync_after -= closed;
            self.foreseen_left -= u64::from(closed);
            self.flow.go_on(path);
        }
        Some(block)
    }

    /// Fills a piece's addresses in; `None` if the chunk has none for it.
    #[inline(always)]
    fn fill(&mut self, holes: Holes, piece: &mut DynInst) -> Option<()> {
        match holes {
            Holes::None => {}
            Holes::Load => piece.first = self.address()?,
            Holes::Store => piece.second = self.address()?,
            Holes::LoadStore => {
                piece.first = self.address()?;
                piece.second = self.address()?;
            }
            Holes::Update => {
                piece.first = self.address()?;
                piece.second = piece.first;
            }
        }
        Some(())
    }

    /// The canonical address of the next access.
    #[inline]
    fn address(&mut self) -> Option<u64> {
        let residual = unzigzag(self.columns.varint(ADDRESSES)?);
        let addr = self.addresses.address(self.slot as usize, residual);
        self.slot += 1;
        self.translator.translate(addr)
    }

    /// The `last` piece of the open block gets the block's sync event, if it has one.
    #[cold]
    fn attach_event(&mut self, shared: &Shared, last: &mut DynInst) {
        let Some(event) = self.event else {
            self.sync_after = NEVER;
            return;
        };
        self.read_event(shared);
        if last.load_bytes | last.store_bytes != 0 {
            self.fail();
        } else if !(self.ignores_edges && is_edge(event)) {
            last.set_sync(event);
        }
    }

    #[inline(always)]
    fn open_next_block(&mut self, shared: &Shared) {
        if self.blocks_left == 0 && !self.load_chunk(shared) {
            self.block = None;
            return;
        }
        self.blocks_left -= 1;
        let variant = if self.foreseen_left > 0 {
            self.foreseen_left -= 1;
            Some(self.flow.expected())
        } else {
            self.surprise()
        };
        let shapes = &shared.templates.shapes;
        let Some((variant, shape)) =
            variant.and_then(|variant| Some((variant, shapes.get(variant as usize)?)))
        else {
            return self.fail();
        };
        self.block = Some(variant);
        self.piece = shape.pieces.0;
        self.slot = shape.first_slot;
        self.flow.learn(variant);
        self.sync_after = self.sync_after.saturating_sub(1);
    }

    /// The variant that was not foreseen.
    fn surprise(&mut self) -> Option<u32> {
        let variant = u32::try_from(self.columns.varint(SURPRISES)?).ok()?;
        self.foreseen_left = self.columns.varint(RUNS).unwrap_or(u64::MAX);
        Some(variant)
    }

    /// Loads the next chunk; false when there is none.
    #[cold]
    #[inline(never)]
    fn load_chunk(&mut self, shared: &Shared) -> bool {
        let Some(entry) = shared.chunks[self.thread.index()].get(self.next_chunk) else {
            return false;
        };
        self.next_chunk += 1;
        if !self.columns.load(&shared.bytes, entry) {
            self.fail();
            return false;
        }
        self.flow.reset();
        self.addresses.reset(shared.templates.slots);
        self.blocks_left = entry.place.summary.blocks;
        self.foreseen_left = self.columns.varint(RUNS).unwrap_or(u64::MAX);
        self.read_event(shared);
        self.sync_after = self.sync_after.saturating_add(1);
        true
    }

    /// Reads the next sync event of the chunk.
    fn read_event(&mut self, shared: &Shared) {
        (self.event, self.sync_after) = (None, NEVER);
        let rest = &self.columns.bytes[SYNC][self.columns.at[SYNC]..];
        if rest.is_empty() {
            return;
        }
        let mut wire = Wire::new(rest, "instruction stream", 0);
        match take_sync(&mut wire) {
            Ok((gap, raw)) => {
                self.columns.at[SYNC] += wire.position();
                self.event = Some(resolve(shared, self.thread, raw));
                self.sync_after = gap;
            }
            Err(_) => self.fail(),
        }
    }

    /// Ends the thread here.
    #[cold]
    fn fail(&mut self) {
        self.block = None;
        self.blocks_left = 0;
        self.next_chunk = usize::MAX;
        self.fault = Some(Fault::Damaged {
            part: "instruction stream",
            at: 0,
        });
    }
}

/// Whether an event is more than a thread's beginning or end.
fn is_edge(event: SyncEvent) -> bool {
    use SyncEvent::{ThreadCreate, ThreadExit};
    !matches!(event, ThreadCreate { .. } | ThreadExit)
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
