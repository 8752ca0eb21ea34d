//! A page of a victim on its way: read, buffer, firmware core, program. Where a flash page has
//! several units they are gathered on the way ([`super::gathering`]).

use crate::durable::Record;
use crate::ftl::allocator::BlockState;
use crate::ftl::mapping::Mapping;
use crate::ftl::operation::Operation;
use crate::ftl::{Done, Ftl};
use crate::platform::{BufferId, NandOp, NandTag, PagePlace, Platform};
use crate::work::Work;
use units::{DieId, FlashOp, LineMask, Lpa, Ppa, Time};

impl<M: Mapping> Ftl<M> {
    /// A page of a victim is in the register: buffer it and program it elsewhere on the die,
    /// unless it has been overwritten since.
    #[inline(always)]
    pub(in crate::ftl) fn on_gc_read<P: Platform>(
        &mut self,
        now: Time,
        die: DieId,
        (tag, lpa, source, buffer): (NandTag, Lpa, Ppa, BufferId),
        platform: &mut P,
    ) -> Done {
        self.estimator.leave(die, FlashOp::Read, true);
        if self.geometry.units_per_page > 1 {
            self.gather(now, (tag, lpa, source, buffer), platform);
            return Done::Internal;
        }
        if !self.mapping.still_holds(source, lpa) {
            self.stats.gc_drops += 1;
            self.end_relocation(now, die, buffer, platform);
            return Done::Internal;
        }
        let lines = LineMask::full(self.geometry.unit_size);
        let to = PagePlace::Buffer(buffer);
        platform.copy_page(PagePlace::Register(tag), to, lines);
        self.time_step((source, lpa), platform);
        let ready = platform.charge(now, Work::RelocationStep);
        self.program_relocated(now, ready, die, (lpa, source, buffer), platform);
        Done::Internal
    }

    /// What a relocation's step takes where it is measured: the look at the mapping.
    #[inline(always)]
    pub(super) fn time_step<P: Platform>(&self, (source, lpa): (Ppa, Lpa), platform: &mut P) {
        if platform.measures() {
            let holds = platform.timed(Work::RelocationStep, |_| {
                self.mapping.still_holds(source, lpa)
            });
            core::hint::black_box(holds);
        }
    }

    /// Programs a page of a victim from its buffer, at `ready`.
    fn program_relocated<P: Platform>(
        &mut self,
        now: Time,
        ready: Time,
        home: DieId,
        (lpa, source, buffer): (Lpa, Ppa, BufferId),
        platform: &mut P,
    ) {
        let Some(ppa) = self.allocator.take_gc_page(home, 1) else {
            return self.put_off_relocation(now, source, buffer, platform);
        };
        let from = PagePlace::Buffer(buffer);
        let (die, block) = self.locator.locate(ppa);
        self.allocator.block_mut(block).programs += 1;
        self.stats.gc_programs += 1;
        self.estimator.enter(die, FlashOp::Program, true);
        let operation = Operation::GcProgram {
            lpa,
            source,
            ppa,
            buffer,
            home,
        };
        platform.record(Record::Begun(ppa));
        self.submit(
            ready,
            operation,
            NandOp::Program { ppa, lpa, from },
            platform,
        );
    }

    /// The program of a relocation has failed: once more, elsewhere, if there is still a reason.
    #[cold]
    pub(in crate::ftl) fn on_gc_program_failed<P: Platform>(
        &mut self,
        now: Time,
        (lpa, source, ppa, buffer): (Lpa, Ppa, Ppa, BufferId),
        platform: &mut P,
    ) {
        let home = self.geometry.die_of_unit(source);
        let die = self.end_failed_program(ppa, 1, true, platform);
        if die != home {
            self.allocator.release_page(die);
        }
        if self.mapping.still_holds(source, lpa) {
            self.program_relocated(now, now, home, (lpa, source, buffer), platform);
        } else {
            self.stats.gc_drops += 1;
            self.end_relocation(now, home, buffer, platform);
        }
        self.advance_gc(now, die, platform);
    }

    /// A page has been relocated: it is mapped, unless it has been overwritten since.
    #[inline(always)]
    pub(in crate::ftl) fn on_gc_program<P: Platform>(
        &mut self,
        now: Time,
        home: DieId,
        (lpa, source, ppa, buffer): (Lpa, Ppa, Ppa, BufferId),
        platform: &mut P,
    ) -> Done {
        let (die, block) = self.locator.locate(ppa);
        self.estimator.leave(die, FlashOp::Program, true);
        self.allocator.block_mut(block).programs -= 1;
        let is_valid = self.mapping.still_holds(source, lpa);
        if is_valid {
            self.mapping.relocate(lpa, source, ppa);
            platform.record(Record::Mapped(lpa, ppa));
        } else {
            self.stats.gc_drops += 1;
        }
        if die != home {
            // It counted on both dies.
            self.allocator
                .release_page(if is_valid { home } else { die });
            self.advance_gc(now, die, platform);
        }
        self.end_relocation(now, home, buffer, platform);
        Done::Internal
    }

    /// A page stays where it is until a block of the device has been erased.
    #[cold]
    fn put_off_relocation<P: Platform>(
        &mut self,
        now: Time,
        source: Ppa,
        buffer: BufferId,
        platform: &mut P,
    ) {
        let die = self.geometry.die_of_unit(source);
        let page = self.geometry.unit_in_block(source);
        let victim = self.gc.victim_mut(die);
        victim.cursor = victim.cursor.min(page);
        self.gc.collectors[die.index()].waits_for_room = true;
        self.gc.are_waiting_for_room = true;
        self.end_relocation(now, die, buffer, platform);
    }

    /// There may be room again for what had none.
    #[inline]
    pub(in crate::ftl) fn retry_relocations<P: Platform>(&mut self, now: Time, platform: &mut P) {
        if self.gc.are_waiting_for_room {
            self.find_room(now, platform);
        }
    }

    #[cold]
    fn find_room<P: Platform>(&mut self, now: Time, platform: &mut P) {
        self.gc.are_waiting_for_room = false;
        for die in 0..self.geometry.die_count() {
            let die = DieId::new(die);
            let collector = &mut self.gc.collectors[die.index()];
            if !core::mem::take(&mut collector.waits_for_room) {
                continue;
            }
            // Another block may have become the better choice.
            let idle = collector.victim.take_if(|victim| victim.in_flight == 0);
            if let Some(victim) = idle {
                // All that it was given for has been overwritten.
                if let Some(empty) = collector.filling.take() {
                    self.gc.buffers.release(empty);
                }
                self.allocator.block_mut(victim.block).state = BlockState::Full;
            }
            self.advance_gc(now, die, platform);
        }
    }

    /// A page is on its way no longer, and its buffer free.
    fn end_relocation<P: Platform>(
        &mut self,
        now: Time,
        die: DieId,
        buffer: BufferId,
        platform: &mut P,
    ) {
        self.gc.victim_mut(die).in_flight -= 1;
        self.gc.buffers.put_single(buffer);
        self.serve_waiting(now, die, platform);
    }

    /// Buffers of the die are free again.
    #[inline]
    pub(super) fn serve_waiting<P: Platform>(&mut self, now: Time, die: DieId, platform: &mut P) {
        // Those that wait come first, so that a busy die cannot keep the buffers to itself.
        while !self.gc.buffers.are_used_up() {
            let Some(first) = self.gc.waiting.pop_front() else {
                break;
            };
            self.gc.collectors[first.index()].waits_for_buffer = false;
            self.advance_gc(now, first, platform);
        }
        self.advance_gc(now, die, platform);
    }
}
