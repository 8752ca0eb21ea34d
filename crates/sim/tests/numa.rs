//! Two nodes (SkyByte §IV): the device is at one of them, and an access of a core to the device or
//! to host DRAM of the other takes `numa.latency` longer.

use crate::common::{LINE, PAGE, Program, mixed, run, spec, stat, time};
use sim::run::Prepared;
use trace::TraceFile;

/// A demo machine of two nodes with a core each; the first thread runs on core 0, of node 0.
const TWO: &[&str] = &[
    "numa.nodes=2",
    "host_dram.channels=2",
    "run.warmup=0%",
    "ssd.prefetch.pages=0",
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
        "ssd.promotion.threshold=4",
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
fn sets_of_host_dram_are_refused_where_pages_may_choose_a_node() {
    for (design, setting, sentence) in [
        ("skybyte-full", "host.sets=8", Some("host.sets above 0")),
        ("skybyte-ct", "host.sets=8", Some("host.sets above 0")),
        (
            "astriflash-cxl",
            "astriflash.fill=hotness",
            Some("astriflash.fill = hotness"),
        ),
        ("skybyte-w", "host.sets=8", None),
        ("astriflash-cxl", "host.sets=8", None),
    ] {
        let mut spec = spec("demo", design);
        spec.overrides = two(&[setting]).into_iter().map(str::to_string).collect();
        let refused = Prepared::with_trace(spec, chase(1, 1)).err();
        let error = refused.map(|error| error.to_string());
        match (sentence, &error) {
            (Some(what), Some(error)) => assert!(
                error.contains(&format!(
                    "numa.nodes is 2, but {what} gives each page a set"
                )),
                "{error}"
            ),
            (None, None) => {}
            _ => panic!("{design} with {setting}: {error:?}"),
        }
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

/// The thread is on node 0, the device at node 1; the operating system scans one page every 16 µs,
/// and nothing costs anything but the copy and 200 ns for the page table.
const AWAY: &[&str] = &[
    "numa.home=1",
    "host.handler_cost=0ns",
    "host.shootdown_cost=0ns",
    "host.page_table_cost=200ns",
    "tpp.scan_period=16us",
    "tpp.scan_pages=1",
    "tpp.arm_cost=0ns",
    "tpp.fault_cost=0ns",
    "tpp.migration_cost=0ns",
];

/// 20 loads that make a page hot, then three, each after 20 µs of additions: 320,000 are 80,000
/// cycles of 250 ps.
fn hot_page() -> TraceFile {
    let mut program = Program::new();
    let thread = program.thread();
    for line in 0..20 {
        program.chase(thread, line * LINE);
    }
    for line in 20..23 {
        program.alu(thread, 320_000);
        program.chase(thread, line * LINE);
    }
    program.finish()
}

#[test]
fn a_hot_page_comes_to_the_home_node_and_then_to_the_node_that_uses_it() {
    // By 12 µs the page is at home, on node 1. The scans at 16, 32 and 64 µs arm it (at 48 µs it
    // still is); the loads at some 29, 49 and 69 µs fault. The first finds it on node 1 and
    // reads it there; the second is the second fault in a row from node 0: the page moves, and
    // the load reads it on node 0, as the third does.
    let run = |more: &[&'static str]| {
        let settings = two(&[AWAY, more].concat());
        run(&hot_page(), "demo", "skybyte-p", &settings)
    };
    let stays = run(&[]);
    let moves = run(&["numa.balancing=hint_faults"]);
    let numa = |result, name| stat(result, &format!("numa/{name}"));
    assert_eq!(stat(&moves, "activity/hint_faults"), 3);
    assert_eq!(numa(&moves, "promotions_home"), 1);
    assert_eq!(numa(&moves, "promotions_elsewhere"), 0);
    for (result, [remote, local, moved]) in [(&stays, [3, 0, 0]), (&moves, [1, 2, 1])] {
        assert_eq!(numa(result, "ssd_reads_remote"), 20);
        assert_eq!(numa(result, "host_reads_remote"), remote);
        assert_eq!(numa(result, "host_reads_local"), local);
        assert_eq!(numa(result, "page_moves"), moved);
    }
    // What the second load waits, from the end of its walk, when the copy begins: the first line
    // is read on node 1 in its open row (CL 15 ns + burst 1.667), crosses (35), and is written
    // on node 0, where code has another row of the bank open (RP 15.834 + RCD 15.834 + CL 15);
    // the 64 lines follow at the speed of the bus (64 × 1.667), and the page table takes 200 ns:
    // 405.023 ns. Then the load is read there, 16.667 ns: 421.69 ns, in whole cycles 421.75.
    // Where the page stays it takes L1, L2 and L3 (54 cycles, 13.5 ns), 35, 16.667 and 35 ns, in
    // whole cycles 100.25. The third load saves its way, 70 ns. Both loads walk, as their page
    // was armed: 7 cycles in the second TLB and 10 in L2, 4.25 ns. (The first load walks either
    // way: its page has moved home.)
    let (waits, walks) = (421_750 - 100_250, 2 * 4_250);
    assert_eq!(time(&moves) - time(&stays), waits + walks - LATENCY);
    // Without latency between the nodes: 20 + 1 reads there and back less, and the copy's last line
    // one way less.
    let near = run(&["numa.balancing=hint_faults", "numa.latency=0ns"]);
    assert_eq!(time(&moves) - time(&near), 21 * LATENCY + LATENCY / 2);
}

#[test]
fn pages_find_the_node_that_uses_them_in_every_design_that_promotes() {
    let trace = mixed(4, 60, 5_000, 33);
    let busy = [
        "numa.balancing=hint_faults",
        "host.promoted=128KiB",
        "host.reserve=4",
        "cpu.l3=64KiB",
        "ssd.promotion.threshold=2",
        "tpp.scan_period=5us",
        "tpp.scan_pages=16",
    ];
    for design in ["skybyte-p", "skybyte-full", "skybyte-ct", "skybyte-wct"] {
        for warmup in ["run.warmup=0%", "run.warmup=50%"] {
            let settings = two(&[&busy[..], &[warmup]].concat());
            // Audited: pages and host pages name each other.
            let result = run(&trace, "demo", design, &settings);
            assert!(stat(&result, "numa/page_moves") > 0, "{design} {warmup}");
        }
    }
}

#[test]
fn balancing_moves_nothing_where_no_page_is_promoted() {
    let settings = two(&["numa.balancing=hint_faults"]);
    for design in ["base-cssd", "dram-only", "astriflash-cxl"] {
        let result = run(&chase(2, 4), "demo", design, &settings);
        assert_eq!(stat(&result, "activity/hint_scans"), 0, "{design}");
        let warnings = result["warnings"].to_string();
        assert!(warnings.contains("no page moved between nodes"), "{design}");
    }
}
