//! Programs that run together (D3): disjoint pages and code, threads of their own.

use crate::common::{PAGE, Program, stat, time};
use serde_json::Value;
use sim::run::{Prepared, RunSpec};
use trace::{FutexId, SyncEvent, TraceFile, Wake};

fn co_run(traces: &[TraceFile], overrides: &[&str]) -> Value {
    let names: Vec<String> = (0..traces.len()).map(|n| format!("p{n}.etr")).collect();
    let spec = RunSpec {
        trace: names.join("+"),
        overrides: overrides.iter().map(ToString::to_string).collect(),
        ..crate::common::spec("demo", "base-cssd")
    };
    let run = Prepared::with_traces(spec, traces.to_vec()).expect("the settings are valid");
    run.execute(&mut |_| true)
        .expect("the run ends")
        .json()
        .clone()
}

fn program(result: &Value, index: usize, name: &str) -> u64 {
    result["programs"][index][name]
        .as_u64()
        .expect("a number of a program")
}

/// `steps` instructions of arithmetic and one load from each of `pages` pages.
fn worker(steps: u64, pages: u64) -> TraceFile {
    let mut program = Program::new();
    let thread = program.thread();
    program.alu(thread, steps);
    for page in 0..pages {
        program.load(thread, page * PAGE);
    }
    program.finish()
}

#[test]
fn a_program_alone_is_the_whole_run() {
    let result = co_run(&[worker(1_000, 2)], &["run.warmup=0%"]);
    assert_eq!(result["trace"], "p0");
    assert_eq!(program(&result, 0, "execution_time_ps"), time(&result));
    assert_eq!(program(&result, 0, "instructions"), 1_002);
    assert_eq!(result["programs"].as_array().unwrap().len(), 1);
}

#[test]
fn programs_on_cores_of_their_own_share_no_page_and_no_line_of_code() {
    let alone = co_run(&[worker(100_000, 8)], &["run.warmup=0%"]);
    let both = co_run(&[worker(100_000, 8), worker(50_000, 8)], &["run.warmup=0%"]);
    assert_eq!(both["trace"], "p0+p1");
    assert_eq!(program(&both, 0, "instructions"), 100_008);
    assert_eq!(program(&both, 1, "instructions"), 50_008);
    // Two captures of the same addresses touch twice as many pages and fetch twice the code.
    let fetches = |result: &Value| stat(result, "flash/host_read_pages");
    assert_eq!(fetches(&both), 2 * fetches(&alone));
    let code = |result: &Value| stat(result, "caches/l1i_misses");
    assert_eq!(code(&both), 2 * code(&alone));
    // On a core of its own, the longer one takes as long as alone, save for waiting in L3's
    // banks and on flash channels that both use at the end.
    let (mixed, single) = (program(&both, 0, "execution_time_ps"), time(&alone));
    assert!(
        single <= mixed && mixed < single + single / 20,
        "{mixed} {single}"
    );
    assert!(program(&both, 1, "execution_time_ps") < mixed);
}

#[test]
fn programs_on_one_core_take_turns() {
    // Without the prefetcher: the second program's page follows the first one's.
    let settings = ["run.warmup=0%", "cpu.cores=1", "ssd.prefetch.pages=0"];
    let alone = time(&co_run(&[worker(400_000, 1)], &settings));
    let both = co_run(&[worker(400_000, 1), worker(400_000, 1)], &settings);
    // 25 us each at 4 instructions a cycle: within a time slice of 100 us one ends before the
    // other starts, so the second one takes both times and a switch of 2 us.
    let (first, second) = (
        program(&both, 0, "execution_time_ps"),
        program(&both, 1, "execution_time_ps"),
    );
    assert!(first.abs_diff(alone) < alone / 50, "{first} {alone}");
    assert!(
        second.abs_diff(2 * alone + 2_000_000) < alone / 20,
        "{second} {alone}"
    );
}

/// Thread 0 creates thread 1 and waits for its wake, then for its end.
fn family() -> TraceFile {
    let mut program = Program::new();
    let (parent, child) = (program.thread(), program.thread());
    let call = program.writer.syscall();
    let writer = &mut program.writer;
    let futex = FutexId::new(1);
    writer.execute_sync(parent, call, SyncEvent::ThreadCreate { child });
    let wake = Wake {
        thread: child,
        count: 1,
    };
    writer.execute_sync(
        parent,
        call,
        SyncEvent::FutexWait {
            futex,
            woken_by: Some(wake),
        },
    );
    writer.execute_sync(parent, call, SyncEvent::Join { child });
    program.alu(child, 4_000);
    program
        .writer
        .execute_sync(child, call, SyncEvent::FutexWake { futex, count: 1 });
    program.alu(child, 4_000);
    program.finish()
}

#[test]
fn edges_between_threads_stay_within_their_program() {
    let both = co_run(&[family(), family()], &["run.warmup=0%"]);
    for index in 0..2 {
        let end = |thread: usize| {
            let threads = both.pointer("/statistics/threads").unwrap();
            threads[2 * index + thread]["finished_ps"].as_u64().unwrap()
        };
        assert!(end(0) >= end(1), "the parent waits for its own child");
        assert_eq!(program(&both, index, "execution_time_ps"), end(0));
    }
    assert_eq!(both["threads"], 4);
}
