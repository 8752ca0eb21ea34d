//! The fast mode: filtered once, replayed on every design.

use crate::common::{DATA, PAGE, Program, mixed, spec};
use serde_json::Value;
use sim::run::{Filters, Mode, Prepared, RunSpec, Windows};
use std::sync::Arc;
use trace::{Inst, OpClass, Reg, TraceFile};

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

/// Another value of each parameter of the cores with which the fast mode can run.
const OTHER_CORES: &str = "alu_ports=1 alu_queue=1 branch_ports=1 branch_start=taken \
    branch_targets=perfect clock=2GHz cores=1 fp_ports=1 fp_queue=1 history_bits=2 l1_tlb=4 \
    l1d=4KiB l1d_latency=9cycles l1d_mshrs=2 l1d_ways=2 l1i=4KiB l1i_ways=2 l2=32KiB \
    l2_latency=30cycles l2_mshrs=4 l2_tlb=12 l2_tlb_latency=70cycles l2_victims=lost l2_ways=2 \
    l3=128KiB l3_hop=9cycles l3_interval=50cycles l3_latency=90cycles l3_mshrs=2 l3_ways=2 \
    load_operands=all load_ports=1 load_queue=8 memory_latency=200cycles memory_queue=1 \
    mispredict_penalty=90cycles page_numbers=virtual page_size=2MiB rob=16 serialising=false \
    split_accesses=false store_grants=8 store_ports=2 store_queue=2 tlb=false width=1";

/// Another value of each parameter of the cores that the fast mode refuses then.
const REFUSED: &str = "alu_scheduler=16 code_fetch=in_groups fetch_ahead=16 fp_scheduler=16 \
    memory_issue=in_order memory_scheduler=16 stores=waited";

/// A program that has something for every parameter of a core: arithmetic on what a load brings,
/// accesses across lines, branches of both kinds, fences and code that L1I does not hold.
fn varied() -> TraceFile {
    let mut program = Program::new();
    let thread = program.thread();
    let r = Reg::general;
    let mut define = |inst: Inst| program.writer.define(inst);
    let chain = |class| Inst::new(class, 0, 4).reading(&[r(7)]).writing(&[r(7)]);
    // As `add rdi, [rsi]`.
    let sum = define(
        chain(OpClass::IntAlu)
            .with_memory(true, false)
            .addressing(&[r(4)]),
    );
    let float = define(chain(OpClass::FpAdd));
    let fence = program.writer.fence();
    let code: Vec<_> = (0..2_000)
        .map(|place| match place % 4 {
            0 => program.writer.branch(),
            _ => program.writer.alu(r(2), &[r(2)]),
        })
        .collect();
    let jump = Inst::new(OpClass::IndirectJump, 0, 2).reading(&[r(5)]);
    let jump = program.writer.define(jump);
    let mut stream = units::Stream::new(7, "varied");
    for step in 0..3_000 {
        let address = DATA + stream.below(64) * stream.below(8) * PAGE + stream.below(4_096 - 64);
        let writer = &mut program.writer;
        match stream.below(8) {
            0..=2 => writer.execute(thread, sum, Some((address, 16)), None),
            3 => writer.execute(thread, program.chase, Some((address, 8)), None),
            4 => writer.execute(thread, program.store, None, Some((address, 8))),
            5 => writer.execute(thread, float, None, None),
            6 => writer.execute(thread, jump, None, None),
            _ if step % 16 == 0 => writer.execute(thread, fence, None, None),
            _ => {}
        }
        let first = 4 * stream.below(499) as usize;
        for inst in &code[first..first + 3] {
            writer.execute(thread, *inst, None, None);
        }
    }
    program.finish()
}

/// Whoever comes second finds the threads of the first: they are its own, or it filters anew.
#[test]
fn a_core_that_differs_in_one_parameter_filters_anew_or_need_not() {
    let trace = varied();
    let base = fast("base-cssd", &[]);
    let filters = Arc::default();
    let first = run(base, &trace, &filters);
    let mut tried = Vec::new();
    let mut unlike = 0;
    for setting in OTHER_CORES.split_whitespace() {
        tried.push(setting.split_once('=').expect("a setting has a value").0);
        let other = fast("base-cssd", &[&format!("cpu.{setting}")]);
        let alone = run(other.clone(), &trace, &Arc::default());
        let behind = run(other, &trace, &filters);
        let times = [&behind, &alone].map(|run| run["execution_time_ps"].as_u64());
        assert!(behind == alone, "cpu.{setting}: {times:?}");
        unlike += u32::from(alone["execution_time_ps"] != first["execution_time_ps"]);
    }
    assert!(unlike > 25, "{unlike} of {} change the time", tried.len());
    for setting in REFUSED.split_whitespace() {
        tried.push(setting.split_once('=').expect("a setting has a value").0);
        let refused = fast("base-cssd", &[&format!("cpu.{setting}")]);
        assert!(Prepared::with_trace(refused, trace.clone()).is_err());
    }
    tried.sort_unstable();
    let cpu = first["config"]["cpu"]
        .as_object()
        .expect("a result has its configuration");
    let mut keys: Vec<&str> = cpu.keys().map(String::as_str).collect();
    keys.sort_unstable();
    assert_eq!(tried, keys, "each parameter of the cores is tried");
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
