//! Page migration (SkyByte §III-C, D20): hot pages go to host DRAM and are read there, dirty ones
//! come back line by line.

use crate::common::{LINE, PAGE, Program, mixed, prepare, run, stat};
use cxl::MessageClass;
use host::thread::TracedThread;
use sim::simulation::Simulation;
use trace::TraceFile;

const COLD: &[&str] = &["run.warmup=0%", "ssd.prefetch.pages=0"];

/// Runs, lets everything under way end, and audits.
fn finished(trace: &TraceFile, design: &str, more: &[&str]) -> Simulation<TracedThread> {
    let prepared = prepare(trace, "demo", design, &[COLD, more].concat());
    let mut simulation = prepared.start();
    simulation.run(&mut |_| true).expect("the run ends");
    let end = simulation.drain();
    simulation.audit(end);
    simulation
}

/// A page that becomes hot by 20 loads, time for its promotion, and 40 more loads.
fn one_hot_page() -> TraceFile {
    let mut program = Program::new();
    let thread = program.thread();
    for line in 0..20 {
        program.chase(thread, line * LINE);
    }
    // 100 µs at four instructions a cycle of 250 ps.
    program.alu(thread, 1_600_000);
    for line in 20..60 {
        program.chase(thread, line * LINE);
    }
    program.finish()
}

#[test]
fn a_hot_page_is_promoted_and_then_read_in_host_dram() {
    let simulation = finished(&one_hot_page(), "skybyte-p", &[]);
    let placement = simulation.fabric.placement.stats();
    assert_eq!((placement.promotions, placement.lines_copied), (1, 64));
    let stats = &simulation.fabric.stats;
    assert_eq!(
        stats.host_reads, 40,
        "what is read after the promotion is read in host DRAM"
    );
    assert_eq!(stats.counted(), 60);
    let link = simulation.fabric.link.stats();
    // 20 demand reads, 64 lines of the page, and the word that it is promoted.
    assert_eq!(link.of(MessageClass::MemRd), 20 + 64 + 1);
    assert_eq!(link.of(MessageClass::Drs), 20 + 64);
    let spec = prepare(&one_hot_page(), "demo", "skybyte-p", &[])
        .config()
        .host_dram
        .spec();
    assert!(stats.host_dram >= spec.unloaded_hit() * 40);
    assert!(
        stats.host_dram <= spec.unloaded_conflict() * 40,
        "host reads cost host DRAM only"
    );
}

#[test]
fn a_page_accessed_as_often_as_the_threshold_stays_on_the_device() {
    let simulation = finished(
        &one_hot_page(),
        "skybyte-p",
        &["ssd.promotion.threshold=60"],
    );
    assert_eq!(simulation.fabric.placement.stats().promotions_begun, 0);
    let simulation = finished(
        &one_hot_page(),
        "skybyte-p",
        &["ssd.promotion.threshold=59"],
    );
    assert_eq!(simulation.fabric.placement.stats().promotions_begun, 1);
}

#[test]
fn the_fetch_of_a_page_counts_as_uses() {
    for (fetch_uses, promotions) in [(4, 0), (5, 1)] {
        let counted = format!("ssd.promotion.fetch_uses={fetch_uses}");
        let settings = ["ssd.promotion.threshold=64", counted.as_str()];
        let simulation = finished(&one_hot_page(), "skybyte-p", &settings);
        let begun = simulation.fabric.placement.stats().promotions_begun;
        assert_eq!(begun, promotions, "60 uses and {counted}");
    }
}

/// Two pages in one frame take turns: neither is used more than eight times before it leaves.
fn pages_that_take_turns() -> TraceFile {
    let mut program = Program::new();
    let thread = program.thread();
    for round in 0..8 {
        for page in 0..2 {
            for line in 0..8 {
                program.chase(thread, page * PAGE + (round * 8 + line) * LINE);
            }
        }
    }
    program.finish()
}

#[test]
fn pages_that_come_and_go_are_promoted_if_their_uses_are_remembered() {
    let one_frame = [
        "ssd.dram=4KiB",
        "ssd.cache.ways=1",
        "ssd.promotion.threshold=24",
    ];
    for (remembers, promotions) in [("false", 0), ("true", 2)] {
        let key = format!("ssd.promotion.remembers={remembers}");
        let settings = [one_frame.as_slice(), &[key.as_str()]].concat();
        let simulation = finished(&pages_that_take_turns(), "skybyte-p", &settings);
        let begun = simulation.fabric.placement.stats().promotions_begun;
        assert_eq!(begun, promotions, "{key}");
    }
}

#[test]
fn dirty_pages_come_back_as_64_writes_and_clean_ones_as_none() {
    let room = [
        "host.promoted=64KiB",
        "host.reserve=4",
        "ssd.promotion.threshold=2",
        "cpu.l3=64KiB",
    ];
    let trace = mixed(4, 300, 8_000, 21);
    for design in ["skybyte-p", "skybyte-wp", "skybyte-cp", "skybyte-full"] {
        let simulation = finished(&trace, design, &room);
        let placement = simulation.fabric.placement.stats();
        assert!(
            placement.demotions > 0 && placement.drops > 0,
            "{design}: {placement:?}"
        );
        assert_eq!(placement.promotions, placement.promotions_begun, "{design}");
        let pages = placement.promotions + placement.demotions;
        assert_eq!(
            placement.lines_copied,
            64 * pages + placement.lines_repeated,
            "{design}"
        );
        // A line is written to the device because it left L3 or because its page comes back.
        let fabric = &simulation.fabric;
        let to_device = fabric.llc.stats().write_backs_out - fabric.stats.host_writes;
        let promoted = fabric
            .device
            .as_ref()
            .expect("a device")
            .controller
            .stats()
            .promotion_reads;
        let writes = fabric.link.stats().of(MessageClass::MemWr);
        assert_eq!(
            writes + promoted,
            to_device + placement.lines_copied,
            "{design}"
        );
        assert_eq!(writes, fabric.stats.device_writes, "{design}");
    }
}

#[test]
fn no_more_pages_are_on_their_way_than_the_look_aside_buffer_has_entries() {
    let hot = [
        "ssd.promotion.threshold=1",
        "host.reserve=0",
        "cpu.l3=64KiB",
    ];
    let trace = mixed(4, 200, 4_000, 22);
    let refusals = |plb: &str| {
        let simulation = finished(&trace, "skybyte-p", &[&hot[..], &[plb]].concat());
        let stats = simulation.fabric.placement.stats();
        assert!(stats.promotions > 0, "{plb}");
        stats.refusals
    };
    assert!(
        refusals("host.plb=1") > 0,
        "a full look-aside buffer refuses"
    );
    assert_eq!(refusals("host.plb=1024"), 0);
}

#[test]
fn a_promotion_costs_the_cores_its_shootdown() {
    // With one core and one page the only difference is one shootdown, during the arithmetic.
    let time = |cost: &str| {
        let settings = [COLD, &["cpu.cores=1", cost]].concat();
        crate::common::time(&run(&one_hot_page(), "demo", "skybyte-p", &settings))
    };
    let difference = time("host.shootdown_cost=20us") - time("host.shootdown_cost=10us");
    assert_eq!(difference, units::Picos::from_micros(10).get());
}

#[test]
fn what_is_promoted_in_warm_up_is_read_in_host_dram_from_the_start() {
    let mut program = Program::new();
    let thread = program.thread();
    for line in 0..60 {
        program.chase(thread, line * LINE);
    }
    program.load(thread, 70 * PAGE);
    let result = run(&program.finish(), "demo", "skybyte-p", &["run.warmup=50%"]);
    assert_eq!(stat(&result, "requests/host_reads"), 30);
}

#[test]
fn a_page_that_warm_up_promotes_dirty_is_dirty() {
    let mut program = Program::new();
    let thread = program.thread();
    program.store(thread, 0);
    // Enough other lines to drive the written one out of all caches, too few of a page to promote.
    for page in 1..=80 {
        for line in 0..30 {
            program.load(thread, page * PAGE + line * LINE);
        }
    }
    for line in 1..60 {
        program.load(thread, line * LINE);
    }
    let trace = program.finish();
    let settings = [
        "cpu.l3=32KiB",
        "ssd.promotion.threshold=40",
        "ssd.prefetch.pages=0",
    ];
    let prepared = prepare(&trace, "demo", "skybyte-wp", &settings);
    let mut simulation = prepared.start();
    let whole = [trace.threads()[0].instructions];
    simulation
        .warm_up(&whole, &mut |_| true)
        .expect("warm-up ends");
    let placement = &mut simulation.fabric.placement;
    assert_eq!(placement.resident_count(), 1);
    assert_eq!(
        placement.reclaim(units::Lpa::new(0)),
        host::placement::Reclaimed::Copying(units::Lpa::new(0))
    );
}

#[test]
fn pages_of_a_batch_share_their_shootdown() {
    let hot = [
        "ssd.promotion.threshold=4",
        "host.reserve=0",
        "cpu.l3=64KiB",
    ];
    let trace = mixed(4, 200, 8_000, 22);
    let finished = |more: &[&str]| finished(&trace, "skybyte-p", &[&hot[..], more].concat());
    let promotions = |batch: &str| finished(&[batch]).fabric.placement.stats().promotions;
    assert!(promotions("host.migration_batch=8") > 8);
    // What a shootdown costs more, cores lose for each of them.
    let lost = |batch: &str| {
        let time = |cost: &str| {
            let settings = [COLD, &hot[..], &[batch, cost]].concat();
            crate::common::time(&run(&trace, "demo", "skybyte-p", &settings))
        };
        time("host.shootdown_cost=1ms").saturating_sub(time("host.shootdown_cost=0ns"))
    };
    let (alone, together) = (
        lost("host.migration_batch=1"),
        lost("host.migration_batch=8"),
    );
    assert!(3 * together < alone, "{together} and {alone} ps");
}
