//! The fast mode: filtered once, replayed on every design.

use crate::common::{mixed, spec};
use serde_json::Value;
use sim::run::{Filters, Mode, Prepared, RunSpec, Windows};
use std::sync::Arc;
use trace::TraceFile;

const DESIGNS: [&str; 4] = ["base-cssd", "skybyte-wct", "skybyte-full", "astriflash-cxl"];

fn fast(design: &str, overrides: &[&str]) -> RunSpec {
    RunSpec {
        mode: Mode::Fast,
        is_audited: false,
        overrides: overrides.iter().map(ToString::to_string).collect(),
        ..spec("demo", design)
    }
}

fn run(spec: RunSpec, trace: &TraceFile, filters: &Arc<Filters>) -> Value {
    let prepared = Prepared::with_trace(spec, trace.clone()).expect("the settings are valid");
    let prepared = prepared.sharing(Arc::clone(filters));
    let result = prepared.execute(&mut |_| true).expect("the run ends");
    result.json().clone()
}

#[test]
fn a_filtered_thread_retires_what_the_thread_retires() {
    let trace = mixed(6, 3_000, 20_000, 1);
    let filters = Arc::default();
    for design in DESIGNS {
        let fast = run(fast(design, &[]), &trace, &filters);
        let detailed = crate::common::run(&trace, "demo", design, &[]);
        assert_eq!(fast["mode"], "fast");
        for key in ["instructions", "warmup_instructions"] {
            assert_eq!(fast[key], detailed[key], "{design}: {key}");
        }
        for key in ["loads", "stores"] {
            let count = |run: &Value| run["statistics"]["cores"][key].as_u64();
            let (fast, detailed) = (count(&fast), count(&detailed));
            let both = fast.zip(detailed).expect("both count");
            // Warm-up may end between two records.
            assert!(
                both.0.abs_diff(both.1) < 6 * 1_000,
                "{design}: {key} {both:?}"
            );
        }
    }
}

#[test]
fn who_filtered_a_thread_changes_no_byte() {
    let trace = mixed(4, 2_000, 10_000, 2);
    let shared = Arc::default();
    for design in DESIGNS {
        let alone = run(fast(design, &[]), &trace, &Arc::default());
        assert_eq!(run(fast(design, &[]), &trace, &shared), alone, "{design}");
    }
}

#[test]
fn another_core_filters_anew() {
    let trace = mixed(4, 2_000, 10_000, 2);
    let filters = Arc::default();
    run(fast("base-cssd", &[]), &trace, &filters);
    let small = fast("base-cssd", &["cpu.l1d=4KiB"]);
    let alone = run(small.clone(), &trace, &Arc::default());
    assert_eq!(run(small, &trace, &filters), alone);
}

#[test]
fn what_the_fast_mode_cannot_do_is_refused_in_a_sentence() {
    let trace = mixed(2, 100, 1_000, 3);
    let refused = |spec: RunSpec| {
        let error = Prepared::with_trace(spec, trace.clone()).err();
        error.expect("it is refused").to_string()
    };
    let mut audited = fast("base-cssd", &[]);
    audited.is_audited = true;
    assert!(refused(audited).contains("mode fast cannot do --audit"));
    for setting in [
        "cpu.stores=waited",
        "os.squash=runs_on",
        "run.warm_caches=false",
        "run.warm_waits=64",
    ] {
        let text = refused(fast("skybyte-full", &[setting]));
        let key = setting.split('=').next().expect("a setting has a key");
        assert!(
            text.contains(key) && text.contains("--mode detailed"),
            "{text}"
        );
    }
    let prepared = Prepared::with_trace(fast("base-cssd", &[]), trace).expect("it can run");
    let windows = Windows {
        count: 2,
        instructions: 100,
    };
    let error = prepared.check_windows(windows).expect_err("it is refused");
    assert!(error.to_string().contains("windows"));
}
