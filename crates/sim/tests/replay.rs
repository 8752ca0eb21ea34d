//! The device alone, end to end: times derived by hand, conservation, any geometry.

use serde_json::Value;
use sim::config::Fidelity;
use sim::replay::{Replay, ReplaySpec, Workload};
use sim::run::RunSpec;

fn spec(design: &str, words: &[&str], settings: &[&str]) -> ReplaySpec {
    let pairs = words
        .iter()
        .map(|word| word.split_once('=').expect("name=value"));
    let pairs: Vec<_> = pairs.map(|(n, v)| (n.to_string(), v.to_string())).collect();
    ReplaySpec {
        run: RunSpec {
            trace: "test".into(),
            machine: "demo".into(),
            design: design.into(),
            nand: None,
            fidelity: Fidelity::default(),
            files: Vec::new(),
            overrides: settings.iter().map(ToString::to_string).collect(),
            threads: None,
            is_audited: true,
        },
        workload: Workload::from_words(&pairs).expect("a workload"),
    }
}

fn run(design: &str, words: &[&str], settings: &[&str]) -> Value {
    let replay = Replay::new(spec(design, words, settings)).expect("a replay");
    let result = replay.execute(&mut |_| true).expect("it ends");
    result.json().clone()
}

fn number(result: &Value, at: &str) -> u64 {
    let found = result
        .pointer(&format!("/statistics/{at}"))
        .and_then(Value::as_u64);
    found.unwrap_or_else(|| panic!("{at} is a number"))
}

/// One at a time, each of another page that is not cached: lookup 49 ns, tR 3 µs, transfer of 4 KiB
/// at 2.4 GB/s 1,706,667 ps (rounded up), and the frame's fill in device DRAM.
#[test]
fn a_lonely_page_read_takes_lookup_flash_transfer_and_fill() {
    let words = ["pattern=seqread", "qd=1", "requests=100", "bs=4KiB"];
    let result = run("base-cssd", &words, &[]);
    assert_eq!(number(&result, "read_parts/index_ps"), 49_000);
    assert_eq!(
        number(&result, "read_parts/flash_ps"),
        3_000_000 + 1_706_667
    );
    assert_eq!(number(&result, "read_parts/stall_ps"), 0);
    assert_eq!(number(&result, "read_parts/order_ps"), 0);
    let dram = number(&result, "read_parts/ssd_dram_ps");
    let mean = number(&result, "read_latency/mean_ps");
    assert!(mean - (49_000 + 4_706_667 + dram) <= 1, "the parts add up");
    assert_eq!(number(&result, "flash/host_read_pages"), 100);
    assert_eq!(number(&result, "served/misses"), 100);
}
