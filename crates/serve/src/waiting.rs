//! Waiting for a device that is early on the wall clock.

use std::time::Duration;
use units::Picos;

/// Waits below this are spun, and longer ones for this last part: a machine wakes a sleeper late by
/// about as much.
const SPIN: Duration = Duration::from_micros(60);
/// Longest sleep at a time: somebody else may have moved the device meanwhile.
const LONGEST: Duration = Duration::from_millis(1);

/// How long to sleep for some device time: less than it, since sleepers are woken late.
pub(crate) fn sleep_for(span: Picos) -> Duration {
    Duration::from_nanos(span.get() / 1_000).saturating_sub(SPIN)
}

/// Waits for some device time, or a part of it.
#[allow(
    clippy::disallowed_methods,
    reason = "a server waits for the device on the wall clock"
)]
pub(crate) fn wait(span: Picos) {
    match sleep_for(span) {
        Duration::ZERO => std::hint::spin_loop(),
        long => std::thread::sleep(long.min(LONGEST)),
    }
}
