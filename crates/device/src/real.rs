//! The [`port::Device`] of this process: an engine behind a lock.
//!
//! A future submits its command when it is first polled and then gives way once, so that others
//! submit theirs at the same device time; polled again, it moves the device by one event. No thread
//! of its own and no runtime: whoever waits works. A poll never sleeps; a device whose host waits
//! for it says how long nothing will happen ([`Device::rest`]), and who polls may sleep.

use crate::command::Ask;
use crate::engine::{DeviceEngine, Ticket};
use crate::error::DeviceFileError;
use crate::pace::{Pace, wait};
use port::{Acknowledge, Atomicity, Completion, Device, DeviceError, DeviceStats, Shape};
use std::future::{Future, poll_fn};
use std::path::Path;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use units::{ByteAddr, Bytes, Picos, TxId};

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

    /// Polls a future of this device's requests until it is done, and sleeps while the device says
    /// that nothing happens. [`port::block_on`] would spin.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
                return value;
            }
            wait(self.rest());
        }
    }

    async fn run(
        &self,
        submit: impl FnOnce(&mut DeviceEngine) -> Result<Ticket, DeviceError>,
        into: &mut [u8],
    ) -> Result<(Completion, Atomicity), DeviceError> {
        let ticket = submit(&mut self.engine())?;
        let mut waiting = Waiting {
            device: self,
            ticket: Some(ticket),
        };
        give_way().await;
        poll_fn(|context| {
            let mut engine = self.engine();
            if let Some(result) = engine.take(ticket, into) {
                waiting.ticket = None;
                return Poll::Ready(result);
            }
            // Early or not: a poll waits for nothing ([`RealDevice::rest`]).
            engine.step();
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }

    async fn run_plain(
        &self,
        ask: Ask,
        at: ByteAddr,
        size: Bytes,
    ) -> Result<(Completion, Atomicity), DeviceError> {
        self.run(|engine| engine.submit(ask, at, size), &mut [])
            .await
    }

    async fn run_read(
        &self,
        ask: Ask,
        at: ByteAddr,
        into: &mut [u8],
    ) -> Result<Completion, DeviceError> {
        let size = Bytes::new(into.len() as u64);
        let result = self.run(|engine| engine.submit(ask, at, size), into).await;
        result.map(|(completion, _)| completion)
    }

    async fn run_write(
        &self,
        ask: Ask,
        at: ByteAddr,
        bytes: &[u8],
    ) -> Result<Completion, DeviceError> {
        let result = self
            .run(|engine| engine.submit_write(ask, at, bytes), &mut [])
            .await;
        result.map(|(completion, _)| completion)
    }
}

/// A command whose future may be dropped.
struct Waiting<'a> {
    device: &'a RealDevice,
    ticket: Option<Ticket>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket
            && let Ok(mut engine) = self.device.engine.lock()
        {
            engine.abandon(ticket);
        }
    }
}

/// Lets other tasks run once.
async fn give_way() {
    let mut has_given = false;
    poll_fn(|context| {
        if has_given {
            return Poll::Ready(());
        }
        has_given = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl Device for RealDevice {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn read(
        &self,
        at: ByteAddr,
        into: &mut [u8],
    ) -> impl Future<Output = Result<Completion, DeviceError>> {
        self.run_read(Ask::Read, at, into)
    }

    fn write(
        &self,
        at: ByteAddr,
        bytes: &[u8],
        tx: TxId,
    ) -> impl Future<Output = Result<Completion, DeviceError>> {
        self.run_write(Ask::Write(tx), at, bytes)
    }

    async fn persist(&self) -> Result<Completion, DeviceError> {
        let nowhere = (ByteAddr::new(0), Bytes::ZERO);
        let result = self.run_plain(Ask::Persist, nowhere.0, nowhere.1).await;
        result.map(|(completion, _)| completion)
    }

    fn read_blocks(
        &self,
        at: ByteAddr,
        into: &mut [u8],
    ) -> impl Future<Output = Result<Completion, DeviceError>> {
        self.run_read(Ask::ReadBlocks, at, into)
    }

    fn write_blocks(
        &self,
        at: ByteAddr,
        bytes: &[u8],
        when: Acknowledge,
    ) -> impl Future<Output = Result<Completion, DeviceError>> {
        self.run_write(Ask::WriteBlocks(when), at, bytes)
    }

    async fn trim(&self, at: ByteAddr, size: Bytes) -> Result<Completion, DeviceError> {
        let result = self.run_plain(Ask::Trim, at, size).await;
        result.map(|(completion, _)| completion)
    }

    async fn flush(&self) -> Result<Completion, DeviceError> {
        let nowhere = (ByteAddr::new(0), Bytes::ZERO);
        let result = self.run_plain(Ask::Flush, nowhere.0, nowhere.1).await;
        result.map(|(completion, _)| completion)
    }

    fn begin(&self) -> Result<TxId, DeviceError> {
        self.engine().begin()
    }

    fn commit(
        &self,
        tx: TxId,
    ) -> impl Future<Output = Result<(Completion, Atomicity), DeviceError>> {
        self.run_plain(Ask::Commit(tx), ByteAddr::new(0), Bytes::ZERO)
    }

    fn abort(
        &self,
        tx: TxId,
    ) -> impl Future<Output = Result<(Completion, Atomicity), DeviceError>> {
        self.run_plain(Ask::Abort(tx), ByteAddr::new(0), Bytes::ZERO)
    }

    fn rest(&self) -> Picos {
        self.engine().rest()
    }

    fn stats(&self) -> DeviceStats {
        self.engine().stats()
    }
}
