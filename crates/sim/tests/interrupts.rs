//! Interrupts and shootdowns take their time from a core, whatever that is doing.

use crate::common::{LINE, PAGE, Program, spec, stat, time};
use serde_json::Value;
use sim::run::{Mode, Prepared, RunSpec};
use trace::TraceFile;

const PAGES: u64 = 20;

/// Two threads that use three lines of each of their pages, each after the one before.
fn two_threads() -> TraceFile {
    let mut program = Program::new();
    for thread in 0..2 {
        let id = program.thread();
        for page in 0..PAGES {
            for line in 0..3 {
                program.chase(id, (thread * PAGES + page) * PAGE + line * LINE);
            }
        }
    }
    program.finish()
}

/// On one core, which promotes each page at its second use.
fn run(mode: Mode, settings: [&str; 2]) -> Value {
    let always = [
        "cpu.cores=1",
        "run.warmup=0%",
        "ssd.prefetch.pages=0",
        "ftl.overwritten=0%",
        "ssd.promotion.threshold=1",
        "host.handler_cost=0ps",
        "host.page_table_cost=0ps",
        "host.shootdown_cost=0ps",
    ];
    let settings = always.iter().chain(&settings);
    let spec = RunSpec {
        mode,
        is_audited: mode == Mode::Detailed,
        overrides: settings.map(ToString::to_string).collect(),
        ..spec("demo", "skybyte-cp")
    };
    let prepared = Prepared::with_trace(spec, two_threads()).expect("the settings are valid");
    let result = prepared.execute(&mut |_| true).expect("the run ends");
    result.json().clone()
}

/// By how many microseconds each promotion makes the run longer at this cost.
fn of_each_promotion(mode: Mode, circumstances: &str, cost: &str) -> u64 {
    let without = run(mode, [circumstances, "host.handler_cost=0ps"]);
    let with = run(mode, [circumstances, cost]);
    let promotions = stat(&with, "activity/promotions");
    // The last one of a thread may come when the program has ended.
    assert!(promotions >= 2 * PAGES - 2, "{promotions} pages");
    (time(&with) - time(&without)) / promotions / 1_000_000
}

const COSTS: [&str; 3] = ["handler_cost", "page_table_cost", "shootdown_cost"];

#[test]
fn an_interrupt_makes_the_switch_longer_in_which_it_comes() {
    for mode in [Mode::Detailed, Mode::Fast] {
        for key in COSTS {
            let cost = format!("host.{key}=100us");
            let each = of_each_promotion(mode, "os.switch_cost=900us", &cost);
            // The last ones come when nobody needs the core any more.
            assert!((90..=101).contains(&each), "{mode:?} {key}: {each} us");
        }
    }
}

#[test]
fn an_interrupt_puts_retries_in_closed_form_off() {
    for mode in [Mode::Detailed, Mode::Fast] {
        for key in COSTS {
            let cost = format!("host.{key}=900us");
            let each = of_each_promotion(mode, "os.switch_cost=1us", &cost);
            assert!((700..=901).contains(&each), "{mode:?} {key}: {each} us");
        }
    }
}

#[test]
fn what_interrupts_add_to_switches_is_said_to_be_migration() {
    let of_switches = run(Mode::Detailed, ["os.switch_cost=900us", "run.seed=1"]);
    let of_pages = run(
        Mode::Detailed,
        ["os.switch_cost=100us", "host.shootdown_cost=900us"],
    );
    let what = |result: &Value| result["bottleneck"]["what"].clone();
    assert_eq!(what(&of_switches), "thread switches");
    assert_eq!(what(&of_pages), "page migration");
    let charged = 900_000_000 * stat(&of_pages, "activity/promotions");
    assert!(stat(&of_pages, "cores/switch_ps") > charged / 2);
}
