//! DynamoRIO drmemtrace, offline and post-processed: records of 12 bytes (`trace_entry.h` of
//! DynamoRIO, trace versions 1 to 7, 64-bit), plain, gzip or zip of chunks.
//!
//! ```text
//! u16 type · u16 size · u64 address, little endian
//! ```
//!
//! A file begins with a header record that holds the version and ends with a footer. A record
//! names the thread to which those after it belong; an instruction's loads and stores follow it.
//! A directory holds one file for each thread, `*.trace`, `*.trace.gz` or `*.trace.zip`, in itself
//! or in `trace/`. Threads are numbered in the order of file names and, in a file, of appearance.
//!
//! Instruction encodings are skipped, for there is no decoder: registers and what an instruction
//! computes are not known. Branches are, with their outcome, from the address that follows.

use crate::assembler::Assembler;
use crate::dictionary::AccessKind;
use crate::foreign::fetched::{Fetched, Sites};
use crate::foreign::memory::note;
use crate::foreign::{ForeignError, ImportOptions, Notes, Source, new_thread};
use crate::inst::OpClass;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use units::ThreadId;

/// Bytes of a record.
const RECORD: usize = 12;
/// Versions that are read: 7 is `TRACE_ENTRY_VERSION_RETIRED_INSTRUCTIONS_ONLY`.
const VERSIONS: std::ops::RangeInclusive<u64> = 1..=7;

/// The types of records that matter (`trace_type_t`). Of the others, 2 to 9 and 32 to 46 are
/// prefetches, 18 to 21 flushes.
mod kind {
    pub(super) const READ: u16 = 0;
    pub(super) const WRITE: u16 = 1;
    pub(super) const INSTR: u16 = 10;
    pub(super) const DIRECT_JUMP: u16 = 11;
    pub(super) const INDIRECT_JUMP: u16 = 12;
    pub(super) const CONDITIONAL_JUMP: u16 = 13;
    pub(super) const DIRECT_CALL: u16 = 14;
    pub(super) const INDIRECT_CALL: u16 = 15;
    pub(super) const RETURN: u16 = 16;
    pub(super) const BUNDLE: u16 = 17;
    pub(super) const THREAD: u16 = 22;
    pub(super) const THREAD_EXIT: u16 = 23;
    pub(super) const PID: u16 = 24;
    pub(super) const HEADER: u16 = 25;
    pub(super) const FOOTER: u16 = 26;
    pub(super) const HARDWARE_PREFETCH: u16 = 27;
    pub(super) const MARKER: u16 = 28;
    pub(super) const NO_FETCH: u16 = 29;
    pub(super) const MAYBE_FETCH: u16 = 30;
    pub(super) const SYSENTER: u16 = 31;
    pub(super) const ENCODING: u16 = 47;
    pub(super) const TAKEN_JUMP: u16 = 48;
    pub(super) const UNTAKEN_JUMP: u16 = 49;
}

/// The markers that matter (`trace_marker_type_t`).
mod marker {
    pub(super) const SYSCALL: u16 = 25;
    pub(super) const SYSCALL_TRACE_START: u16 = 27;
    pub(super) const SYSCALL_TRACE_END: u16 = 28;
    pub(super) const CONTEXT_SWITCH_START: u16 = 34;
    pub(super) const CONTEXT_SWITCH_END: u16 = 35;
}

/// Ways of packing that DynamoRIO offers and that are not read.
const NOT_UNPACKED: [&str; 2] = [".lz4", ".sz"];

/// Whether this is a trace or a directory of one.
pub(crate) fn recognise(source: &Source<'_>, head: &[u8]) -> bool {
    if source.is_directory() {
        return [source.join("trace"), source.clone()]
            .iter()
            .filter(|place| place.is_directory())
            .any(|place| files(place).is_ok_and(|files| !files.is_empty()));
    }
    let record = head.first_chunk::<RECORD>().map(Record::new);
    record.is_some_and(|record| {
        record.kind == kind::HEADER && record.size == 0 && VERSIONS.contains(&record.value)
    })
}

/// Adds the trace in `source` to `out`.
pub(crate) fn import(
    source: &Source<'_>,
    options: &ImportOptions,
    out: &mut Assembler,
) -> Result<Notes, ForeignError> {
    let mut process = Process {
        sites: Sites::new(options.dependencies),
        pid: None,
        threads: BTreeMap::new(),
        kernel: 0,
        hints: 0,
        unsized_accesses: 0,
    };
    let nested = source.join("trace");
    let place = match source.is_directory() && nested.is_directory() {
        true => &nested,
        false => source,
    };
    let files = files(place)?;
    if files.is_empty() {
        return Err(place.fail(
            "holds no file *.trace, *.trace.gz or *.trace.zip; raw records are turned into one by \
             `drrun -t drmemtrace -indir`"
                .into(),
        ));
    }
    for file in &files {
        process.file(file, out)?;
    }
    Ok(process.notes(options))
}

/// The trace files of a directory, or the file itself.
fn files<'a>(source: &'a Source<'_>) -> Result<Vec<Source<'a>>, ForeignError> {
    let mut files = source.files()?;
    if !source.is_directory() {
        return Ok(files);
    }
    files.retain(|file| {
        let name = file.file_name();
        name.starts_with("drmemtrace.") && (name.contains(".trace.") || name.ends_with(".trace"))
    });
    let packed = |file: &&Source<'_>| {
        NOT_UNPACKED
            .iter()
            .any(|ending| file.file_name().ends_with(ending))
    };
    match files.iter().find(packed) {
        Some(file) => Err(file.fail("is packed by lz4 or snappy; pack it by gzip instead".into())),
        None => Ok(files),
    }
}

/// A record, unpacked.
struct Record {
    kind: u16,
    size: u16,
    value: u64,
}

impl Record {
    fn new(bytes: &[u8; RECORD]) -> Self {
        let [a, b, c, d, value @ ..] = *bytes;
        Self {
            kind: u16::from_le_bytes([a, b]),
            size: u16::from_le_bytes([c, d]),
            value: u64::from_le_bytes(value),
        }
    }
}

/// What was read of a process.
struct Process {
    sites: Sites,
    pid: Option<u64>,
    /// The threads by their numbers in the system, with the file that each is in.
    threads: BTreeMap<u64, (usize, ThreadId)>,
    /// Instructions of the kernel that were left out.
    kernel: u64,
    /// Prefetches and flushes that were left out.
    hints: u64,
    /// Accesses of unknown size that were left out.
    unsized_accesses: u64,
}

/// A thread of the file that is being read.
struct Running {
    id: ThreadId,
    fetched: Fetched,
    /// The class of what was fetched, `None` if its record tells none.
    class: Option<OpClass>,
    /// It is an iteration of a string operation after the first.
    iterates: bool,
    /// Inside the kernel, whose instructions are left out.
    in_kernel: bool,
}

impl Process {
    fn file(&mut self, file: &Source<'_>, out: &mut Assembler) -> Result<(), ForeignError> {
        let mut reader = file.open()?;
        let number = self.threads.values().map(|(file, _)| file + 1).max();
        let mut state = File {
            process: self,
            number: number.unwrap_or(0),
            running: Vec::new(),
            current: None,
            ended: false,
        };
        while let Some(bytes) = reader.record::<RECORD>()? {
            let first = reader.records() == 1;
            let done = state.record(out, &Record::new(&bytes), first);
            done.map_err(|problem| reader.fail(problem))?;
        }
        for n in 0..state.running.len() {
            state.retire(out, n, None);
        }
        match state.ended {
            true => Ok(()),
            false => Err(reader.fail_behind("is missing: no footer ends the file".into())),
        }
    }
    fn notes(&self, options: &ImportOptions) -> Notes {
        let mut notes = vec![
            note(options.dependencies),
            "no opcodes read: what neither branches nor accesses memory takes one cycle".into(),
            "threads run from the start: their creation and waits are not in the source".into(),
        ];
        let mut left_out = |count: u64, what: &str| {
            if count > 0 {
                notes.push(format!("{count} {what} left out"));
            }
        };
        left_out(self.kernel, "instructions of the kernel");
        left_out(
            self.unsized_accesses,
            "accesses of unknown size (xsave and its like)",
        );
        left_out(self.hints, "prefetches and cache flushes");
        notes
    }
}

/// A file that is being read.
struct File<'a> {
    process: &'a mut Process,
    number: usize,
    running: Vec<Running>,
    current: Option<usize>,
    ended: bool,
}

impl File<'_> {
    fn record(&mut self, out: &mut Assembler, record: &Record, first: bool) -> Result<(), String> {
        if first != (record.kind == kind::HEADER) {
            return Err("does not begin with a header: no post-processed drmemtrace".into());
        }
        if self.ended {
            return Err("stands behind the footer".into());
        }
        let Record { kind, size, value } = *record;
        match kind {
            kind::READ => self.access(AccessKind::Load, value, size),
            kind::WRITE => self.access(AccessKind::Store, value, size),
            kind::INSTR..=kind::RETURN
            | kind::NO_FETCH..=kind::SYSENTER
            | kind::TAKEN_JUMP
            | kind::UNTAKEN_JUMP => self.instruction(out, kind, size, value),
            kind::BUNDLE => self.bundle(out, size, value),
            kind::ENCODING => Ok(()),
            kind::MARKER => self.marker(out, size),
            kind::THREAD => self.thread(out, value),
            kind::THREAD_EXIT => {
                if let Some(n) = self.current.take() {
                    self.retire(out, n, None);
                }
                Ok(())
            }
            kind::PID => match *self.process.pid.get_or_insert(value) {
                pid if pid == value => Ok(()),
                pid => Err(format!(
                    "is of process {value}, but the first of {pid}; import each alone"
                )),
            },
            kind::HEADER if VERSIONS.contains(&value) => Ok(()),
            kind::HEADER => Err(format!(
                "has version {value:#x}; versions 1 to 7 of 64-bit programs are read"
            )),
            kind::FOOTER => {
                self.ended = true;
                Ok(())
            }
            ..kind::INSTR | 18..=21 | kind::HARDWARE_PREFETCH | 32..kind::ENCODING => self.hint(),
            _ => Err(format!(
                "is of type {kind}, which trace versions 1 to 7 do not have"
            )),
        }
    }
    fn hint(&mut self) -> Result<(), String> {
        self.process.hints += 1;
        Ok(())
    }
    /// The current thread.
    fn now(&mut self) -> Result<&mut Running, String> {
        let n = self
            .current
            .ok_or("stands before a record that names its thread")?;
        Ok(&mut self.running[n])
    }
    fn thread(&mut self, out: &mut Assembler, tid: u64) -> Result<(), String> {
        let number = self.number;
        let (file, id) = match self.process.threads.entry(tid) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => *new.insert((number, new_thread(out)?)),
        };
        if file != number {
            return Err(format!(
                "is of thread {tid}, which is in another file too; traces by core are not read"
            ));
        }
        let at = self.running.iter().position(|running| running.id == id);
        self.current = Some(at.unwrap_or_else(|| {
            self.running.push(Running {
                id,
                fetched: Fetched::default(),
                class: None,
                iterates: false,
                in_kernel: false,
            });
            self.running.len() - 1
        }));
        Ok(())
    }
    fn access(&mut self, kind: AccessKind, addr: u64, size: u16) -> Result<(), String> {
        let running = self.now()?;
        match (running.in_kernel, size) {
            (true, _) => Ok(()),
            // A save of the processor's state, whose size the recorder does not know.
            (false, 0) => {
                self.process.unsized_accesses += 1;
                Ok(())
            }
            (false, size) => running.fetched.access(kind, addr, u64::from(size)),
        }
    }
    fn instruction(
        &mut self,
        out: &mut Assembler,
        kind: u16,
        size: u16,
        pc: u64,
    ) -> Result<(), String> {
        if self.now()?.in_kernel {
            self.process.kernel += 1;
            return Ok(());
        }
        let n = self.current.unwrap_or(0);
        let last = &self.running[n].fetched;
        let iterates = match kind {
            kind::NO_FETCH => true,
            kind::MAYBE_FETCH => last.is_some() && last.pc() == pc,
            _ => false,
        };
        self.retire(out, n, Some((pc, iterates)));
        let running = &mut self.running[n];
        running.iterates = iterates;
        running.class = match kind {
            kind::DIRECT_JUMP => Some(OpClass::Jump),
            kind::INDIRECT_JUMP => Some(OpClass::IndirectJump),
            kind::CONDITIONAL_JUMP | kind::TAKEN_JUMP | kind::UNTAKEN_JUMP => {
                Some(OpClass::CondBranch)
            }
            kind::DIRECT_CALL => Some(OpClass::Call),
            kind::INDIRECT_CALL => Some(OpClass::IndirectCall),
            kind::RETURN => Some(OpClass::Return),
            kind::SYSENTER => Some(OpClass::Syscall),
            _ => None,
        };
        running.fetched.begin(pc, u64::from(size))
    }
    /// Several instructions in a row, by their lengths.
    fn bundle(&mut self, out: &mut Assembler, count: u16, lengths: u64) -> Result<(), String> {
        let lengths = lengths.to_le_bytes();
        let lengths = lengths.get(..usize::from(count));
        let lengths = lengths.ok_or("is a bundle of more than 8 instructions")?;
        for len in lengths {
            let last = &self.now()?.fetched;
            if !last.is_some() && !self.now()?.in_kernel {
                return Err("is a bundle without an instruction before it".into());
            }
            let pc = self.now()?.fetched.fallthrough();
            self.instruction(out, kind::INSTR, u16::from(*len), pc)?;
        }
        Ok(())
    }
    fn marker(&mut self, out: &mut Assembler, marker: u16) -> Result<(), String> {
        // Markers of the file as a whole stand before the first thread.
        let Some(n) = self.current else { return Ok(()) };
        match marker {
            marker::SYSCALL => self.running[n].class = Some(OpClass::Syscall),
            marker::SYSCALL_TRACE_START | marker::CONTEXT_SWITCH_START => {
                self.retire(out, n, None);
                self.running[n].in_kernel = true;
            }
            marker::SYSCALL_TRACE_END | marker::CONTEXT_SWITCH_END => {
                self.running[n].in_kernel = false;
            }
            _ => {}
        }
        Ok(())
    }
    /// Executes what thread `n` of the file fetched last, now that the address of the next
    /// instruction is known and whether it goes on with the same string operation.
    fn retire(&mut self, out: &mut Assembler, n: usize, next: Option<(u64, bool)>) {
        let running = &mut self.running[n];
        let fetched = &running.fetched;
        if !fetched.is_some() {
            return;
        }
        let repeats = running.iterates || next == Some((fetched.pc(), true));
        let class = running.class.unwrap_or_else(|| fetched.plain_class());
        let inst = self.process.sites.find(out, fetched, class, repeats);
        out.execute(running.id, inst, fetched.accesses());
        running.fetched.clear();
    }
}
