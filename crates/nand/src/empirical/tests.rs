//! Tables are read as they are written, and what is drawn from them is what they say.

use super::{Empirical, EmpiricalConfig};
use crate::{Kind, TimeTable};
use units::{Picos, Ratio};

fn table(text: &str) -> TimeTable {
    text.parse().unwrap()
}

fn drawn(config: &EmpiricalConfig, kind: Kind, depth: u64, count: usize) -> Vec<f64> {
    let mut empirical = Empirical::new(config, 2).unwrap();
    let constant = Picos::from_micros(7);
    let draw = |_| empirical.time(kind, depth, 0, constant).get() as f64 / 1e6;
    (0..count).map(draw).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn a_table_prints_as_it_is_read() {
    for text in [
        "constant",
        "1: 0%=98us 50%=100us 100%=110us",
        "1: 0%=98us 100%=110us; 8: 0%=99us 99.99%=1.5ms 100%=5ms",
    ] {
        let read = table(text);
        assert_eq!(table(&read.to_string()), read, "{text}");
    }
    let lines = table("\n1: 0%=98us\n100%=110us;\n8: 0%=99us 100%=5ms\n");
    assert_eq!(lines, table("1: 0%=98us 100%=110us; 8: 0%=99us 100%=5ms"));
}

#[test]
fn what_is_no_table_is_said_with_its_row() {
    for (text, why) in [
        ("", "\"\" is no table of times"),
        ("fast", "fast is no table of times"),
        (
            "1: 0%=1us 100%=2us; 8",
            "must begin with commands in flight",
        ),
        ("0: 0%=1us 100%=2us", "no number of commands"),
        ("1:", "no points"),
        ("1: 0%=1us", "must go from 0% to 100%"),
        ("1: 0%=1us 50%=3us 100%=2us", "times do not fall"),
        ("1: 0%=1us 50%=3us 40%=4us 100%=5us", "shares rise"),
        ("1: 0%=1us 100%=soon", "\"soon\" is not a span"),
        ("1: 0%=1ps 100%=2us", "must be 1ns to 1s"),
        ("1: 0% 100%=2us", "0% is not SHARE=TIME"),
        (
            "8: 0%=1us 100%=2us; 1: 0%=1us 100%=2us",
            "row 1 comes behind row 8",
        ),
    ] {
        let error = text.parse::<TimeTable>().unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn what_is_drawn_is_distributed_as_the_table_says() {
    let config = EmpiricalConfig {
        read: table("1: 0%=10us 50%=20us 100%=60us"),
        ..EmpiricalConfig::constant()
    };
    let mut times = drawn(&config, Kind::Read, 1, 100_000);
    // Half of them even between 10 and 20, half between 20 and 60.
    assert!((mean(&times) - 27.5).abs() < 0.15, "{}", mean(&times));
    times.sort_by(f64::total_cmp);
    for (share, time) in [(0.0, 10.0), (0.25, 15.0), (0.5, 20.0), (0.75, 40.0)] {
        let found = times[(share * times.len() as f64) as usize];
        assert!((found - time).abs() < 0.3, "{share}: {found}");
    }
    assert!(times[0] >= 10.0 && times[times.len() - 1] <= 60.0);
}

#[test]
fn between_two_rows_times_lie_between_and_outside_of_them_they_stay() {
    let config = EmpiricalConfig {
        read: table("2: 0%=10us 100%=10us; 6: 0%=30us 100%=30us"),
        ..EmpiricalConfig::constant()
    };
    for (depth, time) in [
        (1, 10.0),
        (2, 10.0),
        (3, 15.0),
        (4, 20.0),
        (6, 30.0),
        (99, 30.0),
    ] {
        assert_eq!(drawn(&config, Kind::Read, depth, 3), [time; 3], "{depth}");
    }
}

#[test]
fn draws_of_one_kind_shift_no_other_kinds() {
    let config = EmpiricalConfig {
        read: table("1: 0%=10us 100%=60us"),
        program: table("1: 0%=10us 100%=60us"),
        ..EmpiricalConfig::constant()
    };
    let mut mixed = Empirical::new(&config, 2).unwrap();
    let programs: Vec<f64> = (0..50)
        .map(|turn| {
            for _ in 0..turn % 3 {
                mixed.time(Kind::Read, 1, 0, Picos::ZERO);
            }
            mixed.time(Kind::Program, 1, 0, Picos::ZERO).get() as f64 / 1e6
        })
        .collect();
    assert_eq!(programs, drawn(&config, Kind::Program, 1, 50));
    assert_ne!(programs, drawn(&config, Kind::Read, 1, 50));
    let other = EmpiricalConfig { seed: 2, ..config };
    assert_ne!(programs, drawn(&other, Kind::Program, 1, 50));
}

#[test]
fn overhead_interference_and_retries_add_up() {
    let config = EmpiricalConfig {
        read: table("1: 0%=10us 100%=10us"),
        overhead: Picos::from_micros(5),
        interference: Ratio::percent(40),
        retry: Ratio::percent(10),
        retry_most: 2,
        retry_time: Picos::from_micros(100),
        ..EmpiricalConfig::constant()
    };
    let count = 100_000;
    let times = drawn(&config, Kind::Read, 1, count);
    let share =
        |time: f64| times.iter().filter(|each| **each == time).count() as f64 / count as f64;
    assert!((share(15.0) - 0.9).abs() < 0.005, "{}", share(15.0));
    assert!((share(115.0) - 0.09).abs() < 0.005, "{}", share(115.0));
    assert!((share(215.0) - 0.01).abs() < 0.002, "{}", share(215.0));
    // A program on channel 1 is in the way of reads there and of no others. Without a table it
    // takes its constant, which has the overhead in it.
    let mut empirical = Empirical::new(&config, 2).unwrap();
    let constant = Picos::from_micros(7);
    assert_eq!(empirical.time(Kind::Program, 1, 1, constant), constant);
    let mut is_longer = |channel| {
        let time = empirical.time(Kind::Read, 1, channel, constant);
        time.get() % 100_000_000 == 21_000_000
    };
    assert!(is_longer(1) && !is_longer(0));
    empirical.leave(1);
    assert_eq!(
        empirical.time(Kind::Read, 1, 1, constant).get() % 100_000_000,
        15_000_000
    );
}

#[test]
fn constants_draw_nothing() {
    let overhead = EmpiricalConfig {
        overhead: Picos::from_micros(5),
        ..EmpiricalConfig::constant()
    };
    assert!(Empirical::new(&overhead, 2).is_none());
}
