//! Why a run in the loop has no result.

use std::io;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// Why there is no going on with a firmware process.
#[derive(Debug, Error)]
pub enum LoopError {
    /// Nobody listens there.
    #[error("{path}: no firmware can be reached there: {error}; start `entresol firmware serve`")]
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The firmware process refuses to be the device of the run.
    #[error("the firmware process refuses: {0}")]
    Refused(String),
    /// It listens, and lets nobody in.
    #[error(
        "{}: the firmware there lets nobody in, it may be at another run; wait for the end of that, \
         or start another `entresol firmware serve`", path.display()
    )]
    Busy {
        /// Where it listens.
        path: PathBuf,
    },
    /// Somebody else listens there.
    #[error("the socket is of no firmware process; give the one of `entresol firmware serve`")]
    Foreign,
    /// The process has gone.
    #[error(
        "the firmware process has gone while it was to answer command {tag}; look at what it \
         printed, and run again"
    )]
    Gone {
        /// The command.
        tag: u64,
    },
    /// The process has stopped and says why.
    #[error("the firmware process has stopped at command {tag}: {why}")]
    Stopped {
        /// The command.
        tag: u64,
        /// Its reason.
        why: String,
    },
    /// No answer in time.
    #[error(
        "the firmware process has not answered command {tag} within {patience:?}; it hangs, or it \
         has no processor to itself: run again, or give it longer"
    )]
    Silent {
        /// The command.
        tag: u64,
        /// How long it had.
        patience: Duration,
    },
    /// An answer to something that was answered before.
    #[error(
        "the firmware process answers out of order: command {found} where {due} is due; use the \
         same release of both"
    )]
    OutOfOrder {
        /// What is answered.
        found: u64,
        /// What is to be answered.
        due: u64,
    },
    /// An answer to something that was never asked.
    #[error(
        "the firmware process answers command {found}, which was never sent ({due} is due); use \
         the same release of both"
    )]
    WrongTag {
        /// What is answered.
        found: u64,
        /// What is to be answered.
        due: u64,
    },
    /// Messages of another version.
    #[error(
        "the firmware process answers in version {found} of the device protocol, and the run \
         speaks {known}; use the same release of both"
    )]
    Version {
        /// Its version.
        found: u8,
        /// Ours.
        known: u8,
    },
    /// A message that means nothing.
    #[error("the firmware process sends what is no message: {0}; use the same release of both")]
    Malformed(String),
    /// The answers are not those of the device that is simulated.
    #[error("the firmware process and the simulated device differ: {0}")]
    Differs(String),
}
