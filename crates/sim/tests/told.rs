//! What a result says of itself: its bottleneck, and what it could not show. Each case is planted.

use crate::common::{DATA, LINE, PAGE, Program, mixed, run, spec};
use serde_json::Value;
use sim::run::RunSpec;
use trace::TraceFile;

/// Two threads that load lines of so many pages, page after page, `times` over.
fn walks(pages: u64, times: u64) -> TraceFile {
    let mut program = Program::new();
    for half in 0..2 {
        let thread = program.thread();
        for step in 0..pages * times {
            let page = half * pages + step % pages;
            let line = (step / pages * 7 + step) % 64;
            program.chase(thread, page * PAGE + line * LINE);
        }
    }
    program.writer.map(DATA, 2 * pages);
    program.finish()
}

#[track_caller]
fn assert_bound(result: &Value, what: &str, evidence: &str) {
    let bottleneck = &result["bottleneck"];
    assert_eq!(bottleneck["what"], what, "{bottleneck}");
    let text = bottleneck["evidence"].as_str().expect("evidence is text");
    assert!(text.contains(evidence), "{bottleneck}");
    let share = bottleneck["share_milli"].as_u64().expect("a share");
    assert!((1..=1000).contains(&share), "{bottleneck}");
}

const COLD: &str = "run.warmup=0%";

#[test]
fn pages_that_are_on_flash_make_flash_the_bottleneck() {
    let small = [COLD, "ssd.dram=64KiB", "ssd.log.size=8KiB"];
    let result = run(&walks(500, 2), "demo", "base-cssd", &small);
    assert_bound(&result, "flash", "dies busy");
}

#[test]
fn a_slow_link_is_the_bottleneck() {
    let slow = ["run.warmup=50%", "link.protocol_latency=20us"];
    let result = run(&walks(50, 8), "demo", "base-cssd", &slow);
    assert_bound(&result, "the link", "to the device");
}

#[test]
fn slow_device_dram_is_the_bottleneck() {
    let slow = ["run.warmup=50%", "ssd_dram.data_rate=100MHz"];
    let result = run(&walks(50, 8), "demo", "base-cssd", &slow);
    assert_bound(&result, "device DRAM", "its buses are busy");
}

#[test]
fn a_log_that_waits_for_its_compaction_is_the_bottleneck() {
    let mut program = Program::new();
    for half in 0..2 {
        let thread = program.thread();
        for step in 0..10_000 {
            let page = half * 500 + step % 499;
            program.store(thread, page * PAGE + step / 499 * LINE);
        }
    }
    let log = [
        COLD,
        "cpu.stores=waited",
        "link.ownership=write",
        "ssd.log.size=4KiB",
        "ssd.compaction.batch=1",
    ];
    let result = run(&program.finish(), "demo", "skybyte-w", &log);
    assert_bound(&result, "room on the device", "at most 1 pages");
}

#[test]
fn dear_switches_are_the_bottleneck() {
    let trace = mixed(8, 2_000, 2_000, 5);
    let dear = [
        COLD,
        "os.switch_cost=100us",
        "ssd.dram=256KiB",
        "ssd.log.size=32KiB",
    ];
    let result = run(&trace, "demo", "skybyte-c", &dear);
    assert_bound(&result, "thread switches", "coordinated switches");
}

/// A design that does not switch for the device: threads that take turns are all there is to name.
#[test]
fn switches_at_the_end_of_time_slices_are_named_and_no_others() {
    let short = ["os.switch_cost=100us", "os.time_slice=10us"];
    let result = run(&mixed(8, 64, 4_000, 5), "demo", "base-cssd", &short);
    assert_bound(&result, "thread switches", "for time slices that ended");
    let evidence = result["bottleneck"]["evidence"].as_str().unwrap();
    assert!(!evidence.contains("coordinated"), "{evidence}");
}

#[test]
fn dear_shootdowns_are_the_bottleneck() {
    let dear = [
        "run.warmup=10%",
        "ssd.promotion.threshold=1",
        "host.shootdown_cost=50us",
    ];
    let result = run(&walks(300, 8), "demo", "skybyte-p", &dear);
    assert_bound(&result, "page migration", "shootdowns took");
}

#[test]
fn a_program_that_computes_is_bound_by_that() {
    let mut program = Program::new();
    for _ in 0..2 {
        let thread = program.thread();
        program.load(thread, 0);
        program.alu(thread, 400_000);
    }
    let result = run(&program.finish(), "demo", "base-cssd", &[COLD]);
    assert_bound(&result, "computing", "instructions");
}

#[test]
fn cores_without_threads_are_idle() {
    let mut program = Program::new();
    let thread = program.thread();
    program.alu(thread, 100_000);
    let result = run(
        &program.finish(),
        "demo",
        "base-cssd",
        &[COLD, "cpu.cores=8"],
    );
    assert_bound(&result, "idle cores", "1 threads on 8 cores");
}

fn warnings(result: &Value) -> Vec<&str> {
    let list = result["warnings"].as_array().expect("a list");
    list.iter().filter_map(Value::as_str).collect()
}

fn warns(result: &Value, words: &str) -> bool {
    warnings(result).iter().any(|text| text.contains(words))
}

/// On the two cores of the machine demo.
#[test]
fn switches_with_nobody_to_switch_to_are_told() {
    let settings = [COLD, "ssd.dram=256KiB", "ssd.log.size=32KiB"];
    let of = |threads, design| run(&mixed(threads, 2_000, 500, 5), "demo", design, &settings);
    assert!(warns(&of(2, "skybyte-c"), "2 threads on 2 cores"));
    assert!(!warns(&of(4, "skybyte-c"), "threads on"));
    assert!(!warns(&of(2, "base-cssd"), "threads on"));
}

/// 100 pages; the data cache has room for 128, or for 64; host DRAM for 128, or 64.
#[test]
fn programs_that_fit_are_told() {
    let of = |design, cache: &str, promoted: &str| {
        let settings = [
            format!("ssd.dram={cache}"),
            "ssd.log.size=0B".to_string(),
            format!("host.promoted={promoted}"),
            "host.reserve=1".to_string(),
        ];
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let result = run(&walks(50, 2), "demo", design, &settings);
        (
            warns(&result, "of the device's data cache"),
            warns(&result, "host.promoted has room for"),
        )
    };
    assert_eq!(of("skybyte-p", "512KiB", "512KiB"), (true, true));
    assert_eq!(of("skybyte-p", "256KiB", "256KiB"), (false, false));
    assert_eq!(of("base-cssd", "512KiB", "512KiB"), (true, false));
    assert_eq!(of("dram-only", "512KiB", "512KiB"), (false, false));
}

#[test]
fn settings_that_the_design_does_not_read_are_named() {
    let unread = |design| {
        let spec = RunSpec {
            overrides: vec!["ssd.log.size=1MiB".into(), "nand.t_r=5us".into()],
            files: vec![("my.toml".into(), "[tpp]\nscan_period = \"1ms\"".into())],
            ..spec("demo", design)
        };
        spec.unread_keys().expect("the settings are valid")
    };
    assert_eq!(unread("base-cssd"), ["ssd.log.size", "tpp.scan_period"]);
    assert_eq!(unread("skybyte-w"), ["tpp.scan_period"]);
    let none = ["nand.t_r", "ssd.log.size", "tpp.scan_period"];
    assert_eq!(unread("dram-only"), none);
}
