//! Two nodes (SkyByte §IV): the device is at one of them, and an access of a core to the device or
//! to host DRAM of the other takes `numa.latency` longer.

mod common;

use common::{LINE, PAGE, Program, mixed, run, spec, stat, time};
use sim::run::Prepared;
use trace::TraceFile;

/// A demo machine of two nodes with a core each; the first thread runs on core 0, of node 0.
const TWO: &[&str] = &[
    "numa.nodes=2",
    "host_dram.channels=2",
    "run.warmup=0%",
    "ssd.prefetch_pages=0",
];
/// `numa.latency`, which is 280 cycles.
const LATENCY: u64 = 70_000;

fn two(more: &[&'static str]) -> Vec<&'static str> {
    [TWO, more].concat()
}

/// Loads that wait for each other, of so many lines of each page.
fn chase(pages: u64, lines: u64) -> TraceFile {
    let mut program = Program::new();
    let thread = program.thread();
    for page in 0..pages {
        for line in 0..lines {
            program.chase(thread, page * PAGE + line * LINE);
        }
    }
    program.finish()
}

#[test]
fn a_device_read_from_the_other_node_takes_the_latency_longer() {
    // 40 loads wait for each other, and each misses all caches. Whatever one takes at the device's
    // node, at the other its request and its answer cross once each: 70 ns together, in whole
    // cycles. Page tables and code are on node 0 either way. So 40 × 70 ns = 2.8 µs.
    let trace = chase(1, 40);
    let near = run(&trace, "demo", "base-cssd", &two(&["numa.home=0"]));
    let far = run(&trace, "demo", "base-cssd", &two(&["numa.home=1"]));
    assert_eq!(time(&far) - time(&near), 40 * LATENCY);
    assert_eq!(stat(&near, "amat/inter_socket_ps"), 0);
    assert_eq!(stat(&far, "amat/inter_socket_ps"), LATENCY);
    let reads = |result, from| stat(result, &format!("numa/ssd_reads_{from}"));
    assert_eq!((reads(&near, "local"), reads(&near, "remote")), (40, 0));
    assert_eq!((reads(&far, "local"), reads(&far, "remote")), (0, 40));
    let parts = ["host_dram_ps", "link_ps", "flash_ps", "ssd_dram_ps"];
    for part in parts.map(|part| format!("amat/{part}")) {
        assert_eq!(stat(&far, &part), stat(&near, &part), "{part}");
    }
}

#[test]
fn dram_only_interleaves_its_pages_over_the_nodes() {
    // Of 4 pages two are on node 1: 2 × 10 of the 40 loads cross there and back.
    let trace = chase(4, 10);
    let near = run(&trace, "demo", "dram-only", &two(&["numa.latency=0ns"]));
    let far = run(&trace, "demo", "dram-only", TWO);
    assert_eq!(time(&far) - time(&near), 20 * LATENCY);
    assert_eq!(stat(&far, "numa/host_reads_local"), 20);
    assert_eq!(stat(&far, "numa/host_reads_remote"), 20);
    assert_eq!(stat(&near, "numa/host_reads_remote"), 20);
}

#[test]
fn every_design_runs_on_two_nodes_and_its_parts_add_up() {
    let trace = mixed(4, 300, 4_000, 31);
    let small = [
        "host.promoted=256KiB",
        "cpu.l3=64KiB",
        "ssd.promotion_threshold=4",
        "numa.home=1",
    ];
    let designs = sim::config::presets::DESIGNS.iter();
    for design in designs.map(|design| design.name) {
        // Audited: the components of AMAT add up, requests are answered once.
        let result = run(&trace, "demo", design, &two(&small));
        let numa = |name| stat(&result, &format!("numa/{name}"));
        let remote = numa("host_reads_remote") + numa("ssd_reads_remote");
        let local = numa("host_reads_local") + numa("ssd_reads_local");
        assert_eq!(local + remote, stat(&result, "amat/paper_accesses"));
        assert!(local > 0 && remote > 0, "{design}: {local} and {remote}");
        assert!(stat(&result, "amat/inter_socket_ps") > 0, "{design}");
    }
}

#[test]
fn one_node_is_near_to_everything() {
    let result = run(&chase(2, 20), "demo", "skybyte-full", &[]);
    for name in ["host_reads_remote", "ssd_reads_remote"] {
        assert_eq!(stat(&result, &format!("numa/{name}")), 0);
    }
}

#[test]
fn a_machine_that_cannot_be_split_is_refused_in_a_sentence() {
    for (setting, sentence) in [
        ("numa.nodes=0", "numa.nodes is 0; it must be from 1 to 8."),
        (
            "numa.nodes=4",
            "numa.nodes is 4, which does not divide the 2 cores of cpu.cores",
        ),
        (
            "numa.nodes=2",
            "numa.nodes is 2, which does not divide the 1 channels of host_dram.channels",
        ),
        ("numa.home=1", "numa.home is 1; it must be below numa.nodes"),
        (
            "numa.latency=2us",
            "numa.latency is 2us; it must be at most",
        ),
    ] {
        let mut spec = spec("demo", "skybyte-full");
        spec.overrides = vec![setting.to_string()];
        let refused = Prepared::with_trace(spec, chase(1, 1));
        let error = refused.err().expect(setting).to_string();
        assert!(error.contains(sentence), "{setting}: {error}");
    }
}

#[test]
fn retries_in_closed_form_go_the_whole_way() {
    // A machine whose switches cost nothing retries as often as the way to the device allows: the
    // longer way leaves fewer retries in the 100 µs that a page is on its way, and the run as long.
    let trace = chase(8, 4);
    let slow = ["nand.t_r=100us", "os.switch_cost=0ns"];
    let run = |home| {
        run(
            &trace,
            "demo",
            "skybyte-c",
            &two(&[&slow[..], &[home]].concat()),
        )
    };
    let (near, far) = (run("numa.home=0"), run("numa.home=1"));
    let retries = |result| stat(result, "os/retries_in_closed_form");
    assert!(retries(&far) > 0 && retries(&far) < retries(&near));
}
