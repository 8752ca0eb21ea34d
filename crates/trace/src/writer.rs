//! Synthetic captures: for tests and studies that need a stream of a known shape.
//!
//! Every static instruction is a block of its own, so any order of execution can be written.

use crate::chunk::{RawSync, StreamEncoder, StreamId};
use crate::container::{CaptureWriter, StreamInfo, VirtualPage};
use crate::dictionary::{Access, AccessKind, BlockId, Dictionary, VariantId};
use crate::dynamic::SyncEvent;
use crate::error::{Fault, TraceError};
use crate::file::TraceFile;
use crate::inst::{Inst, OpClass, Reg};
use crate::provenance::Provenance;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use units::ThreadId;

/// Blocks per chunk.
const CHUNK: u32 = crate::chunk::MOST_BLOCKS;

/// A static instruction of a [`TraceWriter`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct StaticInst(u32);

/// A load or store to write: virtual address and bytes (1 to 64).
pub type Operand = (u64, u8);

/// Writes a capture instruction by instruction.
///
/// ```
/// use trace::{Inst, OpClass, Reg, TraceWriter};
///
/// let mut writer = TraceWriter::new();
/// let thread = writer.thread();
/// let load = writer.load(Reg::general(0), Reg::general(1));
/// let back = writer.branch();
/// for n in 0..100 {
///     writer.execute(thread, load, Some((0x10_0000 + n * 64, 8)), None);
///     writer.execute(thread, back, None, None);
/// }
/// let file = writer.finish();
/// assert_eq!(file.threads()[0].loads, 100);
/// let mut cursor = file.cursor(thread);
/// assert_eq!(cursor.peek().unwrap().load().unwrap().bytes, 8);
/// ```
pub struct TraceWriter {
    dictionary: Dictionary,
    insts: Vec<(Inst, BlockId)>,
    variants: BTreeMap<(u32, Vec<Access>), VariantId>,
    streams: Vec<Stream>,
    pages: BTreeSet<u64>,
    file: CaptureWriter<Vec<u8>>,
    next_pc: u64,
}

struct Stream {
    encoder: StreamEncoder,
    /// The last instruction, if it is repeated.
    repeated: Option<StaticInst>,
    info: StreamInfo,
}

impl Default for TraceWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl TraceWriter {
    /// A writer of an empty capture.
    pub fn new() -> Self {
        Self {
            dictionary: Dictionary::default(),
            insts: Vec::new(),
            variants: BTreeMap::new(),
            streams: Vec::new(),
            pages: BTreeSet::new(),
            file: CaptureWriter::new(Vec::new()).expect("memory can be written"),
            next_pc: 0x40_0000,
        }
    }
    /// One more thread, which runs from the start unless a
    /// [`ThreadCreate`](SyncEvent::ThreadCreate) of it is executed.
    pub fn thread(&mut self) -> ThreadId {
        let id = ThreadId::from_index(self.streams.len());
        let stream = StreamId(id.get());
        let info = StreamInfo {
            stream,
            parent: None,
            wakes: Vec::new(),
        };
        self.streams.push(Stream {
            encoder: StreamEncoder::new(stream),
            repeated: None,
            info,
        });
        id
    }
    /// A static instruction. Its `pc` is kept if it is not 0; otherwise it follows the last one.
    pub fn define(&mut self, mut inst: Inst) -> StaticInst {
        if inst.pc == 0 {
            inst.pc = self.next_pc;
        }
        self.next_pc = inst.fallthrough();
        let block = self
            .dictionary
            .add_block([(inst, inst.class.word())].into_iter());
        self.insts.push((inst, block));
        StaticInst(self.insts.len() as u32 - 1)
    }
    /// A one-cycle operation from `sources` (at most 4) to `target`.
    pub fn alu(&mut self, target: Reg, sources: &[Reg]) -> StaticInst {
        self.define(
            Inst::new(OpClass::IntAlu, 0, 3)
                .reading(sources)
                .writing(&[target]),
        )
    }
    /// A load to `target` through `base`.
    pub fn load(&mut self, target: Reg, base: Reg) -> StaticInst {
        let inst = Inst::new(OpClass::Move, 0, 4).with_memory(true, false);
        self.define(inst.addressing(&[base]).writing(&[target]))
    }
    /// A store of `source` through `base`.
    pub fn store(&mut self, source: Reg, base: Reg) -> StaticInst {
        let inst = Inst::new(OpClass::Move, 0, 4).with_memory(false, true);
        self.define(inst.addressing(&[base]).reading(&[source]))
    }
    /// A write-back of the cache line at `base` (`clwb`), to be executed with a load of one byte of
    /// that line, as which the processor treats it (Intel SDM, CLWB).
    pub fn write_back(&mut self, base: Reg) -> StaticInst {
        let inst = Inst::new(OpClass::LineWriteBack, 0, 5).with_memory(true, false);
        self.define(inst.addressing(&[base]))
    }
    /// A memory fence (`sfence`, `mfence`).
    pub fn fence(&mut self) -> StaticInst {
        self.define(Inst::new(OpClass::Fence, 0, 3))
    }
    /// A conditional branch on the flags: taken if what is executed next is not what was defined
    /// next.
    pub fn branch(&mut self) -> StaticInst {
        self.define(Inst::new(OpClass::CondBranch, 0, 2).reading(&[Reg::FLAGS]))
    }
    /// A system call, to be executed with [`TraceWriter::execute_sync`].
    pub fn syscall(&mut self) -> StaticInst {
        self.define(Inst::new(OpClass::Syscall, 0, 2))
    }
    /// Makes `pages` pages from virtual address `start` part of the page list, touched or not.
    pub fn map(&mut self, start: u64, pages: u64) {
        self.pages.extend((start >> 12)..(start >> 12) + pages);
    }
    /// Executes `inst`. An access that reads and writes the same bytes is given as both.
    pub fn execute(
        &mut self,
        thread: ThreadId,
        inst: StaticInst,
        load: Option<Operand>,
        store: Option<Operand>,
    ) {
        let loads = load.map(|operand| (AccessKind::Load, operand));
        let stores = store.map(|operand| (AccessKind::Store, operand));
        let accesses: Vec<_> = loads.into_iter().chain(stores).collect();
        self.execute_pieces(thread, inst, &accesses);
    }
    /// Executes `inst` with any number of accesses, as a gather does.
    pub fn execute_pieces(
        &mut self,
        thread: ThreadId,
        inst: StaticInst,
        accesses: &[(AccessKind, Operand)],
    ) {
        let shape = |(kind, (_, bytes)): &(AccessKind, Operand)| {
            assert!((1..=64).contains(bytes), "an access has 1 to 64 bytes");
            Access {
                inst: 0,
                kind: *kind,
                bytes: *bytes,
            }
        };
        let shape: Vec<_> = accesses.iter().map(shape).collect();
        let (defined, block) = self.insts[inst.0 as usize];
        assert!(
            defined.class != OpClass::Syscall || shape.is_empty(),
            "system calls touch nothing"
        );
        let dictionary = &mut self.dictionary;
        let variant = *self
            .variants
            .entry((inst.0, shape))
            .or_insert_with_key(|(_, shape)| dictionary.add_variant(block, shape));
        let addresses: Vec<_> = accesses.iter().map(|(_, (addr, _))| *addr).collect();
        for (_, (addr, bytes)) in accesses {
            self.pages.insert(addr >> 12);
            self.pages.insert((addr + u64::from(*bytes) - 1) >> 12);
        }
        let count = |kind| accesses.iter().filter(|access| access.0 != kind).count() as u32;
        let (loads, stores) = (count(AccessKind::Store), count(AccessKind::Load));
        let stream = &mut self.streams[thread.index()];
        // As the recorder does: iterations stay in one chunk and count once together.
        if stream.encoder.summary().blocks >= CHUNK && stream.repeated.is_none() {
            end_chunk(&mut self.file, &mut stream.encoder);
        }
        let continues = stream.repeated == Some(inst);
        stream.repeated = defined.repeats().then_some(inst);
        stream
            .encoder
            .block(variant, self.dictionary.first_slot(variant), &addresses);
        stream.encoder.count(u32::from(!continues), loads, stores);
    }
    /// Executes the system call `inst` with its event. A wake's count is set here: each wake is
    /// the thread's next.
    pub fn execute_sync(&mut self, thread: ThreadId, inst: StaticInst, event: SyncEvent) {
        self.execute_pieces(thread, inst, &[]);
        let stream = |thread: ThreadId| StreamId(thread.get());
        let raw = match event {
            SyncEvent::ThreadCreate { child } => {
                self.streams[child.index()].info.parent = Some(stream(thread));
                RawSync::Create(stream(child))
            }
            SyncEvent::ThreadExit => RawSync::Exit,
            SyncEvent::Join { child } => RawSync::Join(stream(child)),
            SyncEvent::FutexWake { futex, .. } => {
                let wakes = &mut self.streams[thread.index()].info.wakes;
                let count = wakes.len() as u32 + 1;
                wakes.push(count);
                RawSync::Wake(futex.get(), count)
            }
            SyncEvent::FutexWait { futex, woken_by } => RawSync::Wait(
                futex.get(),
                woken_by.map(|wake| (stream(wake.thread), wake.count)),
            ),
            SyncEvent::Syscall { number, duration } => {
                RawSync::Syscall(number, duration.log2_nanoseconds())
            }
        };
        let encoder = &mut self.streams[thread.index()].encoder;
        encoder.sync(encoder.summary().blocks - 1, raw);
    }
    /// The capture's bytes, as they stand in a file.
    pub fn into_bytes(mut self) -> Vec<u8> {
        for stream in &mut self.streams {
            end_chunk(&mut self.file, &mut stream.encoder);
        }
        let pages: Vec<_> = self
            .pages
            .iter()
            .map(|page| VirtualPage {
                space: 0,
                page: *page,
            })
            .collect();
        let streams: Vec<_> = self
            .streams
            .iter()
            .map(|stream| stream.info.clone())
            .collect();
        let provenance = Provenance {
            command: vec!["synthetic".into()],
            ..Default::default()
        };
        let done = self
            .file
            .finish(&self.dictionary, &pages, &streams, &provenance);
        done.expect("memory can be written");
        std::mem::take(self.file.sink())
    }
    /// The capture, open in memory.
    pub fn finish(self) -> TraceFile {
        let bytes = self.into_bytes();
        TraceFile::from_bytes(bytes, "synthetic").expect("what was just written can be read")
    }
    /// Writes the capture to `path`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(self, path: impl AsRef<Path>) -> Result<(), TraceError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        std::fs::write(path, self.into_bytes()).map_err(|error| Fault::from(error).of(&name))
    }
}

fn end_chunk(file: &mut CaptureWriter<Vec<u8>>, encoder: &mut StreamEncoder) {
    let mut chunk = Vec::new();
    if let Some(summary) = encoder.finish(&mut chunk) {
        file.append(&chunk, summary).expect("memory can be written");
    }
}
