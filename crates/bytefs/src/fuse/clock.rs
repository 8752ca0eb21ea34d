//! The clock of a file system that real programs use, and the time of day.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "programs see the time of day in their files; nothing of the device depends on it"
)]

use crate::Timestamp;
use core::future::{Future, ready};
use fuser::TimeOrNow;
use port::Clock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use units::{Picos, Time};

/// The wall clock, from when the file system was mounted.
#[derive(Clone, Copy, Debug)]
pub struct WallClock {
    since: Instant,
}

impl WallClock {
    /// It is the beginning of time now.
    #[must_use]
    pub fn start() -> Self {
        Self {
            since: Instant::now(),
        }
    }
}

impl Clock for WallClock {
    fn now(&self) -> Time {
        let nanos = u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX / 1_000);
        Time::ZERO + Picos::from_nanos(nanos)
    }

    fn sleep_until(&self, at: Time) -> impl Future<Output = ()> {
        let clock = *self;
        async move {
            // An operation has a thread to itself, which may sleep.
            while let Some(left) = at.as_picos().checked_sub(clock.now().as_picos()) {
                if left == 0 {
                    return;
                }
                std::thread::sleep(Duration::from_nanos(left / 1_000 + 1));
            }
        }
    }

    fn spend(&self, _: Picos) -> impl Future<Output = ()> {
        // What this machine takes for it passes by itself.
        ready(())
    }
}

/// What passes on the wall.
pub(super) struct Stopwatch(Instant);

impl Stopwatch {
    /// From now on.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Since then.
    pub fn read(&self) -> Duration {
        self.0.elapsed()
    }
}

/// The time of day.
pub(super) fn now() -> Timestamp {
    timestamp(SystemTime::now())
}

/// A time as the kernel says it.
pub(super) fn of(time: TimeOrNow) -> Timestamp {
    match time {
        TimeOrNow::Now => now(),
        TimeOrNow::SpecificTime(time) => match time.duration_since(UNIX_EPOCH) {
            Ok(_) => timestamp(time),
            // fuser 0.18 takes the nanoseconds of a time before 1970 off, where the kernel adds
            // them: -1.5 s are two seconds before and half a one behind.
            Err(before) => {
                let span = before.duration();
                let seconds = i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
                let nanos = seconds.saturating_mul(-1_000_000_000);
                Timestamp(nanos.saturating_add(span.subsec_nanos().into()))
            }
        },
    }
}

/// The first and the last time that 64 bits of nanoseconds hold stand for all beyond them.
fn timestamp(time: SystemTime) -> Timestamp {
    let nanos = |span: Duration| i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
    Timestamp(match time.duration_since(UNIX_EPOCH) {
        Ok(since) => nanos(since),
        Err(before) => -nanos(before.duration()),
    })
}

/// A time for the kernel.
pub(super) fn system_time(time: Timestamp) -> SystemTime {
    let span = Duration::from_nanos(time.0.unsigned_abs());
    match time.0 {
        0.. => UNIX_EPOCH + span,
        _ => UNIX_EPOCH - span,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_back_as_they_went_also_before_1970() {
        for nanos in [
            0,
            1,
            -1,
            1_700_000_000_123_456_789,
            -5_000_000_001,
            i64::MIN + 1,
        ] {
            assert_eq!(timestamp(system_time(Timestamp(nanos))), Timestamp(nanos));
        }
        let told = |seconds, nanos| {
            of(TimeOrNow::SpecificTime(
                UNIX_EPOCH - Duration::new(seconds, nanos),
            ))
        };
        assert_eq!(told(2, 500_000_000), Timestamp(-1_500_000_000));
        assert_eq!(told(3, 0), Timestamp(-3_000_000_000));
        let late = UNIX_EPOCH + Duration::from_secs(20_000_000_000);
        assert_eq!(timestamp(late), Timestamp(i64::MAX));
    }
}
