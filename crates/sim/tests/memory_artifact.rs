//! What SkyByte's artifact does between the cores' caches and memory, each by the one parameter
//! that says so.

mod common;

use common::{LINE, PAGE, Program, prepare, run, stat, time};
use cxl::MessageClass;
use host::thread::TracedThread;
use sim::simulation::Simulation;
use trace::TraceFile;
use units::Lpa;

/// One core whose caches hold a line each, so that every access below reaches them all.
const BARE: &[&str] = &[
    "run.warmup=0%",
    "cpu.cores=1",
    "cpu.l1d=64B",
    "cpu.l1d_ways=1",
    "cpu.l2=64B",
    "cpu.l2_ways=1",
    "cpu.l3=64B",
    "cpu.l3_ways=1",
    "ssd.prefetch_pages=0",
    "ftl.overwritten=0%",
];

fn finished(trace: &TraceFile, design: &str, more: &[&str]) -> Simulation<TracedThread> {
    let prepared = prepare(trace, "demo", design, &[BARE, more].concat());
    let mut simulation = prepared.start();
    let end = simulation.run(&mut |_| true).expect("the run ends");
    simulation.audit(end);
    simulation
}

fn writes(simulation: &Simulation<TracedThread>) -> u64 {
    simulation.fabric.link.stats().of(MessageClass::MemWr)
}

/// A store, after a load of its line or not, and eight loads of other lines, one after the other.
fn a_store_that_leaves(is_loaded: bool) -> TraceFile {
    let mut program = Program::new();
    let thread = program.thread();
    if is_loaded {
        program.chase(thread, 0);
    }
    program.store(thread, 0);
    for line in 1..9 {
        program.chase(thread, line * LINE);
    }
    program.finish()
}

#[test]
fn a_lost_victim_of_l2_reaches_memory_only_if_the_store_asked_for_the_line() {
    let count = |is_loaded, victims| {
        let trace = a_store_that_leaves(is_loaded);
        writes(&finished(&trace, "base-cssd", &[victims]))
    };
    let (written, lost) = ("cpu.l2_victims=written", "cpu.l2_victims=lost");
    assert_eq!((count(true, written), count(false, written)), (1, 1));
    // Loaded first, the line is clean in L3, and what L2 says of it is lost. Stored first, it is
    // dirty in L3 from the start.
    assert_eq!((count(true, lost), count(false, lost)), (0, 1));
}

#[test]
fn an_echo_writes_a_line_again_whenever_it_is_driven_out_again() {
    let trace = a_store_that_leaves(false);
    let lost = "cpu.l2_victims=lost";
    assert_eq!(writes(&finished(&trace, "base-cssd", &[lost])), 1);
    // The store's line is dirty in L3. It comes behind that of the first load, which does not wait
    // for a store that has retired. Each of the seven other loads drives it out of the one place
    // there, and the answer to the write brings it back before the next one.
    let echo = finished(&trace, "base-cssd", &[lost, "link.write_echo=true"]);
    assert_eq!(writes(&echo), 7);
}

#[test]
fn a_store_miss_that_is_a_write_is_appended_to_the_log_or_makes_its_page_dirty() {
    let mut program = Program::new();
    let thread = program.thread();
    program.store(thread, 3 * PAGE);
    // The store's line has come when this is over.
    program.alu(thread, 1_000_000);
    let trace = program.finish();
    let after = |design, ownership: &str| {
        let ownership = format!("link.ownership={ownership}");
        let mut simulation = finished(&trace, design, &[&ownership]);
        let device = simulation.fabric.device.as_ref().expect("a device");
        let reads = device.controller.ftl_stats().host_reads;
        let appends = device.controller.stats().log_appends;
        let now = simulation.fabric.queue.now();
        (
            reads,
            appends,
            simulation.fabric.drop_promoted(now, Lpa::new(0)),
        )
    };
    assert_eq!(after("skybyte-w", "read"), (1, 0, false));
    assert_eq!(after("skybyte-w", "write"), (0, 1, true));
    assert_eq!(after("base-cssd", "read"), (1, 0, false));
    assert_eq!(after("base-cssd", "write"), (1, 0, true));
}

#[test]
fn the_way_to_memory_and_the_interval_between_lines_are_cycles_of_250_ps() {
    let mut program = Program::new();
    let thread = program.thread();
    for line in 0..6 {
        program.chase(thread, line * LINE);
    }
    let trace = program.finish();
    let settings = |setting| [BARE, &["cpu.tlb=false", setting]].concat();
    let result = |setting| time(&run(&trace, "demo", "dram-only", &settings(setting)));
    // The fetch of the code, then one load after the other.
    let way = result("cpu.memory_latency=231cycles") - result("cpu.memory_latency=0cycles");
    assert_eq!(way, 7 * 231 * 250);
    // Six lines have another one before them, and each waits for its turn.
    let apart = result("cpu.memory_interval=9000cycles") - result("cpu.memory_interval=8000cycles");
    assert_eq!(apart, 6 * 1000 * 250);
}

#[test]
fn without_tlb_there_is_no_walk() {
    let mut program = Program::new();
    let thread = program.thread();
    for page in 0..5 {
        program.chase(thread, page * PAGE);
    }
    let trace = program.finish();
    let walks = |tlb| {
        let settings = [BARE, &[tlb]].concat();
        stat(
            &run(&trace, "demo", "dram-only", &settings),
            "caches/tlb_walks",
        )
    };
    assert_eq!((walks("cpu.tlb=true"), walks("cpu.tlb=false")), (5, 0));
}

#[test]
fn cold_caches_ask_memory_again_and_the_device_stays_warm() {
    let mut program = Program::new();
    let thread = program.thread();
    for _ in 0..2 {
        for line in 0..40 {
            program.chase(thread, line * LINE);
        }
    }
    let trace = program.finish();
    let result = |warm| run(&trace, "demo", "base-cssd", &["run.warmup=50%", warm]);
    let (warm, cold) = (
        result("run.warm_caches=true"),
        result("run.warm_caches=false"),
    );
    assert_eq!(stat(&warm, "requests/ssd_cache_hits"), 0);
    assert_eq!(stat(&cold, "requests/ssd_cache_hits"), 40);
    assert_eq!(stat(&cold, "requests/ssd_misses"), 0);
}
