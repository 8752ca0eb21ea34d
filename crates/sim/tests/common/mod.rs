//! Synthetic captures and runs for the tests of the simulator.

use sim::run::{Prepared, RunSpec};
use trace::{Reg, StaticInst, TraceFile, TraceWriter};
use units::ThreadId;

/// Start of the data of a synthetic program.
pub const DATA: u64 = 0x1000_0000;
pub const LINE: u64 = 64;
pub const PAGE: u64 = 4096;

/// A design on a machine as they are shipped, audited.
pub fn spec(machine: &str, design: &str) -> RunSpec {
    RunSpec {
        trace: "synthetic.etr".to_string(),
        machine: machine.to_string(),
        design: design.to_string(),
        nand: None,
        fidelity: Default::default(),
        files: Vec::new(),
        overrides: Vec::new(),
        threads: None,
        is_audited: true,
        mode: sim::run::Mode::Detailed,
    }
}

/// A run of `trace` with some settings, audited.
pub fn prepare(trace: &TraceFile, machine: &str, design: &str, overrides: &[&str]) -> Prepared {
    let spec = RunSpec {
        overrides: overrides.iter().map(ToString::to_string).collect(),
        ..spec(machine, design)
    };
    Prepared::with_trace(spec, trace.clone()).expect("the test's settings are valid")
}

/// Runs to the end and gives the JSON of the result.
pub fn run(
    trace: &TraceFile,
    machine: &str,
    design: &str,
    overrides: &[&str],
) -> serde_json::Value {
    let prepared = prepare(trace, machine, design, overrides);
    prepared
        .execute(&mut |_| true)
        .expect("the run ends")
        .json()
        .clone()
}

/// A program in the making, with the instructions that tests need.
pub struct Program {
    pub writer: TraceWriter,
    pub alu: StaticInst,
    pub load: StaticInst,
    pub chase: StaticInst,
    pub store: StaticInst,
}

impl Program {
    pub fn new() -> Self {
        let mut writer = TraceWriter::new();
        let r = Reg::general;
        Self {
            alu: writer.alu(r(2), &[]),
            load: writer.load(r(3), r(4)),
            // Its address depends on the load before it.
            chase: writer.load(r(5), r(5)),
            store: writer.store(r(6), r(4)),
            writer,
        }
    }
    pub fn thread(&mut self) -> ThreadId {
        self.writer.thread()
    }
    pub fn alu(&mut self, thread: ThreadId, count: u64) {
        for _ in 0..count {
            self.writer.execute(thread, self.alu, None, None);
        }
    }
    pub fn load(&mut self, thread: ThreadId, address: u64) {
        self.writer
            .execute(thread, self.load, Some((DATA + address, 8)), None);
    }
    pub fn chase(&mut self, thread: ThreadId, address: u64) {
        self.writer
            .execute(thread, self.chase, Some((DATA + address, 8)), None);
    }
    pub fn store(&mut self, thread: ThreadId, address: u64) {
        self.writer
            .execute(thread, self.store, None, Some((DATA + address, 8)));
    }
    pub fn finish(self) -> TraceFile {
        self.writer.finish()
    }
}

/// A mixed program of `threads` threads over `pages` pages: random loads, dependent loads, stores
/// and arithmetic.
pub fn mixed(threads: u32, pages: u64, steps: u64, seed: u64) -> TraceFile {
    let mut program = Program::new();
    let ids: Vec<ThreadId> = (0..threads).map(|_| program.thread()).collect();
    for id in ids {
        let mut stream = units::Stream::new(seed, &format!("mixed/{}", id.get()));
        for _ in 0..steps {
            // Half of the accesses go to a sixteenth of the pages.
            let range = if stream.below(2) == 0 {
                pages / 16 + 1
            } else {
                pages
            };
            let address = stream.below(range) * PAGE + stream.below(64) * LINE;
            match stream.below(8) {
                0..=2 => program.load(id, address),
                3 => program.chase(id, address),
                4 => program.store(id, address),
                _ => program.alu(id, 3),
            }
        }
    }
    program.finish()
}

/// A statistic of a result, by its path.
pub fn stat(result: &serde_json::Value, path: &str) -> u64 {
    let pointer = format!("/statistics/{path}");
    result
        .pointer(&pointer)
        .and_then(serde_json::Value::as_u64)
        .unwrap_or_else(|| panic!("{pointer} is a number in the result"))
}

pub fn time(result: &serde_json::Value) -> u64 {
    result["execution_time_ps"]
        .as_u64()
        .expect("a run has an execution time")
}
