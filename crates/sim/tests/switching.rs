//! The coordinated context switch (SkyByte §III-A, D11–D13): who switches, when, and at what cost.

use crate::common::{LINE, PAGE, Program, prepare, run, stat, time};
use cxl::MessageClass;
use serde_json::Value;
use trace::TraceFile;
use units::Picos;

/// One core on a device where nothing but the program's own loads takes time.
const ONE_CORE: &[&str] = &[
    "cpu.cores=1",
    "run.warmup=0%",
    "ssd.prefetch.pages=0",
    "ftl.overwritten=0%",
];

fn on_one_core(trace: &TraceFile, design: &str, more: &[&str]) -> Value {
    run(trace, "demo", design, &[ONE_CORE, more].concat())
}

/// `threads` threads that load a line of `pages` pages of their own each.
fn loads(threads: u64, pages: u64) -> TraceFile {
    let mut program = Program::new();
    for thread in 0..threads {
        let id = program.thread();
        for page in 0..pages {
            program.load(id, (thread * pages + page) * PAGE);
        }
    }
    program.finish()
}

#[test]
fn each_switch_costs_the_switch_cost_and_each_scheduling_of_a_delayed_load_one_message() {
    let result = on_one_core(&loads(1, 1), "skybyte-c", &[]);
    let switches = stat(&result, "os/switches_long_delay");
    assert!(switches > 0, "a flash read takes longer than the threshold");
    let cost = Picos::from_micros(2);
    assert_eq!(stat(&result, "cores/switch_ps"), cost.get() * switches);
    assert_eq!(stat(&result, "requests/delayed"), switches);
    assert_eq!(
        stat(&result, "flash/read_pages"),
        1,
        "the page is fetched once"
    );
    assert_eq!(stat(&result, "cores/instructions"), 1);
    assert_eq!(
        stat(&result, "cores/squashed_instructions") + stat(&result, "os/retries_in_closed_form"),
        switches
    );
}

#[test]
fn a_switch_takes_from_the_answer_to_the_next_start() {
    // With a switch that outlasts the read, the second try finds the page in the data cache.
    let dear = on_one_core(&loads(1, 1), "skybyte-c", &["os.switch_cost=50us"]);
    let dearer = on_one_core(&loads(1, 1), "skybyte-c", &["os.switch_cost=60us"]);
    assert_eq!(stat(&dear, "os/switches_long_delay"), 1);
    assert_eq!(stat(&dear, "requests/ssd_cache_hits"), 1);
    assert_eq!(time(&dearer) - time(&dear), Picos::from_micros(10).get());
}

#[test]
fn a_read_expected_within_the_threshold_waits() {
    let result = on_one_core(&loads(1, 8), "skybyte-c", &["os.switch_threshold=900ms"]);
    assert_eq!(stat(&result, "os/switches_long_delay"), 0);
    assert_eq!(stat(&result, "requests/ssd_misses"), 8);
}

#[test]
fn several_delayed_loads_of_a_window_make_one_exception() {
    let dear = &["os.switch_cost=50us"];
    let result = on_one_core(&loads(1, 6), "skybyte-c", dear);
    assert_eq!(stat(&result, "os/switches_long_delay"), 1);
    // The exception is taken at the first answer; the other five fetches go on (§III-A).
    assert_eq!(stat(&result, "flash/read_pages"), 6);
    assert_eq!(stat(&result, "requests/ssd_cache_hits"), 6);
}

#[test]
fn the_exception_waits_until_the_delayed_load_is_the_oldest() {
    let mut program = Program::new();
    let thread = program.thread();
    // Resident pages first, by a functional warm-up; then a chain of slow loads, and a younger load
    // of a cold page that does not depend on them.
    const STEPS: u64 = 60;
    for _ in 0..=STEPS {
        program.chase(thread, 0);
    }
    for step in 1..=STEPS {
        program.chase(thread, step * LINE);
    }
    program.load(thread, 9 * PAGE);
    let settings = ["os.switch_cost=50us", "run.warmup=50%"];
    let result = on_one_core(&program.finish(), "skybyte-c", &settings);
    assert_eq!(stat(&result, "os/switches_long_delay"), 1);
    let squashed = stat(&result, "cores/squashed_instructions");
    assert_eq!(
        squashed, 1,
        "everything older has retired, the load alone is squashed"
    );
}

#[test]
fn stores_never_switch() {
    let mut program = Program::new();
    let thread = program.thread();
    for page in 0..200 {
        program.store(thread, page * PAGE);
        program.alu(thread, 10);
    }
    let result = on_one_core(&program.finish(), "skybyte-c", &[]);
    assert_eq!(stat(&result, "os/switches_long_delay"), 0);
    assert_eq!(stat(&result, "requests/delayed"), 0);
    assert!(
        stat(&result, "requests/ssd_misses") > 0,
        "stores fetch their lines"
    );
}

#[test]
fn an_access_for_which_a_store_waits_is_asked_for_again_and_must_wait() {
    // D13: the load of one core is delayed; the store of another waits for the same line.
    let mut program = Program::new();
    let (loads, stores) = (program.thread(), program.thread());
    program.load(loads, 0);
    program.alu(stores, 40);
    program.store(stores, 0);
    let settings = [
        "run.warmup=0%",
        "ssd.prefetch.pages=0",
        "ftl.overwritten=0%",
    ];
    let prepared = prepare(&program.finish(), "demo", "skybyte-c", &settings);
    let mut simulation = prepared.start();
    let end = simulation.run(&mut |_| true).expect("the run ends");
    simulation.audit(end);
    let stats = &simulation.fabric.stats;
    assert_eq!(stats.reissued, 1);
    assert!(stats.delayed >= 1);
    let link = simulation.fabric.link.stats();
    assert_eq!(
        link.of(MessageClass::Ndr),
        stats.delayed,
        "no write has been sent"
    );
    assert_eq!(
        stats.counted(),
        link.of(MessageClass::Drs),
        "the line comes once"
    );
}

#[test]
fn switching_overlaps_the_flash_reads_of_many_threads() {
    let trace = loads(8, 1);
    let base = on_one_core(&trace, "base-cssd", &[]);
    let switched = on_one_core(&trace, "skybyte-c", &["os.switch_cost=200ns"]);
    assert_eq!(
        stat(&switched, "flash/read_pages"),
        stat(&base, "flash/read_pages")
    );
    assert!(
        time(&switched) * 3 < time(&base),
        "{} and {}",
        time(&switched),
        time(&base)
    );
}

#[test]
fn threads_whose_pages_drive_each_other_out_come_to_their_ends() {
    // A set of two frames for sixteen threads: each page is gone before its thread is back.
    let tiny = [
        "ssd.dram=8KiB",
        "ssd.cache.ways=2",
        "ssd.cache.mshr_count=2",
        "os.switch_cost=20us",
        "os.scheduler=round_robin",
    ];
    let settings = [ONE_CORE, &tiny].concat();
    let prepared = prepare(&loads(16, 2), "demo", "skybyte-c", &settings);
    let mut calls = 0;
    let outcome = prepared.execute(&mut |_| {
        calls += 1;
        calls < 100
    });
    let result = outcome.expect("the run ends").json().clone();
    assert_eq!(stat(&result, "cores/instructions"), 32);
}

#[test]
fn a_thread_that_sleeps_until_its_page_has_come_switches_once_and_starts_behind_the_notice() {
    let settings = ["os.wake=on_data"];
    let on_data = on_one_core(&loads(1, 1), "skybyte-c", &settings);
    assert_eq!(stat(&on_data, "os/switches_long_delay"), 1);
    assert_eq!(stat(&on_data, "os/data_wakes"), 1);
    assert_eq!(stat(&on_data, "requests/delayed"), 1);
    assert_eq!(stat(&on_data, "requests/ssd_cache_hits"), 1);
    // Without switching the load waits for its page, which comes at the same time. The thread that
    // slept hears of it 1 us later (host.interrupt_latency), the switch takes 2 us, and the load
    // goes to the device again: issue, L1D, L2, L3 1 + 4 + 10 + 40 cycles of 0.25 ns = 13.75 ns;
    // MemRd 17 B at 16 GB/s and half of 40 ns = 21.0625 ns; cache lookup 49 ns; a line of an open
    // row 16 cycles of 0.625 ns and 64 B at 6.4 GB/s = 20 ns. Sum 3103.8125 ns. From there on both
    // do the same. Start and end are whole cycles, so up to two cycles more or less.
    let waits = on_one_core(&loads(1, 1), "base-cssd", &[]);
    let behind = time(&on_data) - time(&waits);
    assert!(behind.abs_diff(3_103_812) < 500, "{behind} ps behind");
    for (setting, more) in [
        ("host.interrupt_latency=11us", 10),
        ("os.switch_cost=7us", 5),
        ("nand.t_r=13us", 10),
    ] {
        let later = on_one_core(&loads(1, 1), "skybyte-c", &[settings[0], setting]);
        let added = time(&later) - time(&on_data);
        assert_eq!(added, Picos::from_micros(more).get(), "{setting}");
    }
}

#[test]
fn threads_that_sleep_leave_the_core_to_others_and_retry_only_what_was_lost() {
    let trace = loads(8, 20);
    let on_data = on_one_core(&trace, "skybyte-full", &["os.wake=on_data"]);
    let requeue = on_one_core(&trace, "skybyte-full", &[]);
    // A thread's first exception counts: it has retired nothing before its first load.
    assert_eq!(stat(&on_data, "os/retries"), 8);
    assert!(stat(&requeue, "os/retries") > 8);
    assert_eq!(stat(&requeue, "os/data_wakes"), 0);
    assert!(stat(&on_data, "os/data_wakes") >= 8, "each thread slept");
    let instructions = |result| stat(result, "cores/instructions");
    assert_eq!(instructions(&on_data), instructions(&requeue));
}

#[test]
fn a_thread_that_is_woken_for_the_arrival_comes_back_once_and_in_time() {
    let trace = loads(1, 1);
    let settings = |wake: &'static str| [wake, "ftl.estimator=die"];
    let requeue = on_one_core(&trace, "skybyte-c", &settings("os.wake=requeue"));
    let arrival = on_one_core(&trace, "skybyte-c", &settings("os.wake=on_arrival"));
    assert_eq!(stat(&arrival, "os/switches_long_delay"), 1);
    assert_eq!(stat(&arrival, "os/data_wakes"), 0, "nobody is told");
    assert!(stat(&requeue, "os/switches_long_delay") > 0);
    assert!(time(&arrival) <= time(&requeue));
}

#[test]
fn retired_stores_that_own_their_lines_leave_the_mshrs_to_loads() {
    let mut program = Program::new();
    let thread = program.thread();
    for page in 0..64 {
        program.store(thread, page * PAGE);
        program.load(thread, (100 + page) * PAGE);
    }
    let trace = program.finish();
    let with = |grants: &'static str| {
        let settings = [grants, "cpu.l1d_mshrs=2", "cpu.store_queue=4"];
        on_one_core(&trace, "skybyte-w", &settings)
    };
    let (waiting, granted) = (with("cpu.store_grants=0"), with("cpu.store_grants=64"));
    // Half as many misses have the two MSHRs; the first and the last ones meet nobody.
    assert!(3 * time(&granted) < 2 * time(&waiting));
    // But for the last stores, which may be on their way when the program ends.
    for statistic in ["flash/read_pages", "requests/ssd_misses"] {
        let (most, waited) = (stat(&granted, statistic), stat(&waiting, statistic));
        assert!(
            most.abs_diff(waited) <= 4,
            "{statistic}: {most} and {waited}"
        );
    }
    let few = with("cpu.store_grants=1");
    assert!(time(&granted) < time(&few) && time(&few) <= time(&waiting));
}

/// Stores to pages of host DRAM hold their MSHRs, as those of DRAM-Only do.
#[test]
fn stores_to_pages_of_host_dram_are_granted_nothing() {
    let mut program = Program::new();
    let thread = program.thread();
    for step in 0..2_000 {
        program.store(thread, step % 97 * PAGE + step % 64 * LINE);
        program.load(thread, (100 + step % 89) * PAGE + step % 61 * LINE);
    }
    let trace = program.finish();
    let with = |grants: &'static str| {
        let promoted = [
            grants,
            "run.warmup=50%",
            "ssd.promotion.threshold=1",
            "cpu.l1d_mshrs=2",
            "cpu.l3=64KiB",
        ];
        on_one_core(&trace, "skybyte-p", &promoted)
    };
    let (waiting, granted) = (with("cpu.store_grants=0"), with("cpu.store_grants=64"));
    assert!(stat(&waiting, "requests/host_reads") > 1_000);
    assert_eq!(stat(&waiting, "link/to_device_bytes"), 0);
    assert_eq!(time(&granted), time(&waiting));
}

/// More threads than frames, which only read: pages drive each other out before anybody has read
/// them, and who has come in vain too often must have data.
#[test]
fn a_thread_out_of_patience_writes_nothing() {
    let mut program = Program::new();
    for page in 0..12 {
        let thread = program.thread();
        for line in 0..64 {
            program.chase(thread, page * PAGE + line * LINE);
        }
    }
    let thrash = [
        "link.ownership=write",
        "ssd.promotion.threshold=4000",
        "ssd.log.size=64KiB",
        "ssd.dram=68KiB",
        "ssd.cache.ways=1",
        "cpu.l3=64KiB",
    ];
    let result = on_one_core(&program.finish(), "skybyte-full", &thrash);
    let vain = stat(&result, "os/retries");
    assert!(vain > 100, "{vain}");
    assert_eq!(stat(&result, "requests/ssd_writes"), 0);
    assert_eq!(stat(&result, "flash/program_pages"), 0);
}
