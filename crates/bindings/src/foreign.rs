//! Foreign traces for Python: formats, import, export.

use crate::trace_error;
use pyo3::prelude::*;
use serde_json::{Value, json};
use std::path::Path;
use trace::foreign::{self, Dependencies, ExportOptions, Format, ImportOptions, Portion};
use trace::{Fault, TraceError, TraceFile};
use units::ThreadId;

/// Adds these functions to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(trace_formats, module)?)?;
    module.add_function(wrap_pyfunction!(trace_format, module)?)?;
    module.add_function(wrap_pyfunction!(trace_import, module)?)?;
    module.add_function(wrap_pyfunction!(trace_export, module)?)
}

/// The formats, as JSON.
#[pyfunction]
fn trace_formats() -> String {
    let describe = |format: Format| {
        json!({
            "name": format.name(),
            "summary": format.summary(),
            "imports": format.imports(),
            "exports": format.exports(),
            "recognised": format.is_recognised(),
        })
    };
    Value::Array(Format::all().map(describe).collect()).to_string()
}

fn named(name: &str) -> Result<Format, TraceError> {
    let unknown = || Fault::Unusable("is not a format of traces".into()).of(name);
    Format::from_name(name).ok_or_else(unknown)
}

/// The format of a trace.
#[pyfunction]
#[pyo3(signature = (path, named))]
fn trace_format(path: &str, named: Option<&str>) -> PyResult<&'static str> {
    let known = named.map(self::named).transpose();
    let format = known.and_then(|format| foreign::format_of(Path::new(path), format));
    Ok(format.map_err(trace_error)?.name())
}

/// Makes a capture from a foreign trace at `destination`, of MacSim with what warms before it; the
/// assumptions.
#[pyfunction]
#[pyo3(signature = (path, format, destination, dependencies, slowdown_milli, warms))]
fn trace_import(
    py: Python<'_>,
    path: &str,
    format: &str,
    destination: &str,
    dependencies: &str,
    slowdown_milli: u64,
    warms: Option<&str>,
) -> PyResult<Vec<String>> {
    let options = ImportOptions {
        dependencies: match dependencies {
            "chain" => Dependencies::Chain,
            _ => Dependencies::None,
        },
        slowdown_milli,
    };
    let import = || {
        let (path, format) = (Path::new(path), named(format)?);
        let imported = match warms {
            Some(warms) => foreign::import_warmed(path, Path::new(warms), &options)?,
            None => foreign::import(path, format, &options)?,
        };
        let write = std::fs::write(destination, imported.bytes);
        write.map_err(|error| Fault::from(error).of(destination))?;
        Ok(imported.notes)
    };
    py.detach(import).map_err(trace_error)
}

/// Writes a capture in another format; what was left out.
#[pyfunction]
#[pyo3(signature = (trace, format, destination, skip, limit, thread, slowdown_milli))]
#[expect(clippy::too_many_arguments, reason = "a flat border; Python wraps it")]
fn trace_export(
    py: Python<'_>,
    trace: &str,
    format: &str,
    destination: &str,
    skip: &str,
    limit: Option<&str>,
    thread: Option<u32>,
    slowdown_milli: u64,
) -> PyResult<Vec<String>> {
    let export = || {
        let options = ExportOptions {
            skip: portion("--skip", skip)?,
            limit: limit.map(|text| portion("--limit", text)).transpose()?,
            thread: thread.map(ThreadId::new),
            slowdown_milli,
            ..ExportOptions::default()
        };
        let file = TraceFile::open(trace)?;
        foreign::export(&file, named(format)?, Path::new(destination), &options)
    };
    py.detach(export).map_err(trace_error)
}

/// A number of instructions, or a share of a thread as `25%`.
fn portion(option: &str, text: &str) -> Result<Portion, TraceError> {
    let share = || text.parse().ok().filter(|_| text.contains('%'));
    let count = || text.replace('_', "").parse().ok();
    let wrong = || {
        let problem = "is neither a number of instructions nor a share such as 25%";
        Fault::Unusable(problem.into()).of(&format!("{option} {text}"))
    };
    share()
        .map(Portion::Share)
        .or_else(|| count().map(Portion::Instructions))
        .ok_or_else(wrong)
}
