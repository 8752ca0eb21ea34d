//! What the device does for a request.

use crate::tasks;
use ::shm::{DataRange, Layout, Region, Request, Submission, statistics_to_bytes};
use port::{Atomicity, Command, Completion, Device, Payload};
use std::rc::Rc;
use units::{ByteAddr, TxId};

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
}

/// What has become of it.
#[derive(Debug)]
pub(super) struct Outcome {
    pub client: usize,
    pub submission: Submission,
    pub is_own: bool,
    pub result: port::Outcome,
}

impl tasks::Job for Job {
    type Done = Outcome;
    /// Bytes on their way.
    type Memory = Vec<u8>;

    async fn perform<D: Device>(self, device: &D, buffer: &mut Vec<u8>) -> Outcome {
        let mut result = perform(device, &self, buffer).await;
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
