//! A program passes through the caches of its cores; what they let through goes elsewhere.

use crate::error::SimError;
use crate::simulation::{Progress, Simulation};
use host::cache::Victim;
use host::llc::SharedCache;
use host::{CoreModel, HostLine, MissKind, SimulatedThread, WarmUncore};
use std::io::Write;
use trace::SyncEvent;
use trace::misses::{Miss, MissWriter};
use units::{CoreId, Time};

/// Instructions of one thread before the next one takes its turn, as in warm-up.
const TURN: u64 = 1_000;

/// What takes the misses of the last level.
pub(crate) trait Beyond {
    /// What comes is of this thread.
    fn turn(&mut self, thread: u32);
    /// Takes something else.
    fn take(&mut self, miss: Miss);
}

/// Nobody wants to know.
pub(crate) struct Nowhere;

impl Beyond for Nowhere {
    #[inline]
    fn turn(&mut self, _thread: u32) {}
    #[inline]
    fn take(&mut self, _miss: Miss) {}
}

impl<W: Write> Beyond for MissWriter<W> {
    #[inline]
    fn turn(&mut self, thread: u32) {
        MissWriter::turn(self, thread);
    }
    #[inline]
    fn take(&mut self, miss: Miss) {
        self.put(miss);
    }
}

/// The last level, and what is beyond it.
struct Below<'a, B> {
    llc: &'a mut SharedCache,
    beyond: &'a mut B,
}

impl<B: Beyond> Below<'_, B> {
    fn evict(&mut self, victim: Option<Victim>) {
        if let Some(victim) = victim.filter(|victim| victim.is_dirty && victim.line.is_data()) {
            self.beyond.take(Miss::WriteBack(victim.line.get()));
        }
    }
}

impl<B: Beyond> WarmUncore for Below<'_, B> {
    fn read(&mut self, _core: CoreId, line: HostLine, kind: MissKind) {
        let (was_hit, victim) = self.llc.warm_read(line);
        self.evict(victim);
        if !was_hit && line.is_data() {
            self.beyond.take(match kind {
                MissKind::Ownership => Miss::Ownership(line.get()),
                _ => Miss::Load(line.get()),
            });
        }
    }

    fn write_back(&mut self, _core: CoreId, line: HostLine) {
        let victim = self.llc.write_back(line);
        self.evict(victim);
    }

    fn persist(&mut self, _core: CoreId, line: HostLine, is_dirty: bool) {
        let is_dirty = self.llc.clean(line) || is_dirty;
        self.evict(Some(Victim { line, is_dirty }));
    }
}

impl<S: SimulatedThread> Simulation<S> {
    /// Executes functionally, as warm-up does, until each thread has done as many instructions as
    /// its target says or is at its end; `done` is what they have done before, and after. Device
    /// and placement see nothing of it.
    ///
    /// # Errors
    /// Interrupted by the observer.
    pub(crate) fn pass_caches<B: Beyond>(
        &mut self,
        targets: &[u64],
        done: &mut [u64],
        beyond: &mut B,
        observe: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<(), SimError> {
        let left = targets.iter().zip(&*done);
        let mut left: Vec<u64> = left.map(|(to, from)| to.saturating_sub(*from)).collect();
        while left.iter().any(|left| *left > 0) {
            for thread in 0..left.len() {
                let turn = TURN.min(left[thread]);
                if turn == 0 || !self.host_threads[thread].is_present {
                    left[thread] = 0;
                    continue;
                }
                beyond.turn(thread as u32);
                let (executed, is_at_end) = self.pass_turn(thread, turn, beyond);
                done[thread] += executed;
                left[thread] = if is_at_end {
                    0
                } else {
                    left[thread] - executed
                };
            }
            let goes_on = observe(Progress {
                is_measured: false,
                instructions: done.iter().sum(),
                at: Time::ZERO,
            });
            if !goes_on {
                return Err(SimError::Interrupted);
            }
        }
        Ok(())
    }

    fn pass_turn<B: Beyond>(&mut self, thread: usize, turn: u64, beyond: &mut B) -> (u64, bool) {
        let core = thread % self.host_cores.len();
        let core = &mut self.host_cores[core].core;
        let source = &mut self.host_threads[thread].source;
        let mut below = Below {
            llc: &mut self.fabric.llc,
            beyond,
        };
        let mut executed = 0;
        while executed < turn {
            let Some(step) = source.peek() else {
                return (executed, true);
            };
            if step.has_sync {
                let event = source.sync().expect("the step has a sync event");
                match event {
                    SyncEvent::ThreadCreate { child } => {
                        below.beyond.take(Miss::Create(child.get()));
                    }
                    SyncEvent::FutexWake { count, .. } => below.beyond.take(Miss::Wake(count)),
                    _ => {}
                }
            }
            executed += core.warm(source, &mut below, turn - executed);
        }
        (executed, false)
    }
}
