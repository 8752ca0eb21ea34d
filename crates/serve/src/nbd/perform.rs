//! What the device does for a request.

use super::reply::ROOM;
use super::request::{Command, Cookie, Refusal, Request};
use super::wire::Errno;
use crate::order::Extent;
use crate::progress::Progress;
use crate::ranges::{PIECE, ZERO_PIECE, ZEROES, pieces};
use crate::tasks::Job;
use port::{Acknowledge, Device, DeviceError};
use std::rc::Rc;
use units::{ByteAddr, Bytes};

/// A request of a client, for the device.
pub(super) struct Submission {
    /// Whose it is.
    pub connection: usize,
    pub request: Request,
    /// What it counts for with its connection.
    pub weight: usize,
    /// For what is read.
    pub buffer: Vec<u8>,
}

impl Job for Submission {
    type Done = Done;
    type Memory = Rc<Progress>;

    async fn perform<D: Device>(mut self, device: &D, progress: &mut Rc<Progress>) -> Done {
        let cookie = self.request.cookie;
        let outcome = perform(device, self.request.command, &mut self.buffer, progress).await;
        Done {
            connection: self.connection,
            cookie,
            outcome: outcome.map_err(|error| refusal(cookie, &error)),
            buffer: self.buffer,
            weight: self.weight,
        }
    }

    fn extent(&self) -> Option<Extent> {
        let in_pieces = |at, size: Bytes, piece: Bytes| {
            let count = size.get().div_ceil(piece.get());
            Some(Extent::write(at, size, count))
        };
        match &self.request.command {
            Command::Read { at, size } => Some(Extent::read(*at, *size)),
            Command::Write { at, bytes, .. } => {
                let size = Bytes::new(bytes.len() as u64);
                Some(Extent::write(*at, size, 1))
            }
            Command::Flush => None,
            Command::Trim { at, size, .. } => in_pieces(*at, *size, PIECE),
            Command::Zero { at, size, .. } => in_pieces(*at, *size, ZERO_PIECE),
        }
    }
}

/// What has become of a request.
pub(super) struct Done {
    /// Whose it was.
    pub connection: usize,
    pub cookie: Cookie,
    pub outcome: Result<Answer, Refusal>,
    /// Bytes that were read, behind room for the answer's head; else nobody needs it any more.
    pub buffer: Vec<u8>,
    /// What it counted for with its connection.
    pub weight: usize,
}

/// How a request ended that was done.
#[derive(Clone, Copy)]
pub(super) enum Answer {
    /// Bytes from here on.
    Read(ByteAddr),
    Done,
}

async fn perform(
    device: &impl Device,
    command: Command,
    buffer: &mut Vec<u8>,
    progress: &Progress,
) -> Result<Answer, DeviceError> {
    match command {
        Command::Read { at, size } => {
            // Bounded by the largest payload.
            buffer.resize(ROOM + size.get() as usize, 0);
            device.read_blocks(at, &mut buffer[ROOM..]).await?;
            return Ok(Answer::Read(at));
        }
        Command::Write { at, bytes, when } => {
            *buffer = bytes;
            device.write_blocks(at, buffer, when).await?;
        }
        Command::Flush => {
            device.flush().await?;
        }
        Command::Trim { at, size, when } => {
            for (at, size) in pieces(at, size, PIECE) {
                device.trim(at, size).await?;
                progress.passed(at, size).await;
            }
            persist(device, when).await?;
        }
        Command::Zero { at, size, when } => {
            for (at, size) in pieces(at, size, ZERO_PIECE) {
                let zeroes = &ZEROES[..size.get() as usize];
                device
                    .write_blocks(at, zeroes, Acknowledge::Accepted)
                    .await?;
                progress.passed(at, size).await;
            }
            persist(device, when).await?;
        }
    }
    Ok(Answer::Done)
}

async fn persist(device: &impl Device, when: Acknowledge) -> Result<(), DeviceError> {
    if when == Acknowledge::Durable {
        device.flush().await?;
    }
    Ok(())
}

fn refusal(cookie: Cookie, error: &DeviceError) -> Refusal {
    let errno = match error {
        DeviceError::OutOfRange { .. } | DeviceError::NotBlocks { .. } => Errno::Invalid,
        DeviceError::Locked { .. }
        | DeviceError::Deadlock { .. }
        | DeviceError::LogFull
        | DeviceError::TooLarge { .. }
        | DeviceError::BeyondReservation { .. }
        | DeviceError::LateReservation { .. }
        | DeviceError::ReadOnly => Errno::NotPermitted,
        DeviceError::Forked | DeviceError::Stopped { .. } => Errno::Shutdown,
        DeviceError::UnknownTransaction { .. }
        | DeviceError::TooManyTransactions { .. }
        | DeviceError::NoTransactions { .. }
        | DeviceError::Lost { .. } => Errno::Io,
    };
    Refusal {
        cookie,
        errno,
        message: error.to_string(),
    }
}
