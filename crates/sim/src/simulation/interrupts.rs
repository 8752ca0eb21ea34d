//! Interrupts: what migration takes from a core, whatever that is doing.
//!
//! A thread on the core dispatches nothing meanwhile. A thread that is being switched in starts so
//! much later. What is left of an interrupt when a thread leaves its core, also at the end of a
//! retry in closed form, comes before the switch to the next one.

use super::{CoreState, Simulation};
use crate::event::Event;
use host::{CoreModel, SimulatedThread};
use units::{CoreId, Picos, Time};

impl<S: SimulatedThread> Simulation<S> {
    /// A core serves an interrupt that takes `cost`.
    pub(crate) fn interrupt(&mut self, now: Time, core: CoreId, cost: Picos) {
        let host_core = &mut self.host_cores[core.index()];
        let until = host_core.core.interrupt(now, cost);
        let is_coming = matches!(host_core.state, CoreState::Switching | CoreState::Draining);
        if !is_coming || self.lanes.is_retrying(core) {
            host_core.interrupted = until;
            return;
        }
        host_core.switched = host_core.switched.max(now) + cost;
        // A thread that waits on its core for its data, or for instructions of the one before,
        // waits no longer for it.
        let later = host_core.switched.saturating_since(host_core.starts);
        if later == Picos::ZERO {
            return;
        }
        let starts = host_core.switched;
        host_core.starts = starts;
        self.lengthen_switch(core, later.min(cost));
        if !self.lanes.put_off(core, starts) {
            self.fabric.queue.push(starts, Event::CoreStart(core));
        }
    }

    /// The switch that a core is in takes so much longer.
    pub(super) fn lengthen_switch(&mut self, core: CoreId, by: Picos) {
        self.scheduler.put_off(core, by);
        self.charged.switching += by;
    }
}
