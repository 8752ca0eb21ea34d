//! Conservation checks of the flash (architecture B6).

use crate::die::Phase;
use crate::{Kind, Nand};
use units::{Picos, Time};

impl Nand {
    /// Checks the invariants of `docs/nand.md`; panics at the first that does not hold. Walks all
    /// queues: for tests and `--audit`.
    pub fn audit(&self) {
        self.audit_commands();
        self.audit_changes();
        self.audit_times();
        self.audit_resources();
    }

    /// I2: every command is queued, suspended, at work or completed, exactly once.
    fn audit_commands(&self) {
        let mut held = 0;
        for unit in &self.units {
            let waiting = unit
                .priority
                .iter(&self.slab)
                .chain(unit.ordered.iter(&self.slab))
                .count() as u64;
            let is_working = unit.phase.op().is_some();
            assert!(
                unit.phase != Phase::Idle || (waiting == 0 && unit.suspended.is_none()),
                "a die does not idle while commands wait for it"
            );
            held += waiting + u64::from(is_working) + u64::from(unit.suspended.is_some());
        }
        assert_eq!(
            held,
            self.slab.live_count(),
            "each command in flight is in one place"
        );
        assert_eq!(
            held,
            self.stats.in_flight(),
            "completions are submissions less in flight"
        );
    }

    /// I4: the programs and erases noted for blocks are those in flight.
    fn audit_changes(&self) {
        if self.changes_of_block.is_empty() {
            return;
        }
        let noted: u64 = self
            .changes_of_block
            .iter()
            .map(|changes| u64::from(*changes))
            .sum();
        let in_flight = |kind| {
            let stats = self.stats.of(kind);
            stats.submitted - stats.completed
        };
        assert_eq!(
            noted,
            in_flight(Kind::Program) + in_flight(Kind::Erase),
            "each change of a block in flight is noted once"
        );
    }

    /// I3: the time of completed commands is the sum of its documented parts. Of drawn and
    /// measured times there is no such sum.
    fn audit_times(&self) {
        if self.times_vary() {
            return;
        }
        for kind in Kind::ALL {
            let stats = self.stats.of(kind);
            let service = self.service_time(kind) * stats.completed;
            assert_eq!(
                stats.latency,
                stats.wait + stats.channel_wait + stats.suspended + stats.retry_time + service,
                "the parts of {kind:?} time add up"
            );
        }
    }

    /// I1: no die and no bus is occupied for longer than time has passed, and the totals agree.
    fn audit_resources(&self) {
        for unit in &self.units {
            let passed = match unit.phase {
                Phase::Idle => unit.phase_end,
                _ => unit.phase_start,
            };
            assert!(
                self.is_split() || unit.occupied <= passed - Time::ZERO,
                "a die serves one thing at a time"
            );
        }
        for bus in &self.buses {
            assert!(
                bus.busy <= bus.free_at - Time::ZERO,
                "a bus carries one page at a time"
            );
        }
        let occupied: Picos = self.units.iter().map(|unit| unit.occupied).sum();
        assert_eq!(occupied, self.stats.die_occupied, "die time adds up");
        assert!(
            self.stats.die_busy <= occupied,
            "cells are busy only in occupied dies"
        );
        let carried: Picos = self.buses.iter().map(|bus| bus.busy).sum();
        assert_eq!(carried, self.stats.channel_busy, "bus time adds up");
    }
}
