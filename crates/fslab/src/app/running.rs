//! A file system that a program works in while everything is noted.

use super::device::AppDevice;
use super::notes::{Notes, Trial};
use super::noting::Noting;
use crate::crash::{Image, Power};
use bytefs::fuse::{Below, MountPoint, Mounted, Silent, Terms, WallClock};
use bytefs::{FileSystem, FormatOptions, MountOptions};
use device::{DeviceConfig, Pace, RealDevice};
use port::{Device, Shape, block_on};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use units::ByteAddr;

/// How long what the program has started may keep files open behind its end.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes that are read at a time.
const PIECE: usize = 1 << 20;

/// Why a program cannot be tried.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct AppError(pub String);

fn failed(error: impl std::fmt::Display) -> AppError {
    AppError(error.to_string())
}

/// A file system that is mounted and noted.
pub struct Running {
    mount: Mounted<Arc<AppDevice>>,
    notes: Arc<Notes>,
    shape: Shape,
    base: Image,
}

/// On a new device in memory with an empty file system.
///
/// # Errors
/// The device or the file system cannot be made or mounted.
pub fn on_new(
    config: &DeviceConfig,
    format: &FormatOptions,
    directory: &Path,
    output: File,
) -> Result<Running, AppError> {
    let device = RealDevice::in_memory(config, Pace::None).map_err(failed)?;
    let formed = FileSystem::<_, WallClock>::format(&device, format);
    device.block_on(formed).map_err(failed)?;
    device.block_on(device.flush()).map_err(failed)?;
    started(device, directory, output)
}

/// On the image of a device, which is changed: a copy of the user's.
///
/// # Errors
/// As [`on_new`]; the image is none, or in use.
pub fn on_copy(image: &Path, directory: &Path, output: File) -> Result<Running, AppError> {
    let device = RealDevice::open(image, Pace::None).map_err(failed)?;
    started(device, directory, output)
}

/// What a device holds.
async fn contents(device: &RealDevice) -> Result<Image, AppError> {
    let mut image = Image::new(device.shape().capacity);
    let mut bytes = vec![0; PIECE.min(image.size())];
    for at in (0..image.size()).step_by(PIECE) {
        let piece = PIECE.min(image.size() - at);
        let read = device.read_blocks(ByteAddr::new(at as u64), &mut bytes[..piece]);
        read.await.map_err(failed)?;
        for (place, page) in (at..).step_by(4096).zip(bytes[..piece].chunks(4096)) {
            if page.iter().any(|byte| *byte != 0) {
                image.write(place, page);
            }
        }
    }
    Ok(image)
}

fn started(device: RealDevice, directory: &Path, output: File) -> Result<Running, AppError> {
    let place = MountPoint::find(directory).map_err(failed)?;
    let shape = device.shape();
    let base = device.block_on(contents(&device))?;
    let notes = Arc::new(Notes::new(Some(output)));
    let device = AppDevice::Noting(Box::new(Noting::new(device, Arc::clone(&notes))));
    let device = Arc::new(device);
    let options = MountOptions::default();
    let mounting = FileSystem::mount(Arc::clone(&device), WallClock::start(), options);
    let fs = block_on(&*device, mounting).map_err(failed)?;
    let below = Below::from(fs).seen_by(notes.clone());
    let terms = Terms {
        for_others: false,
        read_only: false,
        writes_back: false,
        trust: bytefs::fuse::Trust::default(),
        threads: 1,
    };
    let mount = Mounted::new(below, place, terms, Box::new(Silent));
    let mount = mount.map_err(|refused| failed(refused.error))?;
    // What mounting has asked for is behind everybody: the trial begins with what it has left.
    block_on(&*device, device.flush()).map_err(failed)?;
    let mounted = notes.trial(shape, base).map_err(AppError)?;
    let mut power = Power::new(mounted.base, &shape);
    mounted.events.iter().for_each(|event| power.apply(event));
    assert!(
        power.units().is_empty(),
        "a flush has made all of it certain"
    );
    Ok(Running {
        mount,
        notes,
        shape,
        base: power.image().clone(),
    })
}

impl Running {
    /// The program has ended: unmounts, and gives what was noted.
    ///
    /// # Errors
    /// The file system has failed meanwhile, or the notes say too little.
    pub fn end(self) -> Result<Trial, AppError> {
        self.notes.end_program();
        let failure = self.mount.failed();
        let ended = self.mount.end(PATIENCE);
        if let Some(why) = failure.or_else(|| ended.failure.map(|error| error.to_string())) {
            return Err(AppError(format!("the file system has failed: {why}")));
        }
        if ended.is_open {
            return Err(AppError(
                "the program has ended and something still has its files open; let it wait for \
                 what it starts"
                    .to_owned(),
            ));
        }
        self.notes.trial(self.shape, self.base).map_err(AppError)
    }
}
