//! The switches of the write log.

use super::lab::{BIG_CACHES, Lab, ORDERED, added, counts, nanos, one_thread, saved};
use crate::common::{LINE, PAGE, Program};
use trace::TraceFile;
use units::{Lpa, Picos};

/// A store that waits for its line, which the log takes: 13.5 ns in the core, 40 ns link, 72 ns
/// lookup, 46 ns DRAM, and the cycle in which the next one begins.
const STORE: Picos = Picos::new(171_750);

/// A store miss appends its line to the log.
const APPENDS: &[&str] = &["link.ownership=write"];

/// Stores to a line of each of so many pages, one after the other. They lie in sets of their own.
fn stores(pages: u64) -> TraceFile {
    one_thread(|program, thread| {
        (0..pages).for_each(|page| program.store(thread, page * (PAGE + LINE)));
    })
}

fn settings<'a>(log: &[&'a str]) -> Vec<&'a str> {
    [ORDERED, BIG_CACHES, APPENDS, log].concat()
}

/// 1152 B are two halves of 9 lines of 64 B, or of 8 of 72 B, which eight lines fill.
pub fn log_entries_72_bytes(lab: &Lab) {
    let log = settings(&["ssd.dram=128KiB", "ssd.log.size=1152B"]);
    let both = lab.both(&stores(8), "skybyte-w", &log);
    assert_eq!(counts(&both, "activity/log_fills"), (0, 1));
}

/// 1 KiB is two halves of 8 lines, seven eighths of it two of 7, which seven lines fill. Of 64
/// KiB, 63 are cache: 15 pages of 4 KiB; seven eighths of 63 KiB have 13. A device without a log
/// keeps everything.
pub fn log_seven_eighths(lab: &Lab) {
    let size = ["ssd.dram=64KiB", "ssd.log.size=1KiB"];
    let both = lab.both(&stores(7), "skybyte-w", &settings(&size));
    assert_eq!(counts(&both, "activity/log_fills"), (0, 1));
    // Fourteen pages fit, or one has to leave.
    let trace = one_thread(|program, thread| {
        (0..14).for_each(|page| program.chase(thread, page * PAGE));
    });
    let both = lab.both(&trace, "skybyte-w", &settings(&size));
    let evicted = both
        .each_ref()
        .map(|run| run.controller().stats().evictions_clean);
    assert_eq!(evicted, [0, 1]);
    let both = lab.both(&stores(14), "base-cssd", &settings(&size));
    assert_eq!(both[0].time(), both[1].time());
}

/// A log of 2 × 2 lines. The second store fills a half; its two pages take a firmware core 1 us,
/// are read in 3 us, take their lines along in 46 ns and are programmed in 100 us, side by side.
/// The fifth store comes three stores after the second and waits for the rest of that. A ring has
/// room.
pub fn single_ring_log(lab: &Lab) {
    let log = settings(&["ssd.dram=64KiB", "ssd.log.size=256B"]);
    let both = lab.both(&stores(5), "skybyte-w", &log);
    let three_stores = STORE * 3;
    assert_eq!(saved(&both), nanos(104_046) - three_stores);
}

/// As [`single_ring_log`], where the fifth store waits: not for the core's 1 us and the lines' 46
/// ns.
pub fn compaction_free_of_charge(lab: &Lab) {
    let log = settings(&["ssd.dram=64KiB", "ssd.log.size=256B"]);
    let both = lab.both(&stores(5), "skybyte-w", &log);
    assert_eq!(saved(&both), nanos(1_000 + 46));
}

/// Warm-up is a store, measurement two, which leave a line of each of two pages in the log. The
/// artifact reads and programs these pages when measurement starts, and has forgotten the first.
pub fn warmup_residue_counted(lab: &Lab) {
    let trace = one_thread(|program, thread| {
        (0..3).for_each(|page| program.store(thread, page * PAGE));
        // 125 us.
        program.alu(thread, 2_000_000 - 3);
    });
    // 1 of 2,000,000.
    let both = lab.both(&trace, "skybyte-w", &settings(&["run.warmup=0.00005%"]));
    assert_eq!(counts(&both, "flash/host_program_pages"), (0, 2));
    assert_eq!(counts(&both, "flash/host_read_pages"), (0, 2));
    assert_eq!(counts(&both, "flash/coalescing_read_pages"), (0, 2));

    // Of a page that the first run has cached nothing is read to program it.
    let trace = one_thread(|program, thread| {
        program.chase(thread, LINE);
        program.store(thread, 0);
        program.alu(thread, 2_000_000);
    });
    let both = lab.both(&trace, "skybyte-w", &settings(&["run.warmup=0%"]));
    assert_eq!(counts(&both, "flash/host_program_pages"), (0, 1));
    assert_eq!(counts(&both, "flash/coalescing_read_pages"), (0, 0));

    // Pages 0 and 2 are cached, page 1 is not: it is read and programmed first, and each of the
    // others passes one of eight channels.
    let trace = one_thread(|program, thread| {
        program.chase(thread, LINE);
        program.chase(thread, 2 * PAGE + LINE);
        (0..3).for_each(|page| program.store(thread, page * PAGE));
        program.alu(thread, 500_000);
    });
    let eight = [
        "run.warmup=0%",
        "ssd.compaction.batch=1",
        "nand.channels=8",
        "nand.chips_per_channel=1",
        "nand.dies_per_chip=1",
        "nand.t_prog=1us",
    ];
    let [_, run] = lab.both(&trace, "skybyte-w", &settings(&eight));
    assert_eq!(run.stat("flash/coalescing_read_pages"), 1);
    let [zero, one, two] = [0, 1, 2].map(|page| {
        let die = run.controller().die_of(Lpa::new(page));
        die.expect("the page is on flash").index()
    });
    let passed = [zero + 8 - one, two + 8 - zero].map(|dies| dies % 8);
    assert_eq!(passed, [2, 2]);
}

/// Two frames. Warm-up loads pages 0 and 1 and the line of page 0 again, which its cache has: of
/// that the device hears in the artifact only. Page 2 drives out page 0, or page 1; the next load
/// is of page 0. Two flash reads, or one.
///
/// Two stores of one line in warm-up are one miss and one line in the log, and two lines in the
/// artifact. With those of measurement, they fill half a log of 2 × 4 lines.
pub fn warmup_past_caches(lab: &Lab) {
    let trace = one_thread(|program, thread| {
        [0, PAGE, 0, 2 * PAGE, LINE]
            .iter()
            .for_each(|at| program.chase(thread, *at));
    });
    let two = [
        "run.warmup=60%",
        "ssd.dram=8KiB",
        "ssd.log.size=0B",
        "ssd.cache.ways=2",
    ];
    let both = lab.both(&trace, "base-cssd", &[BIG_CACHES, &two].concat());
    assert_eq!(counts(&both, "flash/read_pages"), (2, 1));

    let trace = one_thread(|program, thread| {
        let pages = [0, 0, 1, 2];
        pages
            .iter()
            .for_each(|page| program.store(thread, page * (PAGE + LINE)));
    });
    let log = ["run.warmup=50%", "ssd.dram=64KiB", "ssd.log.size=512B"];
    let both = lab.both(&trace, "skybyte-w", &settings(&log));
    assert_eq!(counts(&both, "activity/log_fills"), (0, 1));
}

/// A page comes from flash of which a line is logged: that line's way into the page takes 46 ns.
///
/// Two frames, in which pages 0 and 1 come. A line of page 0 is logged, which makes page 0 the
/// younger one, and page 2 drives page 1 out. In the artifact it drives page 0 out, which then
/// comes from flash again: 3 us, and 72 ns for both lookups instead of 49 for a hit.
pub fn no_log_merge_on_fill(lab: &Lab) {
    let trace = one_thread(|program, thread| {
        program.store(thread, 0);
        program.chase(thread, LINE);
    });
    let log = settings(&["ssd.dram=12KiB", "ssd.log.size=4KiB", "ssd.cache.ways=2"]);
    let both = lab.both(&trace, "skybyte-w", &log);
    assert_eq!(saved(&both), nanos(46));

    let trace = one_thread(|program: &mut Program, thread| {
        program.chase(thread, 0);
        program.chase(thread, PAGE);
        // More than a window: one after the other.
        program.alu(thread, 1_000);
        program.store(thread, LINE);
        program.alu(thread, 1_000);
        program.chase(thread, 2 * PAGE);
        program.chase(thread, 2 * LINE);
    });
    let both = lab.both(&trace, "skybyte-w", &log);
    assert_eq!(counts(&both, "flash/host_read_pages"), (3, 4));
    assert_eq!(added(&both), nanos(3_000 + 72 - 49));
}
