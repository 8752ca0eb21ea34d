//! Cache line write-backs and the fences that wait for them, cycle by cycle.

use super::testing::*;
use super::*;

/// A core that has line 0 in L1D, clean, and the first pages in its TLB.
fn with_line() -> Core {
    let mut core = warmed(
        &config(),
        &mut Script::straight(&[(load(1, 2), at(0), None)]),
    );
    (0..8).for_each(|page| core.caches.tlb.insert(page));
    core
}

/// Lines that `memory` was sent, each with when and whether it was dirty.
fn sent(memory: &Memory) -> Vec<(u64, u32, bool)> {
    let persists = memory.persists.iter();
    persists
        .map(|(at, line, is_dirty)| (*at, line.get(), *is_dirty))
        .collect()
}

#[test]
fn a_fence_waits_until_a_written_back_line_is_acknowledged() {
    let pieces = [
        (store(1, 2), None, at(0)),
        (write_back(2), at(0), None),
        (fence(), None, None),
        (add(1, &[]), None, None),
    ];
    let mut core = with_line();
    let mut memory = Memory::new(1000);
    let end = cycles(&mut core, &mut Script::straight(&pieces), &mut memory);
    // One store port: the store executes in 1 and retires in 2, the write-back one later. They have
    // their turns in 3 and 4; L1D and L2 are asked by 4 + 4 + 10.
    assert_eq!(sent(&memory), [(18, 0, true)]);
    // The fence is dispatched with the acknowledgement and done two later, then the addition.
    assert_eq!(end, 18 + 1000 + 2 + 2);
    let stats = core.stats();
    assert_eq!((stats.loads, stats.stores, stats.write_backs), (0, 1, 1));
    // Memory's are the cycles from the first retirement to the acknowledgement.
    assert_eq!(stats.memory_bound_cycles, 1018 - 1);
    assert!(core.has_persisted());
}

#[test]
fn a_write_back_takes_along_the_bytes_of_a_store_that_waits_for_the_line() {
    let pieces = [
        (store(1, 2), None, at(64)),
        (write_back(2), at(64), None),
        (fence(), None, None),
    ];
    let mut core = with_line();
    let mut memory = Memory::new(1000);
    let end = cycles(&mut core, &mut Script::straight(&pieces), &mut memory);
    // The store's turn is in 3, its line there 14 + 1000 later; then L1D and L2 are asked.
    let filled = 3 + 14 + 1000;
    assert_eq!(sent(&memory), [(filled + 14, 1, true)]);
    assert_eq!(end, filled + 14 + 1000 + 2);
}

#[test]
fn an_absent_line_is_not_fetched() {
    let mut core = with_line();
    let mut memory = Memory::new(1000);
    let pieces = [(write_back(2), at(64), None)];
    cycles(&mut core, &mut Script::straight(&pieces), &mut memory);
    assert_eq!(sent(&memory), [(2 + 1 + 14, 1, false)]);
    assert_eq!(memory.reads, []);
}

#[test]
fn a_written_back_line_stays_and_is_clean() {
    let pieces = [
        (store(1, 2), None, at(0)),
        (write_back(2), at(0), None),
        (fence(), None, None),
        (load(3, 2), at(0), None),
        (write_back(2), at(0), None),
    ];
    let mut core = with_line();
    let mut memory = Memory::new(1000);
    cycles(&mut core, &mut Script::straight(&pieces), &mut memory);
    assert_eq!(memory.reads, []);
    let dirty: Vec<bool> = memory.persists.iter().map(|persist| persist.2).collect();
    assert_eq!(dirty, [true, false]);
    assert_eq!(core.caches.l1d.occupancy(), (1, 0));
}

#[test]
fn without_a_fence_nothing_waits() {
    let pieces = [
        (store(1, 2), None, at(0)),
        (write_back(2), at(0), None),
        (store(1, 2), None, at(0)),
        (load(3, 2), at(0), None),
    ];
    let mut core = with_line();
    let mut memory = Memory::new(1000);
    let end = cycles(&mut core, &mut Script::straight(&pieces), &mut memory);
    // The second store executes in 3; the load has its data from it four later.
    assert_eq!(end, 4 + 4);
    assert!(!core.has_persisted());
}

#[test]
fn a_squashed_write_back_is_sent_once_it_is_executed_again() {
    let pieces = [
        (load(1, 2), at(64), None),
        (store(1, 2), None, at(0)),
        (write_back(2), at(0), None),
    ];
    let mut core = with_line();
    let mut source = Script::straight(&pieces);
    let mut memory = Memory::new(1000);
    core.start(Time::ZERO);
    assert_eq!(
        core.run(Time::ZERO, Time::MAX, &mut source, &mut memory),
        Pause::Waiting
    );
    let squashed = core.squash(Time::from_picos(100), &mut source, &mut memory);
    assert_eq!((squashed.instructions, sent(&memory).len()), (3, 0));
    assert!(core.has_persisted());
    core.start(squashed.at);
    let pause = run_until_pause(&mut core, squashed.at, &mut source, &mut memory);
    assert!(matches!(pause, Pause::End { .. }));
    assert_eq!(sent(&memory).len(), 1);
}

#[test]
fn a_write_back_of_no_address_or_at_a_sync_event_does_nothing() {
    let mut event = step(0, at(0), None);
    event.has_sync = true;
    let mut source = Script::new(&[write_back(2)], vec![step(0, None, None), event]);
    let mut core = with_line();
    let mut memory = Memory::new(1000);
    core.start(Time::ZERO);
    let pause = run_until_pause(&mut core, Time::ZERO, &mut source, &mut memory);
    let Pause::Sync { at, .. } = pause else {
        panic!("a sync event stops the core, not {pause:?}")
    };
    core.complete_sync(at, &mut source);
    let pause = run_until_pause(&mut core, at, &mut source, &mut memory);
    assert!(matches!(pause, Pause::End { .. }));
    assert_eq!((sent(&memory).len(), core.stats().instructions), (0, 2));
}

#[test]
fn warm_up_writes_lines_back_too() {
    let pieces = [
        (store(1, 2), None, at(0)),
        (write_back(2), at(0), None),
        (write_back(2), at(8 * 4096), None),
    ];
    let mut source = Script::straight(&pieces);
    let mut core = Core::new(CoreId::new(0), &config());
    let mut memory = Memory::new(0);
    while source.peek().is_some() {
        core.warm(&mut source, &mut memory);
        source.advance();
    }
    assert_eq!(sent(&memory), [(0, 0, true), (0, 512, false)]);
    // The code, the store's page and line, and the other page, whose entry lies in another line.
    assert_eq!(memory.reads.len(), 4);
    assert!(core.has_persisted());
}
