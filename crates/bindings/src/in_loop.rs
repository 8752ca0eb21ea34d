//! Runs whose device is a firmware process, or a recording of one; and the process.

use crate::replay::Replay;
use crate::{ConfigError, Run, SimulationError, to_python};
use inloop::nvme::{Dialect, Door, Nvme};
use inloop::{Drive, DriveOptions, Listener, PROCESSORS, Processor, Tape};
use pyo3::prelude::*;
use serde_json::json;
use sim::in_loop::{DeviceSource, serve};
use std::fmt::Display;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use units::Bytes;

/// How often a firmware process that waits for a run looks whether it is to end.
const LOOK: Duration = Duration::from_millis(200);

/// Names of the processors that firmware can be timed for.
#[pyfunction]
fn processors() -> Vec<&'static str> {
    PROCESSORS.iter().map(|(name, _)| *name).collect()
}

/// Runs on a device; gives the result as JSON, and the recording of its times.
fn execute_on(py: Python<'_>, run: &Run, source: &DeviceSource) -> PyResult<(String, Vec<u8>)> {
    let mut observe = |progress| run.note(progress);
    let (result, tape) = py
        .detach(|| run.prepared.execute_on(source, &mut observe))
        .map_err(to_python)?;
    run.finished();
    let tape = tape.map_or_else(Vec::new, |tape| tape.to_bytes());
    Ok((result.json().to_string(), tape))
}

/// Runs with a firmware process that listens at a socket as the device; gives the result as JSON,
/// and the recording of its times.
#[pyfunction]
fn execute_in_loop(
    py: Python<'_>,
    run: &Run,
    socket: &str,
    processor: &str,
    patience_ms: u64,
) -> PyResult<(String, Vec<u8>)> {
    execute_on(py, run, &process_at(socket, processor, patience_ms)?)
}

/// A firmware process that listens.
fn process_at(socket: &str, processor: &str, patience_ms: u64) -> PyResult<DeviceSource> {
    let processor = Processor::of_text(processor);
    let processor = processor.map_err(|problems| ConfigError::new_err(problems.to_string()))?;
    Ok(DeviceSource::Loop {
        socket: socket.into(),
        processor,
        patience: Duration::from_millis(patience_ms),
    })
}

/// What a recording gives.
fn recorded(recording: &[u8]) -> PyResult<DeviceSource> {
    let tape = Tape::from_bytes(recording);
    let tape = tape.map_err(|error| ConfigError::new_err(error.to_string()))?;
    Ok(DeviceSource::Recorded(tape))
}

/// Whether an NVMe device can be the device of a run.
#[pyfunction]
fn check_on_nvme(run: &Run) -> PyResult<()> {
    run.prepared.check_on_device().map_err(to_python)
}

/// Runs with an NVMe device as the device, which is overwritten; `dialect` is `nvme` (ours) or
/// `opencxd`. Gives the result as JSON, and the recording of what it has said.
#[pyfunction]
fn execute_on_nvme(
    py: Python<'_>,
    run: &Run,
    path: &str,
    dialect: &str,
) -> PyResult<(String, Vec<u8>)> {
    let dialect = match dialect {
        "opencxd" => Dialect::OpenCxd,
        _ => Dialect::Entresol,
    };
    let path = Path::new(path);
    let device = Nvme::open(path, dialect, Door::of(path));
    let device = device.map_err(|error| ConfigError::new_err(error.to_string()))?;
    let source = DeviceSource::Device(Arc::new(Mutex::new(device)));
    execute_on(py, run, &source)
}

/// Runs with the times of a recording; gives the result as JSON.
#[pyfunction]
fn execute_fed(py: Python<'_>, run: &Run, recording: &[u8]) -> PyResult<String> {
    Ok(execute_on(py, run, &recorded(recording)?)?.0)
}

/// As `execute_in_loop`, of a device alone.
#[pyfunction]
fn replay_in_loop(
    py: Python<'_>,
    replay: &Replay,
    socket: &str,
    processor: &str,
    patience_ms: u64,
) -> PyResult<(String, Vec<u8>)> {
    replay.execute_on(py, &process_at(socket, processor, patience_ms)?)
}

/// As `execute_fed`, of a device alone.
#[pyfunction]
fn replay_fed(py: Python<'_>, replay: &Replay, recording: &[u8]) -> PyResult<String> {
    Ok(replay.execute_on(py, &recorded(recording)?)?.0)
}

/// Opens and fills a drive. What it cannot be is an error of the caller's choice.
fn filled(
    py: Python<'_>,
    path: &str,
    size: Option<&str>,
    overwrites_device: bool,
    told: &Bound<'_, PyAny>,
) -> PyResult<Drive> {
    let refused = |error: &dyn Display| ConfigError::new_err(error.to_string());
    let size = size.map(str::parse::<Bytes>).transpose();
    let size = size.map_err(|error| refused(&format!("--drive-size: {error}")))?;
    let options = DriveOptions {
        size,
        overwrites_device,
    };
    let drive = Drive::open(Path::new(path), options);
    let mut drive = drive.map_err(|error| refused(&error))?;
    let report = json!({
        "filling": path,
        "size": drive.size().to_string(),
        "empty_ring_ps": drive.empty_cost().get(),
    });
    told.call1((report.to_string(),))?;
    py.detach(|| drive.fill())
        .map_err(|error| refused(&error))?;
    Ok(drive)
}

/// Is the device of runs, one after the other, as many as `runs` or for ever; calls `told` when it
/// listens, and with what each run was given, as JSON. With a `drive` (its path, how much of it,
/// whether a block device may be overwritten) that is the flash.
#[pyfunction]
fn serve_firmware(
    py: Python<'_>,
    socket: &str,
    runs: Option<u32>,
    drive: Option<(String, Option<String>, bool)>,
    told: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let mut drive = match drive {
        Some((path, size, overwrites)) => {
            Some(filled(py, &path, size.as_deref(), overwrites, told)?)
        }
        None => None,
    };
    let failed = |error: std::io::Error| {
        SimulationError::new_err(format!("{socket}: cannot be listened at: {error}"))
    };
    let listener = Listener::at(Path::new(socket)).map_err(failed)?;
    told.call1((json!({"listening": socket}).to_string(),))?;
    let mut served = 0;
    while runs.is_none_or(|runs| served < runs) {
        py.check_signals()?;
        let Some(run) = py.detach(|| listener.accept(LOOK)).map_err(failed)? else {
            continue;
        };
        let outcome = py.detach(|| serve(run, None, &mut drive, None));
        // A run that goes while it is let in is none.
        let Ok(Some(outcome)) = outcome else {
            continue;
        };
        served += 1;
        let work = outcome.work.iter().filter(|(_, count, _)| *count > 0);
        let work = work
            .map(|(name, count, sum)| json!({"work": name, "count": count, "sum_ps": sum.get()}));
        let report = json!({
            "commands": outcome.commands,
            "empty_timer_cycles": outcome.empty_timer,
            "work": work.collect::<Vec<_>>(),
        });
        told.call1((report.to_string(),))?;
    }
    Ok(())
}

/// Adds the functions to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(processors, module)?)?;
    module.add_function(wrap_pyfunction!(execute_in_loop, module)?)?;
    module.add_function(wrap_pyfunction!(check_on_nvme, module)?)?;
    module.add_function(wrap_pyfunction!(execute_on_nvme, module)?)?;
    module.add_function(wrap_pyfunction!(execute_fed, module)?)?;
    module.add_function(wrap_pyfunction!(replay_in_loop, module)?)?;
    module.add_function(wrap_pyfunction!(replay_fed, module)?)?;
    module.add_function(wrap_pyfunction!(serve_firmware, module)?)
}
