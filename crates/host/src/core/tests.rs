//! The core against closed formulas.

use super::testing::*;
use super::*;
use crate::port::MissKind;
use trace::{Inst, OpClass};

const KIB: u64 = 1024;

fn timed(body: &[Inst], count: usize) -> u64 {
    let mut source = Script::repeat(body, count);
    let mut core = warmed(&config(), &mut source);
    cycles(&mut core, &mut source, &mut Memory::new(100))
}

#[test]
fn four_independent_additions_take_one_cycle() {
    let body: Vec<Inst> = (0..8).map(|number| add(number, &[])).collect();
    // The first is dispatched in cycle 0, issues in 1, is done in 2.
    assert_eq!(timed(&body, 1000), 8000 / 4 + 1);
}

#[test]
fn a_chain_of_additions_takes_a_cycle_each() {
    assert_eq!(timed(&[add(1, &[1])], 1000), 1000 + 1);
}

#[test]
fn a_chain_of_multiplications_takes_three_cycles_each() {
    let multiply = Inst::new(OpClass::IntMul, 0, 4)
        .reading(&[reg(1)])
        .writing(&[reg(1)]);
    assert_eq!(timed(&[multiply], 1000), 3000 + 1);
}

#[test]
fn divisions_do_not_overlap_and_floating_point_has_two_ports() {
    let divide = Inst::new(OpClass::IntDiv, 0, 4).writing(&[reg(1)]);
    assert_eq!(timed(&[divide], 100), 2600 + 1);
    let multiply = Inst::new(OpClass::FpMul, 0, 4).writing(&[trace::Reg::vector(1)]);
    assert_eq!(timed(&[multiply], 1000), 500 + 4);
}

/// Loads, each of which needs the one before for its address.
fn chase(count: u64, stride: u64) -> Script {
    let steps = (0..count)
        .map(|number| step(0, at(number * stride), None))
        .collect();
    Script::new(&[load(1, 1)], steps)
}

#[test]
fn a_pointer_chase_in_l1_takes_its_latency_each() {
    let mut source = chase(256, 64);
    let mut core = warmed(&config(), &mut source);
    assert_eq!(
        cycles(&mut core, &mut source, &mut Memory::new(100)),
        256 * 4 + 1
    );
    assert_eq!(core.stats().l1d_hits, 256);
}

#[test]
fn a_pointer_chase_in_l2_takes_both_latencies_each() {
    // 256 KiB: fits in L2 and, walked in order, never hits in L1; 64 pages fit in the TLB.
    let mut source = chase(4096, 64);
    let mut core = warmed(&config(), &mut source);
    assert_eq!(
        cycles(&mut core, &mut source, &mut Memory::new(100)),
        4096 * 14 + 1
    );
    assert_eq!((core.stats().l1d_hits, core.stats().l2_hits), (0, 4096));
}

#[test]
fn a_pointer_chase_in_memory_takes_every_latency_each() {
    let mut source = chase(64, 64);
    let mut core = warmed(&config(), &mut chase(1, 64));
    let mut memory = Memory::new(1000);
    // The first line is in L1 already.
    assert_eq!(
        cycles(&mut core, &mut source, &mut memory),
        63 * 1014 + 4 + 1
    );
    assert_eq!(core.stats().l2_misses, 63);
}

#[test]
fn a_chase_over_many_pages_pays_for_translations() {
    // 128 pages with one line each: both fit in L2 and L1D, but only 64 in the first-level TLB.
    let mut source = chase(128, 4096 + 64);
    let mut core = warmed(&config(), &mut source);
    assert_eq!(
        cycles(&mut core, &mut source, &mut Memory::new(100)),
        128 * (4 + 7) + 1
    );
}

#[test]
fn a_walk_reads_the_page_table_before_the_line() {
    let mut source = chase(1, 64);
    source.steps[0].load = at(64 * KIB);
    let mut core = warmed(&config(), &mut Script::repeat(&[add(1, &[])], 1));
    let mut memory = Memory::new(1000);
    let walk = 7 + 10 + 1000;
    assert_eq!(
        cycles(&mut core, &mut source, &mut memory),
        1 + walk + 4 + 10 + 1000
    );
    let table = HostLine::page_table(16);
    let data = HostLine::of_byte(64 * KIB);
    assert_eq!(
        memory.reads,
        [
            (18, table, MissKind::Walk),
            (1 + walk + 14, data, MissKind::Load)
        ]
    );
}

fn independent_loads(count: u64) -> Script {
    let steps = (0..count)
        .map(|number| step(0, at(number * 64), None))
        .collect();
    Script::new(&[load(1, 2)], steps)
}

/// A core whose TLB and L1I are warm for `independent_loads`, and no data line.
fn translated(config: &CpuConfig, pages: u64) -> Core {
    let mut core = warmed(config, &mut Script::repeat(&[add(1, &[])], 1));
    (0..pages as u32).for_each(|page| core.caches.tlb.insert(page));
    core
}

#[test]
fn independent_misses_overlap_up_to_the_mshrs() {
    for (mshrs, count) in [(8, 64), (4, 64), (1, 16), (64, 64)] {
        let config = CpuConfig {
            l1d_mshrs: mshrs,
            ..config()
        };
        let mut core = translated(&config, 1);
        let mut memory = Memory::new(1000);
        let end = cycles(&mut core, &mut independent_loads(count), &mut memory);
        // Two loads issue in a cycle; when one returns, the next one starts.
        let group = u64::from(mshrs);
        let rounds = count / group;
        assert_eq!(end, 1 + 1014 * rounds + (group - 1) / 2, "{mshrs} MSHRs");
    }
}

#[test]
fn the_window_bounds_what_a_miss_lets_through() {
    // A miss, 255 independent additions, then a second miss that does not fit in the window.
    let mut pieces = vec![(load(1, 2), at(0), None)];
    pieces.extend((0..255).map(|_| (add(3, &[]), None, None)));
    pieces.push((load(4, 2), at(64), None));
    let mut core = translated(&config(), 1);
    let mut memory = Memory::new(1000);
    cycles(&mut core, &mut Script::straight(&pieces), &mut memory);
    let first = 1 + 14;
    let filled = first + 1000;
    // The first retires when filled; the second is dispatched, issued and on its way after that.
    assert_eq!(
        memory.reads.iter().map(|read| read.0).collect::<Vec<_>>(),
        [first, filled + 2 + 14]
    );
    pieces.remove(1);
    let mut core = translated(&config(), 1);
    let mut memory = Memory::new(1000);
    cycles(&mut core, &mut Script::straight(&pieces), &mut memory);
    let dispatched = 255 / 4;
    assert_eq!(memory.reads[1].0, dispatched + 1 + 14);
}

#[test]
fn a_mispredicted_branch_costs_its_penalty() {
    let branch = Inst::new(OpClass::CondBranch, 0, 2).reading(&[reg(1)]);
    let insts = [add(1, &[]), branch, add(2, &[])];
    let mut steps: Vec<_> = (0..3).map(|inst| step(inst, None, None)).collect();
    let end = |steps: &[_]| {
        let mut source = Script::new(&insts, steps.to_vec());
        let mut core = warmed(&config(), &mut Script::repeat(&[add(1, &[])], 1));
        cycles(&mut core, &mut source, &mut Memory::new(100))
    };
    assert_eq!(end(&steps), 3);
    // Counters begin weakly not taken. The branch is done in cycle 3.
    steps[1].taken = true;
    assert_eq!(end(&steps), 3 + 15 + 2);
}

#[test]
fn a_load_takes_its_data_from_the_store_before_it() {
    let pieces = [
        (
            Inst::new(OpClass::IntMul, 0, 4).writing(&[reg(1)]),
            None,
            None,
        ),
        (store(1, 2), None, at(0)),
        (load(3, 2), at(0), None),
    ];
    let mut core = translated(&config(), 1);
    let mut memory = Memory::new(1000);
    let end = cycles(&mut core, &mut Script::straight(&pieces), &mut memory);
    // Product 4, store 5, forwarded 5 + 4; without it the load would take 1000.
    assert_eq!(end, 9);
    assert_eq!(core.stats().forwarded, 1);
    assert_eq!(
        memory.reads.len(),
        1,
        "only the store's fetch for ownership"
    );
    assert_eq!(memory.reads[0].2, MissKind::Ownership);
}

#[test]
fn a_store_waits_for_nothing_but_holds_its_queue_entry() {
    let config = CpuConfig {
        store_queue: 4,
        ..config()
    };
    let pieces: Vec<_> = (0..8)
        .map(|number| (store(1, 2), None, at(number * 64)))
        .collect();
    let mut core = translated(&config, 1);
    let mut memory = Memory::new(1000);
    let end = cycles(&mut core, &mut Script::straight(&pieces), &mut memory);
    // The fifth needs the entry of the first, filled at 3 + 14 + 1000; 3 more follow at one a
    // cycle.
    let filled = 3 + 14 + 1000;
    assert_eq!(end, filled + 2 + 3);
    assert!(core.stats().memory_bound_cycles > 1000);
}

#[test]
fn a_fence_waits_for_stores_and_holds_back_what_follows() {
    let fence = Inst::new(OpClass::Fence, 0, 3);
    let pieces = [
        (store(1, 2), None, at(0)),
        (fence, None, None),
        (add(1, &[]), None, None),
    ];
    let mut core = translated(&config(), 1);
    let mut memory = Memory::new(1000);
    let end = cycles(&mut core, &mut Script::straight(&pieces), &mut memory);
    let filled = 3 + 14 + 1000;
    assert_eq!(end, filled + 2 + 2);
    // The fence waits for memory from the store's retirement until its line is written.
    assert!(
        core.stats().memory_bound_cycles >= 1014,
        "{:?}",
        core.stats()
    );
}

#[test]
fn a_miss_at_the_head_is_memory_bound_and_arithmetic_is_not() {
    let mut pieces = vec![(load(1, 2), at(0), None)];
    pieces.extend((0..100).map(|_| (add(3, &[3]), None, None)));
    let mut core = translated(&config(), 1);
    let end = cycles(
        &mut core,
        &mut Script::straight(&pieces),
        &mut Memory::new(1000),
    );
    let stats = core.stats();
    assert_eq!(stats.active_cycles, end);
    // From cycle 1 to the fill at 1015, less the 100 cycles of the chain of additions.
    assert_eq!(stats.memory_bound_cycles, 1014 - 100);
}

#[test]
fn dirty_lines_leave_l1_and_l2_once_each() {
    let steps = (0..32 * KIB)
        .map(|number| step(0, None, at(number * 64)))
        .collect();
    let mut source = Script::new(&[store(1, 2)], steps);
    let mut core = translated(&config(), 512);
    let mut memory = Memory::new(100);
    cycles(&mut core, &mut source, &mut memory);
    while let Some(((at, _), slot)) = memory.fills.pop_first() {
        core.on_fill(Time::from_picos(at), slot, &mut source, &mut memory);
    }
    let mut left: Vec<_> = memory.write_backs.iter().map(|line| line.get()).collect();
    left.sort_unstable();
    assert!(left.windows(2).all(|pair| pair[0] != pair[1]));
    let (_, in_l1) = core.caches.l1d.occupancy();
    let (_, in_l2) = core.caches.l2.occupancy();
    assert_eq!(left.len() as u64 + in_l1 + in_l2, 32 * KIB);
}
