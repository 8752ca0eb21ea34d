//! Writes that wait for room in the log.

use crate::platform::Request;
use crate::stats::ControllerStats;
use alloc::collections::VecDeque;
use units::Time;

/// A write that waits for room in the log, or a run that is being appended.
#[derive(Clone, Copy)]
pub(crate) struct LogWrite {
    /// What the host asked.
    pub(crate) request: Request,
    /// When it came to the device.
    pub(crate) arrived: Time,
    /// Since when it has been waiting.
    pub(crate) since: Time,
    has_waited: bool,
    /// Lines that are in the log.
    pub(crate) appended: u16,
    /// When they are there.
    pub(crate) stored: Time,
}

impl LogWrite {
    /// A write of which nothing is in the log.
    pub(crate) fn new(request: Request, arrived: Time) -> Self {
        Self {
            request,
            arrived,
            since: arrived,
            has_waited: false,
            appended: 0,
            stored: arrived,
        }
    }
}

/// Those that wait, in order of arrival.
#[derive(Clone, Default)]
pub(super) struct WaitingWrites(VecDeque<LogWrite>);

impl WaitingWrites {
    /// Whether none waits.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &LogWrite> {
        self.0.iter()
    }

    /// One comes that has not begun.
    pub(super) fn push(&mut self, write: LogWrite, stats: &mut ControllerStats) {
        stats.log_stalls += 1;
        self.0.push_back(write);
    }

    /// A run that there was not room enough for waits before all others.
    pub(super) fn push_rest(&mut self, run: LogWrite, stats: &mut ControllerStats) {
        stats.log_stalls += u64::from(!run.has_waited);
        self.0.push_front(run);
    }

    /// The one that has waited longest goes on.
    pub(super) fn pop(&mut self, now: Time, stats: &mut ControllerStats) -> Option<LogWrite> {
        let mut write = self.0.pop_front()?;
        let waited = now - write.since;
        stats.log_stall_time = stats.log_stall_time.saturating_add(waited);
        write.has_waited = true;
        Some(write)
    }

    /// None waits any more.
    pub(super) fn take_all(&mut self) -> VecDeque<LogWrite> {
        core::mem::take(&mut self.0)
    }
}
