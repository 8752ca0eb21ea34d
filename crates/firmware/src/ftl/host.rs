//! Reads and programs of the controller: where they go, and what their end means.

use super::Ftl;
use super::config::GcKind;
use super::mapping::Mapping;
use super::operation::{Operation, Program, Sequence};
use crate::durable::Record;
use crate::platform::{NandCommand, NandOp, NandTag, Platform};
use units::{FlashOp, Lpa, Ppa, Time};

impl<M: Mapping> Ftl<M> {
    pub(super) fn on_host_read<P: Platform>(&mut self, now: Time, ppa: Ppa, platform: &mut P) {
        let block = self.geometry.block_of(ppa);
        let die = self.geometry.die_of(block);
        self.estimator.leave(die, FlashOp::Read, false);
        if self.gc.end_host_read(die, block) {
            self.advance_gc(now, die, platform);
        }
    }

    pub(super) fn on_host_program<P: Platform>(
        &mut self,
        now: Time,
        (lpa, ppa, sequence): (Lpa, Ppa, Sequence),
        platform: &mut P,
    ) {
        let die = self.geometry.die_of_page(ppa);
        self.estimator.leave(die, FlashOp::Program, false);
        self.allocator
            .block_mut(self.geometry.block_of(ppa))
            .programs -= 1;
        let invalid = if self.watches.end_program(lpa, sequence) {
            platform.record(Record::Mapped(lpa, ppa));
            self.mapping.update(lpa, Some(ppa))
        } else {
            Some(ppa)
        };
        if let Some(invalid) = invalid {
            let loser = self.geometry.die_of_page(invalid);
            self.allocator.release_page(loser);
            self.advance_gc(now, loser, platform);
        }
        self.advance_gc(now, die, platform);
        self.retry_relocations(now, platform);
        self.submit_waiting(now, platform);
    }

    /// Submits host programs for which there is room now.
    #[inline]
    pub(super) fn submit_waiting<P: Platform>(&mut self, now: Time, platform: &mut P) {
        if !self.waiting.is_empty() {
            self.submit_first(now, platform);
        }
    }

    fn submit_first<P: Platform>(&mut self, now: Time, platform: &mut P) {
        // A block that is retired on the way comes here again.
        if core::mem::replace(&mut self.is_submitting, true) {
            return;
        }
        while let Some(first) = self.waiting.front().copied() {
            let at = now.max(first.since);
            if !self.submit_program(at, first.program, platform) {
                break;
            }
            self.stats.wait_time += at - first.since;
            self.waiting.pop_front();
        }
        self.is_submitting = false;
    }

    /// Submits a host program if a die has room.
    pub(super) fn submit_program<P: Platform>(
        &mut self,
        at: Time,
        program: Program,
        platform: &mut P,
    ) -> bool {
        let Some(ppa) = self.allocator.take_host_page() else {
            return false;
        };
        let Program {
            lpa,
            from,
            is_compaction,
            ..
        } = program;
        let die = self.geometry.die_of_page(ppa);
        self.allocator
            .block_mut(self.geometry.block_of(ppa))
            .programs += 1;
        self.estimator.enter(die, FlashOp::Program, false);
        let operation = Operation::HostProgram { ppa, program };
        let op = NandOp::Program { ppa, lpa, from };
        platform.record(Record::Begun(ppa));
        self.submit_for(at, operation, op, is_compaction, platform);
        let opened_a_block = self.geometry.page_in_block(ppa) == 0;
        if opened_a_block && self.config.gc == GcKind::Bulk {
            self.start_bulk_gc(at, platform);
        }
        if opened_a_block {
            self.advance_gc(at, die, platform);
        }
        true
    }

    pub(super) fn submit<P: Platform>(
        &mut self,
        at: Time,
        operation: Operation,
        op: NandOp,
        platform: &mut P,
    ) {
        self.submit_for(at, operation, op, false, platform);
    }

    pub(super) fn submit_for<P: Platform>(
        &mut self,
        at: Time,
        operation: Operation,
        op: NandOp,
        is_compaction: bool,
        platform: &mut P,
    ) -> NandTag {
        let tag = self.operations.start(operation);
        let command = NandCommand {
            tag,
            op,
            is_compaction,
        };
        platform.nand(at, command);
        tag
    }
}
