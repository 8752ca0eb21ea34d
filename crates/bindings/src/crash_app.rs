//! Power cuts under programs of the user's, for Python.

use crate::device::ImageError;
use crate::{ConfigError, EntresolError};
use bytefs::{FormatOptions, Timestamp};
use device::config::Layer;
use device::{DeviceConfig, Image};
use fslab::app::{AppError, Cuts, Limits, Shown, State, Step, keep, on_copy, on_new, visible};
use fslab::load::{Scale, scaled};
use pyo3::prelude::*;
use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Adds what is in this file.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(crash_app, module)?)?;
    module.add_class::<CrashApp>()
}

fn refused(error: impl std::fmt::Display) -> PyErr {
    ConfigError::new_err(error.to_string())
}

fn failed(error: &AppError) -> PyErr {
    EntresolError::new_err(error.to_string())
}

/// Runs a program in a file system and gives the power cuts that there can be. `options`, as JSON:
/// `image`, the copy of one, or `device`, `scale`, `sets` and `personality` of a new one; `seed`,
/// `cuts`, `at`, `state`, `samples`. `run` starts the program, whose output goes to the file
/// `output`, and waits for it.
#[pyfunction]
fn crash_app(
    py: Python<'_>,
    directory: PathBuf,
    output: PathBuf,
    options: &str,
    run: &Bound<'_, PyAny>,
) -> PyResult<CrashApp> {
    let told: Value = serde_json::from_str(options).map_err(refused)?;
    let output = File::open(&output)
        .map_err(|error| EntresolError::new_err(format!("{}: {error}", output.display())))?;
    let (config, running) = py.detach(|| -> PyResult<_> {
        if let Some(image) = told["image"].as_str() {
            let image = Path::new(image);
            let known = Image::describe(image);
            let known = known.map_err(|error| ImageError::new_err(error.to_string()))?;
            let running = on_copy(image, &directory, output);
            return Ok((known.config, running.map_err(|error| failed(&error))?));
        }
        let config = device_of(&told)?;
        let format = format_of(&told)?;
        let running = on_new(&config, &format, &directory, output);
        Ok((config, running.map_err(|error| failed(&error))?))
    })?;
    let done = run.call0();
    let trial = py.detach(|| running.end());
    done?;
    let trial = trial.map_err(|error| failed(&error))?;
    let cuts = py.detach(|| Cuts::new(trial, limits_of(&told)));
    Ok(CrashApp {
        config,
        inner: Mutex::new(Inner { cuts, state: None }),
    })
}

fn device_of(told: &Value) -> PyResult<DeviceConfig> {
    let scale = Scale::new(told["scale"].as_u64().unwrap_or(1)).map_err(refused)?;
    let sets = told["sets"].as_array().into_iter().flatten();
    let layers = sets.map(|set| Layer::assignment(set.as_str().unwrap_or_default()));
    let layers: Result<Vec<Layer>, _> = layers.collect();
    let preset = told["device"].as_str().unwrap_or("bytefs");
    scaled(preset, scale, &layers.map_err(refused)?).map_err(refused)
}

fn format_of(told: &Value) -> PyResult<FormatOptions> {
    let name = told["personality"].as_str().unwrap_or("bytefs");
    let personality = name.parse().map_err(ConfigError::new_err::<String>)?;
    let number = |key: &str| u32::try_from(told[key].as_u64().unwrap_or(0)).unwrap_or(u32::MAX);
    Ok(FormatOptions {
        now: Timestamp(told["now_ns"].as_i64().unwrap_or(0)),
        owner: (number("uid"), number("gid")),
        ..FormatOptions::new(personality)
    })
}

fn limits_of(told: &Value) -> Limits {
    Limits {
        moments: told["cuts"].as_u64(),
        seed: told["seed"].as_u64().unwrap_or(0),
        at: told["at"].as_u64(),
        state: told["state"].as_u64(),
        samples: told["samples"].as_u64().unwrap_or(64) as u32,
    }
}

/// The power cuts of one run of a program, one state after the other.
#[pyclass(frozen)]
pub struct CrashApp {
    config: DeviceConfig,
    inner: Mutex<Inner>,
}

struct Inner {
    cuts: Cuts,
    state: Option<State>,
}

impl CrashApp {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shown(
        &self,
        py: Python<'_>,
        directory: &Path,
        whole: bool,
        judge: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let shown = py.detach(|| {
            let inner = self.inner();
            let shape = inner.cuts.trial().shape;
            match &inner.state {
                Some(state) if !whole => Shown::new(shape, &state.image, directory),
                _ => {
                    let image = inner.cuts.whole();
                    visible(shape, &image)?;
                    Shown::new(shape, &image, directory)
                }
            }
        });
        let shown = shown.map_err(EntresolError::new_err)?;
        let judged = judge.call0();
        let ended = py.detach(|| shown.end());
        judged?;
        ended.map_err(EntresolError::new_err)
    }
}

#[pymethods]
impl CrashApp {
    /// Goes on to the next state; what it is, as JSON, or nothing if there is none.
    fn advance(&self, py: Python<'_>) -> PyResult<Option<String>> {
        loop {
            py.check_signals()?;
            let step = py.detach(|| self.inner().cuts.step());
            self.inner().state = match step {
                Step::Looking => continue,
                Step::Found(state) => Some(*state),
                Step::Over => None,
            };
            let inner = self.inner();
            return Ok(inner.state.as_ref().map(|state| state.json().to_string()));
        }
    }

    /// Mounts the state at a directory while `judge` looks at it.
    fn show(&self, py: Python<'_>, directory: PathBuf, judge: &Bound<'_, PyAny>) -> PyResult<()> {
        self.shown(py, &directory, false, judge)
    }

    /// As `show`, what there is without a power cut.
    fn show_whole(
        &self,
        py: Python<'_>,
        directory: PathBuf,
        judge: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.shown(py, &directory, true, judge)
    }

    /// Writes the state to a new image.
    fn keep(&self, py: Python<'_>, image: PathBuf) -> PyResult<()> {
        py.detach(|| {
            let inner = self.inner();
            let state = inner.state.as_ref().ok_or("there is no state")?;
            keep(&image, &self.config, &state.image)
        })
        .map_err(EntresolError::new_err::<String>)
    }

    /// Device operations, cuts, states so far, and bytes of output, as JSON.
    fn tally(&self) -> String {
        let inner = self.inner();
        let mut tally = inner.cuts.tally().json();
        let trial = inner.cuts.trial();
        tally["changes"] = trial.changes.into();
        tally["syncs"] = trial.syncs.len().into();
        tally["output_bytes"] = trial.output_end.into();
        tally.to_string()
    }
}
