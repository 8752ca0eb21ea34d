//! What can be wrong with an image.

use port::DeviceError;
use settings::Problems;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use thiserror::Error;
use units::Bytes;

/// Why an image cannot be made, opened, used or closed as it should be. One sentence: what, where,
/// what to do. An image that cannot be opened is as it was.
#[derive(Debug, Error)]
pub enum DeviceFileError {
    /// The configuration is wrong; each problem is one clause.
    #[error("configuration: {}", .0.join("; "))]
    Config(Vec<String>),
    /// There is something where an image is to be made.
    #[error("{} exists already; choose another name, or remove it", .0.display())]
    Exists(PathBuf),
    /// There is no image.
    #[error(
        "{} is not a device image: there is no {file} in it; make one with \
         `entresol device create`", .path.display()
    )]
    Missing {
        /// The image.
        path: PathBuf,
        /// The file.
        file: &'static str,
    },
    /// The file is something else.
    #[error(
        "{}: this is not a {what} of a device image; name the directory that \
         `entresol device create` made", .path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it should be.
        what: &'static str,
    },
    /// It is no file: a pipe, a device or a directory.
    #[error(
        "{}: this is not a regular file, so no {what} of a device image; name the directory that \
         `entresol device create` made", .path.display()
    )]
    Irregular {
        /// What has the file's name.
        path: PathBuf,
        /// What it should be.
        what: &'static str,
    },
    /// The file was written by a newer version.
    #[error(
        "{}: the file has version {found}, and this Entresol reads no later one than {known}; \
         use a newer Entresol", .path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest one that is read.
        known: u32,
    },
    /// An earlier Entresol made it.
    #[error(
        "{}: the file has version {found}, and this Entresol reads version {known} and later; make \
         the image anew, and copy its blocks with the Entresol that made it", .path.display()
    )]
    Older {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The oldest one that is read.
        known: u32,
    },
    /// The file does not say what was written.
    #[error("{}: {what}; restore the image from a copy", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        what: String,
    },
    /// The two files are of different images.
    #[error(
        "{} holds the media file of one image and the DRAM file of another; put the two together \
         that were made together", .0.display()
    )]
    Mixed(PathBuf),
    /// The data cache is larger than the memory that there is.
    #[error(
        "{}: its data cache is {wanted}, which this machine does not give ({error}); open it where \
         there is more memory, or make a device with a smaller ssd.dram", .path.display()
    )]
    NoMemory {
        /// The image.
        path: PathBuf,
        /// The size of its data cache.
        wanted: Bytes,
        /// What the operating system says.
        error: io::Error,
    },
    /// A device that keeps nothing without power was to bring everything to flash, and could not.
    #[error(
        "{}: what was written since the last flush could not be brought to flash and may be lost: \
         {why}", .path.display()
    )]
    Unflushed {
        /// The image.
        path: PathBuf,
        /// What its device says.
        why: DeviceError,
    },
    /// Somebody removed a file of the image while the device worked.
    #[error(
        "{} was removed while the device worked, and nothing of what the device held can be opened \
         again; restore the image from a copy", .0.display()
    )]
    Removed(PathBuf),
    /// Another process has the image.
    #[error("{} is open in another process; stop that one first", .0.display())]
    Locked(PathBuf),
    /// The operating system refuses.
    #[error("{}: cannot {doing}: {source}{}", .path.display(), advice(.source))]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// What it says.
        source: io::Error,
    },
}

/// What to do, where what the system says does not say it.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "; run as who may read and write it, or name another place"
        }
        _ => "",
    }
}

impl DeviceFileError {
    /// One problem of the configuration.
    pub(crate) fn config(problem: String) -> Self {
        Self::Config(vec![problem])
    }
    /// What the operating system said, for `map_err`.
    pub(crate) fn io(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            path,
            doing,
            source,
        }
    }
    /// A file whose content is wrong.
    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            what: what.into(),
        }
    }
}

impl From<Problems> for DeviceFileError {
    fn from(problems: Problems) -> Self {
        Self::Config(problems.0)
    }
}
