//! What recovery takes, in accounted time.

use crate::common::{Place, small};
use device::DeviceConfig;
use device::config::Layer;
use device::recovery_time::{Failed, Filling, measure};
use units::{Bytes, Picos};

const FOUR: Filling = Filling {
    lines_per_page: 4,
    both_halves: false,
};

fn config(log: u64) -> DeviceConfig {
    let dram = log + 64;
    let sets = [
        format!("ssd.log.size={log}KiB"),
        format!("ssd.dram={dram}KiB"),
        "ssd.log.tx_log=4KiB".to_owned(),
        "nand.blocks_per_plane=200".to_owned(),
    ];
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    small("bytefs", &sets)
}

#[test]
fn scan_and_flush_are_accounted() {
    let place = Place::new("recovery-time");
    let image = place.path("image");
    let config = config(64);
    let measured = measure(&image, &config, FOUR, &mut || true).unwrap();
    assert!(!image.exists(), "the image is removed");
    // 64 KiB are 1024 lines in two halves, of which one is sealed at 85 %.
    let (recovered, lines) = (measured.recovered, 435 - 1);
    assert_eq!((recovered.slots, recovered.commits), (1024, 0));
    let appended = recovered.lines;
    assert!(
        (lines - 60..=lines).contains(&appended),
        "{appended}: replaced lines are dropped"
    );
    let headers = 1024 + 8 + 4 + 4096 / 64;
    let scan = config.ssd.dram_latency * headers + config.ssd.log.lookup * appended;
    assert_eq!(recovered.scan, scan);
    // Each page is read, merged and programmed; two dies do that.
    let pages = measured.programmed_pages;
    assert!(
        (100..=109).contains(&pages),
        "{pages} of 109 pages have a line"
    );
    assert_eq!(measured.read_pages, pages);
    let least = (config.nand.t_r + config.nand.t_prog) * (pages / 2);
    assert!(measured.flush >= least, "{} < {least}", measured.flush);
    assert!(
        measured.flush <= least * 2,
        "{} > 2 {least}",
        measured.flush
    );
}

#[test]
fn both_halves_are_filled_before_the_first_is_empty() {
    let place = Place::new("recovery-time-both");
    let of = |both_halves| {
        let filling = Filling {
            both_halves,
            ..FOUR
        };
        let measured = measure(&place.path("image"), &config(64), filling, &mut || true);
        measured.unwrap()
    };
    let (one, both) = (of(false), of(true));
    assert_eq!((one.pages, both.pages), (109, 218));
    let lines = (one.recovered.lines, both.recovered.lines);
    assert!(lines.1 * 10 > lines.0 * 16, "{lines:?}");
    assert!(both.recovered.scan > one.recovered.scan);
    assert!(
        both.flush * 10 > one.flush * 16,
        "{} {}",
        both.flush,
        one.flush
    );
}

/// OpenCXD §V-D, Figure 13: on 4 x 8 dies, of 0.579 ms a page one after the other.
#[test]
fn channel_parallel_compaction_is_seven_times_as_fast_as_sequential() {
    let place = Place::new("compaction");
    let of = |launch: &str| {
        let launch = format!("ssd.compaction.launch={launch}");
        let layers = [
            "ssd.log.size=4MiB",
            "ssd.dram=6MiB",
            "nand.blocks_per_plane=24",
            "nand.pages_per_block=16",
            "ftl.over_provisioning=40%",
            &launch,
        ];
        let layers = layers.map(|set| Layer::assignment(set).unwrap());
        let config = DeviceConfig::of_preset("opencxd", &layers).unwrap();
        let filling = Filling {
            lines_per_page: 32,
            both_halves: false,
        };
        let measured = measure(&place.path("image"), &config, filling, &mut || true).unwrap();
        let pages = measured.programmed_pages;
        assert_eq!(measured.read_pages, pages);
        (measured.flush, pages)
    };
    let ((sequential, pages), (parallel, as_many)) = (of("sequential"), of("channel_parallel"));
    assert!(pages == as_many && pages > 900, "{pages} {as_many}");
    let page = Picos::from_nanos(99_720 + 200_000 + 2 * 139_580);
    assert!(sequential >= page * pages, "{sequential} of {pages}");
    assert!(
        sequential < page * pages + page * pages / 10,
        "{sequential}"
    );
    assert!(sequential >= parallel * 7, "{sequential} {parallel}");
    // No more than dies there are.
    assert!(sequential <= parallel * 32, "{sequential} {parallel}");
    assert!(of("at_once").0 <= parallel);
}

#[test]
fn both_grow_with_the_log() {
    let place = Place::new("recovery-time-grows");
    let of = |log| {
        let measured = measure(&place.path("image"), &config(log), FOUR, &mut || true).unwrap();
        (measured.recovered.scan, measured.flush)
    };
    let ((small_scan, small_flush), (scan, flush)) = (of(32), of(128));
    assert!(scan > small_scan * 3, "{scan} after {small_scan}");
    assert!(flush > small_flush * 3, "{flush} after {small_flush}");
}

#[test]
fn what_cannot_be_measured_is_said_and_leaves_nothing() {
    let place = Place::new("recovery-time-not");
    let image = place.path("image");
    let measured = |config: &DeviceConfig, each, go_on: bool| {
        let filling = Filling {
            lines_per_page: each,
            ..FOUR
        };
        let failed = measure(&image, config, filling, &mut || go_on).unwrap_err();
        assert!(!image.exists(), "{failed}");
        failed
    };
    let large = small(
        "bytefs",
        &["ssd.log.size=4MiB", "ssd.log.tx_log=4KiB", "ssd.dram=5MiB"],
    );
    assert!(matches!(
        measured(&large, 1, true),
        Failed::TooFewPages { pages: 232, .. }
    ));
    assert!(matches!(measured(&config(64), 4, false), Failed::Stopped));
    let none = small("consumer-tlc", &["ssd.dram=64KiB"]);
    assert!(matches!(measured(&none, 4, true), Failed::NoLog));
    assert_eq!(none.ssd.log.size, Bytes::ZERO);
    assert!(none.nand.t_prog > Picos::ZERO);
}
