//! A measured window: every thread executes a quota of its own.
//!
//! A window that ended after so many instructions of all threads together would be filled by the
//! fast ones and never see what keeps the slow ones. So each thread has a quota in proportion to
//! its length; threads that have done theirs go on, as they would, until the last one has. Time in
//! which a thread waits for another one (futex, join, not yet created) is not its own.

use super::Simulation;
use crate::error::SimError;
use crate::simulation::Progress;
use host::InstructionSource;
use units::{Picos, ThreadId, Time};

/// Events between two looks at how far the threads are.
const LOOK_EVENTS: u64 = 32;

/// How fast a thread was in a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pace {
    /// What it has executed: instructions, those with several memory operands in pieces.
    pub pieces: u64,
    /// What it was to execute.
    pub quota: u64,
    /// Time until it had, or until the window's end, without waiting for other threads.
    pub active: Picos,
    is_done: bool,
}

impl<S: InstructionSource> Simulation<S> {
    /// Runs until every thread has executed its quota, has ended, or waits for another one. Says
    /// when, and how fast each was; the look is taken every few events, so a pace may be of a few
    /// instructions more than the quota.
    ///
    /// # Errors
    /// As [`Simulation::run`].
    pub fn run_window(
        &mut self,
        quotas: &[u64],
        observe: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<(Time, Vec<Pace>), SimError> {
        let mut paces: Vec<Pace> = quotas
            .iter()
            .map(|quota| Pace {
                quota: *quota,
                is_done: *quota == 0,
                ..Pace::default()
            })
            .collect();
        let from: Vec<u64> = self.actors.iter().map(|actor| actor.retired).collect();
        self.wake_resumed(Time::ZERO);
        self.start_scans();
        let mut last = Time::ZERO;
        while !self.sync.is_done() {
            self.step(observe)?;
            if !self.events.is_multiple_of(LOOK_EVENTS) {
                continue;
            }
            let now = self.fabric.queue.now();
            if self.look(now - last, &from, &mut paces) {
                return Ok((now, paces));
            }
            last = now;
        }
        let ends = self.actors.iter().filter_map(|actor| actor.finished);
        let end = ends.max().unwrap_or(Time::ZERO);
        self.look(end.saturating_since(last), &from, &mut paces);
        Ok((end, paces))
    }

    /// Notes how far each thread is, `passed` after the last look; says whether the window is over.
    fn look(&self, passed: Picos, from: &[u64], paces: &mut [Pace]) -> bool {
        let mut is_over = true;
        for (index, pace) in paces.iter_mut().enumerate() {
            let thread = ThreadId::from_index(index);
            if pace.is_done || !self.actors[index].is_present || self.sync.is_held(thread) {
                continue;
            }
            pace.pieces = self.executed(thread) - from[index];
            pace.active += passed;
            let has_ended = self.actors[index].finished.is_some();
            pace.is_done = has_ended || pace.pieces >= pace.quota;
            is_over &= pace.is_done;
        }
        is_over
    }

    /// Pieces that a thread has retired since its beginning.
    fn executed(&self, thread: ThreadId) -> u64 {
        let position = self.actors[thread.index()].source.position();
        let seat = self.seats.iter().find(|seat| seat.thread == thread);
        position - seat.map_or(0, |seat| seat.core.in_flight())
    }
}
