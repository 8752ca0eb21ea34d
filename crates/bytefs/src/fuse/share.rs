//! The file system, for all threads that hear the kernel, until it is taken away.

use super::below::Below;
use super::clock::Stopwatch;
use super::convert::errno;
use super::drive::finish;
use crate::FsError;
use core::cell::Cell;
use core::time::Duration;
use fuser::Errno;
use port::{Device, Drive, Turned};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

/// What was done through a mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Served {
    /// What the kernel asked for.
    pub requests: u64,
    /// What failed for the device's sake, not for the asker's.
    pub errors: u64,
}

/// A device of which it is known how long it was moved.
struct Timed<'a, D> {
    device: &'a D,
    spent: &'a Cell<Duration>,
}

impl<D: Drive> Drive for Timed<'_, D> {
    fn turn(&self) -> Turned {
        let watch = Stopwatch::start();
        let turned = self.device.turn();
        self.spent.set(self.spent.get() + watch.read());
        turned
    }
}

/// What all threads have.
pub(super) struct Share<D: Device> {
    /// Nothing when the end has come.
    file_system: RwLock<Option<Below<D>>>,
    requests: AtomicU64,
    errors: AtomicU64,
    /// An operation panicked: what is in memory may contradict itself, and nothing of it is to
    /// reach the device any more. What was synced is there, as after a power cut.
    is_broken: AtomicBool,
}

impl<D: Device + Drive> Share<D> {
    pub fn new(file_system: Below<D>) -> Self {
        Self {
            file_system: RwLock::new(Some(file_system)),
            requests: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            is_broken: AtomicBool::new(false),
        }
    }

    /// What was done so far.
    pub fn served(&self) -> Served {
        Served {
            requests: self.requests.load(Ordering::Relaxed),
            errors: self.errors.load(Ordering::Relaxed),
        }
    }

    pub fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    /// Does a request of the kernel's.
    pub fn run<T>(
        &self,
        operation: impl AsyncFnOnce(&Below<D>) -> Result<T, FsError>,
    ) -> Result<T, Errno> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.answered(self.perform(operation))
    }

    /// As [`Share::run`]; says too how long this thread has moved the device meanwhile.
    pub fn run_timed<T>(
        &self,
        operation: impl AsyncFnOnce(&Below<D>) -> Result<T, FsError>,
    ) -> (Result<T, Errno>, Duration) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let spent = Cell::new(Duration::ZERO);
        let done = self.perform_with(operation, Some(&spent));
        (self.answered(done), spent.get())
    }

    fn answered<T>(&self, done: Option<Result<T, FsError>>) -> Result<T, Errno> {
        match done {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => {
                let is_fault = matches!(error, FsError::Io(_));
                self.errors.fetch_add(is_fault.into(), Ordering::Relaxed);
                Err(errno(&error))
            }
            None if self.is_broken() => {
                self.errors.fetch_add(1, Ordering::Relaxed);
                Err(Errno::EIO)
            }
            None => Err(Errno::ENOTCONN),
        }
    }

    /// Does something of the server's own; nothing if the file system is not there, or broken.
    pub fn perform<T>(&self, operation: impl AsyncFnOnce(&Below<D>) -> T) -> Option<T> {
        self.perform_with(operation, None)
    }

    fn perform_with<T>(
        &self,
        operation: impl AsyncFnOnce(&Below<D>) -> T,
        spent: Option<&Cell<Duration>>,
    ) -> Option<T> {
        let place = self.file_system.read();
        let place = place.unwrap_or_else(PoisonError::into_inner);
        let file_system = place.as_ref().filter(|_| !self.is_broken())?;
        let work = || {
            let device = file_system.device();
            match spent {
                None => finish(device, operation(file_system), &self.is_broken),
                Some(spent) => {
                    let device = Timed { device, spent };
                    finish(&device, operation(file_system), &self.is_broken)
                }
            }
        };
        // A thread that panics would leave its caller waiting for ever, and with it the mount.
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
            self.is_broken.store(true, Ordering::Relaxed);
            None
        })
    }

    /// Looks at the file system, if it is still there.
    pub fn look<T>(&self, at: impl FnOnce(&Below<D>) -> T) -> Option<T> {
        let place = self.file_system.read();
        let place = place.unwrap_or_else(PoisonError::into_inner);
        place.as_ref().map(at)
    }

    /// Takes the file system away when what is under way is done; requests that come later are
    /// refused.
    pub fn take(&self) -> Option<Below<D>> {
        let place = self.file_system.write();
        place.unwrap_or_else(PoisonError::into_inner).take()
    }
}
