//! Speed of the way to the steady state: requests per second of CPU time.

use crate::{Options, calibrate, cpu_seconds, peak_memory};
use serde_json::{Value, json};
use sim::SimError;
use sim::run::{Prepared, SteadyWindows};

/// Lives through the misses of a capture on one design; they are written to `misses` if it is not
/// there.
pub fn measure(prepared: &Prepared, misses: &str, options: &Options) -> Result<(), String> {
    let text = |error: SimError| error.to_string();
    let mut caches = None;
    if !std::path::Path::new(misses).exists() {
        let before = cpu_seconds();
        prepared.write_misses(misses, &mut |_| true).map_err(text)?;
        caches = Some(cpu_seconds() - before);
    }
    let calibration = if options.is_counted { 0.0 } else { calibrate() };
    let before = cpu_seconds();
    let result = simulate_measured(prepared, misses).map_err(text)?;
    let seconds = cpu_seconds() - before;
    let last = result["pass"].as_array().and_then(|looks| looks.last());
    let number = |name: &str| last.and_then(|look| look[name].as_u64()).unwrap_or(0);
    let requests = number("reads") + number("writes");
    let rate = requests as f64 / seconds / 1e6;
    let file_bytes = std::fs::metadata(misses).map_or(0, |about| about.len());
    let instructions = result["instructions"].as_u64().unwrap_or(0);
    let report = json!({
        "trace": prepared.trace_name(),
        "design": prepared.design(),
        "instructions": instructions,
        "caches_cpu_seconds": caches,
        "requests": requests,
        "cpu_seconds": seconds,
        "million_per_second": rate,
        "calibration_million_per_second": calibration,
        "requests_per_calibration_step": rate / calibration,
        "page_fetches": number("page_fetches"),
        "program_pages": number("program_pages") + number("gc_program_pages"),
        "file_bytes": file_bytes,
        "peak_memory_bytes": peak_memory(),
    });
    if options.is_json {
        println!("{report}");
    } else {
        let made = caches.map_or_else(String::new, |seconds| {
            let rate = instructions as f64 / seconds / 1e6;
            format!(
                "{instructions} instructions through the caches in {seconds:.2} s, {rate:.1} M/s; "
            )
        });
        println!(
            "{made}{requests} requests in {seconds:.2} s, {rate:.2} M/s; {} pages fetched, {} \
             programmed; {:.2} B a request; peak {} MB; calibration {calibration:.0} M steps/s",
            number("page_fetches"),
            number("program_pages") + number("gc_program_pages"),
            file_bytes as f64 / requests.max(1) as f64,
            peak_memory() / 1_000_000,
        );
    }
    Ok(())
}

/// What callgrind counts: making the device and the way through the file.
#[inline(never)]
fn simulate_measured(prepared: &Prepared, misses: &str) -> Result<Value, SimError> {
    let none = SteadyWindows {
        from: 0,
        count: 0,
        offset_milli: 0,
        lead: 0,
        instructions: 0,
    };
    prepared.execute_steady(misses, 1, none, &mut |_| true)
}
