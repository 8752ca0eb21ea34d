//! Bad input is one sentence before anything runs, and never a panic.

use crate::common::{Program, mixed};
use sim::run::{Prepared, RunSpec};
use trace::TraceFile;

fn spec() -> RunSpec {
    RunSpec {
        trace: "synthetic.etr".to_string(),
        machine: "demo".to_string(),
        design: "skybyte-full".to_string(),
        nand: None,
        fidelity: Default::default(),
        files: Vec::new(),
        overrides: Vec::new(),
        threads: None,
        is_audited: true,
        mode: sim::run::Mode::Detailed,
    }
}

/// What is said about a run of `trace`; one line of text.
#[track_caller]
fn refusal(trace: &TraceFile, change: impl FnOnce(&mut RunSpec)) -> String {
    let mut spec = spec();
    change(&mut spec);
    let error = Prepared::with_trace(spec, trace.clone())
        .err()
        .expect("the run is refused");
    let text = error.to_string();
    assert!(
        !text.contains('\n') && !text.is_empty(),
        "not one line: {text}"
    );
    text
}

#[track_caller]
fn assert_says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} is missing: {text}");
    }
}

#[test]
fn pages_of_others_need_room_behind_the_footprint() {
    let mut program = Program::new();
    let thread = program.thread();
    program.load(thread, 0);
    let exported = spec().config().expect("a preset");
    let exported = exported.ftl.exported_pages(&exported.geometry());
    program.writer.map(0x5000_0000, exported - 1_000);
    let trace = program.finish();
    let others = |spec: &mut RunSpec| spec.overrides.push("run.other_pages=clean".to_string());
    let text = refusal(&trace, others);
    assert_says(&text, &["run.other_pages", "no room", "table2"]);
    assert!(Prepared::with_trace(spec(), trace).is_ok());
}

#[test]
fn a_footprint_larger_than_the_device_is_refused_with_both_sizes() {
    let mut program = Program::new();
    let thread = program.thread();
    program.load(thread, 0);
    program.writer.map(0x5000_0000, 1_000_000);
    let trace = program.finish();
    let text = refusal(&trace, |_| {});
    assert_says(
        &text,
        &[
            "synthetic",
            "1000001 pages",
            "larger than the device",
            "table2",
        ],
    );
    let spec = RunSpec {
        design: "dram-only".to_string(),
        ..spec()
    };
    assert!(
        Prepared::with_trace(spec, trace).is_ok(),
        "DRAM-Only has no device to fill"
    );
}

#[test]
fn more_threads_than_the_trace_has_and_none_at_all_are_refused() {
    let trace = mixed(3, 10, 10, 1);
    for threads in [0, 4] {
        let text = refusal(&trace, |spec| spec.threads = Some(threads));
        assert_says(&text, &["--threads", "3 threads"]);
    }
}

#[test]
fn unknown_names_are_refused_with_a_hint() {
    let trace = mixed(1, 1, 1, 1);
    let design = refusal(&trace, |spec| spec.design = "skybyte-ful".to_string());
    assert_says(&design, &["skybyte-ful", "skybyte-full"]);
    let machine = refusal(&trace, |spec| spec.machine = "table3".to_string());
    assert_says(&machine, &["table3", "table2"]);
    let nand = refusal(&trace, |spec| spec.nand = Some("qlc".to_string()));
    assert_says(&nand, &["qlc"]);
}

#[test]
fn settings_that_are_unknown_malformed_or_out_of_range_are_refused_by_name() {
    let trace = mixed(1, 1, 1, 1);
    let cases = [
        ("nand.tr=3us", "nand.tr"),
        ("flash.t_r=3us", "flash"),
        ("nand.t_r", "nand.t_r"),
        ("nand.t_r=3", "t_r"),
        ("nand.t_r=fast", "t_r"),
        ("cpu.cores=0", "cpu.cores"),
        ("cpu.cores=-1", "cores"),
        ("cpu.rob=100000", "cpu.rob"),
        ("os.scheduler=fair", "scheduler"),
        ("run.warmup=100%", "run.warmup"),
        ("ssd.log.size=1TiB", "ssd.log.size"),
        ("ssd.dram=1KiB", "ssd.dram"),
        ("ftl.over_provisioning=0%", "ftl.over_provisioning"),
        ("ftl.mapping_unit=2KiB", "ftl.mapping_unit"),
        ("nand.channels=0", "nand.channels"),
        ("host.reserve=1000000", "host.reserve"),
        ("=", "="),
        ("", ""),
    ];
    for (setting, named) in cases {
        let text = refusal(&trace, |spec| spec.overrides = vec![setting.to_string()]);
        assert_says(&text, &[named]);
    }
}

#[test]
fn a_file_of_settings_is_named_when_it_is_wrong() {
    let trace = mixed(1, 1, 1, 1);
    for text in [
        "[nand]\nt_r = \"3 parsecs\"\n",
        "[nand\n",
        "[nadn]\nt_r = \"3us\"\n",
    ] {
        let said = refusal(&trace, |spec| {
            spec.files = vec![("mine.toml".to_string(), text.to_string())];
        });
        assert_says(&said, &["mine.toml"]);
    }
}

#[test]
fn a_capture_that_cannot_be_read_is_refused_by_name() {
    for path in ["/nonexistent/none.etr", "/dev/null", "Cargo.toml"] {
        let spec = RunSpec {
            trace: path.to_string(),
            ..spec()
        };
        let error = Prepared::new(spec)
            .err()
            .expect("the run is refused")
            .to_string();
        assert!(error.contains(path) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn an_observer_that_says_no_ends_the_run_without_a_result() {
    let prepared = crate::common::prepare(&mixed(4, 500, 4_000, 1), "demo", "skybyte-full", &[]);
    let mut calls = 0;
    let outcome = prepared.execute(&mut |_| {
        calls += 1;
        calls < 3
    });
    assert_eq!(
        outcome.err().map(|error| error.to_string()).as_deref(),
        Some("interrupted")
    );
    assert_eq!(calls, 3);
}

/// Less than all of a thread leaves it an instruction; all of it leaves none.
#[test]
fn warm_up_may_be_all_but_the_last_instruction() {
    let trace = mixed(2, 100, 1_000, 3);
    for share in ["100%", "250%"] {
        let text = refusal(&trace, |spec| {
            spec.overrides = vec![format!("run.warmup={share}")];
        });
        assert_says(
            &text,
            &["run.warmup", share, "nothing to measure", "below 100%"],
        );
    }
    let mut spec = spec();
    spec.overrides = vec!["run.warmup=99.999%".to_string()];
    let prepared = Prepared::with_trace(spec, trace).expect("it can run");
    let result = prepared.execute(&mut |_| true).expect("the run ends");
    let instructions = result.json().pointer("/statistics/cores/instructions");
    assert_eq!(instructions.and_then(serde_json::Value::as_u64), Some(2));
}

/// A smaller device DRAM needs a smaller log, which nobody else chooses.
#[test]
fn a_log_that_fills_the_device_dram_is_told_its_share() {
    let trace = mixed(1, 10, 100, 3);
    let text = refusal(&trace, |spec| {
        spec.machine = "table2".to_string();
        spec.overrides = vec!["ssd.dram=4MiB".to_string()];
    });
    let said = ["ssd.dram (4MiB)", "set ssd.log.size", "(512KiB)"];
    assert_says(&text, &said);
}
