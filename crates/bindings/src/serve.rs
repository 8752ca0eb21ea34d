//! Serving a device to other programs.

use crate::device::{ImageError, to_python};
use crate::{ConfigError, EntresolError};
use device::{Image, Lag, Pace, RealDevice};
use port::Device;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use serde_json::{Value, json};
use serve::image::{Ended, Manner, Mounted};
use serve::nbd::{Export, Limits, Served, serve};
use serve::nvme::{self, Subsystem};
use serve::{Address, AddressError, Control, Listener, ServerError, shm};
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

/// How long those who have the file open may go on when the server stops.
const DRAIN: Duration = Duration::from_secs(5);
/// How often it is asked whether to stop.
const LOOK: Duration = Duration::from_millis(100);

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

/// What no word of the user's has to do with: a full disk above all.
fn failed(error: impl core::fmt::Display) -> PyErr {
    EntresolError::new_err(error.to_string())
}

/// Where a device is served, as the caller says it.
struct Ports {
    nbd: Option<Address>,
    nvme: Option<Address>,
    shm: Option<Address>,
    fuse: Option<String>,
    is_paced: bool,
    allow_other: bool,
}

impl Ports {
    fn read(text: &str) -> PyResult<Self> {
        let told: Value = serde_json::from_str(text).map_err(wrong)?;
        let is = |name: &str| told[name].as_bool().unwrap_or(false);
        let port = |name: &str| {
            let text = told[name].as_str();
            let address = text.map(|text| Address::parse(text, is("allow_remote")));
            address.transpose().map_err(wrong_address)
        };
        let shm = told["shm"].as_str().map(Address::parse_unix);
        Ok(Self {
            nbd: port("nbd")?,
            nvme: port("nvme")?,
            shm: shm.transpose().map_err(wrong_address)?,
            fuse: told["fuse"].as_str().map(str::to_string),
            is_paced: is("real_pace"),
            allow_other: is("allow_other"),
        })
    }
}

/// What is open to other programs.
struct Doors {
    nbd: Option<(Listener, Export)>,
    nvme: Option<(Listener, Subsystem)>,
    shm: Option<Listener>,
    fuse: Option<Mounted<RealDevice>>,
}

impl Doors {
    fn open(image: &Path, device: &Arc<RealDevice>, ports: &Ports) -> PyResult<Self> {
        let bind = |address: &Address| Listener::bind(address).map_err(wrong_address);
        let name = image.file_name().unwrap_or_default().to_string_lossy();
        let listen = |address: &Address| -> PyResult<_> {
            let export = Export::new(&name, device.shape()).map_err(wrong)?;
            Ok((bind(address)?, export))
        };
        let attach = |address: &Address| -> PyResult<_> {
            let id = Image::describe(image).map_err(to_python)?.id.0;
            let subsystem = Subsystem::new(&name, id, device.shape()).map_err(wrong)?;
            Ok((bind(address)?, subsystem))
        };
        let manner = Manner {
            for_others: ports.allow_other,
            is_paced: ports.is_paced,
            beside_transactions: ports.nvme.is_some() || ports.shm.is_some(),
        };
        let mount = |place: &String| Mounted::new(device.clone(), Path::new(place), manner);
        Ok(Self {
            nbd: ports.nbd.as_ref().map(listen).transpose()?,
            nvme: ports.nvme.as_ref().map(attach).transpose()?,
            shm: ports.shm.as_ref().map(bind).transpose()?,
            fuse: ports.fuse.as_ref().map(mount).transpose().map_err(wrong)?,
        })
    }

    fn told(&self, device: &RealDevice, ports: &Ports) -> String {
        let told = |listener: &Listener| json!({ "place": listener.place(), "audience": listener.audience() });
        let nbd = self.nbd.as_ref().map(|(listener, _)| told(listener));
        let nvme = self.nvme.as_ref().map(|(listener, subsystem)| {
            let mut said = told(listener);
            said["name"] = subsystem.name().into();
            said
        });
        let shm = self.shm.as_ref().map(told);
        let fuse = self.fuse.as_ref().map(|mounted| {
            let audience = if ports.allow_other {
                "all users of this machine"
            } else {
                "programs of this user"
            };
            json!({
                "place": mounted.file().display().to_string(),
                "audience": audience,
                "mended": mounted.was_mended(),
            })
        });
        let shape = device.shape();
        let (size, block) = (shape.capacity.get(), shape.block.get());
        json!({
            "size": size, "block": block, "nbd": nbd, "nvme": nvme, "shm": shm, "fuse": fuse,
        })
        .to_string()
    }
}

/// Serves an image until Python is interrupted, then flushes and closes it. `ports` says where, as
/// JSON; tells `listening` where, for whom and what, as JSON, and `stopped` why, should the device
/// stop. What it did, as JSON.
#[pyfunction]
fn device_serve(
    py: Python<'_>,
    image: &str,
    ports: &str,
    listening: &Bound<'_, PyAny>,
    stopped: &Bound<'_, PyAny>,
) -> PyResult<String> {
    let ports = Ports::read(ports)?;
    let image = Path::new(image);
    let pace = if ports.is_paced {
        Pace::Real
    } else {
        Pace::None
    };
    let device = py.detach(|| RealDevice::open(image, pace));
    let device = Arc::new(device.map_err(to_python)?);
    let doors = match py.detach(|| Doors::open(image, &device, &ports)) {
        Ok(doors) => doors,
        Err(error) => {
            // Nothing was served: the image is left as it was found, and not as behind a power cut.
            py.detach(|| Arc::into_inner(device).map_or(Ok(()), RealDevice::close))
                .map_err(to_python)?;
            return Err(error);
        }
    };
    // Whoever ends it while it says where it serves ends it as later: what was acknowledged is
    // kept.
    let interruption = listening.call1((doors.told(&device, &ports),)).err();
    let stopped = stopped.clone().unbind();
    let outcome = py.detach(|| run(&device, doors, &stopped, interruption));
    let flushed = py.detach(|| device.block_on(device.flush()));
    let clock = device.stats().clock;
    let lag = ports.is_paced.then(|| device.engine().lag().clone());
    let closed = py.detach(|| Arc::into_inner(device).map_or(Ok(()), RealDevice::close));
    // A last flush that fails lets the end fail too, which says of which image; while the file is
    // open there is no end.
    closed.map_err(to_python)?;
    let served = Done {
        nbd: outcome.nbd.transpose().map_err(failed)?,
        nvme: outcome.nvme.transpose().map_err(failed)?,
        shm: outcome.shm.transpose().map_err(failed)?,
        file: outcome.file,
    };
    flushed.map_err(failed)?;
    match outcome.interruption {
        Some(error) if !error.is_instance_of::<PyKeyboardInterrupt>(py) => Err(error),
        _ => Ok(report(served, clock.as_picos(), lag.as_ref())),
    }
}

/// What came of each port.
struct Done {
    nbd: Option<Served>,
    nvme: Option<nvme::Served>,
    shm: Option<shm::Served>,
    file: Option<Ended>,
}

fn report(done: Done, clock: u64, lag: Option<&Lag>) -> String {
    let nbd = done.nbd.map(|served| {
        json!({
            "connections": served.connections,
            "requests": served.requests,
            "errors": served.errors,
        })
    });
    let nvme = done.nvme.map(|served| {
        json!({
            "controllers": served.controllers,
            "requests": served.requests,
            "errors": served.errors,
        })
    });
    let shm = done.shm.map(|served| {
        json!({
            "connections": served.clients,
            "requests": served.requests,
            "errors": served.errors,
            "breaches": served.breaches,
        })
    });
    let fuse = done.file.map(|ended| {
        json!({
            "requests": ended.served.requests,
            "errors": ended.served.errors,
            "is_open": ended.is_open,
        })
    });
    let lag = lag.map(|lag| {
        json!({
            "p50_ps": lag.quantile(500).get(),
            "p99_ps": lag.quantile(990).get(),
            "longest_ps": lag.longest().get(),
        })
    });
    json!({
        "nbd": nbd,
        "nvme": nvme,
        "shm": shm,
        "fuse": fuse,
        "device_clock_ps": clock,
        "lag": lag,
    })
    .to_string()
}

type Ending<T> = Option<Result<T, ServerError>>;

/// What came of each port, and what ended it.
struct Outcome {
    nbd: Ending<Served>,
    nvme: Ending<nvme::Served>,
    shm: Ending<shm::Served>,
    file: Option<Ended>,
    interruption: Option<PyErr>,
}

/// Tells the others to stop when a server's thread ends, however it does.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What a server in a thread of its own is told when it asks.
fn told(stop: &AtomicBool) -> Control {
    match stop.load(Ordering::Relaxed) {
        true => Control::Stop,
        false => Control::Continue,
    }
}

/// Waits for a thread that serves, if there is one.
fn joined<T>(thread: Option<ScopedJoinHandle<'_, T>>) -> Option<T> {
    let end = thread.map(ScopedJoinHandle::join);
    end.map(|end| end.unwrap_or_else(|panic| resume_unwind(panic)))
}

/// Serves until a handler of Python's signals raises, which it may have done before, or until
/// nobody can come any more. `stopped` is told why the device has stopped, once.
fn run(
    device: &RealDevice,
    doors: Doors,
    stopped: &Py<PyAny>,
    mut interruption: Option<PyErr>,
) -> Outcome {
    let Doors {
        nbd,
        nvme,
        shm,
        fuse,
    } = doors;
    let stop = AtomicBool::new(interruption.is_some());
    let mut was_told = false;
    let mut turn = || {
        if interruption.is_some() {
            return Control::Stop;
        }
        let mut engine = device.engine();
        engine.publish();
        let reason = engine.stopped().filter(|_| !was_told).map(str::to_owned);
        drop(engine);
        was_told |= reason.is_some();
        let told = Python::attach(|py| {
            reason.map_or(Ok(()), |reason| stopped.call1(py, (reason,)).map(drop))?;
            py.check_signals()
        });
        interruption = told.err();
        if interruption.is_some() {
            // All servers stop together: what one of them ends may wait for another's clients.
            stop.store(true, Ordering::Relaxed);
        }
        self::told(&stop)
    };
    let is_mounted = || fuse.as_ref().is_some_and(|mounted| !mounted.is_over());
    let (nbd, nvme, shm) = std::thread::scope(|scope| {
        let stop = &stop;
        // However this thread ends: the others are joined.
        let _ends = Ends(stop);
        let shared = shm.as_ref().map(|listener| {
            scope.spawn(move || {
                let _ends = Ends(stop);
                shm::serve(device, listener, || told(stop))
            })
        });
        let attached = nvme.map(|(listener, subsystem)| {
            scope.spawn(move || {
                let _ends = Ends(stop);
                let limits = nvme::Limits::default();
                nvme::serve(device, listener, subsystem, limits, || told(stop))
            })
        });
        let others = shared.is_some() || attached.is_some();
        let served = match nbd {
            Some((listener, export)) => {
                Some(serve(device, listener, export, Limits::default(), turn))
            }
            None => {
                while (others || is_mounted()) && turn() == Control::Continue {
                    pause();
                }
                None
            }
        };
        stop.store(true, Ordering::Relaxed);
        (served, joined(attached), joined(shared))
    });
    Outcome {
        nbd,
        nvme,
        shm,
        file: fuse.map(|mounted| mounted.end(DRAIN)),
        interruption,
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "others serve meanwhile; no result depends on it"
)]
fn pause() {
    std::thread::sleep(LOOK);
}
