//! A device alone, for Python.

use crate::to_python;
use pyo3::prelude::*;
use sim::in_loop::DeviceSource;
use sim::replay::{Progress, ReplaySpec, Workload};
use sim::run::RunSpec;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A device alone: checked when made, executed once or more, observed and cancelled from other
/// threads.
#[pyclass(frozen)]
pub struct Replay {
    replay: sim::replay::Replay,
    requests: AtomicU64,
    at: AtomicU64,
    is_cancelled: AtomicBool,
}

#[pymethods]
impl Replay {
    /// Checks everything that can be checked before a run. `workload` is pairs of names and values.
    #[new]
    #[pyo3(signature = (name, workload, machine, design, nand, fidelity, files, overrides, audit))]
    #[expect(
        clippy::too_many_arguments,
        reason = "one argument for each thing a replay is made of"
    )]
    fn new(
        py: Python<'_>,
        name: String,
        workload: Vec<(String, String)>,
        machine: String,
        design: String,
        nand: Option<String>,
        fidelity: &str,
        files: Vec<(String, String)>,
        overrides: Vec<String>,
        audit: bool,
    ) -> PyResult<Self> {
        let run = RunSpec {
            trace: name,
            machine,
            design,
            nand,
            fidelity: fidelity.parse().map_err(to_python)?,
            files,
            overrides,
            threads: None,
            is_audited: audit,
            mode: sim::run::Mode::Detailed,
        };
        let workload = Workload::from_words(&workload).map_err(to_python)?;
        let spec = ReplaySpec { run, workload };
        let replay = py
            .detach(|| sim::replay::Replay::new(spec))
            .map_err(to_python)?;
        Ok(Self {
            replay,
            requests: AtomicU64::new(0),
            at: AtomicU64::new(0),
            is_cancelled: AtomicBool::new(false),
        })
    }

    /// Runs and gives the result as JSON.
    fn execute(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.execute_on(py, &DeviceSource::Modelled)?.0)
    }

    /// Requests completed, and simulated picoseconds.
    fn progress(&self) -> (u64, u64) {
        (
            self.requests.load(Ordering::Relaxed),
            self.at.load(Ordering::Relaxed),
        )
    }

    /// Asks the run to stop; `execute` then raises `Interrupted`.
    fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }
}

impl Replay {
    /// With the firmware's times from there: the result as JSON, and their recording.
    pub(crate) fn execute_on(
        &self,
        py: Python<'_>,
        times: &DeviceSource,
    ) -> PyResult<(String, Vec<u8>)> {
        let mut observe = |progress: Progress| {
            self.requests.store(progress.requests, Ordering::Relaxed);
            self.at.store(progress.at.as_picos(), Ordering::Relaxed);
            !self.is_cancelled.load(Ordering::Relaxed)
        };
        let (result, tape) = py
            .detach(|| self.replay.execute_on(times, &mut observe))
            .map_err(to_python)?;
        let tape = tape.map_or_else(Vec::new, |tape| tape.to_bytes());
        Ok((result.json().to_string(), tape))
    }
}
