//! Requests that are with the device.
//!
//! A lane is a future that never ends: it takes a job, does it, and waits for the next one. Lanes
//! and their buffers are used again, so that a request allocates nothing.

use crate::serving::Driver;
use ::shm::answer::Done;
use ::shm::{Layout, Piece, Region, Request, Submission, statistics_to_bytes};
use core::convert::Infallible;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use port::{Device, DeviceError, Drive};
use std::cell::RefCell;
use std::rc::Rc;
use units::{Picos, TxId};

/// A request of a client.
#[derive(Debug)]
pub(super) struct Job {
    /// Whose.
    pub peer: usize,
    pub region: Rc<Region>,
    pub submission: Submission,
}

/// What has become of it.
#[derive(Debug)]
pub(super) struct Outcome {
    pub peer: usize,
    pub submission: Submission,
    pub result: Result<Done, DeviceError>,
}

/// Where a lane finds its job and leaves the outcome.
#[derive(Default)]
struct Desk {
    job: RefCell<Option<Job>>,
    outcome: RefCell<Option<Outcome>>,
}

struct Lane<'d> {
    desk: Rc<Desk>,
    work: Pin<Box<dyn Future<Output = Infallible> + 'd>>,
}

impl Lane<'_> {
    fn poll(&mut self, waker: &Waker) -> Option<Outcome> {
        let mut context = Context::from_waker(waker);
        let Poll::Pending = self.work.as_mut().poll(&mut context);
        self.desk.outcome.borrow_mut().take()
    }
}

/// All lanes, and who turns the device for them.
pub(super) struct Lanes<'d, D> {
    device: &'d D,
    driver: Driver,
    lanes: Vec<Lane<'d>>,
    free: Vec<usize>,
    busy: Vec<usize>,
}

impl<'d, D: Device + Drive> Lanes<'d, D> {
    pub fn new(device: &'d D) -> Self {
        Self {
            device,
            driver: Driver::new(),
            lanes: Vec::new(),
            free: Vec::new(),
            busy: Vec::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.busy.is_empty()
    }

    /// How long turning the device gets nobody on.
    pub fn rest(&self) -> Picos {
        self.driver.early()
    }

    /// Hands a request to the device: now, for the device serves in the order of first polls.
    pub fn submit(&mut self, job: Job) -> Option<Outcome> {
        let index = self.free.pop().unwrap_or_else(|| self.open());
        let lane = &mut self.lanes[index];
        lane.desk.job.replace(Some(job));
        let outcome = lane.poll(self.driver.waker());
        match outcome {
            Some(_) => self.free.push(index),
            None => self.busy.push(index),
        }
        outcome
    }

    fn open(&mut self) -> usize {
        let desk = Rc::new(Desk::default());
        let work = Box::pin(work(self.device, Rc::clone(&desk)));
        self.lanes.push(Lane { desk, work });
        self.lanes.len() - 1
    }

    /// Turns the device, and polls everything if something was woken.
    pub fn poll(&mut self, finished: &mut Vec<Outcome>) {
        if !self.driver.turn(self.device, self.busy.len()) {
            return;
        }
        let waker = self.driver.waker();
        let (lanes, free) = (&mut self.lanes, &mut self.free);
        self.busy.retain(|index| {
            let outcome = lanes[*index].poll(waker);
            let is_busy = outcome.is_none();
            if !is_busy {
                free.push(*index);
            }
            finished.extend(outcome);
            is_busy
        });
    }
}

async fn work<D: Device>(device: &D, desk: Rc<Desk>) -> Infallible {
    let mut buffer = Vec::new();
    loop {
        let job = poll_fn(|_| {
            let job = desk.job.borrow_mut().take();
            job.map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        let result = perform(device, job.submission.request, &job.region, &mut buffer).await;
        desk.outcome.replace(Some(Outcome {
            peer: job.peer,
            submission: job.submission,
            result,
        }));
    }
}

/// As many bytes as a piece has.
fn room(buffer: &mut Vec<u8>, piece: Piece) -> &mut [u8] {
    // Bounded by the largest request.
    if buffer.len() < piece.size {
        buffer.resize(piece.size, 0);
    }
    &mut buffer[..piece.size]
}

/// What a client writes, as it is now: it may change there at any time.
fn written<'b>(buffer: &'b mut Vec<u8>, piece: Piece, region: &Region) -> &'b [u8] {
    let bytes = room(buffer, piece);
    region.read(Layout::place(piece.place), bytes);
    bytes
}

async fn perform<D: Device>(
    device: &D,
    request: Request,
    region: &Region,
    buffer: &mut Vec<u8>,
) -> Result<Done, DeviceError> {
    let completion = match request {
        Request::Read(at, piece) => {
            let into = room(buffer, piece);
            let completion = device.read(at, into).await?;
            region.write(Layout::place(piece.place), into);
            completion
        }
        Request::ReadBlocks(at, piece) => {
            let into = room(buffer, piece);
            let completion = device.read_blocks(at, into).await?;
            region.write(Layout::place(piece.place), into);
            completion
        }
        Request::Write(at, piece, tx) => {
            let bytes = written(buffer, piece, region);
            device.write(at, bytes, tx).await?
        }
        Request::WriteBlocks(at, piece, when) => {
            let bytes = written(buffer, piece, region);
            device.write_blocks(at, bytes, when).await?
        }
        Request::Trim(at, size) => device.trim(at, size).await?,
        Request::Persist => device.persist().await?,
        Request::Flush => device.flush().await?,
        Request::Commit(tx) | Request::Abort(tx) => return end(device, request, tx).await,
        Request::Begin => {
            let tx = device.begin()?;
            return Ok(Done { tx, ..nothing() });
        }
        Request::Statistics(piece) => {
            let bytes = statistics_to_bytes(&device.stats());
            region.write(Layout::place(piece.place), &bytes);
            return Ok(nothing());
        }
    };
    Ok(Done::plain(completion))
}

async fn end<D: Device>(device: &D, request: Request, tx: TxId) -> Result<Done, DeviceError> {
    let (completion, atomicity) = match request {
        Request::Commit(_) => device.commit(tx).await?,
        _ => device.abort(tx).await?,
    };
    let done = Done::plain(completion);
    Ok(Done { atomicity, ..done })
}

/// What took the device no time.
fn nothing() -> Done {
    let at = units::Time::ZERO;
    Done::plain(port::Completion {
        submitted: at,
        finished: at,
    })
}
