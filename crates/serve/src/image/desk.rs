//! Where requests pass from the kernel's thread to the device's.
//!
//! A request that comes alone is done by the thread that read it: handing it over would cost more
//! than the request. Where more wait, all are given to the device's thread, so that they are with
//! the device together.

use super::Served;
use super::work::Work;
use crate::serving::Driver;
use crate::waiting::sleep_for;
use core::future::Future;
use core::pin::Pin;
use core::task::Context;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use port::{Device, DeviceError, Drive, block_on};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Times that the device is moved before new requests are looked for, unless something is done.
const MOST_POLLS: u32 = 32;

/// What both threads know.
pub(super) struct Desk<D> {
    /// Nothing when the end has come.
    device: Mutex<Option<Arc<D>>>,
    queue: Mutex<Queue>,
    bell: Condvar,
    /// The kernel's side, to see whether more requests wait.
    kernel: OnceLock<OwnedFd>,
    /// Whether a request that comes alone may keep the kernel's thread busy.
    does_alone: bool,
    requests: AtomicU64,
    errors: AtomicU64,
}

#[derive(Default)]
struct Queue {
    work: Vec<Work>,
    /// The device's thread has requests.
    is_busy: bool,
    is_over: bool,
}

type Task<'d> = Pin<Box<dyn Future<Output = Result<(), DeviceError>> + 'd>>;

impl<D: Device + Drive> Desk<D> {
    pub fn new(device: Arc<D>, does_alone: bool) -> Self {
        Self {
            device: Mutex::new(Some(device)),
            queue: Mutex::default(),
            bell: Condvar::new(),
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
    pub fn take(&self, work: Work) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let mut queue = self.queue();
        if queue.is_over {
            drop(queue);
            return work.refuse();
        }
        let is_alone = self.does_alone && !queue.is_busy && queue.work.is_empty();
        if is_alone && work.is_short() && !self.do_more_wait() {
            drop(queue);
            return self.do_alone(work);
        }
        queue.work.push(work);
        drop(queue);
        self.bell.notify_one();
    }

    fn do_alone(&self, work: Work) {
        match &*self.device() {
            Some(device) => self.count(&block_on(&**device, work.run(&**device))),
            None => work.refuse(),
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

    /// Has the device do what is handed over, until the end. The device's thread.
    pub fn serve(&self) {
        let Some(device) = self.device().clone() else {
            return;
        };
        let _guard = Leaving(self);
        let mut tasks: Vec<Task<'_>> = Vec::new();
        let mut driver = Driver::new();
        while let Some(work) = self.next(tasks.is_empty(), sleep_for(driver.early())) {
            let waker = driver.waker().clone();
            let mut context = Context::from_waker(&waker);
            // In the order of arrival: the device serves in the order of first polls.
            for work in work {
                let mut task: Task<'_> = Box::pin(work.run(&*device));
                if !self.is_done(&mut task, &mut context) {
                    tasks.push(task);
                }
            }
            let (before, mut polls) = (tasks.len(), 0);
            while !tasks.is_empty() && tasks.len() == before && polls < MOST_POLLS {
                if driver.turn(&*device, tasks.len()) {
                    tasks.retain_mut(|task| !self.is_done(task, &mut context));
                }
                polls += 1;
                if !driver.early().is_zero() {
                    break;
                }
            }
        }
    }

    fn is_done(&self, task: &mut Task<'_>, context: &mut Context<'_>) -> bool {
        let poll = task.as_mut().poll(context);
        if let core::task::Poll::Ready(done) = &poll {
            self.count(done);
        }
        poll.is_ready()
    }

    /// What has been handed over; waits for it if there is nothing else to do, and while the device
    /// rests. Nothing at the end.
    fn next(&self, is_idle: bool, rest: Duration) -> Option<Vec<Work>> {
        let mut queue = self.queue();
        if !is_idle && queue.work.is_empty() && !rest.is_zero() {
            let waited = self.bell.wait_timeout(queue, rest);
            (queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        while is_idle && queue.work.is_empty() {
            if queue.is_over {
                return None;
            }
            queue.is_busy = false;
            queue = self
                .bell
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
        queue.is_busy = true;
        Some(std::mem::take(&mut queue.work))
    }

    /// Takes nothing more. The device's thread ends what it has and goes.
    pub fn close(&self) {
        self.queue().is_over = true;
        self.bell.notify_one();
    }

    /// Gives the device up, when what is under way is done. Both threads may live on.
    pub fn forget(&self) {
        *self.device() = None;
    }
}

/// However the device's thread ends, nobody waits for it any more.
struct Leaving<'a, D: Device + Drive>(&'a Desk<D>);

impl<D: Device + Drive> Drop for Leaving<'_, D> {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        queue.is_over = true;
        let left = std::mem::take(&mut queue.work);
        drop(queue);
        left.into_iter().for_each(Work::refuse);
    }
}
