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

/// An L3 of two lines.
const TWO: &[&str] = &["cpu.l3=128B", "cpu.l3_ways=2"];

/// A store and eight loads of other lines, one after the other. Before them two loads, if the store
/// is to find its line in L3 and not in L1D: the first is of the store's line.
fn a_store_that_leaves(is_in_l3: bool) -> TraceFile {
    let mut program = Program::new();
    let thread = program.thread();
    if is_in_l3 {
        program.chase(thread, 0);
        program.chase(thread, 20 * LINE);
        // More than a window: both loads have their lines.
        program.alu(thread, 1_000);
    }
    program.store(thread, 0);
    for line in 1..9 {
        program.chase(thread, line * LINE);
    }
    program.finish()
}

/// Stores have their lines before anything younger goes for its own.
const ORDERED: &[&str] = &["cpu.stores=waited", "cpu.memory_issue=in_order"];

#[test]
fn a_lost_victim_of_l2_reaches_memory_only_if_the_store_found_its_line_in_l3() {
    let count = |is_in_l3, victims: &str| {
        let settings = [TWO, ORDERED, &[victims]].concat();
        writes(&finished(
            &a_store_that_leaves(is_in_l3),
            "base-cssd",
            &settings,
        ))
    };
    let (written, lost) = ("cpu.l2_victims=written", "cpu.l2_victims=lost");
    assert_eq!((count(true, written), count(false, written)), (1, 1));
    // What L2 says of a dirty line is lost, so it counts what L3 knows of it.
    assert_eq!((count(true, lost), count(false, lost)), (1, 0));
}

#[test]
fn an_echo_writes_a_line_again_whenever_it_is_driven_out_again() {
    let count = |echo: &str| {
        let settings = [TWO, ORDERED, &["cpu.l2_victims=lost", echo]].concat();
        writes(&finished(
            &a_store_that_leaves(true),
            "base-cssd",
            &settings,
        ))
    };
    assert_eq!(count("link.write_echo=false"), 1);
    // The store makes its line the younger of two. The first load drives the other one out, the
    // second the store's; the answer brings it back, younger again. So with loads 2, 4, 6 and 8.
    assert_eq!(count("link.write_echo=true"), 4);
    let settings = [
        TWO,
        ORDERED,
        &["cpu.l2_victims=lost", "link.write_echo=true"],
    ]
    .concat();
    let dram = finished(&a_store_that_leaves(true), "dram-only", &settings);
    assert_eq!(dram.fabric.llc.stats().write_backs_out, 1);
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
    let apart = result("cpu.l3_interval=9000cycles") - result("cpu.l3_interval=8000cycles");
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
