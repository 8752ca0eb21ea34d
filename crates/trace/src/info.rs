//! What `trace info` and `trace head` print.

use crate::container::VERSION;
use crate::cursor::count_blocks;
use crate::dictionary::Block;
use crate::dynamic::{MemAccess, SyncEvent};
use crate::error::{Fault, TraceError};
use crate::file::{Thread, TraceFile};
use crate::inst::{Inst, Reg};
use crate::provenance::Provenance;
use std::path::Path;
use units::{Ratio, ThreadId};

/// A capture in numbers.
#[derive(Clone, Debug)]
pub struct Info {
    /// Version of the format.
    pub version: u32,
    /// Threads with their instructions, loads and stores.
    pub threads: Vec<Thread>,
    /// Instructions of all threads.
    pub instructions: u64,
    /// Loads of all threads.
    pub loads: u64,
    /// Stores of all threads.
    pub stores: u64,
    /// Pages of 4 KiB that the capture touched.
    pub footprint_pages: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Identity of the file's contents, [`TraceFile::checksum`].
    pub checksum: u32,
    /// The blocks that executed most instructions, most first; none from [`counts`].
    pub top_blocks: Vec<TopBlock>,
    /// How the capture was made.
    pub provenance: Provenance,
}

/// A block and its share of the instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TopBlock {
    /// Address of its first instruction.
    pub pc: u64,
    /// Instructions executed in it.
    pub instructions: u64,
}

impl Info {
    /// Stores ÷ (loads + stores); 0 without accesses.
    pub fn write_ratio(&self) -> Ratio {
        Ratio::new(self.stores, (self.loads + self.stores).max(1))
    }
}

/// How many blocks [`Info::top_blocks`] names.
const TOP: usize = 10;

/// Opens the capture at `path`, follows every thread's blocks to the end and describes it.
///
/// # Errors
/// When it is not a complete and undamaged capture.
pub fn info(path: impl AsRef<Path>) -> Result<Info, TraceError> {
    info_unless(path, &mut || false)
}

/// As [`info`], but asks at each chunk whether to give up.
///
/// # Errors
/// As [`info`], and [`Fault::Interrupted`].
pub fn info_unless(
    path: impl AsRef<Path>,
    gives_up: &mut dyn FnMut() -> bool,
) -> Result<Info, TraceError> {
    let path = path.as_ref();
    let file = TraceFile::open_unless(path, gives_up)?;
    let top_blocks = top_blocks(&file, gives_up);
    let top_blocks = top_blocks.map_err(|fault| fault.of(&path.display().to_string()))?;
    Ok(Info {
        top_blocks,
        ..describe_file(&file)
    })
}

/// Opens the capture at `path` and describes it as [`info`] does, without the blocks that executed
/// most.
///
/// # Errors
/// When it is not a complete and undamaged capture.
pub fn counts(path: impl AsRef<Path>) -> Result<Info, TraceError> {
    counts_unless(path, &mut || false)
}

/// As [`counts`], but asks at each chunk whether to give up.
///
/// # Errors
/// As [`counts`], and [`Fault::Interrupted`].
pub fn counts_unless(
    path: impl AsRef<Path>,
    gives_up: &mut dyn FnMut() -> bool,
) -> Result<Info, TraceError> {
    Ok(describe_file(&TraceFile::open_unless(path, gives_up)?))
}

fn describe_file(file: &TraceFile) -> Info {
    let threads = file.threads().to_vec();
    Info {
        version: VERSION,
        instructions: threads.iter().map(|thread| thread.instructions).sum(),
        loads: threads.iter().map(|thread| thread.loads).sum(),
        stores: threads.iter().map(|thread| thread.stores).sum(),
        footprint_pages: file.pages().len() as u64,
        file_bytes: file.shared.bytes.len() as u64,
        provenance: file.provenance().clone(),
        checksum: file.checksum(),
        threads,
        top_blocks: Vec::new(),
    }
}

fn top_blocks(
    file: &TraceFile,
    gives_up: &mut dyn FnMut() -> bool,
) -> Result<Vec<TopBlock>, Fault> {
    let dictionary = &file.shared.dictionary;
    let mut counts = vec![0_u64; dictionary.blocks.len()];
    for thread in file.threads() {
        count_blocks(file, thread.id, &mut counts, gives_up)?;
    }
    let pc = |block: &Block| dictionary.insts[block.first as usize].pc;
    let top = |(block, count): (&Block, &u64)| TopBlock {
        pc: pc(block),
        instructions: *count,
    };
    let mut blocks: Vec<_> = dictionary.blocks.iter().zip(&counts).map(top).collect();
    blocks.sort_by_key(|block| (std::cmp::Reverse(block.instructions), block.pc));
    blocks.truncate(TOP);
    Ok(blocks)
}

/// The first `count` pieces of a thread, one line each.
///
/// # Errors
/// When the file is not a complete and undamaged capture, or has no such thread.
pub fn head(
    path: impl AsRef<Path>,
    thread: ThreadId,
    count: usize,
) -> Result<Vec<String>, TraceError> {
    let path = path.as_ref();
    let file = TraceFile::open(path)?;
    let threads = file.threads().len();
    if thread.index() >= threads {
        let fault = Fault::NoThread {
            threads,
            asked: thread.index(),
        };
        return Err(fault.of(&path.display().to_string()));
    }
    let mut cursor = file.cursor(thread);
    let mut lines = Vec::new();
    while lines.len() < count {
        let Some(piece) = cursor.take() else { break };
        let inst = file.inst(piece.inst());
        let mut line = format!(
            "{:#014x} {:<12} {:<13}",
            inst.pc,
            file.mnemonic(inst),
            inst.class.word()
        );
        line += &registers(inst);
        line += &piece
            .load()
            .map_or(String::new(), |access| accessed("load", access));
        line += &piece
            .store()
            .map_or(String::new(), |access| accessed("store", access));
        line += if piece.taken() { " taken" } else { "" };
        line += if piece.counts() { "" } else { " …" };
        line += &piece
            .sync()
            .map_or(String::new(), |event| format!(" {}", describe(event)));
        lines.push(line.trim_end().to_string());
    }
    cursor.error().map_or(Ok(lines), Err)
}

fn registers(inst: &Inst) -> String {
    let list = |regs: &[Reg]| {
        let named: Vec<_> = regs
            .iter()
            .filter(|r| !r.is_none())
            .map(Reg::to_string)
            .collect();
        named.join(",")
    };
    let (from, address) = (list(&inst.reads), list(&inst.address_reads));
    let to = list(&inst.writes);
    let address = if address.is_empty() {
        address
    } else {
        format!(" [{address}]")
    };
    format!(" {from}{address} → {to}")
}

fn accessed(word: &str, access: MemAccess) -> String {
    let (page, offset) = (access.addr.page(), access.addr.offset());
    format!(" {word} {page}+{offset:#05x}:{}", access.bytes)
}

fn describe(event: SyncEvent) -> String {
    match event {
        SyncEvent::ThreadCreate { child } => format!("creates {child}"),
        SyncEvent::ThreadExit => "exits".into(),
        SyncEvent::Join { child } => format!("joins {child}"),
        SyncEvent::FutexWake { futex, count } => format!("wakes futex {} (#{count})", futex.get()),
        SyncEvent::FutexWait {
            futex,
            woken_by: Some(wake),
        } => {
            format!(
                "waited on futex {}, woken by {} (#{})",
                futex.get(),
                wake.thread,
                wake.count
            )
        }
        SyncEvent::FutexWait {
            futex,
            woken_by: None,
        } => {
            format!("waited on futex {}", futex.get())
        }
        SyncEvent::Syscall { number, duration } => {
            format!("system call {number}, 2^{} ns", duration.log2_nanoseconds())
        }
    }
}
