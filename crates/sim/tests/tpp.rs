//! Migration by the operating system (TPP): hint faults find hot pages, locked pages move.

use crate::common::{LINE, PAGE, Program, mixed, prepare, run, spec, stat, time};
use host::thread::TracedThread;
use sim::run::Prepared;
use sim::simulation::Simulation;
use trace::TraceFile;

/// One core, no warm-up, no thread switches, and a scan of one page every 80 us; migration costs
/// nothing but the copy and 200 ns for the page table.
const ONE_CORE: &[&str] = &[
    "run.warmup=0%",
    "ssd.prefetch.pages=0",
    "cpu.cores=1",
    "os.switch_threshold=1000s",
    "host.page_table_cost=200ns",
    "host.shootdown_cost=0ns",
    "tpp.scan_period=80us",
    "tpp.scan_pages=1",
    "tpp.arm_cost=0ns",
    "tpp.fault_cost=0ns",
    "tpp.migration_cost=0ns",
];

fn finished(trace: &TraceFile, design: &str, settings: &[&str]) -> Simulation<TracedThread> {
    let prepared = prepare(trace, "demo", design, settings);
    let mut simulation = prepared.start();
    simulation.run(&mut |_| true).expect("the run ends");
    let end = simulation.drain();
    simulation.audit(end);
    simulation
}

/// Four loads of one page's lines, 100 us apart: 1,600,000 additions are 400,000 cycles of 250 ps.
fn one_page() -> TraceFile {
    let mut program = Program::new();
    let thread = program.thread();
    for line in 0..4 {
        program.chase(thread, line * LINE);
        program.alu(thread, 1_600_000);
    }
    program.finish()
}

#[test]
fn a_page_is_promoted_by_its_second_hint_fault() {
    // Scans at 80, 160, 240, 320 and 400 us. The first arms the page; the load at 100 us takes a
    // hint fault: active. The second arms it again; the load at 200 us faults: promoted. The other
    // scans find no page on the device.
    let simulation = finished(&one_page(), "skybyte-ct", ONE_CORE);
    let hints = run(&one_page(), "demo", "skybyte-ct", ONE_CORE);
    assert_eq!(stat(&hints, "activity/hint_faults"), 2);
    assert_eq!(stat(&hints, "activity/hint_scans"), 5);
    let placement = simulation.fabric.placement.stats();
    assert_eq!((placement.promotions, placement.lines_copied), (1, 64));
    let stats = &simulation.fabric.stats;
    // The load at 200 us waits for the move and reads in host DRAM, as the one at 300 us does.
    assert_eq!(stats.host_reads, 2);
    let link = simulation.fabric.link.stats();
    assert_eq!(link.of(cxl::MessageClass::MemRd), 2 + 64);
}

#[test]
fn each_cost_is_paid_where_it_arises() {
    // Nothing is written, so that the log of skybyte-wct changes nothing.
    for design in ["skybyte-ct", "skybyte-wct"] {
        costs_are_paid(design);
    }
}

fn costs_are_paid(design: &str) {
    let time = |change: &str| {
        let settings = [ONE_CORE, &[change]].concat();
        time(&run(&one_page(), "demo", design, &settings))
    };
    let base = time("run.seed=1");
    let added = |change: &str| time(change) - base;
    // The page is armed twice, each time by the only core.
    assert_eq!(added("tpp.arm_cost=3us"), 2 * 3_000_000);
    // Two loads fault; each waits for the handler, and the core dispatches nothing meanwhile.
    assert_eq!(added("tpp.fault_cost=5us"), 2 * 5_000_000);
    // One page is moved, by the core whose load waits for it.
    assert_eq!(added("tpp.migration_cost=7us"), 7_000_000);
    assert_eq!(added("host.page_table_cost=11us"), 10_800_000);
    // The two scans shoot the page's translation down while the core adds; the third shootdown, of
    // the page that moves, passes while its 64 lines cross the link, which takes over 300 ns.
    assert_eq!(added("host.shootdown_cost=100ns"), 2 * 100_000);
}

#[test]
fn a_page_under_migration_is_locked_for_everybody() {
    // Two threads read the page every 100 us. The load that promotes it waits for all 64 lines; so
    // does the other core's, although its line is copied first: both then read in host DRAM.
    let mut program = Program::new();
    let threads = [program.thread(), program.thread()];
    for round in 0..3 {
        for (line, thread) in (0..).zip(threads) {
            program.chase(thread, (round * 2 + line) * LINE);
            program.alu(thread, 1_600_000);
        }
    }
    let settings = [ONE_CORE, &["cpu.cores=2", "tpp.migration_cost=20us"]].concat();
    let simulation = finished(&program.finish(), "skybyte-ct", &settings);
    let stats = &simulation.fabric.stats;
    assert_eq!((stats.counted(), stats.host_reads), (6, 2));
    // Their wait is that for the lock: 20 us and the copy, each.
    assert!(stats.credit_wait.get() > 2 * 20_000_000);
    assert!(stats.credit_wait.get() < 2 * 25_000_000);
}

#[test]
fn a_fault_that_is_handled_when_its_page_has_left_the_device_changes_nothing() {
    // Scans arm the page every 10 us, and a handler takes 40 us. Four cores walk to the page within
    // that time, each after a scan: the first handler makes the page active, the second promotes
    // it, and the other two find it on its way. The audit knows that none of them makes it active.
    let mut program = Program::new();
    for core in 0..4 {
        let thread = program.thread();
        program.alu(thread, 1_600 * (100 + core * 100));
        program.chase(thread, core * LINE);
    }
    let settings = [
        ONE_CORE,
        &["cpu.cores=4", "tpp.scan_period=10us", "tpp.fault_cost=40us"],
    ];
    let simulation = finished(&program.finish(), "skybyte-ct", &settings.concat());
    assert_eq!(simulation.fabric.placement.stats().promotions, 1);
}

#[test]
fn what_is_demoted_is_always_copied_and_the_watermark_kept() {
    let settings = [
        "run.warmup=0%",
        "host.promoted=64KiB",
        "host.reserve=0",
        "tpp.scan_period=10us",
        "tpp.scan_pages=300",
        "tpp.demotion_watermark=25%",
        "cpu.l3=64KiB",
    ];
    for design in ["skybyte-ct", "skybyte-wct"] {
        let simulation = finished(&mixed(4, 300, 8_000, 21), design, &settings);
        let placement = simulation.fabric.placement.stats();
        assert!(placement.demotions > 0, "{design}: {placement:?}");
        assert_eq!((placement.drops, placement.lines_repeated), (0, 0));
        let moved = placement.promotions + placement.demotions;
        assert_eq!(placement.lines_copied, 64 * moved, "{design}");
        assert!(simulation.fabric.placement.resident_count() <= 12);
    }
}

#[test]
fn warm_up_samples_too() {
    let mut program = Program::new();
    let thread = program.thread();
    // Warm-up lasts 100,000 cycles and one flash read: 28 us, in which scans come every 5 us.
    for _ in 0..10 {
        program.chase(thread, 0);
        program.alu(thread, 9_999);
    }
    program.chase(thread, LINE);
    program.alu(thread, 99_999);
    let settings = [
        "run.warmup=50%",
        "cpu.cores=1",
        "tpp.scan_period=5us",
        "tpp.scan_pages=1",
    ];
    let result = run(&program.finish(), "demo", "skybyte-ct", &settings);
    assert_eq!(stat(&result, "requests/host_reads"), 1);
    assert_eq!(
        stat(&result, "activity/promotions"),
        0,
        "before measurement"
    );
}

#[test]
fn warm_up_reads_no_page_that_is_promoted_in_no_time() {
    let mut program = Program::new();
    let thread = program.thread();
    // Scans of both pages every 20,000 instructions or so. Page 0 takes a hint fault, page 1 drives
    // it out of the only frame, and a second fault promotes it.
    program.chase(thread, 0);
    program.alu(thread, 50_000);
    program.chase(thread, LINE);
    program.alu(thread, 45_000);
    program.chase(thread, PAGE);
    program.chase(thread, 2 * LINE);
    // Measured: both are where that has left them.
    program.chase(thread, PAGE + LINE);
    program.chase(thread, 3 * LINE);
    program.alu(thread, 95_002);
    let settings = [
        "run.warmup=50%",
        "cpu.cores=1",
        "tpp.scan_period=5us",
        "tpp.scan_pages=2",
        "host.migration=instant",
        "ssd.prefetch.pages=0",
        "ssd.dram=4KiB",
        "ssd.log.size=0B",
        "ssd.cache.ways=1",
    ];
    let result = run(&program.finish(), "demo", "skybyte-ct", &settings);
    assert_eq!(stat(&result, "requests/host_reads"), 1);
    assert_eq!(stat(&result, "requests/ssd_cache_hits"), 1);
}

#[test]
fn a_run_without_a_scan_says_so() {
    let mut program = Program::new();
    let thread = program.thread();
    program.load(thread, PAGE);
    let result = run(
        &program.finish(),
        "table2",
        "skybyte-ct",
        &["run.warmup=0%"],
    );
    let warnings = result["warnings"].as_array().expect("a list");
    assert!(
        warnings.iter().any(|text| text
            .as_str()
            .is_some_and(|text| text.contains("never scanned"))),
        "{warnings:?}"
    );
}

#[test]
fn scans_that_would_leave_the_cores_no_time_are_refused() {
    for (settings, key) in [
        (
            ["host.shootdown_cost=20us", "tpp.scan_period=20us"],
            "host.shootdown_cost",
        ),
        (
            ["os.time_slice=50us", "tpp.scan_period=40us"],
            "os.time_slice",
        ),
    ] {
        let mut spec = spec("demo", "skybyte-ct");
        spec.overrides = settings.map(String::from).to_vec();
        spec.overrides.push("tpp.fault_cost=50us".to_string());
        let refused = Prepared::with_trace(spec, mixed(1, 1, 1, 1));
        let error = refused.err().expect(key).to_string();
        assert!(error.contains(key), "{error}");
    }
}
