//! What the fidelity switches of the device do, one by one, on a few requests each: the paper's
//! way and the artifact's side by side.

use crate::device::*;
use firmware::{
    Answer, CleanVictims, Controller, ControllerConfig, Cost, LogMode, LogTakes,
    PowerLossProtection, PromotionCounts, RequestOp, Served,
};
use units::{Bytes, Lpa, Picos, Ratio};

/// A configuration without a log: one set of 8 frames.
fn without_log() -> ControllerConfig {
    let mut config = config(1);
    config.ssd.dram = Bytes::from_kib(32);
    config.ssd.log.size = Bytes::ZERO;
    config
}

/// A page with a line of the host and a frame that survives leaves the device for the host's DRAM,
/// or for flash: its frame counts no more. [`Device::send`] looks.
#[test]
fn a_frame_that_a_page_leaves_by_promotion_or_demotion_counts_no_more() {
    let mut config = without_log();
    config.promotion_enabled = true;
    config.ssd.power_loss_protection = PowerLossProtection::Dram;
    let write = |device: &mut Device, line| device.send(7, RequestOp::Write, 1, line);
    let page = Lpa::new(1);
    for is_resident in [true, false] {
        let mut device = Device::new(&config);
        if is_resident {
            device.fetch(1);
        }
        write(&mut device, 3);
        let (now, bench) = (device.now, &mut device.bench);
        device.controller.on_promotion_forgotten(now, page, bench);
        device.answers();
        // The host gives it back, line by line.
        write(&mut device, 3);
        write(&mut device, 4);
        device.settle(Picos::from_micros(5));
        assert_eq!(device.bench.tables.frames.len(), 1);
        let (now, bench) = (device.now, &mut device.bench);
        assert!(device.controller.on_promotion_done(now, page, bench));
        device.answers();
        assert!(device.bench.tables.frames.is_empty());
    }
    let mut device = Device::new(&config);
    write(&mut device, 3);
    let (now, bench) = (device.now, &mut device.bench);
    assert!(device.controller.on_promotion_done(now, page, bench));
    write(&mut device, 4);
    device.settle(Picos::from_micros(5));
    let (now, bench) = (device.now, &mut device.bench);
    assert!(device.controller.program_resident(now, page, bench));
    device.answers();
}

fn programs(controller: &Controller) -> u64 {
    controller.ftl_stats().host_programs
}

/// Nine clean pages through eight frames: one page leaves. The paper programs nothing, the
/// artifact that page.
#[test]
fn a_clean_victim_is_programmed_if_so_switched() {
    for (clean_victims, expected) in [(CleanVictims::Drop, 0), (CleanVictims::Program, 1)] {
        let mut config = without_log();
        config.ssd.cache.clean_victims = clean_victims;
        let mut device = Device::new(&config);
        (0..9).for_each(|page| device.fetch(page));
        assert_eq!(programs(&device.controller), expected);
        assert_eq!(device.controller.stats().evictions_clean, 1);
    }
}

/// With a log nothing that leaves the cache is programmed, even in the artifact.
#[test]
fn a_clean_victim_of_a_device_with_a_log_is_never_programmed() {
    let mut config = config(16);
    config.ssd.cache.clean_victims = CleanVictims::Program;
    let mut device = Device::new(&config);
    (0..9).for_each(|page| device.fetch(page));
    assert_eq!(programs(&device.controller), 0);
}

/// Page 0 is dirty and has just left for flash. The paper's device still has it in a buffer: no
/// flash read. The artifact reads flash again: the 9th read of a page after eight fetches... and
/// the newest bytes come all the same.
#[test]
fn a_page_on_its_way_to_flash_is_read_from_flash_if_so_switched() {
    for (buffer_hits, served, reads) in [(true, Served::BufferHit, 9), (false, Served::Flash, 10)] {
        let mut config = without_log();
        config.ssd.buffer_hits = buffer_hits;
        let mut device = Device::new(&config);
        (0..8).for_each(|page| device.fetch(page));
        device.send(7, RequestOp::Write, 0, 3);
        // The written page is the most recently used: seven others are used after it.
        for page in 1..8 {
            device.send(1, READ, page, 0);
        }
        device.send(2, READ, 8, 0);
        let mut answers = device.send(3, READ, 0, 3);
        answers.extend(device.settle(Picos::from_micros(500)));
        let answer = answers
            .iter()
            .find(|answer| answer.request.get() == 3)
            .expect("it is answered");
        assert_eq!(answer.served, served);
        assert_eq!(device.bench.host[3], 7, "the newest bytes");
        assert_eq!(device.controller.ftl_stats().host_reads, reads);
    }
}

/// 2 × 9 entries of 64 B are 1152 B of log, which hold 2 × 8 entries of 72 B.
#[test]
fn longer_entries_make_a_shorter_log() {
    let mut config = config(9);
    assert_eq!(config.ssd.log.half_slot_count(), 9);
    config.ssd.log.entry = Bytes::new(72);
    assert_eq!(config.ssd.log.half_slot_count(), 8);
}

/// A log write takes the log lookup of 72 ns and a line of DRAM, 46 ns: 118 ns. Without the lookup
/// it is the 46 ns that make the artifact's 86 ns with the link's 40.
#[test]
fn a_log_write_without_lookup_takes_dram_alone() {
    for (write_lookup, time) in [
        (Cost::Charged, LOG_LOOKUP + LINE),
        (Cost::Free, Picos::from_nanos(46)),
    ] {
        let mut config = config(16);
        config.ssd.log.write_lookup = write_lookup;
        let mut device = Device::new(&config);
        let answers = device.send(1, RequestOp::Write, 1, 0);
        assert_eq!(answers[0].at, device.now + time);
    }
}

/// The delaying answer leaves after the lookups, 72 ns, or with the artifact's 46 ns beyond them:
/// with the link's 40 ns that is its 158.
#[test]
fn a_delaying_answer_takes_what_a_hit_takes_if_so_switched() {
    for extra in [Picos::ZERO, Picos::from_nanos(46)] {
        let mut config = config(16);
        config.delay_enabled = true;
        config.ssd.delay_answer_cost = extra;
        let mut device = Device::new(&config);
        let answers = device.send(1, READ, 1, 0);
        assert_eq!(answers[0].answer, Answer::Delay);
        assert_eq!(answers[0].at, device.now + LOG_LOOKUP + extra);
        assert_eq!(answers[0].breakdown.dram, extra);
    }
}

/// Two lines of page 1 are in the log when the page comes from flash after 3 us. Their merge is
/// one access of 46 ns (both start together), then the page is written, 1054 ns; free, the page
/// alone.
#[test]
fn merging_log_lines_into_a_page_that_comes_may_be_free() {
    for (merge_on_fill, time) in [(Cost::Charged, LINE + PAGE), (Cost::Free, PAGE)] {
        let mut config = config(16);
        config.ssd.log.merge_on_fill = merge_on_fill;
        let mut device = Device::new(&config);
        device.send(1, RequestOp::Write, 1, 0);
        device.send(2, RequestOp::Write, 1, 1);
        device.send(3, READ, 1, 9);
        let answers = device.settle(Picos::from_micros(3));
        assert_eq!(answers[0].at, device.now + time);
    }
}

/// Page 0 is the oldest of eight; a log write of it makes it the newest in the paper, so page 1
/// leaves for page 8. In the artifact the cache does not notice, and page 0 leaves.
#[test]
fn a_log_write_touches_the_cached_page_unless_switched_off() {
    for (updates, first_is_cached) in [(true, true), (false, false)] {
        let mut config = config(16);
        config.ssd.log.write_updates_cache = updates;
        let mut device = Device::new(&config);
        (0..8).for_each(|page| device.fetch(page));
        device.send(7, RequestOp::Write, 0, 3);
        let written = device.controller.copies_of(units::LineAddr::new(3));
        assert!(written.frame.is_some() && written.log.is_some());
        device.fetch(8);
        let copies = device.controller.copies_of(units::LineAddr::new(0));
        assert_eq!(copies.frame.is_some(), first_is_cached);
    }
}

/// Page 1 comes for one read that waited, is read six more times and written twice by way of the
/// log. Beyond a threshold of 6 the paper's count of 9 uses offers it at the 7th use; the
/// artifact's count of 6 cache hits does not offer it before one more.
#[test]
fn only_cache_hits_make_a_page_hot_if_so_switched() {
    for (counts, before, after) in [
        (PromotionCounts::Uses, 1, 1),
        (PromotionCounts::CacheHits, 0, 1),
    ] {
        let mut config = config(16);
        config.promotion_enabled = true;
        config.ssd.promotion.threshold = 6;
        config.ssd.promotion.counts = counts;
        let mut device = Device::new(&config);
        device.send(1, READ, 1, 0);
        device.settle(Picos::from_micros(5));
        for line in 0..2 {
            device.send(2, RequestOp::Write, 1, 40 + line);
        }
        for line in 0..6 {
            device.send(3, READ, 1, line);
        }
        assert_eq!(device.bench.offers.len(), before, "{counts:?}");
        device.send(3, READ, 1, 6);
        assert_eq!(device.bench.offers.len(), after, "{counts:?}");
    }
}

/// A half of two lines of page 1, which is cached, is compacted: the page is copied from its frame,
/// 1054 ns, after a firmware core has taken 500 ns. Free of charge nothing takes time, so the
/// program starts when the half is full.
#[test]
fn compaction_may_cost_nothing_but_flash() {
    for (copies, core, expected) in [
        (Cost::Charged, Picos::from_nanos(500), PAGE),
        (Cost::Free, Picos::ZERO, Picos::ZERO),
    ] {
        let mut config = config(2);
        config.ssd.compaction.copies = copies;
        config.ssd.compaction.page_cost = core;
        let mut device = Device::new(&config);
        device.fetch(1);
        device.send(1, RequestOp::Write, 1, 0);
        device.send(2, RequestOp::Write, 1, 1);
        let begun = device.now;
        device.settle(core);
        let submitted = device.bench.last_program.expect("the page was programmed");
        assert_eq!(submitted, begun + core + expected);
    }
}

/// Two halves of two lines: four writes fill both while nothing reaches flash, the fifth waits. In
/// a ring of four it does not.
#[test]
fn a_ring_never_holds_a_write_back() {
    for (mode, answered) in [(LogMode::Halves, 0), (LogMode::Ring, 1)] {
        let mut config = config(2);
        config.ssd.log.mode = mode;
        let mut device = Device::new(&config);
        for page in 0..4 {
            assert_eq!(device.send(1, RequestOp::Write, page, 0).len(), 1);
        }
        let answers = device.send(2, RequestOp::Write, 4, 0);
        assert_eq!(answers.len(), answered, "{mode:?}");
    }
}

/// Two lines fill a half: page 1 is on its way to flash when another line of it and one of page 2
/// are logged. Halves: one page is programmed, the other half is not full. A ring is compacted
/// until it is empty: page 1 takes the later line along, then page 2 follows; nothing is left.
#[test]
fn a_ring_is_compacted_until_it_is_empty() {
    for (mode, programs_done, lines, is_left) in
        [(LogMode::Halves, 1, 2, true), (LogMode::Ring, 2, 4, false)]
    {
        let mut config = config(2);
        config.ssd.log.mode = mode;
        // One page at a time, and room in the other half for both lines.
        config.ssd.dram += Bytes::new(128);
        config.ssd.log.size += Bytes::new(128);
        let mut device = Device::new(&config);
        for line in 0..3 {
            device.send(1, RequestOp::Write, 1, line);
        }
        // Half of three lines is sealed; these come while its page waits for its core.
        device.send(5, RequestOp::Write, 1, 9);
        device.send(6, RequestOp::Write, 2, 0);
        device.settle(Picos::from_micros(500));
        assert_eq!(programs(&device.controller), programs_done, "{mode:?}");
        let stats = device.controller.stats();
        assert_eq!(stats.compacted_lines, lines + 1, "{mode:?}");
        let copies = device.controller.copies_of(units::LineAddr::new(2 * 64));
        assert_eq!(copies.log.is_some(), is_left, "{mode:?}");
        let answers = device.send(7, READ, 1, 9);
        assert!(answers.is_empty() || answers[0].answer == Answer::Data);
        device.settle(Picos::from_micros(500));
        assert_eq!(device.bench.host[7], 5, "the newest bytes");
    }
}

/// Three lines of two pages lie in a log of 32: warm-up's residue. Drained, they are two reads and
/// two programs, and the log is empty.
#[test]
fn a_drained_log_costs_a_read_and_a_program_for_each_page_in_it() {
    let mut device = Device::new(&config(16));
    for (page, line) in [(1, 0), (1, 1), (2, 0)] {
        device.send(1, RequestOp::Write, page, line);
    }
    device.controller.drain_log(device.now, &mut device.bench);
    device.settle(Picos::from_micros(500));
    assert_eq!(device.controller.stats().coalescing_reads, 2);
    assert_eq!(programs(&device.controller), 2);
    for (page, line) in [(1, 0), (1, 1), (2, 0)] {
        let copies = device
            .controller
            .copies_of(units::LineAddr::new(page * 64 + line));
        assert_eq!(copies.log, None);
    }
}

/// Lines of eight pages lie in both halves, of which one is being compacted when the log is
/// drained: each page is programmed once for both, but for what had begun, with its newest lines.
#[test]
fn a_drain_programs_pages_of_both_halves_once() {
    let mut config = config(16);
    config.ssd.compaction.batch = 1;
    let mut device = Device::new(&config);
    for line in [0, 1, 2, 1] {
        for page in 1..=8 {
            device.send(
                100 * line as u32 + page as u32,
                RequestOp::Write,
                page,
                line,
            );
        }
    }
    device.controller.drain_log(device.now, &mut device.bench);
    device.send(7, RequestOp::Write, 5, 2);
    device.settle(Picos::from_micros(500));
    device.controller.drain_log(device.now, &mut device.bench);
    device.settle(Picos::from_micros(500));
    assert!(
        programs(&device.controller) <= 10,
        "{}",
        programs(&device.controller)
    );
    for page in 1..=8 {
        for (line, newest) in [(0, 0), (1, 100), (2, 200)] {
            let at = units::LineAddr::new(page * 64 + line);
            assert_eq!(device.controller.copies_of(at).log, None);
            let newest = if (page, line) == (5, 2) {
                7
            } else {
                newest + page
            };
            device.send(999, READ, page, line);
            device.settle(Picos::from_micros(500));
            assert_eq!(device.bench.host[999], newest, "page {page}, line {line}");
        }
    }
}

/// A line of each of three pages, of which another run has had all, or two, in its data cache:
/// those are not read, and the program of each passes one of the two dies, whether that is all or
/// not. So they are on the same. What is logged afterwards is brought to flash as always.
#[test]
fn what_is_at_hand_is_drained_without_a_read() {
    for (at_hand, reads) in [(vec![1, 2, 3], 0), (vec![2, 3], 1)] {
        let mut config = config(16);
        config.ssd.compaction.batch = 1;
        let mut device = Device::new(&config);
        for page in 1..4 {
            device.send(1, RequestOp::Write, page, 0);
        }
        let pages = at_hand.iter().copied().map(units::Lpa::new).collect();
        device
            .controller
            .drain_log_at_hand(device.now, pages, &mut device.bench);
        device.settle(Picos::from_micros(500));
        assert_eq!(device.controller.stats().coalescing_reads, reads);
        assert_eq!(programs(&device.controller), 3);
        let mut dies: Vec<_> = at_hand
            .iter()
            .map(|page| device.controller.die_of(units::Lpa::new(*page)))
            .collect();
        dies.dedup();
        assert_eq!(dies.len(), 1, "{at_hand:?}");
        for line in 0..16 {
            device.send(1, RequestOp::Write, 2, line);
        }
        device.settle(Picos::from_micros(500));
        assert_eq!(device.controller.stats().coalescing_reads, reads + 1);
    }
}

/// 48 clean pages through 8 frames: 40 programs over two dies. Overwritten as often as GC allows,
/// a die has the two free blocks at which GC starts after a few; fresh, it has 8 pages × 20 blocks.
#[test]
fn a_device_that_was_never_overwritten_collects_no_garbage() {
    for (overwritten, collects) in [(Ratio::percent(1000), true), (Ratio::percent(0), false)] {
        let mut config = without_log();
        config.ssd.cache.clean_victims = CleanVictims::Program;
        config.ftl.overwritten = overwritten;
        let mut device = Device::new(&config);
        (0..48).for_each(|page| device.fetch(page));
        assert_eq!(programs(&device.controller), 40);
        assert_eq!(device.controller.ftl_stats().gc_victims > 0, collects);
    }
}

/// Eight frames are full of pages of others, so each page that comes drives one out: one that was
/// written is programmed, and one that was read is dropped, or programmed by the artifact. A page
/// that is numbered keeps out of their way.
#[test]
fn what_others_have_left_in_the_cache_leaves_for_what_comes() {
    for (are_written, clean, programmed) in [
        (true, CleanVictims::Drop, 8),
        (false, CleanVictims::Drop, 0),
        (false, CleanVictims::Program, 8),
    ] {
        let mut config = without_log();
        config.ssd.cache.clean_victims = clean;
        let mut device = Device::new(&config);
        device
            .controller
            .fill_cache_behind(Lpa::new(12), are_written);
        device.controller.number_pages((0..12).rev());
        (0..8).for_each(|page| device.fetch(page));
        assert_eq!(programs(&device.controller), programmed);
    }
}

/// Where the log takes all writes no frame is dirty; where it takes those of absent pages a page of
/// others is dirty in all of its lines, so that it is programmed and not logged.
#[test]
fn what_others_have_written_is_dirty_where_frames_take_writes() {
    for (takes, programmed) in [(LogTakes::All, 0), (LogTakes::Absent, 8)] {
        let mut config = config(64);
        config.ssd.dram = config.ssd.log.size + Bytes::from_kib(32);
        config.ssd.log.takes = takes;
        let mut device = Device::new(&config);
        device.controller.fill_cache_behind(Lpa::new(12), true);
        (0..8).for_each(|page| device.fetch(page));
        device.settle(Picos::from_micros(500));
        assert_eq!(programs(&device.controller), programmed, "{takes:?}");
    }
}
