//! ChampSim's traces (`input_instr`): one file of 64-byte records, plain, gzip or xz; the format of
//! the DPC, CRC and IPC championships. The longer records of later development versions, which add
//! a load type, are not read.
//!
//! | byte | field |
//! |---|---|
//! | 0 | address of the instruction |
//! | 8, 9 | is a branch; was taken |
//! | 10–11, 12–15 | destination and source registers (Pin's numbers; 0: none) |
//! | 16, 32 | two destination and four source addresses (0: none) |
//!
//! The kind of a branch follows from its registers: 6 is the stack pointer, 25 the flags, 26 the
//! instruction pointer. Length, operation and access size are not there: lengths follow from what
//! comes next, an access has 8 bytes, work is a one-cycle operation.

use super::source::Reader;
use super::walk::{Step, Walk, Window};
use super::{ExportOptions, ForeignError, ImportOptions, Notes, Source, pin};
use crate::assembler::Assembler;
use crate::dictionary::AccessKind;
use crate::file::TraceFile;
use crate::inst::{Inst, OpClass};
use crate::writer::Operand;
use flate2::Compression;
use flate2::write::GzEncoder;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use units::ThreadId;

const BYTES: usize = 64;
const TARGETS: usize = 2;
const SOURCES: usize = 4;
/// Bytes handed to a packer at a time.
const BLOCK: usize = 64 << 10;
/// Bytes of an access, whose size the source does not say.
const ACCESS: u8 = 8;
/// Length of an instruction that was never followed by the next one.
const LENGTH: u8 = 4;

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Record {
    pc: u64,
    branch: bool,
    taken: bool,
    targets: [u8; TARGETS],
    sources: [u8; SOURCES],
    stores: [u64; TARGETS],
    loads: [u64; SOURCES],
}

impl Record {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, ForeignError> {
        let Some(bytes) = reader.record::<BYTES>()? else {
            return Ok(None);
        };
        if bytes[8] > 1 || bytes[9] > 1 {
            let problem = format!(
                "says {} and {} to whether it is a branch and taken",
                bytes[8], bytes[9]
            );
            return Err(reader.fail(problem));
        }
        let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|n| bytes[at + n]));
        Ok(Some(Self {
            pc: word(0),
            branch: bytes[8] == 1,
            taken: bytes[9] == 1,
            targets: [bytes[10], bytes[11]],
            sources: [bytes[12], bytes[13], bytes[14], bytes[15]],
            stores: core::array::from_fn(|n| word(16 + 8 * n)),
            loads: core::array::from_fn(|n| word(32 + 8 * n)),
        }))
    }
    fn to_bytes(self) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        out[..8].copy_from_slice(&self.pc.to_le_bytes());
        (out[8], out[9]) = (self.branch.into(), self.taken.into());
        out[10..12].copy_from_slice(&self.targets);
        out[12..16].copy_from_slice(&self.sources);
        let words = self.stores.iter().chain(&self.loads);
        for (n, word) in words.enumerate() {
            out[16 + 8 * n..24 + 8 * n].copy_from_slice(&word.to_le_bytes());
        }
        out
    }
    fn touches(&self) -> bool {
        self.loads.iter().chain(&self.stores).any(|addr| *addr != 0)
    }
    /// What the registers say of the instruction.
    fn class(&self) -> OpClass {
        let reads = |number| self.sources.contains(&number);
        let writes = |number| self.targets.contains(&number);
        let special = [0, pin::STACK_POINTER, pin::FLAGS, pin::INSTRUCTION_POINTER];
        let other = self.sources.iter().any(|number| !special.contains(number));
        let (ip, flags) = (reads(pin::INSTRUCTION_POINTER), reads(pin::FLAGS));
        let stack = (reads(pin::STACK_POINTER), writes(pin::STACK_POINTER));
        if !writes(pin::INSTRUCTION_POINTER) {
            return self.plain_class();
        }
        match stack {
            (true, true) if !ip => OpClass::Return,
            (true, true) if other => OpClass::IndirectCall,
            (true, true) => OpClass::Call,
            (false, false) if ip && (flags || other) => OpClass::CondBranch,
            (false, _) if !flags && !other => OpClass::Jump,
            (false, _) if !ip && !flags => OpClass::IndirectJump,
            // Neither direction nor target is to be relied on: predicted as a branch.
            _ => OpClass::CondBranch,
        }
    }
    fn plain_class(&self) -> OpClass {
        let vector = |number: &u8| pin::register(*number).is_vector();
        let registers = self.targets.iter().chain(&self.sources);
        if self.touches() && !self.targets.contains(&pin::FLAGS) {
            OpClass::Move
        } else if self.targets.iter().any(vector) {
            OpClass::Simd
        } else if registers.copied().all(|number| number == 0) && !self.touches() {
            OpClass::Nop
        } else {
            OpClass::IntAlu
        }
    }
}

/// Reads the one thread of a file.
pub(super) fn import(
    source: &Source<'_>,
    _options: &ImportOptions,
    out: &mut Assembler,
) -> Result<Notes, ForeignError> {
    let mut reader = source.open()?;
    let thread = out.thread();
    let mut lengths: HashMap<u64, u8, FxBuildHasher> = HashMap::default();
    let mut current = Record::read(&mut reader)?;
    while let Some(record) = current {
        let next = Record::read(&mut reader)?;
        let class = record.class();
        let distance = next.map(|next| next.pc.wrapping_sub(record.pc));
        let follows = !class.is_branch() || (class == OpClass::CondBranch && !record.taken);
        if let Some(length @ 1..=15) = distance.filter(|_| follows) {
            lengths.insert(record.pc, length as u8);
        }
        let mut length = lengths.get(&record.pc).copied().unwrap_or(LENGTH);
        // A branch that was taken to where it would have gone anyhow must still be seen as taken.
        if class == OpClass::CondBranch && record.taken && distance == Some(length.into()) {
            length = if length == 1 { 2 } else { length - 1 };
        }
        let inst = instruction(&record, class, length);
        let known = out.intern(
            inst,
            if record.branch {
                "branch"
            } else {
                class.word()
            },
        );
        let mut accesses = [(AccessKind::Load, (0, ACCESS)); SOURCES + TARGETS];
        let count = accesses_of(&record, &mut accesses);
        out.execute(thread, known, &accesses[..count]);
        current = next;
    }
    Ok(vec![
        pin::ASSUMPTION.into(),
        format!("access sizes are not in the source: {ACCESS} bytes each"),
        "operations are not in the source: what touches memory without writing flags is a move, \
         the rest a one-cycle operation"
            .into(),
        format!(
            "instruction lengths are not in the source: the distance to the next, or {LENGTH} bytes"
        ),
    ])
}

fn instruction(record: &Record, class: OpClass, length: u8) -> Inst {
    // The stack pointer's own updates make no dependency in a capture.
    let both = |number| record.sources.contains(&number) && record.targets.contains(&number);
    let drop_stack = both(pin::STACK_POINTER) && (class.is_branch() || record.touches());
    let sources = pin::registers(&record.sources, drop_stack);
    let targets = pin::registers(&record.targets, drop_stack);
    let loads = record.loads.iter().any(|addr| *addr != 0);
    let stores = record.stores.iter().any(|addr| *addr != 0);
    let inst = Inst::new(class, record.pc, length).with_memory(loads, stores);
    pin::operands(inst, &sources, &targets)
}

/// The accesses of a record; one load and a store of the same address are an update.
fn accesses_of(record: &Record, out: &mut [(AccessKind, Operand); SOURCES + TARGETS]) -> usize {
    let mut count = 0;
    for addr in record.loads.iter().filter(|addr| **addr != 0) {
        out[count].1.0 = *addr;
        count += 1;
    }
    let loads = count;
    for addr in record.stores.iter().filter(|addr| **addr != 0) {
        if loads == 1 && count == 1 && out[0] == (AccessKind::Load, (*addr, ACCESS)) {
            out[0].0 = AccessKind::Update;
            continue;
        }
        out[count] = (AccessKind::Store, (*addr, ACCESS));
        count += 1;
    }
    count
}

/// Writes one thread; packed as the name says (`.xz`, `.gz`).
pub(super) fn export(
    trace: &TraceFile,
    path: &Path,
    options: &ExportOptions,
) -> Result<Notes, ForeignError> {
    let target = Source::path(path);
    let refuse = |error: std::io::Error| target.fail(format!("cannot be written ({error})"));
    let threads = trace.threads().len();
    let thread = match options.thread {
        Some(thread) => thread,
        None if threads == 1 => ThreadId::new(0),
        None => {
            let problem = "cannot hold a capture of {} threads: choose one with --thread";
            return Err(target.fail(problem.replace("{}", &threads.to_string())));
        }
    };
    let window = Window::of(trace, thread, options);
    let mut walk = Walk::new(trace, thread, window);
    let file = File::create(path).map_err(refuse)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let done = if name.ends_with(".xz") {
        let out = write(&mut walk, liblzma::write::XzEncoder::new(file, 1));
        out.and_then(|out| out.finish().map(drop))
    } else if name.ends_with(".gz") {
        let out = write(&mut walk, GzEncoder::new(file, Compression::fast()));
        out.and_then(|out| out.finish().map(drop))
    } else {
        write(&mut walk, file).map(drop)
    };
    done.map_err(refuse)?;
    Ok(vec![
        "operations, lengths, access sizes, more than 4 sources and 2 targets, and what system \
         calls did are left out"
            .into(),
    ])
}

/// Writes the records in blocks; gives `out` back when all of them are in it.
fn write<W: Write>(walk: &mut Walk, out: W) -> std::io::Result<W> {
    let mut out = BufWriter::with_capacity(BLOCK, out);
    while let Some(step) = walk.step() {
        let mut open = describe(&step);
        let (mut loads, mut stores) = (0, 0);
        for (kind, (addr, _)) in step.accesses {
            let load = *kind == AccessKind::Load;
            // Records list loads before stores.
            if (load && (loads == SOURCES || stores > 0)) || stores == TARGETS {
                out.write_all(&open.to_bytes())?;
                open = describe(&step);
                (loads, stores) = (0, 0);
            }
            if load {
                open.loads[loads] = *addr;
                loads += 1;
            } else {
                open.stores[stores] = *addr;
                stores += 1;
            }
        }
        out.write_all(&open.to_bytes())?;
    }
    Ok(out.into_inner()?)
}

/// A record of the instruction without its accesses: for a branch the registers that tell its kind.
fn describe(step: &Step<'_>) -> Record {
    let inst = &step.inst;
    let sources = pin::numbers(inst.address_reads.iter().chain(&inst.reads));
    let plain = |number: &&u8| ![pin::STACK_POINTER, pin::FLAGS].contains(*number);
    let others: Vec<u8> = sources.iter().filter(plain).copied().collect();
    let (sp, ip) = (pin::STACK_POINTER, pin::INSTRUCTION_POINTER);
    let some = if others.is_empty() {
        vec![pin::UNKNOWN]
    } else {
        others.clone()
    };
    let (targets, sources) = match inst.class {
        OpClass::Jump => (vec![ip], vec![ip]),
        OpClass::IndirectJump => (vec![ip], some),
        OpClass::CondBranch if others.is_empty() => (vec![ip], vec![ip, pin::FLAGS]),
        OpClass::CondBranch if sources.contains(&pin::FLAGS) => {
            (vec![ip], [vec![ip, pin::FLAGS], others].concat())
        }
        OpClass::CondBranch => (vec![ip], [vec![ip], others].concat()),
        OpClass::Call => (vec![ip, sp], vec![ip, sp]),
        OpClass::IndirectCall => (vec![ip, sp], [vec![ip, sp], some].concat()),
        OpClass::Return => (vec![ip, sp], vec![sp]),
        _ => (pin::numbers(inst.writes.iter()), sources),
    };
    let mut record = Record {
        pc: inst.pc,
        branch: inst.class.is_branch(),
        taken: step.taken,
        ..Record::default()
    };
    for (slot, number) in record.targets.iter_mut().zip(targets) {
        *slot = number;
    }
    for (slot, number) in record.sources.iter_mut().zip(sources) {
        *slot = number;
    }
    record
}
