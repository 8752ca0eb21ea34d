//! The crash lab of file systems, for Python.

use crate::{CrashError, Interrupted};
use bytefs::{DataMode, Personality};
use dax::PolicyKind;
use fslab::crash::{
    Campaign, Finding, Options, Protection, Room, Script, Tally, device_of, shrink,
};
use pyo3::prelude::*;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Adds what is in this file.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(fs_crash_repeat, module)?)?;
    module.add_class::<FsCrashLab>()
}

fn tally_json(tally: &Tally) -> Value {
    json!({
        "sequences": tally.sequences,
        "cuts": tally.cuts,
        "crash_points": tally.points,
        "states": tally.states,
        "device_cuts": tally.device_cuts,
        "recovery_points": tally.recovery_points,
        "most_in_flight": tally.units,
        "refused": tally.refused,
        "light_syncs": tally.moves.light_syncs,
        "syncs_without_room": tally.moves.without_room,
        "upgrades": tally.moves.upgrades,
        "downgrades": tally.moves.downgrades,
        "evictions": tally.moves.evictions,
    })
}

fn finding_json(campaign: &Campaign, protection: Protection, finding: Finding) -> Value {
    let script = Script {
        personality: campaign.personality,
        data: campaign.options.data,
        dax: campaign.options.dax,
        protection,
        may_lack_room: campaign.options.may_lack_room,
        bug: None,
        sequence: *finding.sequence,
    };
    json!({"cut": finding.cut, "what": finding.how, "script": script.to_string()})
}

/// Runs a script; JSON with what was counted and, if something is wrong, what.
#[pyfunction]
fn fs_crash_repeat(py: Python<'_>, text: &str) -> PyResult<String> {
    let refused = |error: fslab::crash::NoScript| CrashError::new_err(error.to_string());
    let script: Script = text.parse().map_err(refused)?;
    let mut tally = Tally::default();
    let judged = py.detach(|| script.run(&mut tally));
    let judged = judged.map_err(CrashError::new_err)?;
    let finding = judged
        .err()
        .map(|finding| json!({"cut": finding.cut, "what": finding.how}));
    Ok(json!({"tally": tally_json(&tally), "finding": finding}).to_string())
}

/// A campaign, observed and cancelled from other threads.
#[pyclass(frozen)]
pub struct FsCrashLab {
    campaign: Campaign,
    protection: Protection,
    points: AtomicU64,
    is_cancelled: AtomicBool,
}

#[pymethods]
impl FsCrashLab {
    /// Of a JSON object with `personality`, `data`, `dax` (null: off), `protection` (null: usual),
    /// `length`, `sequences` (null: all), `seed`, `two_tasks`, `free_blocks` or `scattered_blocks`
    /// (null: all), `device_every` and `threads`.
    #[new]
    fn new(options: &str) -> PyResult<Self> {
        let options: Value = serde_json::from_str(options).map_err(wrong)?;
        let number = |key: &str| options[key].as_u64();
        let personality: Personality = options["personality"]
            .as_str()
            .unwrap_or_default()
            .parse()
            .map_err(CrashError::new_err)?;
        let data: DataMode = options["data"]
            .as_str()
            .unwrap_or(DataMode::Ordered.name())
            .parse()
            .map_err(CrashError::new_err)?;
        let dax: Option<PolicyKind> = match options["dax"].as_str() {
            None => None,
            Some(name) => Some(name.parse().map_err(|()| {
                CrashError::new_err(format!("{name}: is no policy of persistent memory"))
            })?),
        };
        let protection: Protection = match options["protection"].as_str() {
            None => Protection::Usual,
            Some(name) => name.parse().map_err(|()| {
                CrashError::new_err(format!("{name}: is nothing that survives a power cut"))
            })?,
        };
        let campaign = Campaign {
            device: device_of(personality, dax.is_some(), protection).map_err(wrong)?,
            personality,
            length: number("length").unwrap_or(1) as u32,
            seed: number("seed").unwrap_or(0),
            sequences: number("sequences").unwrap_or(u64::MAX),
            is_concurrent: options["two_tasks"].as_bool().unwrap_or(false),
            room: match (number("free_blocks"), number("scattered_blocks")) {
                (_, Some(blocks)) => Some(Room::Scattered(blocks)),
                (Some(blocks), None) => Some(Room::Blocks(blocks)),
                (None, None) => None,
            },
            options: Options {
                device_every: number("device_every").unwrap_or(1) as u32,
                data,
                dax,
                safe_log: protection == Protection::Log,
                may_lack_room: number("scattered_blocks").is_some(),
                ..Options::FULL
            },
            threads: number("threads").unwrap_or(1) as usize,
            enough: 1,
        };
        Ok(Self {
            campaign,
            protection,
            points: AtomicU64::new(0),
            is_cancelled: AtomicBool::new(false),
        })
    }

    /// Runs; JSON with what was counted and, if something is wrong, what, with the shortest script
    /// that shows it.
    fn execute(&self, py: Python<'_>) -> PyResult<String> {
        let told = |tally: &Tally| {
            self.points.fetch_add(tally.points, Ordering::Relaxed);
            !self.is_cancelled.load(Ordering::Relaxed)
        };
        let done = py.detach(|| {
            let outcome = self.campaign.run(told)?;
            let first = outcome.findings.first();
            let least = match first {
                Some((_, finding)) => Some(shrink(&self.campaign.lab()?, finding)),
                None => None,
            };
            Ok((outcome, least))
        });
        let (outcome, least) = done.map_err(|error: String| CrashError::new_err(error))?;
        if least.is_none() && self.is_cancelled.load(Ordering::Relaxed) {
            return Err(Interrupted::new_err("the crash lab was cancelled"));
        }
        let finding = least.map(|finding| finding_json(&self.campaign, self.protection, finding));
        let answer = json!({
            "tally": tally_json(&outcome.tally),
            "impossible": outcome.impossible,
            "finding": finding,
        });
        Ok(answer.to_string())
    }

    /// Crash points judged so far.
    fn points(&self) -> u64 {
        self.points.load(Ordering::Relaxed)
    }

    /// Asks the campaign to stop after the sequences that run.
    fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }
}

fn wrong(error: impl std::fmt::Display) -> PyErr {
    CrashError::new_err(error.to_string())
}
