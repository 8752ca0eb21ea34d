//! Accesses in columns: text with a header, separated by commas or tabs. Parquet has the same
//! columns and comes here as such a text.
//!
//! | column | what |
//! |---|---|
//! | `thread` | a whole number; threads are numbered in the order of their first rows |
//! | `instructions` | instructions of the thread before the one that makes the access |
//! | or `time_ps`, `time_ns`, …, `time_s` | when; 3 instructions pass in a nanosecond |
//! | `address` | first byte, decimal or hexadecimal with `0x` |
//! | `size` | bytes |
//! | `op` | R or W, read or write, load or store |
//!
//! Columns stand in any order, others are not read. Within a thread, instructions and times do not
//! fall. Rows of a thread with one number of instructions are one instruction; a write right after
//! a read of the same bytes is its update. With times, each row is an instruction of its own, and a
//! thread starts with its first row.

use crate::assembler::Assembler;
use crate::dictionary::AccessKind;
use crate::file::TraceFile;
use crate::foreign::columns::{self, Picker, quoted};
use crate::foreign::fetched::Fetched;
use crate::foreign::memory::MemoryOnly;
use crate::foreign::walk::{Walk, Window};
use crate::foreign::{ExportOptions, ForeignError, ImportOptions, Notes, Source, new_thread};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::{BufWriter, Write};
use std::path::Path;
use units::ThreadId;

/// The header of an exported table.
pub const HEADER: &str = "thread,instructions,address,size,op";

/// Picoseconds of a nanosecond.
const NANO: u128 = 1_000;
/// Instructions of a nanosecond: one each cycle of 3 GHz.
const PER_NANOSECOND: u128 = 3;
/// Instructions without access before a row, if the table counts them: a wrong number must not
/// fill the memory.
const LONGEST_GAP: u128 = 100_000_000;
/// Address and length of the instruction that collects accesses; [`MemoryOnly`] makes the real one.
const MADE_UP: (u64, u64) = (0, 1);

/// Whether `head` begins with a header of such columns.
pub(crate) fn recognise(_: &Source<'_>, head: &[u8]) -> bool {
    let mut lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let header = lines.find(|line| !matches!(line.first(), None | Some(b'#')));
    header.is_some_and(|line| {
        let names = columns::names(line, columns::separator(line));
        ["thread", "address"]
            .iter()
            .all(|name| names.iter().any(|found| found == name))
    })
}

/// Adds the table in `source` to `out`.
pub(crate) fn import(
    source: &Source<'_>,
    options: &ImportOptions,
    out: &mut Assembler,
) -> Result<Notes, ForeignError> {
    let mut reader = source.open()?;
    let mut table: Option<Table> = None;
    while let Some(line) = reader.line()? {
        let line = line.trim_start_matches('\u{feff}').trim_ascii().as_bytes();
        if matches!(line.first(), None | Some(b'#')) {
            continue;
        }
        let done = match &mut table {
            Some(table) => table.row(line, out),
            None => Table::new(line, options, out).map(|new| table = Some(new)),
        };
        done.map_err(|problem| reader.fail(problem))?;
    }
    match table {
        Some(table) => Ok(table.end(out)),
        None => Err(reader.fail_behind(format!("is missing: begin with {HEADER}"))),
    }
}

/// How far apart accesses are.
#[derive(Clone, Copy)]
enum Clock {
    Instructions,
    /// Picoseconds of its unit.
    Time(u64),
}

/// A thread that rows belong to.
struct Thread {
    id: ThreadId,
    /// Instructions or picoseconds of its last row.
    last: u128,
    /// The instruction whose accesses are still coming.
    fetched: Fetched,
}

impl Thread {
    /// Executes the instruction whose accesses are all there now.
    fn retire(&mut self, memory: &MemoryOnly, out: &mut Assembler) {
        if self.fetched.is_some() {
            memory.access(out, self.id, self.fetched.accesses());
            self.fetched.clear();
        }
    }
}

struct Table {
    /// Thread, clock, address, size, op.
    columns: Picker<5>,
    clock: Clock,
    memory: MemoryOnly,
    threads: BTreeMap<u64, Thread>,
}

impl Table {
    fn new(header: &[u8], options: &ImportOptions, out: &mut Assembler) -> Result<Self, String> {
        let separator = columns::separator(header);
        let found = columns::names(header, separator);
        let find = |name| columns::find(&found, &[name]);
        let (clock, place) = match (find("instructions"), columns::find_time(&found)) {
            (Ok(place), _) => (Clock::Instructions, place),
            (Err(_), Ok((place, unit))) => (Clock::Time(unit), place),
            (Err(_), Err(problem)) if problem.contains("without a unit") => return Err(problem),
            (Err(_), Err(_)) => {
                return Err(columns::missing(&found, &["instructions", "time_ns"]));
            }
        };
        Ok(Self {
            columns: Picker {
                separator,
                fields: found.len(),
                places: [
                    find("thread")?,
                    place,
                    find("address")?,
                    find("size")?,
                    find("op")?,
                ],
            },
            clock,
            memory: MemoryOnly::new(out, options.dependencies),
            threads: BTreeMap::new(),
        })
    }
    fn row(&mut self, line: &[u8], out: &mut Assembler) -> Result<(), String> {
        let [thread, clock, address, size, op] = self.columns.pick(line)?;
        let number = |name: &str, field: &[u8]| {
            let problem = || format!("has no whole number as {name}: {}", quoted(field));
            columns::whole(field).ok_or_else(problem)
        };
        let thread = number("thread", thread)?;
        let (address, size) = (number("address", address)?, number("size", size)?);
        let kind = match columns::is_write(op) {
            Some(true) => AccessKind::Store,
            Some(false) => AccessKind::Load,
            None => return Err(format!("is neither a read nor a write: {}", quoted(op))),
        };
        let now = match self.clock {
            Clock::Instructions => u128::from(number("instructions", clock)?),
            Clock::Time(unit) => columns::picos(clock, unit)
                .ok_or_else(|| format!("has no time in whole picoseconds: {}", quoted(clock)))?,
        };
        let thread = self.place(out, thread, now)?;
        thread.fetched.access(kind, address, size)
    }
    /// Brings `thread` to the instruction that makes an access at `now`.
    fn place(
        &mut self,
        out: &mut Assembler,
        thread: u64,
        now: u128,
    ) -> Result<&mut Thread, String> {
        let is_new = !self.threads.contains_key(&thread);
        let thread = match self.threads.entry(thread) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Thread {
                id: new_thread(out)?,
                last: now,
                fetched: Fetched::default(),
            }),
        };
        let since = now
            .checked_sub(std::mem::replace(&mut thread.last, now))
            .ok_or("is earlier than the row of its thread before it")?;
        let gap = match self.clock {
            Clock::Instructions if is_new => now,
            Clock::Instructions if since == 0 => return Ok(thread),
            Clock::Instructions => since - 1,
            Clock::Time(_) => (since * PER_NANOSECOND / NANO).saturating_sub(1),
        };
        thread.retire(&self.memory, out);
        match self.clock {
            Clock::Instructions if gap > LONGEST_GAP => {
                return Err(format!(
                    "is {gap} instructions after its thread's last access; at most {LONGEST_GAP} \
                     are filled in"
                ));
            }
            Clock::Instructions => self.memory.work(out, thread.id, gap as u64),
            // A longer time was spent waiting, and is cut with a note.
            Clock::Time(_) => {
                let gap = u64::try_from(gap).unwrap_or(u64::MAX);
                self.memory.gap(out, thread.id, gap);
            }
        }
        thread.fetched.begin(MADE_UP.0, MADE_UP.1)?;
        Ok(thread)
    }
    fn end(mut self, out: &mut Assembler) -> Notes {
        for thread in self.threads.values_mut() {
            thread.retire(&self.memory, out);
        }
        let mut notes = self.memory.notes();
        notes.push(match self.clock {
            Clock::Instructions => {
                "no instructions in the source: what does not access memory takes one cycle".into()
            }
            Clock::Time(_) => {
                format!("no instructions in the source: {PER_NANOSECOND} pass in a nanosecond")
            }
        });
        notes
    }
}

/// Writes the accesses of `trace` to the file at `path` as such a table.
pub(crate) fn export(
    trace: &TraceFile,
    path: &Path,
    options: &ExportOptions,
) -> Result<Notes, ForeignError> {
    let source = Source::path(path);
    let refuse = |error: std::io::Error| source.fail(format!("cannot be written ({error})"));
    let file = std::fs::File::create(path).map_err(refuse)?;
    let mut out = BufWriter::with_capacity(1 << 17, file);
    writeln!(out, "{HEADER}").map_err(refuse)?;
    for thread in trace.threads() {
        if options.thread.is_none_or(|only| only == thread.id) {
            let window = Window::of(trace, thread.id, options);
            let walk = Walk::new(trace, thread.id, window);
            write_rows(walk, thread.id, &mut out).map_err(refuse)?;
        }
    }
    out.flush().map_err(refuse)?;
    Ok(vec![
        "a table holds accesses only: registers, operations, branches, waits and the instructions \
         after a thread's last access are left out"
            .into(),
    ])
}

/// The rows of a thread.
fn write_rows(mut walk: Walk, thread: ThreadId, out: &mut impl Write) -> std::io::Result<()> {
    let mut instructions = 0_u64;
    while let Some(step) = walk.step() {
        for (kind, (address, size)) in step.accesses {
            let op = if *kind == AccessKind::Store { 'W' } else { 'R' };
            let thread = thread.get();
            writeln!(out, "{thread},{instructions},{address},{size},{op}")?;
        }
        instructions += 1;
    }
    Ok(())
}
