//! Independent accesses reach the bandwidth of what limits them, and no more.

use crate::common::{LINE, PAGE, Program, prepare, run, stat};
use cxl::MessageClass;
use host::thread::TracedThread;
use nand::Kind;
use sim::config::Config;
use sim::simulation::Simulation;
use trace::TraceFile;
use units::{Picos, Stream, Time};

/// `threads` threads, each of which first loads a line of each of its pages, then, in the second
/// half of its instructions, streams over `lines` further lines of each.
fn streams(threads: u64, pages: u64, lines: u64) -> TraceFile {
    let mut program = Program::new();
    for thread in 0..threads {
        let id = program.thread();
        let base = thread * pages * PAGE;
        for page in 0..pages {
            program.load(id, base + page * PAGE);
        }
        program.alu(id, pages * (lines - 1));
        for page in 0..pages {
            for line in 1..=lines {
                program.load(id, base + page * PAGE + line * LINE);
            }
        }
    }
    program.finish()
}

/// Runs the second half after a functional warm-up by the first.
fn measured(
    trace: &TraceFile,
    machine: &str,
    design: &str,
    settings: &[&str],
) -> (Simulation<TracedThread>, Picos, Config) {
    let prepared = prepare(trace, machine, design, settings);
    let half: Vec<u64> = trace
        .threads()
        .iter()
        .map(|thread| thread.instructions / 2)
        .collect();
    let mut simulation = prepared.start();
    simulation
        .warm_up(&half, &mut |_| true)
        .expect("warm-up ends");
    let end = simulation.run(&mut |_| true).expect("the run ends");
    simulation.audit(end);
    (simulation, end - Time::ZERO, prepared.config().clone())
}

/// In thousandths of `whole`.
fn share(part: Picos, whole: Picos) -> u64 {
    part.get() * 1000 / whole.get()
}

#[test]
fn streams_of_eight_cores_fill_the_link_and_no_more() {
    // The lookup pipelines and the device's DRAM, which are slower, are out of the way.
    let wide = ["ssd.read_rate=100GB/s", "ssd_dram.channels=16"];
    let trace = streams(8, 40, 60);
    let (simulation, time, config) = measured(&trace, "table2", "base-cssd", &wide);
    let link = simulation.fabric.link.stats();
    assert!(
        link.of(MessageClass::Drs) >= 8 * 40 * 60,
        "every line crosses the link"
    );
    let busy = share(link.to_host.busy, time);
    assert!(
        (950..=1000).contains(&busy),
        "the link carries data {busy} ‰ of the time"
    );
    let data = units::Bytes::new(link.of(MessageClass::Drs) * LINE);
    assert!(
        time > config.link.bandwidth.time_for(data),
        "data come no faster than the link"
    );
}

#[test]
fn as_specified_the_lookup_pipelines_limit_streams_to_the_rate_of_the_prototype() {
    // SkyByte §V: 11.93 GB/s. The device's DRAM could do 12.8 GB/s, the link 12.05 GB/s.
    let trace = streams(8, 40, 60);
    let (simulation, time, config) =
        measured(&trace, "table2", "base-cssd", &["ssd_dram.channels=16"]);
    let lines = simulation.fabric.link.stats().of(MessageClass::Drs);
    let least = config.ssd.read_rate.time_for(units::Bytes::new(LINE)) * lines;
    let busy = share(least, time);
    assert!(
        (950..=1000).contains(&busy),
        "lookups keep the pipeline {busy} ‰ of the time"
    );
}

/// Loads of random pages, each page once, by as many threads as there are cores; nothing is found
/// in device DRAM.
fn random_pages(threads: u64, pages: u64) -> TraceFile {
    let mut order: Vec<u64> = (0..pages).collect();
    let mut stream = Stream::new(5, "limits/pages");
    for place in (1..order.len()).rev() {
        order.swap(place, stream.below(place as u64 + 1) as usize);
    }
    let mut program = Program::new();
    let ids: Vec<_> = (0..threads).map(|_| program.thread()).collect();
    for (index, page) in order.into_iter().enumerate() {
        program.load(
            ids[index % ids.len()],
            page * PAGE + stream.below(64) * LINE,
        );
    }
    program.finish()
}

/// Random reads of a small flash: its time, reads completed and configuration.
fn random_reads(flash: &[&str]) -> (Picos, u64, Config) {
    let few_frames = [
        "ssd.dram=1MiB",
        "ssd.prefetch.pages=0",
        "ftl.overwritten=0%",
        "cpu.cores=8",
    ];
    let settings = [&few_frames[..], flash].concat();
    let prepared = prepare(&random_pages(8, 6_000), "demo", "base-cssd", &settings);
    let mut simulation = prepared.start();
    let end = simulation.run(&mut |_| true).expect("the run ends");
    let device = simulation.fabric.device.as_ref().expect("a device");
    let reads = device.resources.nand.stats().of(Kind::Read).completed;
    assert_eq!(reads, 6_000, "each page is read once");
    (end - Time::ZERO, reads, prepared.config().clone())
}

#[test]
fn random_reads_of_one_die_keep_it_busy_and_no_more() {
    let one = [
        "nand.chips_per_channel=1",
        "nand.channels=1",
        "nand.dies_per_chip=1",
        "nand.blocks_per_plane=256",
        "nand.pages_per_block=64",
    ];
    let (time, reads, config) = random_reads(&one);
    let busy = share(config.nand.unloaded_read() * reads, time);
    assert!(
        (990..=1000).contains(&busy),
        "the die reads {busy} ‰ of the time"
    );
}

#[test]
fn random_reads_of_many_dies_are_limited_by_the_dies() {
    let flash = [
        "nand.chips_per_channel=1",
        "nand.channels=4",
        "nand.dies_per_chip=1",
        "nand.blocks_per_plane=64",
        "nand.pages_per_block=64",
    ];
    let (time, reads, config) = random_reads(&flash);
    // Each die has a bus of its own.
    let busy = share(config.nand.unloaded_read() * reads / 4, time);
    assert!(
        (950..=1000).contains(&busy),
        "dies read {busy} ‰ of the time"
    );
}

#[test]
fn random_reads_of_many_dies_on_one_bus_are_limited_by_the_bus() {
    let flash = [
        "nand.chips_per_channel=1",
        "nand.channels=1",
        "nand.dies_per_chip=8",
        "nand.blocks_per_plane=64",
        "nand.pages_per_block=64",
    ];
    let (time, reads, config) = random_reads(&flash);
    let busy = share(config.nand.transfer_time() * reads, time);
    assert!(
        (950..=1000).contains(&busy),
        "the bus carries pages {busy} ‰ of the time"
    );
}

#[test]
fn a_device_dram_larger_than_the_footprint_costs_its_dram_path_only() {
    let trace = streams(4, 40, 60);
    for design in ["base-cssd", "skybyte-w", "skybyte-c"] {
        let (simulation, ..) = measured(&trace, "demo", design, &[]);
        let stats = &simulation.fabric.stats;
        let device = simulation.fabric.device.as_ref().expect("a device");
        assert_eq!(
            device.resources.nand.stats().of(Kind::Read).submitted,
            0,
            "{design}"
        );
        assert_eq!(
            stats.served_by(firmware::Served::CacheHit),
            stats.counted(),
            "{design}"
        );
        assert_eq!(
            (stats.device.flash, stats.device.stall),
            (Picos::ZERO, Picos::ZERO)
        );
        assert_eq!(stats.delayed, 0, "{design}");
    }
}

#[test]
fn with_infinite_device_dram_the_mean_of_a_stream_is_within_the_parts_and_their_queues() {
    // One thread, one load at a time: no queue at all.
    let mut program = Program::new();
    let id = program.thread();
    for page in 0..40 {
        program.chase(id, page * PAGE);
    }
    program.alu(id, 40 * 59);
    for page in 0..40 {
        for line in 1..=60 {
            program.chase(id, page * PAGE + line * LINE);
        }
    }
    let result = run(&program.finish(), "demo", "base-cssd", &["run.warmup=50%"]);
    assert_eq!(stat(&result, "requests/ssd_misses"), 0);
    assert_eq!(stat(&result, "amat/flash_ps"), 0);
    let config = prepare(&streams(1, 1, 1), "demo", "base-cssd", &[])
        .config()
        .clone();
    let spec = config.ssd_dram.spec();
    let link = cxl::Link::new(&config.link);
    let around = link.unloaded(MessageClass::MemRd)
        + link.unloaded(MessageClass::Drs)
        + config.ssd.cache.lookup;
    let mean = Picos::new(stat(&result, "amat/paper_ps"));
    let range = around + spec.unloaded_hit()..=around + spec.unloaded_conflict();
    assert!(range.contains(&mean), "{mean} is not in {range:?}");
}
