//! What is fetched ahead, when, and how it is counted. Pages 0 to half of the logical space are
//! mapped; there are 8 frames, one set.

use crate::device::{CACHE_LOOKUP, Device, LINE, PAGE, READ, config};
use firmware::{ControllerConfig, PowerLossProtection, RequestOp, Served};
use units::{Bytes, LineAddr, Picos};

fn ahead(pages: u32) -> ControllerConfig {
    let mut config = config(16);
    config.ssd.prefetch.pages = pages;
    config
}

/// Reads a line of each page, one after the other.
fn read_pages(device: &mut Device, pages: &[u64]) {
    for page in pages {
        device.send(0, READ, *page, 0);
        device.settle(Picos::from_micros(5));
    }
}

fn is_cached(device: &Device, page: u64) -> bool {
    let line = LineAddr::new(page * 64);
    device.controller.copies_of(line).frame.is_some()
}

#[test]
fn a_first_use_fetches_ahead_only_if_it_is_told_to() {
    for is_chained in [false, true] {
        let mut config = ahead(1);
        config.ssd.prefetch.on_first_use = is_chained;
        let mut device = Device::new(&config);
        // The miss of 1 brings 2; the first use of 2 brings 3, or else the next miss does.
        read_pages(&mut device, &[1, 2]);
        assert_eq!(is_cached(&device, 3), is_chained);
        // The first use is a hit like any other. A second one teaches and fetches nothing.
        read_pages(&mut device, &[2, 2]);
        assert!(!is_cached(&device, 4));
        assert_eq!(device.bench.nand_reads, 2 + u64::from(is_chained));
    }
}

#[test]
fn pages_fetched_ahead_are_useful_late_or_useless() {
    let mut device = Device::new(&ahead(2));
    // 2 is asked for while it is on its way, 3 after it came: one waits for a page of DRAM after
    // the flash, the other costs a hit.
    device.send(1, READ, 1, 0);
    device.send(2, READ, 2, 0);
    let late = device.settle(Picos::from_micros(5));
    let late = late
        .iter()
        .find(|answer| answer.request.get() == 2)
        .unwrap();
    assert_eq!(
        (late.served, late.at),
        (Served::MergedMiss, device.now + PAGE)
    );
    let hit = device.send(3, READ, 3, 0);
    assert_eq!(hit[0].at, device.now + CACHE_LOOKUP + LINE);
    let stats = *device.controller.stats();
    assert_eq!((stats.prefetches, stats.prefetches_useful), (2, 2));
    assert_eq!((stats.prefetches_late, stats.prefetches_useless), (1, 0));
    // Each brings two more. 15 pages came; of 8 frames the last have 21 to 28, 11 and 12 had to go.
    for page in [10, 20, 23, 26] {
        device.fetch(page);
    }
    let stats = *device.controller.stats();
    assert_eq!((stats.prefetches, stats.prefetches_useful), (10, 2));
    assert_eq!(stats.prefetches_useless, 2);
    assert_eq!(
        [11, 12, 21].map(|page| is_cached(&device, page)),
        [false, false, true]
    );
}

#[test]
fn the_last_mshrs_are_left_to_demand() {
    // 4 MSHRs: the miss takes one, and a page is fetched ahead while more than the reserve is free.
    for (reserve, fetched_ahead) in [(0, 3), (1, 2), (2, 1), (3, 0)] {
        let mut config = ahead(8);
        config.ssd.prefetch.reserve = reserve;
        let mut device = Device::new(&config);
        device.send(1, READ, 1, 0);
        assert_eq!(device.controller.stats().prefetches, fetched_ahead);
    }
}

#[test]
fn a_page_that_is_not_mapped_is_never_fetched_ahead() {
    let mut probe = Device::new(&ahead(0));
    let is_unmapped = |page: &u64| {
        let answers = probe.send(0, READ, *page, 0);
        probe.settle(Picos::from_micros(5));
        answers
            .first()
            .is_some_and(|answer| answer.served == Served::Unmapped)
    };
    let first_unmapped = (0..1000).find(is_unmapped).unwrap();
    let mut device = Device::new(&ahead(3));
    read_pages(&mut device, &[first_unmapped - 2]);
    assert_eq!(device.controller.stats().prefetches, 1);
    assert_eq!(device.bench.nand_reads, 2);
    // Nor beyond the end of the logical space.
    let last = device.controller.logical_page_count() - 1;
    device.send(7, RequestOp::Write, last, 0);
    read_pages(&mut device, &[last]);
    assert_eq!(device.bench.nand_reads, 2);
}

#[test]
fn a_store_stays_though_what_its_page_brings_finds_no_other_frame() {
    for protection in [PowerLossProtection::Battery, PowerLossProtection::Dram] {
        let mut config = config(0);
        (config.ssd.dram, config.ssd.cache.ways) = (Bytes::from_kib(8), 2);
        (config.ssd.prefetch.pages, config.ssd.prefetch.on_first_use) = (1, true);
        config.ssd.buffers = 1;
        config.ssd.power_loss_protection = protection;
        let mut device = Device::new(&config);
        // Frames have 0 and 1, which came ahead. 0 is dirty, and a block write has the buffer: only
        // the frame of 1 is free to be given up when its first use, a store, would bring 2.
        device.fetch(0);
        device.send(10, RequestOp::Write, 0, 0);
        device.send(11, RequestOp::WritePage, 5, 0);
        device.send(12, RequestOp::Write, 1, 0);
        device.settle(Picos::from_micros(100));
        if device.send(13, READ, 1, 0).is_empty() {
            device.settle(Picos::from_micros(100));
        }
        assert_eq!(
            device.bench.host[13], 12,
            "{protection:?}: the store is lost"
        );
    }
}
