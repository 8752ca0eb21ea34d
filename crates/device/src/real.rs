//! The [`port::Device`] of this process: an engine behind a lock.
//!
//! A future submits its command when it is first polled; later polls look whether it is done. No
//! thread of its own and no runtime: whoever turns the device ([`Drive`]) moves it by one event.
//! Nothing sleeps here; a device whose host waits for it says how long it is early.

use crate::engine::{DeviceEngine, Step};
use crate::error::DeviceFileError;
use crate::pace::{Pace, wait};
use port::{
    Acknowledge, Atomicity, Command, Completion, Device, DeviceError, DeviceStats, Drive, Shape,
    Ticket, Turned, block_on_with,
};
use std::future::{Future, poll_fn};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use units::{ByteAddr, Bytes, TxId};

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

    /// Turns the device until a future of its requests is done, and sleeps while it is early.
    /// [`port::block_on`] would spin.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        block_on_with(self, future, wait)
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
        poll_fn(|context| {
            let mut engine = self.engine();
            if let Some(result) = engine.take(ticket, into) {
                waiting.ticket = None;
                return Poll::Ready(result);
            }
            engine.watch(ticket, context.waker());
            Poll::Pending
        })
        .await
    }

    async fn run_plain(
        &self,
        command: Command,
        at: ByteAddr,
        size: Bytes,
    ) -> Result<(Completion, Atomicity), DeviceError> {
        self.run(|engine| engine.submit(command, at, size), &mut [])
            .await
    }

    async fn run_read(
        &self,
        command: Command,
        at: ByteAddr,
        into: &mut [u8],
    ) -> Result<Completion, DeviceError> {
        let size = Bytes::new(into.len() as u64);
        let result = self
            .run(|engine| engine.submit(command, at, size), into)
            .await;
        result.map(|(completion, _)| completion)
    }

    async fn run_write(
        &self,
        command: Command,
        at: ByteAddr,
        bytes: &[u8],
    ) -> Result<Completion, DeviceError> {
        let result = self
            .run(|engine| engine.submit_write(command, at, bytes), &mut [])
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

impl Drive for RealDevice {
    /// Wakers are called with the device locked: they note that they were called, as wakers do, and
    /// must not ask the device.
    fn turn(&self) -> Turned {
        match self.engine().step() {
            Step::Moved => Turned::Moved,
            Step::Idle => Turned::Idle,
            Step::Early(span) => Turned::Early(span),
        }
    }
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
        self.run_read(Command::Read, at, into)
    }

    fn write(
        &self,
        at: ByteAddr,
        bytes: &[u8],
        tx: TxId,
    ) -> impl Future<Output = Result<Completion, DeviceError>> {
        self.run_write(Command::Write(tx), at, bytes)
    }

    async fn persist(&self) -> Result<Completion, DeviceError> {
        let nowhere = (ByteAddr::new(0), Bytes::ZERO);
        let result = self.run_plain(Command::Persist, nowhere.0, nowhere.1).await;
        result.map(|(completion, _)| completion)
    }

    fn read_blocks(
        &self,
        at: ByteAddr,
        into: &mut [u8],
    ) -> impl Future<Output = Result<Completion, DeviceError>> {
        self.run_read(Command::ReadBlocks, at, into)
    }

    fn write_blocks(
        &self,
        at: ByteAddr,
        bytes: &[u8],
        when: Acknowledge,
    ) -> impl Future<Output = Result<Completion, DeviceError>> {
        self.run_write(Command::WriteBlocks(when), at, bytes)
    }

    async fn trim(&self, at: ByteAddr, size: Bytes) -> Result<Completion, DeviceError> {
        let result = self.run_plain(Command::Trim, at, size).await;
        result.map(|(completion, _)| completion)
    }

    async fn flush(&self) -> Result<Completion, DeviceError> {
        let nowhere = (ByteAddr::new(0), Bytes::ZERO);
        let result = self.run_plain(Command::Flush, nowhere.0, nowhere.1).await;
        result.map(|(completion, _)| completion)
    }

    fn begin(&self) -> Result<TxId, DeviceError> {
        self.engine().begin()
    }

    fn commit(
        &self,
        tx: TxId,
    ) -> impl Future<Output = Result<(Completion, Atomicity), DeviceError>> {
        self.run_plain(Command::Commit(tx), ByteAddr::new(0), Bytes::ZERO)
    }

    fn abort(
        &self,
        tx: TxId,
    ) -> impl Future<Output = Result<(Completion, Atomicity), DeviceError>> {
        self.run_plain(Command::Abort(tx), ByteAddr::new(0), Bytes::ZERO)
    }

    fn stats(&self) -> DeviceStats {
        self.engine().stats()
    }
}
