//! Device images, for Python: making them, and looking at them.

use crate::{ConfigError, EntresolError, by_section, documented};
use device::config::{Layer, PRESETS};
use device::{
    Description, DeviceConfig, DeviceEngine, DeviceFileError, Image, Pace, fsck, metrics,
};
use pyo3::prelude::*;
use serde_json::{Value, json};
use std::path::PathBuf;

pyo3::create_exception!(
    _core,
    ImageError,
    EntresolError,
    "A device image cannot be made or used."
);

/// An error of an image as its exception.
pub(crate) fn to_python(error: DeviceFileError) -> PyErr {
    let text = error.to_string();
    match error {
        DeviceFileError::Config(_) => ConfigError::new_err(text),
        // No fault of the user's words: the disk is full or has errors, the flash is worn out,
        // somebody removed the image.
        DeviceFileError::Io { .. }
        | DeviceFileError::Unflushed { .. }
        | DeviceFileError::Removed(_) => EntresolError::new_err(text),
        _ => ImageError::new_err(text),
    }
}

/// The device presets, as JSON.
#[pyfunction]
fn device_presets() -> String {
    let list: Vec<Value> = PRESETS
        .iter()
        .map(|preset| {
            json!({"name": preset.name, "summary": preset.summary(), "about": preset.about()})
        })
        .collect();
    Value::Array(list).to_string()
}

/// Every parameter of a device with its documentation, as JSON.
#[pyfunction]
fn device_parameters() -> String {
    documented(device::config::SECTIONS).to_string()
}

/// The effective configuration, by section and key, as JSON. `files` are pairs of name and text.
#[pyfunction]
fn device_config(
    preset: &str,
    files: Vec<(String, String)>,
    overrides: Vec<String>,
) -> PyResult<String> {
    let config = configured(preset, &files, &overrides).map_err(to_python)?;
    Ok(by_section(config.texts()).to_string())
}

/// Makes an image, and gives its name. The device is switched on once, so that its statistics say
/// how a new one stands.
#[pyfunction]
fn device_create(
    py: Python<'_>,
    path: PathBuf,
    preset: &str,
    files: Vec<(String, String)>,
    overrides: Vec<String>,
) -> PyResult<String> {
    let config = configured(preset, &files, &overrides).map_err(to_python)?;
    let made = py.detach(|| {
        let name = Image::create(&path, &config)?;
        let opened = DeviceEngine::open(&path, Pace::None).and_then(DeviceEngine::close);
        if opened.is_err() {
            // What cannot be opened is no device. That it is in the way is the lesser trouble.
            let _ = std::fs::remove_dir_all(&path);
        }
        opened.map(|_| name)
    });
    Ok(made.map_err(to_python)?.to_string())
}

/// What an image is, as JSON; another process may have it open.
#[pyfunction]
fn device_info(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    let about = py.detach(|| Image::describe(&path)).map_err(to_python)?;
    Ok(described(&about).to_string())
}

/// What an image is and what its device has done.
pub(crate) fn described(about: &Description) -> Value {
    let config = &about.config;
    json!({
        "id": about.id.to_string(),
        "capacity_bytes": config.capacity().get(),
        "raw_bytes": config.nand.capacity().get(),
        "block_bytes": config.device.block.bytes().get(),
        "write_log_bytes": config.ssd.log.size.get(),
        "disk_bytes": about.disk_bytes.get(),
        "is_open": about.is_open,
        "configuration": by_section(config.texts()),
        "statistics": metrics::json(&about.counters, &about.latencies),
    })
}

/// What an image's device counts, as Prometheus text; another process may have it open.
#[pyfunction]
fn device_prometheus(py: Python<'_>, path: PathBuf, label: &str) -> PyResult<String> {
    let about = py.detach(|| Image::describe(&path)).map_err(to_python)?;
    Ok(metrics::prometheus(
        &about.counters,
        &about.latencies,
        label,
    ))
}

/// Checks an image, and gives what was found, as JSON. A signal stops it.
#[pyfunction]
fn device_fsck(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    let mut interrupted = None;
    let findings = py.detach(|| {
        let mut observe = |_pages: u64| {
            interrupted = Python::attach(|py| py.check_signals()).err();
            interrupted.is_none()
        };
        fsck::check(&path, &mut observe)
    });
    if let Some(error) = interrupted {
        return Err(error);
    }
    let found = findings.map_err(to_python)?;
    Ok(json!({
        "problems": found.problems,
        "problem_count": found.problem_count,
        "lost": found.lost,
        "lost_pages": found.lost_pages,
        "mapped_pages": found.mapped_pages,
        "logged_lines": found.logged_lines,
        "uncommitted_lines": found.uncommitted_lines,
        "buffered_pages": found.buffered_pages,
        "framed_pages": found.framed_pages,
        "partly_framed_pages": found.partly_framed_pages,
        "committed_transactions": found.committed_transactions,
        "used_blocks": found.used_blocks,
        "retired_blocks": found.retired_blocks,
        "condemned_blocks": found.condemned_blocks,
        "most_wear_erases": found.most_wear,
        "was_cut_off": found.was_cut_off,
    })
    .to_string())
}

/// The configuration of a preset with files and `--set`s over it.
pub(crate) fn configured(
    preset: &str,
    files: &[(String, String)],
    overrides: &[String],
) -> Result<DeviceConfig, DeviceFileError> {
    let files = files.iter().map(|(name, text)| Ok(Layer::new(name, text)));
    let overrides = overrides.iter().map(|set| Layer::assignment(set));
    let layers: Vec<Layer> = files.chain(overrides).collect::<Result<_, _>>()?;
    DeviceConfig::of_preset(preset, &layers)
}

/// Adds all of it to the module.
pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("ImageError", module.py().get_type::<ImageError>())?;
    module.add_function(wrap_pyfunction!(device_presets, module)?)?;
    module.add_function(wrap_pyfunction!(device_parameters, module)?)?;
    module.add_function(wrap_pyfunction!(device_config, module)?)?;
    module.add_function(wrap_pyfunction!(device_create, module)?)?;
    module.add_function(wrap_pyfunction!(device_info, module)?)?;
    module.add_function(wrap_pyfunction!(device_prometheus, module)?)?;
    module.add_function(wrap_pyfunction!(device_fsck, module)?)
}
