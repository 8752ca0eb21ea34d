//! What the device does for a request.

use crate::order::Extent;
use crate::progress::{Memory, Progress};
use crate::ranges::{PIECE, pieces};
use crate::tasks;
use ::shm::{DataRange, Layout, Region, Request, Submission, statistics_to_bytes};
use port::{Atomicity, Command, Completion, Conflict, Device, DeviceError, Payload, Shape};
use std::rc::Rc;
use units::{ByteAddr, Bytes, TxId};

/// A request of a client.
#[derive(Debug)]
pub(super) struct Job {
    /// Whose.
    pub client: usize,
    pub region: Rc<Region>,
    pub submission: Submission,
    /// The device's name for its transaction.
    pub tx: TxId,
    /// The server asks, for a client that is not told.
    pub is_own: bool,
    /// Trims that are longer are done in pieces of this size.
    pub piece: Bytes,
}

/// How much of a device is trimmed by one command: the device has an operation for each page of a
/// command. A 64th, within bounds.
pub(super) fn piece_of(shape: &Shape) -> Bytes {
    let part = shape.capacity.get() / 64 / PIECE.get() * PIECE.get();
    Bytes::new(part).clamp(PIECE, Bytes::from_mib(256))
}

/// What has become of it.
#[derive(Debug)]
pub(super) struct Outcome {
    pub client: usize,
    pub submission: Submission,
    pub is_own: bool,
    pub result: port::Outcome,
}

/// What stays from one request to the next.
pub(super) struct Kept {
    /// Bytes on their way.
    buffer: Vec<u8>,
    progress: Rc<Progress>,
}

impl Memory for Kept {
    fn new(progress: &Rc<Progress>) -> Self {
        Self {
            buffer: Vec::new(),
            progress: Rc::clone(progress),
        }
    }
}

impl tasks::Job for Job {
    type Done = Outcome;
    type Memory = Kept;

    async fn perform<D: Device>(self, device: &D, kept: &mut Kept) -> Outcome {
        let mut result = match self.submission.request {
            Request::Trim(at, size) if size > self.piece && is_of(&device.shape(), at, size) => {
                trim(device, &kept.progress, &self, (at, size)).await
            }
            _ => perform(device, &self, &mut kept.buffer).await,
        };
        if let Some(tx) = self.submission.request.transaction() {
            result = result.map_err(|error| error.under(tx));
        }
        Outcome {
            client: self.client,
            submission: self.submission,
            is_own: self.is_own,
            result,
        }
    }

    /// Of a transaction nothing stands behind a trim, which may have to wait for its end.
    fn extent(&self) -> Option<Extent> {
        let size = |range: DataRange| Bytes::new(range.size as u64);
        match self.submission.request {
            Request::Read(at, range) | Request::ReadBlocks(at, range) => {
                Some(Extent::read(at, size(range)))
            }
            Request::Write(at, range, _) if self.tx == TxId::NONE => {
                Some(Extent::write(at, size(range), 1))
            }
            Request::WriteBlocks(at, range, _) => Some(Extent::write(at, size(range), 1)),
            Request::Trim(at, size) => {
                let count = size.get().div_ceil(self.piece.get());
                Some(Extent::write(at, size, count))
            }
            _ => None,
        }
    }
}

/// Whether a device has these blocks: one that has not says so before it trims any.
fn is_of(shape: &Shape, at: ByteAddr, size: Bytes) -> bool {
    let end = at.get().checked_add(size.get());
    end.is_some_and(|end| end <= shape.capacity.get())
        && at.get().is_multiple_of(shape.block.get())
        && size.get().is_multiple_of(shape.block.get())
}

/// A long range in pieces. A part of it is done when it fails, or when the server stops.
async fn trim<D: Device>(
    device: &D,
    progress: &Progress,
    job: &Job,
    (at, size): (ByteAddr, Bytes),
) -> port::Outcome {
    let mut first: Option<Completion> = None;
    let mut all = nothing();
    for (at, size) in pieces(at, size, job.piece) {
        if progress.is_stopping() {
            return Err(DeviceError::Stopped {
                reason: "its server stops, and a part of the range is trimmed".to_owned(),
            });
        }
        let trim = |conflict| device.request(Command::Trim, at, Payload::None(size), conflict);
        let mut done = trim(Conflict::Refuse).await;
        let stands = matches!(done, Err(DeviceError::Locked { .. } | DeviceError::LogFull));
        if stands && job.submission.conflict == Conflict::Wait {
            // The transaction's client may read what is trimmed before it ends it.
            progress.stand_aside(true);
            done = trim(Conflict::Wait).await;
            progress.stand_aside(false);
        }
        let (completion, atomicity) = done?;
        let submitted = first.get_or_insert(completion).submitted;
        all = (
            Completion {
                submitted,
                ..completion
            },
            atomicity,
        );
        progress.passed(at, size).await;
    }
    Ok(all)
}

/// As many bytes as a range has.
fn room(buffer: &mut Vec<u8>, range: DataRange) -> &mut [u8] {
    // Bounded by the largest request.
    if buffer.len() < range.size {
        buffer.resize(range.size, 0);
    }
    &mut buffer[..range.size]
}

/// What a client writes, as it is now: it may change there at any time.
fn written<'b>(buffer: &'b mut Vec<u8>, range: DataRange, region: &Region) -> &'b [u8] {
    let bytes = room(buffer, range);
    region.read(Layout::place(range.place), bytes);
    bytes
}

async fn perform<D: Device>(device: &D, job: &Job, buffer: &mut Vec<u8>) -> port::Outcome {
    let (tx, region) = (job.tx, &*job.region);
    let nowhere = ByteAddr::new(0);
    let range = job.submission.request.range();
    let (command, at) = match job.submission.request {
        Request::Read(at, _) => (Command::Read, at),
        Request::ReadBlocks(at, _) => (Command::ReadBlocks, at),
        Request::Write(at, ..) => (Command::Write(tx), at),
        Request::WriteBlocks(at, _, when) => (Command::WriteBlocks(when), at),
        Request::Trim(at, _) => (Command::Trim, at),
        Request::Persist => (Command::Persist, nowhere),
        Request::Flush => (Command::Flush, nowhere),
        Request::Drain => (Command::Drain, nowhere),
        Request::Reserve(..) => (Command::Reserve(tx), nowhere),
        Request::Commit(_) => (Command::Commit(tx), nowhere),
        Request::Abort(_) => (Command::Abort(tx), nowhere),
        Request::Statistics(range) => {
            let bytes = statistics_to_bytes(&device.stats());
            region.write(Layout::place(range.place), &bytes);
            return Ok(nothing());
        }
    };
    let is_read = matches!(command, Command::Read | Command::ReadBlocks);
    let payload = match job.submission.request {
        Request::Trim(_, size) | Request::Reserve(_, size) => Payload::None(size),
        _ if is_read => Payload::In(room(buffer, range)),
        Request::Write(..) | Request::WriteBlocks(..) => {
            Payload::Out(written(buffer, range, region))
        }
        _ => Payload::NOTHING,
    };
    let conflict = job.submission.conflict;
    let done = device.request(command, at, payload, conflict).await?;
    if is_read {
        region.write(Layout::place(range.place), &buffer[..range.size]);
    }
    Ok(done)
}

/// What took the device no time.
pub(super) fn nothing() -> (Completion, Atomicity) {
    let at = units::Time::ZERO;
    let completion = Completion {
        submitted: at,
        finished: at,
    };
    (completion, Atomicity::Whole)
}
