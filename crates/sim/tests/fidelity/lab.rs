//! A machine on which everything but a switch takes round times, and runs on it in pairs.

use crate::common::{Program, spec, time};
use cxl::MessageClass;
use firmware::Controller;
use host::thread::TracedThread;
use serde_json::Value;
use sim::config::Fidelity;
use sim::config::fidelity::{self, Switch};
use sim::result::RunResult;
use sim::run::{Prepared, RunSpec};
use sim::simulation::Simulation;
use std::cell::Cell;
use trace::TraceFile;
use units::{Picos, ThreadId};

/// The machine demo with one core whose caches hold a line each, so that every access reaches
/// memory, and with a device and a link of constant times. All are whole cycles of 0.25 ns. A
/// load takes:
///
/// - in the core 4 + 10 + 40 cycles, 13.5 ns;
/// - if its page is in the device's cache 135 ns more: 40 ns link, 49 ns lookup, 46 ns DRAM;
/// - if the page is on flash, 3 us more (tR; channels take no time).
///
/// What a switch sets is left to it.
const BARE: &[&str] = &[
    "run.warmup=0%",
    "cpu.cores=1",
    "cpu.l1d=64B",
    "cpu.l1d_ways=1",
    "cpu.l2=64B",
    "cpu.l2_ways=1",
    "cpu.l3=64B",
    "cpu.l3_ways=1",
    "cpu.tlb=false",
    "link.bandwidth=unlimited",
    "ssd.prefetch.pages=0",
    "ssd.dram_access=constant",
    "ssd.read_rate=unlimited",
    "ssd.write_rate=unlimited",
    "ftl.overwritten=0%",
    "nand.channel_bandwidth=unlimited",
];

/// A cycle of the core.
pub const CYCLE: Picos = Picos::new(250);
/// A load that hits the device's data cache.
pub const HIT: Picos = Picos::new(148_500);
/// A load whose page is on flash.
pub const MISS: Picos = Picos::new(3_148_500);

/// A data cache of one page.
pub const ONE_FRAME: &[&str] = &["ssd.dram=4KiB", "ssd.log.size=0B", "ssd.cache.ways=1"];
/// All flash is one die.
pub const ONE_DIE: &[&str] = &[
    "nand.channels=1",
    "nand.chips_per_channel=1",
    "nand.dies_per_chip=1",
];
/// Stores have their lines before anything younger goes for its own.
pub const ORDERED: &[&str] = &["cpu.stores=waited", "cpu.memory_issue=in_order"];
/// Nothing leaves the caches.
pub const BIG_CACHES: &[&str] = &[
    "cpu.l1d=32KiB",
    "cpu.l1d_ways=8",
    "cpu.l2=64KiB",
    "cpu.l2_ways=8",
    "cpu.l3=256KiB",
    "cpu.l3_ways=16",
];

/// The scenario of one switch.
pub struct Lab {
    switch: Switch,
    nand: Option<&'static str>,
    /// Whether the switch has changed any result.
    has_differed: Cell<bool>,
}

/// A finished run.
pub struct Outcome {
    result: Value,
    /// What is left of it, for what the result does not say.
    pub simulation: Simulation<TracedThread>,
}

impl Lab {
    /// The switch of that name.
    pub fn of(name: &str) -> Self {
        let switch = fidelity::find(name).expect("a scenario is named like its switch");
        let nand = switch
            .header()
            .nand_types
            .first()
            .map(|name| &*name.clone().leak());
        Self {
            switch,
            nand,
            has_differed: Cell::new(false),
        }
    }

    /// Runs the scenario, which must be one of this switch.
    pub fn check(self, scenario: fn(&Self)) {
        scenario(&self);
        assert!(
            self.has_differed.get(),
            "{} changed nothing in its scenario",
            self.switch.name
        );
    }

    /// The capture on the bare machine with more settings: as the paper says, and with the
    /// switch.
    pub fn both(&self, trace: &TraceFile, design: &str, more: &[&str]) -> [Outcome; 2] {
        let is_mine = |setting: &str| {
            let key = setting.split('=').next().expect("section.key=value");
            self.switch
                .assignments()
                .iter()
                .any(|(mine, _)| mine == key)
        };
        for setting in more {
            assert!(!is_mine(setting), "{setting} would hide the switch");
        }
        let bare = BARE.iter().filter(|setting| !is_mine(setting));
        let settings: Vec<&str> = bare.chain(more).copied().collect();
        let paper = self.run(trace, design, &settings, Fidelity::PAPER);
        let on = self.switch.name.parse().expect("a name is a list of one");
        let on = self.run(trace, design, &settings, on);
        let differs = paper.result["execution_time_ps"] != on.result["execution_time_ps"]
            || paper.result["statistics"] != on.result["statistics"];
        self.has_differed.set(self.has_differed.get() || differs);
        [paper, on]
    }

    fn run(&self, trace: &TraceFile, design: &str, settings: &[&str], on: Fidelity) -> Outcome {
        let spec = RunSpec {
            fidelity: on,
            nand: self.nand.map(String::from),
            overrides: settings.iter().map(ToString::to_string).collect(),
            ..spec("demo", design)
        };
        let prepared = Prepared::with_trace(spec, trace.clone()).expect("the settings are valid");
        let mut simulation = prepared.start();
        let share = prepared.config().run.warmup;
        let counts: Vec<u64> = trace
            .threads()
            .iter()
            .map(|thread| share.of(thread.instructions))
            .collect();
        let warmed = simulation
            .warm_up(&counts, &mut |_| true)
            .expect("nobody interrupts");
        let end = simulation.run(&mut |_| true).expect("the run ends");
        simulation.audit(end);
        let result = RunResult::new(&prepared, &simulation, warmed, end);
        Outcome {
            result: result.json().clone(),
            simulation,
        }
    }
}

impl Outcome {
    /// How long it took.
    pub fn time(&self) -> Picos {
        Picos::new(time(&self.result))
    }
    /// A statistic, by its path.
    pub fn stat(&self, path: &str) -> u64 {
        crate::common::stat(&self.result, path)
    }
    /// Messages of a class that crossed the link.
    pub fn messages(&self, class: MessageClass) -> u64 {
        self.simulation.fabric.link.stats().of(class)
    }
    /// The device's controller.
    pub fn controller(&self) -> &Controller {
        let device = self.simulation.fabric.device.as_ref();
        &device.expect("the design has a device").controller
    }
}

/// A statistic of both runs: as the paper says, and with the switch.
pub fn counts(both: &[Outcome; 2], path: &str) -> (u64, u64) {
    (both[0].stat(path), both[1].stat(path))
}

/// By how much the paper's run is longer.
#[track_caller]
pub fn saved(both: &[Outcome; 2]) -> Picos {
    both[0].time() - both[1].time()
}

/// By how much the switch's run is longer.
#[track_caller]
pub fn added(both: &[Outcome; 2]) -> Picos {
    both[1].time() - both[0].time()
}

pub fn nanos(count: u64) -> Picos {
    Picos::from_nanos(count)
}

/// A capture of one thread.
pub fn one_thread(write: impl FnOnce(&mut Program, ThreadId)) -> TraceFile {
    let mut program = Program::new();
    let thread = program.thread();
    write(&mut program, thread);
    program.finish()
}
