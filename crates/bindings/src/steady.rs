//! The steady state of a run: its file of misses and the windows that begin there.

use crate::{Run, to_python};
use pyo3::prelude::*;
use sim::run::SteadyWindows;

/// The name of a run's file of misses: a digest of all that decides it.
#[pyfunction]
fn misses_key(run: &Run) -> String {
    let key = run.prepared.misses_key();
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The part where windows begin, how many, thousandths by which they are later, instructions before
/// and in each.
type Windows = (u32, u32, u32, u64, u64);

fn windows_of((from, count, offset_milli, lead, instructions): Windows) -> SteadyWindows {
    SteadyWindows {
        from,
        count,
        offset_milli,
        lead,
        instructions,
    }
}

/// Raises if one of the designs can reach no steady state on the run's settings, or windows do not
/// fit into the run.
#[pyfunction]
fn check_steady(run: &Run, designs: Vec<String>, windows: Windows) -> PyResult<()> {
    let windows = windows_of(windows);
    let checked = run.prepared.check_steady_of(&designs, windows);
    checked.map_err(to_python)
}

/// Writes a run's file of misses.
#[pyfunction]
fn write_misses(py: Python<'_>, run: &Run, path: &str) -> PyResult<()> {
    let mut observe = |progress| run.note(progress);
    py.detach(|| run.prepared.write_misses(path, &mut observe))
        .map_err(to_python)
}

/// Lives through a file of misses and measures windows on the way, as JSON.
#[pyfunction]
fn execute_steady(
    py: Python<'_>,
    run: &Run,
    path: &str,
    looks: u32,
    windows: Windows,
) -> PyResult<String> {
    let windows = windows_of(windows);
    let mut observe = |progress| run.note(progress);
    let result = py
        .detach(|| {
            run.prepared
                .execute_steady(path, looks, windows, &mut observe)
        })
        .map_err(to_python)?;
    run.finished();
    Ok(result.to_string())
}

/// Adds the functions to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(misses_key, module)?)?;
    module.add_function(wrap_pyfunction!(check_steady, module)?)?;
    module.add_function(wrap_pyfunction!(write_misses, module)?)?;
    module.add_function(wrap_pyfunction!(execute_steady, module)?)
}
