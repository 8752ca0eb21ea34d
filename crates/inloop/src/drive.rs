//! A file or a block device behind the firmware: its reads and writes, and what each took.
//!
//! Direct I/O past the kernel's cache, through io_uring, any number at once. Nothing outside the
//! range is written. What an empty ring takes (a no-operation) is subtracted from each time.

mod ring;

use ring::Ring;
use rustix::fs::{FileType, OFlags, fstat, fstatfs};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use thiserror::Error;
use units::filling::spread;
use units::{Bytes, Picos};

/// Places and sizes of transfers are multiples of it.
pub const GRAIN: usize = 4096;
/// No-operations from which the cost of an empty ring is taken.
const CALIBRATIONS: usize = 1_001;
/// Bytes and number of the writes that fill a drive.
const FILL_GRAINS: usize = 256;
const FILL_DEPTH: usize = 8;
/// File systems that keep their files in memory (`statfs(2)`): tmpfs, ramfs.
const OF_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// Memory that direct I/O can use.
#[derive(Clone, Debug)]
#[repr(C, align(4096))]
struct Grain([u8; GRAIN]);

/// What may be done with a drive.
#[derive(Clone, Copy, Debug, Default)]
pub struct DriveOptions {
    /// Bytes from its beginning that are used; all if left out.
    pub size: Option<Bytes>,
    /// A block device may be overwritten.
    pub overwrites_device: bool,
}

/// Why a drive cannot be behind the firmware, as a sentence.
#[derive(Debug, Error)]
pub enum DriveError {
    /// The system does not open it.
    #[error(
        "{path}: cannot be opened for reading and writing: {error}; make the file with truncate -s, \
         or ask for the right to use the device"
    )]
    Open {
        /// Which.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// Neither file nor block device.
    #[error("{path}: is neither a file nor a block device; name one of these")]
    Kind {
        /// Which.
        path: PathBuf,
    },
    /// A block device, and nobody has said that it may be overwritten.
    #[error(
        "{path}: is a block device, and all that is on it would be lost; add --overwrite-device if \
         that is wanted"
    )]
    Device {
        /// Which.
        path: PathBuf,
    },
    /// Somebody else has the block device.
    #[error("{path}: is in use, mounted for instance; unmount it, or name another device")]
    Busy {
        /// Which.
        path: PathBuf,
    },
    /// The kernel's cache cannot be passed by.
    #[error(
        "{path}: has no direct I/O (O_DIRECT) in pieces of 4 KiB; choose a file of a file system on \
         a drive, or a block device"
    )]
    Direct {
        /// Which.
        path: PathBuf,
    },
    /// Less than is wanted of it.
    #[error("{path}: has {found} and {wanted} are wanted; give a larger one, or ask for less")]
    Small {
        /// Which.
        path: PathBuf,
        /// Its size.
        found: Bytes,
        /// What it must have.
        wanted: Bytes,
    },
    /// No io_uring.
    #[error(
        "this kernel gives no io_uring: {0}; use Linux 5.6 or later, with kernel.io_uring_disabled = 0"
    )]
    Ring(io::Error),
    /// A transfer has failed.
    #[error(
        "{path}: {what} at byte {at} fails: {error}; look at what the kernel says of the drive"
    )]
    Transfer {
        /// Which.
        path: PathBuf,
        /// A read, or a write.
        what: &'static str,
        /// Where.
        at: u64,
        /// What the system says.
        error: io::Error,
    },
}

/// A read or a write of a drive.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// Whether it writes.
    pub is_write: bool,
    /// Its first byte on the drive, a multiple of [`GRAIN`].
    pub at: u64,
    /// What it took.
    pub took: Picos,
    memory: Vec<Grain>,
}

impl Transfer {
    /// One of so many bytes, a multiple of [`GRAIN`]; of a write they are zero so far.
    pub fn new(is_write: bool, at: u64, size: usize) -> Self {
        assert!(
            size > 0 && size.is_multiple_of(GRAIN) && at.is_multiple_of(GRAIN as u64),
            "whole grains"
        );
        Self {
            is_write,
            at,
            took: Picos::ZERO,
            memory: vec![Grain([0; GRAIN]); size / GRAIN],
        }
    }

    /// How many bytes.
    pub fn size(&self) -> usize {
        self.memory.len() * GRAIN
    }

    /// Its bytes, `size` from `at`, within one grain.
    pub fn bytes(&self, at: usize, size: usize) -> &[u8] {
        &self.memory[at / GRAIN].0[at % GRAIN..][..size]
    }

    /// As [`Transfer::bytes`], to be changed.
    pub fn bytes_mut(&mut self, at: usize, size: usize) -> &mut [u8] {
        &mut self.memory[at / GRAIN].0[at % GRAIN..][..size]
    }

    const fn what(&self) -> &'static str {
        match self.is_write {
            true => "a write",
            false => "a read",
        }
    }
}

/// A file or a block device that is read and written.
#[derive(Debug)]
pub struct Drive {
    path: PathBuf,
    file: File,
    ring: Ring,
    size: Bytes,
    empty: Picos,
}

impl Drive {
    /// Opens a drive. Nothing is written yet.
    ///
    /// # Errors
    /// Why it is none.
    pub fn open(path: &Path, options: DriveOptions) -> Result<Self, DriveError> {
        let mut file = opened(path, options.overwrites_device)?;
        let path = path.to_owned();
        let found = match file.seek(SeekFrom::End(0)) {
            Ok(size) => Bytes::new(size - size % GRAIN as u64),
            Err(error) => return Err(DriveError::Open { path, error }),
        };
        let wanted = options.size.unwrap_or(found).max(Bytes::new(GRAIN as u64));
        if wanted > found {
            return Err(DriveError::Small {
                path,
                found,
                wanted,
            });
        }
        let mut drive = Self {
            path,
            file,
            ring: Ring::new().map_err(DriveError::Ring)?,
            size: Bytes::new(wanted.get() - wanted.get() % GRAIN as u64),
            empty: Picos::ZERO,
        };
        drive.calibrate()?;
        let mut probe = [Transfer::new(false, 0, GRAIN)];
        match drive.perform(&mut probe) {
            Err(DriveError::Transfer { error, path, .. })
                if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) =>
            {
                Err(DriveError::Direct { path })
            }
            result => result.map(|()| drive),
        }
    }

    /// What of it is used.
    pub const fn size(&self) -> Bytes {
        self.size
    }

    /// What an empty ring takes; it is subtracted.
    pub const fn empty_cost(&self) -> Picos {
        self.empty
    }

    /// Refuses to be a drive of fewer bytes.
    ///
    /// # Errors
    /// It has less.
    pub fn must_hold(&self, wanted: Bytes) -> Result<(), DriveError> {
        match self.size < wanted {
            true => Err(DriveError::Small {
                path: self.path.clone(),
                found: self.size,
                wanted,
            }),
            false => Ok(()),
        }
    }

    fn calibrate(&mut self) -> Result<(), DriveError> {
        let mut costs = Vec::with_capacity(CALIBRATIONS);
        for _ in 0..CALIBRATIONS {
            costs.push(self.ring.nothing().map_err(DriveError::Ring)?);
        }
        costs.sort_unstable();
        self.empty = costs[CALIBRATIONS / 2];
        Ok(())
    }

    /// Writes all of the range, with bytes that do not compress: a drive answers reads of what was
    /// never written without its flash.
    ///
    /// # Errors
    /// The drive's.
    pub fn fill(&mut self) -> Result<(), DriveError> {
        let mut at = 0;
        let size = self.size.get();
        while at < size {
            let mut writes = Vec::with_capacity(FILL_DEPTH);
            while at < size && writes.len() < FILL_DEPTH {
                let bytes = (size - at).min((FILL_GRAINS * GRAIN) as u64);
                let mut write = Transfer::new(true, at, bytes as usize);
                for (index, grain) in write.memory.iter_mut().enumerate() {
                    let first = at / 8 + (index * GRAIN / 8) as u64;
                    for (word, bytes) in grain.0.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                        *bytes = spread(first + word as u64).to_le_bytes();
                    }
                }
                writes.push(write);
                at += bytes;
            }
            self.perform(&mut writes)?;
        }
        Ok(())
    }

    /// Does these at once, and waits for all of them.
    ///
    /// # Errors
    /// One has failed.
    ///
    /// # Panics
    /// One is outside the range.
    pub fn perform(&mut self, transfers: &mut [Transfer]) -> Result<(), DriveError> {
        for transfer in &*transfers {
            let end = transfer.at.checked_add(transfer.size() as u64);
            assert!(
                end.is_some_and(|end| end <= self.size.get()),
                "a transfer is within the range"
            );
        }
        self.ring
            .perform(&self.file, transfers)
            .map_err(|failure| {
                let transfer = &transfers[failure.index];
                DriveError::Transfer {
                    path: self.path.clone(),
                    what: transfer.what(),
                    at: transfer.at,
                    error: failure.error,
                }
            })?;
        for transfer in transfers {
            transfer.took = transfer.took.saturating_sub(self.empty);
        }
        Ok(())
    }
}

/// How a file of that kind is opened, if it may be a drive.
fn flags_for(kind: FileType, overwrites_device: bool, path: &Path) -> Result<OFlags, DriveError> {
    let path = path.to_owned();
    match kind {
        FileType::RegularFile => Ok(OFlags::DIRECT),
        FileType::BlockDevice if !overwrites_device => Err(DriveError::Device { path }),
        // Alone with it: not what is mounted.
        FileType::BlockDevice => Ok(OFlags::DIRECT | OFlags::EXCL),
        _ => Err(DriveError::Kind { path }),
    }
}

fn opened(path: &Path, overwrites_device: bool) -> Result<File, DriveError> {
    let in_way = |error| DriveError::Open {
        path: path.to_owned(),
        error,
    };
    let path_of = || path.to_owned();
    let meta = std::fs::metadata(path).map_err(in_way)?;
    let kind = FileType::from_raw_mode(std::os::unix::fs::MetadataExt::mode(&meta));
    let flags = flags_for(kind, overwrites_device, path)?;
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .custom_flags(flags.bits() as i32);
    let file = options.open(path).map_err(|error| {
        let number = error.raw_os_error();
        let is = |errno: Errno| number == Some(errno.raw_os_error());
        match kind {
            _ if is(Errno::INVAL) => DriveError::Direct { path: path_of() },
            FileType::BlockDevice if is(Errno::BUSY) => DriveError::Busy { path: path_of() },
            _ => in_way(error),
        }
    })?;
    // What was looked at may have been replaced before it was opened.
    let same = fstat(&file).map_err(|error| in_way(error.into()))?;
    if FileType::from_raw_mode(same.st_mode) != kind {
        return Err(DriveError::Kind { path: path_of() });
    }
    let system = fstatfs(&file).map_err(|error| in_way(error.into()))?;
    let is_memory = OF_MEMORY.contains(&(system.f_type as u64));
    match kind == FileType::RegularFile && is_memory {
        true => Err(DriveError::Direct { path: path_of() }),
        false => Ok(file),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_device_wants_a_word_and_is_opened_alone() {
        let path = Path::new("/dev/some");
        let error = flags_for(FileType::BlockDevice, false, path).unwrap_err();
        assert!(error.to_string().contains("--overwrite-device"), "{error}");
        let flags = flags_for(FileType::BlockDevice, true, path).unwrap();
        assert!(flags.contains(OFlags::EXCL | OFlags::DIRECT));
        let flags = flags_for(FileType::RegularFile, false, path).unwrap();
        assert_eq!(flags, OFlags::DIRECT);
        let error = flags_for(FileType::CharacterDevice, true, path).unwrap_err();
        assert!(error.to_string().contains("neither a file nor"), "{error}");
    }
}
