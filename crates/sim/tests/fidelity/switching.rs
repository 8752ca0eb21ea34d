//! The switches of the operating system and of the coordinated context switch.

use super::lab::{BIG_CACHES, CYCLE, HIT, Lab, Outcome, added, counts, one_thread, saved};
use crate::common::{PAGE, Program};
use cxl::MessageClass;
use trace::{FutexId, Inst, OpClass, Reg, SyncEvent, TraceFile, Wake};
use units::Picos;

fn micros(count: u64) -> Picos {
    Picos::from_micros(count)
}

/// Instructions that keep a core busy for so many microseconds: four in each cycle of 250 ps.
const fn busy(micros: u64) -> u64 {
    micros * 16_000
}

fn one_load() -> TraceFile {
    one_thread(|program, thread| program.load(thread, 0))
}

/// The thread sleeps until its page has come; then it is switched in.
pub fn switch_cost_1300ns(lab: &Lab) {
    let both = lab.both(&one_load(), "skybyte-c", &["os.wake=on_data"]);
    assert_eq!(counts(&both, "os/switches_long_delay"), (1, 1));
    assert_eq!(counts(&both, "cores/switch_ps"), (2_000_000, 1_300_000));
    assert_eq!(saved(&both), micros(2) - Picos::from_nanos(1_300));
}

/// When the thread ended.
fn finished(outcome: &Outcome, thread: usize) -> Picos {
    Picos::new(outcome.stat(&format!("threads/{thread}/finished_ps")))
}

/// Three threads run 12, 3 and 6 us, yield at a load, and run 10 us more. When the third yields,
/// all pages have come. CFS takes the thread that has had least: 1, 2, 0; round robin takes 0, 1,
/// 2. Each ends 5 us of switch, a hit and its first cycle, and 10 us after the one before.
pub fn round_robin(lab: &Lab) {
    let mut program = Program::new();
    for (page, length) in [(0, 12), (1, 3), (2, 6)] {
        let thread = program.thread();
        program.alu(thread, busy(length));
        program.load(thread, page * PAGE);
        program.alu(thread, busy(10));
    }
    let settings = ["os.switch_cost=5us", "os.time_slice=1s"];
    let both = lab.both(&program.finish(), "skybyte-c", &settings);
    for (run, order) in both.iter().zip([[1, 2, 0], [0, 1, 2]]) {
        let ends = order.map(|thread| finished(run, thread));
        let turn = micros(5 + 10) + HIT + CYCLE;
        assert_eq!([ends[1] - ends[0], ends[2] - ends[1]], [turn; 2]);
    }
}

/// Two threads of 150 us on one core. With slices of 100 us they take turns: 100, 100, 50, 50.
/// Two slices end before their thread does, which costs 2 us each and a cycle in which the thread
/// begins again; without slices there is one switch, from one thread's end to the other.
pub fn no_time_slices(lab: &Lab) {
    let mut program = Program::new();
    for _ in 0..2 {
        let thread = program.thread();
        program.alu(thread, busy(150));
    }
    let both = lab.both(&program.finish(), "base-cssd", &[]);
    assert_eq!(counts(&both, "os/switches_slice"), (2, 0));
    assert_eq!(counts(&both, "cores/switch_ps"), (6_000_000, 2_000_000));
    assert_eq!(saved(&both), (micros(2) + CYCLE) * 2);
}

/// A flash read of 50 us. In the paper the thread asks again each 2102.75 ns (2 us of switch,
/// 13.5 in the core, 40 of link, 49 of lookup, a cycle) and yields while the device expects more
/// than 2 us: 50 - 2.10275 n > 2 up to n = 22, so 23 times. The last time it waits: its data
/// leave the device 46 ns after the page has come, and the link takes 20. In the artifact the
/// thread keeps the core for as long as the flash takes, counted from when the request left the
/// host: 69 ns before the page is there. Its load, 33.5 ns later at the device, waits for it, too.
///
/// Of three threads on a core the second and the third come after another one: 2 us each in the
/// paper. The artifact starts a thread for nothing.
pub fn threads_wait_on_core(lab: &Lab) {
    let both = lab.both(&one_load(), "skybyte-c", &["nand.t_r=50us"]);
    assert_eq!(counts(&both, "os/switches_long_delay"), (23, 1));
    assert_eq!(counts(&both, "cores/switch_ps"), (46_000_000, 2_000_000));
    assert_eq!(added(&both), Picos::ZERO);
    let mut program = Program::new();
    for _ in 0..3 {
        let thread = program.thread();
        program.alu(thread, 1_000);
    }
    // The second and the third thread come to the core after another one.
    let both = lab.both(&program.finish(), "skybyte-c", &[]);
    assert_eq!(saved(&both), micros(2 * 2));
    assert_eq!(counts(&both, "cores/switch_ps"), (4_000_000, 0));
}

/// Two cores. Thread 0 ends at once; thread 1 yields at its load, and finds the line in L1D when it
/// comes back. In the artifact it comes back on core 0, which has to ask L3.
pub fn lowest_core_first(lab: &Lab) {
    let mut program = Program::new();
    let (ends, moves) = (program.thread(), program.thread());
    program.alu(ends, 1);
    program.load(moves, 0);
    let delivered = ["cpu.cores=2", "os.delayed_line=delivered"];
    let settings = [BIG_CACHES, &delivered].concat();
    let both = lab.both(&program.finish(), "skybyte-c", &settings);
    let (last, lowest) = counts(&both, "caches/l3_accesses");
    assert_eq!(lowest - last, 1);
    assert_eq!(counts(&both, "os/switches_long_delay"), (1, 1));
}

/// Older than the load are 100 divisions, each of which needs the one before: 26 cycles each, 650
/// ns. The load is dispatched behind them in cycle 25 and answered after 13.5 ns in the core, 40
/// of link and 49 of lookup: at 108.75 ns. A switch of 100 us, which outlasts the flash read,
/// begins there in the artifact and when the divisions have retired in the paper.
pub fn switch_at_response(lab: &Lab) {
    let trace = one_thread(|program, thread| {
        let r = Reg::general(1);
        let divide = Inst::new(OpClass::IntDiv, 0, 3).reading(&[r]).writing(&[r]);
        let divide = program.writer.define(divide);
        for _ in 0..100 {
            program.writer.execute(thread, divide, None, None);
        }
        program.load(thread, 0);
    });
    let settings = ["os.switch_cost=100us", "os.wake=hold_core"];
    let both = lab.both(&trace, "skybyte-c", &settings);
    assert_eq!(counts(&both, "os/switches_long_delay"), (1, 1));
    assert_eq!(counts(&both, "cores/squashed_instructions"), (1, 1));
    assert_eq!(saved(&both), CYCLE * 2_600 - Picos::new(108_750));
}

/// The thread comes back when its page has long come. In the paper its load asks the device
/// again; in the artifact the line is in L1D.
pub fn delayed_lines_delivered(lab: &Lab) {
    let both = lab.both(&one_load(), "skybyte-c", &["os.switch_cost=200us"]);
    assert_eq!(counts(&both, "requests/ssd_cache_hits"), (1, 0));
    assert_eq!(saved(&both), HIT - CYCLE * 4);
    let requests = both.map(|run| run.messages(MessageClass::MemRd));
    assert_eq!(requests, [2, 1]);
}

/// The second load needs the first one's data. Gone at once, the work makes two flash reads one
/// after the other: each takes 13.5 ns in the core and 3 us from when the request leaves the host,
/// less the 5 ns of the way back from there, half of the 10 beyond L2, and the thread goes on.
/// Running on, it has the first line when the answer comes, and the second page is read beside the
/// first. The thread waits for the second too, whose request is 13.5 ns, 20 and 49 and 20 for the
/// answer behind the first one's; when it goes on both lines are in L1D. That saves the second wait
/// but for these 102.5 ns, and a cycle of its exception.
pub fn squashed_work_goes_on(lab: &Lab) {
    let trace = one_thread(|program, thread| {
        program.chase(thread, 0);
        program.chase(thread, 200 * PAGE);
    });
    let delivered = [
        "os.delayed_line=delivered",
        "os.switch_at=response",
        "os.wake=hold_core",
    ];
    let settings = [BIG_CACHES, &delivered].concat();
    let both = lab.both(&trace, "skybyte-c", &settings);
    assert_eq!(counts(&both, "cores/instructions"), (2, 2));
    assert_eq!(counts(&both, "flash/read_pages"), (2, 2));
    assert_eq!(counts(&both, "os/switches_long_delay"), (2, 1));
    let wait = Picos::new(3_013_500 - 5_000 - 102_500);
    assert_eq!(saved(&both), wait + CYCLE);
}

/// A store that waits for its line, on a page that is on flash. In the paper it waits 3 us. In
/// the artifact its thread sleeps until then, hears of it 1 us later, is switched in for 2 us and
/// takes a hit; what the answer's way back takes, 20 ns, it does not wait for, and it begins two
/// cycles later (its first and that of its exception). A device with a log never delays a store.
pub fn stores_switch(lab: &Lab) {
    let trace = one_thread(|program, thread| program.store(thread, 0));
    let settings = ["cpu.stores=waited", "os.wake=on_data"];
    let both = lab.both(&trace, "skybyte-c", &settings);
    assert_eq!(counts(&both, "os/switches_long_delay"), (0, 1));
    let late = micros(1 + 2) + HIT + CYCLE * 2;
    assert_eq!(added(&both), late - Picos::from_nanos(20));
    let both = lab.both(&trace, "skybyte-full", &settings);
    assert_eq!(counts(&both, "os/switches_long_delay"), (0, 0));
    let both = lab.both(&trace, "skybyte-c", &["cpu.stores=posted"]);
    assert_eq!(counts(&both, "os/switches_long_delay"), (0, 0));
}

/// Two cores: thread 0 waits until thread 1 has worked 25 us, and is switched in again for 2;
/// then it works 25 itself. Only the wait itself, a cycle, comes before that. In the artifact
/// both work at once.
pub fn no_thread_edges(lab: &Lab) {
    let mut program = Program::new();
    let syscall = program.writer.syscall();
    let (waits, wakes) = (program.thread(), program.thread());
    let futex = FutexId::new(0);
    let woken_by = Some(Wake {
        thread: wakes,
        count: 1,
    });
    let wait = SyncEvent::FutexWait { futex, woken_by };
    program.writer.execute_sync(waits, syscall, wait);
    program.alu(waits, busy(25));
    program.alu(wakes, busy(25));
    let wake = SyncEvent::FutexWake { futex, count: 1 };
    program.writer.execute_sync(wakes, syscall, wake);
    let settings = ["cpu.cores=2", "os.syscall_cost=0ns"];
    let both = lab.both(&program.finish(), "dram-only", &settings);
    assert_eq!(saved(&both), micros(25 + 2) - CYCLE);
}
