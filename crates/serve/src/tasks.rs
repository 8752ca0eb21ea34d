//! Requests that are with the device, and who turns it for them.
//!
//! A task is a future that never ends: it takes a job, does it, leaves the outcome and waits for
//! the next job. Tasks and what they remember are used again, so that a request allocates nothing
//! of its own. A task is polled when its waker was called, and not otherwise.

use crate::bell::Bell;
use crate::order::{Extent, Order};
use crate::progress::{Memory, Progress};
use core::convert::Infallible;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll};
use port::{Device, Drive, Turned};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Wake, Waker};

/// What a protocol has the device do for one request.
pub(crate) trait Job: Sized {
    /// What comes of it.
    type Done;
    /// What a task keeps from one job to the next.
    type Memory: Memory;

    /// Has the device do it.
    fn perform<D: Device>(
        self,
        device: &D,
        memory: &mut Self::Memory,
    ) -> impl Future<Output = Self::Done>;

    /// The range that it is about, for who has commands that take several of the device's.
    fn extent(&self) -> Option<Extent> {
        None
    }
}

/// Where a task finds its job and leaves the outcome.
struct Exchange<J: Job> {
    job: RefCell<Option<J>>,
    done: RefCell<Option<J::Done>>,
    progress: Rc<Progress>,
}

struct Task<'d, J: Job> {
    exchange: Rc<Exchange<J>>,
    work: Pin<Box<dyn Future<Output = Infallible> + 'd>>,
    waker: Waker,
}

/// All tasks of a server.
pub(crate) struct Tasks<'d, D, J: Job> {
    device: &'d D,
    tasks: Vec<Task<'d, J>>,
    free: Vec<usize>,
    /// Tasks that are to be polled again in a while.
    late: Vec<usize>,
    is_stopping: Rc<Cell<bool>>,
    /// Tasks that have a job.
    running: usize,
    order: Order<J>,
    /// Of each [`GROUP`] tasks, who was woken.
    woken: Vec<Arc<Woken>>,
    bell: Arc<Bell>,
    finished: VecDeque<J::Done>,
    turned: Turned,
}

impl<'d, D: Device + Drive, J: Job + 'd> Tasks<'d, D, J> {
    /// None; `bell` is rung when a task is woken.
    pub fn new(device: &'d D, bell: Arc<Bell>) -> Self {
        Self {
            device,
            tasks: Vec::new(),
            free: Vec::new(),
            late: Vec::new(),
            is_stopping: Rc::default(),
            running: 0,
            order: Order::default(),
            woken: Vec::new(),
            bell,
            finished: VecDeque::new(),
            turned: Turned::Idle,
        }
    }

    /// The device.
    pub fn device(&self) -> &'d D {
        self.device
    }

    /// Whether every job is done and its outcome was taken.
    pub fn is_empty(&self) -> bool {
        self.running == 0 && self.order.is_empty() && self.finished.is_empty()
    }

    /// What the last turn of the device was.
    pub fn turned(&self) -> Turned {
        self.turned
    }

    /// Hands a job to the device: now, for the device serves in the order of first polls; unless it
    /// overlaps an earlier one that is done in pieces.
    pub fn submit(&mut self, job: J) {
        if let Some((job, extent)) = self.order.admit(job) {
            self.start(job, extent);
            self.start_waiting();
        }
    }

    /// Starts those that waited for a job that has ended. One after the other, not each by the one
    /// before it: many may be done when they are first polled.
    fn start_waiting(&mut self) {
        while let Some((job, extent)) = self.order.next() {
            self.start(job, extent);
        }
    }

    fn start(&mut self, job: J, extent: Option<Extent>) {
        let index = self.free.pop().unwrap_or_else(|| self.open());
        self.order.started(index, extent);
        self.running += 1;
        self.tasks[index].exchange.job.replace(Some(job));
        self.poll(index);
    }

    fn open(&mut self) -> usize {
        let exchange = Rc::new(Exchange {
            job: RefCell::new(None),
            done: RefCell::new(None),
            progress: Rc::new(Progress::new(&self.is_stopping)),
        });
        let index = self.tasks.len();
        if index.is_multiple_of(GROUP) {
            self.woken.push(Arc::default());
        }
        let waker = TaskWaker {
            bit: 1 << (index % GROUP),
            woken: Arc::clone(&self.woken[index / GROUP]),
            bell: Arc::clone(&self.bell),
        };
        self.tasks.push(Task {
            work: Box::pin(work(self.device, Rc::clone(&exchange))),
            exchange,
            waker: Waker::from(Arc::new(waker)),
        });
        index
    }

    fn poll(&mut self, index: usize) {
        let task = &mut self.tasks[index];
        let Poll::Pending = task
            .work
            .as_mut()
            .poll(&mut Context::from_waker(&task.waker));
        let Some(done) = task.exchange.done.take() else {
            let progress = &task.exchange.progress;
            if progress.asks_for_later() {
                self.late.push(index);
            }
            if let Some(end) = progress.news() {
                self.order.reached(index, end);
            }
            if let Some(is_aside) = progress.is_aside() {
                self.order.stands_aside(index, is_aside);
            }
            return;
        };
        let _ = task.exchange.progress.is_aside();
        self.finished.push_back(done);
        self.free.push(index);
        self.running -= 1;
        self.order.ended(index);
    }

    /// Polls the tasks that were woken. Says whether there were any.
    pub fn poll_woken(&mut self) -> bool {
        let mut is_any = false;
        for group in 0..self.woken.len() {
            // Looking is cheaper than taking, and mostly there is nothing.
            if self.woken[group].0.load(Ordering::SeqCst) == 0 {
                continue;
            }
            is_any = true;
            // Who is woken from now on is heard the next time.
            let mut bits = self.woken[group].0.swap(0, Ordering::SeqCst);
            while bits != 0 {
                self.poll(group * GROUP + bits.trailing_zeros() as usize);
                self.start_waiting();
                bits &= bits - 1;
            }
        }
        is_any
    }

    /// Jobs in pieces are to begin none any more: a client may have asked for hours.
    pub fn stop(&self) {
        self.is_stopping.set(true);
    }

    /// Whether a job is to be polled again in a while.
    pub fn has_late(&self) -> bool {
        !self.late.is_empty()
    }

    /// Polls those that asked for that before.
    pub fn poll_late(&mut self) {
        for index in core::mem::take(&mut self.late) {
            self.poll(index);
            self.start_waiting();
        }
    }

    /// Turns the device at most so often, as long as something is under way and the device gets on,
    /// and polls who is woken. Says whether anything happened.
    pub fn turn(&mut self, most: u32) -> bool {
        let mut has_moved = self.poll_woken();
        for _ in 0..most {
            if self.running == 0 {
                break;
            }
            self.turned = self.device.turn();
            let gets_on = self.turned == Turned::Moved;
            has_moved |= self.poll_woken() | gets_on;
            if !gets_on {
                break;
            }
        }
        has_moved
    }

    /// The next outcome, in the order in which the jobs were done.
    pub fn next_finished(&mut self) -> Option<J::Done> {
        self.finished.pop_front()
    }
}

async fn work<D: Device, J: Job>(device: &D, exchange: Rc<Exchange<J>>) -> Infallible {
    let mut memory = J::Memory::new(&exchange.progress);
    loop {
        let job = poll_fn(|_| {
            let job = exchange.job.borrow_mut().take();
            job.map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        let done = job.perform(device, &mut memory).await;
        exchange.done.replace(Some(done));
    }
}

/// Tasks whose wakers share a word.
const GROUP: usize = u64::BITS as usize;

/// A bit for each task of a group that was woken, by whichever thread turned the device.
#[derive(Default)]
struct Woken(AtomicU64);

struct TaskWaker {
    bit: u64,
    woken: Arc<Woken>,
    bell: Arc<Bell>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.0.fetch_or(self.bit, Ordering::SeqCst);
        self.bell.ring();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Turning;
    use units::{ByteAddr, Bytes};

    /// Reads of so many turns, one after the other; what comes of it is its name.
    struct Reads(char, Vec<usize>);

    impl Job for Reads {
        type Done = char;
        type Memory = Vec<u8>;

        async fn perform<D: Device>(self, device: &D, buffer: &mut Vec<u8>) -> char {
            for turns in self.1 {
                buffer.resize(turns, 0);
                device.read(ByteAddr::new(0), buffer).await.expect("read");
            }
            self.0
        }
    }

    fn tasks(device: &Turning) -> Tasks<'_, Turning, Reads> {
        Tasks::new(device, Arc::new(Bell::new().expect("a file")))
    }

    fn finished(tasks: &mut Tasks<'_, Turning, Reads>) -> String {
        core::iter::from_fn(|| tasks.next_finished()).collect()
    }

    #[test]
    fn jobs_are_done_in_the_time_of_the_device_and_answered_in_its_order() {
        let device = Turning::default();
        let mut tasks = tasks(&device);
        for (name, turns) in [
            ('a', vec![9]),
            ('b', vec![2]),
            ('c', vec![2, 3]),
            ('d', vec![]),
        ] {
            tasks.submit(Reads(name, turns));
        }
        assert_eq!(finished(&mut tasks), "d");
        assert!(tasks.turn(1) && finished(&mut tasks).is_empty());
        assert!(tasks.turn(1));
        assert_eq!(finished(&mut tasks), "b");
        // A job that goes on submits its next request when the one before is done, not later.
        assert!(tasks.turn(3));
        assert_eq!(finished(&mut tasks), "c");
        assert!(tasks.turn(100));
        assert_eq!(finished(&mut tasks), "a");
        assert_eq!(device.turns.get(), 9, "the device is not turned for nobody");
        assert!(tasks.is_empty() && !tasks.turn(100));
    }

    /// A job about all there is: in pieces, of so many turns, or done at once.
    struct Whole(usize);

    impl Job for Whole {
        type Done = usize;
        type Memory = ();

        async fn perform<D: Device>(self, device: &D, (): &mut ()) -> usize {
            if self.0 > 0 {
                let read = device.read(ByteAddr::new(0), &mut vec![0; self.0]).await;
                read.expect("read");
            }
            self.0
        }

        fn extent(&self) -> Option<Extent> {
            let pieces = if self.0 > 0 { 2 } else { 1 };
            Some(Extent::write(ByteAddr::new(0), Bytes::from_kib(4), pieces))
        }
    }

    #[test]
    fn however_many_that_waited_are_done_at_once_when_they_may_start() {
        const COUNT: usize = 20_000;
        let device = Turning::default();
        let bell = Arc::new(Bell::new().expect("a file"));
        let mut tasks = Tasks::new(&device, bell);
        tasks.submit(Whole(3));
        for _ in 0..COUNT {
            tasks.submit(Whole(0));
        }
        assert!(tasks.next_finished().is_none(), "they wait");
        assert!(tasks.turn(3));
        let done: Vec<_> = core::iter::from_fn(|| tasks.next_finished()).collect();
        assert_eq!((done[0], done.len()), (3, 1 + COUNT));
        assert!(tasks.is_empty());
    }

    #[test]
    fn only_who_is_woken_is_polled() {
        const COUNT: u64 = 100;
        let device = Turning::default();
        let mut tasks = tasks(&device);
        for turns in 1..=COUNT {
            tasks.submit(Reads('x', vec![turns as usize]));
        }
        tasks.turn(u32::MAX);
        assert_eq!(finished(&mut tasks).len() as u64, COUNT);
        assert_eq!(device.polls.get(), 2 * COUNT);
    }

    #[test]
    fn tasks_are_used_again() {
        let device = Turning::default();
        let mut tasks = tasks(&device);
        for _ in 0..50 {
            tasks.submit(Reads('x', vec![3]));
            tasks.submit(Reads('y', vec![1, 1]));
            tasks.turn(u32::MAX);
            assert_eq!(finished(&mut tasks), "yx");
        }
        assert_eq!(tasks.tasks.len(), 2);
    }

    #[test]
    fn a_wake_by_another_thread_is_heard_by_who_sleeps() {
        let device = Turning::default();
        let bell = Arc::new(Bell::new().expect("a file"));
        let mut tasks: Tasks<'_, _, Reads> = Tasks::new(&device, bell.clone());
        tasks.submit(Reads('x', vec![1]));
        let waker = tasks.tasks[0].waker.clone();
        bell.arm();
        std::thread::spawn(move || waker.wake())
            .join()
            .expect("woken");
        let rung = nix::poll::poll(&mut [bell.to_poll()], nix::poll::PollTimeout::ZERO);
        assert_eq!(rung, Ok(1));
        bell.disarm();
        assert!(tasks.poll_woken() && !tasks.poll_woken());
        assert_eq!(finished(&mut tasks), "", "it was woken too early");
        tasks.turn(1);
        assert_eq!(finished(&mut tasks), "x");
    }
}
