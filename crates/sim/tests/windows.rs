//! Measured windows of a capture: where they lie, and that each is what a run of its own is.

use crate::common::{mixed, prepare};
use serde_json::Value;
use sim::run::Windows;
use trace::{AccessKind, Assembler, Inst, OpClass, TraceFile};
use units::Time;

const SETTINGS: [&str; 2] = ["cpu.cores=2", "run.warmup=20%"];

fn windows(design: &str, settings: &[&str], windows: Windows) -> Vec<Value> {
    let run = prepare(&mixed(4, 256, 4_000, 1), "demo", design, settings);
    let results = run
        .execute_windows(windows, &mut |_| true)
        .expect("they end");
    results.iter().map(|result| result.json().clone()).collect()
}

#[test]
fn windows_begin_evenly_spaced_after_warm_up_and_have_their_length() {
    let run = prepare(&mixed(4, 256, 4_000, 1), "demo", "skybyte-full", &SETTINGS);
    let total = run.instruction_count();
    let three = Windows {
        count: 3,
        instructions: 2_000,
    };
    for (index, window) in windows("skybyte-full", &SETTINGS, three).iter().enumerate() {
        assert_eq!(window["window"], index);
        // 20 % + 80 % x index / 3, rounded down for each of four threads.
        let expected = total * (3 * 20 + 80 * index as u64) / 300;
        let warmed = window["warmup_instructions"].as_u64().unwrap();
        assert!(expected - warmed <= 4, "{warmed} {expected}");
        // Each of the four threads does its quarter, and the last one ends the window.
        for pace in window["pace"].as_array().unwrap() {
            let number = |name: &str| pace[name].as_u64().unwrap();
            assert!(number("quota").abs_diff(500) <= 5, "{pace}");
            assert!(number("executed") >= number("quota"), "{pace}");
            assert!(number("active_ps") <= window["execution_time_ps"].as_u64().unwrap());
        }
        assert!(window["instructions"].as_u64().unwrap() >= 1_990);
    }
}

#[test]
fn the_first_window_is_the_start_of_a_run_of_its_own() {
    let one = Windows {
        count: 1,
        instructions: 1_000,
    };
    let mut window = windows("skybyte-wp", &SETTINGS, one).remove(0);
    let run = prepare(&mixed(4, 256, 4_000, 1), "demo", "skybyte-wp", &SETTINGS);
    let measured: u64 = run.guests()[0].measured(run.config().run.warmup);
    let all = Windows {
        count: 1,
        instructions: measured,
    };
    let mut full = windows("skybyte-wp", &SETTINGS, all).remove(0);
    let mut alone = run.execute(&mut |_| true).unwrap().json().clone();
    assert!(window["execution_time_ps"].as_u64() < full["execution_time_ps"].as_u64());
    for json in [&mut window, &mut full, &mut alone] {
        let fields = json.as_object_mut().unwrap();
        fields.remove("window");
        fields.remove("pace");
        fields.remove("programs");
    }
    assert_eq!(full, alone, "a window of everything is the run");
}

/// Instructions and times at which each window was observed on its way.
fn observed(instructions: u64) -> Vec<Vec<(u64, Time)>> {
    let run = prepare(&mixed(4, 256, 20_000, 1), "demo", "skybyte-full", &SETTINGS);
    let plan = Windows {
        count: 2,
        instructions,
    };
    let mut windows: Vec<Vec<(u64, Time)>> = Vec::new();
    let mut is_between = true;
    run.execute_windows(plan, &mut |progress| {
        if progress.is_measured {
            if is_between {
                windows.push(Vec::new());
            }
            let window = windows.last_mut().expect("it has begun");
            window.push((progress.instructions, progress.at));
        }
        is_between = !progress.is_measured;
        true
    })
    .expect("they end");
    windows
}

/// The second window is not disturbed by what the first one has done: up to where the shorter ones
/// end, the same has happened in it.
#[test]
fn a_window_does_not_disturb_the_next_one() {
    let (short, long) = (observed(8_000), observed(40_000));
    assert_eq!((short.len(), long.len()), (2, 2));
    assert!(short[0].len() > 1 && long[0].len() > 2 * short[0].len());
    for (short, long) in short.iter().zip(&long) {
        assert_eq!(short[..], long[..short.len()]);
    }
    assert_ne!(long[0], long[1]);
}

/// The second window begins at 20 % + 80 % ÷ 2 = 60 %. Of one thread, whose turns are those of any
/// warm-up, it is the first window of a run that is warmed up to there: nothing of the window
/// before is left.
#[test]
fn a_window_is_the_first_one_of_a_run_that_is_warmed_up_to_it() {
    let trace = mixed(1, 256, 8_000, 1);
    let windows = |warmup: &str, count| {
        let run = prepare(&trace, "demo", "skybyte-full", &["cpu.cores=1", warmup]);
        let windows = Windows {
            count,
            instructions: 2_000,
        };
        let results = run.execute_windows(windows, &mut |_| true).unwrap();
        results.last().unwrap().json().clone()
    };
    let second = windows("run.warmup=20%", 2);
    let only = windows("run.warmup=60%", 1);
    for field in ["warmup_instructions", "execution_time_ps", "statistics"] {
        assert_eq!(second[field], only[field], "{field}");
    }
}

/// Instructions with three loads each, which a core executes in three pieces.
fn threefold(count: u64) -> TraceFile {
    let mut out = Assembler::new();
    let thread = out.thread();
    let inst = Inst::new(OpClass::Simd, 0x40_0000, 4).with_memory(true, false);
    let gather = out.intern(inst, "gather");
    for n in 0..count {
        let load = |m: u64| (AccessKind::Load, ((n * 3 + m) % 4_096 * 64, 8));
        out.execute(thread, gather, &[load(0), load(1), load(2)]);
    }
    TraceFile::from_bytes(out.into_bytes(Default::default()), "threefold").unwrap()
}

#[test]
fn a_window_counts_instructions_and_not_their_pieces() {
    let run = prepare(&threefold(9_000), "demo", "base-cssd", &SETTINGS);
    let one = Windows {
        count: 1,
        instructions: 3_000,
    };
    let results = run.execute_windows(one, &mut |_| true).unwrap();
    let window = results[0].json();
    let executed = window["pace"][0]["executed"].as_u64().unwrap();
    let measured = window["instructions"].as_u64().unwrap();
    // A look every 32 events; a core may be 1 us or 12,000 retirements ahead, but waits for flash.
    assert!((3_000..3_300).contains(&executed), "{executed}");
    assert!(measured.abs_diff(executed) < 10, "{measured} {executed}");
}

#[test]
fn windows_that_do_not_fit_are_refused() {
    let run = prepare(&mixed(1, 16, 100, 1), "demo", "base-cssd", &SETTINGS);
    for (count, instructions) in [(0, 10), (2, 0), (2, 1_000), (1_000, 1)] {
        let error = run
            .check_windows(Windows {
                count,
                instructions,
            })
            .unwrap_err();
        assert!(error.to_string().contains("do not fit"), "{error}");
    }
}
