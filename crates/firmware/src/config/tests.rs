//! Sections as they are checked.

use super::*;

fn ssd() -> SsdConfig {
    SsdConfig {
        dram: Bytes::from_mib(512),
        write_log: Bytes::from_mib(64),
        cache_ways: 16,
        cache_policy: CachePolicy::Lru,
        log_design_share: Ratio::percent(100),
        log_entry: LINE_BYTES,
        log_mode: LogMode::Halves,
        log_seal_at: Ratio::percent(100),
        log_index: LogIndexKind::TwoLevelHash,
        tx_log: Bytes::ZERO,
        log_write_updates_cache: true,
        write_lookup: Cost::Charged,
        merge_on_fill: Cost::Charged,
        clean_victims: CleanVictims::Drop,
        victim_order: VictimOrder::BeforeRead,
        buffer_hits: true,
        delay_answer_cost: Picos::ZERO,
        dram_access: DramAccess::Timed,
        dram_latency: Picos::from_nanos(46),
        compaction_copies: Cost::Charged,
        promotion_counts: PromotionCounts::Uses,
        mshr_count: 2048,
        prefetcher: PrefetcherKind::NextN,
        prefetch_pages: 1,
        prefetch_on_first_use: false,
        prefetch_reserve: 0,
        prefetch_streams: 8,
        prefetch_regions: 4096,
        log_lookup: Picos::from_nanos(72),
        cache_lookup: Picos::from_nanos(49),
        read_rate: BytesPerSec::new(11_930_000_000),
        write_rate: BytesPerSec::new(9_370_000_000),
        buffers: 256,
        firmware_cores: 4,
        compaction_page_cost: Picos::from_nanos(500),
        compaction_batch: 256,
        block_write_ack: BlockWriteAck::Buffered,
        power_loss_protection: PowerLossProtection::Battery,
        flush_cost: Picos::ZERO,
        promotion_threshold: 64,
    }
}

#[test]
fn log_and_cache_share_the_dram() {
    let ssd = ssd();
    assert_eq!(ssd.validate(), Vec::<String>::new());
    assert_eq!(ssd.half_slot_count(), 524_288);
    assert_eq!(ssd.frame_count(Bytes::from_kib(4)), 114_688);
}

#[test]
fn an_entry_of_the_log_takes_64_to_128_bytes() {
    for bytes in [0, 1, 63, 129, u64::MAX] {
        let ssd = SsdConfig {
            log_entry: Bytes::new(bytes),
            ..ssd()
        };
        let problems = ssd.validate();
        let problem = problems.iter().find(|it| it.starts_with("ssd.log_entry"));
        assert!(problem.is_some(), "{problems:?}");
        ssd.seal_slot_count();
    }
}

/// What may be written in a file is answered with sentences, not with an overflow.
#[test]
fn no_number_is_too_large_to_be_checked() {
    let most = SsdConfig {
        dram: Bytes::new(u64::MAX),
        write_log: Bytes::new(u64::MAX),
        log_entry: Bytes::new(u64::MAX),
        tx_log: Bytes::new(u64::MAX),
        log_design_share: Ratio::percent(u64::MAX),
        log_seal_at: Ratio::percent(u64::MAX),
        flush_cost: Picos::new(u64::MAX),
        ..ssd()
    };
    assert!(!most.validate().is_empty());
    most.frame_count(Bytes::from_kib(4));
    most.seal_slot_count();
}

#[test]
fn a_log_needs_a_battery() {
    let without = SsdConfig {
        power_loss_protection: PowerLossProtection::None,
        ..ssd()
    };
    let problems = without.validate();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(
        problems[0].contains("ssd.write_log is 64MiB"),
        "{problems:?}"
    );
    let without = SsdConfig {
        write_log: Bytes::ZERO,
        ..without
    };
    assert_eq!(without.validate(), Vec::<String>::new());
}

#[test]
fn costs_and_sizes_that_no_run_could_hold_are_refused() {
    let wrong = SsdConfig {
        dram: Bytes::from_mib(64 * 1024 + 1),
        log_lookup: Picos::from_micros(1_001),
        cache_lookup: Picos::MAX,
        compaction_page_cost: Picos::MAX,
        read_rate: BytesPerSec::new(999_999),
        write_rate: BytesPerSec::new(1_000_000_000_001),
        ..ssd()
    };
    assert_eq!(wrong.validate().len(), 6, "{:?}", wrong.validate());
}

#[test]
fn every_parameter_out_of_range_is_named() {
    let wrong = SsdConfig {
        cache_ways: 0,
        mshr_count: 65_537,
        write_log: Bytes::new(64),
        read_rate: BytesPerSec::new(0),
        ..ssd()
    };
    let problems = wrong.validate();
    for key in ["cache_ways", "mshr_count", "write_log", "read_rate"] {
        let named = problems.iter().filter(|text| text.contains(key)).count();
        assert_eq!(named, 1, "{key}: {problems:?}");
    }
    assert_eq!(problems.len(), 4);
}
