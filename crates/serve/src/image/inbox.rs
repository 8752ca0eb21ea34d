//! Where requests pass from the kernel's thread to the server's.
//!
//! A request that comes alone is done by the thread that read it: handing it over would cost more
//! than the request. Where more wait, all are given to the server's thread, so that they are with
//! the device together.

use super::Served;
use super::request::{Kept, Request};
use crate::bell::Bell;
use crate::server::{Control, Protocol, Rhythm, Sockets, run};
use crate::tasks::{Job, Tasks};
use core::time::Duration;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use port::{Device, DeviceError, Drive, block_on};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Rounds between two looks at the bell while there is something to do.
const LOOK: u32 = 512;

/// What both threads know.
pub(super) struct Inbox<D> {
    /// Nothing when the end has come.
    device: Mutex<Option<Arc<D>>>,
    queue: Mutex<Queue>,
    bell: Arc<Bell>,
    /// The kernel's side, to see whether more requests wait.
    kernel: OnceLock<OwnedFd>,
    /// Whether a request that comes alone may keep the kernel's thread busy.
    does_alone: bool,
    requests: AtomicU64,
    errors: AtomicU64,
}

#[derive(Default)]
struct Queue {
    requests: Vec<Request>,
    /// The server's thread has requests.
    is_busy: bool,
    is_closed: bool,
}

impl<D: Device + Drive> Inbox<D> {
    /// An empty one.
    pub fn new(device: Arc<D>, bell: Bell, does_alone: bool) -> Self {
        Self {
            device: Mutex::new(Some(device)),
            queue: Mutex::default(),
            bell: Arc::new(bell),
            kernel: OnceLock::new(),
            does_alone,
            requests: AtomicU64::new(0),
            errors: AtomicU64::new(0),
        }
    }

    /// From now on it is known whether more requests wait.
    pub fn watch(&self, kernel: OwnedFd) {
        let _ = self.kernel.set(kernel);
    }

    /// What was done so far.
    pub fn served(&self) -> Served {
        Served {
            requests: self.requests.load(Ordering::Relaxed),
            errors: self.errors.load(Ordering::Relaxed),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn device(&self) -> MutexGuard<'_, Option<Arc<D>>> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does a request, or hands it over.
    pub fn put(&self, request: Request) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let mut queue = self.queue();
        if queue.is_closed {
            drop(queue);
            return request.refuse();
        }
        let is_alone = self.does_alone && !queue.is_busy && queue.requests.is_empty();
        if is_alone && request.is_short() && !self.do_more_wait() {
            drop(queue);
            return self.do_alone(request);
        }
        queue.requests.push(request);
        drop(queue);
        self.bell.ring();
    }

    fn do_alone(&self, request: Request) {
        match &*self.device() {
            Some(device) => {
                let mut kept = Kept::default();
                let done = block_on(&**device, request.perform(&**device, &mut kept));
                self.count(&done);
            }
            None => request.refuse(),
        }
    }

    fn count(&self, done: &Result<(), DeviceError>) {
        self.errors
            .fetch_add(u64::from(done.is_err()), Ordering::Relaxed);
    }

    fn do_more_wait(&self) -> bool {
        let Some(kernel) = self.kernel.get() else {
            return true;
        };
        let mut fds = [PollFd::new(kernel.as_fd(), PollFlags::POLLIN)];
        !matches!(poll(&mut fds, PollTimeout::ZERO), Ok(0))
    }

    /// Has the device do what is handed over, until the end. The server's thread.
    pub fn serve(&self) {
        let Some(device) = self.device().clone() else {
            return;
        };
        let _guard = Leaving(self);
        let reader = Reader(self);
        // A last flush that fails lets the device's own end fail, which is who says it.
        let _ = run(&*device, Arc::clone(&self.bell), reader, || {
            Control::Continue
        });
    }

    /// Takes nothing more. The server's thread ends what it has and goes.
    pub fn close(&self) {
        self.queue().is_closed = true;
        self.bell.ring();
    }

    /// Gives the device up, when what is under way is done. Both threads may live on.
    pub fn forget(&self) {
        *self.device() = None;
    }
}

/// The server's side: its one client is the kernel's thread.
struct Reader<'i, D>(&'i Inbox<D>);

impl<D: Device + Drive> Protocol<D> for Reader<'_, D> {
    type Job = Request;

    fn rhythm(&self) -> Rhythm {
        Rhythm {
            // It costs an uncontended lock to see what has come.
            turns: 1,
            look: LOOK,
            spin: Duration::ZERO,
            drain: Duration::ZERO,
        }
    }

    fn take(&mut self, tasks: &mut Tasks<'_, D, Request>) -> bool {
        let mut queue = self.0.queue();
        let requests = std::mem::take(&mut queue.requests);
        queue.is_busy = !(tasks.is_empty() && requests.is_empty());
        drop(queue);
        let has_taken = !requests.is_empty();
        // In the order of arrival: the device serves in the order of first polls.
        requests
            .into_iter()
            .for_each(|request| tasks.submit(request));
        has_taken
    }

    fn sockets<'a>(&'a self, _: &mut Sockets<'a>) {}

    fn on_ready(&mut self, _: usize, _: PollFlags, _: &mut Tasks<'_, D, Request>) {}

    /// The kernel has its answer already.
    fn answer(&mut self, done: Result<(), DeviceError>, _: &mut Tasks<'_, D, Request>) {
        self.0.count(&done);
    }

    fn settle(&mut self, _: &mut Tasks<'_, D, Request>) {}

    fn is_over(&self) -> bool {
        self.0.queue().is_closed
    }

    /// Everything asked before is done.
    fn stop(&mut self, tasks: &mut Tasks<'_, D, Request>) {
        self.take(tasks);
    }

    fn end(&mut self, _: &mut Tasks<'_, D, Request>) {}
}

/// However the server's thread ends, nobody waits for it any more.
struct Leaving<'a, D: Device + Drive>(&'a Inbox<D>);

impl<D: Device + Drive> Drop for Leaving<'_, D> {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        queue.is_closed = true;
        let left = std::mem::take(&mut queue.requests);
        drop(queue);
        left.into_iter().for_each(Request::refuse);
    }
}
