//! The artifact's ways with delayed accesses: the line comes, older instructions complete, squashed
//! ones run on, stores wait.

use super::testing::*;
use super::*;
use crate::config::StorePolicy;
use crate::port::{Squash, Step};
use trace::{Inst, OpClass};

type Piece = (
    Inst,
    Option<crate::port::Access>,
    Option<crate::port::Access>,
);

/// A core with translations and L1I warm.
fn ready(config: &CpuConfig) -> Core {
    let mut core = warmed(config, &mut Script::repeat(&[add(1, &[])], 1));
    (0..16).for_each(|page| core.caches.tlb.insert(page));
    core
}

/// A core whose loads are under way, in a memory of 1000 cycles.
fn started(config: &CpuConfig, pieces: &[Piece]) -> (Core, Script, Memory) {
    let (mut source, mut memory) = (Script::straight(pieces), Memory::new(1000));
    let mut core = ready(config);
    core.start(Time::ZERO);
    let pause = core.run(Time::ZERO, Time::MAX, &mut source, &mut memory);
    assert_eq!(pause, Pause::Waiting);
    (core, source, memory)
}

fn pop(memory: &mut Memory) -> (Time, MissSlot) {
    let ((at, _), slot) = memory.fills.pop_first().expect("a fill is coming");
    (Time::from_picos(at), slot)
}

/// Two loads of different lines with an addition each.
fn two_loads() -> Vec<Piece> {
    vec![
        (load(1, 2), at(0), None),
        (add(5, &[1]), None, None),
        (load(3, 2), at(4096), None),
        (add(4, &[3]), None, None),
    ]
}

#[test]
fn an_exception_at_the_answer_lets_the_older_instructions_complete() {
    let (mut core, mut source, mut memory) = started(&config(), &two_loads());
    let ((filled, first), (_, second)) = (pop(&mut memory), pop(&mut memory));
    let now = Time::from_picos(200);
    assert!(core.on_delay(now, second, &mut memory).load_waits);
    let squashed = core.except(now, Squash::AtOnce, &mut source, &mut memory);
    // The second load and its addition; the MSHR was free when the device had declined.
    assert_eq!((squashed.instructions, squashed.cancelled), (2, 0));
    assert_eq!(source.position(), 2);
    assert!(!core.is_empty());
    assert!(!core.on_fill(filled, first, &mut source, &mut memory));
    assert!(core.is_empty());
    assert_eq!(core.stats().instructions, 2);
    assert_eq!(core.audit(), Vec::<String>::new());
    core.start(filled);
    let pause = run_until_pause(&mut core, filled, &mut source, &mut memory);
    assert!(matches!(pause, Pause::End { .. }), "{pause:?}");
    assert_eq!(core.stats().instructions, 4);
}

#[test]
fn a_delivered_line_is_data_for_all_but_the_access_that_asked() {
    let mut pieces = two_loads();
    // Another load of the second line: it has merged with the one before.
    pieces.push((load(6, 2), at(4096 + 8), None));
    let (mut core, mut source, mut memory) = started(&config(), &pieces);
    let ((filled, first), (_, second)) = (pop(&mut memory), pop(&mut memory));
    let now = Time::from_picos(200);
    assert!(core.on_delivery(now, second, true, &mut memory));
    let squashed = core.except(now, Squash::AtOnce, &mut source, &mut memory);
    assert_eq!(squashed.instructions, 3);
    core.on_fill(filled, first, &mut source, &mut memory);
    core.start(filled);
    let pause = run_until_pause(&mut core, filled, &mut source, &mut memory);
    // Dispatched and issued, a hit of 4 cycles, the addition: the line was filled at 200. The
    // thread's retirement begins a cycle after the fill that the older ones waited for.
    let expected = filled + units::Picos::new(1 + 4 + 1);
    assert_eq!(pause, Pause::End { at: expected });
    assert_eq!(memory.reads.len(), 2, "each line is read once");
}

#[test]
fn squashed_work_that_runs_on_retires_and_counts_once_when_it_is_repeated() {
    let mut pieces = two_loads();
    pieces.push((load(6, 2), at(8192), None));
    let (mut core, mut source, mut memory) = started(&config(), &pieces);
    let (_, first) = pop(&mut memory);
    let now = Time::from_picos(200);
    assert!(core.on_delivery(now, first, true, &mut memory));
    let squashed = core.except(now, Squash::RunsOn, &mut source, &mut memory);
    assert_eq!((squashed.instructions, squashed.cancelled), (5, 0));
    assert_eq!(source.position(), 5);
    for _ in 0..2 {
        let (filled, slot) = pop(&mut memory);
        core.on_fill(filled, slot, &mut source, &mut memory);
    }
    assert!(core.is_empty());
    assert_eq!((core.stats().instructions, core.stats().loads), (5, 3));
    let now = Time::from_picos(2_000);
    core.replay(squashed.instructions, &mut source);
    assert_eq!((core.stats().executed(), source.position()), (0, 0));
    core.start(now);
    let pause = run_until_pause(&mut core, now, &mut source, &mut memory);
    // Every line is in L1D: dispatched at 0, issued, 4 cycles, an addition.
    let expected = now + units::Picos::new(1 + 4 + 1);
    assert_eq!(pause, Pause::End { at: expected });
    assert_eq!((core.stats().executed(), core.stats().loads), (5, 6));
}

/// Of two loads of one line the first asked. The other one is behind it, and so is all the rest.
#[test]
fn what_is_behind_an_access_is_counted_from_the_first_that_waits_for_its_line() {
    let mut pieces = two_loads();
    pieces.insert(3, (load(6, 2), at(4100), None));
    let (core, _, mut memory) = started(&config(), &pieces);
    let ((_, first), (_, second)) = (pop(&mut memory), pop(&mut memory));
    assert_eq!(core.count_from_first_waiter(first), 5);
    assert_eq!(core.count_from_first_waiter(second), 3);
    assert_eq!(core.count_from_first_waiter(MissSlot::new(7, 0)), 0);
}

/// The thread goes back no further than behind its last system call.
#[test]
fn an_event_of_threads_is_not_repeated() {
    let pieces: Vec<Piece> = (1..6).map(|to| (add(to, &[]), None, None)).collect();
    let mut source = Script::straight(&pieces);
    source.steps[2].has_sync = true;
    (0..5).for_each(|_| source.advance());
    let mut core = ready(&config());
    core.replay(4, &mut source);
    assert_eq!(source.position(), 3);
}

#[test]
fn misses_that_run_on_fill_the_caches_for_nobody() {
    let (mut core, mut source, mut memory) = started(&config(), &two_loads());
    let ((_, first), (filled, second)) = (pop(&mut memory), pop(&mut memory));
    let now = Time::from_picos(200);
    core.on_delay(now, first, &mut memory);
    let squashed = core.except(now, Squash::MissesRunOn, &mut source, &mut memory);
    assert_eq!((squashed.instructions, squashed.cancelled), (4, 0));
    assert!(core.is_empty() && memory.cancelled.is_empty());
    core.on_fill(filled, second, &mut source, &mut memory);
    assert_eq!(core.audit(), Vec::<String>::new());
    core.start(filled);
    let pause = core.run(filled, Time::MAX, &mut source, &mut memory);
    assert_eq!(pause, Pause::Waiting);
    assert_eq!(memory.reads.len(), 3, "only the first line is read again");
}

#[test]
fn a_store_that_waits_holds_up_retirement_until_its_line_is_there() {
    let pieces = [(store(1, 2), None, at(0)), (add(5, &[]), None, None)];
    let end = |stores| {
        let config = CpuConfig { stores, ..config() };
        let (mut source, mut memory) = (Script::straight(&pieces), Memory::new(1000));
        cycles(&mut ready(&config), &mut source, &mut memory)
    };
    // Dispatched at 0, address and data at 1, stored at 2.
    assert_eq!(end(StorePolicy::Posted), 2);
    // From 2 on L1D and L2 are asked (4 + 10 cycles), then memory.
    assert_eq!(end(StorePolicy::Waited), 2 + 14 + 1000);
}

#[test]
fn a_store_that_waits_can_be_delayed_and_is_dirty_when_it_has_its_line() {
    let config = CpuConfig {
        stores: StorePolicy::Waited,
        ..config()
    };
    let pieces = [(store(1, 2), None, at(0)), (add(5, &[]), None, None)];
    let (mut core, mut source, mut memory) = started(&config, &pieces);
    let (_, slot) = pop(&mut memory);
    let now = Time::from_picos(200);
    assert!(core.on_delivery(now, slot, true, &mut memory));
    assert!(core.is_delayed());
    core.except(now, Squash::AtOnce, &mut source, &mut memory);
    core.start(now);
    let pause = run_until_pause(&mut core, now, &mut source, &mut memory);
    assert!(matches!(pause, Pause::End { .. }), "{pause:?}");
    assert_eq!(memory.reads.len(), 1, "its line was there");
    assert_eq!(core.caches.l1d.occupancy(), (1, 1));
}

/// A store that moves its pointer, and one through that pointer: it asks memory a cycle after the
/// first and its addition, not when the first has its line.
#[test]
fn what_a_store_computes_is_there_before_its_line() {
    let push = store(1, 2).writing(&[reg(2)]);
    let pieces = [(push, None, at(0)), (push, None, at(4096))];
    let config = CpuConfig {
        stores: StorePolicy::Waited,
        ..config()
    };
    let (mut source, mut memory) = (Script::straight(&pieces), Memory::new(1000));
    cycles(&mut ready(&config), &mut source, &mut memory);
    let asked: Vec<u64> = memory.reads.iter().map(|read| read.0).collect();
    assert_eq!(asked[1] - asked[0], 1, "{asked:?}");
}

/// `mul r1` is done in cycle 4; `add r1, [r2]` needs r1 for its sum, and r2 for its load.
#[test]
fn a_load_waits_for_its_address_or_for_all_that_is_read() {
    use crate::config::LoadOperands;
    let multiply = Inst::new(OpClass::IntMul, 0, 4).writing(&[reg(1)]);
    let sum = add(1, &[1]).addressing(&[reg(2)]).with_memory(true, false);
    let insts = [multiply, sum];
    let steps = vec![step(0, None, None), step(1, at(0), None)];
    let issue = |load_operands, rest: &[Step]| {
        let config = CpuConfig {
            load_operands,
            ..config()
        };
        let steps = [&steps, rest].concat();
        let mut source = Script::new(&insts, steps).for_cores(&insts, &config);
        let mut memory = Memory::new(1000);
        cycles(&mut ready(&config), &mut source, &mut memory);
        memory.reads.last().expect("the load has missed").0
    };
    assert_eq!(issue(LoadOperands::Address, &[]), 1 + 14);
    assert_eq!(issue(LoadOperands::All, &[]), 4 + 14);
    // A second one finds the first parked: its own sum is known a cycle after the first line.
    let second = [step(1, at(4096), None)];
    assert_eq!(issue(LoadOperands::Address, &second), 1 + 14);
    assert_eq!(issue(LoadOperands::All, &second), 4 + 14 + 1000 + 1 + 14);
}

#[test]
fn in_order_a_load_waits_for_the_store_before_it() {
    use crate::config::MemoryIssue;
    let insts = [store(1, 2), load(3, 4)];
    let steps = vec![step(0, None, at(0)), step(1, at(4096), None)];
    let issue = |memory_issue| {
        let config = CpuConfig {
            stores: StorePolicy::Waited,
            memory_issue,
            ..config()
        };
        let mut source = Script::new(&insts, steps.clone()).for_cores(&insts, &config);
        let mut memory = Memory::new(1000);
        cycles(&mut ready(&config), &mut source, &mut memory);
        memory.reads[1].0
    };
    // The load issues at 1 and asks memory after 4 + 10 cycles.
    assert_eq!(issue(MemoryIssue::OutOfOrder), 1 + 14);
    // The store has its line at 2 + 14 + 1000; the load issues then.
    assert_eq!(issue(MemoryIssue::InOrder), 1016 + 14);
}
