//! Balancing between nodes (SkyByte §IV): promoted pages move to the node that uses them.
//!
//! Scans arm pages in host DRAM as they arm those of the device under TPP. The second hint fault
//! in a row from another node moves the page there: unmapped and locked, copied between the
//! nodes' DRAM, mapped again. The work is that of the core that ran into it.

use crate::event::Event;
use crate::simulation::Simulation;
use host::SimulatedThread;
use host::placement::{HostPage, MigrationKind};
use units::{CoreId, Lpa, Time};

impl<S: SimulatedThread> Simulation<S> {
    /// The handler of a hint fault on a page in host DRAM.
    pub(super) fn balance(&mut self, now: Time, core: CoreId, lpa: Lpa) {
        let Some(node) = self.fabric.wanted_on(core, lpa) else {
            return;
        };
        if self.fabric.placement.begin_move(lpa, node).is_none() {
            return;
        }
        match self.costs.kind {
            MigrationKind::Copied => self.move_locked(now, core, lpa),
            MigrationKind::Instant => {
                self.fabric.placement.finish_move(lpa);
                self.shoot_down(now, lpa);
            }
        }
    }

    /// The core begins to copy the page.
    pub(super) fn copy_between_nodes(&mut self, now: Time, lpa: Lpa, from: HostPage, to: HostPage) {
        let copied = self.fabric.copy_between_nodes(now, from, to);
        let committed = copied + self.costs.page_table;
        self.fabric
            .queue
            .push(committed, Event::MigrationCommit(lpa));
    }

    /// The page table names the new node: whoever waited goes on.
    pub(super) fn finish_move(&mut self, now: Time, lpa: Lpa) {
        self.fabric.placement.finish_move(lpa);
        self.fabric.unlock(now, lpa);
    }
}
