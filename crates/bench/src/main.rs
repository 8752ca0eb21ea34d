//! Speed of the simulator, measured beside a fixed calibration loop of the same process.
//!
//! `bench [OPTION…] run TRACE MACHINE DESIGN [SETTING…]` runs one capture;
//! `bench [OPTION…] replay MACHINE DESIGN [NAME=VALUE…] [SETTING…]` runs a device alone, the names
//! being those of `entresol replay`;
//! `bench [OPTION…] steady TRACE MISSES MACHINE DESIGN [SETTING…]` lives through a capture's file
//! of misses on a device (`steady.rs`);
//! `bench [OPTION…] loop INSTRUCTIONS` runs L1-resident code on Table II's 8 cores;
//! `bench compare TRACE MACHINE DESIGN,… [SETTING…]` runs a capture in both modes (`fast.rs`);
//! `bench [OPTION…] device PRESET DIRECTORY [NAME=VALUE…]` persists lines on a device
//! (`device.rs`);
//! `bench [OPTION…] shm PRESET DIRECTORY [NAME=VALUE…]` sends lines through shared memory
//! (`shm.rs`);
//! `bench [--json] in-loop DIRECTORY [NAME=VALUE…] [SETTING…]` replays lines on a firmware process
//! (`in_loop.rs`);
//! `bench [--json] on-nvme DEVICE TRACE MACHINE DESIGN [SETTING…]` runs on an NVMe device, which is
//! overwritten (`on_nvme.rs`);
//! `bench [OPTION…] log INDEX MIB [LINES]` measures the write log alone (`log.rs`);
//! `bench [--json] vtime [TASKS [EVENTS]]` runs tasks in virtual time (`vtime.rs`);
//! `bench dax [WRITES [PATTERN]]` counts writes for transparent DAX (`dax.rs`);
//! `bench write FILE [NAME=VALUE…]` writes a capture of a known shape (`capture.rs`).
//! `bench nbd-memory ADDRESS SIZE` serves memory over NBD (`nbd.rs`);
//! `bench over-tcp` puts NVMe/TCP beside NBD (`network.rs`);
//! `bench [--json] files DIR… [NAME=VALUE…]` measures what programs do with files (`files.rs`);
//! `bench passthrough DIR PLACE THREADS` serves a directory at a place over FUSE
//! (`passthrough.rs`);
//! `bench [--json] first-answer IMAGE DIR [ROUNDS]` mounts an image and asks (`mounting.rs`);
//! `bench mounted IMAGE DIR THREADS [MIB]` serves an image at a directory (`mounting.rs`).
//! `--json` prints one object instead of a sentence; `--limit N` stops after about N measured
//! instructions; `--fast` and `--threads N` are those of `entresol run`;
//! `--count` leaves the clocks alone, for runs under callgrind.
//! `scripts/bench` runs all of them and prints the table.

mod capture;
mod dax;
mod device;
mod fast;
mod files;
mod in_loop;
mod log;
mod mounting;
mod nbd;
mod network;
mod on_nvme;
mod passthrough;
mod replay;
mod shm;
mod steady;
mod vtime;

use nix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use sim::SimError;
use sim::run::{Mode, Prepared, RunSpec};
use std::process::ExitCode;
use trace::{Reg, TraceFile, TraceWriter};

#[derive(Default)]
struct Options {
    is_json: bool,
    is_counted: bool,
    limit: Option<u64>,
    mode: Mode,
    threads: Option<u32>,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut words: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = options(&mut words).and_then(|options| match words.as_slice() {
        ["run", trace, machine, design, settings @ ..] => {
            let mut spec = spec(trace, machine, design, settings);
            (spec.mode, spec.threads) = (options.mode, options.threads);
            let prepared = Prepared::new(spec);
            measure(prepared.map_err(|error| error.to_string())?, &options)
        }
        ["replay", machine, design, words @ ..] => {
            replay::measure(spec("replay", machine, design, &[]), words, &options)
        }
        ["steady", trace, misses, machine, design, settings @ ..] => {
            let mut spec = spec(trace, machine, design, settings);
            spec.threads = options.threads;
            let prepared = Prepared::new(spec).map_err(text)?;
            steady::measure(&prepared, misses, &options)
        }
        ["device", preset, directory, words @ ..] => {
            device::measure(preset, directory, words, &options)
        }
        ["compare", trace, machine, designs, settings @ ..] => {
            let threads = options.threads;
            fast::compare(trace, machine, designs, threads, settings)
        }
        ["shm", preset, directory, words @ ..] => shm::measure(preset, directory, words, &options),
        ["shm-serve", image, socket] => shm::serve(image, socket),
        ["shm-echo", memory] => shm::echo(memory),
        ["in-loop", directory, words @ ..] => in_loop::measure(directory, words, &options),
        ["in-loop-firmware", socket] => in_loop::firmware(socket),
        ["on-nvme", device, trace, machine, design, settings @ ..] => {
            on_nvme::measure(device, trace, machine, design, settings, &options)
        }
        ["nbd-memory", place, size] => nbd::memory(place, size),
        ["over-tcp", words @ ..] => network::measure(words, &options),
        ["files", words @ ..] => files::measure(words, &options),
        ["passthrough", below, place, threads] => {
            passthrough::serve(below, place, number(threads)?)
        }
        ["first-answer", image, place, words @ ..] => {
            mounting::measure(image, place, words, &options)
        }
        ["mounted", image, place, threads, words @ ..] => {
            mounting::serve(image, place, number(threads)?, words)
        }
        ["log", words @ ..] => log::measure(words, &options),
        ["vtime", words @ ..] => vtime::measure(words, &options),
        ["dax", words @ ..] => dax::measure(words, &options),
        ["write", path, words @ ..] => capture::write(path, words),
        ["loop", instructions] => {
            let instructions = number(instructions)?;
            let spec = spec("loop", "table2", "dram-only", &[]);
            let prepared = Prepared::with_trace(spec, l1_resident(instructions));
            measure(prepared.map_err(|error| error.to_string())?, &options)
        }
        _ => Err("usage: bench [--json] [--limit N] [--count] \
                  run TRACE MACHINE DESIGN [SETTING…] | \
                  replay MACHINE DESIGN [NAME=VALUE…] [SETTING…] | loop N | \
                  steady TRACE MISSES MACHINE DESIGN [SETTING…] | \
                  log INDEX MIB [LINES] | vtime [TASKS [EVENTS]] | dax [WRITES [PATTERN]] | \
                  shm PRESET DIRECTORY [NAME=VALUE…] | \
                  in-loop DIRECTORY [NAME=VALUE…] [SETTING…] | \
                  on-nvme DEVICE TRACE MACHINE DESIGN [SETTING…] | write FILE [NAME=VALUE…] | \
                  nbd-memory ADDRESS SIZE | over-tcp [NAME=VALUE…] | files DIR… [NAME=VALUE…] | \
                  passthrough DIR PLACE THREADS | first-answer IMAGE DIR [ROUNDS] | \
                  mounted IMAGE DIR THREADS [MIB]"
            .to_string()),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("bench: {problem}");
            ExitCode::from(2)
        }
    }
}

fn options(words: &mut Vec<&str>) -> Result<Options, String> {
    let mut options = Options::default();
    while let Some(option) = words.first().copied().filter(|word| word.starts_with("--")) {
        words.remove(0);
        match option {
            "--json" => options.is_json = true,
            "--count" => options.is_counted = true,
            "--fast" => options.mode = Mode::Fast,
            "--threads" if !words.is_empty() => {
                options.threads = Some(number(words.remove(0))? as u32);
            }
            "--limit" if !words.is_empty() => options.limit = Some(number(words.remove(0))?),
            _ => return Err(format!("unknown option {option}")),
        }
    }
    Ok(options)
}

fn number(word: &str) -> Result<u64, String> {
    word.parse()
        .map_err(|_| format!("{word} is not a number of instructions"))
}

fn spec(trace: &str, machine: &str, design: &str, settings: &[&str]) -> RunSpec {
    RunSpec {
        trace: trace.to_string(),
        machine: machine.to_string(),
        design: design.to_string(),
        nand: None,
        fidelity: sim::config::Fidelity::PAPER,
        files: Vec::new(),
        overrides: settings.iter().map(ToString::to_string).collect(),
        threads: None,
        is_audited: false,
        mode: Mode::Detailed,
    }
}

/// What a run did. The misses of an interrupted run are not known.
#[derive(Default)]
struct Run {
    instructions: u64,
    /// Those that were not warmed up functionally, and what they took.
    measured: u64,
    measured_seconds: f64,
    mpki_milli: u64,
    /// Pages that the device fetched on demand for 1,000 reads that it answered with data.
    device_miss_milli: u64,
    simulated_ps: u64,
}

fn measure(prepared: Prepared, options: &Options) -> Result<(), String> {
    let name = prepared.trace_name();
    let design = prepared.design().to_string();
    let calibration = if options.is_counted { 0.0 } else { calibrate() };
    let before = cpu_seconds();
    let run = simulate_measured(&prepared, options.limit).map_err(|error| error.to_string())?;
    let seconds = cpu_seconds() - before;
    let rate = run.instructions as f64 / seconds / 1e6;
    let measured_rate = run.measured as f64 / run.measured_seconds / 1e6;
    let report = json!({
        "trace": name,
        "design": design,
        "cores": prepared.config().cpu.cores,
        "instructions": run.instructions,
        "cpu_seconds": seconds,
        "million_per_second": rate,
        "calibration_million_per_second": calibration,
        "instructions_per_calibration_step": rate / calibration,
        "measured_instructions": run.measured,
        "measured_cpu_seconds": run.measured_seconds,
        "measured_million_per_second": measured_rate,
        "l3_mpki_milli": run.mpki_milli,
        "device_miss_milli": run.device_miss_milli,
        "simulated_ps": run.simulated_ps,
        "peak_memory_bytes": peak_memory(),
    });
    if options.is_json {
        println!("{report}");
    } else {
        println!(
            "{name} {design}: {} instructions in {seconds:.2} s, {rate:.2} M/s, \
             measured part {measured_rate:.2} M/s; L3 MPKI {:.1}; device misses {:.1} %; simulated {:.3} ms; peak {} MB; calibration {calibration:.0} M steps/s",
            run.instructions,
            run.mpki_milli as f64 / 1e3,
            run.device_miss_milli as f64 / 10.0,
            run.simulated_ps as f64 / 1e9,
            peak_memory() / 1_000_000,
        );
    }
    Ok(())
}

/// What callgrind counts: the run and nothing before it.
#[inline(never)]
fn simulate_measured(prepared: &Prepared, limit: Option<u64>) -> Result<Run, SimError> {
    let limit = limit.unwrap_or(u64::MAX);
    let mut first = None;
    let mut last = (0, 0);
    let outcome = prepared.execute(&mut |progress| {
        if progress.is_measured {
            first.get_or_insert_with(|| (progress.instructions, cpu_seconds()));
            last = (progress.instructions, progress.at.as_picos());
        }
        !progress.is_measured || progress.instructions < limit
    });
    let (before, since) = first.unwrap_or((0, cpu_seconds()));
    let run = Run {
        instructions: last.0,
        measured: last.0 - before,
        measured_seconds: cpu_seconds() - since,
        simulated_ps: last.1,
        ..Run::default()
    };
    match outcome {
        Err(SimError::Interrupted) => Ok(run),
        Err(error) => Err(error),
        Ok(result) => Ok(finished(result.json(), before, run)),
    }
}

/// What the result of a run adds to what was seen on the way.
fn finished(json: &Value, before: u64, run: Run) -> Run {
    let number = |at: &str| json.pointer(at).and_then(Value::as_u64).unwrap_or(0);
    let requests = |name: &str| number(&format!("/statistics/requests/{name}"));
    let answers = ["ssd_log_hits", "ssd_cache_hits", "ssd_buffer_hits"];
    let answers = answers
        .into_iter()
        .chain(["ssd_misses", "ssd_merged_misses"]);
    let reads: u64 = answers.map(requests).sum();
    // Those answered by SkyByte-Delay are no misses when they come again: pages are counted.
    let ahead = number("/statistics/flash/coalescing_read_pages")
        + number("/statistics/activity/prefetches");
    let fetched = number("/statistics/flash/host_read_pages").saturating_sub(ahead);
    Run {
        instructions: number("/instructions") + number("/warmup_instructions"),
        measured: number("/instructions") - before,
        mpki_milli: number("/statistics/caches/l3_mpki_milli"),
        device_miss_milli: (1_000 * fetched).checked_div(reads).unwrap_or(0),
        simulated_ps: number("/execution_time_ps"),
        ..run
    }
}

/// A loop of arithmetic, loads and stores that stays in L1, on 8 threads.
fn l1_resident(instructions: u64) -> TraceFile {
    let mut writer = TraceWriter::new();
    let r = Reg::general;
    let body = [
        writer.alu(r(0), &[r(0)]),
        writer.alu(r(1), &[r(0)]),
        writer.load(r(2), r(3)),
        writer.alu(r(4), &[r(2), r(1)]),
        writer.store(r(4), r(5)),
        writer.alu(r(5), &[r(5)]),
        writer.alu(r(6), &[r(1)]),
        writer.branch(),
    ];
    let threads: Vec<_> = (0..8).map(|_| writer.thread()).collect();
    for (index, thread) in threads.iter().enumerate() {
        let base = 0x10_0000 + index as u64 * 0x10_0000;
        for turn in 0..instructions / 64 {
            for (place, inst) in body.iter().enumerate() {
                let operand = (base + (turn * 8) % 8192, 8);
                match place {
                    2 => writer.execute(*thread, *inst, Some(operand), None),
                    4 => writer.execute(*thread, *inst, None, Some(operand)),
                    _ => writer.execute(*thread, *inst, None, None),
                }
            }
        }
    }
    writer.finish()
}

/// A fixed loop of dependent integer steps: how fast this machine is right now, in millions of
/// steps a second.
fn calibrate() -> f64 {
    const STEPS: u64 = 200_000_000;
    let before = cpu_seconds();
    let mut value = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..STEPS {
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
    }
    let seconds = cpu_seconds() - before;
    assert_ne!(
        std::hint::black_box(value),
        0,
        "the loop never reaches zero"
    );
    STEPS as f64 / seconds / 1e6
}

/// Time that passes.
fn wall_seconds() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("a system has a clock");
    time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Time that this process, which has one thread, has been on a host core.
fn cpu_seconds() -> f64 {
    let clock = ClockId::CLOCK_PROCESS_CPUTIME_ID;
    let time = clock_gettime(clock).expect("a process has a clock");
    time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9
}

/// The most memory that this process has had resident so far.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let words = peak.and_then(|words| words.split_whitespace().next());
    words.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}
