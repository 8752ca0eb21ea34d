//! Speed of the simulator, printed beside a fixed calibration loop of the same run.
//!
//! `bench run TRACE MACHINE DESIGN [SETTING…]` runs one capture (also the subject of callgrind);
//! `bench loop INSTRUCTIONS` runs L1-resident code on Table II's 8 cores.
//! Each prints simulated instructions, CPU seconds of this process, and millions a second.

use sim::run::{Prepared, RunSpec};
use std::process::ExitCode;
use trace::{Reg, TraceFile, TraceWriter};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["run", trace, machine, design, settings @ ..] => {
            run(spec(trace, machine, design, settings), None)
        }
        ["loop", instructions] => match instructions.parse() {
            Ok(instructions) => run(spec("loop", "table2", "dram-only", &[]), Some(instructions)),
            Err(_) => Err(format!("{instructions} is not a number of instructions")),
        },
        _ => Err("usage: bench run TRACE MACHINE DESIGN [SETTING…] | bench loop N".to_string()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("bench: {problem}");
            ExitCode::from(2)
        }
    }
}

fn spec(trace: &str, machine: &str, design: &str, settings: &[&str]) -> RunSpec {
    RunSpec {
        trace: trace.to_string(),
        machine: machine.to_string(),
        design: design.to_string(),
        nand: None,
        files: Vec::new(),
        overrides: settings.iter().map(ToString::to_string).collect(),
        threads: None,
        is_audited: false,
    }
}

fn run(spec: RunSpec, loop_instructions: Option<u64>) -> Result<(), String> {
    let design = spec.design.clone();
    let prepared = match loop_instructions {
        Some(count) => Prepared::with_trace(spec, l1_resident(count)),
        None => Prepared::new(spec),
    };
    let prepared = prepared.map_err(|error| error.to_string())?;
    let calibration = calibrate();
    let before = cpu_seconds();
    let result = prepared.execute(&mut |_| true).map_err(|error| error.to_string())?;
    let seconds = cpu_seconds() - before;
    let json = result.json();
    let number = |pointer: &str| json.pointer(pointer).and_then(|v| v.as_u64()).unwrap_or(0);
    let instructions = number("/instructions") + number("/warmup_instructions");
    let rate = instructions as f64 / seconds / 1e6;
    println!(
        "{} {design}: {instructions} instructions in {seconds:.2} s: {rate:.2} M/s; L3 MPKI {:.1}; \
         {:.3} s simulated ms {:.3}; calibration {calibration:.0} M steps/s; {:.4} instructions per step",
        prepared.trace_name(),
        number("/statistics/caches/l3_mpki_milli") as f64 / 1e3,
        seconds,
        number("/execution_time_ps") as f64 / 1e9,
        rate / calibration,
    );
    Ok(())
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
    assert_ne!(std::hint::black_box(value), 0, "the loop never reaches zero");
    STEPS as f64 / seconds / 1e6
}

/// User and system time of this process so far.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = after_name.split_whitespace().skip(11).take(2).flat_map(str::parse::<u64>).sum();
    ticks as f64 / 100.0
}
