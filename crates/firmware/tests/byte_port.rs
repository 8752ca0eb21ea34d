//! The byte port and what goes with it: runs of lines, trim, flush, and what is refused.

use crate::device::*;
use firmware::{
    Answer, Breakdown, PagePlace, PowerLossProtection, Refusal, RequestOp, Response, Served,
};
use units::{Picos, RequestId, TxId};

fn write_run(device: &mut Device, id: u32, page: u64, line: u64, count: u16) -> Vec<Response> {
    let payload = device.bench.page(PagePlace::Host(RequestId::new(id)));
    for (place, token) in payload.iter_mut().zip(u64::from(id) * 100..) {
        *place = token;
    }
    let tx = TxId::NONE;
    device.send(id, RequestOp::WriteRun { count, tx }, page, line)
}

/// Reads a run, after all that is in flight has ended; the answer and the tokens.
fn read_run(
    device: &mut Device,
    id: u32,
    page: u64,
    line: u64,
    count: u16,
) -> (Response, Vec<u64>) {
    let mut answers = device.send(id, RequestOp::ReadRun { count }, page, line);
    if answers.is_empty() {
        answers = device.settle(Picos::from_micros(5));
    }
    assert_eq!(answers.len(), 1);
    let place = PagePlace::Host(RequestId::new(id));
    let tokens = device.bench.page(place)[..usize::from(count)].to_vec();
    (answers[0], tokens)
}

fn refusal(answers: &[Response]) -> Refusal {
    match answers {
        [
            Response {
                answer: Answer::Refused(why),
                breakdown,
                ..
            },
        ] => {
            assert_eq!(*breakdown, Breakdown::default());
            *why
        }
        other => panic!("not a refusal: {other:?}"),
    }
}

#[test]
fn a_run_is_written_and_read_with_one_lookup_and_comes_from_the_log_alone_if_that_has_it_all() {
    let mut device = Device::new(&config(16));
    let written = write_run(&mut device, 3, 1, 5, 4);
    assert_eq!(written[0].breakdown.index, LOG_LOOKUP);
    let (answer, tokens) = read_run(&mut device, 4, 1, 6, 3);
    assert_eq!(
        (answer.served, tokens),
        (Served::LogHit, vec![301, 302, 303])
    );
    assert_eq!(
        (answer.breakdown.index, answer.breakdown.dram),
        (LOG_LOOKUP, LINE)
    );
    assert_eq!(device.bench.nand_reads, 0);
    let (answer, tokens) = read_run(&mut device, 5, 1, 6, 5);
    assert_eq!(
        (answer.served, answer.breakdown.dram),
        (Served::Flash, LINE + PAGE)
    );
    assert_eq!(tokens[..3], [301, 302, 303]);
    assert_eq!(device.bench.nand_reads, 1);
}

#[test]
fn a_run_of_a_page_never_on_flash_is_zeroes_where_the_log_has_nothing() {
    let mut device = Device::new(&config(16));
    let page = device.controller.logical_page_count() - 1;
    let (answer, tokens) = read_run(&mut device, 1, page, 4, 3);
    assert_eq!((answer.served, tokens), (Served::Unmapped, vec![0; 3]));
    write_run(&mut device, 2, page, 5, 1);
    let (answer, tokens) = read_run(&mut device, 3, page, 4, 3);
    assert_eq!((answer.served, tokens), (Served::LogHit, vec![0, 200, 0]));
}

/// Two halves of two lines: the run of 7 waits until compaction has made room for its fifth line
/// and its seventh.
#[test]
fn a_run_longer_than_the_log_is_answered_when_its_last_line_is_in() {
    let mut device = Device::new(&config(2));
    assert!(write_run(&mut device, 1, 1, 10, 7).is_empty());
    let answers = device.settle(Picos::from_micros(200));
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].breakdown.stall, Picos::from_micros(200));
    assert_eq!(device.controller.stats().log_stalls, 1);
    assert_eq!(device.controller.stats().log_appends, 7);
    let (_, tokens) = read_run(&mut device, 2, 1, 10, 7);
    assert_eq!(tokens, (100..107).collect::<Vec<_>>());
}

#[test]
fn a_run_of_a_cached_page_is_in_its_frame_before_compaction_takes_it_from_there() {
    let mut device = Device::new(&config(2));
    device.fetch(1);
    write_run(&mut device, 1, 1, 10, 3);
    device.settle(Picos::from_micros(200));
    assert_eq!(device.controller.stats().compacted_cached_pages, 1);
    for page in 2..10 {
        device.fetch(page);
    }
    let (answer, tokens) = read_run(&mut device, 2, 1, 10, 3);
    assert_eq!(
        (answer.served, tokens),
        (Served::Flash, vec![100, 101, 102])
    );
}

#[test]
fn a_run_without_a_log_goes_into_the_frame() {
    let mut device = Device::new(&config(0));
    write_run(&mut device, 1, 1, 62, 2);
    let (answer, tokens) = read_run(&mut device, 2, 1, 62, 2);
    assert_eq!((answer.served, tokens), (Served::CacheHit, vec![100, 101]));
    device.settle(Picos::from_micros(5));
    let (_, tokens) = read_run(&mut device, 3, 1, 61, 3);
    assert_eq!(tokens[1..], [100, 101]);
}

#[test]
fn a_run_without_lines_or_beyond_its_page_is_refused() {
    let mut device = Device::new(&config(16));
    for (line, count) in [(0, 0), (0, 65), (60, 5), (60, u16::MAX)] {
        let answers = write_run(&mut device, 1, 1, line, count);
        assert_eq!(refusal(&answers), Refusal::BadRun);
        let answers = device.send(2, RequestOp::ReadRun { count }, 1, line);
        assert_eq!(refusal(&answers), Refusal::BadRun);
    }
    assert_eq!(device.controller.stats().refusals, 8);
    assert_eq!(
        write_run(&mut device, 1, 1, 60, 4)[0].answer,
        Answer::Written
    );
}

#[test]
fn a_page_given_up_is_zeroes_wherever_it_was() {
    let mut device = Device::new(&config(16));
    device.fetch(1);
    write_run(&mut device, 1, 1, 3, 2);
    // Page 2 is in a buffer on its way to flash.
    device.send(2, RequestOp::WritePage, 2, 0);
    for page in [1, 2, 3] {
        let answers = device.send(3, RequestOp::Trim, page, 0);
        assert_eq!(answers[0].answer, Answer::Written);
        let (answer, tokens) = read_run(&mut device, 4, page, 0, 64);
        assert_eq!((answer.served, tokens), (Served::Unmapped, vec![0; 64]));
    }
    device.settle(Picos::from_micros(200));
    for page in [1, 2, 3] {
        let (answer, tokens) = read_run(&mut device, 4, page, 0, 64);
        assert_eq!((answer.served, tokens), (Served::Unmapped, vec![0; 64]));
    }
}

#[test]
fn a_page_given_up_while_it_is_fetched_ahead_comes_as_zeroes() {
    let mut config = config(16);
    config.ssd.prefetch.pages = 1;
    let mut device = Device::new(&config);
    write_run(&mut device, 1, 5, 3, 2);
    device.send(2, READ, 4, 0);
    device.send(3, RequestOp::Trim, 5, 0);
    device.settle(Picos::from_micros(5));
    let (answer, tokens) = read_run(&mut device, 4, 5, 0, 64);
    assert_eq!((answer.served, tokens), (Served::CacheHit, vec![0; 64]));
}

#[test]
fn a_flush_finds_nothing_to_do_beside_a_log() {
    let mut device = Device::new(&config(16));
    write_run(&mut device, 1, 1, 3, 2);
    let answers = device.send(2, RequestOp::Flush, 0, 0);
    assert_eq!(
        (answers[0].answer, answers[0].at),
        (Answer::Written, device.now)
    );
}

/// A device without a log whose frame of page 1 is dirty.
fn with_a_dirty_frame(protection: PowerLossProtection) -> Device {
    let mut config = config(0);
    config.ssd.power_loss_protection = protection;
    config.ssd.flush_cost = FLUSH;
    let mut device = Device::new(&config);
    write_run(&mut device, 1, 1, 3, 2);
    device.settle(Picos::from_micros(5));
    assert_eq!(device.bench.last_program, None);
    device
}

const FLUSH: Picos = Picos::from_micros(50);

#[test]
fn with_a_battery_a_flush_without_a_log_is_answered_when_dirty_pages_are_in_buffers() {
    let mut device = with_a_dirty_frame(PowerLossProtection::Battery);
    let answers = device.send(2, RequestOp::Flush, 0, 0);
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].answer, Answer::Written);
    assert_eq!(device.bench.tables.buffers.len(), 1);
}

#[test]
fn without_a_battery_a_flush_is_answered_after_the_programs_and_its_cost() {
    let mut device = with_a_dirty_frame(PowerLossProtection::None);
    assert_eq!(device.send(2, RequestOp::Flush, 0, 0), []);
    let answers = device.settle(Picos::from_micros(200));
    assert_eq!(answers.len(), 1);
    assert_eq!(
        (answers[0].answer, answers[0].at),
        (Answer::Written, device.now + FLUSH)
    );
}

#[test]
fn without_a_battery_only_a_page_that_is_written_through_waits_for_its_program() {
    let mut device = with_a_dirty_frame(PowerLossProtection::None);
    assert_eq!(device.send(2, RequestOp::WritePage, 2, 0).len(), 1);
    assert_eq!(device.send(3, RequestOp::WritePageThrough, 3, 0), []);
    let answers = device.settle(Picos::from_micros(200));
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].request, RequestId::new(3));
}

#[test]
fn a_run_behind_the_logical_space_is_of_the_window_and_of_nothing_else() {
    for log in [0, 16] {
        let mut device = Device::new(&config(log));
        let end = device.controller.logical_page_count();
        write_run(&mut device, 1, end + 1, 3, 2);
        let (answer, tokens) = read_run(&mut device, 2, end + 1, 2, 4);
        assert_eq!(answer.answer, Answer::Data);
        let written = device.bench.window[64 + 3];
        assert_ne!(written, 0);
        assert_eq!(tokens, [0, written, device.bench.window[64 + 4], 0]);
        let stored = device.bench.window.iter().filter(|token| **token != 0);
        assert_eq!(stored.count(), 2);
        device.settle(Picos::from_micros(200));
        assert!(device.controller.is_idle());
        assert_eq!(device.bench.last_program, None, "nothing goes to flash");
    }
}

#[test]
fn transactions_are_refused_by_a_device_that_has_none() {
    let mut device = Device::new(&config(16));
    let tx = TxId::new(1);
    for op in [
        RequestOp::WriteRun { count: 1, tx },
        RequestOp::Commit { tx },
        RequestOp::Abort { tx },
    ] {
        assert_eq!(refusal(&device.send(1, op, 0, 0)), Refusal::Unsupported);
    }
}
