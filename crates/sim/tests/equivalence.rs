//! Designs that must be one another when the mechanism that tells them apart is switched off, and
//! runs that must repeat.

use crate::common::{mixed, run, stat, time};
use serde_json::Value;

/// Everything but the names and the configuration.
fn outcome(mut result: Value) -> Value {
    let object = result.as_object_mut().expect("a result is an object");
    for key in ["design", "config", "config_digest", "warnings"] {
        object.remove(key);
    }
    result
}

#[track_caller]
fn assert_equal_runs(a: (&str, &[&str]), b: (&str, &[&str])) {
    let trace = mixed(6, 2_000, 6_000, 11);
    let first = outcome(run(&trace, "demo", a.0, a.1));
    let second = outcome(run(&trace, "demo", b.0, b.1));
    assert_eq!(first, second, "{a:?} and {b:?}");
}

#[test]
fn context_switching_with_an_infinite_threshold_is_the_base_design() {
    // GC in progress switches at any threshold (§III-A), so the device must have room.
    let room = ["ftl.fill=50%", "ftl.overwritten=0%"];
    assert_equal_runs(
        (
            "skybyte-c",
            &[&["os.switch_threshold=1000s"], &room[..]].concat(),
        ),
        ("base-cssd", &room),
    );
}

#[test]
fn promotion_of_pages_that_are_never_hot_enough_is_the_base_design() {
    let never = &["ssd.promotion.threshold=1000000"];
    assert_equal_runs(("skybyte-p", never), ("base-cssd", &[]));
}

#[test]
fn the_full_design_without_switches_and_promotion_is_the_write_log_alone() {
    let room = ["ftl.fill=50%", "ftl.overwritten=0%"];
    let off = [
        "ssd.promotion.threshold=1000000",
        "os.switch_threshold=1000s",
    ];
    assert_equal_runs(
        ("skybyte-full", &[&off[..], &room].concat()),
        ("skybyte-w", &room),
    );
}

#[test]
fn with_every_page_pinned_no_design_moves_any() {
    let room = ["ftl.fill=50%", "ftl.overwritten=0%"];
    let pinned = [&["host.pinned=all"], &room[..]].concat();
    assert_equal_runs(("astriflash-cxl", &pinned), ("base-cssd", &pinned));
    let trace = mixed(6, 2_000, 6_000, 11);
    // The device has been told: its offers cost nothing; their number is all that differs.
    let offered = run(&trace, "demo", "skybyte-p", &pinned);
    assert!(stat(&offered, "activity/pinned_offers") > 0);
    assert_eq!(
        time(&offered),
        time(&run(&trace, "demo", "base-cssd", &room))
    );
    // Scans find nothing to arm; their number is all that differs.
    let scanned = run(&trace, "demo", "skybyte-ct", &pinned);
    assert!(stat(&scanned, "activity/hint_scans") > 0);
    assert_eq!(stat(&scanned, "activity/hint_faults"), 0);
    assert_eq!(
        time(&scanned),
        time(&run(&trace, "demo", "skybyte-c", &room))
    );
}

#[test]
fn a_page_cache_filled_by_hotness_is_adaptive_migration_but_for_the_sets() {
    // With room for every page of the capture in its own set, no page makes room for another; which
    // host page a page takes differs, so host DRAM must not tell its rows apart.
    let settings = [
        "host.promoted=32MiB",
        "host.reserve=0",
        "astriflash.fill=hotness",
        "host.page_access=constant",
        "host.migration=instant",
        "ssd.promotion.threshold=4",
    ];
    assert_equal_runs(("astriflash-cxl", &settings), ("skybyte-cp", &settings));
}

#[test]
fn tpp_without_sampling_is_the_design_without_migration() {
    let never = &["tpp.scan_pages=0"];
    assert_equal_runs(("skybyte-ct", never), ("skybyte-c", &[]));
    assert_equal_runs(
        ("skybyte-wct", never),
        ("skybyte-full", &["ssd.promotion.threshold=1000000"]),
    );
}

#[test]
fn a_run_repeats_bit_for_bit_and_another_seed_is_another_run() {
    let trace = mixed(6, 2_000, 4_000, 12);
    let settings = &["os.scheduler=random"];
    let first = run(&trace, "demo", "skybyte-full", settings);
    assert_eq!(first, run(&trace, "demo", "skybyte-full", settings));
    let other = run(
        &trace,
        "demo",
        "skybyte-full",
        &["os.scheduler=random", "run.seed=2"],
    );
    assert_ne!(time(&first), time(&other));
}

#[test]
fn every_design_retires_the_same_instructions() {
    let trace = mixed(6, 2_000, 3_000, 13);
    let counts: Vec<u64> = sim::config::presets::DESIGNS
        .iter()
        .map(|design| stat(&run(&trace, "demo", design.name, &[]), "cores/instructions"))
        .collect();
    assert!(
        counts.windows(2).all(|pair| pair[0] == pair[1]),
        "{counts:?}"
    );
}
