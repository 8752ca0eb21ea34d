//! What must add up: time by core, requests, messages and bytes, flash operations; and what a run
//! costs.

use crate::common::{mixed, prepare, run, stat, time};
use cxl::MessageClass::{Drs, MemRd, MemWr, Ndr};
use host::thread::TracedThread;
use nand::Kind;
use sim::config::presets::DESIGNS;
use sim::simulation::Simulation;
use units::{Picos, Time};

#[test]
fn each_cores_time_is_memory_compute_switching_or_idle() {
    let trace = mixed(6, 2_000, 5_000, 31);
    for design in DESIGNS {
        let result = run(&trace, "demo", design.name, &[]);
        let parts = [
            "memory_bound_ps",
            "compute_bound_ps",
            "switch_ps",
            "idle_ps",
        ];
        let sum: u64 = parts
            .iter()
            .map(|part| stat(&result, &format!("cores/{part}")))
            .sum();
        let whole = 2 * time(&result);
        // Exact, but for retries in closed form, which do not end on a cycle, and threads that a
        // page wakes between two cycles.
        let period = prepare(&trace, "demo", design.name, &[])
            .config()
            .cpu
            .clock
            .period();
        let bound = period.expect("a clock").get()
            * match design.name {
                "astriflash-cxl" => stat(&result, "os/switches_long_delay"),
                _ => stat(&result, "os/retries"),
            };
        assert!(
            sum.abs_diff(whole) <= bound,
            "{}: {sum} of {whole}",
            design.name
        );
    }
}

/// Runs cold, lets everything under way end, and audits.
fn drained(design: &str, more: &[&str]) -> Simulation<TracedThread> {
    let trace = mixed(6, 2_000, 8_000, 32);
    let prepared = prepare(&trace, "demo", design, more);
    let mut simulation = prepared.start();
    simulation.run(&mut |_| true).expect("the run ends");
    let end = simulation.drain();
    simulation.audit(end);
    simulation
}

/// Pages move early and often.
const MOVING: &[&str] = &[
    "ssd.promotion.threshold=4",
    "host.promoted=1MiB",
    "tpp.scan_period=20us",
    "tpp.scan_pages=500",
];

#[test]
fn every_request_is_answered_and_every_message_has_its_cause() {
    // The page cache of AstriFlash asks for pages; its own tests count them.
    let is_of_lines = |name: &str| !["dram-only", "astriflash-cxl"].contains(&name);
    for design in DESIGNS.iter().filter(|design| is_of_lines(design.name)) {
        let name = design.name;
        let simulation = drained(name, MOVING);
        let fabric = &simulation.fabric;
        let (opened, closed) = fabric.requests.counts();
        assert_eq!(opened, closed, "{name}: requests");
        let (stats, link) = (&fabric.stats, fabric.link.stats());
        let device = fabric.device.as_ref().expect("a device");
        let promotion_reads = device.controller.stats().promotion_reads;
        // A retry in closed form is a delayed access without messages (D11).
        let delays = stats.delayed - simulation.closed_form_retries();
        let reads = stats.counted() - stats.host_reads + stats.orphans;
        assert_eq!(link.of(Drs), reads + promotion_reads, "{name}: data");
        assert_eq!(link.of(MemWr), stats.device_writes, "{name}: writes");
        assert_eq!(
            link.of(Ndr),
            link.of(MemWr) + delays,
            "{name}: answers without data"
        );
        // The operating system tells the device nothing.
        let told = match name {
            "skybyte-ct" | "skybyte-wct" => 0,
            _ => fabric.placement.stats().promotions,
        };
        assert_eq!(
            link.of(MemRd),
            link.of(Drs) + delays + told,
            "{name}: requests without data"
        );
        assert_eq!(
            opened,
            link.of(MemRd) + link.of(MemWr) - told,
            "{name}: messages"
        );
    }
}

#[test]
fn the_links_bytes_are_its_messages() {
    for design in DESIGNS.iter().filter(|design| design.name != "dram-only") {
        let link = *drained(design.name, &[]).fabric.link.stats();
        let bytes = |class: cxl::MessageClass| class.wire_bytes() * link.of(class);
        assert_eq!(
            link.to_device.bytes,
            bytes(MemRd) + bytes(MemWr),
            "{}",
            design.name
        );
        assert_eq!(
            link.to_host.bytes,
            bytes(Ndr) + bytes(Drs),
            "{}",
            design.name
        );
    }
}

#[test]
fn every_flash_operation_ends() {
    for design in DESIGNS.iter().filter(|design| design.name != "dram-only") {
        let simulation = drained(design.name, &[]);
        let device = simulation.fabric.device.as_ref().expect("a device");
        assert!(device.controller.is_idle(), "{}", design.name);
        let ftl = device.controller.ftl_stats();
        let completed = |kind| {
            let stats = device.resources.nand.stats().of(kind);
            assert_eq!(stats.submitted, stats.completed, "{}", design.name);
            stats.completed
        };
        assert_eq!(completed(Kind::Read), ftl.host_reads + ftl.gc_reads);
        assert_eq!(
            completed(Kind::Program),
            ftl.host_programs + ftl.gc_programs
        );
        assert_eq!(completed(Kind::Erase), ftl.erases);
        assert!(completed(Kind::Read) > 0, "{}", design.name);
    }
}

#[test]
fn amats_parts_and_its_distribution_agree_with_the_whole() {
    for design in DESIGNS {
        let simulation = drained(design.name, &[]);
        let stats = &simulation.fabric.stats;
        stats.audit();
        assert_eq!(stats.all.count(), stats.counted(), "{}", design.name);
        let mean = stats.paper_total / stats.counted();
        let is_delayed = stats.delayed > 0;
        // D8: over all accesses AMAT is the paper's unless accesses were switched away.
        assert!(
            if is_delayed {
                stats.all.mean() > mean
            } else {
                stats.all.mean() == mean
            },
            "{}",
            design.name
        );
    }
}

/// Events of a run and its retries in closed form, each of which is two steps: what it costs.
fn cost(design: &str, flash: &[&str]) -> (u64, Time) {
    let trace = mixed(8, 4_000, 10_000, 33);
    let prepared = prepare(&trace, "demo", design, flash);
    let mut simulation = prepared.start();
    let end = simulation.run(&mut |_| true).expect("the run ends");
    (
        simulation.events + 2 * simulation.closed_form_retries(),
        end,
    )
}

#[test]
fn ten_times_slower_flash_costs_simulated_time_and_hardly_any_work() {
    let slow = ["nand.t_r=30us", "nand.t_prog=1ms", "nand.t_bers=10ms"];
    for (design, most) in [
        ("base-cssd", 1.5),
        ("skybyte-w", 1.5),
        ("skybyte-full", 2.0),
    ] {
        let (work, end) = cost(design, &[]);
        let (slow_work, slow_end) = cost(design, &slow);
        assert!(
            slow_end - Time::ZERO > (end - Time::ZERO) * 2,
            "{design}: slower flash takes longer"
        );
        let ratio = slow_work as f64 / work as f64;
        assert!(
            ratio < most,
            "{design}: {work} steps become {slow_work}, {ratio:.2} times"
        );
    }
}

#[test]
fn a_run_of_pure_waiting_costs_a_few_events_for_each_access() {
    let mut program = crate::common::Program::new();
    let thread = program.thread();
    for page in 0..500 {
        program.chase(thread, page * crate::common::PAGE);
    }
    let settings = [
        "nand.t_r=10ms",
        "ssd.prefetch.pages=0",
        "ftl.overwritten=0%",
    ];
    let prepared = prepare(&program.finish(), "demo", "base-cssd", &settings);
    let mut simulation = prepared.start();
    let end = simulation.run(&mut |_| true).expect("the run ends");
    assert!(
        end - Time::ZERO > Picos::from_micros(10_000) * 500,
        "five simulated seconds"
    );
    assert!(simulation.events < 500 * 20, "{} events", simulation.events);
}

#[test]
fn every_access_that_amat_counts_is_one_of_the_requests() {
    let kinds = [
        "host_reads",
        "ssd_log_hits",
        "ssd_cache_hits",
        "ssd_buffer_hits",
        "ssd_misses",
        "ssd_merged_misses",
        "ssd_unmapped",
        "ssd_store_misses",
    ];
    for (ownership, writes) in [("read", false), ("write", true)] {
        let ownership = format!("link.ownership={ownership}");
        let settings = ["run.warmup=0%", "cpu.l3=64KiB", &ownership];
        let result = crate::common::run(
            &crate::common::mixed(3, 60, 2_000, 9),
            "demo",
            "skybyte-w",
            &settings,
        );
        let count = |kind: &str| crate::common::stat(&result, &format!("requests/{kind}"));
        let sum: u64 = kinds.iter().map(|kind| count(kind)).sum();
        assert_eq!(
            sum,
            crate::common::stat(&result, "amat/paper_accesses"),
            "{ownership}"
        );
        assert_eq!(count("ssd_store_misses") > 0, writes, "{ownership}");
    }
}
