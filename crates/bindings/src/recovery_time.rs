//! How long a device takes to recover, for Python.

use crate::device::{ImageError, configured, to_python};
use crate::{ConfigError, EntresolError};
use device::recovery_time::{Failed, Filling, Measured, measure};
use pyo3::prelude::*;
use serde_json::json;
use std::path::PathBuf;
use units::Bytes;

/// Adds what is in this file.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(device_recovery_time, module)?)
}

/// Makes a device with a log of this size at `image`, fills the log or a half of it, cuts the
/// power, recovers, and says how long that took, as JSON. `filling` are the lines of a page that
/// are written, and whether both halves are filled. The image is gone afterwards. A signal stops
/// it.
#[pyfunction]
fn device_recovery_time(
    py: Python<'_>,
    image: PathBuf,
    log: &str,
    preset: &str,
    files: Vec<(String, String)>,
    mut overrides: Vec<String>,
    filling: (u32, bool),
) -> PyResult<String> {
    let size: Bytes = log
        .parse()
        .map_err(|error| ConfigError::new_err(format!("--log {log}: {error}")))?;
    let base = configured(preset, &files, &overrides).map_err(to_python)?;
    let rest = Bytes::new(base.ssd.dram.get() - base.ssd.log.size.get());
    overrides.push(format!("ssd.log.size={size}"));
    overrides.push(format!("ssd.dram={}", size + rest));
    let config = configured(preset, &files, &overrides).map_err(to_python)?;
    let (lines_per_page, both_halves) = filling;
    let filling = Filling {
        lines_per_page,
        both_halves,
    };
    let mut interrupted = None;
    let measured = py.detach(|| {
        measure(&image, &config, filling, &mut || {
            interrupted = Python::attach(|py| py.check_signals()).err();
            interrupted.is_none()
        })
    });
    if let Some(error) = interrupted {
        return Err(error);
    }
    measured
        .map(|measured| told(size, &measured))
        .map_err(raise)
}

fn told(size: Bytes, measured: &Measured) -> String {
    json!({
        "log_bytes": size.get(),
        "slots": measured.recovered.slots,
        "lines": measured.recovered.lines,
        "pages": measured.pages,
        "scan_ps": measured.recovered.scan.get(),
        "flush_ps": measured.flush.get(),
        "read_pages": measured.read_pages,
        "programmed_pages": measured.programmed_pages,
        "opening_wall_ps": measured.opening_wall.get(),
        "flush_wall_ps": measured.flush_wall.get(),
    })
    .to_string()
}

fn raise(failed: Failed) -> PyErr {
    match failed {
        Failed::File(error) => to_python(error),
        Failed::TooFewPages { .. } | Failed::TooManyLines { .. } | Failed::NoLog => {
            ConfigError::new_err(failed.to_string())
        }
        Failed::Device(error) => ImageError::new_err(error.to_string()),
        Failed::Stopped => EntresolError::new_err(failed.to_string()),
    }
}
