//! What a file system refuses, and why.

use port::DeviceError;
use thiserror::Error;

/// Why an operation was not done: an error of POSIX, each of which has a number.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum FsError {
    /// ENOENT.
    #[error("there is no such file or directory")]
    NotFound,
    /// EEXIST.
    #[error("the name is taken")]
    Exists,
    /// ENOTDIR.
    #[error("it is not a directory")]
    NotDirectory,
    /// EISDIR.
    #[error("it is a directory")]
    IsDirectory,
    /// ENOTEMPTY.
    #[error("the directory is not empty")]
    NotEmpty,
    /// ENOSPC.
    #[error("the file system is full; remove files or make a larger one")]
    NoSpace,
    /// ENOSPC, of inodes.
    #[error("no inode is left; remove files or make the file system with more of them")]
    NoInodes,
    /// ENAMETOOLONG.
    #[error("the name is longer than {} bytes", crate::layout::NAME_MOST)]
    NameTooLong,
    /// EINVAL.
    #[error("the request makes no sense: {0}")]
    Invalid(&'static str),
    /// EMLINK.
    #[error("there are as many links as there may be")]
    TooManyLinks,
    /// EPERM.
    #[error("this is permitted to nobody, or to the superuser alone")]
    NotPermitted,
    /// ENODATA.
    #[error("there is no such attribute")]
    NoAttribute,
    /// ERANGE.
    #[error("the buffer is too small for the attribute")]
    Range,
    /// EFBIG.
    #[error("a file may not be so large")]
    TooLarge,
    /// ENXIO.
    #[error("there is neither data nor a hole behind the end of the file")]
    BehindEnd,
    /// EOPNOTSUPP.
    #[error("the file system does not do this")]
    Unsupported,
    /// EROFS.
    #[error("the file system can only be read: {0}")]
    ReadOnly(String),
    /// EIO, with the reason.
    #[error("{0}")]
    Io(String),
    /// ESTALE.
    #[error("the file is gone")]
    Stale,
    /// ELOOP.
    #[error("it is a symbolic link")]
    SymbolicLink,
}

impl FsError {
    /// The number of the error, as Linux has it.
    pub fn errno(&self) -> i32 {
        match self {
            Self::NotFound => 2,
            Self::Io(_) => 5,
            Self::BehindEnd => 6,
            Self::Exists => 17,
            Self::NotDirectory => 20,
            Self::IsDirectory => 21,
            Self::Invalid(_) => 22,
            Self::TooLarge => 27,
            Self::NoSpace | Self::NoInodes => 28,
            Self::ReadOnly(_) => 30,
            Self::TooManyLinks => 31,
            Self::Range => 34,
            Self::NameTooLong => 36,
            Self::NotEmpty => 39,
            Self::SymbolicLink => 40,
            Self::NotPermitted => 1,
            Self::NoAttribute => 61,
            Self::Unsupported => 95,
            Self::Stale => 116,
        }
    }
}

impl From<DeviceError> for FsError {
    fn from(error: DeviceError) -> Self {
        Self::Io(error.to_string())
    }
}

/// Why a file system cannot be made, mounted or checked. One sentence: what, where, what to do.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum MountError {
    /// No superblock of ours.
    #[error("the device has no file system of Entresol; make one with `entresol mkfs`")]
    NoFileSystem,
    /// A later version than this one.
    #[error(
        "the file system is of version {found} and this program knows {}; use a newer program",
        crate::layout::VERSION
    )]
    Newer {
        /// Its version.
        found: u32,
    },
    /// What is there contradicts itself.
    #[error("{what} is damaged; run `entresol fsck` on the image")]
    Damaged {
        /// Which structure, and where.
        what: String,
    },
    /// The device is of no use for it.
    #[error("{0}")]
    Device(String),
    /// The device fails.
    #[error(transparent)]
    Failed(#[from] DeviceError),
}
