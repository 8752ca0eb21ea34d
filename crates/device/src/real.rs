//! The [`port::Device`] of this process: an engine behind a lock.
//!
//! A future submits its command when it is first polled; later polls look whether it is done. No
//! thread of its own and no runtime: whoever turns the device ([`Drive`]) moves it by one event.
//! Nothing sleeps here; a device whose host waits for it says how long it is early.

use crate::config::DeviceConfig;
use crate::engine::{DeviceEngine, Step};
use crate::error::DeviceFileError;
use crate::pace::{Pace, wait};
use port::{
    Command, Conflict, Device, DeviceError, DeviceStats, Drive, Outcome, Payload, Shape, Ticket,
    Turned, block_on_with,
};
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use units::{ByteAddr, TxId};

/// A device of real bytes, for many tasks and threads of one process.
pub struct RealDevice {
    engine: Mutex<DeviceEngine>,
    shape: Shape,
}

impl RealDevice {
    /// Opens an image, recovering what a killed process has left.
    ///
    /// # Errors
    /// The image is none, damaged, newer, or open elsewhere.
    pub fn open(path: &Path, pace: Pace) -> Result<Self, DeviceFileError> {
        let engine = DeviceEngine::open(path, pace)?;
        Ok(Self {
            shape: engine.shape(),
            engine: Mutex::new(engine),
        })
    }

    /// A new device in memory, which goes with it.
    ///
    /// # Errors
    /// As [`DeviceEngine::in_memory`].
    pub fn in_memory(config: &DeviceConfig, pace: Pace) -> Result<Self, DeviceFileError> {
        let engine = DeviceEngine::in_memory(config, pace)?;
        Ok(Self {
            shape: engine.shape(),
            engine: Mutex::new(engine),
        })
    }

    /// Closes the image in order.
    ///
    /// # Errors
    /// As [`DeviceEngine::close`].
    pub fn close(self) -> Result<(), DeviceFileError> {
        let engine = self.engine.into_inner();
        engine.unwrap_or_else(PoisonError::into_inner).close()
    }

    /// The engine, for those who move it themselves. Nobody else does meanwhile.
    pub fn engine(&self) -> MutexGuard<'_, DeviceEngine> {
        // A panic within the firmware leaves tables that a power cut could leave too, but the
        // firmware in memory is not to be trusted: whoever holds the lock next panics as well.
        self.engine.lock().expect("the firmware has not panicked")
    }

    /// Turns the device until a future of its requests is done, and sleeps while it is early.
    /// [`port::block_on`] would spin.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        block_on_with(self, future, wait)
    }
}

/// A request of a [`RealDevice`].
pub struct Pending<'a> {
    device: &'a RealDevice,
    payload: Payload<'a>,
    state: State,
}

enum State {
    /// It was not polled.
    New(Command, ByteAddr, Conflict),
    /// The engine has it.
    Submitted(Ticket),
    /// Its outcome was taken.
    Over,
}

impl Future for Pending<'_> {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let Self {
            device,
            payload,
            state,
        } = &mut *self;
        let mut engine = device.engine();
        if let State::New(command, at, conflict) = *state {
            let range = (at, payload.size());
            *state = State::Over;
            let ticket = match payload {
                Payload::Shared(blocks) => engine.submit_shared(command, at, conflict, blocks),
                _ => engine.submit_any(command, range, conflict, &payload.bytes_out()),
            }?;
            *state = State::Submitted(ticket);
        }
        let State::Submitted(ticket) = *state else {
            panic!("a request is polled after its end");
        };
        if let Some(outcome) = engine.take(ticket, payload.bytes_in()) {
            *state = State::Over;
            return Poll::Ready(outcome);
        }
        engine.watch(ticket, context.waker());
        Poll::Pending
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if let State::Submitted(ticket) = self.state
            && let Ok(mut engine) = self.device.engine.lock()
        {
            engine.abandon(ticket);
        }
    }
}

impl Drive for RealDevice {
    /// Wakers are called with the device locked: they note that they were called, as wakers do, and
    /// must not ask the device.
    fn turn(&self) -> Turned {
        match self.engine().step_far() {
            Step::Moved => Turned::Moved,
            Step::Idle => Turned::Idle,
            Step::Early(span) => Turned::Early(span),
        }
    }
}

impl Device for RealDevice {
    type Pending<'a> = Pending<'a>;

    fn shape(&self) -> Shape {
        self.shape
    }

    fn request<'a>(
        &'a self,
        command: Command,
        at: ByteAddr,
        payload: Payload<'a>,
        conflict: Conflict,
    ) -> Pending<'a> {
        Pending {
            device: self,
            payload,
            state: State::New(command, at, conflict),
        }
    }

    fn open(&self, may_split: bool) -> Result<TxId, DeviceError> {
        self.engine().begin(may_split)
    }

    fn abandon(&self, tx: TxId) {
        // One whose engine has panicked has no transactions any more.
        if let Ok(mut engine) = self.engine.lock() {
            engine.abandon_transaction(tx);
        }
    }

    fn stats(&self) -> DeviceStats {
        self.engine().stats()
    }
}
