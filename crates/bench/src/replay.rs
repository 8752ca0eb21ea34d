//! Speed of a device alone: requests per second of CPU time.

use crate::{Options, calibrate, cpu_seconds, peak_memory};
use serde_json::{Value, json};
use sim::SimError;
use sim::replay::{Replay, ReplayResult, ReplaySpec, Workload};
use sim::run::RunSpec;

/// Runs a replay and prints what it took. Words with a dot before `=` are parameters.
pub fn measure(mut run: RunSpec, words: &[&str], options: &Options) -> Result<(), String> {
    let mut pairs = Vec::new();
    for word in words {
        let (name, value) = word
            .split_once('=')
            .ok_or_else(|| format!("{word}: write it as name=value"))?;
        if name.contains('.') {
            run.overrides.push((*word).to_string());
        } else {
            pairs.push((name.to_string(), value.to_string()));
        }
    }
    let workload = Workload::from_words(&pairs).map_err(|error| error.to_string())?;
    let replay = Replay::new(ReplaySpec { run, workload }).map_err(|error| error.to_string())?;
    let calibration = if options.is_counted { 0.0 } else { calibrate() };
    let before = cpu_seconds();
    let result = simulate_measured(&replay).map_err(|error| error.to_string())?;
    let seconds = cpu_seconds() - before;
    report(&replay, result.json(), (seconds, calibration), options);
    Ok(())
}

/// What callgrind counts: making the device and the run.
#[inline(never)]
fn simulate_measured(replay: &Replay) -> Result<ReplayResult, SimError> {
    replay.execute(&mut |_| true)
}

fn report(replay: &Replay, result: &Value, (seconds, calibration): (f64, f64), options: &Options) {
    let number = |at: &str| result.pointer(at).and_then(Value::as_u64).unwrap_or(0);
    let requests = number("/requests") + number("/warmup_requests");
    let rate = requests as f64 / seconds / 1e6;
    let waf = number("/statistics/flash/write_amplification_milli");
    let flash_pages = replay.config().geometry().unit_count();
    let report = json!({
        "design": replay.design(),
        "requests": requests,
        "cpu_seconds": seconds,
        "million_per_second": rate,
        "calibration_million_per_second": calibration,
        "requests_per_calibration_step": rate / calibration,
        "write_amplification_milli": waf,
        "erased_blocks": number("/statistics/flash/erased_blocks"),
        "simulated_ps": number("/execution_time_ps"),
        "flash_pages": flash_pages,
        "peak_memory_bytes": peak_memory(),
    });
    if options.is_json {
        println!("{report}");
    } else {
        println!(
            "{requests} requests in {seconds:.2} s, {rate:.2} M/s; WAF {:.2}, {} blocks erased; \
             simulated {:.3} ms; peak {} MB, {:.2} B a flash page; calibration {calibration:.0} \
             M steps/s",
            waf as f64 / 1e3,
            number("/statistics/flash/erased_blocks"),
            number("/execution_time_ps") as f64 / 1e9,
            peak_memory() / 1_000_000,
            peak_memory() as f64 / flash_pages as f64,
        );
    }
}
