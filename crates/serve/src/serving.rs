//! What a server of a device is told and what it says, whichever way clients reach it.

use port::{DeviceError, Drive, Turned};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;
use thiserror::Error;
use units::Picos;

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

/// Turns a device for tasks that share a waker.
pub(crate) struct Driver {
    is_woken: Arc<IsWoken>,
    waker: Waker,
    early: Picos,
}

struct IsWoken(AtomicBool);

impl Wake for IsWoken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

impl Driver {
    pub fn new() -> Self {
        let is_woken = Arc::new(IsWoken(AtomicBool::new(false)));
        Self {
            waker: Waker::from(Arc::clone(&is_woken)),
            is_woken,
            early: Picos::ZERO,
        }
    }

    /// The waker of all tasks.
    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    /// How early the device was when it was last turned.
    pub fn early(&self) -> Picos {
        self.early
    }

    /// Turns the device until a task is woken, at most so often. Says whether one was.
    pub fn turn(&mut self, device: &impl Drive, most: usize) -> bool {
        self.early = Picos::ZERO;
        for _ in 0..most {
            if self.is_woken.0.load(Ordering::Relaxed) {
                break;
            }
            match device.turn() {
                Turned::Moved => {}
                Turned::Idle => break,
                Turned::Early(span) => {
                    self.early = span;
                    break;
                }
            }
        }
        self.is_woken.0.swap(false, Ordering::Acquire)
    }
}
