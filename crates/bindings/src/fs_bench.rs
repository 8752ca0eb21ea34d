//! Loads of file systems in virtual time, for Python.

use crate::{ConfigError, SimulationError};
use device::config::Layer;
use fslab::load::{
    Clients, FsOptions, LOADS, Load, LoadError, Playing, Scale, Setup, memory, replay, run, shipped,
};
use fslab::recording::Recording;
use pyo3::prelude::*;
use serde_json::{Value, json};
use units::Picos;

/// Adds what is in this file.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(fs_loads, module)?)?;
    module.add_function(wrap_pyfunction!(fs_personalities, module)?)?;
    module.add_function(wrap_pyfunction!(fs_replay, module)?)?;
    module.add_function(wrap_pyfunction!(fs_bench_memory, module)?)?;
    module.add_function(wrap_pyfunction!(fs_bench, module)?)
}

fn to_python(error: LoadError) -> PyErr {
    let text = error.to_string();
    match error {
        LoadError::Unknown { .. }
        | LoadError::Text { .. }
        | LoadError::Setting(_)
        | LoadError::Device(_) => ConfigError::new_err(text),
        LoadError::Mount(_)
        | LoadError::Operation { .. }
        | LoadError::Differs { .. }
        | LoadError::Store(_)
        | LoadError::Blocked(_) => SimulationError::new_err(text),
    }
}

/// The loads that ship with Entresol, as JSON.
#[pyfunction]
fn fs_loads() -> PyResult<String> {
    let described = |shipped: &fslab::load::Shipped| {
        let load = shipped.load().map_err(to_python)?;
        let about = shipped.about();
        Ok(json!({"name": shipped.name, "title": load.title, "about": about}))
    };
    let list: PyResult<Vec<Value>> = LOADS.iter().map(described).collect();
    Ok(Value::Array(list?).to_string())
}

/// The ways in which a file system of ours makes changes durable.
#[pyfunction]
fn fs_personalities() -> Vec<&'static str> {
    let all = bytefs::Personality::ALL.iter();
    all.map(|personality| personality.name()).collect()
}

/// Runs a load and gives the result as JSON. `text` is that of a load of the user's, whose file is
/// `load` then.
#[pyfunction]
#[pyo3(signature = (
    load, text, personality, device, files, overrides, scale, seed, cores, threads, cache
))]
#[expect(
    clippy::too_many_arguments,
    reason = "one argument for each thing a run is made of"
)]
fn fs_bench(
    py: Python<'_>,
    load: &str,
    text: Option<&str>,
    personality: &str,
    device: Option<String>,
    files: Vec<(String, String)>,
    overrides: Vec<String>,
    scale: u64,
    seed: u64,
    cores: u32,
    threads: Option<u32>,
    cache: Option<&str>,
) -> PyResult<String> {
    let parsed = load_of(load, text, &overrides)?;
    let mut setup = setup_of(personality, device, files, &overrides, scale, cache)?;
    setup.seed = seed;
    setup.cores = cores;
    setup.threads = threads;
    let result = py
        .detach(|| run(load, &parsed, &setup))
        .map_err(to_python)?;
    Ok(result.json().to_string())
}

/// About the most memory, in bytes, that a run of a load takes.
#[pyfunction]
#[pyo3(signature = (load, text, personality, device, files, overrides, scale, cache))]
#[expect(
    clippy::too_many_arguments,
    reason = "one argument for each thing a run is made of"
)]
fn fs_bench_memory(
    load: &str,
    text: Option<&str>,
    personality: &str,
    device: Option<String>,
    files: Vec<(String, String)>,
    overrides: Vec<String>,
    scale: u64,
    cache: Option<&str>,
) -> PyResult<u64> {
    let parsed = load_of(load, text, &overrides)?;
    let setup = setup_of(personality, device, files, &overrides, scale, cache)?;
    Ok(memory(&parsed, &setup).map_err(to_python)?.get())
}

fn load_of(name: &str, text: Option<&str>, overrides: &[String]) -> PyResult<Load> {
    let sets: Vec<&str> = of_section(overrides, "load.").collect();
    let parsed = match text {
        Some(text) => Load::parse_with(name, text, &sets),
        None => shipped(name).and_then(|shipped| shipped.load_with(&sets)),
    };
    parsed.map_err(to_python)
}

/// Plays a recording, whose text is given and whose file is `name`, and gives the result as JSON.
/// With `thinks`, threads take their time between operations, but for `less` of each such time;
/// what was done `between` two names is measured by itself; if it `decides`, the result says what
/// transparent DAX has judged and decided. With `clients`, as JSON, the requests of so many clients
/// are played instead of what lies between the names.
#[pyfunction]
#[pyo3(signature = (
    name, text, personality, device, files, overrides, scale, cores, cache, thinks, less, between,
    decides, clients
))]
#[expect(
    clippy::too_many_arguments,
    reason = "one argument for each thing a run is made of"
)]
fn fs_replay(
    py: Python<'_>,
    name: &str,
    text: &str,
    personality: &str,
    device: Option<String>,
    files: Vec<(String, String)>,
    overrides: Vec<String>,
    scale: u64,
    cores: u32,
    cache: Option<&str>,
    thinks: bool,
    less: Option<&str>,
    between: Option<(String, String)>,
    decides: bool,
    clients: Option<&str>,
) -> PyResult<String> {
    let mut setup = setup_of(personality, device, files, &overrides, scale, cache)?;
    setup.cores = cores;
    if let Some(set) = of_section(&overrides, "load.").next() {
        return Err(ConfigError::new_err(format!(
            "--set {set}: a recording is played as it was; leave it out"
        )));
    }
    let less = less.map(str::parse::<Picos>).transpose();
    let less = less.map_err(|error| ConfigError::new_err(format!("--less: {error}")))?;
    let playing = Playing {
        thinks,
        less: less.unwrap_or_default(),
        between,
        decides,
        clients: clients.map(Clients::parse).transpose().map_err(to_python)?,
    };
    let played = py.detach(|| {
        let recording = Recording::parse(text)
            .map_err(|error| ConfigError::new_err(format!("{name}: {error}")))?;
        replay(name, &recording, &setup, &playing).map_err(to_python)
    });
    Ok(played?.json().to_string())
}

/// The assignments of a section.
fn of_section<'a>(overrides: &'a [String], section: &'a str) -> impl Iterator<Item = &'a str> {
    let all = overrides.iter().map(String::as_str);
    all.filter(move |assignment| assignment.starts_with(section))
}

fn setup_of(
    personality: &str,
    device: Option<String>,
    files: Vec<(String, String)>,
    overrides: &[String],
    scale: u64,
    cache: Option<&str>,
) -> PyResult<Setup> {
    let personality = personality.parse().map_err(ConfigError::new_err)?;
    let mut setup = Setup::new(personality, Scale::new(scale).map_err(to_python)?);
    setup.preset = device;
    if let Some(cache) = cache {
        let refused = |error| ConfigError::new_err(format!("--cache: {error}"));
        setup.cache = cache.parse().map_err(refused)?;
    }
    setup.layers = files
        .into_iter()
        .map(|(name, text)| Layer::new(name, text))
        .collect();
    let of_fs: Vec<&str> = of_section(overrides, "fs.").collect();
    setup.fs = FsOptions::of(&of_fs).map_err(to_python)?;
    let others = ["load.", "fs."];
    for assignment in overrides {
        if others.iter().any(|section| assignment.starts_with(section)) {
            continue;
        }
        let layer = Layer::assignment(assignment);
        let refused = |error: settings::Problems| ConfigError::new_err(error.to_string());
        setup.layers.push(layer.map_err(refused)?);
    }
    Ok(setup)
}
