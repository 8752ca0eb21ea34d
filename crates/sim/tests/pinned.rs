//! Pages pinned to the device stay there, whoever would move them.

use crate::common::{PAGE, Program, run, stat};
use serde_json::Value;
use trace::TraceFile;

/// One core without caches to speak of, and pages that are hot at their first access.
const SMALL: &[&str] = &[
    "run.warmup=0%",
    "cpu.cores=1",
    "cpu.l1d=64B",
    "cpu.l1d_ways=1",
    "cpu.l2=64B",
    "cpu.l2_ways=1",
    "cpu.l3=64B",
    "cpu.l3_ways=1",
    "ssd.prefetch.pages=0",
    "ssd.promotion.threshold=1",
    "tpp.scan_period=20us",
];

/// Four pages, read and written in turn.
fn four_pages() -> TraceFile {
    let mut program = Program::new();
    let thread = program.thread();
    for step in 0..2_000 {
        program.chase(thread, step % 4 * PAGE + step / 4 % 64 * 64);
        program.store(thread, step % 4 * PAGE);
        program.alu(thread, 200);
    }
    program.finish()
}

fn result(design: &str, pinned: &str) -> Value {
    let pinned = format!("host.pinned={pinned}");
    run(&four_pages(), "demo", design, &[SMALL, &[&pinned]].concat())
}

fn comes_to_the_host(result: &Value) -> u64 {
    stat(result, "activity/promotions") + stat(result, "activity/host_cache_fills")
}

#[test]
fn in_every_design_pages_come_to_the_host_unless_they_are_pinned() {
    for design in ["skybyte-full", "skybyte-wct", "astriflash-cxl"] {
        let free = result(design, "none");
        assert_eq!(comes_to_the_host(&free), 4, "{design}");
        assert_eq!(stat(&free, "activity/pinned_pages"), 0);
        let half = result(design, "last 50%");
        assert_eq!(comes_to_the_host(&half), 2, "{design}");
        assert_eq!(stat(&half, "activity/pinned_pages"), 2);
        let all = result(design, "all");
        assert_eq!(comes_to_the_host(&all), 0, "{design}");
        assert_eq!(stat(&all, "requests/host_reads"), 0, "{design}");
        assert_eq!(stat(&all, "requests/host_writes"), 0, "{design}");
    }
}

#[test]
fn the_offer_of_a_pinned_page_costs_the_host_nothing() {
    let with = |pinned: &str, cost: &str| {
        let settings = [SMALL, &["host.handler_cost=100us", pinned, cost]].concat();
        run(&four_pages(), "demo", "skybyte-p", &settings)
    };
    let pinned = with("host.pinned=all", "host.interrupt_latency=1us");
    assert!(stat(&pinned, "activity/pinned_offers") > 4);
    let dear = with("host.pinned=all", "host.handler_cost=1ms");
    assert_eq!(crate::common::time(&pinned), crate::common::time(&dear));
    assert_eq!(stat(&pinned, "cores/idle_ps"), stat(&dear, "cores/idle_ps"));
}

#[test]
fn without_a_device_nothing_is_pinned() {
    let result = result("dram-only", "all");
    assert_eq!(stat(&result, "activity/pinned_pages"), 0);
}
