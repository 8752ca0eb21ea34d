//! A device whose requests are done when it was turned so often.

use core::cell::{Cell, RefCell};
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Poll, Waker};
use port::{
    Atomicity, Command, Completion, Conflict, Device, DeviceError, DeviceStats, Drive, Outcome,
    Payload, Shape, Turned,
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
    type Pending<'a> = Pin<Box<dyn Future<Output = Outcome> + 'a>>;

    fn shape(&self) -> Shape {
        Shape::plain(Bytes::from_mib(1), Bytes::from_kib(4))
    }

    fn request<'a>(
        &'a self,
        command: Command,
        _: ByteAddr,
        payload: Payload<'a>,
        _: Conflict,
    ) -> Self::Pending<'a> {
        Box::pin(async move {
            match command {
                Command::Read | Command::ReadBlocks => self.wait(payload.size().get()).await,
                Command::Flush => self.flushes.set(self.flushes.get() + 1),
                Command::Reserve(_) | Command::Commit(_) | Command::Abort(_) => {
                    return Err(DeviceError::NoTransactions { has_log: false });
                }
                _ => {}
            }
            Ok((DONE, Atomicity::Whole))
        })
    }

    fn open(&self, _: bool) -> Result<TxId, DeviceError> {
        Err(DeviceError::NoTransactions { has_log: false })
    }

    fn abandon(&self, _: TxId) {}

    fn stats(&self) -> DeviceStats {
        DeviceStats::default()
    }
}

impl Turning {
    /// Until it was turned so often.
    async fn wait(&self, turns: u64) {
        let due = self.turns.get() + turns;
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
    }
}
