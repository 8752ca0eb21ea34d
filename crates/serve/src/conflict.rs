//! Changes that an open transaction of another client may stand against.

use crate::progress::Progress;
use crate::ranges::pieces;
use crate::server::now;
use port::{Command, Conflict, Device, DeviceError, Payload};
use std::time::{Duration, Instant};
use units::{ByteAddr, Bytes};

/// How long a change waits for transactions that their hosts may never end.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// What is done to a range.
#[derive(Clone, Copy)]
pub(crate) enum Change<'a> {
    /// Bytes are written, by this command.
    Write(Command, &'a [u8]),
    Trim(Bytes),
}

impl<'a> Change<'a> {
    fn size(self) -> Bytes {
        match self {
            Self::Write(_, bytes) => Bytes::new(bytes.len() as u64),
            Self::Trim(size) => size,
        }
    }

    /// Of it `size` from `done` on.
    fn part(self, done: u64, size: Bytes) -> Self {
        match self {
            Self::Write(command, bytes) => {
                let (begin, size) = (done as usize, size.get() as usize);
                Self::Write(command, &bytes[begin..begin + size])
            }
            Self::Trim(_) => Self::Trim(size),
        }
    }

    async fn ask(self, device: &impl Device, at: ByteAddr) -> Result<(), DeviceError> {
        let (command, payload) = match self {
            Self::Write(command, bytes) => (command, Payload::Out(bytes)),
            Self::Trim(size) => (Command::Trim, Payload::None(size)),
        };
        let request = device.request(command, at, payload, Conflict::Refuse);
        request.await.map(drop)
    }
}

/// Changes a range. Where an open transaction stands against it, it goes on block by block, and
/// asks for the block that is refused again until that goes through: no longer than `until`, or
/// without it [`PATIENCE`] for each block. What the device is not left with is not done later.
///
/// # Errors
/// Those of the device; of the transaction, when the wait is over. What is before it is done then.
pub(crate) async fn change(
    device: &impl Device,
    progress: &Progress,
    until: Option<Instant>,
    at: ByteAddr,
    change: Change<'_>,
) -> Result<(), DeviceError> {
    match change.ask(device, at).await {
        Err(error) if may_pass(&error) => {}
        done => return done,
    }
    for (place, size) in pieces(at, change.size(), device.shape().block) {
        let part = change.part(place.get() - at.get(), size);
        let mut until = until;
        while let Err(error) = part.ask(device, place).await {
            let end = *until.get_or_insert_with(|| now() + PATIENCE);
            if !may_pass(&error) || now() >= end {
                return Err(error);
            }
            progress.later().await;
        }
    }
    Ok(())
}

fn may_pass(error: &DeviceError) -> bool {
    matches!(error, DeviceError::Locked { .. } | DeviceError::LogFull)
}
