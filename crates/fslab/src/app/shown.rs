//! A state that a power cut has left, as a file system: looked at, and mounted for a checker.

use super::device::AppDevice;
use crate::crash::{Disk, Files, Image, Tree, lookup, run, walk};
use bytefs::fuse::{MountPoint, Mounted, Silent, Terms, WallClock};
use bytefs::{FileSystem, MountOptions};
use port::{AnyClock, AnyDevice, Shape};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use units::Bytes;

/// How long a checker's files may stay open behind its end.
const PATIENCE: Duration = Duration::from_secs(2);
/// Page cache of a file system that is looked at.
const CACHE: Bytes = Bytes::from_mib(16);

fn options() -> MountOptions {
    MountOptions {
        cache: CACHE,
        ..MountOptions::default()
    }
}

/// A number for everything that a program sees of a state once it is recovered: names, kinds,
/// modes, owners, links, attributes, times of changes and contents. The same for the same, and
/// hardly ever for others.
///
/// # Errors
/// The file system cannot be recovered or contradicts itself: one sentence.
pub fn visible(shape: Shape, image: &Image) -> Result<u64, String> {
    let looked = catch_unwind(AssertUnwindSafe(|| run(look(shape, image.clone()))));
    match looked {
        Ok(Some(sum)) => sum,
        Ok(None) => Err("the file system waits for what will not come".to_owned()),
        Err(_) => Err("the file system panics".to_owned()),
    }
}

async fn look(shape: Shape, image: Image) -> Result<u64, String> {
    let disk = AnyDevice::new(Disk::new(shape, image, None));
    let fs = Files::mount(disk, AnyClock::Still, options()).await;
    let fs = fs.map_err(|error| format!("it cannot be mounted: {error}"))?;
    let tree = walk(&fs).await?;
    let mut sum = Sum::default();
    for path in tree.0.keys() {
        let attr = lookup(&fs, path).await;
        let attr = attr.map_err(|error| format!("{path}: {error}"))?;
        sum.add(&attr.mtime.0.to_le_bytes());
        sum.add(&attr.ctime.0.to_le_bytes());
    }
    sum.add_tree(&tree);
    Ok(sum.0)
}

/// A sum over bytes in order.
#[derive(Default)]
struct Sum(u64);

impl Sum {
    fn word(&mut self, word: u64) {
        // The finaliser of SplitMix64.
        let mut value = self.0.rotate_left(17) ^ word.wrapping_add(0x9e37_79b9_7f4a_7c15);
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.0 = value ^ (value >> 31);
    }

    fn add(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }

    fn add_tree(&mut self, tree: &Tree) {
        for (path, entry) in &tree.0 {
            let meta = &entry.meta;
            self.add(path.as_bytes());
            self.word(entry.id);
            self.word(u64::from(meta.kind.mode() | meta.permissions));
            self.word(u64::from(meta.uid) << 32 | u64::from(meta.gid));
            self.word(u64::from(meta.links) << 32 | u64::from(meta.rdev));
            self.add(&meta.target);
            for (name, value) in &meta.xattrs {
                self.add(name);
                self.add(value);
            }
            self.word(entry.contents.size());
            for page in entry.contents.pages() {
                let bytes = entry.contents.read(page * 4096, 4096);
                if bytes.iter().any(|byte| *byte != 0) {
                    self.word(page);
                    self.add(&bytes);
                }
            }
        }
    }
}

/// A state that is mounted.
pub struct Shown(Mounted<Arc<AppDevice>>);

impl Shown {
    /// Recovers a state and mounts it at a directory. What is done there is done to a copy.
    ///
    /// # Errors
    /// It cannot be recovered; the system refuses.
    pub fn new(shape: Shape, image: &Image, directory: &Path) -> Result<Self, String> {
        let place = MountPoint::find(directory).map_err(|error| error.to_string())?;
        let disk = AppDevice::Disk(Disk::new(shape, image.clone(), None));
        let disk = Arc::new(disk);
        let fs = run(FileSystem::mount(disk, WallClock::start(), options()));
        let fs = fs.ok_or("the file system waits for what will not come")?;
        let fs = fs.map_err(|error| format!("it cannot be mounted: {error}"))?;
        let terms = Terms {
            for_others: false,
            read_only: false,
            writes_back: false,
            trust: bytefs::fuse::Trust::default(),
            threads: 1,
        };
        let mounted = Mounted::new(fs.into(), place, terms, Box::new(Silent));
        mounted
            .map(Self)
            .map_err(|refused| refused.error.to_string())
    }

    /// Unmounts it.
    ///
    /// # Errors
    /// The file system has failed meanwhile.
    pub fn end(self) -> Result<(), String> {
        let failed = self.0.failed();
        let ended = self.0.end(PATIENCE);
        let failure = ended.failure.map(|error| error.to_string());
        failed.or(failure).map_or(Ok(()), Err)
    }
}
