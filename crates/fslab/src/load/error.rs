//! Why a load could not be read or run.

use bytefs::{FsError, MountError};
use device::DeviceFileError;
use thiserror::Error;

/// Why a load could not be read or run. One sentence: what, where, what to do.
#[derive(Debug, Error)]
pub enum LoadError {
    /// There is no load of that name.
    #[error("there is no load {name}; did you mean {nearest}?")]
    Unknown {
        /// What was asked for.
        name: String,
        /// One that is spelt like it.
        nearest: String,
    },
    /// A load's text says what no load says.
    #[error("{file}: {problem}")]
    Text {
        /// Where it stands.
        file: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// A run cannot be as it was asked to be.
    #[error("{0}")]
    Setting(String),
    /// The device cannot be made.
    #[error(transparent)]
    Device(#[from] DeviceFileError),
    /// The file system cannot be made or mounted.
    #[error("the file system of the load: {0}")]
    Mount(#[from] MountError),
    /// The file system refused an operation.
    #[error("{what}: {error}; a smaller load (--scale) or a larger device may do")]
    Operation {
        /// Which operation, of which thread.
        what: String,
        /// Why.
        error: FsError,
    },
    /// The store of YCSB found something else than what it had written.
    #[error("the store is damaged: {0}; the file system gave back what was not written")]
    Store(String),
    /// A recorded operation has another outcome than it had.
    #[error(
        "operation {number} of the recording, {what}: {found}, and {wanted} was recorded; a larger \
         device (--scale) may do, or the recording was changed"
    )]
    Differs {
        /// Which operation, from 1.
        number: usize,
        /// What it does.
        what: &'static str,
        /// The outcome that was recorded.
        wanted: String,
        /// The outcome here.
        found: String,
    },
    /// Every task waits.
    #[error(transparent)]
    Blocked(#[from] vtime::Blocked),
}

impl LoadError {
    /// That the file system refused.
    pub(crate) fn of(what: impl Into<String>, error: FsError) -> Self {
        Self::Operation {
            what: what.into(),
            error,
        }
    }
}
