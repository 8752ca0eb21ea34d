//! What SkyByte's artifact does with pages under migration, each by the one
//! parameter that says so.

mod common;

use common::{LINE, PAGE, Program, prepare, run, stat};
use cxl::MessageClass;
use host::placement::{Location, Reclaimed};
use host::thread::TracedThread;
use sim::simulation::Simulation;
use trace::TraceFile;
use units::{LineInPage, Lpa, PageSize, Picos};

/// One core whose caches hold a line each, so that every access below is seen by the memory; a page
/// is offered at its second access.
const BARE: &[&str] = &[
    "run.warmup=0%",
    "cpu.cores=1",
    "cpu.l1d=64B",
    "cpu.l1d_ways=1",
    "cpu.l2=64B",
    "cpu.l2_ways=1",
    "cpu.l3=64B",
    "cpu.l3_ways=1",
    "ssd.prefetch_pages=0",
    "ssd.promotion_threshold=1",
    "host.reserve=0",
];

/// Promotion in no time: nothing of the paper's path is left.
const FREE: &[&str] = &[
    "host.migration=instant",
    "host.interrupt_latency=0ps",
    "host.handler_cost=0ps",
    "host.page_table_cost=0ps",
    "host.shootdown_cost=0ps",
];

fn finished(trace: &TraceFile, design: &str, more: &[&str]) -> Simulation<TracedThread> {
    let settings = [BARE, FREE, more].concat();
    let prepared = prepare(trace, "demo", design, &settings);
    let mut simulation = prepared.start();
    simulation.run(&mut |_| true).expect("the run ends");
    let end = simulation.drain();
    simulation.audit(end);
    simulation
}

/// Loads of lines of a page, one after the other.
fn loads(program: &mut Program, page: u64, lines: std::ops::Range<u64>) {
    let thread = units::ThreadId::new(0);
    for line in lines {
        program.chase(thread, page * PAGE + line * LINE);
    }
}

fn program() -> Program {
    let mut program = Program::new();
    program.thread();
    program
}

#[test]
fn an_instant_promotion_takes_no_time_and_no_link() {
    let mut program = program();
    loads(&mut program, 0, 0..10);
    let trace = program.finish();
    let simulation = finished(&trace, "skybyte-p", &[]);
    let placement = simulation.fabric.placement.stats();
    assert_eq!((placement.promotions, placement.lines_copied), (1, 0));
    // The second load makes the page hot; the other eight find it in host DRAM.
    assert_eq!(simulation.fabric.stats.host_reads, 8);
    let link = simulation.fabric.link.stats();
    assert_eq!(link.of(MessageClass::MemRd), 2);
    assert_eq!(link.of(MessageClass::Drs), 2);

    // By the paper's path the lines of the page are read over the link.
    let copied = finished(&trace, "skybyte-p", &["host.migration=copied"]);
    assert_eq!(copied.fabric.placement.stats().lines_copied, 64);
}

/// A page that is promoted, then written in host DRAM, then driven out by the promotion of another.
fn a_dirty_victim() -> TraceFile {
    let mut program = program();
    loads(&mut program, 0, 0..2);
    program.store(units::ThreadId::new(0), 2 * LINE);
    // Enough to drive the line out of the caches.
    loads(&mut program, 0, 3..13);
    loads(&mut program, 1, 0..4);
    program.finish()
}

#[test]
fn a_lost_demotion_writes_nothing_with_a_log_and_the_promoted_page_without() {
    let room = ["host.promoted=4KiB", "host.demotion=lost"];
    for (design, programs) in [("skybyte-wp", 0), ("skybyte-p", 1)] {
        let simulation = finished(&a_dirty_victim(), design, &room);
        let fabric = &simulation.fabric;
        let placement = fabric.placement.stats();
        assert_eq!((placement.promotions, placement.demotions), (2, 1));
        assert_eq!(fabric.placement.locate(Lpa::new(0)), Location::Device);
        let link = fabric.link.stats();
        assert_eq!(link.of(MessageClass::MemWr), 0, "{design}");
        let controller = &fabric.device.as_ref().expect("a device").controller;
        assert_eq!(controller.ftl_stats().host_programs, programs, "{design}");
    }
}

#[test]
fn forgotten_dirt_leaves_a_clean_page_and_its_lines_in_the_log() {
    let mut program = program();
    program.store(units::ThreadId::new(0), 2 * LINE);
    // The written line leaves the caches with the loads of page 1, which is not hot enough.
    loads(&mut program, 1, 0..8);
    loads(&mut program, 0, 10..18);
    let trace = program.finish();
    for (dirt, reclaimed, is_logged) in [
        ("kept", Reclaimed::Copying(Lpa::new(0)), false),
        ("forgotten", Reclaimed::Dropped(Lpa::new(0)), true),
    ] {
        let dirt = format!("host.promoted_dirt={dirt}");
        let settings = ["ssd.promotion_threshold=8", &dirt];
        let mut simulation = finished(&trace, "skybyte-wp", &settings);
        assert_eq!(
            simulation.fabric.placement.reclaim(units::Lpa::new(0)),
            reclaimed,
            "{dirt}"
        );
        let device = simulation.fabric.device.as_ref().expect("a device");
        let line = Lpa::new(0).line(PageSize::KIB_4, LineInPage::new(2));
        let copies = device.controller.copies_of(line);
        assert_eq!((copies.log.is_some(), copies.frame), (is_logged, None));
    }
}

#[test]
fn under_lru_the_page_accessed_longest_ago_makes_room() {
    let mut program = program();
    loads(&mut program, 0, 0..2);
    loads(&mut program, 1, 0..2);
    // Both pages are in host DRAM; page 1 is accessed before page 0.
    loads(&mut program, 1, 2..3);
    loads(&mut program, 0, 2..3);
    loads(&mut program, 2, 0..2);
    let trace = program.finish();
    for (policy, victim) in [("lists", 0), ("lru", 1)] {
        let policy = format!("host.reclaim={policy}");
        let room = ["host.promoted=8KiB", "host.demotion=lost", &policy];
        let simulation = finished(&trace, "skybyte-p", &room);
        let locate = |page| simulation.fabric.placement.locate(Lpa::new(page));
        // Second chance: both were accessed, so the one that came first goes.
        assert_eq!(locate(victim), Location::Device, "{policy}");
        assert_ne!(locate(1 - victim), Location::Device, "{policy}");
    }
}

#[test]
fn a_constant_host_access_takes_46_ns_whatever_the_rows_and_code_takes_what_dram_takes() {
    let mut program = program();
    loads(&mut program, 0, 0..10);
    let trace = program.finish();
    let constant = finished(&trace, "skybyte-p", &["host.page_access=constant"]);
    assert_eq!(constant.fabric.stats.host_reads, 8);
    assert_eq!(constant.fabric.stats.host_dram, Picos::from_nanos(46) * 8);
    let timed = finished(&trace, "skybyte-p", &[]);
    let fetches = |simulation: &Simulation<TracedThread>| {
        let stats = simulation.fabric.host_dram.stats();
        stats.reads
    };
    assert_eq!(fetches(&timed) - fetches(&constant), 8);
    // DRAM-Only has no promoted pages, and no constant.
    let settings = [BARE, &["host.page_access=constant"]].concat();
    let with = run(&trace, "demo", "dram-only", &settings);
    let without = run(&trace, "demo", "dram-only", BARE);
    assert_eq!(common::time(&with), common::time(&without));
    assert!(stat(&with, "cores/instructions") > 0);
}
