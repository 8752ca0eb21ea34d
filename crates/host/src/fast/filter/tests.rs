//! What functional warm-up leaves out of a stream, and what keeps a record from retiring.

use super::{RUN_UP, filter};
use crate::config::CpuConfig;
use crate::core::testing::{Memory, Script, add, at, config, cycles, load, step, store};
use crate::core::{Core, CoreStats};
use crate::fast::stream::{Kind, Record};
use crate::fast::{FastCore, FilteredThread};
use crate::miss_path::MissPath;
use crate::port::{Pause, Step};
use crate::program::Program;
use std::sync::Arc;
use trace::Inst;
use units::{CoreId, Stream, Time};

const STEPS: u64 = 60_000;

/// A thread that wanders about 256 KiB with loads that depend on each other, stores and syncs.
fn wander() -> Script {
    let insts = [load(1, 1), add(2, &[1, 2]), store(2, 3), load(3, 3)];
    let mut stream = Stream::new(7, "wander");
    let steps = (0..STEPS).map(|number| {
        let inst = (number % 4) as u32;
        // A short walk through each place, so that lines are on their way, at hand, and gone.
        let byte = stream.below(4096) * 64 + number % 64 / 8 * 8;
        let byte = if stream.below(4) == 0 {
            byte
        } else {
            byte % 8192
        };
        let mut step = step(
            inst,
            at(byte).filter(|_| inst == 0 || inst == 3),
            at(byte).filter(|_| inst == 2),
        );
        step.has_sync = inst == 1 && stream.below(500) == 0;
        step
    });
    Script::new(&insts, steps.collect())
}

fn records(warmup: u64) -> Vec<Record> {
    filter(&mut wander(), &config(), warmup).records
}

/// What does not depend on which loads wait for what: what L1 does not have, and syncs.
fn seen(records: &[Record]) -> Vec<(Kind, u32)> {
    use Kind::{Fetch, Load, Store, Sync, WriteBack};
    let is_seen = |record: &&Record| matches!(record.kind, Load | Store | Fetch | WriteBack | Sync);
    let seen = records.iter().filter(is_seen);
    seen.map(|record| (record.kind, record.line)).collect()
}

fn instructions(records: &[Record]) -> u64 {
    records
        .iter()
        .map(|record| u64::from(record.instructions))
        .sum()
}

#[test]
fn what_only_warms_up_is_filtered_without_time_to_the_same_lines() {
    let (timed, functional) = (records(0), records(STEPS));
    assert_eq!(seen(&functional), seen(&timed));
    for kind in [
        Kind::Load,
        Kind::Store,
        Kind::Touch,
        Kind::Renewal,
        Kind::WriteBack,
        Kind::Sync,
    ] {
        assert!(
            functional.iter().any(|record| record.kind == kind),
            "{kind:?}"
        );
    }
    assert_eq!(
        [&timed, &functional].map(|records| instructions(records)),
        [STEPS; 2]
    );
    let end = functional.len() - RUN_UP as usize;
    assert!(
        functional[..end]
            .iter()
            .all(|record| record.gap == 0 && record.depends[0].back == 0)
    );
    assert!(timed.len() > functional.len());
}

#[test]
fn time_after_warm_up_is_as_if_all_had_been_timed() {
    let (timed, partly) = (records(0), records(STEPS / 2));
    // From where warm-up ends to the end of the thread.
    let mut rest = partly.len();
    let mut left = STEPS - STEPS / 2;
    while left > 0 {
        rest -= 1;
        left = left.saturating_sub(partly[rest].instructions.into());
    }
    let rest = &partly[rest + 1..];
    assert_eq!(rest, &timed[timed.len() - rest.len()..]);
    assert!(rest.iter().any(|record| record.depends[0].back > 0));
}

/// Every 120 pieces a line that no cache has, and 30 additions in a row that need it; nothing that
/// leaves L1 waits for them.
fn rows() -> (Vec<Inst>, Vec<Step>) {
    let mut insts = vec![load(1, 2)];
    insts.extend((0..30).map(|_| add(1, &[1])));
    insts.extend((0..89).map(|_| add(3, &[])));
    let steps = (0..500).flat_map(|row| {
        (0..120).map(move |inst| step(inst, at(row * 4096).filter(|_| inst == 0), None))
    });
    let steps = steps.collect();
    (insts, steps)
}

/// A core with more ports than it needs, for the fast core knows no conflicts.
fn wide() -> CpuConfig {
    CpuConfig {
        alu_ports: 7,
        ..config()
    }
}

/// Cycles of the fast core, every read of which is answered after `latency`, and what it counted.
fn fast(
    config: &CpuConfig,
    latency: u64,
    (insts, steps): (Vec<Inst>, Vec<Step>),
) -> (u64, CoreStats) {
    let stream = filter(&mut Script::new(&insts, steps), config, 0);
    let program = Arc::new(Program::new(&insts, 0));
    let mut thread = FilteredThread::new(Arc::new(stream), program);
    let mut core = FastCore::new(CoreId::new(0), config);
    let (mut memory, mut now) = (Memory::new(latency), Time::ZERO);
    core.start(now, &mut thread);
    loop {
        if let Pause::End { at } = core.run(now, Time::MAX, &mut thread, &mut memory) {
            return (at.as_picos(), core.stats());
        }
        let mut goes_on = false;
        while !goes_on {
            let ((at, _), slot) = memory.fills.pop_first().expect("a fill is coming");
            now = Time::from_picos(at);
            goes_on = core.line_arrived(now, slot, &mut memory);
        }
    }
}

#[test]
fn what_waits_for_a_line_keeps_younger_instructions_from_retiring() {
    let (insts, steps) = rows();
    for latency in [20, 50, 400] {
        let mut core = Core::new(CoreId::new(0), &wide());
        let mut source = Script::new(&insts, steps.clone());
        let detailed = cycles(&mut core, &mut source, &mut Memory::new(latency));
        let (fast, _) = fast(&wide(), latency, rows());
        assert!(
            fast.abs_diff(detailed) * 500 < detailed,
            "{latency}: {fast} cycles in place of {detailed}"
        );
    }
}

#[test]
fn an_access_that_finds_no_mshr_is_counted_once() {
    let few = CpuConfig {
        l2_mshrs: 1,
        ..wide()
    };
    let (_, counted) = fast(&few, 400, rows());
    assert!(counted.mshr_waits > 0, "{counted:?}");
    assert_eq!(counted.l1d_misses, 500);
}

#[test]
fn a_load_waits_for_an_mshr_once_however_often_it_tries() {
    // Every 8 pieces a line that no cache has: tens of them at a time want one of two MSHRs.
    let mut insts = vec![load(1, 2)];
    insts.extend((0..7).map(|_| add(3, &[])));
    let steps = (0..500).flat_map(|row| {
        (0..8).map(move |inst| step(inst, at(row * 64).filter(|_| inst == 0), None))
    });
    let steps: Vec<Step> = steps.collect();
    for (l1d_mshrs, l2_mshrs) in [(2, 8), (8, 2)] {
        let few = CpuConfig {
            l1d_mshrs,
            l2_mshrs,
            ..wide()
        };
        let mut core = Core::new(CoreId::new(0), &few);
        let mut source = Script::new(&insts, steps.clone());
        cycles(&mut core, &mut source, &mut Memory::new(400));
        let detailed = core.stats().mshr_waits;
        let (_, counted) = fast(&few, 400, (insts.clone(), steps.clone()));
        let fast = counted.mshr_waits;
        assert!(detailed > 400, "{detailed} of 500 loads wait");
        assert!(fast.abs_diff(detailed) < 10, "{fast} for {detailed}");
    }
}
