//! How long a file system takes from opening its device to the first answer to a program.
//!
//! `bench [--json] first-answer IMAGE DIR [ROUNDS]` opens the image, mounts what is on it at the
//! directory, asks for the attributes of its root, unmounts it in order and closes the image, by
//! turns; it tells the milliseconds up to the answer, the median of the rounds and the longest.
//!
//! `bench mounted IMAGE DIR THREADS [MIB]` serves an image at a directory until its standard input
//! ends, with a page cache of so many MiB: what `entresol mount --pace none` does, without Python
//! and with symbols, for perf and callgrind.

use crate::{Options, number, text, wall_seconds};
use bytefs::fuse::{Below, MountPoint, Mounted, Silent, Terms, Trust, WallClock};
use bytefs::{FileSystem, MountOptions};
use device::{Pace, RealDevice};
use serde_json::json;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use units::Bytes;

const ROUNDS: u64 = 5;
const THREADS: usize = 1;
/// For whoever may have looked at it meanwhile.
const PATIENCE: Duration = Duration::from_secs(5);

/// Measures, and prints.
pub fn measure(
    image: &str,
    directory: &str,
    words: &[&str],
    options: &Options,
) -> Result<(), String> {
    let rounds = words.first().map_or(Ok(ROUNDS), |word| number(word))?;
    let mut times = Vec::new();
    // The first round leaves an image that was closed in order.
    for round in 0..=rounds.max(1) {
        let took = one(Path::new(image), Path::new(directory))?;
        if round > 0 {
            times.push(took * 1e3);
        }
    }
    times.sort_by(f64::total_cmp);
    let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
    match options.is_json {
        true => println!("{}", json!({"median_ms": median, "longest_ms": longest})),
        false => println!("first answer after {median:.1} ms, at most {longest:.1} ms"),
    }
    Ok(())
}

/// Serves an image until the standard input ends.
pub fn serve(image: &str, directory: &str, threads: u64, words: &[&str]) -> Result<(), String> {
    let threads = usize::try_from(threads).map_err(text)?;
    let mut options = MountOptions {
        cores: u32::try_from(threads).map_err(text)?,
        ..MountOptions::default()
    };
    if let Some(word) = words.first() {
        options.cache = Bytes::from_mib(number(word)?);
    }
    let (device, mounted) = mount(Path::new(image), Path::new(directory), threads, options)?;
    println!("ready");
    std::io::stdin()
        .read_to_end(&mut Vec::new())
        .map_err(text)?;
    end(device, mounted)
}

type Served = (Arc<RealDevice>, Mounted<Arc<RealDevice>>);

/// Opens an image and mounts it.
fn mount(
    image: &Path,
    directory: &Path,
    threads: usize,
    options: MountOptions,
) -> Result<Served, String> {
    let place = MountPoint::find(directory).map_err(text)?;
    let device = Arc::new(RealDevice::open(image, Pace::None).map_err(text)?);
    let mounting = FileSystem::mount(device.clone(), WallClock::start(), options);
    let files = device.block_on(mounting).map_err(text)?;
    let terms = Terms {
        for_others: false,
        read_only: false,
        writes_back: false,
        trust: Trust::default(),
        threads,
    };
    let mounted = Mounted::new(Below::from(files), place, terms, Box::new(Silent));
    Ok((device, mounted.map_err(|refused| text(refused.error))?))
}

/// Unmounts it in order and closes the image.
fn end(device: Arc<RealDevice>, mounted: Mounted<Arc<RealDevice>>) -> Result<(), String> {
    let ended = mounted.end(PATIENCE);
    drop(ended.device);
    if let Some(failure) = ended.failure {
        return Err(text(failure));
    }
    let device = Arc::into_inner(device).ok_or("the device is in use after the unmount")?;
    device.close().map_err(text)
}

/// Seconds from opening the device to the first answer.
fn one(image: &Path, directory: &Path) -> Result<f64, String> {
    let options = MountOptions {
        cores: THREADS as u32,
        ..MountOptions::default()
    };
    let before = wall_seconds();
    let (device, mounted) = mount(image, directory, THREADS, options)?;
    let answer = std::fs::metadata(directory);
    let took = wall_seconds() - before;
    end(device, mounted)?;
    answer.map_err(text)?;
    Ok(took)
}
