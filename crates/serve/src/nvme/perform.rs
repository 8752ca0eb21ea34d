//! What the device does for a command.

use super::io::Operation;
use super::status::Status;
use super::wire::{CommandId, MOST_PREFIX};
use crate::order::{Extent, Ranges};
use crate::progress::Progress;
use crate::ranges::{PIECE, ZERO_PIECE, ZEROES, pieces};
use crate::tasks::Job;
use port::{
    Acknowledge, Atomicity, Command, Completion, Conflict, Device, DeviceError, Payload, TxOptions,
};
use std::rc::Rc;
use units::{ByteAddr, Bytes, TxId};

/// Room in front of read bytes for the longest header.
pub(super) const ROOM: usize = MOST_PREFIX;
/// Above the picoseconds that a command took, its value says in how many parts it was committed.
const PARTS_SHIFT: u32 = 48;

/// A command of a host, for the device.
pub(super) struct Submission {
    /// Whose it is.
    pub connection: usize,
    pub command: CommandId,
    pub operation: Operation,
    /// Of [`Operation::Trim`].
    pub ranges: Option<Ranges>,
    /// Bytes from the host, or an empty buffer for what is read.
    pub data: Vec<u8>,
    /// What it counts for with its connection.
    pub weight: usize,
    /// The server asks, for a controller that is shut down: for the how manieth time.
    pub shutdown: Option<u32>,
}

/// What has become of a command.
pub(super) struct Done {
    pub connection: usize,
    pub command: CommandId,
    pub operation: Operation,
    pub outcome: Result<Answer, (Status, DeviceError)>,
    /// Bytes that were read, behind room for the answer's head; else nobody needs it any more.
    pub buffer: Vec<u8>,
    pub weight: usize,
    pub shutdown: Option<u32>,
}

/// How a command ended that was done.
#[derive(Clone, Copy)]
pub(super) enum Answer {
    /// Bytes were read; the value of the completion.
    Read(u64),
    /// The value of the completion.
    Done(u64),
    /// A transaction is open.
    Begun(TxId),
    /// A compare has found other bytes.
    Different,
    /// The server stops; a part may be done.
    Unfinished,
}

impl Job for Submission {
    type Done = Done;
    type Memory = Rc<Progress>;

    async fn perform<D: Device>(mut self, device: &D, progress: &mut Rc<Progress>) -> Done {
        let ranges = self.ranges.as_deref().unwrap_or_default();
        let outcome = perform(device, &self.operation, ranges, &mut self.data, progress).await;
        let is_write = matches!(
            self.operation,
            Operation::Write { .. } | Operation::Store { .. }
        );
        Done {
            connection: self.connection,
            command: self.command,
            operation: self.operation,
            outcome: outcome.map_err(|error| (Status::of(&error, is_write), error)),
            buffer: self.data,
            weight: self.weight,
            shutdown: self.shutdown,
        }
    }

    fn extent(&self) -> Option<Extent> {
        match &self.operation {
            Operation::Read { at, size }
            | Operation::Compare { at, size }
            | Operation::Load { at, size } => Some(Extent::read(*at, *size)),
            Operation::Write { at, size, .. } | Operation::Store { at, size, .. } => {
                Some(Extent::write(*at, *size, 1))
            }
            Operation::Zero {
                at,
                size,
                may_deallocate,
                ..
            } => {
                let piece = if *may_deallocate { PIECE } else { ZERO_PIECE };
                Some(Extent::write(*at, *size, size.get().div_ceil(piece.get())))
            }
            Operation::Trim { .. } => Extent::of_ranges(self.ranges.as_ref()?, PIECE),
            _ => None,
        }
    }
}

async fn perform(
    device: &impl Device,
    operation: &Operation,
    ranges: &[(ByteAddr, Bytes)],
    data: &mut Vec<u8>,
    progress: &Progress,
) -> Result<Answer, DeviceError> {
    let took = |done: Completion| Answer::Done(done.took().get());
    Ok(match *operation {
        Operation::Read { at, size } => {
            device.read_blocks(at, room(data, size)).await?;
            Answer::Read(0)
        }
        Operation::Write { at, when, .. } => {
            change(device, Command::WriteBlocks(when), at, Payload::Out(data)).await?;
            Answer::Done(0)
        }
        Operation::Compare { at, .. } => {
            let mut found = vec![0; data.len()];
            device.read_blocks(at, &mut found).await?;
            match found == *data {
                true => Answer::Done(0),
                false => Answer::Different,
            }
        }
        Operation::Flush => {
            device.flush().await?;
            Answer::Done(0)
        }
        Operation::Zero {
            at,
            size,
            when,
            may_deallocate,
        } => {
            let is_done = match may_deallocate {
                true => forget(device, at, size, progress).await?,
                false => write_zeroes(device, at, size, progress).await?,
            };
            if !is_done {
                return Ok(Answer::Unfinished);
            }
            if when == Acknowledge::Durable {
                device.flush().await?;
            }
            Answer::Done(0)
        }
        Operation::Trim { .. } => {
            for (at, size) in ranges {
                if !forget(device, *at, *size, progress).await? {
                    return Ok(Answer::Unfinished);
                }
            }
            Answer::Done(0)
        }
        Operation::Load { at, size } => {
            let done = device.read(at, room(data, size)).await?;
            Answer::Read(done.took().get())
        }
        Operation::Store { at, tx, .. } => {
            took(change(device, Command::Write(tx), at, Payload::Out(data)).await?)
        }
        Operation::Persist => took(device.persist().await?),
        Operation::Recover => took(device.drain().await?),
        Operation::Begin { lines, may_split } => {
            let options = TxOptions {
                lines,
                may_split,
                conflict: Conflict::Refuse,
            };
            Answer::Begun(device.begin(options).await?)
        }
        Operation::Commit(tx) => in_parts(device.commit(tx).await?),
        Operation::Abort(tx) => in_parts(device.abort(tx).await?),
    })
}

/// Changes a range, or says that it cannot now: for a host that ends its transaction when it likes,
/// and may itself wait for a command behind this one, no other host waits.
async fn change(
    device: &impl Device,
    command: Command,
    at: ByteAddr,
    payload: Payload<'_>,
) -> Result<Completion, DeviceError> {
    let (done, _) = device
        .request(command, at, payload, Conflict::Refuse)
        .await?;
    Ok(done)
}

/// Room for so many bytes, behind that for the answer's head.
fn room(data: &mut Vec<u8>, size: Bytes) -> &mut [u8] {
    // Bounded by the most that a command moves.
    data.resize(ROOM + size.get() as usize, 0);
    &mut data[ROOM..]
}

fn in_parts((done, atomicity): (Completion, Atomicity)) -> Answer {
    let parts = match atomicity {
        Atomicity::Whole => 1,
        Atomicity::Parts { count } => u64::from(count).min(0xffff),
    };
    let took = done.took().get().min((1 << PARTS_SHIFT) - 1);
    Answer::Done(parts << PARTS_SHIFT | took)
}

/// Says whether all of it is done, which it is not if the server stops.
async fn forget(
    device: &impl Device,
    at: ByteAddr,
    size: Bytes,
    progress: &Progress,
) -> Result<bool, DeviceError> {
    for (at, size) in pieces(at, size, PIECE) {
        if progress.is_stopping() {
            return Ok(false);
        }
        change(device, Command::Trim, at, Payload::None(size)).await?;
        progress.passed(at, size).await;
    }
    Ok(true)
}

/// As [`forget`].
async fn write_zeroes(
    device: &impl Device,
    at: ByteAddr,
    size: Bytes,
    progress: &Progress,
) -> Result<bool, DeviceError> {
    for (at, size) in pieces(at, size, ZERO_PIECE) {
        if progress.is_stopping() {
            return Ok(false);
        }
        let zeroes = Payload::Out(&ZEROES[..size.get() as usize]);
        change(
            device,
            Command::WriteBlocks(Acknowledge::Accepted),
            at,
            zeroes,
        )
        .await?;
        progress.passed(at, size).await;
    }
    Ok(true)
}
