//! A device whose requests are done when it was turned so often.

use core::cell::{Cell, RefCell};
use core::future::poll_fn;
use core::task::{Poll, Waker};
use port::{
    Acknowledge, Atomicity, Completion, Device, DeviceError, DeviceStats, Drive, Shape, Turned,
};
use units::{ByteAddr, Bytes, Picos, Time, TxId};

const DONE: Completion = Completion {
    submitted: Time::ZERO,
    finished: Time::ZERO,
};

/// A read of so many bytes is done after so many turns; a flush at once.
#[derive(Default)]
pub(crate) struct Turning {
    /// Turns so far.
    pub turns: Cell<u64>,
    /// Reads that were polled, each time.
    pub polls: Cell<u64>,
    /// Flushes.
    pub flushes: Cell<u64>,
    /// It is early by so much as long as this is not zero; each turn takes one off.
    pub early: Cell<u32>,
    waiting: RefCell<Vec<(u64, Waker)>>,
}

impl Drive for Turning {
    fn turn(&self) -> Turned {
        if self.early.get() > 0 {
            self.early.set(self.early.get() - 1);
            return Turned::Early(Picos::from_micros(200));
        }
        if self.waiting.borrow().is_empty() {
            return Turned::Idle;
        }
        let now = self.turns.get() + 1;
        self.turns.set(now);
        let mut waiting = self.waiting.borrow_mut();
        let due: Vec<_> = waiting.extract_if(.., |(due, _)| *due <= now).collect();
        drop(waiting);
        due.into_iter().for_each(|(_, waker)| waker.wake());
        Turned::Moved
    }
}

impl Device for Turning {
    fn shape(&self) -> Shape {
        Shape {
            capacity: Bytes::from_mib(1),
            block: Bytes::from_kib(4),
            has_transactions: false,
        }
    }

    async fn read(&self, _: ByteAddr, into: &mut [u8]) -> Result<Completion, DeviceError> {
        let due = self.turns.get() + into.len() as u64;
        poll_fn(|context| {
            self.polls.set(self.polls.get() + 1);
            if self.turns.get() >= due {
                return Poll::Ready(());
            }
            let waiter = (due, context.waker().clone());
            self.waiting.borrow_mut().push(waiter);
            Poll::Pending
        })
        .await;
        Ok(DONE)
    }

    async fn write(&self, _: ByteAddr, _: &[u8], _: TxId) -> Result<Completion, DeviceError> {
        Ok(DONE)
    }

    async fn persist(&self) -> Result<Completion, DeviceError> {
        Ok(DONE)
    }

    async fn read_blocks(&self, at: ByteAddr, into: &mut [u8]) -> Result<Completion, DeviceError> {
        self.read(at, into).await
    }

    async fn write_blocks(
        &self,
        _: ByteAddr,
        _: &[u8],
        _: Acknowledge,
    ) -> Result<Completion, DeviceError> {
        Ok(DONE)
    }

    async fn trim(&self, _: ByteAddr, _: Bytes) -> Result<Completion, DeviceError> {
        Ok(DONE)
    }

    async fn flush(&self) -> Result<Completion, DeviceError> {
        self.flushes.set(self.flushes.get() + 1);
        Ok(DONE)
    }

    fn begin(&self) -> Result<TxId, DeviceError> {
        Err(DeviceError::NoTransactions { has_log: false })
    }

    async fn commit(&self, _: TxId) -> Result<(Completion, Atomicity), DeviceError> {
        Err(DeviceError::NoTransactions { has_log: false })
    }

    async fn abort(&self, _: TxId) -> Result<(Completion, Atomicity), DeviceError> {
        Err(DeviceError::NoTransactions { has_log: false })
    }

    fn stats(&self) -> DeviceStats {
        DeviceStats::default()
    }
}
