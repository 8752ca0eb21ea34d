//! Transactions as a host holds them: what they are to be like, and a guard that ends them.

use crate::pending::{Plain, Vectored};
use crate::{Atomicity, Command, Completion, Conflict, Device, DeviceError, Opening, Payload};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use units::{ByteAddr, TxId};

/// What a transaction is to be like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TxOptions {
    /// Lines for which room is reserved when it begins, each counted once however often it is
    /// written; 0: none. With a reservation it never waits for room again, is never split, and may
    /// write no other lines.
    pub lines: u32,
    /// Whether it may be committed in parts if the log has no room for more of it
    /// ([`Atomicity::Parts`]). If not, the write that finds no room is refused.
    pub may_split: bool,
    /// What its writes do where another open transaction has written, and what its reservation does
    /// if there is no room.
    pub conflict: Conflict,
}

impl Default for TxOptions {
    /// No reservation, may be split, waits.
    fn default() -> Self {
        Self {
            lines: 0,
            may_split: true,
            conflict: Conflict::Wait,
        }
    }
}

impl TxOptions {
    /// With room for so many lines.
    pub fn reserving(lines: u32) -> Self {
        Self {
            lines,
            ..Self::default()
        }
    }
}

/// A transaction that begins ([`Device::begin`]). If it is dropped before it is done, it leaves
/// none.
#[must_use = "a transaction begins when its future is polled"]
pub struct Begin<'d, D: Device> {
    device: &'d D,
    options: TxOptions,
    /// It waits for its turn to be opened.
    opening: Option<Opening>,
    tx: Option<TxId>,
    reservation: Option<Plain<D::Pending<'d>>>,
}

impl<'d, D: Device> Begin<'d, D> {
    pub(crate) fn new(device: &'d D, options: TxOptions) -> Self {
        Self {
            device,
            options,
            opening: None,
            tx: None,
            reservation: None,
        }
    }
}

impl<D: Device> Future for Begin<'_, D> {
    type Output = Result<TxId, DeviceError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let TxOptions {
            lines,
            may_split,
            conflict,
        } = self.options;
        let tx = match self.tx {
            Some(tx) => tx,
            None => {
                let device = self.device;
                let opened = ready!(device.poll_open(may_split, &mut self.opening, context));
                self.opening = None;
                match opened {
                    Err(error) => return Poll::Ready(Err(error)),
                    Ok(tx) if lines == 0 => return Poll::Ready(Ok(tx)),
                    Ok(tx) => {
                        self.tx = Some(tx);
                        self.reservation = Some(device.reserve(tx, lines, conflict));
                        tx
                    }
                }
            }
        };
        let Some(reservation) = &mut self.reservation else {
            return Poll::Pending;
        };
        let result = Pin::new(reservation).poll(context);
        if let Poll::Ready(Ok(_)) = result {
            // It is the caller's now.
            self.tx = None;
        }
        result.map(|result| result.map(|_| tx))
    }
}

impl<D: Device> Drop for Begin<'_, D> {
    fn drop(&mut self) {
        self.reservation = None;
        if let Some(opening) = self.opening {
            self.device.give_up_open(opening);
        }
        if let Some(tx) = self.tx {
            self.device.abandon(tx);
        }
    }
}

/// An open transaction. Dropped without [`Transaction::commit`] it is aborted: the abort is
/// submitted and not waited for.
///
/// ```
/// use port::{Device, DeviceError, Transaction, TxOptions};
/// use units::ByteAddr;
///
/// type Moved = Result<(), DeviceError>;
///
/// async fn move_one(device: &impl Device, from: ByteAddr, to: ByteAddr) -> Moved {
///     // Two lines: it is all or nothing, and waits for nothing but others' lines.
///     let tx = Transaction::begin(device, TxOptions::reserving(2)).await?;
///     let (mut left, mut right) = ([0; 8], [0; 8]);
///     device.read(from, &mut left).await?;
///     device.read(to, &mut right).await?;
///     let moved = (u64::from_le_bytes(left) - 1, u64::from_le_bytes(right) + 1);
///     tx.write(from, &moved.0.to_le_bytes()).await?;
///     tx.write(to, &moved.1.to_le_bytes()).await?;
///     // An error above has dropped it, and so aborted it.
///     tx.commit().await?;
///     Ok(())
/// }
/// ```
#[must_use = "a transaction that is dropped is aborted"]
pub struct Transaction<'d, D: Device> {
    device: &'d D,
    tx: TxId,
    conflict: Conflict,
    is_open: bool,
}

impl<'d, D: Device> Transaction<'d, D> {
    /// Begins one; waits for its reservation, if it has one.
    ///
    /// # Errors
    /// As [`Device::begin`].
    pub async fn begin(device: &'d D, options: TxOptions) -> Result<Self, DeviceError> {
        let tx = device.begin(options).await?;
        Ok(Self {
            device,
            tx,
            conflict: options.conflict,
            is_open: true,
        })
    }

    /// Its number.
    pub fn id(&self) -> TxId {
        self.tx
    }

    /// Writes under it.
    ///
    /// # Errors
    /// As [`Device::write`].
    pub fn write<'a>(&'a self, at: ByteAddr, bytes: &'a [u8]) -> Plain<D::Pending<'a>> {
        Plain(self.request(at, bytes))
    }

    /// Several writes under it.
    ///
    /// # Errors
    /// As [`Device::write_vectored`].
    pub fn write_vectored<'a>(
        &'a self,
        parts: &[(ByteAddr, &'a [u8])],
    ) -> Vectored<D::Pending<'a>> {
        let request = |(at, bytes): &(ByteAddr, &'a [u8])| self.request(*at, bytes);
        Vectored::new(parts.iter().map(request).collect(), D::ANSWERS_ARE_FETCHED)
    }

    fn request<'a>(&'a self, at: ByteAddr, bytes: &'a [u8]) -> D::Pending<'a> {
        let command = Command::Write(self.tx);
        self.device
            .request(command, at, Payload::Out(bytes), self.conflict)
    }

    /// Makes its writes survive together; commit alone is durable.
    ///
    /// # Errors
    /// As [`Device::commit`].
    pub async fn commit(mut self) -> Result<(Completion, Atomicity), DeviceError> {
        // From the first poll on the device has the commit, whatever becomes of this future.
        self.is_open = false;
        self.device.commit(self.tx).await
    }

    /// Takes its writes back, and waits until that is done.
    ///
    /// # Errors
    /// As [`Device::abort`].
    pub async fn abort(mut self) -> Result<(Completion, Atomicity), DeviceError> {
        self.is_open = false;
        self.device.abort(self.tx).await
    }
}

impl<D: Device> Drop for Transaction<'_, D> {
    fn drop(&mut self) {
        if self.is_open {
            self.device.abandon(self.tx);
        }
    }
}
