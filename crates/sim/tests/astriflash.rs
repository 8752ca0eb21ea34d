//! Host DRAM as a page cache in hardware (AstriFlash-CXL).

use crate::common::{LINE, PAGE, Program, mixed, prepare, run, stat, time};
use cxl::MessageClass;
use firmware::Served;
use host::thread::TracedThread;
use sim::simulation::Simulation;
use trace::TraceFile;

/// One core and a cache of two pages in one set, cold.
const SMALL: &[&str] = &[
    "run.warmup=0%",
    "cpu.cores=1",
    "host.promoted=8KiB",
    "host.reserve=0",
    "astriflash.ways=2",
    "cpu.l1d=64B",
    "cpu.l1d_ways=1",
    "cpu.l2=64B",
    "cpu.l2_ways=1",
    "cpu.l3=64B",
    "cpu.l3_ways=1",
];

fn finished(trace: &TraceFile, settings: &[&str]) -> Simulation<TracedThread> {
    let prepared = prepare(trace, "demo", "astriflash-cxl", settings);
    let mut simulation = prepared.start();
    simulation.run(&mut |_| true).expect("the run ends");
    let end = simulation.drain();
    simulation.audit(end);
    simulation
}

/// Two dependent loads of one page.
fn two_loads() -> TraceFile {
    let mut program = Program::new();
    let thread = program.thread();
    program.chase(thread, 0);
    program.chase(thread, LINE);
    program.finish()
}

#[test]
fn a_page_comes_as_a_whole_and_is_then_read_in_host_dram() {
    let simulation = finished(&two_loads(), SMALL);
    let link = simulation.fabric.link.stats();
    // One request; the 64 lines of the page come back.
    assert_eq!(link.of(MessageClass::MemRd), 1);
    assert_eq!(link.of(MessageClass::Drs), 64);
    let stats = &simulation.fabric.stats;
    // The first load missed and its thread switched; once the page has come, it and the second hit.
    assert_eq!(
        (stats.delayed, stats.host_reads, stats.counted()),
        (1, 2, 2)
    );
}

/// Stores to five pages at once, two ways: the first two pages come, and whenever one has come one
/// of the other three gets its way. A fill has to wait or not, however often it tries.
#[test]
fn a_fill_that_waits_for_a_way_is_one_conflict() {
    let mut program = Program::new();
    let thread = program.thread();
    for page in 0..5 {
        program.store(thread, page * PAGE);
    }
    // 25 us, in which all of them come.
    program.alu(thread, 400_000);
    // No line leaves the caches, which would ask for a page once more.
    let settings: Vec<&str> = SMALL
        .iter()
        .copied()
        .filter(|s| !s.starts_with("cpu.l"))
        .collect();
    let result = run(&program.finish(), "demo", "astriflash-cxl", &settings);
    assert_eq!(stat(&result, "activity/host_cache_fills"), 5);
    assert_eq!(stat(&result, "activity/host_cache_conflicts"), 3);
}

#[test]
fn a_miss_costs_tags_fetch_and_switch_and_a_hit_the_tags() {
    let time = |change: &str| {
        let settings = [SMALL, &[change]].concat();
        time(&run(&two_loads(), "demo", "astriflash-cxl", &settings))
    };
    let base = time("run.seed=1");
    let added = |change: &str| time(change) - base;
    // Tags are looked up three times, one after the other: for the miss, which is told and fetches
    // only then, and for the two hits. 115 ns instead of 15 ns.
    assert_eq!(added("astriflash.tag_latency=115ns"), 3 * 100_000);
    // One switch, when the page has come; it begins at the wake-up, the core being idle.
    assert_eq!(added("astriflash.switch_cost=1200ns"), 1_000_000);
    // The operating system's switch is not needed.
    assert_eq!(added("os.switch_cost=100us"), 0);
    // One page is read from flash.
    assert_eq!(added("nand.t_r=13us"), 10_000_000);
}

#[test]
fn a_dirty_page_that_leaves_is_written_as_a_whole() {
    let mut program = Program::new();
    let thread = program.thread();
    // One set of two ways. The store's line leaves the caches with the loads of the second page;
    // the third then takes the way of the first.
    program.store(thread, 0);
    program.alu(thread, 1_600_000);
    for line in 0..8 {
        program.chase(thread, PAGE + line * LINE);
    }
    program.chase(thread, 2 * PAGE);
    let simulation = finished(&program.finish(), SMALL);
    assert_eq!(simulation.fabric.stats.host_writes, 1);
    let link = simulation.fabric.link.stats();
    assert_eq!(link.of(MessageClass::MemRd), 3);
    assert_eq!(link.of(MessageClass::MemWr), 64);
    assert_eq!(link.of(MessageClass::Ndr), 1);
    assert_eq!(simulation.fabric.stats.device_writes, 64);
}

/// What the miss that drives a page out takes: the thread waits for the page that comes, and not
/// for the one that leaves.
#[test]
fn a_miss_takes_as_long_over_a_dirty_page_as_over_a_clean_one() {
    let miss = |is_dirty: bool| {
        let time = |with_miss: bool| {
            let mut program = Program::new();
            let thread = program.thread();
            match is_dirty {
                true => program.store(thread, 0),
                false => program.load(thread, 0),
            }
            program.alu(thread, 160_000);
            for line in 0..8 {
                program.chase(thread, PAGE + line * LINE);
            }
            if with_miss {
                program.chase(thread, 2 * PAGE);
            }
            let result = run(&program.finish(), "demo", "astriflash-cxl", SMALL);
            let writes = stat(&result, "activity/host_cache_write_backs");
            assert_eq!(writes, u64::from(is_dirty && with_miss));
            time(&result)
        };
        time(true) - time(false)
    };
    assert_eq!(miss(true), miss(false));
}

#[test]
fn misses_of_one_page_share_one_fetch() {
    let mut program = Program::new();
    for line in 0..4 {
        let thread = program.thread();
        program.chase(thread, line * LINE);
    }
    let settings = [SMALL, &["cpu.cores=4"]].concat();
    let simulation = finished(&program.finish(), &settings);
    let stats = &simulation.fabric.stats;
    assert_eq!((stats.delayed, stats.host_reads), (4, 4));
    let link = simulation.fabric.link.stats();
    assert_eq!(link.of(MessageClass::MemRd), 1);
}

#[test]
fn of_reads_that_wait_for_one_page_the_first_has_missed_and_the_others_have_merged() {
    let mut program = Program::new();
    let thread = program.thread();
    // Stores do not switch. The second misses while the tags are looked up for the first.
    program.store(thread, 0);
    program.store(thread, LINE);
    // Both have their lines when this is over.
    program.alu(thread, 160_000);
    let simulation = finished(&program.finish(), SMALL);
    let served = |served| simulation.fabric.stats.served_by(served);
    let counts = (served(Served::Flash), served(Served::MergedMiss));
    assert_eq!(counts, (1, 1));
}

#[test]
fn a_thread_that_misses_gives_its_core_to_another() {
    // Two threads on one core, a page of their own each: their fetches overlap. The other thread's
    // page is asked for after the first switch, not after the first page.
    let trace = |threads: u64| {
        let mut program = Program::new();
        for page in 0..threads {
            let thread = program.thread();
            program.chase(thread, page * PAGE);
        }
        program.finish()
    };
    let settings = [SMALL, &["nand.t_r=50us"]].concat();
    let time = |threads| time(&run(&trace(threads), "demo", "astriflash-cxl", &settings));
    let (one, two) = (time(1), time(2));
    assert!(one > 50_000_000);
    assert!(two < one + 5_000_000, "{one} {two}");
}

#[test]
fn stores_wait_for_their_page_without_a_switch() {
    let mut program = Program::new();
    let thread = program.thread();
    program.store(thread, 0);
    let simulation = finished(&program.finish(), SMALL);
    let stats = &simulation.fabric.stats;
    assert_eq!((stats.delayed, stats.counted()), (0, 1));
    assert_eq!(stats.served_by(firmware::Served::Flash), 1);
}

#[test]
fn with_every_page_present_and_no_tags_it_is_dram_only() {
    // Warm-up touches all of 300 pages. One way: page p is in host page p, as in DRAM-Only.
    let mut program = Program::new();
    let thread = program.thread();
    let pages = 300;
    for page in 0..pages {
        program.load(thread, page * PAGE);
    }
    let mut stream = units::Stream::new(7, "astriflash");
    for _ in 0..pages {
        let address = stream.below(pages) * PAGE + stream.below(64) * LINE;
        match stream.below(3) {
            0 => program.store(thread, address),
            1 => program.load(thread, address),
            _ => program.chase(thread, address),
        }
    }
    let trace = program.finish();
    let cached = [
        "run.warmup=50%",
        "astriflash.ways=1",
        "astriflash.tag_latency=0ns",
    ];
    let cached = run(&trace, "demo", "astriflash-cxl", &cached);
    let ideal = run(&trace, "demo", "dram-only", &["run.warmup=50%"]);
    assert!(stat(&cached, "requests/host_reads") > 100);
    for part in ["cores", "caches", "requests", "amat", "latency_cdf", "os"] {
        assert_eq!(
            cached["statistics"][part], ideal["statistics"][part],
            "{part}"
        );
    }
    assert_eq!(time(&cached), time(&ideal));
}

#[test]
fn many_threads_in_a_small_cache_come_to_an_end() {
    let settings = ["host.promoted=64KiB", "host.reserve=0", "cpu.l3=64KiB"];
    let settings = [&settings[..], &["run.warmup=0%"]].concat();
    let trace = mixed(8, 300, 4_000, 21);
    let result = run(&trace, "demo", "astriflash-cxl", &settings);
    let activity = |what: &str| stat(&result, &format!("activity/host_cache_{what}"));
    let (fills, writes) = (activity("fills"), activity("write_backs"));
    assert!(fills > 300 && writes > 300, "{fills} {writes}");
    // Every message has its cause: a request and 64 lines for a fill, 64 lines and an answer for a
    // page that leaves.
    let simulation = finished(&trace, &settings);
    let link = simulation.fabric.link.stats();
    assert_eq!(
        link.of(MessageClass::Drs),
        64 * link.of(MessageClass::MemRd)
    );
    assert_eq!(
        link.of(MessageClass::MemWr),
        64 * link.of(MessageClass::Ndr)
    );
    assert!(
        link.of(MessageClass::MemRd) >= fills,
        "fills under way at the end come too"
    );
    assert!(link.of(MessageClass::Ndr) >= writes);
    let (opened, closed) = simulation.fabric.requests.counts();
    assert_eq!(
        opened,
        link.of(MessageClass::MemRd) + link.of(MessageClass::Ndr)
    );
    assert_eq!(opened, closed);
}
