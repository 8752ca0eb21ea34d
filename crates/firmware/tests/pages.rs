//! The block port: what page requests cost, and how they meet log, data cache and buffers.

use crate::device::*;
use firmware::{BlockWriteAck, Breakdown, PagePlace, RequestOp, Response, Served};
use units::{Picos, RequestId};

/// Writes the tokens `first`, `first + 1`, … to a page.
fn write_page(device: &mut Device, id: u32, page: u64, first: u64) -> Vec<Response> {
    let payload = device.bench.page(PagePlace::Host(RequestId::new(id)));
    for (place, token) in payload.iter_mut().zip(first..) {
        *place = token;
    }
    device.send(id, RequestOp::WritePage, page, 0)
}

/// Reads a page, after all that is in flight has ended; the answer and the tokens.
fn read_page(device: &mut Device, id: u32, page: u64) -> (Response, Vec<u64>) {
    let mut answers = device.send(id, RequestOp::ReadPage, page, 0);
    if answers.is_empty() {
        answers = device.settle(Picos::from_micros(5));
    }
    assert_eq!(answers.len(), 1);
    let place = PagePlace::Host(RequestId::new(id));
    (answers[0], device.bench.page(place).clone())
}

#[test]
fn a_page_read_costs_one_lookup_and_one_page_of_dram() {
    let mut device = Device::new(&config(0));
    let (miss, _) = read_page(&mut device, 1, 1);
    assert_eq!(miss.served, Served::Flash);
    let fetched = Breakdown {
        index: CACHE_LOOKUP,
        // It is asked for after the lookup and has come 5 us after the request.
        flash: Picos::from_micros(5) - CACHE_LOOKUP,
        dram: PAGE,
        ..Breakdown::default()
    };
    assert_eq!(miss.breakdown, fetched);
    let (hit, _) = read_page(&mut device, 2, 1);
    assert_eq!(hit.served, Served::CacheHit);
    assert_eq!(
        (hit.breakdown.index, hit.breakdown.dram),
        (CACHE_LOOKUP, PAGE)
    );
    assert_eq!(device.controller.ftl_stats().host_reads, 1);
}

#[test]
fn a_page_write_is_answered_from_its_buffer_or_after_its_program() {
    let mut device = Device::new(&config(0));
    let answers = write_page(&mut device, 1, 1, 100);
    assert_eq!(answers[0].at, device.now + CACHE_LOOKUP);
    let mut config = config(0);
    config.ssd.block_write_ack = BlockWriteAck::Programmed;
    let mut device = Device::new(&config);
    assert!(write_page(&mut device, 1, 1, 100).is_empty());
    let answers = device.settle(Picos::from_micros(100));
    assert_eq!(answers[0].at, device.now);
    assert_eq!(
        answers[0].breakdown.flash,
        Picos::from_micros(100) - CACHE_LOOKUP
    );
}

/// A log of one line in each half: the line written after the page is compacted while the page is
/// still in its buffer, so the rest of it must come from there and not from flash.
#[test]
fn compaction_takes_the_rest_of_a_page_from_the_buffer_that_is_newer_than_flash() {
    let mut device = Device::new(&config(1));
    write_page(&mut device, 1, 1, 100);
    device.send(2, RequestOp::Write, 1, 5);
    device.settle(Picos::from_micros(200));
    let stats = *device.controller.stats();
    assert_eq!((stats.compacted_pages, stats.coalescing_reads), (1, 0));
    assert_eq!(device.controller.ftl_stats().host_programs, 2);
    let (_, tokens) = read_page(&mut device, 3, 1);
    let expected: Vec<u64> = (0..64)
        .map(|line| if line == 5 { 2 } else { 100 + line })
        .collect();
    assert_eq!(tokens, expected);
}

#[test]
fn a_page_write_takes_the_page_out_of_the_log() {
    let mut device = Device::new(&config(16));
    device.send(1, RequestOp::Write, 1, 5);
    write_page(&mut device, 2, 1, 100);
    device.settle(Picos::from_micros(200));
    let (_, tokens) = read_page(&mut device, 3, 1);
    assert_eq!(tokens, (100..164).collect::<Vec<_>>());
}

/// The frame was dirty; the page write programs what it holds, so it leaves without a program.
#[test]
fn a_page_write_cleans_its_frame() {
    let mut device = Device::new(&config(0));
    device.send(1, RequestOp::Write, 1, 5);
    device.settle(Picos::from_micros(5));
    write_page(&mut device, 2, 1, 100);
    device.settle(Picos::from_micros(200));
    for page in 0..9 {
        read_page(&mut device, 3 + page as u32, 10 + page);
    }
    assert_eq!(device.controller.ftl_stats().host_programs, 1);
    assert_eq!(device.controller.stats().evictions_dirty, 0);
    let (answer, tokens) = read_page(&mut device, 20, 1);
    assert_eq!(answer.served, Served::Flash);
    assert_eq!(tokens, (100..164).collect::<Vec<_>>());
}

#[test]
fn a_page_never_on_flash_is_what_the_log_has_and_zeroes() {
    let mut device = Device::new(&config(16));
    let page = device.controller.logical_page_count() - 1;
    let (answer, tokens) = read_page(&mut device, 1, page);
    assert_eq!((answer.served, tokens), (Served::Unmapped, vec![0; 64]));
    device.send(7, RequestOp::Write, page, 5);
    let (answer, tokens) = read_page(&mut device, 2, page);
    assert_eq!(answer.served, Served::LogHit);
    assert_eq!(answer.breakdown.dram, LINE);
    let expected: Vec<u64> = (0..64).map(|line| if line == 5 { 7 } else { 0 }).collect();
    assert_eq!(tokens, expected);
}

#[test]
fn a_page_write_gives_its_bytes_to_a_frame_resident_or_in_flight() {
    let mut device = Device::new(&config(0));
    device.fetch(1);
    assert!(device.send(1, READ, 2, 0).is_empty());
    device.send(2, RequestOp::Write, 2, 9);
    device.settle(Picos::from_micros(5));
    for page in [1, 2] {
        write_page(&mut device, 3, page, 100);
        let hit = device.send(4, READ, page, 7);
        assert_eq!(hit[0].served, Served::CacheHit);
        assert_eq!(device.bench.host[4], 107);
    }
}
