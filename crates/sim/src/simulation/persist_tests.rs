//! After a fence, whatever its thread had written back before is in memory, wherever threads run
//! and lines go: programs of random instructions against their plain lists.

use super::Simulation;
use crate::event::Event;
use crate::run::{Prepared, RunSpec};
use host::thread::TracedThread;
use host::{HostLine, InstructionSource};
use proptest::prelude::*;
use trace::{Inst, OpClass, Reg, TraceWriter};
use units::{CoreId, LineInPage, Lpa, Time};

const DATA: u64 = 0x1000_0000;
const THREADS: usize = 3;
/// Lines of its own that a thread stores to, each in a page of its own.
const LINES: u64 = 4;
const OTHER_PAGES: u64 = 24;

/// Caches and host DRAM that drive out what they are given, slices that end soon, and
/// acknowledgements that come late: threads move to another core before them.
const SETTINGS: &[&str] = &[
    "run.warmup=0%",
    "cpu.cores=2",
    "cpu.l1d=128B",
    "cpu.l1d_ways=2",
    "cpu.l2=256B",
    "cpu.l2_ways=2",
    "cpu.l3=512B",
    "cpu.l3_ways=2",
    "os.time_slice=3us",
    "os.switch_cost=100ns",
    "link.protocol_latency=2us",
    "host.promoted=32KiB",
    "host.reserve=1",
    "astriflash.ways=2",
    "tpp.scan_period=20us",
    "ssd.prefetch.pages=0",
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Instruction {
    Store(u64),
    WriteBack(u64),
    Fence,
    /// A load from another page, which may make the thread switch.
    Load(u64),
    /// 26 cycles without memory.
    Divide,
}

fn instruction() -> impl Strategy<Value = Instruction> {
    prop_oneof![
        4 => (0..LINES).prop_map(Instruction::Store),
        4 => (0..LINES).prop_map(Instruction::WriteBack),
        2 => Just(Instruction::Fence),
        4 => (0..OTHER_PAGES * 64).prop_map(Instruction::Load),
    ]
}

/// The page of a thread's line, the capture's first pages being those of the threads.
fn page(thread: usize, line: u64) -> u64 {
    thread as u64 * LINES + line
}

fn byte(thread: usize, line: u64) -> u64 {
    DATA + page(thread, line) * 4096
}

fn capture(programs: &[Vec<Instruction>]) -> trace::TraceFile {
    let mut writer = TraceWriter::new();
    let r = Reg::general;
    let (load, store) = (writer.load(r(1), r(2)), writer.store(r(3), r(2)));
    let (write_back, fence) = (writer.write_back(r(2)), writer.fence());
    let divide = writer.define(Inst::new(OpClass::IntDiv, 0, 3));
    for (number, program) in programs.iter().enumerate() {
        let thread = writer.thread();
        // So that every program has these pages.
        for line in 0..LINES {
            writer.execute(thread, load, Some((byte(number, line), 8)), None);
        }
        for instruction in program {
            match *instruction {
                Instruction::Store(line) => {
                    writer.execute(thread, store, None, Some((byte(number, line), 8)))
                }
                Instruction::WriteBack(line) => {
                    writer.execute(thread, write_back, Some((byte(number, line), 1)), None)
                }
                Instruction::Fence => writer.execute(thread, fence, None, None),
                Instruction::Divide => writer.execute(thread, divide, None, None),
                Instruction::Load(line) => {
                    writer.execute(thread, load, Some((byte(THREADS, 0) + line * 64, 8)), None)
                }
            };
        }
    }
    writer.finish()
}

/// Lines that a thread has written back before the last fence that it has retired, and has not
/// stored to since, given what it has retired and dispatched; and the fence.
fn safe_lines(
    program: &[Instruction],
    retired: usize,
    dispatched: usize,
) -> Option<(usize, Vec<u64>)> {
    let last =
        |to: usize, wanted: Instruction| program[..to].iter().rposition(|other| *other == wanted);
    let fence = last(retired, Instruction::Fence)?;
    let is_safe = |line: &u64| {
        let written_back = last(fence, Instruction::WriteBack(*line));
        written_back.is_some() && last(dispatched, Instruction::Store(*line)) < written_back
    };
    Some((fence, (0..LINES).filter(is_safe).collect()))
}

/// What keeps a line from being safe, if anything does.
fn newer_than_memory(
    simulation: &Simulation<TracedThread>,
    line: HostLine,
) -> Option<&'static str> {
    let fabric = &simulation.fabric;
    let mut cores = simulation
        .host_cores
        .iter()
        .map(|host_core| host_core.core.clone());
    if cores.any(|mut core| core.give_up_dirt(line)) {
        return Some("dirty in a private cache");
    }
    if fabric.llc.clone().clean(line) {
        return Some("dirty in L3");
    }
    if fabric.comes_to_l3(line).is_some() {
        return Some("on its way to L3");
    }
    fabric.is_on_its_way(line).then_some("on its way to memory")
}

/// A run of these programs, at its start.
fn start(
    programs: &[Vec<Instruction>],
    design: &str,
    settings: &[&str],
) -> Simulation<TracedThread> {
    let settings = SETTINGS.iter().chain(settings);
    let spec = RunSpec {
        mode: crate::run::Mode::Detailed,
        trace: "random.etr".to_string(),
        machine: "demo".to_string(),
        design: design.to_string(),
        nand: None,
        fidelity: Default::default(),
        files: Vec::new(),
        overrides: settings.map(ToString::to_string).collect(),
        threads: None,
        is_audited: true,
    };
    Prepared::with_trace(spec, capture(programs))
        .expect("the settings are valid")
        .start()
}

/// Runs to the end; at each fence that has been passed looks where its lines are. Says how many
/// lines were looked at.
fn check(programs: &[Vec<Instruction>], design: &str, settings: &[&str]) -> u64 {
    let mut simulation = start(programs, design, settings);
    let mut passed = vec![None; programs.len()];
    let mut looked_at = 0;
    simulation.wake_resumed(Time::ZERO);
    simulation.start_scans();
    while !simulation.is_done() {
        simulation.step(&mut |_| true).expect("the run ends");
        for (thread, program) in programs.iter().enumerate() {
            let dispatched = simulation.host_threads[thread].source.position() as usize;
            let mut host_cores = simulation.host_cores.iter();
            let host_core = host_cores.find(|host_core| host_core.thread.index() == thread);
            let in_flight = host_core.map_or(0, |host_core| host_core.core.in_flight()) as usize;
            // The first pieces are not in the list.
            let place = |pieces: usize| pieces.saturating_sub(LINES as usize).min(program.len());
            let (retired, dispatched) = (place(dispatched - in_flight), place(dispatched));
            let Some((fence, lines)) = safe_lines(program, retired, dispatched) else {
                continue;
            };
            if passed[thread].replace(fence) == Some(fence) {
                continue;
            }
            for line in lines {
                let page = Lpa::new(page(thread, line));
                let line_name = HostLine::data(page, LineInPage::new(0));
                let newer = newer_than_memory(&simulation, line_name);
                assert_eq!(
                    newer, None,
                    "{design}, thread {thread}, fence {fence}, line {line}"
                );
                looked_at += 1;
            }
        }
    }
    let end = simulation.drain();
    simulation.audit(end);
    looked_at
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn what_was_written_back_before_a_fence_is_in_memory_after_it(
        programs in prop::collection::vec(prop::collection::vec(instruction(), 20..120), THREADS),
    ) {
        for design in ["skybyte-full", "skybyte-ct", "astriflash-cxl"] {
            for pinned in ["host.pinned=all", "host.pinned=none"] {
                check(&programs, design, &[pinned]);
            }
        }
    }
}

#[test]
fn fences_are_looked_at() {
    let mut program = vec![
        Instruction::Store(0),
        Instruction::WriteBack(0),
        Instruction::Fence,
    ];
    program.extend([
        Instruction::Store(1),
        Instruction::WriteBack(1),
        Instruction::Fence,
    ]);
    let programs = vec![program; THREADS];
    // One line at each first fence, two at each second one.
    assert_eq!(check(&programs, "skybyte-full", &["host.pinned=all"]), 9);
}

/// Slices are shorter than an acknowledgement takes, and one thread more than cores makes all of
/// them move.
#[test]
fn a_thread_that_moves_waits_for_what_it_left_behind() {
    let mut program = Vec::new();
    for step in 0..12 {
        let line = step % LINES;
        program.extend([Instruction::Store(line), Instruction::WriteBack(line)]);
        // 10,400 cycles: several slices.
        program.extend([Instruction::Divide; 400]);
        program.push(Instruction::Fence);
    }
    let programs = vec![program; THREADS];
    let settings = [
        "host.pinned=all",
        "os.time_slice=1us",
        "link.protocol_latency=10us",
    ];
    assert!(check(&programs, "skybyte-full", &settings) > 100);
}

#[test]
fn a_write_back_does_not_overtake_a_line_on_its_way_to_l3() {
    let (core, line) = (
        CoreId::new(0),
        HostLine::data(Lpa::new(0), LineInPage::new(0)),
    );
    let mut simulation = start(&[vec![Instruction::Fence]], "base-cssd", &[]);
    let (now, later) = (Time::ZERO, Time::from_picos(5_000));
    let queue = &mut simulation.fabric.queue;
    queue.push(later, Event::L3WriteBack(line));
    simulation.write_line_back(now, core, line, false);
    let is_persist = |event: &Event| matches!(event, Event::L3Persist { .. });
    assert_eq!(simulation.fabric.queue.last_time(is_persist), Some(later));
    assert_eq!(simulation.fabric.stats.written_back(), 0);
}
