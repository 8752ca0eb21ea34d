//! A measured window: every thread executes a quota of its own.
//!
//! A window that ended after so many instructions of all threads together would be filled by the
//! fast ones and never see what keeps the slow ones. So each thread has a quota in proportion to
//! its length; threads that have done theirs go on, as they would, until the last one has. Time in
//! which a thread waits for another one (futex, join, not yet created) is not its own.
//!
//! Quotas are instructions, but a core knows how many *pieces* it has retired, and an instruction
//! with several memory operands or iterations has several. So each thread's stream is read ahead
//! once, to where its quota ends, and once more afterwards, to count what was executed.

use super::Simulation;
use crate::error::SimError;
use crate::simulation::Progress;
use host::{CoreModel, SimulatedThread};
use units::{Picos, ThreadId, Time};

/// Events between two looks at how far the threads are.
const LOOK_EVENTS: u64 = 32;

/// How fast a thread was in a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pace {
    /// Instructions that it has executed.
    pub executed: u64,
    /// Instructions that it was to execute.
    pub quota: u64,
    /// Time until it had, or until the window's end, without waiting for other threads.
    pub active: Picos,
    /// Pieces that it has retired, and those of its quota.
    pieces: u64,
    quota_pieces: u64,
    is_done: bool,
}

/// The pieces of the next `instructions` of a thread; of all that are left, if those are fewer.
fn pieces_of<S: SimulatedThread>(mut source: S, instructions: u64) -> u64 {
    let (mut counted, mut pieces) = (0, 0);
    while counted < instructions
        && let Some(step) = source.peek()
    {
        counted += u64::from(step.counts);
        pieces += 1;
        source.advance();
    }
    pieces
}

/// The instructions that are complete within the next `pieces` of a thread.
fn instructions_in<S: SimulatedThread>(mut source: S, pieces: u64) -> u64 {
    let mut counted = 0;
    for _ in 0..pieces {
        let Some(step) = source.peek() else { break };
        counted += u64::from(step.counts);
        source.advance();
    }
    counted
}

impl<S: SimulatedThread + Clone> Simulation<S> {
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
        self.wake_resumed(Time::ZERO);
        self.start_scans();
        self.go_on_window(quotas, observe)
    }

    /// As [`Simulation::run_window`], from where the window before has ended, with everything under
    /// way that is.
    ///
    /// # Errors
    /// As [`Simulation::run`].
    pub(crate) fn go_on_window(
        &mut self,
        quotas: &[u64],
        observe: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<(Time, Vec<Pace>), SimError> {
        let mut in_flight = vec![0; self.host_threads.len()];
        self.count_in_flight(&mut in_flight);
        let sources = self.host_threads.iter().zip(&in_flight);
        let starts: Vec<S> = sources
            .map(|(host_thread, in_flight)| {
                let mut source = host_thread.source.clone();
                let position = source.position();
                source.rewind_to(position.saturating_sub(*in_flight));
                source
            })
            .collect();
        let mut paces: Vec<Pace> = quotas
            .iter()
            .zip(&starts)
            .map(|(quota, start)| Pace {
                quota: *quota,
                quota_pieces: pieces_of(start.clone(), *quota),
                is_done: *quota == 0,
                ..Pace::default()
            })
            .collect();
        let from: Vec<u64> = starts.iter().map(S::position).collect();
        let end = self.run_paces(&from, &mut paces, observe)?;
        for (pace, start) in paces.iter_mut().zip(starts) {
            pace.executed = instructions_in(start, pace.pieces);
        }
        Ok((end, paces))
    }

    fn run_paces(
        &mut self,
        from: &[u64],
        paces: &mut [Pace],
        observe: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Time, SimError> {
        let mut in_flight = vec![0; self.host_threads.len()];
        let mut last = self.fabric.queue.now();
        while !self.sync.is_done() {
            self.step(observe)?;
            if !self.events.is_multiple_of(LOOK_EVENTS) {
                continue;
            }
            let now = self.fabric.queue.now();
            self.count_in_flight(&mut in_flight);
            if self.look(now - last, from, &in_flight, paces) {
                return Ok(now);
            }
            last = now;
        }
        let ends = self
            .host_threads
            .iter()
            .filter_map(|host_thread| host_thread.finished);
        let end = ends.max().unwrap_or(Time::ZERO);
        self.count_in_flight(&mut in_flight);
        self.look(end.saturating_since(last), from, &in_flight, paces);
        Ok(end)
    }

    /// Notes how far each thread is, `passed` after the last look; says whether the window is over.
    fn look(&self, passed: Picos, from: &[u64], in_flight: &[u64], paces: &mut [Pace]) -> bool {
        let mut is_over = true;
        for (index, pace) in paces.iter_mut().enumerate() {
            let thread = ThreadId::from_index(index);
            if pace.is_done || !self.host_threads[index].is_present || self.sync.is_held(thread) {
                continue;
            }
            // A thread that goes on where it was has gone back.
            let executed =
                (self.host_threads[index].source.position()).saturating_sub(in_flight[index]);
            pace.pieces = executed.saturating_sub(from[index]);
            pace.active += passed;
            let has_ended = self.host_threads[index].finished.is_some();
            pace.is_done = has_ended || pace.pieces >= pace.quota_pieces;
            is_over &= pace.is_done;
        }
        is_over
    }

    /// Pieces of each thread that have been dispatched and have not retired: one pass over the
    /// cores, and not one for each thread.
    fn count_in_flight(&self, in_flight: &mut [u64]) {
        in_flight.fill(0);
        for host_core in self.host_cores.iter().rev() {
            in_flight[host_core.thread.index()] = host_core.core.in_flight();
        }
    }
}
