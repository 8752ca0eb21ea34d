//! What the device does for a request.

use super::reply::ROOM;
use super::request::{Command, Cookie, Refusal, Request};
use super::wire::Errno;
use crate::conflict::{Change, change};
use crate::order::Extent;
use crate::progress::Progress;
use crate::ranges::{PIECE, ZERO_PIECE, ZEROES, pieces};
use crate::tasks::Job;
use port::{Acknowledge, Device, DeviceError};
use std::rc::Rc;
use std::time::Instant;
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
    /// How long it waits for a transaction that stands against it.
    pub until: Instant,
}

impl Job for Submission {
    type Done = Done;
    type Memory = Rc<Progress>;

    async fn perform<D: Device>(mut self, device: &D, progress: &mut Rc<Progress>) -> Done {
        let cookie = self.request.cookie;
        let outcome = {
            let port = Port {
                device,
                progress,
                until: self.until,
            };
            perform(&port, self.request.command, &mut self.buffer).await
        };
        Done {
            connection: self.connection,
            cookie,
            outcome: match outcome {
                Ok(Some(answer)) => Ok(answer),
                Ok(None) => Err(Refusal::too_late(cookie, "a part of it may be done")),
                Err(error) => Err(refusal(cookie, &error)),
            },
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

/// The device, of which nobody waits for a transaction that its host may never end.
struct Port<'a, D> {
    device: &'a D,
    progress: &'a Progress,
    until: Instant,
}

impl<D: Device> Port<'_, D> {
    async fn change(&self, at: ByteAddr, what: Change<'_>) -> Result<(), DeviceError> {
        change(self.device, self.progress, Some(self.until), at, what).await
    }

    async fn persist(&self, when: Acknowledge) -> Result<(), DeviceError> {
        if when == Acknowledge::Durable {
            self.device.flush().await?;
        }
        Ok(())
    }
}

/// Nothing if the server stops, and a part may be done.
async fn perform(
    port: &Port<'_, impl Device>,
    command: Command,
    buffer: &mut Vec<u8>,
) -> Result<Option<Answer>, DeviceError> {
    match command {
        Command::Read { at, size } => {
            // Bounded by the largest payload.
            buffer.resize(ROOM + size.get() as usize, 0);
            port.device.read_blocks(at, &mut buffer[ROOM..]).await?;
            return Ok(Some(Answer::Read(at)));
        }
        Command::Write { at, bytes, when } => {
            *buffer = bytes;
            let command = port::Command::WriteBlocks(when);
            port.change(at, Change::Write(command, buffer)).await?;
        }
        Command::Flush => {
            port.device.flush().await?;
        }
        Command::Trim { at, size, when } => {
            for (at, size) in pieces(at, size, PIECE) {
                if port.progress.is_stopping() {
                    return Ok(None);
                }
                port.change(at, Change::Trim(size)).await?;
                port.progress.passed(at, size).await;
            }
            port.persist(when).await?;
        }
        Command::Zero { at, size, when } => {
            let write = port::Command::WriteBlocks(Acknowledge::Accepted);
            for (at, size) in pieces(at, size, ZERO_PIECE) {
                if port.progress.is_stopping() {
                    return Ok(None);
                }
                let zeroes = &ZEROES[..size.get() as usize];
                port.change(at, Change::Write(write, zeroes)).await?;
                port.progress.passed(at, size).await;
            }
            port.persist(when).await?;
        }
    }
    Ok(Some(Answer::Done))
}

fn refusal(cookie: Cookie, error: &DeviceError) -> Refusal {
    let errno = match error {
        DeviceError::OutOfRange { .. } | DeviceError::NotBlocks { .. } => Errno::Invalid,
        // What may go well later is not what is never permitted.
        DeviceError::Locked { .. } | DeviceError::LogFull => Errno::Io,
        DeviceError::Deadlock { .. }
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
