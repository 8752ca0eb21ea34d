//! Reads and programs of the controller: where they go, and what their end means.

use super::config::GcKind;
use super::mapping::Mapping;
use super::operation::{Operation, Program, Sequence};
use super::{Ftl, Waiting};
use crate::durable::Record;
use crate::platform::{NandCommand, NandOp, NandTag, Platform};
use units::{BlockAddr, DieId, FlashOp, Lpa, Ppa, Time};

impl<M: Mapping> Ftl<M> {
    pub(super) fn on_host_read<P: Platform>(&mut self, now: Time, ppa: Ppa, platform: &mut P) {
        let (die, block) = self.locator.locate(ppa);
        self.estimator.leave(die, FlashOp::Read, false);
        if self.gc.end_host_read(die, block) {
            self.advance_gc(now, die, platform);
        }
    }

    #[inline(always)]
    pub(super) fn on_host_program<P: Platform>(
        &mut self,
        now: Time,
        (die, block): (DieId, BlockAddr),
        (lpa, ppa, sequence): (Lpa, Ppa, Sequence),
        platform: &mut P,
    ) {
        self.allocator.block_mut(block).programs -= 1;
        let invalid = if self.watches.end_program(lpa, sequence) {
            platform.record(Record::Mapped(lpa, ppa));
            self.mapping.update(lpa, Some(ppa))
        } else {
            Some(ppa)
        };
        if let Some(invalid) = invalid {
            let (loser, _) = self.locator.locate(invalid);
            self.allocator.release_page(loser);
            self.advance_gc(now, loser, platform);
        }
        self.advance_gc(now, die, platform);
        self.retry_relocations(now, platform);
        self.submit_waiting(now, platform);
    }

    /// Whether host programs wait that may be submitted as soon as a die has room: they fill a
    /// flash page, or nobody will fill it.
    #[inline]
    pub(super) fn is_page_due(&self) -> bool {
        let count = self.waiting.len();
        count >= self.geometry.units_per_page as usize || self.is_closing && count > 0
    }

    /// Whether a host program waits for room.
    #[inline]
    pub(super) fn host_lacks_room(&self) -> bool {
        !self.waiting.is_empty() && self.waiting[0].lacks_room
    }

    /// Submits host programs for which there is room now.
    #[inline]
    pub(super) fn submit_waiting<P: Platform>(&mut self, now: Time, platform: &mut P) {
        if self.is_page_due() {
            self.submit_first(now, platform);
        }
    }

    fn submit_first<P: Platform>(&mut self, now: Time, platform: &mut P) {
        // A block that is retired on the way comes here again.
        if core::mem::replace(&mut self.is_submitting, true) {
            return;
        }
        while self.is_page_due() && self.submit_page(now, platform) {}
        self.is_submitting = false;
        self.is_closing &= !self.waiting.is_empty();
    }

    /// Submits the host programs that wait in front, as many as fill a flash page, if a die has
    /// room.
    fn submit_page<P: Platform>(&mut self, now: Time, platform: &mut P) -> bool {
        let units = self.geometry.units_per_page;
        let count = self.waiting.len().min(units as usize) as u32;
        let Some(ppa) = self.allocator.take_host_page(count) else {
            return false;
        };
        self.stats.padding += u64::from(units - count);
        let of_page = self.waiting.range(..count as usize);
        let at = of_page.fold(now, |at, waiting| at.max(waiting.since));
        let block = self.geometry.block_of(ppa);
        self.allocator.block_mut(block).programs += count as u16;
        let die = self.geometry.die_of(block);
        self.estimator.enter(die, FlashOp::Program, false);
        self.begin_page(ppa, platform);
        // From the last to the first, so that each knows the next one.
        let (mut rest, mut is_compaction) = (None, true);
        for nth in (0..count).rev() {
            let Waiting {
                since,
                program,
                lacks_room,
            } = self.waiting[nth as usize];
            if lacks_room {
                self.stats.wait_time += at - since;
            }
            is_compaction &= program.is_compaction;
            let ppa = ppa.offset(nth);
            if nth > 0 {
                platform.load_unit(ppa, program.lpa, program.from);
            }
            self.mapping.foresee(program.lpa, ppa);
            let operation = Operation::HostProgram { ppa, program, rest };
            rest = Some(self.operations.start(operation));
        }
        let Program { lpa, from, .. } = self.waiting[0].program;
        let command = NandCommand {
            tag: rest.expect("a page has a unit"),
            op: NandOp::Program { ppa, lpa, from },
            is_compaction,
        };
        platform.nand(at, command);
        self.on_page_taken(at, (die, block), ppa, platform);
        self.waiting.drain(..count as usize);
        true
    }

    /// A flash page is about to be programmed: all of its places, filled or not.
    #[inline]
    pub(super) fn begin_page<P: Platform>(&mut self, ppa: Ppa, platform: &mut P) {
        let last = ppa.offset(self.geometry.units_per_page - 1);
        platform.record(Record::Begun(last));
    }

    /// Submits a host program that is a flash page by itself, if a die has room.
    pub(super) fn submit_program<P: Platform>(
        &mut self,
        at: Time,
        program: Program,
        platform: &mut P,
    ) -> bool {
        let Some(ppa) = self.allocator.take_host_page(1) else {
            return false;
        };
        let Program {
            lpa,
            from,
            is_compaction,
            ..
        } = program;
        let (die, block) = self.locator.locate(ppa);
        self.allocator.block_mut(block).programs += 1;
        self.estimator.enter(die, FlashOp::Program, false);
        let operation = Operation::HostProgram {
            ppa,
            program,
            rest: None,
        };
        let op = NandOp::Program { ppa, lpa, from };
        platform.record(Record::Begun(ppa));
        self.submit_for(at, operation, op, is_compaction, platform);
        self.on_page_taken(at, (die, block), ppa, platform);
        true
    }

    /// The host has taken a flash page: with the first one of a block, one less is free.
    #[inline(always)]
    fn on_page_taken<P: Platform>(
        &mut self,
        at: Time,
        (die, block): (DieId, BlockAddr),
        ppa: Ppa,
        platform: &mut P,
    ) {
        if ppa == self.geometry.unit_on(block, 0) {
            self.on_block_opened(at, die, platform);
        }
    }

    #[inline(never)]
    fn on_block_opened<P: Platform>(&mut self, at: Time, die: DieId, platform: &mut P) {
        if self.config.gc == GcKind::Bulk {
            self.start_bulk_gc(at, platform);
        }
        self.advance_gc(at, die, platform);
    }

    #[inline(always)]
    pub(super) fn submit<P: Platform>(
        &mut self,
        at: Time,
        operation: Operation,
        op: NandOp,
        platform: &mut P,
    ) {
        self.submit_for(at, operation, op, false, platform);
    }

    // In its callers, which know what operation it is: it is written where it stays.
    #[inline(always)]
    pub(super) fn submit_for<P: Platform>(
        &mut self,
        at: Time,
        operation: Operation,
        op: NandOp,
        is_compaction: bool,
        platform: &mut P,
    ) -> NandTag {
        let tag = self.operations.start(operation);
        if let NandOp::Program { ppa, lpa, .. } = op {
            self.mapping.foresee(lpa, ppa);
        }
        let command = NandCommand {
            tag,
            op,
            is_compaction,
        };
        platform.nand(at, command);
        tag
    }
}
