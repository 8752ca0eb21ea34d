//! The switches of the device's latencies and of the link.

use super::lab::{Lab, ONE_DIE, ONE_FRAME, added, counts, one_thread, saved};
use crate::common::{LINE, PAGE};
use trace::TraceFile;
use units::Picos;

/// Loads of so many lines of a page, one after the other.
fn lines(count: u64) -> TraceFile {
    one_thread(|program, thread| {
        (0..count).for_each(|line| program.chase(thread, line * LINE));
    })
}

/// A load that hits the data cache takes 40 ns of link, the lookup and a line of DRAM: 49 and 20
/// ns in the paper (an open row: 16 clocks of 0.625 ns, and 64 B at 6.4 GB/s), 72 and 46 in the
/// artifact, so 158 in all. The page's first load takes 3 us in both, and brings the page in: 2
/// channels take 32 lines each, the first with activation in 18 + 16 clocks and 10 ns = 31.25 ns,
/// the others in 10 ns each: 341.25 ns. Ten hits and a miss: 10 × 49 + (72 - 49) + (46 - 341.25)
/// ns.
pub fn constant_device_latencies(lab: &Lab) {
    let both = lab.both(&lines(11), "base-cssd", &[]);
    assert_eq!(counts(&both, "requests/ssd_cache_hits"), (10, 10));
    assert_eq!(
        added(&both),
        Picos::new(490_000 + 23_000 + 46_000 - 341_250)
    );
}

/// A request is a slot of 17 B and its data five, which at 16 GB/s take 1.0625 and 5.3125 ns:
/// 25.5 cycles of the core, which sees its data at the 26th.
pub fn link_without_bandwidth(lab: &Lab) {
    let both = lab.both(&lines(11), "base-cssd", &[]);
    assert_eq!(saved(&both), Picos::new(26 * 250) * 11);
}

/// Promotion in no time: nothing of the paper's path is left.
const INSTANT: &[&str] = &[
    "host.migration=instant",
    "host.interrupt_latency=0ps",
    "host.handler_cost=0ps",
    "host.page_table_cost=0ps",
    "host.shootdown_cost=0ps",
    "host.reserve=0",
];

/// 30 loads of a page, of which the first brings it. It is promoted at once when offered: at the
/// 17th use, which is more than 16, or at the seventh hit, the eighth load. Host DRAM serves the
/// rest.
pub fn promotion_on_7th_hit(lab: &Lab) {
    let both = lab.both(&lines(30), "skybyte-p", INSTANT);
    assert_eq!(counts(&both, "requests/host_reads"), (30 - 17, 30 - 8));
}

/// Four loads of a page, three of them in warm-up; the fourth is more than three, unless the three
/// are forgotten.
pub fn warmup_counts_forgotten(lab: &Lab) {
    let three = ["run.warmup=75%", "ssd.promotion.threshold=3"];
    let both = lab.both(&lines(4), "skybyte-p", &[INSTANT, &three].concat());
    assert_eq!(counts(&both, "activity/promotions"), (1, 0));
}

/// So many loads of a page in warm-up, `idle` cycles behind the first of them, and one in
/// measurement. More than three hits, and the page is promoted. A flash read takes 12,000 cycles.
fn a_hot_page(loads: u64, idle: u64) -> TraceFile {
    one_thread(|program, thread| {
        program.chase(thread, 0);
        program.alu(thread, idle);
        (1..loads).for_each(|line| program.chase(thread, line % 64 * LINE));
        program.chase(thread, 40 * LINE);
        // Warm-up is half of all.
        program.alu(thread, loads + idle - 1);
    })
}

/// Functional warm-up has the page at once: three loads behind the first are three hits, and the
/// first of measurement is the fourth. In the artifact these three find the page on its way, unless
/// they come a flash read later.
///
/// 64 accesses may wait: of 66 loads two come when the page has, of 67 three.
pub fn warmup_waits_for_flash(lab: &Lab) {
    let hits = [
        "run.warmup=50%",
        "ssd.promotion.threshold=3",
        "ssd.promotion.counts=cache_hits",
    ];
    let promoted = |loads, idle| {
        let settings = [INSTANT, &hits].concat();
        let both = lab.both(&a_hot_page(loads, idle), "skybyte-p", &settings);
        counts(&both, "activity/promotions")
    };
    assert_eq!(promoted(4, 0), (1, 0));
    assert_eq!(promoted(4, 11_900), (1, 0));
    assert_eq!(promoted(4, 12_000), (1, 1));
    // The paper's has promoted the page in warm-up.
    assert_eq!(promoted(66, 0), (0, 0));
    assert_eq!(promoted(67, 0), (0, 1));
    designs_with_a_log(lab);
    programs_stand_in_front(lab);
}

/// Behind the page's first load come 70 stores to the page, which the log takes: none waits, so the
/// page is still on its way when the three loads come, which are hits in functional warm-up.
fn designs_with_a_log(lab: &Lab) {
    let trace = one_thread(|program, thread| {
        program.chase(thread, 0);
        (0..70).for_each(|line| program.store(thread, (1 + line % 40) * LINE));
        (0..3).for_each(|line| program.chase(thread, (50 + line) * LINE));
        program.chase(thread, 60 * LINE);
        program.alu(thread, 73);
    });
    let log = [
        "run.warmup=50%",
        "run.warm_accesses=all",
        "run.warm_caches=false",
        "link.ownership=write",
        "ssd.promotion.threshold=3",
        "ssd.promotion.counts=cache_hits",
    ];
    let both = lab.both(&trace, "skybyte-wp", &[INSTANT, &log].concat());
    assert_eq!(counts(&both, "activity/promotions"), (1, 0));
}

/// One die and one frame. Page 1 makes room for page 0 and is programmed, dirty or not, in 100 us,
/// and the read stands behind that: 103 us or 412,000 cycles.
fn programs_stand_in_front(lab: &Lab) {
    let promotes = |idle: u64| {
        let trace = one_thread(|program, thread| {
            program.chase(thread, PAGE);
            program.alu(thread, 12_000);
            program.chase(thread, 0);
            program.alu(thread, idle);
            (1..5).for_each(|line| program.chase(thread, line * LINE));
            program.alu(thread, 12_000 + idle + 4);
        });
        let full = [
            "run.warmup=50%",
            "ssd.cache.clean_victims=program",
            "ssd.promotion.threshold=3",
            "ssd.promotion.counts=cache_hits",
        ];
        let settings = [INSTANT, ONE_FRAME, ONE_DIE, &full].concat();
        let both = lab.both(&trace, "skybyte-p", &settings);
        counts(&both, "activity/promotions")
    };
    assert_eq!(promotes(411_000), (1, 0));
    assert_eq!(promotes(412_000), (1, 1));
}
