//! Traces of other tools, in and out.
//!
//! An importer reads records one after the other, so that memory never holds the foreign file, and
//! assembles a capture from them. What a format cannot say is assumed, and each assumption is a
//! sentence in the capture's provenance. What a capture says and a format cannot is left out on
//! export, and each loss is a sentence of the answer.
//!
//! Invariant: no bytes make an importer panic; a malformed file gives one sentence that names the
//! file, the record, and the record's offset in the unpacked file.

pub mod block;
pub mod source;
pub mod table;

mod champsim;
mod columns;
mod drmemtrace;
mod fetched;
mod lackey;
mod lines;
mod macsim;
mod memory;
mod mqsim_cxl;
mod pin;
mod pinatrace;
mod walk;
mod zip;

use crate::assembler::Assembler;
use crate::error::{Fault, TraceError};
use crate::file::TraceFile;
use crate::provenance::Provenance;
pub use source::{Reader, Source};
use std::path::Path;

/// A format of traces.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Format {
    /// Our own.
    Etr,
    /// MacSim's x86 traces, as SkyByte's artifact runs them.
    Macsim,
    /// SkyByte's memory traces for warming the device.
    Pinatrace,
    /// ChampSim's instruction traces.
    Champsim,
    /// Valgrind's lackey.
    Lackey,
    /// DynamoRIO.
    Drmemtrace,
    /// MQSim_CXL.
    MqsimCxl,
    /// Accesses in columns.
    Csv,
}

/// What the table knows of a format: one row each.
struct Row {
    format: Format,
    /// As on the command line.
    name: &'static str,
    /// What it is, in a line.
    summary: &'static str,
    /// Whether content is enough to recognise it.
    recognise: Option<fn(&Source<'_>, &[u8]) -> bool>,
    import: Option<Import>,
    export: Option<Export>,
}

/// An importer: adds to the assembler, and says what it assumed.
type Import = fn(&Source<'_>, &ImportOptions, &mut Assembler) -> Result<Notes, ForeignError>;
/// An exporter: writes to the path, which has a temporary name, and says what it left out.
type Export = fn(&TraceFile, &Path, &ExportOptions) -> Result<Notes, ForeignError>;

/// Sentences on what was assumed or left out.
pub type Notes = Vec<String>;

/// The formats, those that are recognised by a magic number first.
const TABLE: &[Row] = &[
    Row {
        format: Format::Etr,
        name: "etr",
        summary: "captures of `entresol trace record`",
        recognise: Some(|_, head| head.starts_with(&crate::container::MAGIC)),
        import: None,
        export: None,
    },
    Row {
        format: Format::Macsim,
        name: "macsim",
        summary: "MacSim x86 1.3: a directory with trace.txt, or one thread's records",
        recognise: Some(macsim::recognise),
        import: Some(macsim::import),
        export: Some(macsim::export),
    },
    Row {
        format: Format::Pinatrace,
        name: "pinatrace",
        summary: "SkyByte's warm-up accesses: a directory of pinatrace.out.N, or one of them",
        recognise: None,
        import: Some(pinatrace::import),
        export: Some(pinatrace::export),
    },
    Row {
        format: Format::Champsim,
        name: "champsim",
        summary: "ChampSim input_instr, plain, gzip or xz",
        recognise: None,
        import: Some(champsim::import),
        export: Some(champsim::export),
    },
    Row {
        format: Format::Lackey,
        name: "lackey",
        summary: "text of `valgrind --tool=lackey --trace-mem=yes`",
        recognise: Some(lackey::recognise),
        import: Some(lackey::import),
        export: None,
    },
    Row {
        format: Format::Drmemtrace,
        name: "drmemtrace",
        summary: "DynamoRIO's offline traces, post-processed: a directory, or a file of it",
        recognise: Some(drmemtrace::recognise),
        import: Some(drmemtrace::import),
        export: None,
    },
    Row {
        format: Format::MqsimCxl,
        name: "mqsim-cxl",
        summary: "MQSim_CXL's text: time, device, address, size, type",
        recognise: Some(mqsim_cxl::recognise),
        import: Some(mqsim_cxl::import),
        export: None,
    },
    Row {
        format: Format::Csv,
        name: "csv",
        summary: "accesses in columns: thread, instructions or time_ns, address, size, op",
        recognise: Some(table::recognise),
        import: Some(table::import),
        export: Some(table::export),
    },
];

impl Format {
    /// Every format.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.format)
    }
    /// The format with this name on the command line.
    pub fn from_name(name: &str) -> Option<Self> {
        let row = TABLE.iter().find(|row| row.name == name)?;
        Some(row.format)
    }
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        self.row().name
    }
    /// What it is, in a line.
    pub fn summary(self) -> &'static str {
        self.row().summary
    }
    /// Whether captures can be made from it.
    pub fn imports(self) -> bool {
        self.row().import.is_some()
    }
    /// Whether captures can be turned into it.
    pub fn exports(self) -> bool {
        self.row().export.is_some()
    }
    /// Whether content tells it; otherwise it has to be named (D23).
    pub fn is_recognised(self) -> bool {
        self.row().recognise.is_some()
    }

    fn row(self) -> &'static Row {
        let row = TABLE.iter().find(|row| row.format == self);
        row.expect("every format has a row")
    }
}

/// What a memory access without registers depends on.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Dependencies {
    /// Nothing: all accesses are independent, so memory-level parallelism is as large as the
    /// window allows.
    #[default]
    None,
    /// The address of each access on the load before it in its thread: no two loads overlap.
    Chain,
}

/// How to read a foreign trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImportOptions {
    /// What accesses depend on where the source does not say.
    pub dependencies: Dependencies,
    /// By how much the tool that recorded times slowed the program down, in thousandths: time
    /// between two accesses divided by it is time of the program.
    pub slowdown_milli: u64,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self {
            dependencies: Dependencies::None,
            slowdown_milli: 55_000,
        }
    }
}

/// A share of a thread's instructions, or a number of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Portion {
    /// That many instructions of each thread.
    Instructions(u64),
    /// That share of each thread's instructions.
    Share(units::Ratio),
}

impl Portion {
    /// The portion of a thread with that many instructions.
    pub fn of(self, instructions: u64) -> u64 {
        match self {
            Self::Instructions(count) => count.min(instructions),
            Self::Share(share) => share.of(instructions).min(instructions),
        }
    }
}

/// Which part of a capture to export, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExportOptions {
    /// Left out at the start of each thread.
    pub skip: Portion,
    /// Exported after that; all that is left if `None`.
    pub limit: Option<Portion>,
    /// The only thread to export, for formats that hold one.
    pub thread: Option<units::ThreadId>,
    /// Slowdown to write into times, in thousandths.
    pub slowdown_milli: u64,
    /// Instructions that do nothing at the end of each thread, for MacSim, which loses a thread
    /// that is switched less than 256 operations before its end.
    pub tail: u64,
}

impl Default for ExportOptions {
    fn default() -> Self {
        Self {
            skip: Portion::Instructions(0),
            limit: None,
            thread: None,
            slowdown_milli: ImportOptions::default().slowdown_milli,
            tail: 3000,
        }
    }
}

/// A foreign trace that cannot be used, or a file that cannot be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForeignError {
    /// The file as the user named it, or the file of a directory.
    pub file: String,
    /// The record's number, from 1; of a text, its line. 0 if the file as a whole is wrong.
    pub record: u64,
    /// Where the record begins in the uncompressed stream, in bytes.
    pub offset: u64,
    /// What is wrong with it, as the end of a sentence that begins with the record.
    pub problem: String,
}

impl core::fmt::Display for ForeignError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", TraceError::from(self.clone()))
    }
}

impl From<ForeignError> for TraceError {
    fn from(error: ForeignError) -> Self {
        let (record, offset, problem) = (error.record, error.offset, error.problem);
        let fault = match record {
            0 => Fault::Unusable(problem),
            _ => Fault::Record {
                record,
                offset,
                problem,
            },
        };
        fault.of(&error.file)
    }
}

/// A foreign trace as a capture.
pub struct Imported {
    /// The bytes of the capture, as they stand in a `.etr` file.
    pub bytes: Vec<u8>,
    /// The format that was read.
    pub format: Format,
    /// What was assumed; the capture's provenance says it too.
    pub notes: Notes,
}

/// Threads of an imported capture at most: each takes some 50 KiB while it is made. A file that
/// names more has something else in its place.
const MOST_THREADS: usize = 4096;

/// One more thread of the capture.
///
/// # Errors
/// When there are too many: the end of a sentence about the record that names it.
fn new_thread(out: &mut Assembler) -> Result<units::ThreadId, String> {
    if out.threads() < MOST_THREADS {
        Ok(out.thread())
    } else {
        Err(format!(
            "begins thread number {}; at most {MOST_THREADS} are imported",
            MOST_THREADS + 1
        ))
    }
}

/// Bytes of a file that are looked at to recognise its format.
const HEAD: usize = 4096;

/// The format of the file or directory at `path`, told by its content.
pub fn recognise(path: &Path) -> Option<Format> {
    let source = Source::path(path);
    let head = source.head(HEAD);
    let fits = |row: &&Row| row.recognise.is_some_and(|fits| fits(&source, &head));
    let row = TABLE.iter().find(fits)?;
    Some(row.format)
}

/// The format of `path`: the one named, or else the one its name (`.etr`) or content tells.
///
/// # Errors
/// When nothing is there, or none is named and the content tells none.
pub fn format_of(path: &Path, named: Option<Format>) -> Result<Format, TraceError> {
    let name = path.display().to_string();
    std::fs::metadata(path).map_err(|error| Fault::from(error).of(&name))?;
    // A damaged capture of ours is told so, not asked for its format.
    let ours = path.is_file() && path.extension().is_some_and(|end| end == "etr");
    let told = || {
        if ours {
            Some(Format::Etr)
        } else {
            recognise(path)
        }
    };
    named.or_else(told).ok_or_else(|| {
        let names: Vec<_> = Format::all()
            .filter(|f| f.imports())
            .map(Format::name)
            .collect();
        let problem = format!(
            "is in no format that its content tells; some have no mark and need to be named: \
             --format {}",
            names.join("|")
        );
        Fault::Unusable(problem).of(&name)
    })
}

/// Makes a capture from the foreign trace at `path`.
///
/// # Errors
/// When the trace is malformed, holds no instruction, or is of a format that is not imported.
pub fn import(
    path: &Path,
    format: Format,
    options: &ImportOptions,
) -> Result<Imported, TraceError> {
    import_source(&Source::path(path), format, options).map_err(TraceError::from)
}

/// Makes a capture from the foreign trace in `source`.
///
/// # Errors
/// As [`import`].
pub fn import_source(
    source: &Source<'_>,
    format: Format,
    options: &ImportOptions,
) -> Result<Imported, ForeignError> {
    let refuse = || source.fail(format!("cannot be imported from {}", format.name()));
    let import = format.row().import.ok_or_else(refuse)?;
    let mut out = Assembler::new();
    let notes = import(source, options, &mut out)?;
    if executed(&out).iter().sum::<u64>() == 0 {
        return Err(source.fail("holds no instruction".into()));
    }
    Ok(imported(out, format, &[source], notes, Vec::new()))
}

/// Makes a capture from a MacSim trace and from the accesses that warm the device before it, as
/// SkyByte's artifact has them (`pinatrace`): each thread begins with the accesses of the file of
/// its number, and what it does there is never measured.
///
/// # Errors
/// As [`import`], and when either holds no instruction.
pub fn import_warmed(
    path: &Path,
    warms: &Path,
    options: &ImportOptions,
) -> Result<Imported, TraceError> {
    let (source, warms) = (Source::path(path), Source::path(warms));
    let mut out = Assembler::new();
    let (notes, numbers) = pinatrace::import_numbered(&warms, options, &mut out)?;
    let notes = notes.into_iter();
    let mut notes: Notes = notes.map(|note| format!("of what warms: {note}")).collect();
    let before = executed(&out);
    notes.extend(macsim::import_behind(&source, &numbers, &mut out)?);
    let all = executed(&out);
    let empty = |source: &Source<'_>| source.fail("holds no instruction".into());
    if before.iter().sum::<u64>() == 0 {
        return Err(empty(&warms).into());
    }
    if all.iter().sum::<u64>() == before.iter().sum::<u64>() {
        return Err(empty(&source).into());
    }
    Ok(imported(
        out,
        Format::Macsim,
        &[&source, &warms],
        notes,
        before,
    ))
}

/// Instructions of each thread so far.
fn executed(out: &Assembler) -> Vec<u64> {
    let threads = (0..out.threads()).map(units::ThreadId::from_index);
    threads.map(|thread| out.executed(thread)).collect()
}

fn imported(
    out: Assembler,
    format: Format,
    sources: &[&Source<'_>],
    notes: Notes,
    mut warms: Vec<u64>,
) -> Imported {
    if !warms.is_empty() {
        warms.resize(out.threads(), 0);
    }
    let mut command = vec!["import".to_string(), format.name().into()];
    command.extend(sources.iter().map(|source| source.file_name().into()));
    let provenance = Provenance {
        command,
        recorder: format!("entresol {}", env!("CARGO_PKG_VERSION")),
        notes: notes.clone(),
        warms,
        ..Provenance::default()
    };
    Imported {
        bytes: out.into_bytes(provenance),
        format,
        notes,
    }
}

/// Writes `trace` in another format to `destination`, which appears whole or not at all.
///
/// # Errors
/// When the format has no exporter, cannot hold the capture, or the file cannot be written.
pub fn export(
    trace: &TraceFile,
    format: Format,
    destination: &Path,
    options: &ExportOptions,
) -> Result<Notes, TraceError> {
    let source = Source::path(destination);
    let fail = |problem: String| TraceError::from(source.fail(problem));
    let Some(export) = format.row().export else {
        return Err(fail(format!("cannot be written as {}", format.name())));
    };
    if destination.is_dir() {
        return Err(fail("is a directory that exists; name a new one".into()));
    }
    let is_of_all = matches!(format, Format::Macsim | Format::Pinatrace);
    if options.thread.is_some() && is_of_all {
        let name = format.name();
        return Err(fail(format!(
            "as {name} holds all threads; leave out --thread"
        )));
    }
    walk::check(trace, options).map_err(fail)?;
    let mut temporary = destination.as_os_str().to_owned();
    temporary.push(".part");
    let temporary = Path::new(&temporary);
    // Never removed unasked: it may be the user's own.
    if temporary.exists() {
        let place = temporary.display();
        return Err(fail(format!(
            "cannot be written while {place} is there; remove that"
        )));
    }
    let named = |error: ForeignError| TraceError {
        file: error
            .file
            .replace(&*temporary.to_string_lossy(), source.name()),
        ..TraceError::from(error)
    };
    let done = export(trace, temporary, options).map_err(named);
    let renamed = done.and_then(|notes| {
        std::fs::rename(temporary, destination)
            .map_err(|error| fail(format!("cannot be written ({error})")))?;
        Ok(notes)
    });
    if renamed.is_err() {
        remove(temporary);
    }
    renamed
}

/// Removes what an export left behind, file or directory; there may be nothing.
fn remove(path: &Path) {
    let removed = if path.is_dir() {
        std::fs::remove_dir_all(path)
    } else {
        std::fs::remove_file(path)
    };
    drop(removed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_found_by_its_name() {
        for format in Format::all() {
            assert_eq!(Format::from_name(format.name()), Some(format));
            assert!(!format.summary().is_empty());
        }
        assert_eq!(Format::from_name("mcasim"), None);
    }
}
