//! The switches of the data cache.

use super::lab::{Lab, ONE_FRAME, added, counts, nanos, one_thread, saved};
use crate::common::{DATA, LINE, PAGE};
use units::Picos;

/// Three clean pages through one frame: the first two leave and are programmed. Nobody waits for
/// that: the third page is on another die. A device with a log programs no victim.
pub fn clean_victims_programmed(lab: &Lab) {
    let trace = one_thread(|program, thread| {
        (0..3).for_each(|page| program.chase(thread, page * PAGE));
    });
    let both = lab.both(&trace, "base-cssd", ONE_FRAME);
    assert_eq!(counts(&both, "flash/program_pages"), (0, 2));
    assert_eq!(both[0].time(), both[1].time());
    let log = ["ssd.dram=8KiB", "ssd.log.size=4KiB", "ssd.cache.ways=1"];
    let both = lab.both(&trace, "skybyte-w", &log);
    assert_eq!(counts(&both, "flash/program_pages"), (0, 0));
}

/// A written page leaves the only frame for page 1, and is read again while it is programmed. The
/// paper's device has it in a buffer. The artifact's reads it from flash, behind the program,
/// which is the first one and so on the first die, where page 0 is: 100 us and 3 us from the
/// start of the program. That was 3102.5 ns before: page 1's read takes 3 us from 46 ns before
/// the program on, in which its victim is copied out of the frame; its own way into the frame 46
/// ns, two halves of the link 40 ns, the core 13.5 ns, the lookup 49 ns. Sum 3148.5 - 46.
pub fn no_buffer_hits(lab: &Lab) {
    let trace = one_thread(|program, thread| {
        program.chase(thread, 0);
        program.store(thread, LINE);
        // The stored line leaves the caches.
        (2..8).for_each(|line| program.chase(thread, line * LINE));
        program.chase(thread, PAGE);
        program.chase(thread, 9 * LINE);
    });
    let both = lab.both(&trace, "base-cssd", ONE_FRAME);
    assert_eq!(counts(&both, "requests/ssd_buffer_hits"), (1, 0));
    assert_eq!(counts(&both, "flash/host_read_pages"), (2, 3));
    assert_eq!(added(&both), Picos::new(103_000_000 - 3_102_500));
}

/// Two frames of one way each. Two pages that follow one another in the capture take one each;
/// their virtual numbers are 64 apart, so both are for the same one: the second loads of both miss
/// again, 3 us each.
pub fn virtual_page_numbers(lab: &Lab) {
    let trace = one_thread(|program, thread| {
        for line in 0..2 {
            program.chase(thread, line * LINE);
            program.chase(thread, 64 * PAGE + line * LINE);
        }
    });
    let two = ["ssd.dram=8KiB", "ssd.log.size=0B", "ssd.cache.ways=1"];
    let both = lab.both(&trace, "base-cssd", &two);
    assert_eq!(counts(&both, "flash/read_pages"), (2, 4));
    assert_eq!(added(&both), nanos(2 * 3_000));
}

/// The load of page 0 fetches page 1 as well, which is there when it is asked for; without that
/// it takes another 3 us.
pub fn no_prefetch(lab: &Lab) {
    let trace = one_thread(|program, thread| {
        (0..2).for_each(|page| program.chase(thread, page * PAGE));
    });
    let both = lab.both(&trace, "base-cssd", &["ssd.prefetch.on_first_use=false"]);
    assert_eq!(counts(&both, "requests/ssd_misses"), (1, 2));
    assert_eq!(counts(&both, "activity/prefetches"), (1, 0));
    assert_eq!(added(&both), nanos(3_000));
}

/// Three loads at once fetch 64 pages each beside their own. The 128 MSHRs of the machine demo
/// take 65 pages of the first and 62 of the second: one is reserved for demand, the third load's.
/// Without a limit all 195 are under way.
///
/// 100 pages through one frame: one leaves each 3148.5 ns, on its way to a die of its own, where
/// a program takes 1 s. The 65th finds 64 buffers taken and waits for the end of the first
/// program.
pub fn unlimited_device_mshrs(lab: &Lab) {
    let trace = one_thread(|program, thread| {
        program.writer.map(DATA, 300);
        (0..3).for_each(|nth| program.load(thread, 100 * nth * PAGE));
    });
    let both = lab.both(&trace, "base-cssd", &["ssd.prefetch.pages=64"]);
    assert_eq!(counts(&both, "flash/read_pages"), (128, 195));

    let trace = one_thread(|program, thread| {
        (0..100).for_each(|page| program.chase(thread, page * PAGE));
    });
    let slow = [
        "ssd.cache.clean_victims=program",
        "nand.t_prog=1s",
        "nand.dies_per_chip=16",
    ];
    let both = lab.both(&trace, "base-cssd", &[ONE_FRAME, &slow].concat());
    // From 46 ns after page 1 was asked for, when the first victim has been copied to its buffer,
    // to when page 65 is, 64 pages later.
    let waited = nanos(46) + Picos::from_micros(1_000_000) - Picos::new(3_148_500) * 64;
    assert_eq!(saved(&both), waited);
}
