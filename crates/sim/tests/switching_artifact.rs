//! What SkyByte's artifact makes of a context switch, beyond the scenarios of its switches in
//! `fidelity`.

use crate::common::{PAGE, Program, prepare, run, stat, time};
use cxl::MessageClass;
use serde_json::Value;
use trace::TraceFile;
use units::Picos;

/// A device where nothing but the program's own accesses takes time, and a flash read takes 50 us.
const QUIET: &[&str] = &[
    "run.warmup=0%",
    "ssd.prefetch.pages=0",
    "ftl.overwritten=0%",
    "nand.t_r=50us",
];
/// The threads of one core wait on it.
const HELD: &[&str] = &["cpu.cores=1", "os.wake=hold_core"];
const DELIVERED: &[&str] = &["os.delayed_line=delivered", "os.switch_at=response"];

fn on(trace: &TraceFile, design: &str, parts: &[&[&str]]) -> Value {
    run(trace, "demo", design, &[&[QUIET], parts].concat().concat())
}
fn micros(micros: u64) -> u64 {
    Picos::from_micros(micros).get()
}

/// One thread that loads a line.
fn one_load() -> TraceFile {
    let mut program = Program::new();
    let thread = program.thread();
    program.load(thread, 0);
    program.finish()
}

#[test]
fn a_thread_that_holds_its_core_switches_once_and_the_switch_overlaps_the_wait() {
    let result = |cost| on(&one_load(), "skybyte-c", &[HELD, &[cost]]);
    let (short, long) = (result("os.switch_cost=1us"), result("os.switch_cost=10us"));
    assert_eq!(stat(&short, "os/switches_long_delay"), 1);
    assert_eq!(stat(&short, "cores/switch_ps"), micros(1));
    // Either way the thread goes on when its page is expected.
    assert_eq!(time(&short), time(&long));
    // A switch of 100 us ends after that: it alone decides.
    let (slow, slower) = (
        result("os.switch_cost=100us"),
        result("os.switch_cost=110us"),
    );
    assert_eq!(time(&slower) - time(&slow), micros(10));
    // In the paper the thread comes back every couple of microseconds.
    let requeued = on(
        &one_load(),
        "skybyte-c",
        &[&["cpu.cores=1", "os.switch_cost=1us"]],
    );
    assert!(stat(&requeued, "os/switches_long_delay") > 20);
}

#[test]
fn a_delivered_line_is_free_for_whoever_merges_and_for_the_thread_that_returns() {
    // Two threads on two cores load the same line of a cold page.
    let mut program = Program::new();
    for _ in 0..2 {
        let thread = program.thread();
        program.load(thread, 0);
    }
    let trace = program.finish();
    let settings = [QUIET, DELIVERED, &["os.switch_cost=200us"]].concat();
    let prepared = prepare(&trace, "demo", "skybyte-c", &settings);
    let mut simulation = prepared.start();
    let end = simulation.run(&mut |_| true).expect("the run ends");
    simulation.audit(end);
    // One request, answered by SkyByte-Delay; whoever merged has its line.
    assert_eq!(simulation.fabric.stats.delayed, 1);
    let link = simulation.fabric.link.stats();
    assert_eq!(link.of(MessageClass::MemRd), 1);
    assert_eq!(link.of(MessageClass::Ndr), 1);
    // The thread that asked comes back to a line in L1D: no more than 200 us after the answer.
    let latest = micros(200 + 1);
    assert!(end.as_picos() < latest, "{end}");
}

#[test]
fn a_thread_whose_squashed_work_is_delayed_too_waits_for_the_later_page() {
    // The second load needs the first one's data and is issued with the answer to it, which comes
    // with the line: with four channels the two reads overlap. With one channel both pages are on
    // one die, and the second is there after 100 us. Its answer comes when the thread stands on the
    // core again, to start after 50 us: it takes the exception once more.
    let mut program = Program::new();
    let thread = program.thread();
    program.chase(thread, 0);
    program.chase(thread, 200 * PAGE);
    let trace = program.finish();
    let result = |channels| {
        let runs_on = ["os.squash=runs_on", channels];
        time(&on(&trace, "skybyte-c", &[HELD, DELIVERED, &runs_on]))
    };
    let (apart, together) = (result("nand.channels=4"), result("nand.channels=1"));
    assert!((micros(50)..micros(54)).contains(&apart), "{apart}");
    assert!((micros(100)..micros(104)).contains(&together), "{together}");
}
