//! The crash lab, for Python.

use crate::{CrashError, Interrupted};
use crash::{Campaign, Finding, Script, Tally};
use pyo3::prelude::*;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Adds what is in this file.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(crash_replay, module)?)?;
    module.add_class::<CrashLab>()
}

fn finding_json(script: &Script, finding: &Finding) -> Value {
    let step = script.workload.steps.get(finding.step);
    json!({
        "step": finding.step,
        "statement": step.map(ToString::to_string),
        "cut": finding.cut.map(|cut| cut.to_string()),
        "what": finding.what,
    })
}

fn tally_json(tally: &Tally) -> Value {
    json!({
        "crash_points": tally.points,
        "device_states": tally.state_count(),
        "repeats": tally.repeats,
        "reads": tally.reads,
    })
}

/// What of a script could not be done: steps, and the one cut that it names.
fn passed_over_json(text: &str, script: &Script, tally: &Tally) -> Value {
    let first = tally.first_passed_over;
    json!({
        "steps": script.workload.steps.len(),
        "passed_over": tally.passed_over,
        "first_line": first.and_then(|step| Script::line_of(text, step)),
        "cut_is_missing": script.cut.is_some() && tally.points == 0,
    })
}

/// Runs a crash script; JSON with what was counted and, if something is wrong, what.
#[pyfunction]
fn crash_replay(py: Python<'_>, text: &str) -> PyResult<String> {
    let script: Script = text.parse().map_err(CrashError::new_err)?;
    let mut tally = Tally::default();
    let found = py.detach(|| script.replay(&mut tally));
    let finding = found.err().map(|finding| finding_json(&script, &finding));
    let passed_over = passed_over_json(text, &script, &tally);
    let tally = tally_json(&tally);
    Ok(json!({"tally": tally, "script": passed_over, "finding": finding}).to_string())
}

/// A campaign of the crash lab, observed and cancelled from other threads.
#[pyclass(frozen)]
pub struct CrashLab {
    campaign: Campaign,
    points: AtomicU64,
    is_cancelled: AtomicBool,
}

#[pymethods]
impl CrashLab {
    #[new]
    fn new(seed: u64, points: u64) -> Self {
        Self {
            campaign: Campaign {
                seed,
                points,
                bug: None,
            },
            points: AtomicU64::new(0),
            is_cancelled: AtomicBool::new(false),
        }
    }

    /// Runs; JSON with what was counted and, if something is wrong, what, with the smallest script
    /// that shows it.
    fn execute(&self, py: Python<'_>) -> PyResult<String> {
        let mut tally = Tally::default();
        let note = |tally: &Tally| {
            self.points.store(tally.points, Ordering::Relaxed);
            !self.is_cancelled.load(Ordering::Relaxed)
        };
        let failure = py.detach(|| {
            let failure = self.campaign.run(&mut tally, note).err()?;
            Some((failure.script(None), failure))
        });
        if failure.is_none() && self.is_cancelled.load(Ordering::Relaxed) {
            return Err(Interrupted::new_err("the crash lab was cancelled"));
        }
        let failure = failure.map(|(shrunk, failure)| {
            let script = shrunk.as_ref().map(|(script, _)| script.to_string());
            let shown = shrunk.map(|(script, finding)| finding_json(&script, &finding));
            json!({
                "seed": failure.seed,
                "what": failure.finding.what,
                "script": script,
                "finding": shown,
            })
        });
        Ok(json!({"tally": tally_json(&tally), "failure": failure}).to_string())
    }

    /// Crash points judged so far.
    fn points(&self) -> u64 {
        self.points.load(Ordering::Relaxed)
    }

    /// Asks the campaign to stop after the workload that runs.
    fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }
}
