//! The switches of the cores and their caches.

use super::lab::{CYCLE, HIT, Lab, MISS, ORDERED, added, counts, one_thread, saved};
use crate::common::{DATA, LINE, PAGE, Program};
use cxl::MessageClass;
use trace::{Inst, OpClass, Reg, TraceFile};
use units::{Lpa, ThreadId};

/// What the core does between its own instructions and memory, a capture for each.
pub fn macsim_core(lab: &Lab) {
    schedulers(lab);
    branches_begin_at_taken(lab);
    two_wrong_in_a_group(lab);
    one_line(lab);
    straight_code(lab);
    waited_stores(lab);
    no_fences(lab);
    known_targets(lab);
}

/// 64 additions of four bytes, four lines of code, which L1I has not: each line is fetched in the
/// paper, and only the first in the artifact, where what follows in line is at hand.
fn straight_code(lab: &Lab) {
    let trace = one_thread(|program, thread| {
        for place in 0..64 {
            let inst = Inst::new(OpClass::IntAlu, 0x8_0000 + place * 4, 4);
            let addition = program.writer.define(inst);
            program.writer.execute(thread, addition, None, None);
        }
    });
    let both = lab.both(&trace, "base-cssd", &[]);
    assert_eq!(counts(&both, "caches/l1i_misses"), (4, 1));
}

/// A store alone retires at once in the paper, and when its line is there in the artifact, 3148.5
/// ns later.
fn waited_stores(lab: &Lab) {
    let trace = one_thread(|program, thread| program.store(thread, 0));
    let both = lab.both(&trace, "base-cssd", &[]);
    assert_eq!(added(&both), MISS);
}

/// The load behind a fence begins when the one before has retired, three cycles after its line
/// came: the fence retires, the load is dispatched, and it issues. In the artifact both go at
/// once.
fn no_fences(lab: &Lab) {
    let trace = one_thread(|program, thread| {
        let fence = program.writer.define(Inst::new(OpClass::Fence, 0, 3));
        program.load(thread, 0);
        program.writer.execute(thread, fence, None, None);
        program.load(thread, PAGE);
    });
    let both = lab.both(&trace, "base-cssd", &[]);
    assert_eq!(saved(&both), MISS + CYCLE * 3);
}

/// A load, 60 additions that need it, and a load that needs nothing: it is dispatched in cycle 15
/// and issues in 16 while the first, issued in 1, is under way. In the artifact 16 additions fill
/// the scheduler and 32 its queue, and dispatch stops. When the line has come, four a cycle
/// issue; after three cycles 28 have left the queue, so that the last one has room: the load is
/// dispatched in cycle 4 after the line's, and issues in the next.
fn schedulers(lab: &Lab) {
    let trace = one_thread(|program, thread| {
        program.chase(thread, 0);
        let needs = [Reg::general(5)];
        let addition = program.writer.alu(Reg::general(2), &needs);
        for _ in 0..60 {
            program.writer.execute(thread, addition, None, None);
        }
        program.load(thread, PAGE);
    });
    let both = lab.both(&trace, "base-cssd", &[]);
    assert_eq!(added(&both), MISS + CYCLE * 5 - CYCLE * 16);
}

/// A load of the last four bytes of a page and the first four of the next reads the code's line and
/// two more, and two pages; in the artifact one of each.
fn one_line(lab: &Lab) {
    let trace = one_thread(|program, thread| program.load(thread, PAGE - 4));
    let both = lab.both(&trace, "base-cssd", &[]);
    assert_eq!(counts(&both, "caches/l3_accesses"), (3, 2));
    assert_eq!(counts(&both, "flash/read_pages"), (2, 1));
}

/// A branch that is taken 40 times: the 16 bits of history are new 17 times, and each time the
/// paper's counter is weakly not taken.
fn branches_begin_at_taken(lab: &Lab) {
    let trace = one_thread(|program, thread| {
        let branch = program.writer.branch();
        program.writer.alu(Reg::general(2), &[]);
        for _ in 0..40 {
            program.writer.execute(thread, branch, None, None);
        }
        program.load(thread, 0);
    });
    let both = lab.both(&trace, "base-cssd", &[]);
    assert_eq!(counts(&both, "cores/mispredicts"), (17, 0));
}

/// A load, two branches that are not taken, of which the second needs the load's line, an addition,
/// and in the next group a load. In the paper both are foreseen, and the last load is dispatched in
/// cycle 1. In the artifact both are foreseen wrong, and come together: it is dispatched once the
/// first branch is done, in cycle 17 (one to issue, one to execute, 15 of penalty), and does not
/// wait for the line.
fn two_wrong_in_a_group(lab: &Lab) {
    let r = Reg::general;
    let insts = [
        Inst::new(OpClass::IntAlu, 0x8_0000, 4)
            .addressing(&[r(4)])
            .writing(&[r(5)])
            .with_memory(true, false),
        Inst::new(OpClass::CondBranch, 0x8_0004, 2).reading(&[r(6)]),
        Inst::new(OpClass::CondBranch, 0x8_0006, 2).reading(&[r(5)]),
        Inst::new(OpClass::IntAlu, 0x8_0008, 4).writing(&[r(7)]),
        Inst::new(OpClass::IntAlu, 0x8_000c, 4)
            .addressing(&[r(4)])
            .writing(&[r(8)])
            .with_memory(true, false),
    ];
    let trace = one_thread(|program, thread| {
        let defined = insts.map(|inst| program.writer.define(inst));
        for (place, inst) in defined.into_iter().enumerate() {
            let page = [Some(0), None, None, None, Some(PAGE)][place];
            let load = page.map(|page| (DATA + page, 8));
            program.writer.execute(thread, inst, load, None);
        }
    });
    let both = lab.both(&trace, "base-cssd", &[]);
    assert_eq!(counts(&both, "cores/mispredicts"), (0, 2));
    assert_eq!(added(&both), CYCLE * (17 - 1));
}

/// Ten jumps to targets never seen. What follows a jump is dispatched 17 cycles after it: one to
/// issue, one to execute, 15 of penalty. So the last of 20 instructions comes in cycle 170; with
/// targets known and four a cycle in cycle 4.
fn known_targets(lab: &Lab) {
    let trace = one_thread(|program, thread| {
        let jump = Inst::new(OpClass::IndirectJump, 0, 2).reading(&[Reg::general(1)]);
        let jump = program.writer.define(jump);
        let target = |_| program.writer.alu(Reg::general(2), &[]);
        let targets: Vec<_> = (0..10).map(target).collect();
        for target in targets {
            program.writer.execute(thread, jump, None, None);
            program.writer.execute(thread, target, None, None);
        }
    });
    let both = lab.both(&trace, "base-cssd", &[]);
    assert_eq!(counts(&both, "cores/mispredicts"), (10, 0));
    assert_eq!(saved(&both), CYCLE * (170 - 4));
}

/// `add r1, [page]` of three pages. In the paper the three loads go at once, two in the first cycle
/// and one in the next, and the additions follow the first line, a cycle each. In the artifact a
/// load waits for the addition before it.
pub fn loads_wait_for_all_sources(lab: &Lab) {
    let trace = one_thread(|program, thread| {
        let sum = Reg::general(1);
        let adds = Inst::new(OpClass::IntAlu, 0, 4)
            .addressing(&[Reg::general(4)])
            .reading(&[sum])
            .writing(&[sum])
            .with_memory(true, false);
        let adds = program.writer.define(adds);
        for page in 0..3 {
            let load = Some((DATA + page * PAGE, 8));
            program.writer.execute(thread, adds, load, None);
        }
    });
    let both = lab.both(&trace, "base-cssd", &[]);
    assert_eq!(counts(&both, "flash/read_pages"), (3, 3));
    assert_eq!(added(&both), MISS * 2);
}

/// Cycles by which a load that leaves the core takes longer: 3 + 7 + 395 + 225 instead of
/// 4 + 10 + 40.
const BEYOND: u64 = 630 - 54;
/// The fetch of the capture's code, the same without L1D: 7 + 395 + 225 instead of 10 + 40.
const CODE: u64 = 627 - 50;

/// L2 has eight lines in one set.
pub fn macsim_caches(lab: &Lab) {
    let longer = |write: fn(&mut Program, ThreadId)| {
        let both = lab.both(&one_thread(write), "base-cssd", &["cpu.l2=512B"]);
        both[1].time().get() as i64 - both[0].time().get() as i64
    };
    let cycles = |count: u64| (CYCLE * count).get() as i64;
    let one = longer(|program, thread| program.chase(thread, 0));
    assert_eq!(one, cycles(CODE + BEYOND));
    // The first of three cores: both pass two, 31 cycles each.
    let of_three = {
        let trace = one_thread(|program, thread| program.chase(thread, 0));
        let settings = ["cpu.l2=512B", "cpu.cores=3"];
        added(&lab.both(&trace, "base-cssd", &settings))
    };
    assert_eq!(of_three, CYCLE * (CODE + BEYOND + 2 * 2 * 31));
    // A hit in L1D: 3 cycles instead of 4.
    let hits = longer(|program, thread| (0..101).for_each(|_| program.chase(thread, 0)));
    assert_eq!(hits - one, -cycles(100));
    // L1D has room for one line, so 100 of these hit L2: 3 + 7 cycles instead of 4 + 10.
    let hits = longer(|program, thread| {
        (0..102).for_each(|nth| program.chase(thread, nth % 2 * LINE));
    });
    assert_eq!(hits - one, cycles(BEYOND) - cycles(400));
    // Seven loads at once, two a cycle: the last one is issued in cycle 3. A line each 20 cycles
    // is 120 for the seventh.
    let seven = longer(|program, thread| {
        program.chase(thread, 60 * LINE);
        program.alu(thread, 1_000);
        (0..7).for_each(|line| program.load(thread, line * LINE));
    });
    assert_eq!(seven - one, cycles(BEYOND + 120 - 3));
}

/// A walk takes 7 cycles for the second TLB, 10 and 40 for L2 and L3, and an access to host DRAM:
/// 194 cycles with a row to be closed (see `pages::DDR5`), the code's, and 67 four times in the
/// row of the page table.
pub fn no_tlb(lab: &Lab) {
    let trace = one_thread(|program, thread| {
        (0..5).for_each(|page| program.chase(thread, page * PAGE));
    });
    let both = lab.both(&trace, "base-cssd", &[]);
    assert_eq!(counts(&both, "caches/tlb_walks"), (5, 0));
    assert_eq!(saved(&both), CYCLE * (5 * 57 + 194 + 4 * 67));

    // Flash reads take 60 ms. TPP scans once, at 100 ms, between the second load and the third:
    // whose page was loaded before is unmapped again, and the third load takes a hint fault.
    let trace = one_thread(|program, thread| {
        program.chase(thread, 0);
        program.chase(thread, PAGE);
        program.chase(thread, LINE);
    });
    let slow = [
        "nand.t_r=60ms",
        "os.switch_threshold=1000s",
        "tpp.scan_period=100ms",
    ];
    let both = lab.both(&trace, "skybyte-ct", &slow);
    assert_eq!(counts(&both, "activity/hint_scans"), (1, 1));
    assert_eq!(counts(&both, "activity/hint_faults"), (1, 1));
}

/// An L3 of two lines.
const TWO: &[&str] = &["cpu.l3=128B", "cpu.l3_ways=2"];

/// A store and eight loads of other lines, one after the other. Before them two loads, if the
/// store is to find its line in L3 and not in L1D: the first is of the store's line.
fn a_store_that_leaves(is_in_l3: bool) -> TraceFile {
    one_thread(|program, thread| {
        if is_in_l3 {
            program.chase(thread, 0);
            program.chase(thread, 20 * LINE);
            // More than a window: both loads have their lines.
            program.alu(thread, 1_000);
        }
        program.store(thread, 0);
        for line in 1..9 {
            program.chase(thread, line * LINE);
        }
    })
}

fn writes(lab: &Lab, is_in_l3: bool, settings: &[&str]) -> [u64; 2] {
    let settings = [TWO, ORDERED, settings].concat();
    let both = lab.both(&a_store_that_leaves(is_in_l3), "base-cssd", &settings);
    both.map(|outcome| outcome.messages(MessageClass::MemWr))
}

/// The written line leaves for the device. What L2 says of it is lost in the artifact, so it
/// counts what L3 knows: that a store found the line there, not that one brought it.
pub fn l2_victims_lost(lab: &Lab) {
    assert_eq!(writes(lab, true, &[]), [1, 1]);
    assert_eq!(writes(lab, false, &[]), [1, 0]);
}

/// The store makes its line the younger of two in L3. The first load drives the other one out,
/// the second the store's; the answer brings it back, younger again. So with loads 2, 4, 6 and 8.
pub fn write_back_echo(lab: &Lab) {
    let lost = ["cpu.l2_victims=lost"];
    assert_eq!(writes(lab, true, &lost), [1, 4]);
    let settings = [TWO, ORDERED, &lost].concat();
    let both = lab.both(&a_store_that_leaves(true), "dram-only", &settings);
    assert_eq!(counts(&both, "caches/l3_write_backs"), (1, 1));
}

/// A store to a page on flash. With a log its line is appended, no page is read; without one the
/// page is read and dirty.
pub fn store_misses_are_writes(lab: &Lab) {
    let trace = one_thread(|program: &mut Program, thread| {
        program.store(thread, 3 * PAGE);
        // The line has come when this is over.
        program.alu(thread, 100_000);
    });
    for (design, reads, appends) in [("skybyte-w", (1, 0), [0, 1]), ("base-cssd", (1, 1), [0, 0])] {
        let both = lab.both(&trace, design, &[]);
        assert_eq!(counts(&both, "flash/host_read_pages"), reads, "{design}");
        let logged = both
            .each_ref()
            .map(|run| run.controller().stats().log_appends);
        assert_eq!(logged, appends, "{design}");
        let dirty = both.map(|mut run| {
            let now = run.simulation.fabric.queue.now();
            run.simulation.fabric.drop_promoted(now, Lpa::new(0))
        });
        assert_eq!(dirty, [false, true], "{design}");
    }
}

/// Forty lines are loaded twice, the first time in warm-up. From warm caches a load takes the 4
/// cycles of L1D. Caches that start cold ask the device, whose own cache is warm, and fetch the
/// code: 10 and 40 cycles, and 131 of host DRAM.
pub fn cold_cpu_caches(lab: &Lab) {
    let trace = one_thread(|program, thread| {
        for _ in 0..2 {
            (0..40).for_each(|line| program.chase(thread, line * LINE));
        }
    });
    let big = ["run.warmup=50%", "cpu.l1d=32KiB", "cpu.l1d_ways=8"];
    let both = lab.both(&trace, "base-cssd", &big);
    assert_eq!(counts(&both, "requests/ssd_cache_hits"), (0, 40));
    assert_eq!(counts(&both, "requests/ssd_misses"), (0, 0));
    let code = CYCLE * (10 + 40 + 131);
    assert_eq!(added(&both), code + (HIT - CYCLE * 4) * 40);
}
