//! The trait, and what its answers are made of.

use crate::{DeviceError, DeviceStats};
use core::future::Future;
use units::{ByteAddr, Bytes, Picos, Time, TxId};

/// What a device is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Bytes of the logical space.
    pub capacity: Bytes,
    /// Unit of the block port, of [`Device::trim`], and of atomic block writes.
    pub block: Bytes,
    /// Whether there are transactions: only a device with a write log has them.
    pub has_transactions: bool,
}

/// When something was done, on the clock of the device. Device time is accounted, not waited for
/// (unless the device is told to): it is what the model of flash, link and firmware says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// When the device was asked.
    pub submitted: Time,
    /// When the host knew that it was done.
    pub finished: Time,
}

impl Completion {
    /// From being asked to the host's knowing.
    pub fn took(&self) -> Picos {
        self.finished - self.submitted
    }
}

/// When a block write is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acknowledge {
    /// When the device has the bytes. They survive a power cut from then on if its buffers do, else
    /// after [`Device::flush`].
    Accepted,
    /// When they survive a power cut (force unit access).
    Durable,
}

/// What a power cut, before the answer to a commit or after it, can leave of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Atomicity {
    /// All of it or nothing.
    Whole,
    /// It was larger than the log has room for and was committed in parts: all or nothing of each
    /// part, and of each page within one write; the parts in order (ByteFS §4.3).
    Parts {
        /// How many.
        count: u32,
    },
}

/// A memory-semantic SSD.
///
/// Methods take `&self`: many tasks may have requests under way on one device. A future submits its
/// request when it is first polled; later polls look whether it is done and move nothing: that is
/// for who drives the device ([`Drive`](crate::Drive)), and wakes the future. Requests whose ranges
/// overlap are served in the order in which their futures were first polled. A future that is
/// dropped before it is done leaves its request with the device: whether a write that was not
/// answered took place is unknown.
pub trait Device {
    /// What the device is.
    fn shape(&self) -> Shape;

    /// Byte port: reads `into.len()` bytes from `at`, the newest that any port wrote, of open
    /// transactions too. What was never written reads as zeroes.
    ///
    /// # Errors
    /// Beyond the capacity; bytes that the flash has lost; a device that has stopped.
    fn read(
        &self,
        at: ByteAddr,
        into: &mut [u8],
    ) -> impl Future<Output = Result<Completion, DeviceError>>;

    /// Byte port: writes to `at` under a transaction, or under [`TxId::NONE`]. Lines written in
    /// part are read and written back by the host (D21). Posted: the answer says that the host is
    /// free to go on; bytes survive a power cut after [`Device::persist`] and, under a transaction,
    /// its commit.
    ///
    /// # Errors
    /// As [`Device::read`]; a line that another open transaction has written; an unknown
    /// transaction.
    fn write(
        &self,
        at: ByteAddr,
        bytes: &[u8],
        tx: TxId,
    ) -> impl Future<Output = Result<Completion, DeviceError>>;

    /// Byte port: waits until all writes answered before are in the device and survive a power cut
    /// (write-verify read, ByteFS §4.2).
    ///
    /// # Errors
    /// A device that has stopped.
    fn persist(&self) -> impl Future<Output = Result<Completion, DeviceError>>;

    /// Block port: reads whole blocks.
    ///
    /// # Errors
    /// As [`Device::read`]; not whole blocks.
    fn read_blocks(
        &self,
        at: ByteAddr,
        into: &mut [u8],
    ) -> impl Future<Output = Result<Completion, DeviceError>>;

    /// Block port: writes whole blocks, each of which replaces everything written to it before, and
    /// is atomic by itself. Not part of a transaction (D21).
    ///
    /// # Errors
    /// As [`Device::read_blocks`]; a block in which an open transaction has written.
    fn write_blocks(
        &self,
        at: ByteAddr,
        bytes: &[u8],
        when: Acknowledge,
    ) -> impl Future<Output = Result<Completion, DeviceError>>;

    /// Block port: forgets whole blocks; they read as zeroes.
    ///
    /// # Errors
    /// As [`Device::write_blocks`].
    fn trim(
        &self,
        at: ByteAddr,
        size: Bytes,
    ) -> impl Future<Output = Result<Completion, DeviceError>>;

    /// Waits until everything answered before survives a power cut.
    ///
    /// # Errors
    /// A device that has stopped.
    fn flush(&self) -> impl Future<Output = Result<Completion, DeviceError>>;

    /// Opens a transaction. It costs the device nothing: the host numbers them (ByteFS §4.3).
    ///
    /// # Errors
    /// A device without transactions, or with as many open ones as it takes.
    fn begin(&self) -> Result<TxId, DeviceError>;

    /// Makes all writes of a transaction survive together, and closes it.
    ///
    /// # Errors
    /// An unknown transaction; a device that has stopped.
    fn commit(
        &self,
        tx: TxId,
    ) -> impl Future<Output = Result<(Completion, Atomicity), DeviceError>>;

    /// Takes back all writes of a transaction that were not committed in parts, and closes it.
    ///
    /// # Errors
    /// As [`Device::commit`].
    fn abort(&self, tx: TxId)
    -> impl Future<Output = Result<(Completion, Atomicity), DeviceError>>;

    /// What the device has done since it was made.
    fn stats(&self) -> DeviceStats;
}
