//! Recording a run: changes nothing, and its reads account for all of their time.

use crate::common::{mixed, prepare};
use serde_json::Value;
use sim::recorder::Recording;
use units::Time;

fn recorded(design: &str, span: (u64, u64), limit: usize) -> (Value, Value) {
    let run = prepare(
        &mixed(4, 256, 3_000, 1),
        "demo",
        design,
        &["run.warmup=10%"],
    );
    let recording = Recording {
        span: Time::from_picos(span.0)..Time::from_picos(span.1),
        limit,
        slowest: 10,
    };
    let (result, recorded) = run.execute_recorded(recording, &mut |_| true).unwrap();
    let plain = run.execute(&mut |_| true).unwrap();
    assert_eq!(result.json(), plain.json(), "recording changes nothing");
    (result.json().clone(), recorded)
}

fn number(record: &Value, name: &str) -> u64 {
    record[name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name} of {record}"))
}

/// Checks that the steps of every read follow each other, and that its parts add up.
fn assert_parts_add_up(accesses: &[Value]) {
    for access in accesses {
        let at = |name: &str| number(access, name);
        let steps = [
            "first_ps",
            "issued_ps",
            "sent_ps",
            "arrived_ps",
            "answered_ps",
            "done_ps",
        ];
        assert!(steps.is_sorted_by_key(|step| at(step)), "{access}");
        let parts = ["stall_ps", "index_ps", "ssd_dram_ps", "flash_ps"];
        let on_device: u64 = parts.iter().map(|part| at(part)).sum();
        assert_eq!(on_device, at("answered_ps") - at("arrived_ps"), "{access}");
    }
}

#[test]
fn the_parts_of_every_read_add_up_to_its_time() {
    let (result, recorded) = recorded("skybyte-full", (0, u64::MAX), usize::MAX);
    let accesses = recorded["accesses"].as_array().unwrap();
    assert_parts_add_up(accesses);
    let requests = &result["statistics"]["requests"];
    let served: u64 = [
        "log_hits",
        "cache_hits",
        "buffer_hits",
        "misses",
        "merged_misses",
        "unmapped",
    ]
    .iter()
    .map(|name| number(requests, &format!("ssd_{name}")))
    .sum();
    let data = accesses
        .iter()
        .filter(|access| access["answer"] == "data")
        .count() as u64;
    assert_eq!(data, served, "every read that AMAT counts is recorded");
}

#[test]
fn every_page_that_comes_to_a_page_cache_is_a_read() {
    let (result, recorded) = recorded("astriflash-cxl", (0, u64::MAX), usize::MAX);
    let accesses = recorded["accesses"].as_array().unwrap();
    assert_parts_add_up(accesses);
    assert!(accesses.iter().all(|access| access["is_page"] == true));
    assert!(accesses.iter().any(|access| access["core"].is_u64()));
    let fills = crate::common::stat(&result, "activity/host_cache_fills");
    // The last ones may still be on their way when the program ends.
    let most = fills as usize;
    assert!((most - 4..=most).contains(&accesses.len()), "{most}");
}

#[test]
fn the_slowest_are_those_of_all_reads() {
    for design in ["skybyte-wp", "astriflash-cxl"] {
        the_slowest_are_those_of(design);
    }
}

fn the_slowest_are_those_of(design: &str) {
    let (_, recorded) = recorded(design, (0, u64::MAX), usize::MAX);
    let latency = |record: &Value| number(record, "done_ps") - number(record, "first_ps");
    let mut all: Vec<u64> = recorded["accesses"]
        .as_array()
        .unwrap()
        .iter()
        .map(latency)
        .collect();
    all.sort_unstable_by(|a, b| b.cmp(a));
    let slowest: Vec<u64> = recorded["slowest"]
        .as_array()
        .unwrap()
        .iter()
        .map(latency)
        .collect();
    assert_eq!(slowest, all[..10]);
}

#[test]
fn turns_of_a_core_do_not_overlap_and_a_die_does_one_thing_at_a_time() {
    let (_, recorded) = recorded("skybyte-full", (0, u64::MAX), usize::MAX);
    for (kind, track, from, to) in [
        ("turns", "core", "from_ps", "to_ps"),
        ("flash", "die", "started_ps", "finished_ps"),
    ] {
        let records = recorded[kind].as_array().unwrap();
        assert!(!records.is_empty(), "{kind}");
        for number_of in 0..64 {
            let mut own: Vec<(u64, u64)> = records
                .iter()
                .filter(|record| number(record, track) == number_of)
                .map(|record| (number(record, from), number(record, to)))
                .collect();
            own.sort_unstable();
            assert!(
                own.windows(2).all(|pair| pair[0].1 <= pair[1].0),
                "{kind} {number_of}"
            );
        }
    }
}

#[test]
fn beyond_its_limit_a_recording_counts() {
    let (_, recorded) = recorded("base-cssd", (0, u64::MAX), 5);
    assert_eq!(recorded["accesses"].as_array().unwrap().len(), 5);
    assert!(number(&recorded["dropped"], "accesses") > 0);
    assert_eq!(recorded["slowest"].as_array().unwrap().len(), 10);
}
