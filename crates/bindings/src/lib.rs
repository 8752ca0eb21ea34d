//! The Python module `entresol._core`: the narrow border between the experiments in Python and
//! the simulator in Rust.
//!
//! Everything crosses as text, numbers or JSON. Each Rust error has its exception. A run releases
//! the interpreter lock; its progress is read, and its cancellation asked for, from other threads.

mod crash;
mod crash_app;
mod device;
mod file_system;
mod flash;
mod foreign;
mod fs_bench;
mod fs_crash;
mod in_loop;
mod recovery_time;
mod replay;
mod serve;
mod shared;
mod steady;
mod transparent_dax;
mod watch;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use serde_json::{Value, json};
use sim::SimError;
use sim::config::{Fidelity, SECTIONS, fidelity, presets};
use sim::recorder::Recording;
use sim::run::{Filters, Mode, Prepared, RunSpec, Windows};
use sim::simulation::Progress;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use units::parameter::{Sections, Texts};
use units::{ThreadId, Time};

/// Filtered threads, for all runs of this process in the fast mode. They are a function of the
/// capture and the cores alone, so that no result depends on who filtered them.
static FILTERS: LazyLock<Arc<Filters>> = LazyLock::new(Arc::default);

pyo3::create_exception!(
    _core,
    EntresolError,
    PyException,
    "Base of all errors of Entresol."
);
pyo3::create_exception!(
    _core,
    TraceError,
    EntresolError,
    "A capture cannot be used."
);
pyo3::create_exception!(
    _core,
    ConfigError,
    EntresolError,
    "The configuration is wrong."
);
pyo3::create_exception!(
    _core,
    CrashError,
    EntresolError,
    "A crash script cannot be run."
);
pyo3::create_exception!(_core, SimulationError, EntresolError, "A run cannot go on.");
pyo3::create_exception!(_core, Interrupted, EntresolError, "A run was cancelled.");

fn to_python(error: SimError) -> PyErr {
    let text = error.to_string();
    match error {
        SimError::Config(_) => ConfigError::new_err(text),
        SimError::Trace(_) | SimError::Mismatch(_) => TraceError::new_err(text),
        SimError::Deadlock { .. } | SimError::Loop(_) => SimulationError::new_err(text),
        SimError::Interrupted => Interrupted::new_err(text),
    }
}

pub(crate) fn trace_error(error: trace::TraceError) -> PyErr {
    TraceError::new_err(error.to_string())
}

/// The version of Entresol.
#[pyfunction]
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// A capture in numbers, as JSON.
#[pyfunction]
fn trace_info(py: Python<'_>, path: &str, blocks: bool) -> PyResult<String> {
    let mut interruption = None;
    let described = py.detach(|| {
        let mut gives_up = || {
            interruption = Python::attach(|py| py.check_signals()).err();
            interruption.is_some()
        };
        match blocks {
            true => trace::info_unless(path, &mut gives_up),
            false => trace::counts_unless(path, &mut gives_up),
        }
    });
    let info = described.map_err(|error| interruption.unwrap_or_else(|| trace_error(error)))?;
    let ratio = info.write_ratio();
    let threads: Vec<Value> = info
        .threads
        .iter()
        .map(|thread| {
            json!({
                "thread": thread.id.get(),
                "parent": thread.parent.map(ThreadId::get),
                "instructions": thread.instructions,
                "loads": thread.loads,
                "stores": thread.stores,
            })
        })
        .collect();
    let blocks: Vec<Value> = info
        .top_blocks
        .iter()
        .map(|block| json!({"pc": format!("{:#x}", block.pc), "instructions": block.instructions}))
        .collect();
    let provenance = &info.provenance;
    Ok(json!({
        "threads": info.threads.len(),
        "instructions": info.instructions,
        "loads": info.loads,
        "stores": info.stores,
        "footprint_pages": info.footprint_pages,
        "write_ratio_milli": sim::result::milli(ratio.numerator(), ratio.denominator()),
        "file_bytes": info.file_bytes,
        "version": info.version,
        "digest": format!("{:08x}", info.checksum),
        "per_thread": threads,
        "top_blocks": blocks,
        "provenance": {
            "command": provenance.command,
            "program_digest": provenance.program_digest,
            "emulator": provenance.emulator,
            "recorder": provenance.recorder,
            "roi": provenance.roi,
            "skip": provenance.skip,
            "limit": provenance.limit,
            "notes": provenance.notes,
            "warms": provenance.warms,
        },
    })
    .to_string())
}

/// The first instructions of a thread, one line each.
#[pyfunction]
fn trace_head(path: &str, thread: u32, count: usize) -> PyResult<Vec<String>> {
    trace::head(path, ThreadId::new(thread), count).map_err(trace_error)
}

fn presets_json(presets: &[presets::Preset]) -> String {
    let list: Vec<Value> = presets
        .iter()
        .map(|preset| json!({"name": preset.name, "summary": preset.summary}))
        .collect();
    Value::Array(list).to_string()
}

/// The designs, as JSON.
#[pyfunction]
fn designs() -> String {
    let list: Vec<Value> = presets::DESIGNS
        .iter()
        .map(|design| {
            json!({
                "name": design.name,
                "paper_name": design.title,
                "summary": design.summary,
                "section": design.source,
            })
        })
        .collect();
    Value::Array(list).to_string()
}

/// The machines, as JSON.
#[pyfunction]
fn machines() -> String {
    presets_json(presets::MACHINES)
}

/// The NAND types, as JSON.
#[pyfunction]
fn nand_types() -> String {
    presets_json(presets::NAND_TYPES)
}

/// The fidelity switches with what their files say of them, as JSON.
#[pyfunction]
fn fidelity_switches() -> String {
    let list: Vec<Value> = fidelity::SWITCHES
        .iter()
        .map(|switch| {
            let header = switch.header();
            json!({
                "name": switch.name,
                "title": header.title,
                "summary": header.summary,
                "source": header.source,
                "nand_types": header.nand_types,
                "sets": switch.assignments(),
            })
        })
        .collect();
    Value::Array(list).to_string()
}

/// The switches that a fidelity text turns on.
#[pyfunction]
fn fidelity_names(text: &str) -> PyResult<Vec<&'static str>> {
    let fidelity: Fidelity = text.parse().map_err(to_python)?;
    Ok(fidelity.names())
}

/// Every parameter with its documentation, as JSON.
#[pyfunction]
fn parameters() -> String {
    documented(SECTIONS).to_string()
}

/// Keys that parameters once had, each with the one that it has now, as JSON.
#[pyfunction]
fn renamed_parameters() -> String {
    let pairs = sim::config::KNOWN.renamed.iter();
    let pairs = pairs.map(|(old, new)| ((*old).to_owned(), Value::from(*new)));
    Value::Object(pairs.collect()).to_string()
}

/// The documentation of parameters, as JSON.
fn documented(sections: &Sections) -> Value {
    let all = sections
        .iter()
        .flat_map(|(_, parameters)| parameters.iter());
    let list = all.map(|parameter| {
        json!({
            "key": parameter.key,
            "kind": parameter.kind_in_words(),
            "range": parameter.range,
            "source": parameter.source,
            "doc": parameter.doc.split_whitespace().collect::<Vec<_>>().join(" "),
        })
    });
    Value::Array(list.collect())
}

/// Values as text with units, by section and key, as JSON.
fn by_section(texts: Texts) -> Value {
    let object = |values: Vec<(&str, String)>| {
        let pairs = values.into_iter();
        let pairs = pairs.map(|(key, text)| (key.to_owned(), Value::from(text)));
        Value::Object(pairs.collect())
    };
    let sections = texts.into_iter();
    let sections = sections.map(|(section, values)| (section.to_owned(), object(values)));
    Value::Object(sections.collect())
}

/// What is built into the log index, as JSON: sizes in bytes, the load factor in thousandths.
#[pyfunction]
fn log_index() -> String {
    use firmware::log_index::two_level_hash as index;
    json!({
        "first_table_entries": index::FIRST_TABLE_ENTRIES,
        "fullest_milli": index::FULLEST.0 * 1000 / index::FULLEST.1,
        "page_bytes": index::FIRST_LEVEL_ENTRY_BYTES,
        "entry_bytes": index::SECOND_LEVEL_ENTRY_BYTES,
    })
    .to_string()
}

/// The keys that files and `--set` give and the design does not read.
#[pyfunction]
fn unread_keys(
    machine: String,
    design: String,
    nand: Option<String>,
    fidelity: &str,
    files: Vec<(String, String)>,
    overrides: Vec<String>,
) -> PyResult<Vec<String>> {
    let spec = RunSpec {
        trace: String::new(),
        machine,
        design,
        nand,
        fidelity: fidelity.parse().map_err(to_python)?,
        files,
        overrides,
        threads: None,
        is_audited: false,
        mode: Mode::Detailed,
    };
    spec.unread_keys().map_err(to_python)
}

/// The effective configuration as JSON: section → key → text.
#[pyfunction]
fn effective_config(
    machine: String,
    design: String,
    nand: Option<String>,
    fidelity: &str,
    files: Vec<(String, String)>,
    overrides: Vec<String>,
) -> PyResult<String> {
    let spec = RunSpec {
        trace: String::new(),
        machine,
        design,
        nand,
        fidelity: fidelity.parse().map_err(to_python)?,
        files,
        overrides,
        threads: None,
        is_audited: false,
        mode: Mode::Detailed,
    };
    let config = spec.config().map_err(to_python)?;
    Ok(by_section(config.texts()).to_string())
}

/// One run: checked when made, executed once or more, observed and cancelled from other threads.
#[pyclass(frozen)]
struct Run {
    prepared: Prepared,
    phase: AtomicU8,
    instructions: AtomicU64,
    at: AtomicU64,
    is_cancelled: AtomicBool,
}

const PHASES: [&str; 4] = ["waiting", "warm-up", "measured", "done"];

#[pymethods]
impl Run {
    /// Checks everything that can be checked before a run.
    #[new]
    #[pyo3(signature = (
        trace, machine, design, nand, fidelity, files, overrides, threads, audit, mode
    ))]
    #[expect(
        clippy::too_many_arguments,
        reason = "one argument for each thing a run is made of"
    )]
    fn new(
        py: Python<'_>,
        trace: String,
        machine: String,
        design: String,
        nand: Option<String>,
        fidelity: &str,
        files: Vec<(String, String)>,
        overrides: Vec<String>,
        threads: Option<u32>,
        audit: bool,
        mode: &str,
    ) -> PyResult<Self> {
        let is_audited = audit;
        let spec = RunSpec {
            trace,
            machine,
            design,
            nand,
            fidelity: fidelity.parse().map_err(to_python)?,
            files,
            overrides,
            threads,
            is_audited,
            mode: mode.parse().map_err(to_python)?,
        };
        let prepared = py.detach(|| Prepared::new(spec)).map_err(to_python)?;
        let prepared = prepared.sharing(Arc::clone(&FILTERS));
        Ok(Self {
            prepared,
            phase: AtomicU8::new(0),
            instructions: AtomicU64::new(0),
            at: AtomicU64::new(0),
            is_cancelled: AtomicBool::new(false),
        })
    }

    /// Runs and gives the result as JSON.
    fn execute(&self, py: Python<'_>) -> PyResult<String> {
        let mut observe = |progress| self.note(progress);
        let result = py
            .detach(|| self.prepared.execute(&mut observe))
            .map_err(to_python)?;
        self.phase.store(3, Ordering::Relaxed);
        Ok(result.json().to_string())
    }

    /// Measures evenly spaced windows and gives their results as a JSON list.
    fn execute_windows(&self, py: Python<'_>, count: u32, instructions: u64) -> PyResult<String> {
        let windows = Windows {
            count,
            instructions,
        };
        let mut observe = |progress| self.note(progress);
        let results = py
            .detach(|| self.prepared.execute_windows(windows, &mut observe))
            .map_err(to_python)?;
        self.phase.store(3, Ordering::Relaxed);
        let list = results.iter().map(|result| result.json().clone()).collect();
        Ok(Value::Array(list).to_string())
    }

    /// Runs and gives result and recording as a JSON list of two. `span` is in picoseconds of the
    /// measured part.
    fn execute_recorded(
        &self,
        py: Python<'_>,
        span: (u64, u64),
        limit: usize,
        slowest: usize,
    ) -> PyResult<String> {
        let recording = Recording {
            span: Time::from_picos(span.0)..Time::from_picos(span.1),
            limit,
            slowest,
        };
        let mut observe = |progress| self.note(progress);
        let (result, recorded) = py
            .detach(|| self.prepared.execute_recorded(recording, &mut observe))
            .map_err(to_python)?;
        self.phase.store(3, Ordering::Relaxed);
        Ok(json!([result.json(), recorded]).to_string())
    }

    /// How much of each page is used while it is cached, as JSON: one page cache for each ratio of
    /// footprint to cache.
    fn page_locality(&self, py: Python<'_>, ratios: Vec<u32>) -> PyResult<String> {
        let mut observe = |progress| self.note(progress);
        let locality = py
            .detach(|| self.prepared.page_locality(&ratios, &mut observe))
            .map_err(to_python)?;
        self.phase.store(3, Ordering::Relaxed);
        Ok(locality.to_string())
    }

    /// Checks that so many windows of such a length fit in the capture.
    fn check_windows(&self, count: u32, instructions: u64) -> PyResult<()> {
        let windows = Windows {
            count,
            instructions,
        };
        self.prepared.check_windows(windows).map_err(to_python)
    }

    /// Phase, instructions done in it, instructions of the whole run, simulated picoseconds.
    fn progress(&self) -> (&'static str, u64, u64, u64) {
        (
            PHASES[usize::from(self.phase.load(Ordering::Relaxed))],
            self.instructions.load(Ordering::Relaxed),
            self.prepared.instruction_count(),
            self.at.load(Ordering::Relaxed),
        )
    }

    /// Asks the run to stop; `execute` then raises `Interrupted`.
    fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }
}

impl Run {
    /// Notes that the run is done.
    fn finished(&self) {
        self.phase.store(3, Ordering::Relaxed);
    }

    /// Notes how far the run is; says whether it is to go on.
    fn note(&self, progress: Progress) -> bool {
        self.phase
            .store(1 + u8::from(progress.is_measured), Ordering::Relaxed);
        self.instructions
            .store(progress.instructions, Ordering::Relaxed);
        self.at.store(progress.at.as_picos(), Ordering::Relaxed);
        !self.is_cancelled.load(Ordering::Relaxed)
    }
}

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("EntresolError", py.get_type::<EntresolError>())?;
    module.add("TraceError", py.get_type::<TraceError>())?;
    module.add("ConfigError", py.get_type::<ConfigError>())?;
    module.add("CrashError", py.get_type::<CrashError>())?;
    module.add("SimulationError", py.get_type::<SimulationError>())?;
    module.add("Interrupted", py.get_type::<Interrupted>())?;
    serve::add(module)?;
    file_system::add(module)?;
    shared::add(module)?;
    module.add_function(wrap_pyfunction!(version, module)?)?;
    module.add_function(wrap_pyfunction!(trace_info, module)?)?;
    module.add_function(wrap_pyfunction!(trace_head, module)?)?;
    foreign::add(module)?;
    device::add(module)?;
    watch::add(module)?;
    flash::add(module)?;
    recovery_time::add(module)?;
    crash::add(module)?;
    crash_app::add(module)?;
    fs_bench::add(module)?;
    fs_crash::add(module)?;
    module.add_function(wrap_pyfunction!(designs, module)?)?;
    module.add_function(wrap_pyfunction!(machines, module)?)?;
    module.add_function(wrap_pyfunction!(nand_types, module)?)?;
    module.add_function(wrap_pyfunction!(fidelity_switches, module)?)?;
    module.add_function(wrap_pyfunction!(fidelity_names, module)?)?;
    module.add_function(wrap_pyfunction!(parameters, module)?)?;
    module.add_function(wrap_pyfunction!(renamed_parameters, module)?)?;
    module.add_function(wrap_pyfunction!(unread_keys, module)?)?;
    module.add_function(wrap_pyfunction!(effective_config, module)?)?;
    module.add_function(wrap_pyfunction!(log_index, module)?)?;
    in_loop::add(module)?;
    steady::add(module)?;
    module.add_class::<replay::Replay>()?;
    module.add_class::<Run>()
}
