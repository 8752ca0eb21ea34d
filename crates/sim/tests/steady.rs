//! The steady state: that a file of misses brings a device where the program itself brings it, and
//! that windows begin there.

use crate::common::{mixed, prepare};
use serde_json::Value;
use sim::run::{Prepared, SteadyWindows, Windows};
use sim::steady::PARTS;
use std::path::PathBuf;

const SETTINGS: [&str; 2] = ["cpu.cores=2", "run.warmup=50%"];

/// A file of misses that goes when the test is over.
struct Misses(PathBuf);

impl Misses {
    fn of(run: &Prepared, name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("{name}-{}.misses", std::process::id()));
        run.write_misses(path.to_str().unwrap(), &mut |_| true)
            .expect("the file can be written");
        Self(path)
    }
    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Misses {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok();
    }
}

fn windows(count: u32, lead: u64, instructions: u64) -> SteadyWindows {
    SteadyWindows {
        from: PARTS / 2,
        count,
        offset_milli: 0,
        lead,
        instructions,
    }
}

fn steady(run: &Prepared, misses: &Misses, windows: SteadyWindows) -> Value {
    run.execute_steady(misses.path(), 8, windows, &mut |_| true)
        .expect("the windows end")
}

/// Where nothing migrates, a window that begins half-way is the window of `sample` that begins
/// half-way: its device has lived through the same requests in the same order.
#[test]
fn the_first_window_is_that_of_a_functional_pass() {
    for design in ["base-cssd", "skybyte-w", "skybyte-c", "dram-only"] {
        let run = prepare(&mixed(1, 256, 20_000, 1), "demo", design, &SETTINGS);
        let misses = Misses::of(&run, &format!("same-{design}"));
        let found = steady(&run, &misses, windows(1, 0, 2_000));
        let wanted = Windows {
            count: 1,
            instructions: 2_000,
        };
        let result = run
            .execute_windows(wanted, &mut |_| true)
            .unwrap()
            .remove(0);
        let (counts, sampled) = (&found["windows"][0]["counts"], result.json());
        let statistics = &sampled["statistics"];
        assert_eq!(counts["time_ps"], sampled["execution_time_ps"], "{design}");
        assert_eq!(counts["instructions"], sampled["instructions"]);
        assert_eq!(counts["reads"], statistics["amat"]["paper_accesses"]);
        assert_eq!(counts["amat_ps"], statistics["amat"]["paper_ps"]);
        assert_eq!(counts["amat_all_ps"], statistics["amat"]["all_ps"]);
        assert_eq!(
            counts["program_pages"],
            statistics["flash"]["program_pages"]
        );
        let paces = found["windows"][0]["pace"].as_array().unwrap();
        for (pace, other) in paces.iter().zip(sampled["pace"].as_array().unwrap()) {
            assert_eq!(pace["active_ps"], other["active_ps"], "{design}");
            assert_eq!(pace["executed"], other["executed"], "{design}");
        }
    }
}

/// A file of misses is kept for as long as its name stays, so the name must change with what the
/// caches' model lets through: if this fails, raise `steady::MODEL` and put the new hash here.
#[test]
fn another_model_of_caches_has_another_version() {
    let run = prepare(&mixed(2, 1_024, 20_000, 1), "demo", "base-cssd", &SETTINGS);
    let misses = Misses::of(&run, "model");
    let mut bytes = std::fs::read(misses.path()).unwrap();
    let key = run.misses_key();
    let at = bytes.windows(32).position(|part| part == key).unwrap();
    // The key is of the version; all else is what the model lets through.
    bytes.drain(at..at + 32);
    let hash = blake3::hash(&bytes).to_hex();
    assert_eq!((sim::steady::MODEL, &hash[..16]), (1, "b86e69a9a1239b7b"));
}

/// Threads, creations and pages that move: the same again is the same, and the audits hold.
#[test]
fn the_same_again_is_the_same_and_what_was_counted_grows() {
    let run = prepare(
        &mixed(4, 2_048, 8_000, 1),
        "demo",
        "skybyte-full",
        &SETTINGS,
    );
    let misses = Misses::of(&run, "again");
    let plan = windows(3, 500, 1_000);
    let found = steady(&run, &misses, plan);
    assert_eq!(found, steady(&run, &misses, plan));
    let looks = found["pass"].as_array().unwrap();
    assert_eq!(looks.len(), 9);
    for name in ["reads", "writes", "first_touches", "cache_fills"] {
        let seen: Vec<u64> = looks.iter().map(|l| l[name].as_u64().unwrap()).collect();
        assert!(
            seen.is_sorted() && seen[0] == 0 && seen[8] > 0,
            "{name} {seen:?}"
        );
    }
    assert_eq!(found["windows"].as_array().unwrap().len(), 3);
    let first = &found["windows"][0];
    assert!(first["counts"]["instructions"].as_u64().unwrap() >= 900);
}

/// What a window owes is what its device holds: without a log in frames, with one in the log.
#[test]
fn debt_is_in_frames_or_in_the_log() {
    for (design, frames, log) in [("base-cssd", true, false), ("skybyte-w", false, true)] {
        let run = prepare(&mixed(2, 512, 10_000, 1), "demo", design, &SETTINGS);
        let misses = Misses::of(&run, &format!("debt-{design}"));
        let found = steady(&run, &misses, windows(1, 0, 1_000));
        let debt = &found["windows"][0]["debt"]["end"];
        let has = |name: &str| debt[name].as_u64().unwrap() > 0;
        assert_eq!(
            (has("frame_bytes"), has("log_bytes")),
            (frames, log),
            "{design}"
        );
        assert!(has("program_pages") && has("pay_ps"), "{debt}");
    }
}

/// A window in which room is written into faster than GC makes it owes that.
#[test]
fn debt_is_in_room_that_is_not_collected() {
    let owed = |t_bers: &str| {
        let dies = [
            "nand.chips_per_channel=1",
            "nand.dies_per_chip=1",
            "nand.blocks_per_plane=192",
            "nand.erase_share=100%",
        ];
        let settings = [&SETTINGS[..], &dies, &[t_bers]].concat();
        let run = prepare(&mixed(4, 4_096, 20_000, 1), "demo", "base-cssd", &settings);
        let misses = Misses::of(&run, &format!("gc-{t_bers}"));
        let found = steady(&run, &misses, windows(1, 0, 40_000));
        let debt = &found["windows"][0]["debt"];
        let of = |end: &str, name: &str| debt[end][name].as_u64().unwrap();
        let more = |name: &str| of("end", name).saturating_sub(of("begin", name));
        assert!(of("end", "pay_ps") >= of("end", "gc_pay_ps"), "{debt}");
        (more("gc_erase_pages"), more("gc_pay_ps"))
    };
    // All four dies erase at once, 32 pages each.
    let (pages, pays) = owed("nand.t_bers=32ms");
    assert!(pages > 0 && pays >= pages * 250_000_000, "{pages} {pays}");
    let (pages, pays) = owed("nand.t_bers=1ns");
    assert!(pages > 0 && pays < pages * 250_000_000, "{pages} {pays}");
}

/// Host DRAM as a page cache has its pages come and go as moved pages do, and owes those that were
/// written.
#[test]
fn a_page_cache_is_host_dram_as_moved_pages_are() {
    let settings = [SETTINGS[0], SETTINGS[1], "host.promoted=256KiB"];
    let trace = mixed(2, 512, 10_000, 1);
    let run = prepare(&trace, "demo", "astriflash-cxl", &settings);
    let misses = Misses::of(&run, "page-cache");
    let found = steady(&run, &misses, windows(1, 0, 1_000));
    let last = &found["pass"][8];
    let count = |name: &str| last[name].as_u64().unwrap();
    assert_eq!(count("promoted_pages"), 64);
    assert_eq!(count("promotions"), count("demotions") + 64);
    let debt = &found["windows"][0]["debt"]["end"];
    let host = debt["host_bytes"].as_u64().unwrap();
    assert!((1..=64).contains(&(host / 4096)), "{debt}");
    assert!(debt["host_pay_ps"].as_u64().unwrap() > 0, "{debt}");
}

#[test]
fn what_cannot_be_is_said() {
    let trace = mixed(1, 64, 2_000, 1);
    let run = prepare(&trace, "demo", "base-cssd", &SETTINGS);
    let misses = Misses::of(&run, "said");
    let refused = |run: &Prepared, windows| {
        let outcome = run.execute_steady(misses.path(), 8, windows, &mut |_| true);
        outcome.expect_err("it is refused").to_string()
    };
    let sentence = refused(&run, windows(10, 0, 1_000_000));
    assert!(sentence.contains("do not fit"), "{sentence}");
    // Two windows from the middle on have 864 of 3,456 instructions each, the second one 87 if both
    // begin nine tenths of that later.
    let of_two = |offset_milli, instructions| SteadyWindows {
        offset_milli,
        ..windows(2, 0, instructions)
    };
    assert_eq!(
        steady(&run, &misses, of_two(900, 40))["windows"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    for (offset, instructions) in [(900, 100), (1_000, 10), (0, 900)] {
        let sentence = refused(&run, of_two(offset, instructions));
        assert!(sentence.contains("do not fit"), "{offset}: {sentence}");
    }
    let sentence = refused(&run, windows(1, 0, 0));
    assert!(sentence.contains("gives none of 1 threads"), "{sentence}");
    let other = prepare(
        &trace,
        "demo",
        "base-cssd",
        &["cpu.cores=2", "cpu.l3=128KiB"],
    );
    let sentence = refused(&other, windows(1, 0, 10));
    assert!(
        sentence.contains("of another capture or of other caches"),
        "{sentence}"
    );
    let sampled = prepare(&trace, "demo", "skybyte-ct", &SETTINGS);
    let sentence = refused(&sampled, windows(1, 0, 10));
    assert!(sentence.contains("samples pages"), "{sentence}");
    let balanced = [
        "numa.nodes=2",
        "host_dram.channels=2",
        "numa.balancing=hint_faults",
    ];
    let settings = [&SETTINGS[..], &balanced].concat();
    let balanced = prepare(&trace, "demo", "base-cssd", &settings);
    let sentence = refused(&balanced, windows(1, 0, 10));
    assert!(sentence.contains("numa.balancing"), "{sentence}");
}
