//! Requests to a firmware process, one at a time: what the loop costs in real time.
//!
//! `bench [--json] in-loop DIRECTORY [NAME=VALUE…] [SETTING…]` starts a firmware process that
//! listens in the directory, and sends it lines of each kind in turn. Names: `rounds`, `requests`
//! (of each kind in a round). Of each kind the fastest window of 1,000 requests counts: other work
//! on the machine only makes windows slower, and one in which it takes a processor away from either
//! process says nothing of the loop. A request is sent, answered, given to the simulated device and
//! compared, as in a run; values of lines are checked.
#![allow(
    clippy::disallowed_methods,
    reason = "what is measured is time on the wall"
)]

use crate::shm::{Helper, end_with_parent};
use crate::{Options, calibrate, number, spec, text};
use inloop::{Listener, Processor};
use serde_json::json;
use sim::in_loop::{DeviceSource, Driver, serve};
use std::path::Path;
use std::time::{Duration, Instant};
use units::LineAddr;

/// How long the process has to listen, and for an answer.
const PATIENCE: Duration = Duration::from_secs(20);
const LINES_OF_PAGE: u64 = 64;
/// Requests that are timed together.
const WINDOW: u64 = 1_000;
/// Pages whose lines are in the data cache, and as many in the log.
const HOT_PAGES: u64 = 64;
/// Pages of which each read misses.
const COLD_PAGES: u64 = 400_000;

/// Is the device of one run at a socket.
pub fn firmware(socket: &str) -> Result<(), String> {
    end_with_parent();
    let listener = Listener::at(Path::new(socket)).map_err(text)?;
    let run = listener.accept(PATIENCE).map_err(text)?;
    let run = run.ok_or("nobody has come")?;
    serve(run, None, &mut None, None).map_err(text)?;
    Ok(())
}

/// One kind of request.
struct Kind {
    name: &'static str,
    is_write: bool,
    line: fn(u64) -> u64,
}

const KINDS: [Kind; 4] = [
    Kind {
        name: "read, data cache",
        is_write: false,
        line: |number| number % (HOT_PAGES * LINES_OF_PAGE),
    },
    Kind {
        name: "write, log",
        is_write: true,
        line: |number| (HOT_PAGES + number % HOT_PAGES) * LINES_OF_PAGE + number / 64 % 64,
    },
    Kind {
        name: "read, log",
        is_write: false,
        line: |number| (HOT_PAGES + number % HOT_PAGES) * LINES_OF_PAGE + number / 64 % 64,
    },
    Kind {
        name: "read, flash",
        is_write: false,
        // Another page each time, none of them soon again, and never the next one of a page that
        // was read: that is fetched ahead.
        line: |number| (2 * HOT_PAGES + number * 7_919 % (COLD_PAGES / 2) * 2) * LINES_OF_PAGE,
    },
];

/// Measures and prints.
pub fn measure(directory: &str, words: &[&str], options: &Options) -> Result<(), String> {
    let (mut rounds, mut requests) = (5, 100_000);
    let mut settings = Vec::new();
    for word in words {
        match word.split_once('=') {
            Some(("rounds", value)) => rounds = number(value)?.max(1),
            Some(("requests", value)) => requests = number(value)?.max(1),
            _ => settings.push(*word),
        }
    }
    let config = spec("in-loop", "table2", "skybyte-w", &settings);
    let config = config.device_config().map_err(text)?;
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
    let pages = 2 * HOT_PAGES + COLD_PAGES;
    let mut driver = Driver::new(&config, pages, &source).map_err(text)?;
    let calibration = calibrate();
    let mut best = [(f64::MAX, 0.0); KINDS.len()];
    let mut cold = 0;
    for round in 0..=rounds {
        for (kind, best) in KINDS.iter().zip(&mut best) {
            // What misses takes events of its own, and its pages leave only for others.
            let count = if kind.name == "read, flash" {
                requests / 10
            } else {
                requests
            };
            let first = if kind.name == "read, flash" { cold } else { 0 };
            let mut number = first;
            while number < first + count {
                let commands = driver.commands;
                let begun = Instant::now();
                for _ in 0..WINDOW {
                    let line = LineAddr::new((kind.line)(number));
                    driver.access(line, kind.is_write).map_err(text)?;
                    number += 1;
                }
                let seconds = begun.elapsed().as_secs_f64() / WINDOW as f64;
                let commands = (driver.commands - commands) as f64 / WINDOW as f64;
                // The first round brings everything to its place.
                if round > 0 && seconds < best.0 {
                    *best = (seconds, commands);
                }
            }
        }
        cold += requests / 10;
    }
    driver.end().map_err(text)?;
    drop(process);
    let report = KINDS.iter().zip(best).map(|(kind, (seconds, commands))| {
        json!({
            "kind": kind.name,
            "requests_per_second": 1.0 / seconds,
            "commands_per_request": commands,
        })
    });
    let report = json!({
        "kinds": report.collect::<Vec<_>>(),
        "rounds": rounds,
        "requests": requests,
        "calibration_million_per_second": calibration,
    });
    if options.is_json {
        println!("{report}");
        return Ok(());
    }
    println!("requests to a firmware process, one at a time, fastest of windows of {WINDOW}:");
    for (kind, (seconds, commands)) in KINDS.iter().zip(best) {
        let (name, rate) = (kind.name, 1e-3 / seconds);
        println!("  {name:<18} {rate:8.0} thousand/s, {commands:.1} commands each");
    }
    println!("  calibration {calibration:.0} M steps/s");
    Ok(())
}
