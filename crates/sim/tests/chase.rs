//! A pointer chase gives 1 ÷ latency: each step waits for the one before, so time is the number of
//! steps times what a step costs, to the cycle.
//!
//! Two chases that differ in length only are compared, so whatever precedes them cancels.

use crate::common::{LINE, PAGE, Program, prepare};
use cxl::MessageClass::{Drs, MemRd};
use dram::{DramSpec, DramStats};
use host::thread::TracedThread;
use sim::config::Config;
use sim::simulation::Simulation;
use trace::TraceFile;
use units::{Picos, Time};

/// As many pages as the first TLB holds of the demo machine, each with a row of its own bank.
const PAGES: u64 = 60;

/// Touches a line of every page, then chases through `lines` further lines of every page.
fn chase(lines: u64) -> TraceFile {
    let mut program = Program::new();
    let thread = program.thread();
    for page in 0..PAGES {
        program.chase(thread, page * PAGE);
    }
    for page in 0..PAGES {
        for line in 1..=lines {
            program.chase(thread, page * PAGE + line * LINE);
        }
    }
    program.finish()
}

struct Outcome {
    config: Config,
    end: Time,
    dram: DramStats,
    simulation: Simulation<TracedThread>,
}

fn run(lines: u64, design: &str, settings: &[&str]) -> Outcome {
    let prepared = prepare(&chase(lines), "demo", design, settings);
    let mut simulation = prepared.start();
    let end = simulation.run(&mut |_| true).expect("the run ends");
    simulation.audit(end);
    let dram = match &simulation.fabric.device {
        Some(device) => *device.resources.dram.stats(),
        None => simulation.fabric.host_dram.stats(),
    };
    Outcome {
        config: prepared.config().clone(),
        end,
        dram,
        simulation,
    }
}

/// What the steps by which `long` exceeds `short` must cost: each begins on a cycle, passes L1D, L2
/// and L3, and takes `before` and `after` its access to a DRAM of `spec`.
fn expected(short: &Outcome, long: &Outcome, spec: &DramSpec, around: Picos) -> Picos {
    let cpu = &short.config.cpu;
    let period = cpu.clock.period().expect("a clock");
    let on_chip = cpu.l1d_latency.get() + cpu.l2_latency.get() + cpu.l3_latency.get();
    assert_eq!(
        short.dram.wait, long.dram.wait,
        "one access at a time waits for nothing"
    );
    let step = |dram: Picos, count: u64| {
        let beyond = (around + dram).get().div_ceil(period.get());
        period * (on_chip + beyond) * count
    };
    step(
        spec.unloaded_hit(),
        long.dram.row_hits - short.dram.row_hits,
    ) + step(
        spec.unloaded_closed(),
        long.dram.row_misses - short.dram.row_misses,
    ) + step(
        spec.unloaded_conflict(),
        long.dram.row_conflicts - short.dram.row_conflicts,
    )
}

#[test]
fn a_chase_through_host_dram_takes_caches_and_dram_for_each_step() {
    let (short, long) = (run(20, "dram-only", &[]), run(60, "dram-only", &[]));
    let spec = short.config.host_dram.spec();
    assert_eq!(long.dram.reads - short.dram.reads, 40 * PAGES);
    assert_eq!(
        long.end - short.end,
        expected(&short, &long, &spec, Picos::ZERO)
    );
}

#[test]
fn a_chase_over_resident_pages_takes_caches_link_lookup_and_device_dram_for_each_step() {
    for design in ["base-cssd", "skybyte-w"] {
        let settings = &["ssd.prefetch.pages=0"];
        let (short, long) = (run(20, design, settings), run(60, design, settings));
        let spec = short.config.ssd_dram.spec();
        let link = &short.simulation.fabric.link;
        let around = link.unloaded(MemRd) + link.unloaded(Drs) + short.config.ssd.cache.lookup;
        assert_eq!(long.dram.reads - short.dram.reads, 40 * PAGES);
        assert_eq!(
            long.end - short.end,
            expected(&short, &long, &spec, around),
            "{design}"
        );
    }
}

#[test]
fn a_chase_through_l2_takes_no_memory() {
    // The second pass finds every line in L2.
    let pass = |passes: u64| {
        let mut program = Program::new();
        let thread = program.thread();
        // Twice as many lines as L1D has, so that LRU keeps none of the next pass in L1D.
        let lines = 1024;
        for turn in 0..passes * lines {
            program.chase(thread, turn % lines * LINE);
        }
        let settings = &["cpu.l2=512KiB", "cpu.l1d=32KiB"];
        let prepared = prepare(&program.finish(), "demo", "base-cssd", settings);
        let mut simulation = prepared.start();
        let end = simulation.run(&mut |_| true).expect("the run ends");
        (end, prepared.config().cpu.clone())
    };
    let (two, cpu) = pass(2);
    let (three, _) = pass(3);
    let step =
        cpu.clock.period().expect("a clock") * (cpu.l1d_latency.get() + cpu.l2_latency.get());
    assert_eq!(three - two, step * 1024);
}
