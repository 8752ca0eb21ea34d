//! What the device does for a request.

use crate::tasks;
use ::shm::answer::Done;
use ::shm::{DataRange, Layout, Region, Request, Submission, statistics_to_bytes};
use port::{Device, DeviceError};
use std::rc::Rc;
use units::TxId;

/// A request of a client.
#[derive(Debug)]
pub(super) struct Job {
    /// Whose.
    pub client: usize,
    pub region: Rc<Region>,
    pub submission: Submission,
}

/// What has become of it.
#[derive(Debug)]
pub(super) struct Outcome {
    pub client: usize,
    pub submission: Submission,
    pub result: Result<Done, DeviceError>,
}

impl tasks::Job for Job {
    type Done = Outcome;
    /// Bytes on their way.
    type Memory = Vec<u8>;

    async fn perform<D: Device>(self, device: &D, buffer: &mut Vec<u8>) -> Outcome {
        let result = perform(device, self.submission.request, &self.region, buffer).await;
        Outcome {
            client: self.client,
            submission: self.submission,
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

async fn perform<D: Device>(
    device: &D,
    request: Request,
    region: &Region,
    buffer: &mut Vec<u8>,
) -> Result<Done, DeviceError> {
    let completion = match request {
        Request::Read(at, range) => {
            let into = room(buffer, range);
            let completion = device.read(at, into).await?;
            region.write(Layout::place(range.place), into);
            completion
        }
        Request::ReadBlocks(at, range) => {
            let into = room(buffer, range);
            let completion = device.read_blocks(at, into).await?;
            region.write(Layout::place(range.place), into);
            completion
        }
        Request::Write(at, range, tx) => {
            let bytes = written(buffer, range, region);
            device.write(at, bytes, tx).await?
        }
        Request::WriteBlocks(at, range, when) => {
            let bytes = written(buffer, range, region);
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
        Request::Statistics(range) => {
            let bytes = statistics_to_bytes(&device.stats());
            region.write(Layout::place(range.place), &bytes);
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
