//! Requests to a firmware process, one at a time: what the loop costs in real time.
//!
//! `bench [--json] in-loop DIRECTORY [NAME=VALUE…] [SETTING…]` starts a firmware process that
//! listens in the directory, and replays patterns on a device whose firmware is that. Names:
//! `requests` (of each pattern). Of each the quickest stretch between two looks of the observer
//! counts: other work on the machine only makes stretches slower, and one in which it takes a
//! processor away from either process says nothing of the loop. A request is sent, answered, given
//! to the simulated device and compared, as in a run; values of lines are checked.
#![allow(
    clippy::disallowed_methods,
    reason = "what is measured is time on the wall"
)]

use crate::shm::{Helper, end_with_parent};
use crate::{Options, calibrate, number, spec, text};
use inloop::{Listener, Processor};
use serde_json::json;
use sim::in_loop::{DeviceSource, serve};
use sim::replay::{Progress, Replay, ReplaySpec, Workload};
use std::path::Path;
use std::time::{Duration, Instant};

/// A stretch of fewer requests is not counted.
const LEAST: u64 = 1_000;
/// How long the process has to listen, and for an answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Is the device of runs at a socket, one for each pattern.
pub fn firmware(socket: &str) -> Result<(), String> {
    end_with_parent();
    let listener = Listener::at(Path::new(socket)).map_err(text)?;
    for _ in &KINDS {
        let run = listener.accept(PATIENCE).map_err(text)?;
        let run = run.ok_or("nobody has come")?;
        serve(run, None, &mut None, None).map_err(text)?;
    }
    Ok(())
}

/// Name and words of each pattern, all of lines. What is warmed up is all in its place; of what
/// reads the whole device all but a few requests wait for flash.
const KINDS: [(&str, &[&str]); 4] = [
    (
        "read, data cache",
        &["pattern=randread", "working-set=256KiB"],
    ),
    ("write, log", &["pattern=randwrite", "working-set=256KiB"]),
    (
        "half and half, both",
        &["pattern=randrw", "rwmix=50", "working-set=256KiB"],
    ),
    ("read, flash", &["pattern=randread", "working-set=80%"]),
];

/// The most requests that the observer has seen in a second.
fn best_rate(replay: &Replay, source: &DeviceSource) -> Result<f64, String> {
    let mut best = 0.0_f64;
    let mut last: Option<(Instant, u64)> = None;
    let mut observe = |progress: Progress| {
        if progress.is_measured {
            let now = Instant::now();
            // The last stretch may be of a few requests, and of these it says nothing.
            if let Some((then, before)) = last
                && progress.requests - before >= LEAST
            {
                let seconds = (now - then).as_secs_f64();
                best = best.max((progress.requests - before) as f64 / seconds);
            }
            last = Some((now, progress.requests));
        }
        true
    };
    replay.execute_on(source, &mut observe).map_err(text)?;
    match best > 0.0 {
        true => Ok(best),
        false => Err("nothing was measured: use more requests".to_owned()),
    }
}

/// Measures and prints.
pub fn measure(directory: &str, words: &[&str], options: &Options) -> Result<(), String> {
    let mut requests = 400_000;
    let mut settings = Vec::new();
    for word in words {
        match word.split_once('=') {
            Some(("requests", value)) => requests = number(value)?.max(1),
            _ => settings.push(*word),
        }
    }
    let socket = Path::new(directory).join(format!("firmware-{}", std::process::id()));
    let process = Helper::start(&["in-loop-firmware", &socket.to_string_lossy()])?;
    let begun = Instant::now();
    while !socket.exists() {
        if begun.elapsed() > PATIENCE {
            return Err("the firmware process does not listen".to_owned());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let source = DeviceSource::Loop {
        socket,
        processor: Processor::of_text("cortex-a53").map_err(text)?,
        patience: PATIENCE,
    };
    let calibration = calibrate();
    let mut rates = Vec::new();
    for (name, words) in KINDS {
        let (measured, warmup) = (format!("requests={requests}"), "warmup=40000");
        let words = [words, &["bs=64B", "qd=1", &measured, warmup]].concat();
        let pairs = words.iter().filter_map(|word| word.split_once('='));
        let pairs: Vec<_> = pairs.map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
        let replay = ReplaySpec {
            run: spec("in-loop", "table2", "skybyte-w", &settings),
            workload: Workload::from_words(&pairs).map_err(text)?,
        };
        let replay = Replay::new(replay).map_err(text)?;
        rates.push((name, best_rate(&replay, &source)?));
    }
    drop(process);
    if options.is_json {
        let report = rates
            .iter()
            .map(|(name, rate)| json!({"kind": name, "requests_per_second": rate}));
        let report = json!({
            "kinds": report.collect::<Vec<_>>(),
            "requests": requests,
            "calibration_million_per_second": calibration,
        });
        println!("{report}");
        return Ok(());
    }
    println!("replays of lines on a firmware process, one at a time, quickest stretches:");
    for (name, rate) in rates {
        println!("  {name:<20} {:8.0} thousand/s", rate / 1e3);
    }
    println!("  calibration {calibration:.0} M steps/s");
    Ok(())
}
