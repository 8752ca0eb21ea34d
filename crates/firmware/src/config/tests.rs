//! Sections as they are checked.

use super::*;
use units::Ratio;
use units::address::LINE_BYTES;

fn ssd() -> SsdConfig {
    SsdConfig {
        dram: Bytes::from_mib(512),
        buffer_hits: true,
        delay_answer_cost: Picos::ZERO,
        dram_access: DramAccess::Timed,
        dram_latency: Picos::from_nanos(46),
        dram_order: DramOrder::InTurn,
        miss_answer: MissAnswer::Frame,
        fill: Fill::AtOnce,
        fill_buffers: 512,
        read_rate: BytesPerSec::new(11_930_000_000),
        write_rate: BytesPerSec::new(9_370_000_000),
        buffers: 256,
        firmware_cores: 4,
        block_write_ack: BlockWriteAck::Buffered,
        power_loss_protection: PowerLossProtection::Battery,
        flush_cost: Picos::ZERO,
        log: LogConfig {
            size: Bytes::from_mib(64),
            design_share: Ratio::percent(100),
            entry: LINE_BYTES,
            mode: LogMode::Halves,
            seal_at: Ratio::percent(100),
            index: LogIndexKind::TwoLevelHash,
            tx_log: Bytes::ZERO,
            write_updates_cache: true,
            write_lookup: Cost::Charged,
            merge_on_fill: Cost::Charged,
            takes: LogTakes::All,
            least: Bytes::ZERO,
            sparse: 16,
            lookup: Picos::from_nanos(72),
        },
        cache: CacheConfig {
            ways: 16,
            policy: CachePolicy::Lru,
            clean_victims: CleanVictims::Drop,
            victim_order: VictimOrder::BeforeRead,
            mshr_count: 2048,
            lookup: Picos::from_nanos(49),
        },
        compaction: CompactionConfig {
            copies: Cost::Charged,
            takes: CompactionTakes::SealedHalf,
            launch: CompactionLaunch::AtOnce,
            page_cost: Picos::from_nanos(500),
            batch: 256,
            leaves: 0,
        },
        promotion: PromotionConfig {
            counts: PromotionCounts::Uses,
            threshold: 64,
            fetch_uses: 0,
            remembers: false,
        },
        prefetch: PrefetchConfig {
            kind: PrefetcherKind::NextN,
            pages: 1,
            on_first_use: false,
            reserve: 0,
            streams: 8,
            regions: 4096,
            throttle: Throttle::Off,
        },
    }
}

#[test]
fn log_and_cache_share_the_dram() {
    let ssd = ssd();
    assert_eq!(ssd.validate(), Vec::<String>::new());
    assert_eq!(ssd.log.half_slot_count(), 524_288);
    assert_eq!(ssd.frame_count(Bytes::from_kib(4)), 114_688);
}

#[test]
fn an_entry_of_the_log_takes_64_to_128_bytes() {
    for bytes in [0, 1, 63, 129, u64::MAX] {
        let ssd = SsdConfig {
            log: LogConfig {
                entry: Bytes::new(bytes),
                ..ssd().log
            },
            ..ssd()
        };
        let problems = ssd.validate();
        let problem = problems.iter().find(|it| it.starts_with("ssd.log.entry"));
        assert!(problem.is_some(), "{problems:?}");
        ssd.log.seal_slot_count();
    }
}

/// What may be written in a file is answered with sentences, not with an overflow.
#[test]
fn no_number_is_too_large_to_be_checked() {
    let most = SsdConfig {
        dram: Bytes::new(u64::MAX),
        flush_cost: Picos::new(u64::MAX),
        log: LogConfig {
            size: Bytes::new(u64::MAX),
            entry: Bytes::new(u64::MAX),
            tx_log: Bytes::new(u64::MAX),
            design_share: Ratio::percent(u64::MAX),
            seal_at: Ratio::percent(u64::MAX),
            ..ssd().log
        },
        ..ssd()
    };
    assert!(!most.validate().is_empty());
    most.frame_count(Bytes::from_kib(4));
    most.log.seal_slot_count();
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
        problems[0].contains("ssd.log.size is 64MiB"),
        "{problems:?}"
    );
    let without = SsdConfig {
        log: LogConfig {
            size: Bytes::ZERO,
            ..without.log
        },
        ..without
    };
    assert_eq!(without.validate(), Vec::<String>::new());
}

#[test]
fn costs_and_sizes_that_no_run_could_hold_are_refused() {
    let wrong = SsdConfig {
        dram: Bytes::from_mib(64 * 1024 + 1),
        read_rate: BytesPerSec::new(999_999),
        write_rate: BytesPerSec::new(1_000_000_000_001),
        log: LogConfig {
            lookup: Picos::from_micros(1_001),
            ..ssd().log
        },
        cache: CacheConfig {
            lookup: Picos::MAX,
            ..ssd().cache
        },
        compaction: CompactionConfig {
            page_cost: Picos::MAX,
            ..ssd().compaction
        },
        ..ssd()
    };
    assert_eq!(wrong.validate().len(), 6, "{:?}", wrong.validate());
}

#[test]
fn every_parameter_out_of_range_is_named() {
    let wrong = SsdConfig {
        read_rate: BytesPerSec::new(0),
        cache: CacheConfig {
            ways: 0,
            mshr_count: 65_537,
            ..ssd().cache
        },
        log: LogConfig {
            size: Bytes::new(64),
            ..ssd().log
        },
        ..ssd()
    };
    let problems = wrong.validate();
    for key in [
        "ssd.cache.ways",
        "ssd.cache.mshr_count",
        "ssd.log.size",
        "ssd.read_rate",
    ] {
        let named = problems.iter().filter(|text| text.contains(key)).count();
        assert_eq!(named, 1, "{key}: {problems:?}");
    }
    assert_eq!(problems.len(), 4);
}

#[test]
fn a_log_that_shares_its_room_says_what_it_needs() {
    let with = |change: fn(&mut SsdConfig)| {
        let mut config = ssd();
        config.log.least = Bytes::from_mib(1);
        change(&mut config);
        config.validate()
    };
    assert_eq!(with(|_| {}), Vec::<String>::new());
    // Without a log there is nothing to share.
    let without = with(|config| config.log.size = Bytes::ZERO);
    assert_eq!(without, Vec::<String>::new());
    let named = |change, what: &str| {
        let problems = with(change);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains(what), "{problems:?}");
    };
    named(|it| it.log.least = it.log.size * 2, "two entries up to");
    named(|it| it.log.least = Bytes::new(64), "two entries up to");
    named(|it| it.dram = Bytes::from_mib(100), "at most half");
    named(|it| it.log.mode = LogMode::Ring, "ssd.log.mode = halves");
    named(|it| it.log.seal_at = Ratio::percent(85), "ssd.log.seal_at");
    named(|it| it.log.tx_log = Bytes::from_kib(4), "ssd.log.tx_log");
    named(|it| it.cache.ways = 1, "ssd.cache.ways");
}
