//! Cache line write-backs between cores: whose bytes are the newest, and who must wait for them.

use super::Simulation;
use crate::event::Event;
use host::{CoreModel, HostLine, SimulatedThread};
use units::{CoreId, Time};

impl<S: SimulatedThread> Simulation<S> {
    /// A core's write-back is at L3: the newest bytes may be in another core's caches.
    pub(super) fn write_line_back(
        &mut self,
        now: Time,
        core: CoreId,
        line: HostLine,
        mut is_dirty: bool,
    ) {
        if let Some(at) = self.fabric.comes_to_l3(line) {
            // What a core has pushed out meanwhile must not be overtaken.
            let event = Event::L3Persist {
                core,
                line,
                is_dirty,
            };
            return self.fabric.queue.push(at, event);
        }
        for host_core in &mut self.host_cores {
            is_dirty |= host_core.core.give_up_dirt(line);
        }
        self.fabric.l3_persist(now, core, line, is_dirty);
    }

    /// A core's write-back is acknowledged: what waits for it goes on, there or on another core.
    pub(super) fn persisted(&mut self, now: Time, core: CoreId) {
        let host_core = &mut self.host_cores[core.index()];
        if host_core.core.on_persisted(now) {
            self.run_core(now, core);
        }
        self.start_moved(now);
    }

    /// Threads that wait on a core for what they have left on another one look whether it is done.
    #[inline]
    pub(super) fn start_moved(&mut self, now: Time) {
        if self.moves_wait {
            self.retry_moves(now);
        }
    }

    #[cold]
    fn retry_moves(&mut self, now: Time) {
        self.moves_wait = false;
        for index in 0..self.host_cores.len() {
            self.start_if_drained(now, CoreId::from_index(index));
        }
    }

    /// Checks that every write-back that has retired is somewhere, and only once.
    ///
    /// # Panics
    /// With a sentence, if one was lost or acknowledged twice.
    pub(super) fn audit_write_backs(&self) {
        let (mut retired, mut awaited) = (0, 0);
        for host_core in &self.host_cores {
            retired += host_core.core.stats().write_backs;
            awaited += host_core.core.awaited_write_backs();
        }
        let found = self.fabric.stats.written_back();
        assert!(
            found <= retired && retired - found <= awaited,
            "of {retired} write-backs {awaited} are awaited, and {found} were written or found clean"
        );
        let is_over = awaited == 0 || !self.fabric.queue.is_empty();
        assert!(
            is_over,
            "cores wait for write-backs, and nothing is to happen"
        );
    }

    /// Whether the thread that comes to a core has left stores behind on another one that are not
    /// written, or write-backs that are not acknowledged. What it executes next may be a write-back
    /// or a fence, so it waits for them, as it does in the kernel's locked instructions between two
    /// cores.
    pub(super) fn awaits_left_behind(&self, core: CoreId) -> bool {
        let host_thread = &self.host_threads[self.host_cores[core.index()].thread.index()];
        host_thread.left_behind.is_some_and(|left| {
            left.core != core
                && !self.host_cores[left.core.index()]
                    .core
                    .has_settled(left.stores)
        })
    }
}

/// What a thread that writes lines back has left on its last core: it has been there when so many
/// stores had been dispatched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeftBehind {
    core: CoreId,
    stores: u64,
}

impl LeftBehind {
    pub(super) fn on<S>(core: &impl CoreModel<S>) -> Self {
        Self {
            core: core.id(),
            stores: core.dispatched_stores(),
        }
    }
}
