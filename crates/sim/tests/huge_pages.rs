//! Pages of 2 MiB (SkyByte §IV): they come to host DRAM chunk by chunk, and leave it as a whole.

use crate::common::{LINE, PAGE, Program, mixed, prepare, run, stat};
use cxl::MessageClass;
use host::thread::TracedThread;
use sim::run::Prepared;
use sim::simulation::Simulation;
use trace::TraceFile;
use units::{Lpa, Time};

const CHUNKS: u64 = 512;

/// Room for four pages, all of it for newcomers.
const HUGE: &[&str] = &[
    "run.warmup=0%",
    "ssd.prefetch.pages=0",
    "cpu.page_size=2MiB",
    "host.promoted=8MiB",
    "host.reserve=0",
];

/// Runs, lets everything under way end, and audits; says when that is.
fn finished(
    trace: &TraceFile,
    design: &str,
    settings: &[&str],
) -> (Simulation<TracedThread>, Time) {
    let prepared = prepare(trace, "demo", design, &[HUGE, settings].concat());
    let mut simulation = prepared.start();
    simulation.run(&mut |_| true).expect("the run ends");
    let end = simulation.drain();
    simulation.audit(end);
    (simulation, end)
}

/// One chunk becomes hot: 20 dependent loads of chunk 3.
fn one_hot_chunk() -> Program {
    let mut program = Program::new();
    let thread = program.thread();
    for line in 0..20 {
        program.chase(thread, 3 * PAGE + line * LINE);
    }
    program
}

#[test]
fn a_hot_chunk_brings_its_whole_page() {
    let (simulation, _) = finished(&one_hot_chunk().finish(), "skybyte-p", &[]);
    let placement = simulation.fabric.placement.stats();
    assert_eq!(
        (placement.promotions, placement.lines_copied),
        (1, 64 * CHUNKS)
    );
    let link = simulation.fabric.link.stats();
    // 20 demand reads, every line of every chunk, and one word for all of them.
    assert_eq!(link.of(MessageClass::MemRd), 20 + 64 * CHUNKS + 1);
    let device = simulation.fabric.device.as_ref().expect("a device");
    assert_eq!(device.controller.stats().promotions_done, CHUNKS);
}

#[test]
fn chunks_move_one_after_the_other() {
    let trace = one_hot_chunk().finish();
    let end = |change: &str| finished(&trace, "skybyte-p", &[change]).1;
    let base = end("run.seed=1");
    // Chunk 3 is read from flash once, for the program; the other 511 for the move. Each waits for
    // the lines of the one before: there is one second-level entry. 512 × 10 us.
    assert_eq!((end("nand.t_r=13us") - base).get(), 512 * 10_000_000);
    // A round trip of 100 ns more: 16 dependent loads, the way of the 17th, with which the chunk is
    // hot, to the device, 512 chunks, and the way of the word that the page has come. The offer is
    // an interrupt, not a message of the link.
    let longer = end("link.protocol_latency=140ns") - base;
    assert_eq!(longer.get(), (16 + 512) * 100_000 + 2 * 50_000);
}

#[test]
fn while_a_page_moves_its_chunks_are_read_where_they_are() {
    let mut program = one_hot_chunk();
    // 20 us: the offer comes and is accepted.
    program.alu(units::ThreadId::new(0), 320_000);
    let prepared = prepare(&program.finish(), "demo", "skybyte-p", HUGE);
    let mut simulation = prepared.start();
    simulation.run(&mut |_| true).expect("the run ends");
    let placement = &mut simulation.fabric.placement;
    // The program has ended and the move goes on: of 512 flash reads there was time for six.
    assert_eq!(placement.stats().promotions_begun, 1);
    assert_eq!(placement.stats().promotions, 0);
    let is_in_host = |placement: &mut host::placement::Placement, chunk| {
        let target = placement.read(Lpa::new(chunk), units::LineInPage::new(0));
        target != host::placement::Target::Device
    };
    // The hot chunk has gone first, then those from the beginning.
    assert!(is_in_host(placement, 3) && is_in_host(placement, 0));
    assert!(!is_in_host(placement, 7) && !is_in_host(placement, 511));
    simulation.drain();
    let placement = &mut simulation.fabric.placement;
    let page = |chunk| match placement.locate(Lpa::new(chunk)) {
        host::placement::Location::Host(page) => page.get(),
        elsewhere => panic!("chunk {chunk} is in {elsewhere:?}"),
    };
    assert_eq!(page(511) - page(0), 511);
}

#[test]
fn dirty_pages_come_back_as_a_whole() {
    // Two pages of room, one to be kept free, over five pages of the program.
    let settings = [
        "host.promoted=4MiB",
        "host.reserve=1",
        "ssd.promotion.threshold=6",
        "cpu.l3=64KiB",
    ];
    let trace = mixed(2, 5 * CHUNKS, 12_000, 21);
    for design in ["skybyte-p", "skybyte-full"] {
        let (simulation, _) = finished(&trace, design, &settings);
        let placement = simulation.fabric.placement.stats();
        assert!(placement.demotions > 0, "{design}: {placement:?}");
        assert_eq!(placement.promotions, placement.promotions_begun, "{design}");
        let moved = placement.promotions + placement.demotions;
        assert_eq!(
            placement.lines_copied,
            64 * CHUNKS * moved + placement.lines_repeated,
            "{design}"
        );
        // Room is made when a page is offered, so behind the last offer both may stay.
        let stay = simulation.fabric.placement.resident_count() as u64;
        let gone = placement.demotions + placement.drops;
        assert_eq!(placement.promotions, gone + stay, "{design}: {placement:?}");
    }
}

#[test]
fn a_translation_covers_two_mebibytes() {
    let mut program = Program::new();
    let thread = program.thread();
    for page in 0..4 * CHUNKS {
        program.chase(thread, page * PAGE);
    }
    let trace = program.finish();
    let walks = |size: &str| {
        let settings = ["run.warmup=0%", &format!("cpu.page_size={size}")];
        stat(
            &run(&trace, "demo", "base-cssd", &settings),
            "caches/tlb_walks",
        )
    };
    // Every page is walked to once.
    assert_eq!(walks("4KiB"), 4 * CHUNKS);
    assert_eq!(walks("2MiB"), 4);
}

#[test]
fn nodes_may_outnumber_the_huge_pages_of_host_dram_where_none_is_moved() {
    let settings = [
        "cpu.cores=4",
        "numa.nodes=4",
        "host_dram.channels=4",
        "host.promoted=4MiB",
    ];
    for design in ["base-cssd", "skybyte-w", "astriflash-cxl"] {
        // Audited at its end: every page of host DRAM is accounted for.
        finished(&one_hot_chunk().finish(), design, &settings);
    }
}

#[test]
fn untouched_parts_of_a_page_take_their_place_on_the_device() {
    let mut program = Program::new();
    let thread = program.thread();
    // Three loads in three pages: 6 MiB.
    for page in [0, 3, 7] {
        program.load(thread, page * CHUNKS * PAGE);
    }
    let trace = program.finish();
    let small_device = [
        "cpu.page_size=2MiB",
        "nand.channels=1",
        "nand.chips_per_channel=1",
        "nand.dies_per_chip=1",
    ];
    // A die of 6 MiB exports less.
    let spec = sim::run::RunSpec {
        overrides: small_device.map(str::to_string).to_vec(),
        ..crate::common::spec("demo", "base-cssd")
    };
    let error = Prepared::with_trace(spec, trace.clone()).err();
    let text = error.expect("it does not fit").to_string();
    assert!(
        text.contains("the footprint of 6MiB (1536 pages)"),
        "{text}"
    );
    prepare(&trace, "demo", "base-cssd", &small_device[1..]);
}

#[test]
fn every_design_runs_on_huge_pages_or_says_why_not() {
    let trace = mixed(3, 4 * CHUNKS, 3_000, 5);
    let mut counts = Vec::new();
    for design in sim::config::presets::DESIGNS {
        let settings = [
            "run.warmup=40%",
            "cpu.page_size=2MiB",
            "host.promoted=4MiB",
            "host.reserve=1",
            "ssd.promotion.threshold=2",
            "cpu.l3=64KiB",
        ];
        let spec = sim::run::RunSpec {
            overrides: settings.map(str::to_string).to_vec(),
            ..crate::common::spec("demo", design.name)
        };
        match Prepared::with_trace(spec, trace.clone()) {
            Ok(prepared) => {
                let result = prepared.execute(&mut |_| true).expect("the run ends");
                counts.push(stat(result.json(), "cores/instructions"));
            }
            Err(error) => {
                let text = error.to_string();
                assert!(design.name.ends_with("ct"), "{}: {text}", design.name);
                assert!(text.contains("moves pages of 4KiB only"), "{text}");
            }
        }
    }
    assert_eq!(counts.len(), sim::config::presets::DESIGNS.len() - 2);
    assert!(
        counts.windows(2).all(|pair| pair[0] == pair[1]),
        "{counts:?}"
    );
}

#[test]
fn host_dram_that_holds_no_huge_page_is_an_error_before_the_run() {
    let problem = |settings: &[&str]| {
        let spec = sim::run::RunSpec {
            overrides: settings.iter().map(ToString::to_string).collect(),
            ..crate::common::spec("demo", "skybyte-full")
        };
        let error = Prepared::with_trace(spec, one_hot_chunk().finish()).err();
        error.expect("it is refused").to_string()
    };
    let small = problem(&["cpu.page_size=2MiB", "host.promoted=1MiB"]);
    assert!(small.contains("whole pages of 2MiB"), "{small}");
    let reserve = problem(&["cpu.page_size=2MiB", "host.promoted=4MiB"]);
    assert!(reserve.contains("half of the 2 pages"), "{reserve}");
}
