//! File systems on devices: making, mounting and checking them.

use crate::device::{ImageError, described, to_python};
use crate::transparent_dax;
use crate::{ConfigError, EntresolError};
use bytefs::fuse::{
    Account, Below, Ended, MountPoint, Mounted, Places, Served, Teller, Terms, Trust, WallClock,
};
use bytefs::{
    CheckReport, FileSystem, FormatOptions, FsStats, MountError, MountOptions, Overlay,
    Personality, Timestamp,
};
use device::{Image, Pace, RealDevice};
use fslab::recording::Recorder;
use port::{Device, DeviceError};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use serde_json::{Value, json};
use serve::Address;
use shm::{Connect, ConnectError};
use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use units::{ByteAddr, Bytes};

/// How long those who have files open may go on when the server stops.
const DRAIN: Duration = Duration::from_secs(5);
/// How often it is asked whether to stop.
const LOOK: Duration = Duration::from_millis(50);
/// Of these looks, in which the device's counters are brought into its image. Adding up
/// how its blocks stand takes about a millisecond, in which no request is served.
const PUBLISH: u32 = 4;
/// Where file systems of any kind have something by which they are known.
const BEGINNING: usize = 128 << 10;
/// Threads that hear the kernel. One costs least where programs ask one after the other.
const THREADS: usize = 1;
/// As THREADS, where each request waits for the device's time: so many may wait at once.
const PACED_THREADS: usize = 16;

/// A mount that may write nothing recovers in memory what a power cut has left: flash that is worn
/// out takes nothing any more, and is to be read all the same.
type Shared = Arc<Overlay<RealDevice>>;

fn shared(device: RealDevice, is_kept_from_writing: bool) -> Overlay<RealDevice> {
    match is_kept_from_writing {
        true => Overlay::keeping(device),
        false => Overlay::passing(device),
    }
}

/// Adds these functions to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(fs_make, module)?)?;
    module.add_function(wrap_pyfunction!(fs_check, module)?)?;
    module.add_function(wrap_pyfunction!(fs_mount, module)?)
}

/// Why a file system on an image cannot be used.
fn wrong(image: &Path, error: &MountError) -> PyErr {
    let text = format!("{}: {error}", image.display());
    match error {
        MountError::Failed(_) => EntresolError::new_err(text),
        _ => ImageError::new_err(text),
    }
}

fn failed(image: &Path, error: impl Display) -> PyErr {
    EntresolError::new_err(format!("{}: {error}", image.display()))
}

fn close(device: Shared) -> PyResult<()> {
    // Who else had it has given it back: the file system, and the mount.
    let device = Arc::into_inner(device);
    let closed = device.map_or(Ok(()), |device| device.into_below().close());
    closed.map_err(to_python)
}

/// Whether there is something at the beginning of a device.
async fn is_used<D: Device>(device: &D) -> Result<bool, DeviceError> {
    let size = device.shape().capacity.get().min(BEGINNING as u64) as usize;
    let mut bytes = vec![0; size];
    device.read_blocks(ByteAddr::new(0), &mut bytes).await?;
    Ok(bytes.iter().any(|byte| *byte != 0))
}

/// Makes a file system on an image that is not in use, or on the device of a server that is reached
/// at `unix:PATH` through shared memory. `options`, as JSON: `personality`; `inodes` or null;
/// `journal_bytes` or null; `uuid` as 32 hexadecimal digits; `now_ns` of the Unix epoch; `owner`,
/// user and group; `force` if what is there may go.
#[pyfunction]
fn fs_make(py: Python<'_>, image: PathBuf, options: &str) -> PyResult<String> {
    let told: Value = serde_json::from_str(options).map_err(|error| failed(&image, error))?;
    let name = told["personality"].as_str().unwrap_or("bytefs");
    let personality: Personality = name.parse().map_err(ConfigError::new_err::<String>)?;
    let number = |key: &str| u32::try_from(told[key].as_u64().unwrap_or(0)).unwrap_or(u32::MAX);
    let uuid = told["uuid"]
        .as_str()
        .and_then(|text| u128::from_str_radix(text, 16).ok());
    let format = FormatOptions {
        inodes: told["inodes"].is_u64().then(|| number("inodes")),
        journal: told["journal_bytes"].as_u64().map(Bytes::new),
        uuid: uuid.unwrap_or(0).to_be_bytes(),
        now: Timestamp(told["now_ns"].as_i64().unwrap_or(0)),
        owner: (number("uid"), number("gid")),
        ..FormatOptions::new(personality)
    };
    let may_replace = told["force"].as_bool().unwrap_or(false);
    let served = image.to_str().filter(|text| text.starts_with("unix:"));
    py.detach(|| match served {
        Some(place) => make_served(place, &format, may_replace),
        None => {
            let device = RealDevice::open(&image, Pace::None).map_err(to_python)?;
            let done = device.block_on(make(&device, &image, &format, may_replace));
            let closed = device.close().map_err(to_python);
            done.and_then(|told| closed.map(|()| told.to_string()))
        }
    })
}

/// Makes a file system on a device that another process serves.
fn make_served(place: &str, format: &FormatOptions, may_replace: bool) -> PyResult<String> {
    let address = Address::parse_unix(place);
    address.map_err(|error| ConfigError::new_err(error.to_string()))?;
    let path = Path::new(place.trim_start_matches("unix:"));
    let client = Connect::default().to(path).map_err(|error| {
        let why = match error {
            ConnectError::Foreign { .. } => {
                "; mkfs reaches a served device through shared memory, for NBD carries neither \
                 bytes nor transactions: serve it with --shm unix:PATH"
            }
            _ => "",
        };
        ImageError::new_err(format!("{error}{why}"))
    })?;
    let done = client.wait(make(&client, Path::new(place), format, may_replace));
    done.map(|told| told.to_string())
}

async fn make<D: Device>(
    device: &D,
    image: &Path,
    format: &FormatOptions,
    may_replace: bool,
) -> PyResult<Value> {
    let is_used = is_used(device).await;
    if !may_replace && is_used.map_err(|error| failed(image, error))? {
        return Err(ImageError::new_err(format!(
            "{}: is not empty, and what is on it would be lost; give --force if it may",
            image.display()
        )));
    }
    let done = FileSystem::<D, WallClock>::format(device, format).await;
    done.map_err(|error| wrong(image, &error))?;
    device.flush().await.map_err(|error| failed(image, error))?;
    Ok(json!({
        "personality": format.personality.to_string(),
        "size_bytes": device.shape().capacity.get(),
    }))
}

/// Checks the file system on an image that is not in use, and repairs what can be. What was found,
/// as JSON.
#[pyfunction]
fn fs_check(py: Python<'_>, image: PathBuf, repair: bool) -> PyResult<String> {
    py.detach(|| {
        let device = RealDevice::open(&image, Pace::None).map_err(to_python)?;
        let device = shared(device, !repair);
        let below = device.below();
        let report = below.block_on(bytefs::check(&device, repair));
        let flushed = below.block_on(device.flush());
        let closed = device.into_below().close().map_err(to_python);
        let report = report.map_err(|error| wrong(&image, &error))?;
        flushed.map_err(|error| failed(&image, error))?;
        closed?;
        Ok(checked(&report).to_string())
    })
}

fn checked(report: &CheckReport) -> Value {
    let problems = report.problems.iter();
    let problems: Vec<Value> = problems
        .map(|problem| json!({ "what": problem.what, "repaired": problem.repaired }))
        .collect();
    json!({
        "problems": problems,
        "was_recovered": report.was_recovered,
        "directories": report.directories,
        "files": report.files,
        "blocks": report.blocks,
    })
}

/// How a file system is mounted, as the caller says it.
struct Wanted {
    is_paced: bool,
    /// Where what programs ask for is written down.
    record: Option<PathBuf>,
    terms: Terms,
    options: MountOptions,
}

impl Wanted {
    fn read(text: &str) -> Result<Self, String> {
        let told = serde_json::from_str(text);
        let told: Value = told.map_err(|error: serde_json::Error| error.to_string())?;
        let is = |name: &str| told[name].as_bool().unwrap_or(false);
        let is_paced = is("real_pace");
        let threads = if is_paced { PACED_THREADS } else { THREADS };
        let threads = told["threads"]
            .as_u64()
            .map_or(threads, |count| count as usize);
        let mut options = MountOptions {
            read_only: is("read_only"),
            is_forgotten: is("read_only"),
            cores: u32::try_from(threads).unwrap_or(u32::MAX),
            ..MountOptions::default()
        };
        if let Some(bytes) = told["cache_bytes"].as_u64() {
            options.cache = Bytes::new(bytes);
        }
        if let Some(share) = told["blocks_from"].as_str() {
            let share = share.parse();
            options.blocks_from = share.map_err(|error| format!("--blocks-from: {error}"))?;
        }
        if let Some(mode) = told["data"].as_str() {
            options.data = mode.parse().map_err(|error| format!("-o {error}"))?;
        }
        if told["dax"].is_object() {
            options.dax = Some(transparent_dax::settings(&told["dax"])?);
            options.dax_at = transparent_dax::at(&told["dax"])?;
        }
        Ok(Self {
            is_paced,
            record: told["record"].as_str().map(PathBuf::from),
            terms: Terms {
                for_others: is("allow_other"),
                read_only: is("read_only"),
                writes_back: is("writeback"),
                trust: Trust {
                    devices: is("dev"),
                    set_id: is("suid"),
                },
                threads,
            },
            options,
        })
    }
}

/// Mounts the file system of an image at a directory until Python is interrupted or somebody
/// unmounts it. `options`, as JSON, say how; `mounted` is told where, as JSON, and `stopped` why,
/// if nothing can be written any more. Where `mounted` fails all ends, and no recording is left;
/// where it is interrupted, the mount is. What was done, as JSON.
#[pyfunction]
fn fs_mount(
    py: Python<'_>,
    image: PathBuf,
    directory: PathBuf,
    options: &str,
    mounted: &Bound<'_, PyAny>,
    stopped: &Bound<'_, PyAny>,
) -> PyResult<String> {
    let wanted = Wanted::read(options).map_err(|error| failed(&image, error))?;
    let is_paced = wanted.is_paced;
    let record = wanted.record.clone();
    let mut trace = transparent_dax::Trace::of(options).map_err(|error| failed(&image, error))?;
    let started = py.detach(|| start(&image, &directory, wanted));
    let (device, mount, recorder) = started.inspect_err(|_| {
        if let Some(trace) = trace.take() {
            trace.discard();
        }
    })?;
    if trace.is_some() {
        mount.look(|fs| fs.keep_dax_trace());
    }
    // Whoever ends it while it says where it is ends it as later: what was acknowledged is kept.
    let interruption = mounted.call1((told(&mount).to_string(),)).err();
    let is_wanted = |error: &PyErr| error.is_instance_of::<PyKeyboardInterrupt>(py);
    let is_in_vain = interruption.as_ref().is_some_and(|error| !is_wanted(error));
    let stopped = stopped.clone().unbind();
    let (ended, interruption) = py.detach(|| {
        let watched = || watch(&device, &mount, &stopped, trace.as_mut());
        let interruption = interruption.or_else(watched);
        let written = trace.as_mut().map_or(Ok(()), |trace| trace.write(&mount));
        let failed = written.err().map(|error| failed(&image, error));
        let patience = if is_in_vain { Duration::ZERO } else { DRAIN };
        (mount.end(patience), interruption.or(failed))
    });
    let clock = device.stats().clock;
    let lag = is_paced.then(|| device.below().engine().lag().clone());
    let lag = lag.map(|lag| {
        json!({
            "p50_ps": lag.quantile(500).get(),
            "p99_ps": lag.quantile(990).get(),
            "longest_ps": lag.longest().get(),
        })
    });
    let Ended {
        served,
        is_open,
        device: given_back,
        failure,
    } = ended;
    drop(given_back);
    let closed = py.detach(|| close(device));
    // Of a device that failed at the end too: what programs asked until then is known.
    if let (Some(path), Some(recorder)) = (record.filter(|_| !is_in_vain), recorder) {
        let written = py.detach(|| put_in_place(&path, &recorder.recording().text()));
        written.map_err(|error| failed(&path, error))?;
    }
    if let Some(failure) = failure {
        return Err(failed(&image, failure));
    }
    closed?;
    match interruption {
        Some(error) if !is_wanted(&error) => Err(error),
        _ => Ok(json!({
            "requests": served.requests,
            "errors": served.errors,
            "is_open": is_open,
            "device_clock_ps": clock.as_picos(),
            "lag": lag,
        })
        .to_string()),
    }
}

/// Writes a file whole or not at all, power cuts included.
fn put_in_place(path: &Path, text: &str) -> std::io::Result<()> {
    // Hidden, and of this process alone: nothing of the user's has this name.
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let part = path.with_file_name(format!(".new-{name}-{}", std::process::id()));
    let written = || {
        let mut file = File::create_new(&part)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&part, path)?;
        File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
    };
    let done = written();
    if done.is_err() {
        // What is left of it is of no use, and may be what fills the disk.
        let _ = std::fs::remove_file(&part);
    }
    done
}

type Started = (Shared, Mounted<Shared>, Option<Arc<Recorder>>);

/// Opens the image and mounts what is on it. The directory is looked at first: who names a wrong
/// one hears of it before an image is recovered.
fn start(image: &Path, directory: &Path, wanted: Wanted) -> PyResult<Started> {
    let refused = |error: bytefs::fuse::MountError| ImageError::new_err(error.to_string());
    let place = MountPoint::find(directory).map_err(refused)?;
    let pace = if wanted.is_paced {
        Pace::Real
    } else {
        Pace::None
    };
    let device = RealDevice::open(image, pace).map_err(to_python)?;
    let device = Arc::new(shared(device, wanted.options.read_only));
    let is_recorded = wanted.record.is_some();
    let teller = Telling::new(image, place.path(), &wanted);
    let mounting = FileSystem::mount(device.clone(), WallClock::start(), wanted.options);
    let file_system = match device.below().block_on(mounting) {
        Ok(file_system) => file_system,
        Err(error) => {
            let is_worn_out = device.below().engine().health().is_read_only;
            close(device)?;
            return Err(match is_worn_out {
                true => failed(image, format!("{error}; mount it with -o ro to do so")),
                false => wrong(image, &error),
            });
        }
    };
    let shown = image.canonicalize();
    let mut below = Below::from(file_system);
    let mut recorder = None;
    if is_recorded {
        match device.below().block_on(Recorder::new(&below)) {
            Ok(new) => {
                let new = Arc::new(new);
                below = below.seen_by(new.clone());
                recorder = Some(new);
            }
            Err(error) => {
                drop(below);
                close(device)?;
                return Err(failed(image, error));
            }
        }
    }
    let place = place.showing(shown.as_deref().unwrap_or(image));
    match Mounted::new(below, place, wanted.terms, Box::new(teller)) {
        Ok(mount) => Ok((device, mount, recorder)),
        Err(failure) => {
            drop(failure.device);
            close(device)?;
            Err(refused(failure.error))
        }
    }
}

fn told(mount: &Mounted<Shared>) -> Value {
    let usage = mount.look(|fs| fs.usage());
    json!({
        "directory": mount.path().display().to_string(),
        "mended": mount.was_mended(),
        "size_bytes": usage.map(|usage| usage.blocks * BLOCK),
        "free_bytes": usage.map(|usage| usage.free_blocks * BLOCK),
    })
}

/// A block of a file system.
const BLOCK: u64 = 4096;

/// What a mount tells of itself and its device.
struct Telling {
    image: PathBuf,
    directory: PathBuf,
    record: Option<PathBuf>,
    is_paced: bool,
    terms: Terms,
}

impl Telling {
    fn new(image: &Path, directory: &Path, wanted: &Wanted) -> Self {
        Self {
            image: image.canonicalize().unwrap_or_else(|_| image.to_path_buf()),
            directory: directory.to_path_buf(),
            record: wanted.record.clone(),
            is_paced: wanted.is_paced,
            terms: wanted.terms,
        }
    }
}

impl Teller<Shared> for Telling {
    fn stats(&self, files: &Below<Shared>, served: Served) -> String {
        let removed = {
            let mut engine = files.device().below().engine();
            engine.publish();
            engine.removed()
        };
        let about = Image::describe(&self.image);
        let device = about.map_or(Value::Null, |about| described(&about)["statistics"].clone());
        let usage = files.usage();
        let text = json!({
            "image": self.image.display().to_string(),
            "directory": self.directory.display().to_string(),
            "record": self.record.as_ref().map(|path| path.display().to_string()),
            "server_pid": std::process::id(),
            "real_pace": self.is_paced,
            "writeback": self.terms.writes_back,
            "read_only": self.terms.read_only,
            "threads": self.terms.threads,
            "failed": files.failed(),
            "removed": removed.as_deref().and_then(Path::file_name).map(|name| {
                self.image.join(name).display().to_string()
            }),
            "requests": served.requests,
            "errors": served.errors,
            "usage": {
                "blocks": usage.blocks,
                "free_blocks": usage.free_blocks,
                "inodes": usage.inodes,
                "free_inodes": usage.free_inodes,
            },
            "file_system": counted(&files.stats()),
            "dax": files.dax_report().as_ref().map(transparent_dax::counted),
            "device": device,
        });
        format!("{text:#}\n")
    }

    fn dax(&self, files: &Below<Shared>) -> String {
        let told = files
            .dax_view()
            .as_ref()
            .map_or(Value::Null, transparent_dax::told);
        format!("{told:#}\n")
    }

    fn places(&self, device: &Shared, at: ByteAddr, size: Bytes) -> Option<Places> {
        let places = device.below().engine().places(at, size);
        Some(Places {
            log_lines: places.log_lines,
            cached_pages: places.cached_pages,
            flash_pages: places.flash_pages,
        })
    }

    fn account(&self, device: &Shared) -> Option<Account> {
        let spent = device.below().engine().spent();
        Some(Account {
            clock: spent.clock,
            waiting: spent.waiting,
            memory: spent.memory,
            flash: spent.flash,
            link: spent.link,
        })
    }
}

/// What a file system has done, name by name.
fn counted(stats: &FsStats) -> Value {
    let traffic = |of: &bytefs::Traffic| {
        json!({
            "bytes_written": of.bytes_written,
            "bytes_read": of.bytes_read,
            "blocks_read": of.blocks_read,
            "blocks_written": of.blocks_written,
        })
    };
    json!({
        "metadata": traffic(&stats.metadata),
        "journal": traffic(&stats.journal),
        "data": traffic(&stats.data),
        "batches": stats.batches,
        "batch_lines": stats.batch_lines,
        "pages_by_bytes": stats.pages_by_bytes,
        "pages_by_blocks": stats.pages_by_blocks,
        "read_bytes": stats.read,
        "written_bytes": stats.written,
        "syncs": stats.syncs,
        "cached_pages": stats.cached_pages,
        "dirty_pages": stats.dirty_pages,
        "duplicate_pages": stats.duplicate_pages,
        "flushes": stats.flushes,
        "trims": stats.trims,
        "cleaned_segments": stats.cleaned_segments,
        "moved_blocks": stats.moved_blocks,
        "cleaned_logs": stats.cleaned_logs,
        "emptied_logs": stats.emptied_logs,
    })
}

/// Waits until a handler of Python's signals raises, or until the mount has gone. `stopped` is told
/// once why nothing can be written any more.
fn watch(
    device: &Shared,
    mount: &Mounted<Shared>,
    stopped: &Py<PyAny>,
    mut trace: Option<&mut transparent_dax::Trace>,
) -> Option<PyErr> {
    let mut was_told = false;
    for look in 1_u32.. {
        if mount.is_over() {
            break;
        }
        pause();
        if let Some(trace) = &mut trace
            && let Err(error) = trace.write(mount)
        {
            return Some(EntresolError::new_err(error));
        }
        if look.is_multiple_of(PUBLISH) {
            device.below().engine().publish();
        }
        let stopped_device = device.below().engine().stopped().map(str::to_owned);
        let reason = stopped_device.or_else(|| mount.failed());
        let reason = reason.filter(|_| !was_told);
        was_told |= reason.is_some();
        let told = Python::attach(|py| {
            reason.map_or(Ok(()), |reason| stopped.call1(py, (reason,)).map(drop))?;
            py.check_signals()
        });
        if let Err(error) = told {
            return Some(error);
        }
    }
    None
}

#[allow(
    clippy::disallowed_methods,
    reason = "others serve meanwhile; no result depends on it"
)]
fn pause() {
    std::thread::sleep(LOOK);
}
