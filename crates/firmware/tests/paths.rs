//! What each path through the controller costs, and what it does to the flash: closed formulas.

use crate::device::*;
use firmware::*;
use units::*;

fn parts(stall: Picos, index: Picos, dram: Picos, flash: Picos) -> Breakdown {
    Breakdown {
        stall,
        index,
        dram,
        flash,
    }
}

fn check(response: &Response, answer: Answer, served: Served, breakdown: Breakdown) {
    let got = (response.answer, response.served, response.breakdown);
    assert_eq!(got, (answer, served, breakdown));
}

#[test]
fn a_cache_hit_costs_its_lookup_and_a_line_of_dram() {
    let mut device = Device::new(&config(16));
    device.fetch(1);
    let answers = device.send(1, READ, 1, 5);
    let breakdown = parts(Picos::ZERO, CACHE_LOOKUP, LINE, Picos::ZERO);
    check(&answers[0], Answer::Data, Served::CacheHit, breakdown);
    assert_eq!(answers[0].at, device.now + CACHE_LOOKUP + LINE);
}

#[test]
fn a_write_and_a_log_hit_cost_the_log_lookup_and_a_line_of_dram() {
    let mut device = Device::new(&config(16));
    let breakdown = parts(Picos::ZERO, LOG_LOOKUP, LINE, Picos::ZERO);
    let written = device.send(7, RequestOp::Write, 1, 5);
    check(&written[0], Answer::Written, Served::Write, breakdown);
    let read = device.send(1, READ, 1, 5);
    check(&read[0], Answer::Data, Served::LogHit, breakdown);
    assert_eq!(device.bench.host[1], 7);
    assert_eq!(device.bench.nand_reads, 0);
}

#[test]
fn a_miss_costs_the_larger_lookup_flash_and_a_page_of_dram() {
    let mut device = Device::new(&config(16));
    assert!(device.send(1, READ, 1, 5).is_empty());
    let answers = device.settle(Picos::from_micros(3) + LOG_LOOKUP);
    let breakdown = parts(Picos::ZERO, LOG_LOOKUP, PAGE, Picos::from_micros(3));
    check(&answers[0], Answer::Data, Served::Flash, breakdown);
}

#[test]
fn an_unmapped_page_costs_no_nand_and_reads_as_zero() {
    let mut device = Device::new(&config(16));
    let last = device.controller.logical_page_count() - 1;
    let answers = device.send(1, READ, last, 0);
    let breakdown = parts(Picos::ZERO, LOG_LOOKUP, Picos::ZERO, Picos::ZERO);
    check(&answers[0], Answer::Data, Served::Unmapped, breakdown);
    assert_eq!(device.bench.host[1], 0);
    assert_eq!(device.bench.finish_any(), None);
}

#[test]
fn one_fetch_serves_all_who_ask_for_the_page_in_order_of_arrival() {
    let mut device = Device::new(&config(16));
    for id in 0..10 {
        assert!(device.send(id, READ, 1, u64::from(id)).is_empty());
    }
    let answers = device.settle(Picos::from_micros(3));
    let order: Vec<u32> = answers.iter().map(|answer| answer.request.get()).collect();
    assert_eq!(order, (0..10).collect::<Vec<_>>());
    assert_eq!(answers[9].served, Served::MergedMiss);
    assert_eq!(device.bench.nand_reads, 1);
}

#[test]
fn a_delay_is_answered_after_the_lookup_and_the_fetch_goes_on() {
    let mut config = config(16);
    config.delay_enabled = true;
    let mut device = Device::new(&config);
    let answers = device.send(1, READ, 1, 0);
    let breakdown = parts(Picos::ZERO, LOG_LOOKUP, Picos::ZERO, Picos::ZERO);
    check(&answers[0], Answer::Delay, Served::Flash, breakdown);
    let merged = device.send(2, READ, 1, 1);
    check(&merged[0], Answer::Delay, Served::MergedMiss, breakdown);
    let must_wait = RequestOp::Read {
        delay_allowed: false,
    };
    assert!(device.send(3, must_wait, 1, 2).is_empty());
    // 1.5 us later at most 1.5 us remain, which is below the threshold.
    device.now += Picos::from_nanos(1500);
    assert!(device.send(4, READ, 1, 3).is_empty());
    assert_eq!(device.settle(Picos::from_nanos(1500)).len(), 2);
    assert_eq!(device.send(5, READ, 1, 0)[0].served, Served::CacheHit);
    let stats = device.controller.stats();
    assert_eq!((stats.delays_threshold, stats.delays_merged), (1, 1));
}

#[test]
fn the_estimator_decides_where_the_threshold_lies_between() {
    let mut config = config(16);
    config.delay_enabled = true;
    config.switch_threshold = Picos::from_micros(6);
    let mut device = Device::new(&config);
    // Pages 0, 2 and 4 share a channel: 3, 6 and 9 us are expected.
    assert!(device.send(1, READ, 0, 0).is_empty());
    assert!(device.send(2, READ, 2, 0).is_empty());
    assert_eq!(device.send(3, READ, 4, 0)[0].answer, Answer::Delay);
    assert!(device.send(4, READ, 1, 0).is_empty());
}

/// Writes without a log until GC stands in the queues, then asks for an absent page.
fn answer_behind_gc(threshold: Picos) -> Option<Answer> {
    let mut config = config(0);
    config.delay_enabled = true;
    config.switch_threshold = threshold;
    config.ftl.fill = Ratio::percent(100);
    config.ftl.overwritten = Ratio::percent(100);
    config.timing = units::Timing::constant(Picos::ZERO, Picos::ZERO, Picos::ZERO);
    let mut device = Device::new(&config);
    let pages = device.controller.logical_page_count();
    for page in 0..pages - 1 {
        device.send(1, RequestOp::Write, page, 0);
        let answers = device.send(2, READ, pages - 1, 0);
        if answers.is_empty() {
            // No GC: the threshold decides, and times of zero are below it.
            device.settle(Picos::from_micros(1));
        } else if answers[0].answer == Answer::Delay {
            assert_eq!(device.controller.stats().delays_gc, 1);
            return Some(Answer::Delay);
        }
        // The page leaves the data cache, so that the next read of it misses again.
        let (now, page) = (device.now, Lpa::new(pages - 1));
        let differs = device
            .controller
            .on_promotion_done(now, page, &mut device.bench);
        assert!(!differs);
    }
    assert!(device.controller.ftl_stats().erases > 0);
    None
}

#[test]
fn a_read_behind_gc_is_delayed_whatever_the_estimate_unless_the_threshold_is_infinite() {
    assert_eq!(
        answer_behind_gc(Picos::from_micros(900)),
        Some(Answer::Delay)
    );
    assert_eq!(answer_behind_gc(Picos::from_micros(1_000_000_000)), None);
}

#[test]
fn a_full_half_is_programmed_once_per_page_and_writes_never_wait_for_it() {
    let mut device = Device::new(&config(16));
    device.fetch(2);
    for id in 0..16u32 {
        // Eight lines of page 1, four of page 2, which is cached, the same four times one of 3.
        let (page, line) = match id {
            0..8 => (1, id),
            8..12 => (2, id),
            _ => (3, 0),
        };
        let answers = device.send(id, RequestOp::Write, page, u64::from(line));
        assert_eq!(answers[0].breakdown.flash, Picos::ZERO);
    }
    device.settle(Picos::from_micros(200));
    let stats = *device.controller.stats();
    assert_eq!((stats.log_fills, stats.compactions), (1, 1));
    assert_eq!(
        (stats.compacted_pages, stats.compacted_cached_pages),
        (3, 1)
    );
    assert_eq!(
        (stats.compacted_lines, stats.coalescing_reads),
        (8 + 4 + 1, 2)
    );
    assert_eq!(stats.compaction_batches, 2);
    assert_eq!(stats.compaction_time, Picos::from_micros(200));
    assert_eq!(device.controller.ftl_stats().host_programs, 3);
    device.send(50, READ, 1, 3);
    device.settle(Picos::from_micros(5));
    assert_eq!(device.bench.host[50], 3);
}

#[test]
fn a_page_logged_as_a_whole_needs_no_coalescing_read() {
    let mut device = Device::new(&config(64));
    for id in 0..64 {
        device.send(id, RequestOp::Write, 1, u64::from(id));
    }
    device.settle(Picos::from_micros(200));
    let stats = device.controller.stats();
    assert_eq!((stats.compacted_pages, stats.coalescing_reads), (1, 0));
}

#[test]
fn writes_wait_while_both_halves_are_full_and_say_how_long() {
    let mut device = Device::new(&config(2));
    for id in 0..4 {
        assert_eq!(device.send(id, RequestOp::Write, u64::from(id), 0).len(), 1);
    }
    assert!(device.send(4, RequestOp::Write, 9, 0).is_empty());
    let answers = device.settle(Picos::from_micros(150));
    let breakdown = parts(Picos::from_micros(150), LOG_LOOKUP, LINE, Picos::ZERO);
    check(&answers[0], Answer::Written, Served::Write, breakdown);
    let stats = device.controller.stats();
    assert_eq!(
        (stats.log_stalls, stats.log_stall_time),
        (1, Picos::from_micros(150))
    );
}

#[test]
fn without_a_log_a_write_miss_is_answered_before_its_page_comes() {
    let mut device = Device::new(&config(0));
    let answers = device.send(7, RequestOp::Write, 1, 5);
    let breakdown = parts(Picos::ZERO, CACHE_LOOKUP, LINE, Picos::ZERO);
    check(&answers[0], Answer::Written, Served::Write, breakdown);
    assert_eq!(device.send(1, READ, 1, 5)[0].served, Served::CacheHit);
    device.settle(Picos::from_micros(3));
    assert_eq!(device.bench.nand_reads, 1);
    assert_eq!(device.send(2, READ, 1, 5)[0].served, Served::CacheHit);
    assert_eq!(device.bench.host[2], 7);
}

#[test]
fn only_dirty_pages_are_programmed_when_they_leave() {
    let mut device = Device::new(&config(0));
    device.send(7, RequestOp::Write, 0, 5);
    for page in 1..17 {
        device.fetch(page);
    }
    let stats = device.controller.stats();
    assert_eq!((stats.evictions_dirty, stats.evictions_clean), (1, 8));
    assert_eq!(device.controller.ftl_stats().host_programs, 1);
}

#[test]
fn a_miss_without_a_free_mshr_waits_and_says_how_long() {
    let mut device = Device::new(&config(16));
    for page in 0..5 {
        assert!(device.send(page as u32, READ, page, 0).is_empty());
    }
    let answers = device.settle(Picos::from_micros(3));
    let waited = Picos::from_micros(3) - LOG_LOOKUP;
    let breakdown = parts(waited, LOG_LOOKUP, PAGE, Picos::ZERO);
    let last = answers
        .iter()
        .find(|answer| answer.request == RequestId::new(4));
    check(
        last.expect("it is answered"),
        Answer::Data,
        Served::Flash,
        breakdown,
    );
    assert_eq!(device.controller.stats().miss_stalls, 1);
}

#[test]
fn infinite_dram_costs_the_dram_path_only_after_the_first_touch() {
    let mut config = config(16);
    let pages = Controller::new(&config).logical_page_count();
    config.ssd.dram = config.ssd.log.size + Bytes::from_kib(4) * (8 * pages);
    let mut device = Device::new(&config);
    for page in 0..pages / 2 {
        device.fetch(page);
    }
    let reads = device.bench.nand_reads;
    for page in 0..pages / 2 {
        let answers = device.send(1, READ, page, 9);
        let breakdown = parts(Picos::ZERO, CACHE_LOOKUP, LINE, Picos::ZERO);
        check(&answers[0], Answer::Data, Served::CacheHit, breakdown);
    }
    assert_eq!(device.bench.nand_reads, reads);
}

#[test]
fn the_next_pages_are_prefetched_on_demand_misses_only() {
    let mut config = config(16);
    config.ssd.prefetch.pages = 2;
    let mut device = Device::new(&config);
    device.send(1, READ, 4, 0);
    device.settle(Picos::from_micros(3));
    for page in [5, 6] {
        assert_eq!(device.send(1, READ, page, 0)[0].served, Served::CacheHit);
    }
    let stats = device.controller.stats();
    assert_eq!((stats.prefetches, stats.prefetches_useful), (2, 2));
    assert_eq!(device.bench.nand_reads, 3);
}

#[test]
fn a_page_is_offered_once_beyond_the_threshold_and_leaves_with_its_log_lines() {
    let mut config = config(16);
    config.promotion_enabled = true;
    let mut device = Device::new(&config);
    device.fetch(1);
    for id in 0..6 {
        device.send(id, READ, 1, 0);
        assert_eq!(
            device.bench.offers.len(),
            usize::from(id >= 3),
            "after {id}"
        );
    }
    device.send(7, RequestOp::Write, 1, 5);
    let page = Lpa::new(1);
    let copy = device.send(8, RequestOp::PromotionRead, 1, 5);
    assert_eq!(
        (copy[0].served, device.bench.host[8]),
        (Served::CacheHit, 7)
    );
    assert!(
        device
            .controller
            .on_promotion_done(device.now, page, &mut device.bench)
    );
    let copies = device.controller.copies_of(LineAddr::new(64 + 5));
    assert_eq!((copies.log, copies.frame), (None, None));
    device.fetch(1);
    assert!(
        !device
            .controller
            .on_promotion_done(device.now, page, &mut device.bench)
    );
}

/// Offers so far after each use of page 1, which another page drives out after its second use; it
/// is offered beyond 3 uses. It makes no difference whether who misses waits or comes again.
fn offers_after_a_return(remembers: bool, fetch_uses: u32) -> Vec<usize> {
    let [waits, comes_again] = [false, true].map(|delays| offers(delays, remembers, fetch_uses));
    assert_eq!(waits, comes_again, "{remembers} {fetch_uses}");
    waits
}

fn offers(delays: bool, remembers: bool, fetch_uses: u32) -> Vec<usize> {
    let mut config = config(16);
    config.promotion_enabled = true;
    config.delay_enabled = delays;
    config.ssd.cache.ways = 1;
    config.ssd.promotion.remembers = remembers;
    config.ssd.promotion.fetch_uses = fetch_uses;
    let mut device = Device::new(&config);
    let mut offers = Vec::new();
    for page in [1, 1, 9, 1, 1, 1, 1] {
        let answers = device.send(1, READ, page, 0);
        device.settle(Picos::from_micros(5));
        if answers.iter().any(|answer| answer.answer == Answer::Delay) {
            assert_eq!(device.send(1, READ, page, 0)[0].served, Served::CacheHit);
        }
        if page == 1 {
            offers.push(device.bench.offers.len());
        }
    }
    offers
}

#[test]
fn uses_count_on_when_a_page_comes_back_and_a_fetch_counts_as_uses() {
    assert_eq!(offers_after_a_return(false, 0), [0, 0, 0, 0, 0, 1]);
    assert_eq!(offers_after_a_return(true, 0), [0, 0, 0, 1, 1, 1]);
    // A fetch and its use are 3; nobody answers the offer, so there is no other.
    assert_eq!(offers_after_a_return(false, 2), [0, 1, 1, 1, 1, 1]);
    // Two uses and a fetch of before, and the same of the other fetch.
    assert_eq!(offers_after_a_return(true, 1), [0, 0, 1, 1, 1, 1]);
}

#[test]
fn a_declined_page_is_offered_again_when_it_is_hot_again() {
    let mut config = config(16);
    config.promotion_enabled = true;
    let mut device = Device::new(&config);
    device.fetch(1);
    for round in 1..4 {
        for id in 0..4 {
            device.send(id, READ, 1, 0);
        }
        assert_eq!(device.bench.offers.len(), round);
        device.controller.on_promotion_refused(Lpa::new(1));
    }
}

#[test]
fn a_line_written_to_a_cached_page_is_in_log_and_frame() {
    let mut device = Device::new(&config(16));
    device.fetch(1);
    device.send(7, RequestOp::Write, 1, 5);
    let copies = device.controller.copies_of(LineAddr::new(64 + 5));
    let (slot, frame) = (copies.log.unwrap(), copies.frame.unwrap());
    let line = units::LineInPage::new(5);
    assert_eq!(device.bench.peek(Cell::Log(slot)), 7);
    assert_eq!(
        device.bench.peek(Cell::Page(PagePlace::Frame(frame), line)),
        7
    );
}

#[test]
fn a_cached_page_takes_its_writes_alone_and_leaves_few_lines_to_the_log() {
    let mut config = config(16);
    config.ssd.dram = config.ssd.log.size + Bytes::from_kib(4);
    config.ssd.log.takes = LogTakes::Absent;
    config.ssd.log.sparse = 2;
    let mut device = Device::new(&config);
    let (first, second) = (LineAddr::new(64 + 5), LineAddr::new(64 + 6));
    device.fetch(1);
    let written = device.send(7, RequestOp::Write, 1, 5);
    let breakdown = parts(Picos::ZERO, CACHE_LOOKUP, LINE, Picos::ZERO);
    check(&written[0], Answer::Written, Served::Write, breakdown);
    assert_eq!(device.controller.copies_of(first).log, None);
    // Its frame is the only one: another page drives it out.
    device.fetch(2);
    let slot = device
        .controller
        .copies_of(first)
        .log
        .expect("one line is few");
    assert_eq!(device.bench.peek(Cell::Log(slot)), 7);
    assert_eq!(device.controller.copies_of(second).log, None);
    assert_eq!(device.controller.ftl_stats().host_programs, 0);
    let read = device.send(8, READ, 1, 5);
    assert_eq!((read[0].served, device.bench.host[8]), (Served::LogHit, 7));
    device.controller.audit();
}

#[test]
fn a_page_with_more_dirty_lines_is_programmed_and_leaves_the_log() {
    let mut config = config(16);
    config.ssd.dram = config.ssd.log.size + Bytes::from_kib(4);
    config.ssd.log.takes = LogTakes::Absent;
    config.ssd.log.sparse = 2;
    let mut device = Device::new(&config);
    let logged = LineAddr::new(64 + 5);
    // The page is absent: its line goes to the log.
    device.send(7, RequestOp::Write, 1, 5);
    assert!(device.controller.copies_of(logged).log.is_some());
    device.fetch(1);
    for (id, line) in [(9, 6), (10, 7), (11, 8)] {
        device.send(id, RequestOp::Write, 1, line);
    }
    device.fetch(2);
    assert_eq!(device.controller.ftl_stats().host_programs, 1);
    assert_eq!(device.controller.copies_of(logged).log, None);
    device.fetch(1);
    for (id, line, expected) in [(1, 5, 7), (2, 6, 9), (3, 8, 11)] {
        device.send(id, READ, 1, line);
        assert_eq!(device.bench.host[id as usize], expected);
    }
    device.controller.audit();
}

#[test]
fn a_miss_that_is_answered_from_the_register_does_not_wait_for_its_frame() {
    let mut config = config(16);
    config.ssd.miss_answer = MissAnswer::Register;
    let mut device = Device::new(&config);
    assert!(device.send(1, READ, 1, 5).is_empty());
    let answers = device.settle(Picos::from_micros(3) + LOG_LOOKUP);
    let flash = Picos::from_micros(3);
    let breakdown = parts(Picos::ZERO, LOG_LOOKUP, Picos::ZERO, flash);
    check(&answers[0], Answer::Data, Served::Flash, breakdown);
}

/// The first program would go to die 0, which is reading page 0 when page 3 is programmed: by
/// compaction, or without a log because page 5 needs its frame, one of two.
fn die_of_a_written_page(half: u64, program_to: ProgramTo) -> DieId {
    let mut config = config(half);
    config.ftl.program_to = program_to;
    config.ssd.dram = config.ssd.log.size + Bytes::from_kib(8);
    config.ssd.cache.ways = 2;
    let mut device = Device::new(&config);
    device.fetch(3);
    device.send(1, RequestOp::Write, 3, 0);
    device.send(2, READ, 0, 0);
    device.controller.drain_log(device.now, &mut device.bench);
    assert_eq!(device.bench.timers.len(), usize::from(half > 0));
    if half > 0 {
        device.step();
    }
    device.send(3, READ, 5, 0);
    assert!(device.bench.last_program.is_some());
    device.settle(Picos::from_micros(200));
    device
        .controller
        .die_of(Lpa::new(3))
        .expect("page 3 is on flash")
}

#[test]
fn a_page_is_programmed_on_an_idle_die_whatever_it_comes_from() {
    for half in [0, 16] {
        let die = |program_to| die_of_a_written_page(half, program_to);
        assert_eq!(die(ProgramTo::InTurn), DieId::new(0), "log of {half}");
        assert_eq!(die(ProgramTo::IdleDie), DieId::new(1), "log of {half}");
    }
}

#[test]
fn compaction_leaves_buffers_to_others() {
    for (leaves, is_answered) in [(0, false), (1, true)] {
        let mut config = config(16);
        config.ssd.buffers = 2;
        config.ssd.compaction.leaves = leaves;
        let mut device = Device::new(&config);
        for page in 1..5 {
            device.send(1, RequestOp::Write, page, 0);
        }
        device.controller.drain_log(device.now, &mut device.bench);
        let answers = device.send(2, RequestOp::WritePage, 9, 0);
        assert_eq!(!answers.is_empty(), is_answered, "{leaves} left");
        device.settle(Picos::from_micros(200));
        assert!(device.controller.is_idle());
    }
}

#[test]
fn a_page_is_owed_until_it_is_on_flash() {
    let owed = |device: &Device| {
        let owed = device.controller.owed();
        (owed.dirty_frames, owed.log_lines, owed.buffered, owed.pages)
    };
    let mut device = Device::new(&config(0));
    device.send(1, RequestOp::WritePage, 2, 0);
    assert_eq!(owed(&device), (0, 0, 1, 1));
    device.settle(Picos::from_micros(200));
    assert_eq!(owed(&device), (0, 0, 0, 0));
    // What is compacted stays in the log until then.
    let mut device = Device::new(&config(16));
    device.send(1, RequestOp::Write, 2, 0);
    assert_eq!(owed(&device), (0, 1, 0, 1));
    device.controller.drain_log(device.now, &mut device.bench);
    while device.bench.last_program.is_none() {
        assert!(device.step());
        assert_eq!(owed(&device), (0, 1, 0, 1));
    }
    device.settle(Picos::from_micros(200));
    assert_eq!(owed(&device), (0, 0, 0, 0));
}

#[test]
fn a_log_that_nobody_writes_to_gives_its_frames_to_pages_that_come_back() {
    let mut config = config(16);
    config.ssd.dram = Bytes::from_kib(4) * 16;
    config.ssd.log.size = Bytes::from_kib(4) * 8;
    config.ssd.log.least = Bytes::from_kib(4) * 2;
    config.ssd.cache.ways = 2;
    let mut device = Device::new(&config);
    let full = device.controller.fullness();
    assert_eq!((full.frames, full.log_slots), (8, 8 * 64));
    // Twelve pages in turn find none of themselves in eight frames.
    let pass = |device: &mut Device| {
        for page in 0..12 {
            if device
                .controller
                .copies_of(LineAddr::new(64 * page))
                .frame
                .is_none()
            {
                device.fetch(page);
            }
        }
    };
    (0..4).for_each(|_| pass(&mut device));
    let shared = device.controller.fullness();
    assert_eq!((shared.frames, shared.log_slots), (14, 2 * 64));
    let before = device.controller.stats().served.flash;
    pass(&mut device);
    assert_eq!(device.controller.stats().served.flash, before);
    device.controller.audit();
}

/// Of pages that come together two are copied at once, and each of the others when one of these has
/// been: when more come later all buffers are free.
#[test]
fn copies_go_on_while_no_page_comes() {
    let mut config = config(16);
    config.ssd.fill = Fill::Buffered;
    config.ssd.fill_buffers = 3;
    config.ssd.cache.policy = CachePolicy::S3Fifo;
    let mut device = Device::new(&config);
    for pages in [1..4, 4..7] {
        for page in pages.clone() {
            assert!(device.send(page as u32, READ, page, 5).is_empty());
        }
        let answers = device.settle(Picos::from_micros(3));
        assert_eq!(answers.len(), 3, "{pages:?}");
        device.settle(Picos::from_micros(10));
    }
    assert_eq!(device.controller.stats().fills_given_up, 0);
}
