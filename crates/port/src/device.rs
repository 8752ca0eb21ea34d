//! The trait, and what its answers are made of.

use crate::pending::{Plain, Vectored};
use crate::transaction::{Begin, TxOptions};
use crate::{Command, Conflict, DeviceError, DeviceStats, Shape};
use alloc::borrow::Cow;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;
use core::task::{Context, Poll};
use units::{ByteAddr, Bytes, Picos, Time, TxId};

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
    /// When the device has the bytes. Whether they survive a power cut from then on is
    /// [`Shape::block_domain`]; if they do not, they do after [`Device::flush`].
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

/// What comes of a request; the atomicity is of a commit or an abort, and [`Atomicity::Whole`] of
/// everything else.
pub type Outcome = Result<(Completion, Atomicity), DeviceError>;

/// A transaction that waits for its turn to be opened, as the device calls it
/// ([`Device::poll_open`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opening(pub u32);

/// 4 KiB that several have: nobody changes them while they do.
pub type SharedBlock = Arc<[u8; BLOCK]>;

const BLOCK: usize = 4096;

/// What a request moves.
#[derive(Debug)]
pub enum Payload<'a> {
    /// No bytes; the size is that of the range that it is about.
    None(Bytes),
    /// Bytes to the device.
    Out(&'a [u8]),
    /// The same in pieces, which the device may keep as they are instead of copying them.
    Shared(&'a [SharedBlock]),
    /// Bytes from the device.
    In(&'a mut [u8]),
}

impl Payload<'_> {
    /// Nothing, about no range.
    pub const NOTHING: Self = Self::None(Bytes::ZERO);

    /// The size of the range.
    pub fn size(&self) -> Bytes {
        match self {
            Self::None(size) => *size,
            Self::Out(bytes) => Bytes::new(bytes.len() as u64),
            Self::Shared(blocks) => Bytes::new((blocks.len() * BLOCK) as u64),
            Self::In(bytes) => Bytes::new(bytes.len() as u64),
        }
    }

    /// The bytes to the device, in one piece.
    pub fn bytes_out(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Out(bytes) => Cow::Borrowed(bytes),
            Self::Shared(blocks) => {
                let mut bytes = Vec::with_capacity(blocks.len() * BLOCK);
                for block in *blocks {
                    bytes.extend_from_slice(&block[..]);
                }
                Cow::Owned(bytes)
            }
            _ => Cow::Borrowed(&[]),
        }
    }

    /// Where bytes from the device go.
    pub fn bytes_in(&mut self) -> &mut [u8] {
        match self {
            Self::In(bytes) => bytes,
            _ => &mut [],
        }
    }
}

/// A memory-semantic SSD: two ports to one space of bytes, and transactions of the byte port.
///
/// # Requests
/// Methods take `&self`: many tasks may have requests under way on one device. A future submits its
/// request when it is first polled; later polls look whether it is done and move nothing: that is
/// for who drives the device ([`Drive`](crate::Drive)), and wakes the future. Requests whose ranges
/// overlap are served in the order in which their futures were first polled. A future that is
/// dropped before it is done leaves its request with the device: whether a write that was not
/// answered took place is unknown.
///
/// # Transactions
/// A transaction is written by [`Device::write`] under its number, and ends with
/// [`Device::commit`] or [`Device::abort`]; [`Transaction`](crate::Transaction) is the guard that
/// aborts when it is dropped. **Reads see what open transactions have written, their own and
/// others'**: a host that must not see it keeps its tasks apart itself, as file systems do with
/// locks.
///
/// *Conflicts.* A line that an open transaction has written belongs to it until it ends. Another
/// write of the line, and a block write or trim of its page, under another transaction or under
/// none, waits until then, oldest first (ByteFS §4.3); while it waits it has no place in the order
/// of requests. With [`Conflict::Refuse`] it is [`DeviceError::Locked`] instead.
///
/// *Deadlock.* A wait that would close a circle of transactions, each of which waits for a line of
/// the next, is refused with [`DeviceError::Deadlock`]: abort that transaction and begin it anew.
/// Hosts in which every transaction writes its lines in ascending order never see it. Waits that
/// the device cannot see (a task that holds one transaction and waits to begin another, or waits
/// for a lock) are the host's.
///
/// *Room.* The log keeps [`TxLimits::lines`](crate::TxLimits) lines of open transactions.
/// - With a reservation ([`TxOptions::lines`]) a transaction waits when it begins, first come first
///   served, and never again: its writes find room, it is all or nothing, and what it writes beyond
///   its reservation is refused.
/// - Without one it takes room as it writes. A write that finds none waits until another
///   transaction ends; transactions that have written nothing yet queue up behind reservations that
///   wait. One that fills the log by itself, or that has waited longest when everybody waits, is
///   split: what it has written is committed and it goes on ([`Atomicity::Parts`], D21). One that
///   may not be split ([`TxOptions::may_split`]) is refused instead and can be aborted.
///
/// # Tasks of other threads
/// Futures are `Send` where the device is `Sync`. Generic code that spawns them says so:
///
/// ```
/// use port::{Device, TxOptions};
/// # fn spawn(_: impl Future<Output = ()> + Send + 'static) {}
/// fn start<D>(device: std::sync::Arc<D>)
/// where
///     D: Device + Send + Sync + 'static,
///     for<'a> D::Pending<'a>: Send,
/// {
///     spawn(async move {
///         let mut line = [0; 64];
///         device.read(units::ByteAddr::new(0), &mut line).await.expect("it is there");
///     });
/// }
/// ```
pub trait Device {
    /// Answers take room, which others may wait for, until who has asked polls the request.
    const ANSWERS_ARE_FETCHED: bool = false;

    /// A request under way.
    type Pending<'a>: Future<Output = Outcome> + Unpin
    where
        Self: 'a;

    /// What the device is.
    fn shape(&self) -> Shape;

    /// Any request; the methods below name them. `conflict` says what a write does where an open
    /// transaction has written and what a reservation does if there is no room.
    ///
    /// # Errors
    /// Those of the method that names the request; [`DeviceError::Locked`] and
    /// [`DeviceError::LogFull`] of one that is not to wait.
    fn request<'a>(
        &'a self,
        command: Command,
        at: ByteAddr,
        payload: Payload<'a>,
        conflict: Conflict,
    ) -> Self::Pending<'a>;

    /// Numbers a transaction and opens it, which asks the device for nothing and takes no time:
    /// numbers are the host's (ByteFS §4.3). [`Device::begin`] reserves room beside that.
    ///
    /// # Errors
    /// A device without transactions, or with as many open ones as it takes: that never waits.
    fn open(&self, may_split: bool) -> Result<TxId, DeviceError>;

    /// As [`Device::open`], for [`Device::begin`]. Most devices open at once. One in virtual time
    /// lets the tasks of one instant ask first, and opens in their order, not in that of polls: it
    /// keeps in `asked` what it answers later, at the same instant. A device that hands requests on
    /// to another one hands this on, and [`Device::give_up_open`].
    ///
    /// # Errors
    /// As [`Device::open`].
    fn poll_open(
        &self,
        may_split: bool,
        asked: &mut Option<Opening>,
        context: &mut Context<'_>,
    ) -> Poll<Result<TxId, DeviceError>> {
        let _ = (asked, context);
        Poll::Ready(self.open(may_split))
    }

    /// Nobody waits for a transaction any more that [`Device::poll_open`] has not given: there is
    /// none.
    fn give_up_open(&self, asked: Opening) {
        let _ = asked;
    }

    /// Aborts a transaction and does not wait for it. Writes of it that wait are given up; its
    /// lines are free when the device has heard of it. One that is not open is none.
    fn abandon(&self, tx: TxId);

    /// What the device has done since it was made.
    fn stats(&self) -> DeviceStats;

    /// Byte port: reads `into.len()` bytes from `at`, the newest that any port wrote. What was
    /// never written reads as zeroes.
    ///
    /// **What is read may be of a transaction that is open, another host's too, and is taken back
    /// if that is aborted or the power fails.**
    ///
    /// # Errors
    /// Beyond the capacity; bytes that the flash has lost; a device that has stopped.
    fn read<'a>(&'a self, at: ByteAddr, into: &'a mut [u8]) -> Plain<Self::Pending<'a>> {
        Plain(self.request(Command::Read, at, Payload::In(into), Conflict::Wait))
    }

    /// Byte port: writes to `at` under a transaction, or under [`TxId::NONE`]. Lines written in
    /// part are read and written back by the host (D21). Posted: the answer says that the host is
    /// free to go on. Under a transaction the bytes survive a power cut once its commit is
    /// answered, and not before; under none after [`Device::persist`], line by line until then.
    ///
    /// # Errors
    /// As [`Device::read`]; those of conflicts and room ([`Device`]), of which what was written of
    /// the range stays written; an unknown transaction; flash that is worn out.
    fn write<'a>(&'a self, at: ByteAddr, bytes: &'a [u8], tx: TxId) -> Plain<Self::Pending<'a>> {
        Plain(self.request(Command::Write(tx), at, Payload::Out(bytes), Conflict::Wait))
    }

    /// Byte port: several writes, submitted together in the order of the slice. They are on the
    /// link one behind the other and their latencies overlap: together they take one latency and
    /// the bandwidth of all. Those that overlap are done in order; of others no order is promised,
    /// and a power cut may leave any of them, unless a transaction holds them together.
    ///
    /// The completion is from the first submission to the last end.
    ///
    /// # Errors
    /// The first of them, in the order of the slice, when all have ended; others may be done.
    fn write_vectored<'a>(
        &'a self,
        parts: &[(ByteAddr, &'a [u8])],
        tx: TxId,
    ) -> Vectored<Self::Pending<'a>> {
        let request = |(at, bytes): &(ByteAddr, &'a [u8])| {
            let command = Command::Write(tx);
            self.request(command, *at, Payload::Out(bytes), Conflict::Wait)
        };
        Vectored::new(
            parts.iter().map(request).collect(),
            Self::ANSWERS_ARE_FETCHED,
        )
    }

    /// Byte port: waits until all writes under no transaction that were answered before are in the
    /// device and survive a power cut (write-verify read, ByteFS §4.2). A commit needs no persist,
    /// before it or behind it.
    ///
    /// # Errors
    /// A device that has stopped.
    fn persist(&self) -> Plain<Self::Pending<'_>> {
        Plain(alone(self, Command::Persist))
    }

    /// Byte port: waits until all writes to the window ([`Shape::pmem`]) that were answered before
    /// are in it and survive a power cut. It is an ordering point: nothing is flushed, whatever the
    /// persistence domains of the rest.
    ///
    /// # Errors
    /// A device that has stopped.
    fn persist_pmem(&self) -> Plain<Self::Pending<'_>> {
        Plain(alone(self, Command::PersistPmem))
    }

    /// Block port: reads whole blocks.
    ///
    /// **What is read may be of a transaction that is open**, as with [`Device::read`].
    ///
    /// # Errors
    /// As [`Device::read`]; not whole blocks.
    fn read_blocks<'a>(&'a self, at: ByteAddr, into: &'a mut [u8]) -> Plain<Self::Pending<'a>> {
        Plain(self.request(Command::ReadBlocks, at, Payload::In(into), Conflict::Wait))
    }

    /// Block port: writes whole blocks, each of which replaces everything written to it before, and
    /// is atomic by itself. Not part of a transaction (D21): it waits for one that has written
    /// there.
    ///
    /// # Errors
    /// As [`Device::read_blocks`]; flash that is worn out.
    fn write_blocks<'a>(
        &'a self,
        at: ByteAddr,
        bytes: &'a [u8],
        when: Acknowledge,
    ) -> Plain<Self::Pending<'a>> {
        let command = Command::WriteBlocks(when);
        Plain(self.request(command, at, Payload::Out(bytes), Conflict::Wait))
    }

    /// As [`Device::write_blocks`], of bytes that the host does not change before the answer, and
    /// that the device need not copy.
    ///
    /// # Errors
    /// As [`Device::write_blocks`].
    fn write_shared<'a>(
        &'a self,
        at: ByteAddr,
        blocks: &'a [SharedBlock],
        when: Acknowledge,
    ) -> Plain<Self::Pending<'a>> {
        let command = Command::WriteBlocks(when);
        Plain(self.request(command, at, Payload::Shared(blocks), Conflict::Wait))
    }

    /// Block port: forgets whole blocks; they read as zeroes.
    ///
    /// # Errors
    /// As [`Device::write_blocks`].
    fn trim(&self, at: ByteAddr, size: Bytes) -> Plain<Self::Pending<'_>> {
        Plain(self.request(Command::Trim, at, Payload::None(size), Conflict::Wait))
    }

    /// Waits until everything answered before survives a power cut.
    ///
    /// # Errors
    /// A device that has stopped.
    fn flush(&self) -> Plain<Self::Pending<'_>> {
        Plain(alone(self, Command::Flush))
    }

    /// Brings everything that is logged to flash, but for lines of open transactions: with opening,
    /// what ByteFS calls RECOVER() (§4.7).
    ///
    /// # Errors
    /// Flash has no room for it and nothing could make any; a device that has stopped.
    fn drain(&self) -> Plain<Self::Pending<'_>> {
        Plain(alone(self, Command::Drain))
    }

    /// Begins a transaction, which waits for its reservation if it has one; without one it takes no
    /// time, but may take two polls ([`Device::poll_open`]).
    /// [`Transaction::begin`](crate::Transaction::begin) gives a guard instead of a number. The
    /// future that is dropped before it is done leaves no transaction.
    ///
    /// # Errors
    /// As [`Device::open`]; a reservation that never fits, with the limit; a device that has
    /// stopped.
    fn begin(&self, options: TxOptions) -> Begin<'_, Self>
    where
        Self: Sized,
    {
        Begin::new(self, options)
    }

    /// Reserves room for so many lines of a transaction that has written nothing, and waits for it,
    /// first come first served, unless it is to be refused then. [`Device::begin`] does it.
    ///
    /// # Errors
    /// A reservation that never fits; no room, if it is not to wait; a transaction that has written
    /// or reserved already.
    fn reserve(&self, tx: TxId, lines: u32, full: Conflict) -> Plain<Self::Pending<'_>> {
        let size = self.shape().line * u64::from(lines);
        let nowhere = ByteAddr::new(0);
        Plain(self.request(Command::Reserve(tx), nowhere, Payload::None(size), full))
    }

    /// Closes a transaction and makes all of its writes survive together, those that are posted
    /// included: once it is answered they survive any power cut. That is all it takes: neither
    /// [`Device::persist`] nor [`Device::flush`] adds to it. Waits for writes of the transaction
    /// that are under way.
    ///
    /// # Errors
    /// An unknown transaction; flash that is worn out, and the transaction is aborted then; a
    /// device that has stopped.
    fn commit(&self, tx: TxId) -> Self::Pending<'_> {
        alone(self, Command::Commit(tx))
    }

    /// Closes a transaction and takes back all of its writes that were not committed in parts.
    /// Those that wait for a conflict or for room are given up; others are waited for.
    ///
    /// # Errors
    /// An unknown transaction; a device that has stopped.
    fn abort(&self, tx: TxId) -> Self::Pending<'_> {
        alone(self, Command::Abort(tx))
    }
}

/// A request without a range.
fn alone<D: Device + ?Sized>(device: &D, command: Command) -> D::Pending<'_> {
    device.request(command, ByteAddr::new(0), Payload::NOTHING, Conflict::Wait)
}
