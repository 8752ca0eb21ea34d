//! Looking at a device again and again, for Python.

use crate::device::{described, to_python};
use device::Image;
use device::latency::Latencies;
use device::metrics::latencies_json;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Adds what is in this file.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<DeviceWatch>()
}

/// Looks at an image whose device may be at work.
#[pyclass(frozen)]
struct DeviceWatch {
    image: PathBuf,
    before: Mutex<Option<Latencies>>,
}

#[pymethods]
impl DeviceWatch {
    #[new]
    fn new(image: PathBuf) -> Self {
        Self {
            image,
            before: Mutex::default(),
        }
    }

    /// What the image is and what its device has done, and, as `recent`, the latencies of what came
    /// since the last look; null at the first one. As JSON.
    fn look(&self, py: Python<'_>) -> PyResult<String> {
        let about = py.detach(|| Image::describe(&self.image));
        let about = about.map_err(to_python)?;
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = before.as_ref().map(|then| about.latencies.since(then));
        let mut told = described(&about);
        told["recent"] = recent.as_ref().map(latencies_json).into();
        *before = Some(about.latencies);
        Ok(told.to_string())
    }
}
