//! Serving a device's block port to other programs.

use crate::ConfigError;
use crate::device::{ImageError, to_python};
use device::nbd::{Address, AddressError, Export, Listener, Served, ServerError, Turn, serve};
use device::{Pace, RealDevice};
use port::Device;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use serde_json::json;
use std::path::Path;

/// Adds these functions to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(device_serve, module)?)
}

fn wrong_address(error: AddressError) -> PyErr {
    ConfigError::new_err(error.to_string())
}

fn wrong(error: impl core::fmt::Display) -> PyErr {
    ImageError::new_err(error.to_string())
}

/// Serves an image over NBD until Python is interrupted, then flushes and closes it. Tells
/// `listening` where, for whom and what, as JSON. What it did, as JSON.
#[pyfunction]
fn device_serve(
    py: Python<'_>,
    image: &str,
    address: &str,
    allow_remote: bool,
    real_pace: bool,
    listening: &Bound<'_, PyAny>,
) -> PyResult<String> {
    let address = Address::parse(address, allow_remote).map_err(wrong_address)?;
    let pace = if real_pace { Pace::Real } else { Pace::None };
    let open = || RealDevice::open(Path::new(image), pace);
    let device = py.detach(open).map_err(to_python)?;
    let path = Path::new(image).file_name().unwrap_or_default();
    let export = Export::new(&path.to_string_lossy(), device.shape()).map_err(wrong)?;
    let listener = Listener::bind(&address).map_err(wrong_address)?;
    let told = json!({
        "place": listener.place(),
        "audience": listener.audience(),
        "size": export.size().get(),
        "block": export.block().get(),
    });
    listening.call1((told.to_string(),))?;
    let (served, interruption) = py.detach(|| run(&device, listener, export));
    let clock = device.stats().clock;
    let closed = py.detach(|| device.close());
    let served = served.map_err(wrong)?;
    closed.map_err(to_python)?;
    match interruption {
        Some(error) if !error.is_instance_of::<PyKeyboardInterrupt>(py) => Err(error),
        _ => Ok(json!({
            "connections": served.connections,
            "requests": served.requests,
            "errors": served.errors,
            "device_clock_ps": clock.as_picos(),
        })
        .to_string()),
    }
}

/// Serves until a handler of Python's signals raises; what it raised.
fn run(
    device: &RealDevice,
    listener: Listener,
    export: Export,
) -> (Result<Served, ServerError>, Option<PyErr>) {
    let mut interruption = None;
    let served = serve(device, listener, export, || {
        device.engine().publish();
        interruption = Python::attach(|py| py.check_signals()).err();
        if interruption.is_some() {
            Turn::Stop
        } else {
            Turn::On
        }
    });
    (served, interruption)
}
