//! The switches of the device's latencies and of the link.

use super::lab::{Lab, added, counts, one_thread, saved};
use crate::common::LINE;
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

/// 30 loads of a page, of which the first brings it. It is promoted at once when offered: at the
/// 17th use, which is more than 16, or at the seventh hit, the eighth load. Host DRAM serves the
/// rest.
pub fn promotion_on_7th_hit(lab: &Lab) {
    let settings = [
        "host.migration=instant",
        "host.interrupt_latency=0ps",
        "host.handler_cost=0ps",
        "host.page_table_cost=0ps",
        "host.shootdown_cost=0ps",
        "host.reserve=0",
    ];
    let both = lab.both(&lines(30), "skybyte-p", &settings);
    assert_eq!(counts(&both, "requests/host_reads"), (30 - 17, 30 - 8));
}
