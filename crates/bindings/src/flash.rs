//! The flash alone, for Python.

use crate::{ConfigError, to_python};
use nand::{Kind, NandConfig, measure};
use pyo3::prelude::*;
use serde_json::json;
use sim::config::{Config, Layer, presets};

/// Commands that one measurement takes at most: their times are all given back.
const MOST: u32 = 10_000_000;

/// Keeps `depth` commands of a kind (`read`, `program` or `erase`) in flight until `count` are
/// done, and gives, as JSON, what each took in picoseconds: at its die (`served_ps`) and from its
/// submission on (`whole_ps`), in the order of their ends.
#[pyfunction]
fn nand_measure(
    py: Python<'_>,
    nand: Option<String>,
    files: Vec<(String, String)>,
    overrides: Vec<String>,
    kind: &str,
    depth: u32,
    count: u32,
) -> PyResult<String> {
    let config = config(nand.as_deref(), files, &overrides)?;
    let kind = match kind {
        "read" => Kind::Read,
        "program" => Kind::Program,
        "erase" => Kind::Erase,
        other => {
            let problem = format!("operation {other}: it must be read, program or erase");
            return Err(ConfigError::new_err(problem));
        }
    };
    if !(1..=4096).contains(&depth) || !(1..=MOST).contains(&count) {
        let problem =
            format!("{count} commands, {depth} in flight: take 1 to {MOST}, of 1 to 4096");
        return Err(ConfigError::new_err(problem));
    }
    let ends = py.detach(|| measure::closed_loop(&config, kind, depth, count));
    let served = ends.iter().map(|end| (end.latency() - end.wait()).get());
    let whole = ends.iter().map(|end| end.latency().get());
    Ok(json!({
        "served_ps": served.collect::<Vec<u64>>(),
        "whole_ps": whole.collect::<Vec<u64>>(),
    })
    .to_string())
}

fn config(
    nand: Option<&str>,
    files: Vec<(String, String)>,
    overrides: &[String],
) -> PyResult<NandConfig> {
    // Of the design nothing counts: its flash is the machine's.
    let mut layers = presets::layers("table2", nand, "base-cssd").map_err(to_python)?;
    layers.extend(files.into_iter().map(|(name, text)| Layer::new(name, text)));
    for set in overrides {
        let layer = Layer::assignment(set);
        layers.push(layer.map_err(|problem| ConfigError::new_err(problem.to_string()))?);
    }
    let config = Config::of_device(&layers).map_err(to_python)?.nand;
    match config.scheduling {
        nand::Scheduling::Split => Err(ConfigError::new_err(
            "nand.scheduling is split, which knows the end of a command at once; measure fifo or \
             read_priority",
        )),
        _ => Ok(config),
    }
}

/// Adds what is in this file.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(nand_measure, module)?)
}
