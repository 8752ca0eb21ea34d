//! Changes that an open transaction of another client may stand against.

use crate::progress::Progress;
use crate::ranges::pieces;
use crate::server::now;
use port::{Command, Conflict, Device, DeviceError, Payload};
use std::time::{Duration, Instant};
use units::{ByteAddr, Bytes};

/// How long a change waits for transactions that their hosts may never end.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// A multiple of the pages of all flash that there is a preset of, so that a trim in grains leaves
/// no page in parts.
const GRAIN: Bytes = Bytes::from_kib(64);

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

/// Changes a range. Where an open transaction stands against it, it goes on grain by grain, and
/// asks for what is refused again until that goes through: no longer than `until`, or without it
/// [`PATIENCE`] for each. What the device is not left with is not done later.
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
    for (place, size) in grains(at, change.size()) {
        let part = change.part(place.get() - at.get(), size);
        match part.ask(device, place).await {
            Err(error) if may_pass(&error) => {}
            done => {
                done?;
                continue;
            }
        }
        // What is written again and again is one block. A part of a page that is trimmed is
        // zeroes that are written.
        let step = match part {
            Change::Write(..) => device.shape().block,
            Change::Trim(size) => size,
        };
        for (at, size) in pieces(place, size, step) {
            let part = part.part(at.get() - place.get(), size);
            insist(device, progress, until, at, part).await?;
        }
    }
    Ok(())
}

/// Asks until it is done or the wait is over.
async fn insist(
    device: &impl Device,
    progress: &Progress,
    mut until: Option<Instant>,
    at: ByteAddr,
    change: Change<'_>,
) -> Result<(), DeviceError> {
    while let Err(error) = change.ask(device, at).await {
        let end = *until.get_or_insert_with(|| now() + PATIENCE);
        if !may_pass(&error) || now() >= end {
            return Err(error);
        }
        progress.later().await;
    }
    Ok(())
}

/// A range cut where the device's addresses are multiples of [`GRAIN`].
fn grains(at: ByteAddr, size: Bytes) -> impl Iterator<Item = (ByteAddr, Bytes)> {
    let (mut at, end) = (at.get(), at.get() + size.get());
    core::iter::from_fn(move || {
        let begin = at;
        at = end.min((at / GRAIN.get() + 1) * GRAIN.get());
        (begin < end).then(|| (ByteAddr::new(begin), Bytes::new(at - begin)))
    })
}

fn may_pass(error: &DeviceError) -> bool {
    matches!(error, DeviceError::Locked { .. } | DeviceError::LogFull)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grains_are_those_of_the_device_and_make_up_the_range() {
        let of = |at, size| {
            let all = grains(ByteAddr::new(at), Bytes::new(size));
            all.map(|(at, size)| (at.get(), size.get()))
                .collect::<Vec<_>>()
        };
        let grain = GRAIN.get();
        assert_eq!(of(5, 0), []);
        assert_eq!(of(5, 7), [(5, 7)]);
        assert_eq!(of(grain, grain), [(grain, grain)]);
        assert_eq!(
            of(grain - 8, grain + 9),
            [(grain - 8, 8), (grain, grain), (2 * grain, 1)]
        );
    }
}
