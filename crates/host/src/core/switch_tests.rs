//! Squashes, delayed loads, sync events: what a thread switch sees of the core.

use super::testing::*;
use super::*;
use crate::port::Delayed;
use crate::port::Step;
use proptest::prelude::*;
use trace::{Inst, OpClass};
use units::Picos;

/// A core with translations for 16 pages and L1I warm.
fn ready() -> Core {
    let mut core = warmed(&config(), &mut Script::repeat(&[add(1, &[])], 1));
    (0..16).for_each(|page| core.caches.tlb.insert(page));
    core
}

fn started(source: &mut Script, memory: &mut Memory) -> (Core, Pause) {
    let mut core = ready();
    core.start(Time::ZERO);
    let pause = core.run(Time::ZERO, Time::MAX, source, memory);
    (core, pause)
}

fn pop(memory: &mut Memory) -> (Time, MissSlot) {
    let ((at, _), slot) = memory.fills.pop_first().expect("a fill is coming");
    (Time::from_picos(at), slot)
}

#[test]
fn a_delayed_load_raises_only_when_it_is_the_oldest() {
    let pieces = [
        (load(1, 2), at(0), None),
        (add(5, &[1]), None, None),
        (load(3, 2), at(4096), None),
        (add(4, &[3]), None, None),
    ];
    let (mut source, mut memory) = (Script::straight(&pieces), Memory::new(1000));
    let (mut core, pause) = started(&mut source, &mut memory);
    assert_eq!(pause, Pause::Waiting);
    let (filled, first) = pop(&mut memory);
    let (_, second) = pop(&mut memory);
    let now = Time::from_picos(200);
    let expected = Delayed {
        load_waits: true,
        other_waits: false,
    };
    assert_eq!(core.on_delay(now, second, &mut memory), expected);
    assert_eq!(
        core.run(now, Time::MAX, &mut source, &mut memory),
        Pause::Waiting
    );
    assert!(core.on_fill(filled, first, &mut source, &mut memory));
    let pause = core.run(filled, Time::MAX, &mut source, &mut memory);
    // The addition retires a cycle after the fill.
    assert_eq!(
        pause,
        Pause::LongDelay {
            at: filled + Picos::new(1)
        }
    );
    let squashed = core.squash(core.now, &mut source, &mut memory);
    // Its MSHR was free as soon as the device had declined.
    assert_eq!((squashed.instructions, squashed.cancelled), (2, 0));
    assert_eq!(source.position(), 2);
    assert!(!core.on_fill(filled, second, &mut source, &mut memory));
    assert_eq!(core.stats().late_fills, 1);
    core.start(filled + Picos::new(5000));
    let pause = run_until_pause(
        &mut core,
        filled + Picos::new(5000),
        &mut source,
        &mut memory,
    );
    // Dispatched, issued, fetched again; then the addition.
    assert_eq!(
        pause,
        Pause::End {
            at: filled + Picos::new(5000 + 1 + 14 + 1000 + 1)
        }
    );
    assert_eq!(core.stats().instructions, 4);
}

#[test]
fn a_delayed_load_whose_line_a_store_fetches_just_completes() {
    let pieces = [
        (load(1, 2), at(4096), None),
        (store(1, 3), None, at(0)),
        (load(3, 2), at(16), None),
    ];
    let (mut source, mut memory) = (Script::straight(&pieces), Memory::new(1000));
    let mut core = ready();
    core.start(Time::ZERO);
    // An older store has retired and fetches the line.
    let mut before = Script::straight(&[(store(1, 2), None, at(0))]);
    run_until_pause(&mut core, Time::ZERO, &mut before, &mut memory);
    core.start(Time::ZERO);
    assert_eq!(
        core.run(Time::ZERO, Time::MAX, &mut source, &mut memory),
        Pause::Waiting
    );
    let ((_, first), (later, ownership)) = (pop(&mut memory), pop(&mut memory));
    let delayed = core.on_delay(Time::from_picos(100), ownership, &mut memory);
    assert_eq!(
        delayed,
        Delayed {
            load_waits: true,
            other_waits: true
        }
    );
    core.on_fill(later, ownership, &mut source, &mut memory);
    core.on_fill(later, first, &mut source, &mut memory);
    let pause = core.run(later, Time::MAX, &mut source, &mut memory);
    assert!(matches!(pause, Pause::End { .. }), "{pause:?}");
}

#[test]
fn a_load_that_joins_a_delayed_miss_is_delayed_too() {
    let mut memory = Memory::new(1000);
    let mut core = ready();
    core.start(Time::ZERO);
    let mut before = Script::straight(&[(store(1, 2), None, at(0))]);
    run_until_pause(&mut core, Time::ZERO, &mut before, &mut memory);
    let (_, ownership) = pop(&mut memory);
    let now = Time::from_picos(100);
    let delayed = core.on_delay(now, ownership, &mut memory);
    assert_eq!(
        delayed,
        Delayed {
            load_waits: false,
            other_waits: true
        }
    );
    core.start(now);
    let mut source = Script::straight(&[(load(1, 2), at(16), None)]);
    let pause = core.run(now, Time::MAX, &mut source, &mut memory);
    assert_eq!(pause, Pause::LongDelay { at: now });
}

#[test]
fn delayed_loads_do_not_keep_mshrs_from_the_oldest() {
    // Eight independent loads miss; the oldest instruction is one whose address comes late.
    let divide = Inst::new(OpClass::IntDiv, 0, 4).writing(&[reg(9)]);
    let mut pieces = vec![(divide, None, None), (load(1, 9), at(8 * 4096), None)];
    pieces.extend((0..8).map(|page| (load(1, 2), at(page * 4096), None)));
    let (mut source, mut memory) = (Script::straight(&pieces), Memory::new(1000));
    let (mut core, _) = started(&mut source, &mut memory);
    assert_eq!(memory.fills.len(), 8);
    for _ in 0..7 {
        let (_, slot) = pop(&mut memory);
        core.on_delay(Time::from_picos(100), slot, &mut memory);
    }
    assert_eq!(memory.fills.len(), 2, "the oldest load found an MSHR");
}

#[test]
fn a_retired_store_survives_a_squash_and_asks_to_be_issued_again() {
    let pieces = [
        (store(1, 2), None, at(0)),
        (load(3, 2), at(16), None),
        (load(4, 2), at(4096), None),
    ];
    let (mut source, mut memory) = (Script::straight(&pieces), Memory::new(1000));
    let (mut core, _) = started(&mut source, &mut memory);
    // The second load's read leaves first.
    let ((_, _), (filled, ownership)) = (pop(&mut memory), pop(&mut memory));
    let now = Time::from_picos(50);
    let delayed = core.on_delay(now, ownership, &mut memory);
    assert_eq!(
        delayed,
        Delayed {
            load_waits: true,
            other_waits: true
        }
    );
    let pause = core.run(now, Time::MAX, &mut source, &mut memory);
    assert_eq!(pause, Pause::LongDelay { at: now });
    let squashed = core.squash(core.now, &mut source, &mut memory);
    assert_eq!((squashed.instructions, squashed.cancelled), (2, 1));
    core.on_fill(filled, ownership, &mut source, &mut memory);
    assert_eq!(
        core.caches.l1d.occupancy(),
        (1, 1),
        "the store's line is there and dirty"
    );
    assert!(core.stores.is_empty());
    assert_eq!(core.audit(), Vec::<String>::new());
}

#[test]
fn a_sync_event_waits_for_everything_older_and_is_retired_by_the_caller() {
    let syscall = Inst::new(OpClass::Syscall, 0, 2);
    let pieces = [
        (load(1, 2), at(0), None),
        (syscall, None, None),
        (add(1, &[1]), None, None),
    ];
    let (mut source, mut memory) = (Script::straight(&pieces), Memory::new(1000));
    source.steps[1].has_sync = true;
    let mut core = ready();
    core.start(Time::ZERO);
    let pause = run_until_pause(&mut core, Time::ZERO, &mut source, &mut memory);
    let filled = Time::from_picos(1 + 14 + 1000);
    assert!(
        matches!(pause, Pause::Sync { at, .. } if at == filled),
        "{pause:?}"
    );
    assert_eq!(core.stats().instructions, 1);
    core.complete_sync(filled + Picos::new(500), &mut source);
    assert_eq!(
        core.squash(core.now, &mut source, &mut memory).instructions,
        0
    );
    assert_eq!((source.position(), core.stats().instructions), (2, 2));
    core.start(filled + Picos::new(700));
    let pause = run_until_pause(
        &mut core,
        filled + Picos::new(700),
        &mut source,
        &mut memory,
    );
    assert_eq!(
        pause,
        Pause::End {
            at: filled + Picos::new(702)
        }
    );
}

#[test]
fn a_split_load_needs_both_lines() {
    let access = crate::port::Access::new(60, 8);
    let (mut source, mut memory) = (
        Script::straight(&[(load(1, 2), access, None)]),
        Memory::new(1000),
    );
    let mut core = ready();
    let end = cycles(&mut core, &mut source, &mut memory);
    assert_eq!(memory.reads.len(), 2);
    assert!(end > 2 * 1000, "{end}");
}

fn any_step() -> impl Strategy<Value = (u8, u8, u8, u64, bool)> {
    (0u8..6, 0u8..6, 0u8..6, 0u64..2048, any::<bool>())
}

/// A random program over a footprint that misses often.
fn random_program(choices: &[(u8, u8, u8, u64, bool)]) -> Script {
    let branch = Inst::new(OpClass::CondBranch, 0x40, 2);
    let fence = Inst::new(OpClass::Fence, 0x80, 3);
    let mut insts = Vec::new();
    let mut steps: Vec<Step> = Vec::new();
    for (kind, to, from, word, taken) in choices {
        let access = at(word * 72);
        let (inst, reads, writes) = match kind {
            0 => (load(*to, *from), access, None),
            1 => (store(*to, *from), None, access),
            2 => (
                add(*to, &[*from])
                    .with_memory(true, true)
                    .addressing(&[reg(*to)]),
                access,
                access,
            ),
            3 => (branch.reading(&[reg(*from)]), None, None),
            4 if word % 16 == 0 => (fence, None, None),
            _ => (add(*to, &[*from]), None, None),
        };
        insts.push(inst);
        let step = step(steps.len() as u32, reads, writes);
        steps.push(Step {
            taken: *taken && *kind == 3,
            ..step
        });
    }
    Script::new(&insts, steps)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// However often a thread is squashed, each instruction retires once and in order, and no
    /// MSHR or queue entry is lost.
    #[test]
    fn each_instruction_retires_exactly_once(
        choices in prop::collection::vec(any_step(), 1..600), period in 20u64..3000, mshrs in 1u32..9,
        entries in 0u32..4,
    ) {
        let mut source = random_program(&choices);
        let mut memory = Memory::new(300);
        let small = CpuConfig { l1d_mshrs: mshrs, l2_mshrs: 4, store_queue: 6, l1_tlb: 4, l2_tlb: 12,
            alu_scheduler: entries, alu_queue: 2, memory_scheduler: entries / 2, memory_queue: 1, ..config() };
        let mut core = Core::new(CoreId::new(0), &small);
        core.start(Time::ZERO);
        let (mut now, mut squashes) = (0, 0);
        let mut pause = core.run(Time::ZERO, Time::from_picos(period), &mut source, &mut memory);
        let mut next_squash = period;
        loop {
            prop_assert_eq!(core.audit(), Vec::<String>::new());
            if matches!(pause, Pause::End { .. }) {
                break;
            }
            let fill = memory.fills.first_key_value().map(|((at, _), _)| *at);
            let ready = match pause { Pause::Horizon { at } => at.as_picos(), _ => u64::MAX };
            // A tenth of the windows is thrown away in mid-air.
            now = now.max(fill.unwrap_or(u64::MAX).min(ready));
            if now >= next_squash && squashes < 40 {
                next_squash = now + period;
                squashes += 1;
                core.now = Time::from_picos(now);
                let retired = core.stats().pieces;
                core.squash(core.now, &mut source, &mut memory);
                prop_assert_eq!(source.position(), retired);
                core.start(Time::from_picos(now + 10));
                let at = Time::from_picos(now);
                pause = core.run(at, at + Picos::new(period), &mut source, &mut memory);
            } else if fill.is_some_and(|fill| fill <= ready) {
                let ((at, _), slot) = memory.fills.pop_first().unwrap();
                let at = Time::from_picos(at);
                if core.on_fill(at, slot, &mut source, &mut memory) {
                    pause = core.run(at, at + Picos::new(period), &mut source, &mut memory);
                }
            } else {
                prop_assert!(ready < u64::MAX, "a core that waits has a fill coming");
                let at = Time::from_picos(ready);
                pause = core.run(at, at + Picos::new(period), &mut source, &mut memory);
            }
        }
        prop_assert_eq!(core.stats().instructions, choices.len() as u64);
        while let Some(((at, _), slot)) = memory.fills.pop_first() {
            core.on_fill(Time::from_picos(at), slot, &mut source, &mut memory);
        }
        prop_assert!(core.stores.is_empty() && core.misses.in_use == 0 && core.queue.is_empty());
        prop_assert!(core.stats().memory_bound_cycles <= core.stats().active_cycles);
    }
}
