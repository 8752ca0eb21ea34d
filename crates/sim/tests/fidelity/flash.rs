//! The switches of the flash.

use super::lab::{Lab, MISS, ONE_DIE, ONE_FRAME, ORDERED, added, counts, nanos, one_thread, saved};
use crate::common::{DATA, LINE, PAGE};
use units::Picos;

/// Two loads at once of pages on one channel and two dies: 3 us both, or one after the other.
pub fn nand_one_unit_per_channel(lab: &Lab) {
    let trace = one_thread(|program, thread| {
        // Page n is on channel n modulo 4 and, at first, on die n modulo 64.
        program.writer.map(DATA, 5);
        program.load(thread, 0);
        program.load(thread, 4 * PAGE);
    });
    let both = lab.both(&trace, "base-cssd", &[]);
    assert_eq!(counts(&both, "requests/ssd_misses"), (2, 2));
    assert_eq!(added(&both), nanos(3_000));
}

/// 4096 B at 2.4 GB/s are 1706.667 ns, 6826.7 cycles of the core, which sees its data at the
/// 6827th.
pub fn no_channel_transfer(lab: &Lab) {
    let trace = one_thread(|program, thread| program.load(thread, 0));
    let both = lab.both(&trace, "base-cssd", &[]);
    assert_eq!(saved(&both), Picos::new(6_827 * 250));
}

/// Two stores fill half of a log of 2 × 2 lines. Their pages are cached; both are programmed at
/// one die from 1 us later on, in 200 us. A load 50 us later waits for both programs. The
/// artifact's waits for the rest of their sum divided by 100 us, which is that of one.
pub fn split_program_timeline(lab: &Lab) {
    let trace = one_thread(|program, thread| {
        (0..2).for_each(|page| program.chase(thread, page * PAGE));
        // More than a window: the pages have come.
        program.alu(thread, 1_000);
        (0..2).for_each(|page| program.store(thread, page * PAGE + LINE));
        // 50 us at four a cycle.
        program.alu(thread, 800_000);
        program.chase(thread, 9 * PAGE);
    });
    let log = [
        "ssd.dram=64KiB",
        "ssd.log.size=256B",
        "link.ownership=write",
    ];
    let both = lab.both(&trace, "skybyte-w", &[ORDERED, ONE_DIE, &log].concat());
    assert_eq!(counts(&both, "flash/host_program_pages"), (2, 2));
    assert_eq!(saved(&both), Picos::from_micros(100));
    // Page 0 leaves for page 1. Its program is behind that read, which does not wait for it.
    let trace = one_thread(|program, thread| {
        (0..2).for_each(|page| program.chase(thread, page * PAGE));
    });
    let settings = [ONE_DIE, ONE_FRAME, &["ssd.cache.clean_victims=program"]].concat();
    let both = lab.both(&trace, "base-cssd", &settings);
    assert_eq!(counts(&both, "flash/host_program_pages"), (1, 1));
    assert_eq!(both[0].time(), both[1].time());
}

/// The threshold is 3 us and so is tR. Algorithm 1 expects 3 us, which is not more, and the load
/// waits. The artifact's comparison says that it is too long.
pub fn exact_delay_estimate(lab: &Lab) {
    let trace = one_thread(|program, thread| program.load(thread, 0));
    let settings = ["os.switch_threshold=3us", "os.wake=on_data"];
    let both = lab.both(&trace, "skybyte-c", &settings);
    assert_eq!(counts(&both, "requests/delayed"), (0, 1));
    // Two pages of one channel at once: the second is on another die and takes 3 us as well.
    // Algorithm 1 adds up 6 us.
    let trace = one_thread(|program, thread| {
        program.writer.map(DATA, 5);
        program.load(thread, 0);
        program.load(thread, 4 * PAGE);
    });
    let settings = ["os.switch_threshold=4us", "os.wake=on_data"];
    let both = lab.both(&trace, "skybyte-c", &settings);
    assert_eq!(counts(&both, "requests/delayed"), (1, 0));
}

/// One die. Page 0 leaves clean and is programmed when page 1 comes; page 2 is read behind that
/// program: 80 us instead of 100.
pub fn program_80us(lab: &Lab) {
    let trace = one_thread(|program, thread| {
        (0..3).for_each(|page| program.chase(thread, page * PAGE));
    });
    let settings = [ONE_DIE, ONE_FRAME, &["ssd.cache.clean_victims=program"]].concat();
    let both = lab.both(&trace, "base-cssd", &settings);
    assert_eq!(counts(&both, "flash/program_pages"), (2, 2));
    assert_eq!(saved(&both), nanos(20_000));
}

/// One die of 20 blocks of a page each, of which 12 are exported and hold data. Twelve pages
/// come, each drives the one before out, and its program makes the block of its old copy garbage.
/// After the sixth of eleven programs 2 blocks are free, less than 3: it and each later one makes
/// GC erase a block without moving anything. The last one is not waited for: 5 × 3 us.
pub fn erase_853us(lab: &Lab) {
    let trace = one_thread(|program, thread| {
        (0..12).for_each(|page| program.chase(thread, page * PAGE));
    });
    let small = [
        "nand.blocks_per_plane=20",
        "nand.pages_per_block=1",
        "nand.erase_share=100%",
        "ftl.over_provisioning=40%",
        "ftl.fill=100%",
        "ssd.cache.clean_victims=program",
    ];
    let both = lab.both(&trace, "base-cssd", &[ONE_DIE, ONE_FRAME, &small].concat());
    assert_eq!(counts(&both, "flash/erased_blocks"), (6, 6));
    assert_eq!(counts(&both, "flash/gc_read_pages"), (0, 0));
    assert_eq!(added(&both), Picos::from_micros(5 * 3));
}

/// A die of 160 blocks of a page each exports 100, of which 80 hold data, or 30: a page beyond
/// takes neither the 3 us of flash nor the 46 ns of its way into device DRAM.
///
/// Thirty pages come, of which 29 leave and are programmed. Overwritten, the die has no more free
/// blocks than GC wants, so a program makes it erase one for it; the last program is still under
/// way when the last page comes. Fresh, it has 130 free blocks.
pub fn no_preconditioning(lab: &Lab) {
    let small = [
        "nand.blocks_per_plane=160",
        "nand.pages_per_block=1",
        "ftl.over_provisioning=37.5%",
    ];
    for (page, was_written) in [(29, true), (30, false)] {
        let trace = one_thread(|program, thread| {
            program.writer.map(DATA, 100);
            program.chase(thread, page * PAGE);
        });
        let both = lab.both(&trace, "base-cssd", &[ONE_DIE, &small].concat());
        let unmapped = u64::from(!was_written);
        assert_eq!(counts(&both, "requests/ssd_unmapped"), (0, unmapped));
        assert_eq!(saved(&both), nanos(3_046) * unmapped);
    }
    let trace = one_thread(|program, thread| {
        (0..30).for_each(|page| program.chase(thread, page * PAGE));
    });
    let leave = ["ssd.cache.clean_victims=program"];
    let settings = [ONE_DIE, ONE_FRAME, &small, &leave].concat();
    let both = lab.both(&trace, "base-cssd", &settings);
    assert_eq!(counts(&both, "flash/erased_blocks"), (28, 0));
    // Two dies and three pages. Page 0 leaves for page 1 and is programmed, 46 ns behind that read
    // and for 100 us, on the first die, where page 2 is, asked for a miss later; or on the second.
    let trace = one_thread(|program, thread| {
        (0..3).for_each(|page| program.chase(thread, page * PAGE));
    });
    let two_dies = [
        "nand.channels=2",
        "nand.chips_per_channel=1",
        "nand.dies_per_chip=1",
    ];
    let both = lab.both(
        &trace,
        "base-cssd",
        &[&two_dies, ONE_FRAME, &leave].concat(),
    );
    assert_eq!(saved(&both), nanos(100_046) - MISS);
}
