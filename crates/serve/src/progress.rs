//! How far a request has come that takes many commands of the device.

use core::cell::Cell;
use core::future::poll_fn;
use core::task::Poll;
use std::rc::Rc;
use units::{ByteAddr, Bytes};

/// Who waits for a request in pieces is looked at again when it has passed a multiple of this: each
/// look asks everybody who waits.
pub(crate) const STRETCH: Bytes = Bytes::from_mib(16);

/// What a task and its job tell each other while the job is done.
pub(crate) struct Progress {
    /// All below is done, if that has changed by a stretch.
    news: Cell<Option<u64>>,
    /// The job is to be polled again in a while.
    is_late: Cell<bool>,
    /// The job waits in the device, or goes on, if that has changed.
    is_aside: Cell<Option<bool>>,
    /// The server stops, for all of its tasks.
    is_stopping: Rc<Cell<bool>>,
}

impl Progress {
    /// Of a task whose server stops when this says so.
    pub fn new(is_stopping: &Rc<Cell<bool>>) -> Self {
        Self {
            news: Cell::default(),
            is_late: Cell::default(),
            is_aside: Cell::default(),
            is_stopping: Rc::clone(is_stopping),
        }
    }

    /// Whether the server stops: a job in pieces begins none any more.
    pub fn is_stopping(&self) -> bool {
        self.is_stopping.get()
    }

    /// A piece is done and all that the job has below it, in the order of addresses. Gives way
    /// once.
    pub async fn passed(&self, at: ByteAddr, size: Bytes) {
        let end = at.get() + size.get();
        if at.get() / STRETCH.get() != end / STRETCH.get() {
            self.news.set(Some(end));
        }
        give_way().await;
    }

    /// From now on the job waits in the device for others, who must get by; or goes on.
    pub fn stand_aside(&self, is_aside: bool) {
        self.is_aside.set(Some(is_aside));
    }

    /// Whether the job stands aside, if that has changed.
    pub fn is_aside(&self) -> Option<bool> {
        self.is_aside.take()
    }

    /// Goes on when the task is polled again, in a while: for what ends without a wake.
    pub async fn later(&self) {
        let mut has_waited = false;
        poll_fn(|_| {
            if has_waited {
                return Poll::Ready(());
            }
            has_waited = true;
            self.is_late.set(true);
            Poll::Pending
        })
        .await;
    }

    /// Whether the job has just asked to be polled again in a while.
    pub fn asks_for_later(&self) -> bool {
        self.is_late.take()
    }

    /// Up to where all is done, if nobody has been told so yet.
    pub fn news(&self) -> Option<u64> {
        self.news.take()
    }
}

/// What a task keeps from one job to the next.
pub(crate) trait Memory {
    /// That of a new task.
    fn new(progress: &Rc<Progress>) -> Self;
}

impl Memory for () {
    fn new(_: &Rc<Progress>) {}
}

/// A buffer.
#[cfg(test)]
impl Memory for Vec<u8> {
    fn new(_: &Rc<Progress>) -> Self {
        Self::new()
    }
}

impl Memory for Rc<Progress> {
    fn new(progress: &Rc<Progress>) -> Self {
        Self::clone(progress)
    }
}

/// Gives way once.
pub(crate) async fn give_way() {
    let mut has_waited = false;
    poll_fn(|context| {
        if has_waited {
            return Poll::Ready(());
        }
        has_waited = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
