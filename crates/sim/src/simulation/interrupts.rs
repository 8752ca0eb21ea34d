//! Interrupts: what migration takes from a core, whatever that is doing.
//!
//! A thread on the core dispatches nothing meanwhile. A thread that is being switched in starts so
//! much later. What is left of an interrupt when a thread leaves its core, also at the end of a
//! retry in closed form, comes before the switch to the next one.

use super::{CoreState, Simulation};
use crate::event::Event;
use host::{CoreModel, SimulatedThread};
use units::{CoreId, Picos, Time};

/// The interrupts that a core has not served to their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unserved {
    /// Until when it serves them. The thread there can have run ahead of the time at which they
    /// came, and they come behind what it has done.
    until: Time,
    /// What they take together of what was left when the last one came.
    cost: Picos,
}

impl Unserved {
    /// One that takes `cost` comes at `now` and is served `until` then.
    fn add(&mut self, now: Time, until: Time, cost: Picos) {
        *self = Self {
            until,
            cost: self.rest(now) + cost,
        };
    }

    /// What is left of them at `now`, at most what they take: that a thread had run ahead is
    /// nothing that its core owes.
    pub(super) fn rest(self, now: Time) -> Picos {
        self.until.saturating_since(now).min(self.cost)
    }
}

impl<S: SimulatedThread> Simulation<S> {
    /// A core serves an interrupt that takes `cost`.
    pub(crate) fn interrupt(&mut self, now: Time, core: CoreId, cost: Picos) {
        let host_core = &mut self.host_cores[core.index()];
        let until = host_core.core.interrupt(now, cost);
        let is_coming = matches!(host_core.state, CoreState::Switching | CoreState::Draining);
        if !is_coming || self.lanes.is_retrying(core) {
            host_core.interrupted.add(now, until, cost);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_interrupts_is_never_more_than_they_take() {
        let at = |ns: u64| Time::ZERO + Picos::from_nanos(ns);
        let mut unserved = Unserved::default();
        // The thread has run 50 ns ahead.
        unserved.add(at(100), at(100 + 50 + 1_000), Picos::from_nanos(1_000));
        assert_eq!(unserved.rest(at(120)), Picos::from_nanos(1_000));
        assert_eq!(unserved.rest(at(650)), Picos::from_nanos(500));
        assert_eq!(unserved.rest(at(1_150)), Picos::ZERO);
        // Another one in the middle.
        unserved.add(at(650), at(2_150), Picos::from_nanos(1_000));
        assert_eq!(unserved.rest(at(650)), Picos::from_nanos(1_500));
    }
}
