//! Whether the host waits for device time on the wall clock.
//!
//! Device time is accounted; sleeping for it is not exact (a machine wakes a sleeper late by more
//! than most of these times), so waits below [`SPIN`] spin.
#![allow(
    clippy::disallowed_methods,
    reason = "here the host waits, if it is told to; no result depends on it"
)]

use std::time::{Duration, Instant};
use units::{Picos, Time};

/// Waits below this are spun, and longer ones for this last part.
const SPIN: Duration = Duration::from_micros(60);
/// Longest sleep at a time: somebody else may have moved the device meanwhile.
const LONGEST: Duration = Duration::from_millis(1);

/// Whether callers wait until the wall clock has seen the device's time pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// No: requests are answered as fast as this machine works.
    None,
    /// Yes.
    Real,
}

/// The device's clock on the wall.
#[derive(Clone, Copy, Debug)]
pub struct WallClock {
    origin: Instant,
    at_origin: Time,
}

impl WallClock {
    /// The device's clock is `now`.
    pub fn start(now: Time) -> Self {
        Self {
            origin: Instant::now(),
            at_origin: now,
        }
    }

    /// The device's clock as the wall clock has it.
    pub fn now(&self) -> Time {
        let nanos = u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX / 1_000);
        self.at_origin + Picos::from_nanos(nanos)
    }
}

/// How long to sleep for some device time: less than it, since sleepers are woken late.
pub fn sleep_for(span: Picos) -> Duration {
    Duration::from_nanos(span.get() / 1_000).saturating_sub(SPIN)
}

/// Waits for some device time, or a part of it.
pub fn wait(span: Picos) {
    match sleep_for(span) {
        Duration::ZERO => std::hint::spin_loop(),
        long => std::thread::sleep(long.min(LONGEST)),
    }
}
