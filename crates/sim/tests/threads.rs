//! Threads of the capture: whichever the scheduler takes, all of them end with all of their
//! instructions, and what waited for another thread waits again (D1).

use crate::common::{PAGE, Program, mixed, run, stat, time};
use serde_json::Value;
use trace::{FutexId, SyncEvent, TraceFile, Wake};

/// Arithmetic that takes about as long as this many nanoseconds.
fn busy(program: &mut Program, thread: units::ThreadId, nanoseconds: u64) {
    program.alu(thread, nanoseconds * 16);
}

fn run_idle(trace: &TraceFile) -> Value {
    run(trace, "demo", "base-cssd", &["run.warmup=0%"])
}

fn finished(result: &Value, thread: u64) -> u64 {
    stat(result, &format!("threads/{thread}/finished_ps"))
}

#[test]
fn every_scheduler_runs_every_thread_to_its_end() {
    let trace = mixed(7, 1_000, 3_000, 41);
    for design in ["skybyte-full", "skybyte-c"] {
        let results: Vec<Value> = ["round_robin", "random", "cfs"]
            .iter()
            .map(|policy| run(&trace, "demo", design, &[&format!("os.scheduler={policy}")]))
            .collect();
        let counts: Vec<u64> = results
            .iter()
            .map(|result| stat(result, "cores/instructions"))
            .collect();
        assert!(
            counts.windows(2).all(|pair| pair[0] == pair[1]),
            "{design}: {counts:?}"
        );
        for result in &results {
            let end = time(result);
            let last = (0..7).map(|thread| finished(result, thread)).max();
            assert_eq!(last, Some(end), "{design}: a run ends with its last thread");
        }
    }
}

#[test]
fn a_created_thread_starts_after_its_creation_and_a_join_waits_for_it() {
    let mut program = Program::new();
    let (parent, child) = (program.thread(), program.thread());
    let syscall = program.writer.syscall();
    busy(&mut program, parent, 5_000);
    program
        .writer
        .execute_sync(parent, syscall, SyncEvent::ThreadCreate { child });
    busy(&mut program, parent, 1_000);
    program
        .writer
        .execute_sync(parent, syscall, SyncEvent::Join { child });
    busy(&mut program, parent, 2_000);
    busy(&mut program, child, 20_000);
    let result = run_idle(&program.finish());
    let ns = |count: u64| units::Picos::from_nanos(count).get();
    assert!(
        finished(&result, 1) >= ns(25_000),
        "the child starts after 5 µs"
    );
    assert!(
        finished(&result, 0) >= finished(&result, 1) + ns(2_000),
        "the parent waits"
    );
    assert_eq!(stat(&result, "os/switches_blocked"), 1);
    // Both cores idle in part: the second before the creation, the first during the join.
    assert!(stat(&result, "cores/idle_ps") >= ns(5_000 + 15_000));
}

#[test]
fn a_futex_wait_lasts_until_the_wake_that_ended_it() {
    let mut program = Program::new();
    let (waiter, waker) = (program.thread(), program.thread());
    let syscall = program.writer.syscall();
    let futex = FutexId::new(1);
    let woken_by = Some(Wake {
        thread: waker,
        count: 2,
    });
    program
        .writer
        .execute_sync(waiter, syscall, SyncEvent::FutexWait { futex, woken_by });
    busy(&mut program, waiter, 1_000);
    for count in 1..=2 {
        busy(&mut program, waker, 10_000);
        program
            .writer
            .execute_sync(waker, syscall, SyncEvent::FutexWake { futex, count });
    }
    busy(&mut program, waker, 10_000);
    let result = run_idle(&program.finish());
    let ns = |count: u64| units::Picos::from_nanos(count).get();
    let woken = finished(&result, 0);
    assert!(
        woken >= ns(21_000),
        "the second wake ends the wait, not the first: {woken}"
    );
    assert!(woken < finished(&result, 1), "the waker goes on for 10 µs");
    assert_eq!(stat(&result, "os/switches_blocked"), 1);
}

#[test]
fn a_wait_for_a_wake_that_has_been_made_costs_a_system_call() {
    let mut program = Program::new();
    let (waiter, waker) = (program.thread(), program.thread());
    let syscall = program.writer.syscall();
    let futex = FutexId::new(1);
    program
        .writer
        .execute_sync(waker, syscall, SyncEvent::FutexWake { futex, count: 1 });
    busy(&mut program, waiter, 10_000);
    let woken_by = Some(Wake {
        thread: waker,
        count: 1,
    });
    program
        .writer
        .execute_sync(waiter, syscall, SyncEvent::FutexWait { futex, woken_by });
    let result = run_idle(&program.finish());
    assert_eq!(stat(&result, "os/switches_blocked"), 0);
    assert_eq!(stat(&result, "os/syscalls"), 2);
}

#[test]
fn blocked_threads_leave_their_cores_to_others() {
    // Two threads wait for a third, which has the cores to itself with a fourth.
    let mut program = Program::new();
    let ids: Vec<_> = (0..4).map(|_| program.thread()).collect();
    let syscall = program.writer.syscall();
    let futex = FutexId::new(1);
    for waiter in &ids[..2] {
        let woken_by = Some(Wake {
            thread: ids[2],
            count: 1,
        });
        program
            .writer
            .execute_sync(*waiter, syscall, SyncEvent::FutexWait { futex, woken_by });
        program.load(*waiter, PAGE);
    }
    for worker in &ids[2..] {
        busy(&mut program, *worker, 100_000);
    }
    program
        .writer
        .execute_sync(ids[2], syscall, SyncEvent::FutexWake { futex, count: 1 });
    let result = run_idle(&program.finish());
    let ns = |count: u64| units::Picos::from_nanos(count).get();
    assert_eq!(stat(&result, "os/switches_blocked"), 2);
    assert!(time(&result) < ns(120_000), "the workers run side by side");
}

#[test]
fn a_system_call_that_need_not_wait_costs_its_cost() {
    let trace = || {
        let mut program = Program::new();
        let thread = program.thread();
        let syscall = program.writer.syscall();
        let futex = FutexId::new(1);
        for count in 1..=50 {
            busy(&mut program, thread, 100);
            program
                .writer
                .execute_sync(thread, syscall, SyncEvent::FutexWake { futex, count });
        }
        program.finish()
    };
    let end = |cost: &str| {
        time(&run(
            &trace(),
            "demo",
            "base-cssd",
            &["run.warmup=0%", cost],
        ))
    };
    let difference = end("os.syscall_cost=300ns") - end("os.syscall_cost=200ns");
    assert_eq!(difference, units::Picos::from_nanos(100).get() * 50);
}
