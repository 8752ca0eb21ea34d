//! The switches of pages in host DRAM and of host DRAM itself.

use super::lab::{CYCLE, Lab, added, counts, nanos, one_thread, saved};
use crate::common::{DATA, LINE, PAGE, Program};
use cxl::MessageClass;
use host::placement::{Location, Reclaimed};
use std::ops::Range;
use trace::TraceFile;
use units::{LineInPage, Lpa, PageSize, Picos, ThreadId};

/// Cycles of the core for a line of host DRAM: DDR5-4800 with 36-38-38, 64 B in 1.667 ns. A row
/// that is open takes 15 + 1.667 ns; one that is not 15.834 ns more, and as much again if another
/// one has to be closed first.
const DDR5: Rows = Rows {
    open: 67,
    closed: 131,
    other: 194,
};
/// As [`DDR5`], of the artifact: 11-25-10 at 1.25 ns, 64 B in 10 ns.
const MACSIM: Rows = Rows {
    open: 95,
    closed: 220,
    other: 270,
};

/// Cycles by the state of the row.
struct Rows {
    open: u64,
    closed: u64,
    other: u64,
}

/// A page is offered at its second access.
const EAGER: &[&str] = &["ssd.promotion.threshold=1"];
/// Promotion in no time: nothing of the paper's path is left.
const INSTANT: &[&str] = &[
    "ssd.promotion.threshold=1",
    "host.migration=instant",
    "host.interrupt_latency=0ps",
    "host.handler_cost=0ps",
    "host.page_table_cost=0ps",
    "host.shootdown_cost=0ps",
    "host.reserve=0",
];

/// Loads of lines of a page, one after the other.
fn loads(program: &mut Program, thread: ThreadId, page: u64, lines: Range<u64>) {
    for line in lines {
        program.chase(thread, page * PAGE + line * LINE);
    }
}

fn ten_loads() -> TraceFile {
    one_thread(|program, thread| loads(program, thread, 0, 0..10))
}

/// Host DRAM has room for two promoted pages, of which one is to be free when a third is offered.
const TWO_PAGES: &[&str] = &["host.promoted=8KiB", "host.reserve=1"];

/// Lines of a promoted page, one after the other. The row that was open before is that of the
/// code.
fn eight_in_host_dram() -> Picos {
    CYCLE * (DDR5.other + 7 * DDR5.open)
}

/// Ten loads of a page, the second of which offers it. In the artifact the other eight find it in
/// host DRAM. In the paper the device serves them in 135 ns each, all before the interrupt and
/// its handler are over after 2 us; later all 64 lines cross the link.
pub fn free_migration(lab: &Lab) {
    let both = lab.both(&ten_loads(), "skybyte-p", EAGER);
    assert_eq!(counts(&both, "requests/host_reads"), (0, 8));
    assert_eq!(saved(&both), nanos(8 * 135) - eight_in_host_dram());
    let trace = one_thread(|program, thread| {
        loads(program, thread, 0, 0..10);
        program.alu(thread, 160_000);
    });
    let both = lab.both(&trace, "skybyte-p", EAGER);
    let copied = both
        .each_ref()
        .map(|run| run.simulation.fabric.placement.stats().lines_copied);
    assert_eq!(copied, [64, 0]);
    assert_eq!(counts(&both, "activity/promotions"), (1, 1));
}

/// A written line of page 0 is in the log when the page becomes hot. The paper's host has the
/// only copy then; in the artifact its copy is clean and the log keeps the line.
pub fn promotion_forgets_dirt(lab: &Lab) {
    let trace = one_thread(|program, thread| {
        program.store(thread, 2 * LINE);
        // The written line leaves the caches with the loads of page 1, which is not hot enough.
        loads(program, thread, 1, 0..8);
        loads(program, thread, 0, 10..18);
    });
    let settings = [INSTANT, &["ssd.promotion.threshold=8"]].concat();
    let both = lab.both(&trace, "skybyte-wp", &settings);
    let expected = [
        (Reclaimed::Copying(Lpa::new(0)), false),
        (Reclaimed::Dropped(Lpa::new(0)), true),
    ];
    for (mut run, (reclaimed, is_logged)) in both.into_iter().zip(expected) {
        let line = Lpa::new(0).line(PageSize::KIB_4, LineInPage::new(2));
        let copies = run.controller().copies_of(line);
        assert_eq!((copies.log.is_some(), copies.frame), (is_logged, None));
        assert_eq!(
            run.simulation.fabric.placement.reclaim(Lpa::new(0)),
            reclaimed
        );
    }
    // So nothing is written when the page makes room for page 2; page 1 takes the other place.
    let trace = one_thread(|program, thread| {
        program.store(thread, 2 * LINE);
        loads(program, thread, 1, 0..8);
        loads(program, thread, 0, 10..18);
        loads(program, thread, 1, 8..20);
        loads(program, thread, 2, 0..20);
        program.alu(thread, 160_000);
    });
    let both = lab.both(&trace, "skybyte-wp", &[&settings, TWO_PAGES].concat());
    assert_eq!(counts(&both, "requests/ssd_writes"), (1 + 64, 1));
}

/// A page that is promoted, then written in host DRAM, then driven out for the third page. The
/// paper writes its 64 lines back; the artifact none of them, but programs the promoted page if
/// there is no log.
pub fn demotion_writes_lost(lab: &Lab) {
    let trace = one_thread(|program, thread| {
        loads(program, thread, 0, 0..2);
        program.store(thread, 2 * LINE);
        // Enough to drive the line out of the caches.
        loads(program, thread, 0, 3..13);
        loads(program, thread, 1, 0..4);
        loads(program, thread, 2, 0..4);
        program.alu(thread, 160_000);
    });
    let settings = [INSTANT, TWO_PAGES].concat();
    for (design, programs) in [("skybyte-wp", 0), ("skybyte-p", 1)] {
        let both = lab.both(&trace, design, &settings);
        assert_eq!(counts(&both, "activity/demotions"), (1, 1));
        assert_eq!(counts(&both, "requests/ssd_writes"), (64, 0), "{design}");
        assert_eq!(
            counts(&both, "flash/host_program_pages"),
            (0, programs),
            "{design}"
        );
    }
}

/// Room for 16 pages. In the paper there is room for pages 0, 8 and 16. In the artifact they are of
/// one set of two, and of 0 and 8 the one accessed longest ago leaves, which is 8.
pub fn lru_host_pages(lab: &Lab) {
    let trace = one_thread(|program, thread| {
        program.writer.map(DATA, 17);
        loads(program, thread, 0, 0..2);
        loads(program, thread, 8, 0..3);
        loads(program, thread, 0, 2..3);
        loads(program, thread, 16, 0..2);
        loads(program, thread, 1, 0..1);
    });
    let room = [
        INSTANT,
        &[
            "host.promoted=64KiB",
            "host.demotion=lost",
            "ssd.promotion.threshold=1",
        ],
    ]
    .concat();
    let both = lab.both(&trace, "skybyte-p", &room);
    for (run, is_kept) in both.iter().zip([true, false]) {
        let locate = |page| run.simulation.fabric.placement.locate(Lpa::new(page));
        assert_ne!(locate(0), Location::Device);
        assert_ne!(locate(16), Location::Device);
        assert_eq!(locate(8) != Location::Device, is_kept);
    }
}

/// Eight loads of a promoted page: 46 ns each.
pub fn host_dram_constant_46ns(lab: &Lab) {
    let both = lab.both(&ten_loads(), "skybyte-p", INSTANT);
    let host_dram = both
        .each_ref()
        .map(|run| run.simulation.fabric.stats.host_dram);
    assert_eq!(host_dram[1], nanos(46) * 8);
    assert_eq!(added(&both), nanos(46) * 8 - eight_in_host_dram());
}

/// The code and 64 lines of a page. The code's row is opened, then the page's for it; of 8 KiB,
/// it has all lines. Rows of 2 KiB have half: the code at 4 MiB and the page at 256 MiB are both in
/// bank 0, of 8 here, and the other half in bank 1.
///
/// Then two lines each of two pages 32 KiB apart, in turn: the same bank by their addresses, where
/// each closes the other's row; in the paper the second page is behind the first, in its row.
pub fn macsim_dram(lab: &Lab) {
    let trace = one_thread(|program, thread| loads(program, thread, 0, 0..64));
    let both = lab.both(&trace, "dram-only", &[]);
    let paper = DDR5.closed + DDR5.other + 63 * DDR5.open;
    let artifact = 2 * MACSIM.closed + MACSIM.other + 62 * MACSIM.open;
    assert_eq!(added(&both), CYCLE * (artifact - paper));
    let trace = one_thread(|program, thread| {
        for address in [0, 8 * PAGE, LINE, 8 * PAGE + LINE] {
            program.chase(thread, address);
        }
    });
    let both = lab.both(&trace, "dram-only", &[]);
    let paper = DDR5.closed + DDR5.other + 3 * DDR5.open;
    let artifact = MACSIM.closed + 4 * MACSIM.other;
    assert_eq!(added(&both), CYCLE * (artifact - paper));
}

/// A flash read takes 60 ms, in which the core waits. Loads of page 0, page 1 and page 0 again:
/// the second at 60 ms, the third at 120. The machine demo scans each 2 ms, which arms both pages
/// before the second load; both later loads take a hint fault of 1 us. At 100 ms, as in the
/// artifact, the second load has gone by; the third faults for nothing.
pub fn tpp_free_of_charge(lab: &Lab) {
    let trace = one_thread(|program, thread| {
        program.chase(thread, 0);
        program.chase(thread, PAGE);
        program.chase(thread, LINE);
    });
    let settings = ["cpu.tlb=true", "nand.t_r=60ms", "os.switch_threshold=1000s"];
    let both = lab.both(&trace, "skybyte-ct", &settings);
    assert_eq!(counts(&both, "activity/hint_scans"), (60, 1));
    assert_eq!(counts(&both, "activity/hint_faults"), (2, 1));
    assert_eq!(saved(&both), Picos::from_micros(2));
}

/// Ten loads of a page. In the paper the first brings it whole, 64 lines, and all are served in
/// host DRAM. In the artifact two are served by the device before the page is promoted, here at
/// once.
///
/// Two sets of one page each: pages 0 and 2 drive each other out though the other set is empty.
pub fn astriflash_by_hotness(lab: &Lab) {
    let settings = [INSTANT, &["os.switch_threshold=1000s"]].concat();
    let both = lab.both(&ten_loads(), "astriflash-cxl", &settings);
    let lines = both.each_ref().map(|run| run.messages(MessageClass::Drs));
    assert_eq!(lines, [64, 2]);
    assert_eq!(counts(&both, "requests/host_reads"), (10, 8));

    let trace = one_thread(|program, thread| {
        loads(program, thread, 0, 0..2);
        loads(program, thread, 2, 0..2);
        loads(program, thread, 1, 0..1);
    });
    let sets = ["host.promoted=8KiB", "astriflash.ways=1"];
    let both = lab.both(&trace, "astriflash-cxl", &[&settings, &sets[..]].concat());
    assert_eq!(counts(&both, "activity/demotions"), (0, 1));
}
