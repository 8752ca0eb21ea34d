//! The fabric as a core sees it.

use super::Fabric;
use crate::event::Event;
use host::llc::Cancelled;
use host::{HostLine, MissKind, MissSlot, Uncore};
use units::{CoreId, Lpa, Picos, Time};

impl Uncore for Fabric {
    #[inline]
    fn read(&mut self, at: Time, core: CoreId, slot: MissSlot, line: HostLine, kind: MissKind) {
        let at = at.max(self.queue.now()) + self.ring[core.index()];
        self.foresee(line);
        self.queue.push(
            at,
            Event::L3Access {
                core,
                slot,
                line,
                kind,
            },
        );
    }

    #[inline]
    fn write_back(&mut self, at: Time, _core: CoreId, line: HostLine) {
        if self.loses_l2_victims() {
            return;
        }
        self.llc.foresee(line);
        self.queue
            .push(at.max(self.queue.now()), Event::L3WriteBack(line));
    }

    fn persist(&mut self, at: Time, core: CoreId, line: HostLine, is_dirty: bool) {
        let event = Event::L3Persist {
            core,
            line,
            is_dirty,
        };
        self.queue.push(at.max(self.queue.now()), event);
    }

    #[inline]
    fn walked(&mut self, at: Time, core: CoreId, page: Lpa) -> Picos {
        match self.hints {
            None => Picos::ZERO,
            Some(_) => self.hint_fault(at, core, page),
        }
    }

    fn cancel(&mut self, core: CoreId, slot: MissSlot) {
        let now = self.queue.now();
        self.blocked.retain(|(blocked_core, blocked_slot, ..)| {
            (*blocked_core, *blocked_slot) != (core, slot)
        });
        if let Cancelled::Freed(freed) = self.llc.cancel(core, slot) {
            self.epochs[freed.index()] += 1;
            self.retry_blocked(now);
        }
    }
}
