//! The modules that OpenCXD measured, as presets: the deviations of its Table II through the flash.

use nand::{Kind, NandConfig, measure};
use sim::Config;
use sim::config::presets;

fn module(name: &str) -> NandConfig {
    let layers = presets::layers("table2", Some(name), "base-cssd").unwrap();
    Config::of_device(&layers).unwrap().nand
}

/// Standard deviation and median, in microseconds, of the times from the start at the die to the
/// end: what OpenCXD measures, from the issue to the flash controller to its answer.
fn served(config: &NandConfig, kind: Kind, depth: u32) -> (f64, f64) {
    let ends = measure::closed_loop(config, kind, depth, 40_000);
    let mut times: Vec<f64> = ends
        .iter()
        .map(|end| (end.latency() - end.wait()).get() as f64 / 1e6)
        .collect();
    times.sort_by(f64::total_cmp);
    let count = times.len() as f64;
    let mean = times.iter().sum::<f64>() / count;
    let squares: f64 = times.iter().map(|time| (time - mean).powi(2)).sum();
    ((squares / count).sqrt(), times[times.len() / 2])
}

#[test]
fn deviations_of_table_ii_come_out_of_the_flash_within_a_tenth() {
    for (name, kind, depth, published) in [
        ("module-a", Kind::Read, 1, 1.1),
        ("module-a", Kind::Program, 1, 37.61),
        ("module-a", Kind::Read, 8, 974.16),
        ("module-a", Kind::Program, 8, 1110.91),
        ("module-b", Kind::Read, 1, 0.89),
        ("module-b", Kind::Program, 1, 3.19),
        ("module-b", Kind::Read, 8, 1374.84),
        ("module-b", Kind::Program, 8, 1107.97),
    ] {
        let (deviation, median) = served(&module(name), kind, depth);
        let off = deviation / published - 1.0;
        assert!(off.abs() < 0.1, "{name} {kind:?} {depth}: {deviation} us");
        if depth == 1 {
            let cells = if kind == Kind::Read { 99.72 } else { 200.0 };
            assert!((median - 139.58 - cells).abs() < 1.0, "{name}: {median} us");
        }
    }
}

#[test]
fn the_same_flash_gives_the_same_times_and_another_seed_others() {
    let config = module("module-b");
    let run = |config: &NandConfig| measure::closed_loop(config, Kind::Read, 8, 500);
    assert_eq!(run(&config), run(&config));
    let mut other = config.clone();
    other.empirical.seed = 2;
    assert_ne!(run(&config), run(&other));
}

#[test]
fn two_clocks_draw_nothing() {
    let mut layers = presets::layers("table2", Some("module-a"), "base-cssd").unwrap();
    layers.push(sim::config::Layer::assignment("nand.scheduling=split").unwrap());
    let error = Config::of_device(&layers).unwrap_err().to_string();
    assert!(error.contains("take fifo or read_priority"), "{error}");
}
