//! Units of a victim on their way where a flash page has several: each is read into a buffer, and
//! what the buffers of a flash page have is programmed together.

use super::PageBuffer;
use super::buffers::Moved;
use crate::durable::Record;
use crate::ftl::mapping::Mapping;
use crate::ftl::operation::Operation;
use crate::ftl::{Done, Ftl};
use crate::platform::{BufferId, NandOp, NandTag, PagePlace, Platform};
use crate::work::Work;
use units::{DieId, FlashOp, LineMask, Lpa, Ppa, Time};

impl<M: Mapping> Ftl<M> {
    /// A unit of a victim is in the register: buffer it, to be programmed elsewhere on the die,
    /// unless it has been overwritten since.
    #[inline(never)]
    pub(super) fn gather<P: Platform>(
        &mut self,
        now: Time,
        (tag, lpa, source, buffer): (NandTag, Lpa, Ppa, BufferId),
        platform: &mut P,
    ) {
        let die = self.geometry.die_of_unit(source);
        let is_dropped = !self.mapping.still_holds(source, lpa);
        let unit = if is_dropped {
            self.stats.gc_drops += 1;
            self.gc.victim_mut(die).in_flight -= 1;
            None
        } else {
            let lines = LineMask::full(self.geometry.unit_size);
            let to = PagePlace::Buffer(buffer);
            platform.copy_page(PagePlace::Register(tag), to, lines);
            self.time_step((source, lpa), platform);
            Some(((lpa, source), platform.charge(now, Work::RelocationStep)))
        };
        let page = self.gc.buffers.end_read(buffer, unit);
        if self.is_gathered(die, page) {
            self.program_gathered(now, page, platform);
        } else if is_dropped {
            self.advance_gc(now, die, platform);
        }
    }

    /// Whether nothing more comes into the buffers of a flash page: they are full, or the victim
    /// has no more valid units.
    #[inline]
    fn is_gathered(&self, die: DieId, page: PageBuffer) -> bool {
        let collector = &self.gc.collectors[die.index()];
        let end = self.geometry.units_per_block;
        let is_exhausted = || collector.victim.is_none_or(|victim| victim.cursor == end);
        self.gc.buffers.is_read(page) && (collector.filling != Some(page) || is_exhausted())
    }

    /// Programs the last units of a victim, which do not fill a flash page; says whether there were
    /// any, or buffers for them.
    #[inline(never)]
    pub(super) fn close_if_exhausted<P: Platform>(
        &mut self,
        now: Time,
        die: DieId,
        platform: &mut P,
    ) -> bool {
        let filling = self.gc.collectors[die.index()].filling;
        let Some(page) = filling.filter(|page| self.is_gathered(die, *page)) else {
            return false;
        };
        self.program_gathered(now, page, platform);
        true
    }

    /// Programs what is in the buffers of a flash page, when the core is done with it.
    fn program_gathered<P: Platform>(&mut self, now: Time, page: PageBuffer, platform: &mut P) {
        let home = self.gc.buffers.gathered(page).home;
        self.gc.collectors[home.index()]
            .filling
            .take_if(|filling| *filling == page);
        // Most of them were read some time ago.
        self.drop_overwritten(page);
        self.program_units(now, page, platform);
    }

    /// Units that have been overwritten since they were read need not be programmed.
    fn drop_overwritten(&mut self, page: PageBuffer) {
        let home = self.gc.buffers.gathered(page).home;
        let mut nth = 0;
        while let Some(unit) = self.gc.buffers.unit(page, nth) {
            if self.mapping.still_holds(unit.source, unit.lpa) {
                nth += 1;
                continue;
            }
            self.stats.gc_drops += 1;
            self.gc.buffers.drop_unit(unit.buffer);
            self.gc.victim_mut(home).in_flight -= 1;
        }
    }

    /// Programs the units in the buffers of a flash page, unless there are none.
    fn program_units<P: Platform>(&mut self, now: Time, page: PageBuffer, platform: &mut P) {
        let gathered = self.gc.buffers.gathered(page);
        let count = self.gc.buffers.units(page).count() as u32;
        if count == 0 {
            return self.end_gathered(now, page, platform);
        }
        let Some(ppa) = self.allocator.take_gc_page(gathered.home, count) else {
            return self.put_off_gathered(now, page, platform);
        };
        let block = self.geometry.block_of(ppa);
        self.allocator.block_mut(block).programs += count as u16;
        self.stats.gc_programs += u64::from(count);
        self.stats.padding += u64::from(self.geometry.units_per_page - count);
        let die = self.geometry.die_of(block);
        self.estimator.enter(die, FlashOp::Program, true);
        self.begin_page(ppa, platform);
        let mut units = self.gc.buffers.units(page);
        let Moved { lpa, buffer, .. } = units.next().expect("they have been counted");
        let mut place = ppa;
        for unit in units {
            place = place.offset(1);
            platform.load_unit(place, unit.lpa, PagePlace::Buffer(unit.buffer));
        }
        let from = PagePlace::Buffer(buffer);
        let operation = Operation::GcPage { ppa, page };
        let op = NandOp::Program { ppa, lpa, from };
        self.submit(gathered.ready, operation, op, platform);
    }

    /// The program of a relocation has failed: once more, elsewhere, if there is still a reason.
    #[cold]
    pub(in crate::ftl) fn on_gathered_failed<P: Platform>(
        &mut self,
        now: Time,
        (ppa, page): (Ppa, PageBuffer),
        platform: &mut P,
    ) {
        let home = self.gc.buffers.gathered(page).home;
        let count = self.gc.buffers.units(page).count() as u32;
        let die = self.end_failed_program(ppa, count, true, platform);
        if die != home {
            (0..count).for_each(|_| self.allocator.release_page(die));
        }
        self.drop_overwritten(page);
        self.gc.buffers.set_ready(page, now);
        self.program_units(now, page, platform);
        self.advance_gc(now, die, platform);
    }

    /// Units have been relocated: each is mapped, unless it has been overwritten since.
    #[inline(never)]
    pub(in crate::ftl) fn on_gathered<P: Platform>(
        &mut self,
        now: Time,
        (ppa, page): (Ppa, PageBuffer),
        platform: &mut P,
    ) -> Done {
        let home = self.gc.buffers.gathered(page).home;
        let block = self.geometry.block_of(ppa);
        let die = self.geometry.die_of(block);
        self.estimator.leave(die, FlashOp::Program, true);
        let mut place = ppa;
        let mut count = 0;
        while let Some(Moved { lpa, source, .. }) = self.gc.buffers.unit(page, count) {
            let is_valid = self.mapping.still_holds(source, lpa);
            if is_valid {
                self.mapping.relocate(lpa, source, place);
                platform.record(Record::Mapped(lpa, place));
            } else {
                self.stats.gc_drops += 1;
            }
            if die != home {
                // It counted on both dies.
                self.allocator
                    .release_page(if is_valid { home } else { die });
            }
            place = place.offset(1);
            count += 1;
        }
        self.allocator.block_mut(block).programs -= count as u16;
        if die != home {
            self.advance_gc(now, die, platform);
        }
        self.gc.victim_mut(home).in_flight -= count;
        self.end_gathered(now, page, platform);
        Done::Internal
    }

    /// Units stay where they are until a block of the device has been erased.
    #[cold]
    fn put_off_gathered<P: Platform>(&mut self, now: Time, page: PageBuffer, platform: &mut P) {
        let die = self.gc.buffers.gathered(page).home;
        let sources = self.gc.buffers.units(page).map(|unit| unit.source);
        let (count, first) = sources.fold((0, u32::MAX), |(count, first), source| {
            (count + 1, first.min(self.geometry.unit_in_block(source)))
        });
        let victim = self.gc.victim_mut(die);
        victim.cursor = victim.cursor.min(first);
        victim.in_flight -= count;
        self.gc.collectors[die.index()].waits_for_room = true;
        self.gc.are_waiting_for_room = true;
        self.end_gathered(now, page, platform);
    }

    /// The buffers of a flash page are free.
    fn end_gathered<P: Platform>(&mut self, now: Time, page: PageBuffer, platform: &mut P) {
        let die = self.gc.buffers.gathered(page).home;
        self.gc.buffers.release(page);
        self.serve_waiting(now, die, platform);
    }
}
