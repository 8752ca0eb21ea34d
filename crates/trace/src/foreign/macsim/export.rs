//! From a capture to MacSim's records.

use super::record::{Record, STATIC_BYTES};
use super::{KIND, LIST, TAIL, TAIL_CODE, TAIL_INST, VERSION, opcode};
use crate::dictionary::AccessKind;
use crate::dynamic::SyncEvent;
use crate::file::TraceFile;
use crate::foreign::walk::{Step, Walk, Window, births};
use crate::foreign::{ExportOptions, ForeignError, Notes, Source, pin};
use crate::inst::{Inst, OpClass, Reg};
use flate2::Compression;
use flate2::write::GzEncoder;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use units::ThreadId;

/// Bytes handed to the packer at a time.
const BLOCK: usize = 64 << 10;
/// Where the addresses of instructions stand that have no room left in their own bytes.
const ELSEWHERE: u64 = 1 << 40;

/// Writes a directory: the list of threads, and a gzip file for each.
pub(in crate::foreign) fn export(
    trace: &TraceFile,
    directory: &Path,
    options: &ExportOptions,
) -> Result<Notes, ForeignError> {
    let target = Source::path(directory);
    let refuse = |error: std::io::Error| target.fail(format!("cannot be written ({error})"));
    std::fs::create_dir(directory).map_err(refuse)?;
    let births = births(trace);
    let mut export = Export {
        trace,
        shapes: HashMap::default(),
        tail: options.tail,
        split: 0,
        waits: 0,
    };
    let main = ThreadId::new(0);
    let first = directory.join("trace_0.raw");
    let window = Window::of(trace, main, options);
    let mut order: Vec<(u64, ThreadId)> = trace.threads()[1..]
        .iter()
        .map(|thread| {
            (
                births[thread.id.index()].saturating_sub(window.skip),
                thread.id,
            )
        })
        .collect();
    order.sort();
    let marks: Vec<u64> = order.iter().map(|(at, _)| *at).collect();
    let starts = export
        .thread(main, window, &first, &marks)
        .map_err(refuse)?;
    let mut list = format!("{KIND} {VERSION}\n{}\n0 0\n", trace.threads().len());
    for (n, ((_, thread), start)) in order.iter().zip(&starts).enumerate() {
        let file = directory.join(format!("trace_{}.raw", n + 1));
        let window = Window::of(trace, *thread, options);
        export.thread(*thread, window, &file, &[]).map_err(refuse)?;
        list += &format!("{} {start}\n", n + 1);
    }
    std::fs::write(directory.join(LIST), list).map_err(refuse)?;
    Ok(export.notes(order.iter().map(|(_, thread)| *thread)))
}

struct Export<'a> {
    trace: &'a TraceFile,
    /// What each address is: the reference decodes an address once and keeps what it saw.
    shapes: HashMap<u64, [u8; STATIC_BYTES], FxBuildHasher>,
    /// Instructions that do nothing at the end of each thread.
    tail: u64,
    /// Records beyond the first of an instruction.
    split: u64,
    /// Waits and wakes left out.
    waits: u64,
}

impl Export<'_> {
    /// Writes one thread; for each of `marks`, in instructions, the records written by then.
    ///
    /// The reference counts a record when it reads ahead, never the last one, and starts a thread
    /// only on exactly its count, in the order of the list: so a mark beyond the end is the last
    /// count that is reached.
    fn thread(
        &mut self,
        thread: ThreadId,
        window: Window,
        path: &Path,
        marks: &[u64],
    ) -> std::io::Result<Vec<u64>> {
        // The packer takes blocks: record by record it is ten times slower.
        let packer = GzEncoder::new(File::create(path)?, Compression::fast());
        let mut out = BufWriter::with_capacity(BLOCK, packer);
        let mut walk = Walk::new(self.trace, thread, window);
        let (mut executed, mut written) = (0_u64, 0_u64);
        let mut starts = Vec::new();
        let mut records = Vec::new();
        while let Some(step) = walk.step() {
            records.clear();
            self.records(&step, &mut records);
            for record in &records {
                out.write_all(&record.to_bytes())?;
            }
            executed += 1;
            written += records.len() as u64;
            while starts.len() < marks.len() && marks[starts.len()] <= executed {
                let mark = marks[starts.len()];
                starts.push(if mark == 0 { 0 } else { written });
            }
        }
        for n in 0..self.tail {
            out.write_all(&quiet(n).to_bytes())?;
        }
        out.into_inner()?.finish()?.flush()?;
        starts.resize(marks.len(), u64::MAX);
        let last = (written + self.tail).saturating_sub(2).min(written);
        Ok(starts.into_iter().map(|start| start.min(last)).collect())
    }

    /// The records of one instruction: two loads of one size and a store fit into one.
    fn records(&mut self, step: &Step<'_>, out: &mut Vec<Record>) {
        let kept = matches!(
            step.sync,
            None | Some(
                SyncEvent::ThreadCreate { .. } | SyncEvent::ThreadExit | SyncEvent::Syscall { .. }
            )
        );
        self.waits += u64::from(!kept);
        let inst = &step.inst;
        let mut open = describe(inst);
        for (kind, (addr, bytes)) in step.accesses {
            let fits = match kind {
                AccessKind::Load => {
                    !open.stores && open.loads < 2 && (open.loads == 0 || open.load_bytes == *bytes)
                }
                _ => !open.stores,
            };
            if !fits {
                out.push(std::mem::replace(&mut open, describe(inst)));
            }
            if *kind == AccessKind::Load {
                open.load[usize::from(open.loads)] = *addr;
                open.load_bytes = *bytes;
                open.loads += 1;
            } else {
                (open.stores, open.store, open.store_bytes) = (true, *addr, *bytes);
            }
        }
        if inst.class == OpClass::Fence {
            open.load[1] = 1;
        }
        out.push(open);
        self.split += out.len() as u64 - 1;
        for record in out.iter_mut() {
            self.place(record);
        }
        let last = out.last_mut().expect("an instruction has a record");
        if inst.class.is_branch() || inst.class == OpClass::Syscall {
            last.taken = step.taken || inst.class != OpClass::CondBranch;
            last.target = step.next.unwrap_or(inst.fallthrough());
        }
    }

    /// Gives the record an address at which no other kind of record stands: its own, else one in
    /// its own bytes.
    fn place(&mut self, record: &mut Record) {
        let (pc, len) = (record.pc, record.len);
        let inside = (0..len).map(|n| (pc.wrapping_add(n.into()), len - n));
        let elsewhere = (1..).map(|n| (pc.wrapping_add(ELSEWHERE * n), len));
        for (addr, len) in inside.chain(elsewhere) {
            (record.pc, record.len) = (addr, len);
            let bytes = record.to_bytes();
            let fixed: [u8; STATIC_BYTES] = core::array::from_fn(|n| bytes[n]);
            if *self.shapes.entry(addr).or_insert(fixed) == fixed {
                return;
            }
        }
    }

    fn notes(&self, others: impl Iterator<Item = ThreadId>) -> Notes {
        let mut notes = Vec::new();
        if self.tail > 0 {
            notes.push(format!(
                "{} instructions that do nothing end each thread, because the simulator loses a \
                 thread that is switched near its end; an import leaves them out",
                self.tail
            ));
        }
        if self.split > 0 {
            notes.push(format!(
                "{} records beyond the first of an instruction: those with more than two loads \
                 and a store are several instructions there",
                self.split
            ));
        }
        if self.waits > 0 {
            notes.push(format!(
                "{} waits, wakes and joins are system calls without effect there",
                self.waits
            ));
        }
        let order: Vec<_> = others.collect();
        if order
            .iter()
            .enumerate()
            .any(|(n, thread)| thread.index() != n + 1)
        {
            let order: Vec<_> = order.iter().map(ThreadId::to_string).collect();
            notes.push(format!(
                "threads are numbered by their start: thread 1 and up are {}",
                order.join(", ")
            ));
        }
        notes
    }
}

/// Instruction `n` of a tail.
fn quiet(n: u64) -> Record {
    Record {
        opcode: opcode::TR_NOP,
        len: TAIL_INST,
        pc: TAIL + n * u64::from(TAIL_INST) % TAIL_CODE,
        ..Record::default()
    }
}

/// A record of the instruction without its accesses.
fn describe(inst: &Inst) -> Record {
    let kind = opcode::kind(inst);
    let fence = inst.class == OpClass::Fence;
    Record {
        sources: pin::numbers(inst.address_reads.iter().chain(&inst.reads)),
        targets: if fence {
            Vec::new()
        } else {
            // From an instruction's second execution on the simulator knows only the first one.
            let mut targets = pin::numbers(inst.writes.iter());
            targets.sort_by_key(|number| *number == pin::FLAGS);
            targets
        },
        branch: kind.branch,
        opcode: kind.opcode,
        floating: kind.floating,
        writes_flags: inst.writes.contains(&Reg::FLAGS),
        len: inst.len,
        pc: inst.pc,
        ..Record::default()
    }
}
