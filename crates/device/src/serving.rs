//! What a server of a device is told and what it says, whichever way clients reach it.

use port::DeviceError;
use std::io;
use std::time::Duration;
use thiserror::Error;

/// The longest that a quiet server does not ask whether it should stop.
pub(crate) const QUIET: Duration = Duration::from_millis(250);

/// Whether a server goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// It does.
    On,
    /// It takes no more requests, ends those it has, flushes and returns.
    Stop,
}

/// Why a server stopped that was not told to.
#[derive(Debug, Error)]
pub enum ServerError {
    /// The system refuses.
    #[error("the server cannot wait for its clients: {0}; what was acknowledged is in the device")]
    System(io::Error),
    /// The last flush failed.
    #[error("the last flush failed: {0}")]
    Flush(DeviceError),
}
