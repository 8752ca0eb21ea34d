//! Cache lines written back (`clwb`) and fences that wait for them: what they cost, and where it
//! ends.

use crate::common::{LINE, PAGE, Program, prepare, run, stat};
use cxl::MessageClass::{Drs, MemRd, MemWr, Ndr};
use host::thread::TracedThread;
use serde_json::Value;
use sim::config::{Config, Fidelity};
use sim::run::{Prepared, Windows};
use sim::simulation::Simulation;
use trace::{Reg, StaticInst, TraceFile};
use units::{Picos, ThreadId, Time};

/// A program that makes what it stores survive a loss of power.
struct Persistent {
    program: Program,
    write_back: StaticInst,
    fence: StaticInst,
}

impl Persistent {
    fn new() -> Self {
        let mut program = Program::new();
        Self {
            write_back: program.writer.write_back(Reg::general(4)),
            fence: program.writer.fence(),
            program,
        }
    }
    fn write_back(&mut self, thread: ThreadId, address: u64) {
        let operand = Some((crate::common::DATA + address, 1));
        let writer = &mut self.program.writer;
        writer.execute(thread, self.write_back, operand, None);
    }
    fn fence(&mut self, thread: ThreadId) {
        self.program.writer.execute(thread, self.fence, None, None);
    }
    /// A store that is safe when the next instruction runs.
    fn commit(&mut self, thread: ThreadId, address: u64) {
        self.program.store(thread, address);
        self.write_back(thread, address);
        self.fence(thread);
    }
}

/// One core, one bank whose every access opens another row, and a page that is there.
const PLAIN: &[&str] = &[
    "run.warmup=0%",
    "cpu.cores=1",
    "ssd.prefetch.pages=0",
    "ssd_dram.channels=1",
    "ssd_dram.banks=1",
    "ssd_dram.row_size=64B",
    "host.pinned=all",
];

struct Outcome {
    config: Config,
    end: Time,
    simulation: Simulation<TracedThread>,
}

fn outcome(trace: &TraceFile, design: &str) -> Outcome {
    let prepared = prepare(trace, "demo", design, PLAIN);
    let mut simulation = prepared.start();
    let end = simulation.run(&mut |_| true).expect("the run ends");
    let drained = simulation.drain();
    simulation.audit(drained);
    Outcome {
        config: prepared.config().clone(),
        end,
        simulation,
    }
}

impl Outcome {
    /// Cycles from a private cache through L3 to the device and back, and the cycle begun.
    fn beyond_l2(&self, around: Picos) -> u64 {
        let period = self.config.cpu.clock.period().expect("a clock");
        let cpu = &self.config.cpu;
        let dram = self.config.ssd_dram.spec().unloaded_conflict();
        let on_chip = cpu.l3_latency.get() + cpu.memory_latency.get();
        on_chip + (around + dram).get().div_ceil(period.get())
    }
    fn on_chip(&self) -> u64 {
        self.config.cpu.l1d_latency.get() + self.config.cpu.l2_latency.get()
    }
    fn write(&self) -> u64 {
        let link = &self.simulation.fabric.link;
        let messages = link.unloaded(MemWr) + link.unloaded(Ndr);
        self.on_chip() + self.beyond_l2(messages + self.config.ssd.log.lookup)
    }
    fn read(&self) -> u64 {
        let link = &self.simulation.fabric.link;
        let messages = link.unloaded(MemRd) + link.unloaded(Drs);
        self.on_chip() + self.beyond_l2(messages + self.config.ssd.cache.lookup)
    }
    fn cycles(&self) -> u64 {
        let period = self.config.cpu.clock.period().expect("a clock");
        self.end.as_picos() / period.get()
    }
}

/// Commits to one line of a page, or to one line after the other, after the page has come.
fn commits(count: u64, step: u64) -> TraceFile {
    let mut persistent = Persistent::new();
    let thread = persistent.program.thread();
    persistent.program.chase(thread, 0);
    for number in 0..count {
        persistent.commit(thread, number * step);
    }
    persistent.program.finish()
}

#[test]
fn a_commit_takes_caches_link_log_and_device_dram() {
    let (short, long) = (
        outcome(&commits(10, 0), "skybyte-full"),
        outcome(&commits(60, 0), "skybyte-full"),
    );
    // The fence before is done in cycle 0: store and write-back are dispatched. The store executes
    // in 1 and retires in 2, the write-back, at the same port, a cycle later. Their turns are in 3
    // and 4. The fence is dispatched with the acknowledgement, executes and is done: 2 more.
    assert_eq!(long.cycles() - short.cycles(), 50 * (4 + long.write() + 2));
    let stats = &long.simulation.fabric.stats;
    assert_eq!((stats.persisted_on_device, stats.persisted_clean), (60, 0));
    assert_eq!(stats.device_writes, 60);
}

#[test]
fn a_commit_to_a_line_that_is_on_the_device_fetches_it_first() {
    let (short, long) = (
        outcome(&commits(10, LINE), "skybyte-full"),
        outcome(&commits(60, LINE), "skybyte-full"),
    );
    // The store's turn is in 3; its line comes, and with the line the write-back's turn.
    assert_eq!(
        long.cycles() - short.cycles(),
        50 * (3 + long.read() + long.write() + 2)
    );
}

#[test]
fn without_write_back_or_fence_no_store_waits_for_the_device() {
    let alone = |with_fence: bool, with_write_back: bool| {
        let mut persistent = Persistent::new();
        let thread = persistent.program.thread();
        persistent.program.chase(thread, 0);
        for _ in 0..60 {
            persistent.program.store(thread, 0);
            if with_write_back {
                persistent.write_back(thread, 0);
            }
            if with_fence {
                persistent.fence(thread);
            }
        }
        outcome(&persistent.program.finish(), "skybyte-full")
    };
    let both = alone(true, true);
    for (with_fence, with_write_back) in [(true, false), (false, true), (false, false)] {
        let other = alone(with_fence, with_write_back);
        let saved = both.cycles() - other.cycles();
        assert!(saved > 59 * other.write() / 2, "{saved}");
        assert!(other.simulation.fabric.stats.persisted_on_device <= 60);
    }
}

/// `threads` threads that commit to lines of their own and load from other pages in between.
fn writers(threads: u32, steps: u64) -> TraceFile {
    let mut persistent = Persistent::new();
    for number in 0..u64::from(threads) {
        let thread = persistent.program.thread();
        for step in 0..steps {
            let own = number * PAGE + step % 16 * LINE;
            persistent.program.store(thread, own);
            persistent.write_back(thread, own);
            persistent.program.load(thread, (8 + step % 64) * PAGE);
            if step % 3 == 0 {
                persistent.fence(thread);
            }
        }
    }
    persistent.program.finish()
}

/// Every design takes every line somewhere and tells the core; the counts say where.
#[test]
fn every_write_back_is_acknowledged_in_every_design() {
    let trace = writers(4, 300);
    for design in [
        "dram-only",
        "base-cssd",
        "skybyte-w",
        "skybyte-p",
        "skybyte-c",
        "skybyte-full",
        "skybyte-ct",
        "skybyte-wct",
        "astriflash-cxl",
    ] {
        for pinned in ["host.pinned=none", "host.pinned=all"] {
            let settings = ["run.warmup=10%", "cpu.cores=2", pinned];
            let prepared = prepare(&trace, "demo", design, &settings);
            let mut simulation = prepared.start();
            let share = prepared.config().run.warmup;
            let counts = [share.of(prepared.instruction_count() / 4); 4];
            simulation
                .warm_up(&counts, &mut |_| true)
                .expect("warm-up ends");
            simulation.run(&mut |_| true).expect("the run ends");
            let end = simulation.drain();
            simulation.audit(end);
            let stats = &simulation.fabric.stats;
            let done = stats.written_back();
            let context = format!("{design}, {pinned}");
            assert!((4 * 265..=4 * 275).contains(&done), "{context}: {done}");
            if design == "dram-only" {
                assert_eq!(stats.persisted_on_device, 0);
                assert!(stats.persisted_in_host > 0);
            } else if pinned.ends_with("all") {
                assert_eq!(stats.persisted_in_host, 0, "{context}");
                assert!(stats.persisted_on_device > 0, "{context}");
            }
        }
    }
}

fn warns(result: &Value) -> bool {
    let warnings = result["warnings"].as_array().expect("a list of warnings");
    let mut texts = warnings.iter().filter_map(Value::as_str);
    texts.any(|text| text.contains("a loss of power takes away"))
}

#[test]
fn a_result_counts_write_backs_and_warns_of_those_that_end_in_host_dram() {
    let result = |design: &str, pinned: &str| {
        let settings = ["run.warmup=0%", "cpu.cores=2", pinned];
        run(&writers(4, 600), "demo", design, &settings)
    };
    let pinned = result("astriflash-cxl", "host.pinned=all");
    assert_eq!(stat(&pinned, "cores/line_write_backs"), 4 * 600);
    assert_eq!(stat(&pinned, "cores/stores"), 4 * 600);
    assert!(stat(&pinned, "requests/write_backs_ssd") > 0);
    assert!(stat(&pinned, "requests/write_backs_ssd_average_ps") > 100_000);
    assert_eq!(stat(&pinned, "requests/write_backs_host"), 0);
    assert!(!warns(&pinned));
    let free = result("astriflash-cxl", "host.pinned=none");
    assert!(stat(&free, "requests/write_backs_host") > 0);
    assert!(warns(&free));
    assert!(!warns(&result("dram-only", "host.pinned=none")));
}

#[test]
fn a_clone_taken_between_write_backs_goes_on_to_the_same_end() {
    let prepared = prepare(&writers(4, 300), "demo", "skybyte-full", &["run.warmup=0%"]);
    let end = prepared.start().run(&mut |_| true).expect("it ends");
    let mut simulation = prepared.start();
    let quotas = [prepared.instruction_count() / 8; 4];
    simulation
        .run_window(&quotas, &mut |_| true)
        .expect("the window ends");
    let mut copy = simulation.clone();
    assert_eq!(copy.run(&mut |_| true).expect("it ends"), end);
    assert_eq!(simulation.run(&mut |_| true).expect("it ends"), end);
    assert_eq!(copy.events, simulation.events);
}

#[test]
fn windows_and_co_runs_have_write_backs_too() {
    let run = prepare(
        &writers(4, 300),
        "demo",
        "skybyte-full",
        &["run.warmup=10%"],
    );
    let windows = Windows {
        count: 2,
        instructions: 1_000,
    };
    for window in run
        .execute_windows(windows, &mut |_| true)
        .expect("they end")
    {
        assert!(stat(window.json(), "cores/line_write_backs") > 200);
    }
    let spec = sim::run::RunSpec {
        trace: "a.etr+b.etr".to_string(),
        overrides: vec!["run.warmup=0%".into(), "host.pinned=all".into()],
        ..crate::common::spec("demo", "skybyte-full")
    };
    let traces = vec![writers(2, 200), writers(3, 100)];
    let both = Prepared::with_traces(spec, traces).expect("valid settings");
    let result = both.execute(&mut |_| true).expect("the run ends");
    assert_eq!(stat(result.json(), "cores/line_write_backs"), 700);
    assert_eq!(stat(result.json(), "requests/write_backs_host"), 0);
}

/// The artifact's core has no fences, and others besides: write-backs end all the same.
#[test]
fn the_artifact_two_nodes_and_large_pages_have_write_backs_too() {
    let trace = writers(4, 300);
    let run = |design: &str, fidelity: Fidelity, settings: &[&str]| {
        let settings = settings.iter().chain(&["run.warmup=0%", "host.pinned=all"]);
        let spec = sim::run::RunSpec {
            fidelity,
            overrides: settings.map(ToString::to_string).collect(),
            ..crate::common::spec("demo", design)
        };
        let prepared = Prepared::with_trace(spec, trace.clone()).expect("valid settings");
        let mut simulation = prepared.start();
        simulation.run(&mut |_| true).expect("the run ends");
        let end = simulation.drain();
        simulation.audit(end);
        simulation.fabric.stats.written_back()
    };
    for design in ["base-cssd", "skybyte-full", "skybyte-ct", "astriflash-cxl"] {
        assert!(
            run(design, Fidelity::artifact("skybyte"), &[]) >= 1_200,
            "{design}"
        );
    }
    let large = ["cpu.page_size=2MiB", "host.reserve=1"];
    assert_eq!(run("skybyte-full", Fidelity::PAPER, &large), 1_200);
    let nodes = ["numa.nodes=2", "host_dram.channels=2"];
    assert_eq!(run("skybyte-full", Fidelity::PAPER, &nodes), 1_200);
}
