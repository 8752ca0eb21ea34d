//! The memory traces with which SkyByte's artifact warms its device: `pinatrace.out.N`, one file a
//! thread, records of 18 bytes, little-endian:
//!
//! | byte | field |
//! |---|---|
//! | 0 | time in nanoseconds |
//! | 8 | address; of a fork, the number of the thread that starts |
//! | 16 | `R`, `W` or `F` (fork) |
//! | 17 | bytes accessed |
//!
//! The artifact takes whole lines only, at their addresses, so an export has a record for each line
//! that an access touches.
//!
//! There are no instructions. Time becomes instructions at one a cycle of 3 GHz, divided by how
//! much the tool slowed the program down (`--slowdown`; 55 is what the artifact's workloads say).
//! Records of one thread with the same time are one instruction.

use super::memory::MemoryOnly;
use super::source::Reader;
use super::walk::{Walk, Window, births};
use super::{ExportOptions, ForeignError, ImportOptions, Notes, Source, new_thread};
use crate::assembler::Assembler;
use crate::dictionary::AccessKind;
use crate::dynamic::SyncEvent;
use crate::file::TraceFile;
use crate::writer::Operand;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use units::ThreadId;

const BYTES: usize = 18;
/// Bytes of a line.
const LINE: u64 = 64;
/// Cycles of a nanosecond.
const GHZ: u128 = 3;
/// Accesses of one instruction at most.
const MOST: usize = 8;

#[derive(Clone, Copy)]
struct Record {
    time: u64,
    addr: u64,
    kind: u8,
    bytes: u8,
}

impl Record {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, ForeignError> {
        let Some(bytes) = reader.record::<BYTES>()? else {
            return Ok(None);
        };
        let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|n| bytes[at + n]));
        let record = Self {
            time: word(0),
            addr: word(8),
            kind: bytes[16],
            bytes: bytes[17],
        };
        match record.kind {
            b'R' | b'W' if record.bytes == 0 => Err(reader.fail("accesses no byte".into())),
            b'R' | b'W' | b'F' => Ok(Some(record)),
            kind => Err(reader.fail(format!("is of kind {kind:#04x}, not R, W or F"))),
        }
    }
    fn to_bytes(self) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        out[..8].copy_from_slice(&self.time.to_le_bytes());
        out[8..16].copy_from_slice(&self.addr.to_le_bytes());
        (out[16], out[17]) = (self.kind, self.bytes);
        out
    }
}

/// A thread's file, and what the first look at all of them found.
struct Listed<'a> {
    source: Source<'a>,
    id: ThreadId,
    /// Time of its first record.
    first: Option<u64>,
    /// Who starts it, and when.
    parent: Option<(ThreadId, u64)>,
}

/// Reads the files of a directory, or one file as one thread.
pub(super) fn import(
    source: &Source<'_>,
    options: &ImportOptions,
    out: &mut Assembler,
) -> Result<Notes, ForeignError> {
    import_numbered(source, options, out).map(|(notes, _)| notes)
}

/// Which thread each number of a file is.
pub(super) type Numbers = BTreeMap<u64, ThreadId>;

/// As [`import`]; says which thread each file has become.
pub(super) fn import_numbered(
    source: &Source<'_>,
    options: &ImportOptions,
    out: &mut Assembler,
) -> Result<(Notes, Numbers), ForeignError> {
    if options.slowdown_milli == 0 {
        return Err(source.fail("cannot be read with a slowdown of 0".into()));
    }
    let files = source.files()?;
    let (mut threads, numbers) = list(source, &files, out)?;
    link(&mut threads, &numbers)?;
    let roots = threads.iter().filter(|thread| thread.parent.is_none());
    let origin = roots.filter_map(|thread| thread.first).min().unwrap_or(0);
    let mut memory = MemoryOnly::new(out, options.dependencies);
    for thread in &threads {
        let start = thread.parent.map_or(origin, |(_, time)| time);
        let mut replay = Replay {
            memory: &mut memory,
            numbers: &numbers,
            options,
            start,
            position: None,
        };
        replay.thread(&mut thread.source.open()?, thread.id, out)?;
    }
    let mut notes = memory.notes();
    let whole = options.slowdown_milli / 1000;
    let part = options.slowdown_milli % 1000;
    notes.push(format!(
        "no instructions in the source: one a cycle of 3 GHz, the recorded time divided by \
         {whole}.{part:03} (slowdown)"
    ));
    Ok((notes, numbers))
}

/// The threads in order of their numbers, and which thread each number is.
fn list<'a>(
    source: &Source<'_>,
    files: &'a [Source<'a>],
    out: &mut Assembler,
) -> Result<(Vec<Listed<'a>>, Numbers), ForeignError> {
    let mut numbered = Vec::new();
    for file in files {
        let name = file.file_name();
        let name = name.strip_suffix(".gz").unwrap_or(name);
        match name.rsplit('.').next().and_then(|n| n.parse::<u64>().ok()) {
            Some(number) => numbered.push((number, file)),
            None if !source.is_directory() => numbered.push((0, file)),
            None => {}
        }
    }
    numbered.sort_by_key(|(number, _)| *number);
    if numbered.is_empty() {
        return Err(source.fail("holds no file whose name ends with a thread's number".into()));
    }
    let mut numbers = BTreeMap::new();
    let mut threads = Vec::new();
    for (number, file) in numbered {
        let id = new_thread(out).map_err(|problem| file.fail(problem))?;
        if numbers.insert(number, id).is_some() {
            return Err(file.fail(format!("is a second file of thread {number}")));
        }
        threads.push(Listed {
            source: file.clone(),
            id,
            first: None,
            parent: None,
        });
    }
    Ok((threads, numbers))
}

/// Finds who starts whom. A thread that only runs if it ran already is refused.
fn link(threads: &mut [Listed<'_>], numbers: &Numbers) -> Result<(), ForeignError> {
    for n in 0..threads.len() {
        let source = threads[n].source.clone();
        let mut reader = source.open()?;
        while let Some(record) = Record::read(&mut reader)? {
            threads[n].first.get_or_insert(record.time);
            if record.kind != b'F' {
                continue;
            }
            let child = numbers.get(&record.addr);
            let child = child.ok_or_else(|| {
                reader.fail(format!("starts thread {}, which has no file", record.addr))
            })?;
            let again = threads[child.index()].parent.is_some();
            let own_ancestor = {
                let mut at = Some(threads[n].id);
                while at.is_some() && at != Some(*child) {
                    at = at
                        .and_then(|t| threads[t.index()].parent)
                        .map(|(parent, _)| parent);
                }
                at.is_some()
            };
            if again || own_ancestor {
                return Err(
                    reader.fail(format!("starts thread {}, which runs already", record.addr))
                );
            }
            threads[child.index()].parent = Some((threads[n].id, record.time));
        }
    }
    Ok(())
}

/// Turns one thread's records into instructions.
struct Replay<'a> {
    memory: &'a mut MemoryOnly,
    numbers: &'a Numbers,
    options: &'a ImportOptions,
    /// Time of the thread's instruction 0.
    start: u64,
    /// Instruction that was executed last, by its time.
    position: Option<u64>,
}

impl Replay<'_> {
    fn thread(
        &mut self,
        reader: &mut Reader<'_>,
        thread: ThreadId,
        out: &mut Assembler,
    ) -> Result<(), ForeignError> {
        let mut accesses: Vec<(AccessKind, Operand)> = Vec::with_capacity(MOST);
        let mut open_time = 0;
        loop {
            let record = Record::read(reader)?;
            let joins = record
                .is_some_and(|r| r.kind != b'F' && r.time == open_time && accesses.len() < MOST);
            if !accesses.is_empty() && !joins {
                self.pass_to(open_time, thread, out);
                self.memory.access(out, thread, &merged(&mut accesses));
                accesses.clear();
            }
            let Some(record) = record else { return Ok(()) };
            open_time = record.time;
            match record.kind {
                b'F' => {
                    self.pass_to(record.time, thread, out);
                    self.memory.create(out, thread, self.numbers[&record.addr]);
                }
                b'R' => accesses.push((AccessKind::Load, (record.addr, record.bytes))),
                _ => accesses.push((AccessKind::Store, (record.addr, record.bytes))),
            }
        }
    }
    /// Executes what lies between the last instruction and the one at `time`.
    fn pass_to(&mut self, time: u64, thread: ThreadId, out: &mut Assembler) {
        let elapsed = u128::from(time.saturating_sub(self.start));
        let slowdown = u128::from(self.options.slowdown_milli);
        let at = (elapsed * GHZ * 1000 + slowdown / 2) / slowdown;
        let at = u64::try_from(at).unwrap_or(u64::MAX);
        // Times at the end of the range are all one: what happens then goes on one by one.
        let next = self
            .position
            .map_or(0, |position| position.saturating_add(1));
        self.memory.gap(out, thread, at.saturating_sub(next));
        self.position = Some(at.max(next));
    }
}

/// A load directly before a store of the same bytes is an update.
fn merged(accesses: &mut Vec<(AccessKind, Operand)>) -> Vec<(AccessKind, Operand)> {
    let mut out: Vec<(AccessKind, Operand)> = Vec::with_capacity(accesses.len());
    for (kind, operand) in accesses.drain(..) {
        match out.last_mut() {
            Some(last) if kind == AccessKind::Store && *last == (AccessKind::Load, operand) => {
                last.0 = AccessKind::Update;
            }
            _ => out.push((kind, operand)),
        }
    }
    out
}

/// Writes a directory with a file for each thread.
pub(super) fn export(
    trace: &TraceFile,
    directory: &Path,
    options: &ExportOptions,
) -> Result<Notes, ForeignError> {
    let target = Source::path(directory);
    let refuse = |error: std::io::Error| target.fail(format!("cannot be written ({error})"));
    std::fs::create_dir(directory).map_err(refuse)?;
    let births = births(trace);
    for thread in trace.threads() {
        let window = Window::of(trace, thread.id, options);
        // A thread's instruction 0 has the time of the one that created it.
        let born = births[thread.id.index()].saturating_sub(1);
        let born = born.saturating_sub(Window::of(trace, ThreadId::new(0), options).skip);
        let path = directory.join(format!("pinatrace.out.{}", thread.id.index()));
        let mut walk = Walk::new(trace, thread.id, window);
        write(&mut walk, born, options, &path).map_err(refuse)?;
    }
    Ok(vec![
        "only the lines of loads and stores and the creation of threads are kept".into(),
    ])
}

fn write(walk: &mut Walk, born: u64, options: &ExportOptions, path: &Path) -> std::io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    let mut executed = born;
    while let Some(step) = walk.step() {
        let time = u128::from(executed) * u128::from(options.slowdown_milli) / (GHZ * 1000);
        let time = u64::try_from(time).unwrap_or(u64::MAX);
        executed += 1;
        for (kind, (addr, bytes)) in step.accesses {
            let kind = if *kind == AccessKind::Load {
                b'R'
            } else {
                b'W'
            };
            let last = addr.saturating_add(u64::from(*bytes).saturating_sub(1));
            for line in addr / LINE..=last / LINE {
                let record = Record {
                    time,
                    addr: line * LINE,
                    kind,
                    bytes: LINE as u8,
                };
                out.write_all(&record.to_bytes())?;
            }
        }
        if let Some(SyncEvent::ThreadCreate { child }) = step.sync {
            let record = Record {
                time,
                addr: child.index() as u64,
                kind: b'F',
                bytes: 0,
            };
            out.write_all(&record.to_bytes())?;
        }
    }
    out.flush()
}
