//! The fast mode beside the detailed one: error and speed of both in one process.
//!
//! One JSON object for each design, in the order given: results of both modes, and CPU seconds.
//! A second detailed run, whose L3 is a cycle slower, shows how steady the detailed result is.
//! The filter's time is told apart; every later run of the same capture is without it.

use crate::{cpu_seconds, spec};
use serde_json::{Value, json};
use sim::SimError;
use sim::run::{Filters, Mode, Prepared};
use std::sync::Arc;

/// Changes nothing.
const SEED: &str = "run.seed=1";
/// A cycle more than all machines have.
const SLOWER: &str = "cpu.l3_latency=41cycles";

/// Runs a capture in both modes on each design named in `designs`, separated by commas.
pub fn compare(
    trace: &str,
    machine: &str,
    designs: &str,
    threads: Option<u32>,
    settings: &[&str],
) -> Result<(), String> {
    let filters = Arc::new(Filters::default());
    let mut filter_seconds = 0.0;
    for design in designs.split(',') {
        let prepare = |mode, setting: &str| {
            let all: Vec<&str> = settings.iter().copied().chain([setting]).collect();
            let mut spec = spec(trace, machine, design, &all);
            spec.mode = mode;
            spec.threads = threads;
            Prepared::new(spec)
                .map(|run| run.sharing(Arc::clone(&filters)))
                .map_err(|error| error.to_string())
        };
        let fast = prepare(Mode::Fast, SEED)?;
        let before = cpu_seconds();
        fast.filter(&mut |_| true)
            .map_err(|error| error.to_string())?;
        filter_seconds += cpu_seconds() - before;
        let (fast, fast_seconds) = timed(&fast).map_err(|error| error.to_string())?;
        let detailed = prepare(Mode::Detailed, SEED)?;
        let (detailed, seconds) = timed(&detailed).map_err(|error| error.to_string())?;
        let slower = prepare(Mode::Detailed, SLOWER)?;
        let (neighbour, _) = timed(&slower).map_err(|error| error.to_string())?;
        println!(
            "{}",
            json!({
                "design": design,
                "filter_seconds": filter_seconds,
                "fast_seconds": fast_seconds,
                "detailed_seconds": seconds,
                "fast": fast,
                "detailed": detailed,
                "neighbour": neighbour,
            })
        );
    }
    Ok(())
}

fn timed(run: &Prepared) -> Result<(Value, f64), SimError> {
    let before = cpu_seconds();
    let result = run.execute(&mut |_| true)?;
    Ok((result.json().clone(), cpu_seconds() - before))
}
