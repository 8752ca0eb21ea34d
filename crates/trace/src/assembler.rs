//! Captures made instruction by instruction, from sources that know no basic blocks.
//!
//! A foreign trace says one instruction after the other. The assembler cuts each thread's stream
//! into straight runs, finds a run that was seen before by its instructions and accesses, and hands
//! the encoder what the recorder would: variants and addresses. What comes out is as small as a
//! recorded capture.
//!
//! Invariants: a block ends with a branch, a system call, before an instruction that does not
//! follow its predecessor, or after [`LONGEST`] instructions; equal runs are one variant; the
//! pages of every access are listed. Cost: one hash look-up for an instruction and one for a block.

use crate::chunk::{RawSync, StreamEncoder, StreamId};
use crate::container::{CaptureWriter, StreamInfo, VirtualPage};
use crate::dictionary::{Access, AccessKind, BlockId, Dictionary, VariantId};
use crate::inst::{Inst, OpClass};
use crate::provenance::Provenance;
use crate::writer::Operand;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use std::collections::BTreeSet;
use units::ThreadId;

/// Instructions of a block at most.
const LONGEST: usize = 64;
/// Blocks of a chunk at most.
const CHUNK_BLOCKS: u32 = crate::chunk::MOST_BLOCKS;
/// Accesses of a chunk at most: ten bytes each stay far below the largest column.
const CHUNK_ACCESSES: u32 = 1 << 20;
/// Bytes of one access at most; a longer one becomes several.
const WIDEST: u8 = 64;

/// A static instruction that the assembler knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known(u32);

/// Makes a capture from threads' instructions.
///
/// ```
/// use trace::{AccessKind, Assembler, Inst, OpClass, Reg, TraceFile};
///
/// let mut out = Assembler::new();
/// let thread = out.thread();
/// let load = Inst::new(OpClass::Move, 0x40_1000, 4).with_memory(true, false);
/// let load = out.intern(load.writing(&[Reg::general(0)]), "mov");
/// let jump = out.intern(Inst::new(OpClass::Jump, 0x40_1004, 2), "jmp");
/// for n in 0..1000 {
///     out.execute(thread, load, &[(AccessKind::Load, (0x10_0000 + n * 64, 8))]);
///     out.execute(thread, jump, &[]);
/// }
/// let capture = TraceFile::from_bytes(out.into_bytes(Default::default()), "example").unwrap();
/// assert_eq!(capture.threads()[0].instructions, 2000);
/// ```
pub struct Assembler {
    dictionary: Dictionary,
    insts: Vec<(Inst, &'static str)>,
    known: HashMap<Inst, Known, FxBuildHasher>,
    blocks: HashMap<Box<[u32]>, BlockId, FxBuildHasher>,
    variants: HashMap<Box<[u32]>, VariantId, FxBuildHasher>,
    threads: Vec<Thread>,
    pages: Pages,
    file: CaptureWriter<Vec<u8>>,
    /// Reused for the key of a variant.
    key: Vec<u32>,
}

struct Thread {
    encoder: StreamEncoder,
    info: StreamInfo,
    open: Open,
    chunk_accesses: u32,
    instructions: u64,
}

/// The block that a thread is executing.
#[derive(Default)]
struct Open {
    insts: Vec<u32>,
    shape: Vec<Access>,
    addresses: Vec<u64>,
    fallthrough: u64,
    /// Whether the last instruction ends a block.
    complete: bool,
}

impl Default for Assembler {
    fn default() -> Self {
        Self::new()
    }
}

impl Assembler {
    /// An assembler of an empty capture.
    pub fn new() -> Self {
        Self {
            dictionary: Dictionary::default(),
            insts: Vec::new(),
            known: HashMap::default(),
            blocks: HashMap::default(),
            variants: HashMap::default(),
            threads: Vec::new(),
            pages: Pages::new(),
            file: CaptureWriter::new(Vec::new()).expect("memory can be written"),
            key: Vec::new(),
        }
    }
    /// One more thread, which runs from the start unless [`Assembler::create`] makes it.
    pub fn thread(&mut self) -> ThreadId {
        let id = ThreadId::from_index(self.threads.len());
        let stream = StreamId(id.get());
        self.threads.push(Thread {
            encoder: StreamEncoder::new(stream),
            info: StreamInfo {
                stream,
                parent: None,
                wakes: Vec::new(),
            },
            open: Open::default(),
            chunk_accesses: 0,
            instructions: 0,
        });
        id
    }
    /// The static instruction `inst`: the same number for an equal one. The mnemonic of the first
    /// of equals is kept.
    pub fn intern(&mut self, inst: Inst, mnemonic: &'static str) -> Known {
        let next = Known(u32::try_from(self.insts.len()).expect("fewer than 2^32 instructions"));
        let known = *self.known.entry(inst).or_insert(next);
        if known == next {
            self.insts.push((inst, mnemonic));
        }
        known
    }
    /// A static instruction as it was interned.
    pub fn inst(&self, inst: Known) -> &Inst {
        &self.insts[inst.0 as usize].0
    }
    /// Instructions that `thread` has executed.
    pub fn executed(&self, thread: ThreadId) -> u64 {
        let thread = &self.threads[thread.index()];
        thread.instructions + thread.open.insts.len() as u64
    }
    /// Threads so far.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }
    /// Executes `inst` with its accesses in order. An access of no byte is left out, one that runs
    /// over the end of the address space ends there, one of more than 64 bytes becomes several.
    pub fn execute(&mut self, thread: ThreadId, inst: Known, accesses: &[(AccessKind, Operand)]) {
        let Inst { pc, class, .. } = self.insts[inst.0 as usize].0;
        let repeats = self.insts[inst.0 as usize].0.repeats();
        let open = &self.threads[thread.index()].open;
        let full = open.insts.len() == LONGEST || open.complete;
        if full || (pc != open.fallthrough && !open.insts.is_empty()) {
            let last = open.insts.last().map(|last| &self.insts[*last as usize].0);
            let iterates = last.is_some_and(|last| last.repeats() && last.pc == pc);
            self.end_block(thread, iterates);
        }
        let (inst_data, open) = (
            &self.insts[inst.0 as usize].0,
            &mut self.threads[thread.index()].open,
        );
        let place = open.insts.len() as u16;
        open.insts.push(inst.0);
        open.fallthrough = inst_data.fallthrough();
        open.complete = class.is_branch() || class == OpClass::Syscall || repeats;
        for (kind, (addr, bytes)) in accesses {
            let mut rest = u64::from(*bytes).min((!addr).saturating_add(1));
            let mut addr = *addr;
            while rest > 0 {
                let bytes = rest.min(u64::from(WIDEST)) as u8;
                open.shape.push(Access {
                    inst: place,
                    kind: *kind,
                    bytes,
                });
                open.addresses.push(addr);
                self.pages.touch(addr, bytes);
                (rest, addr) = (rest - u64::from(bytes), addr.wrapping_add(u64::from(bytes)));
            }
        }
    }
    /// Executes `inst`, which touches no memory and with which `parent` starts `child`.
    pub fn create(&mut self, parent: ThreadId, inst: Known, child: ThreadId) {
        self.execute(parent, inst, &[]);
        self.end_block(parent, false);
        self.threads[child.index()].info.parent = Some(StreamId(parent.get()));
        let encoder = &mut self.threads[parent.index()].encoder;
        encoder.sync(
            encoder.summary().blocks - 1,
            RawSync::Create(StreamId(child.get())),
        );
    }
    /// The capture's bytes. Threads without an instruction are left out.
    pub fn into_bytes(mut self, provenance: Provenance) -> Vec<u8> {
        for index in 0..self.threads.len() {
            self.end_block(ThreadId::from_index(index), false);
            self.end_chunk(ThreadId::from_index(index));
        }
        let page = |page: &u64| VirtualPage {
            space: 0,
            page: *page,
        };
        let pages: Vec<_> = self.pages.touched.iter().map(page).collect();
        let ran = self.threads.iter().filter(|thread| thread.instructions > 0);
        let streams: Vec<_> = ran.map(|thread| thread.info.clone()).collect();
        let done = self
            .file
            .finish(&self.dictionary, &pages, &streams, &provenance);
        done.expect("memory can be written");
        std::mem::take(self.file.sink())
    }

    /// Ends the block; if its last instruction `iterates`, it goes on and does not count yet.
    fn end_block(&mut self, thread: ThreadId, iterates: bool) {
        let open = std::mem::take(&mut self.threads[thread.index()].open);
        if open.insts.is_empty() {
            return;
        }
        let variant = self.variant(&open);
        let this = &mut self.threads[thread.index()];
        let accesses = open.addresses.len() as u32;
        let full = this.encoder.summary().blocks == CHUNK_BLOCKS;
        if full || this.chunk_accesses + accesses > CHUNK_ACCESSES {
            self.end_chunk(thread);
        }
        let this = &mut self.threads[thread.index()];
        let first_slot = self.dictionary.first_slot(variant);
        this.encoder.block(variant, first_slot, &open.addresses);
        let count = |not| {
            open.shape
                .iter()
                .filter(|access| access.kind != not)
                .count() as u32
        };
        let (loads, stores) = (count(AccessKind::Store), count(AccessKind::Load));
        let instructions = open.insts.len() as u32 - u32::from(iterates);
        this.encoder.count(instructions, loads, stores);
        this.chunk_accesses += accesses;
        this.instructions += u64::from(instructions);
        this.open = open.cleared();
    }

    fn variant(&mut self, open: &Open) -> VariantId {
        self.key.clear();
        self.key.extend(&open.insts);
        self.key.push(u32::MAX);
        let packed = |access: &Access| {
            u32::from(access.inst) << 16 | (access.kind as u32) << 8 | u32::from(access.bytes)
        };
        self.key.extend(open.shape.iter().map(packed));
        if let Some(variant) = self.variants.get(self.key.as_slice()) {
            return *variant;
        }
        let block = self.block(&open.insts);
        let variant = self.dictionary.add_variant(block, &open.shape);
        self.variants.insert(self.key.as_slice().into(), variant);
        variant
    }

    fn block(&mut self, insts: &[u32]) -> BlockId {
        if let Some(block) = self.blocks.get(insts) {
            return *block;
        }
        let inst = |inst: &u32| self.insts[*inst as usize];
        let block = self.dictionary.add_block(insts.iter().map(inst));
        self.blocks.insert(insts.into(), block);
        block
    }

    fn end_chunk(&mut self, thread: ThreadId) {
        let this = &mut self.threads[thread.index()];
        this.chunk_accesses = 0;
        let mut chunk = Vec::new();
        if let Some(summary) = this.encoder.finish(&mut chunk) {
            self.file
                .append(&chunk, summary)
                .expect("memory can be written");
        }
    }
}

impl Open {
    /// The same memory, empty.
    fn cleared(mut self) -> Self {
        self.insts.clear();
        self.shape.clear();
        self.addresses.clear();
        self.complete = false;
        self
    }
}

/// The pages touched, with a filter of recent ones before the set.
struct Pages {
    touched: BTreeSet<u64>,
    recent: Box<[u64; 1024]>,
}

impl Pages {
    fn new() -> Self {
        Self {
            touched: BTreeSet::new(),
            recent: Box::new([u64::MAX; 1024]),
        }
    }
    fn touch(&mut self, addr: u64, bytes: u8) {
        let (first, last) = (addr >> 12, (addr + (u64::from(bytes) - 1)) >> 12);
        for page in first..=last {
            let recent = &mut self.recent[page as usize % 1024];
            if *recent != page {
                *recent = page;
                self.touched.insert(page);
            }
        }
    }
}
