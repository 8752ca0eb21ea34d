//! Schedulers apart from the reorder buffer, and what was fetched ahead of it.

use super::testing::*;
use super::*;
use crate::port::{Access, Squash};
use trace::{Inst, OpClass};

type Piece = (Inst, Option<Access>, Option<Access>);

/// A core with translations and L1I warm.
fn ready(config: &CpuConfig) -> Core {
    let mut core = warmed(config, &mut Script::repeat(&[add(1, &[])], 1));
    (0..16).for_each(|page| core.caches.tlb.insert(page));
    core
}

/// When `pieces` end in a memory of 1000 cycles, and the lines read before the first answer.
fn ends(config: &CpuConfig, pieces: &[Piece]) -> (u64, usize) {
    let (mut source, mut memory) = (Script::straight(pieces), Memory::new(1000));
    let mut core = ready(config);
    core.start(Time::ZERO);
    let first = core.run(Time::ZERO, Time::MAX, &mut source, &mut memory);
    assert_eq!(first, Pause::Waiting);
    let under_way = memory.fills.len();
    let (mut source, mut memory) = (Script::straight(pieces), Memory::new(1000));
    let mut core = ready(config);
    let end = cycles(&mut core, &mut source, &mut memory);
    assert_eq!(core.audit(), Vec::<String>::new());
    (end, under_way)
}

fn schedulers(alu: (u32, u32), memory: (u32, u32)) -> CpuConfig {
    CpuConfig {
        alu_scheduler: alu.0,
        alu_queue: alu.1,
        memory_scheduler: memory.0,
        memory_queue: memory.1,
        ..config()
    }
}

/// A load that misses is there at 1 + 4 + 10 + 1000 = 1015. Two additions wait for it in both
/// entries, two that need nothing stand behind them, and for the fifth there is no room: the second
/// load is not dispatched before the first has its line. The entries are free from 1016 on, where
/// the two of the queue issue; so the fifth is dispatched at 1016 and the load with it, which
/// issues at 1017 and has its line at 1017 + 1014.
#[test]
fn operations_that_wait_fill_scheduler_and_queue_and_then_dispatch_stops() {
    let mut pieces: Vec<Piece> = vec![(load(1, 9), at(0), None)];
    pieces.extend([add(2, &[1]), add(3, &[1])].map(|inst| (inst, None, None)));
    pieces.extend([4, 5, 6].map(|to| (add(to, &[]), None, None)));
    pieces.push((load(7, 9), at(4096), None));
    // Without limits the load retires at 1015, four additions at 1016, the other two at 1017.
    assert_eq!(ends(&config(), &pieces), (1017, 2));
    assert_eq!(ends(&schedulers((2, 2), (0, 1)), &pieces), (1017 + 1014, 1));
    assert_eq!(ends(&schedulers((2, 3), (0, 1)), &pieces).1, 2, "all stand");
}

/// One entry. An addition waits in it for a load (1015) and issues then; the one behind it needs
/// nothing, but issues when the entry is free, at 1016, and is done at 1017.
#[test]
fn an_operation_stands_behind_an_older_one_although_its_operands_are_there() {
    let pieces = [
        (load(1, 9), at(0), None),
        (add(2, &[1]), None, None),
        (add(3, &[]), None, None),
    ];
    assert_eq!(ends(&schedulers((0, 1), (0, 1)), &pieces).0, 1016);
    assert_eq!(ends(&schedulers((1, 8), (0, 1)), &pieces).0, 1017);
}

/// One entry for memory. The second load needs the first one's data, 1015, and keeps the third,
/// which needs nothing, from issuing: it issues at 1016 and its line comes at 1016 + 1014, not with
/// the first.
#[test]
fn a_load_that_waits_for_its_address_holds_up_those_behind_it() {
    let pieces = [
        (load(1, 9), at(0), None),
        (load(2, 1), at(4096), None),
        (load(3, 9), at(8192), None),
    ];
    assert_eq!(ends(&config(), &pieces), (1015 + 1014, 2));
    assert_eq!(ends(&schedulers((0, 1), (1, 8)), &pieces), (1016 + 1014, 1));
}

/// A window of 8: the load and seven additions. A ninth piece, a load, was fetched: it is read when
/// the eight run on. The thread goes on behind what was fetched, and repeats eight.
#[test]
fn what_was_fetched_runs_on_with_the_window_and_is_executed_again() {
    for (fetch_ahead, reads, behind) in [(0, 1, 8), (1, 2, 9), (256, 3, 10)] {
        let config = CpuConfig {
            rob: 8,
            fetch_ahead,
            ..config()
        };
        let mut pieces: Vec<Piece> = vec![(load(1, 9), at(0), None)];
        pieces.extend((0..7).map(|_| (add(2, &[1]), None, None)));
        pieces.push((load(3, 9), at(4096), None));
        pieces.push((load(4, 9), at(8192), None));
        let (mut source, mut memory) = (Script::straight(&pieces), Memory::new(1000));
        let mut core = ready(&config);
        core.start(Time::ZERO);
        core.run(Time::ZERO, Time::MAX, &mut source, &mut memory);
        let (_, slot) = memory.fills.pop_first().expect("a line is under way");
        let now = Time::from_picos(200);
        assert!(core.on_delivery(now, slot, true, &mut memory));
        let squashed = core.except(now, Squash::RunsOn, &mut source, &mut memory);
        assert_eq!((squashed.instructions, source.position()), (8, behind));
        assert_eq!(memory.reads.len(), reads, "{fetch_ahead} fetched ahead");
        assert_eq!(core.is_empty(), fetch_ahead == 0);
        while let Some(((at, _), slot)) = memory.fills.pop_first() {
            core.on_fill(Time::from_picos(at), slot, &mut source, &mut memory);
        }
        assert!(core.is_empty());
        assert_eq!(core.stats().instructions, behind);
        let now = Time::from_picos(5000);
        core.replay(8, &mut source);
        assert_eq!(source.position(), behind - 8);
        core.start(now);
        let pause = run_until_pause(&mut core, now, &mut source, &mut memory);
        assert!(matches!(pause, Pause::End { .. }), "{pause:?}");
        assert_eq!(core.stats().executed(), 10);
    }
}

/// A load that misses, a branch that needs it and is predicted wrong, and three more loads. Code
/// that is fetched in groups of four brings the first two of them along.
#[test]
fn a_group_with_a_wrong_prediction_is_fetched_to_its_end() {
    use crate::config::CodeFetch;
    let branch = Inst::new(OpClass::CondBranch, 0, 2).reading(&[reg(1)]);
    let loads = [0, 4096, 8192, 12288].map(|byte| (load(1, 9), at(byte), None));
    let mut pieces: Vec<Piece> = loads.to_vec();
    pieces.insert(1, (branch, None, None));
    let under_way = |code_fetch| {
        let config = CpuConfig {
            code_fetch,
            ..config()
        };
        let (mut source, mut memory) = (Script::straight(&pieces), Memory::new(1000));
        source.steps[1].taken = true;
        let mut core = ready(&config);
        core.start(Time::ZERO);
        core.run(Time::ZERO, Time::MAX, &mut source, &mut memory);
        let under_way = memory.fills.len();
        run_until_pause(&mut core, Time::ZERO, &mut source, &mut memory);
        assert_eq!(core.stats().mispredicts, 1);
        under_way
    };
    assert_eq!(under_way(CodeFetch::EachLine), 1);
    assert_eq!(under_way(CodeFetch::InGroups), 3);
}
