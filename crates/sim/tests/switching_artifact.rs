//! What SkyByte's artifact makes of a context switch, each by the one parameter that says so.

mod common;

use common::{LINE, PAGE, Program, prepare, run, stat, time};
use cxl::MessageClass;
use serde_json::Value;
use trace::TraceFile;
use units::Picos;

/// A device where nothing but the program's own accesses takes time, and a flash read takes 50 us.
const QUIET: &[&str] = &[
    "run.warmup=0%",
    "ssd.prefetch_pages=0",
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
fn the_first_start_of_a_thread_is_free_where_that_of_a_core_is_not() {
    let mut program = Program::new();
    for _ in 0..3 {
        let thread = program.thread();
        program.alu(thread, 1_000);
    }
    let trace = program.finish();
    let result = |free| on(&trace, "skybyte-c", &[&["cpu.cores=1", free]]);
    let (core, thread) = (result("os.free_start=core"), result("os.free_start=thread"));
    // The second and the third thread come to the core after another one.
    assert_eq!(time(&core) - time(&thread), micros(2 * 2));
    assert_eq!(stat(&thread, "cores/switch_ps"), 0);
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
fn at_the_answer_the_switch_does_not_wait_for_older_instructions() {
    // A chain of 60 loads of a resident page, and a load of a cold page that depends on none.
    const STEPS: u64 = 60;
    let program = |is_last: bool| {
        let mut program = Program::new();
        let thread = program.thread();
        for _ in 0..=STEPS {
            program.chase(thread, 0);
        }
        for step in 1..=STEPS {
            program.chase(thread, step * LINE);
        }
        if is_last {
            program.load(thread, 9 * PAGE);
        }
        program.finish()
    };
    let settings = ["run.warmup=50%", "os.switch_cost=100us"];
    let result = |at| on(&program(true), "skybyte-c", &[HELD, &settings, &[at]]);
    let (retire, response) = (
        result("os.switch_at=retire"),
        result("os.switch_at=response"),
    );
    for result in [&retire, &response] {
        assert_eq!(stat(result, "os/switches_long_delay"), 1);
        assert_eq!(stat(result, "cores/squashed_instructions"), 1);
    }
    // At retirement the switch follows the chain; at the answer the chain goes on behind it.
    let chain = time(&on(&program(false), "skybyte-c", &[HELD, &settings]));
    assert!(chain > micros(5), "{chain}");
    let saved = time(&retire) - time(&response);
    // The chain but for the time until the answer, which is that of one load without its data.
    let one = chain / STEPS;
    assert!(
        saved < chain && saved + 2 * one > chain,
        "{saved} of {chain}"
    );
}

#[test]
fn squashed_work_that_runs_on_fetches_what_comes_after_the_delayed_load() {
    // The second load needs the first one's data. Gone at once, the work makes two flash reads of
    // 50 us one after the other; running on, it has the first line 158 ns or so after the request,
    // and the second page is read beside the first.
    let mut program = Program::new();
    let thread = program.thread();
    program.chase(thread, 0);
    program.chase(thread, 200 * PAGE);
    let trace = program.finish();
    let result = |squash| on(&trace, "skybyte-c", &[HELD, DELIVERED, &[squash]]);
    let at_once = result("os.squash=at_once");
    let runs_on = result("os.squash=runs_on");
    for result in [&at_once, &runs_on] {
        assert_eq!(stat(result, "cores/instructions"), 2);
        assert_eq!(stat(result, "flash/read_pages"), 2);
    }
    assert!((micros(100)..micros(106)).contains(&time(&at_once)));
    assert!((micros(50)..micros(54)).contains(&time(&runs_on)));
    assert_eq!(stat(&at_once, "os/switches_long_delay"), 2);
    assert_eq!(stat(&runs_on, "os/switches_long_delay"), 1);
}

#[test]
fn stores_switch_where_they_wait_for_their_lines_and_there_is_no_log() {
    let mut program = Program::new();
    let thread = program.thread();
    program.store(thread, 0);
    let trace = program.finish();
    let switches = |design, settings: &[&str]| {
        let result = on(&trace, design, &[HELD, settings]);
        assert_eq!(stat(&result, "cores/instructions"), 1);
        stat(&result, "os/switches_long_delay")
    };
    let both = ["os.stores_switch=true", "cpu.stores=waited"];
    assert_eq!(switches("skybyte-c", &both), 1);
    assert_eq!(switches("skybyte-c", &both[1..]), 0);
    assert_eq!(switches("skybyte-c", &both[..1]), 0);
    assert_eq!(switches("skybyte-full", &both), 0);
}

#[test]
fn ignored_edges_let_nobody_wait() {
    use trace::{FutexId, SyncEvent, Wake};
    let mut program = Program::new();
    let syscall = program.writer.syscall();
    let (waits, wakes) = (program.thread(), program.thread());
    let futex = FutexId::new(0);
    let woken_by = Some(Wake {
        thread: wakes,
        count: 1,
    });
    let wait = SyncEvent::FutexWait { futex, woken_by };
    program.writer.execute_sync(waits, syscall, wait);
    program.alu(waits, 400_000);
    program.alu(wakes, 400_000);
    program
        .writer
        .execute_sync(wakes, syscall, SyncEvent::FutexWake { futex, count: 1 });
    let trace = program.finish();
    let result = |edges| time(&on(&trace, "dram-only", &[&["cpu.cores=2", edges]]));
    // 400,000 instructions at four a cycle of 250 ps take 25 us; the thread that waited is switched
    // in again for 2 us.
    let replayed = result("os.edges=replayed");
    assert!((micros(52)..micros(53)).contains(&replayed), "{replayed}");
    let ignored = result("os.edges=ignored");
    assert!((micros(25)..micros(26)).contains(&ignored), "{ignored}");
}
