//! Garbage collection: which block, when, and one page after the other.
//!
//! Each die collects for itself and within itself: it picks a victim, reads the valid pages into
//! buffers, programs them into its GC block, and erases the victim, with a few pages in flight so
//! that host reads wait behind a few operations and not behind a block (D18). A page that the host
//! overwrites meanwhile is dropped on the way.

pub mod greedy;

use super::allocator::BlockState;
use super::config::GcKind;
use super::estimator::OpKind;
use super::mapping::Mapping;
use super::operation::Operation;
use super::{Done, Ftl};
use crate::durable::Record;
use crate::platform::{BufferId, NandOp, NandTag, PagePlace, Platform, Unit};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use greedy::Greedy;
use units::{BlockAddr, DieId, FlashGeometry, LineMask, Lpa, Ppa, Time};

/// A block that GC may collect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// Which block.
    pub block: BlockAddr,
    /// Its valid pages, which would have to be moved; fewer than it has pages.
    pub valid: u32,
    /// How often it has been erased.
    pub wear: u32,
}

/// Chooses the block that a die collects next.
pub trait GcPolicy {
    /// One of the candidates, which are in ascending order of block; none only if there is none.
    fn choose(&self, candidates: impl Iterator<Item = Candidate>) -> Option<Candidate>;
}

/// The block that a die is collecting.
#[derive(Clone, Copy, Debug)]
struct Victim {
    block: BlockAddr,
    /// Pages below have been looked at.
    cursor: u32,
    /// Relocations under way.
    in_flight: u32,
    /// Host reads of it in flight: it is not erased under them. Only victims count theirs: reads
    /// are spread over all blocks of a device, and a table of those would be out of the host's
    /// caches.
    host_reads: u32,
    is_erasing: bool,
}

/// GC of one die.
#[derive(Clone, Copy, Debug, Default)]
struct Collector {
    victim: Option<Victim>,
    /// Bulk: blocks still to erase.
    quota: u32,
    waits_for_buffer: bool,
    /// No die has a place for a page of the victim.
    waits_for_room: bool,
}

/// GC of all dies and the buffers they share.
#[derive(Clone, Debug)]
pub(super) struct Gc {
    collectors: Vec<Collector>,
    buffers: Vec<BufferId>,
    buffer_count: usize,
    /// Dies that want a buffer, in order.
    waiting: VecDeque<DieId>,
    are_waiting_for_room: bool,
}

impl Gc {
    pub(super) fn new(geometry: &FlashGeometry, first_buffer: BufferId, buffer_count: u32) -> Self {
        let buffers = (0..buffer_count)
            .rev()
            .map(|nth| BufferId::new(first_buffer.get() + nth));
        let dies = geometry.die_count() as usize;
        Self {
            collectors: vec![Collector::default(); dies],
            buffers: buffers.collect(),
            buffer_count: buffer_count as usize,
            waiting: VecDeque::with_capacity(dies),
            are_waiting_for_room: false,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.buffers.len() == self.buffer_count
            && self.collectors.iter().all(|die| die.victim.is_none())
    }

    fn victim_mut(&mut self, die: DieId) -> &mut Victim {
        let victim = self.collectors[die.index()].victim.as_mut();
        victim.expect("a die with a relocation or erase under way has a victim")
    }

    /// The block, if it is what the die is collecting.
    #[inline]
    fn as_victim(&mut self, die: DieId, block: BlockAddr) -> Option<&mut Victim> {
        let victim = self.collectors[die.index()].victim.as_mut();
        victim.filter(|victim| victim.block == block)
    }
    /// A host read of a block of the die is submitted.
    #[inline]
    pub(super) fn begin_host_read(&mut self, die: DieId, block: BlockAddr) {
        if let Some(victim) = self.as_victim(die, block) {
            victim.host_reads += 1;
        }
    }
    /// A host read of a block of the die is done; says whether the die is collecting it.
    #[inline]
    pub(super) fn end_host_read(&mut self, die: DieId, block: BlockAddr) -> bool {
        let victim = self.as_victim(die, block);
        victim.map(|victim| victim.host_reads -= 1).is_some()
    }

    /// Blocks being collected and host reads of each that it counts, for the audit.
    pub(super) fn victims(&self) -> impl Iterator<Item = (BlockAddr, u32)> {
        self.collectors
            .iter()
            .filter_map(|die| die.victim.map(|victim| (victim.block, victim.host_reads)))
    }
}

impl<M: Mapping> Ftl<M> {
    /// Does what GC of the die can do now: picks a victim, moves pages, erases.
    pub(super) fn advance_gc<P: Platform>(&mut self, now: Time, die: DieId, platform: &mut P) {
        if self.gc.collectors[die.index()].victim.is_none() && !self.start_victim(die) {
            return;
        }
        self.relocate(now, die, platform);
        self.erase_if_empty(now, die, platform);
    }

    /// Bulk: gives every die its share of blocks to erase once too many are in use.
    pub(super) fn start_bulk_gc<P: Platform>(&mut self, now: Time, platform: &mut P) {
        let (used, blocks) = (
            self.allocator.used_block_count(),
            self.geometry.block_count(),
        );
        let is_due = self
            .config
            .gc_threshold
            .is_exceeded_by(used.into(), blocks.into());
        if !is_due || self.gc.collectors.iter().any(|die| die.quota > 0) {
            return;
        }
        let quota = self
            .config
            .gc_bulk_blocks
            .div_ceil(self.geometry.die_count());
        self.gc
            .collectors
            .iter_mut()
            .for_each(|die| die.quota = quota);
        for die in 0..self.geometry.die_count() {
            self.advance_gc(now, DieId::new(die), platform);
        }
    }

    fn wants_gc(&self, die: DieId) -> bool {
        let free = self.allocator.free_blocks(die);
        match self.config.gc {
            GcKind::Incremental => free < self.config.gc_start_blocks as usize,
            GcKind::Bulk => self.gc.collectors[die.index()].quota > 0 || free < 2,
        }
    }

    /// Picks a victim if the die should collect and has something to gain.
    fn start_victim(&mut self, die: DieId) -> bool {
        if !self.wants_gc(die) {
            return false;
        }
        let pages = self.geometry.pages_per_block;
        let (allocator, mapping) = (&self.allocator, &self.mapping);
        let candidates = (0..self.geometry.blocks_per_die()).filter_map(|nth| {
            let block = self.geometry.block_on(die, nth);
            let state = allocator.block(block);
            let valid = mapping.valid_count(block);
            (state.state == BlockState::Full && state.programs == 0 && valid < pages).then_some(
                Candidate {
                    block,
                    valid,
                    wear: state.wear,
                },
            )
        });
        let Some(chosen) = Greedy.choose(candidates) else {
            self.gc.collectors[die.index()].quota = 0;
            return false;
        };
        self.allocator.block_mut(chosen.block).state = BlockState::Victim;
        self.stats.gc_victims += 1;
        self.gc.collectors[die.index()].victim = Some(Victim {
            block: chosen.block,
            cursor: 0,
            in_flight: 0,
            host_reads: self.host_reads_of(chosen.block),
            is_erasing: false,
        });
        true
    }

    /// Looks at everything in flight: once for each block that is collected.
    pub(super) fn host_reads_of(&self, block: BlockAddr) -> u32 {
        let is_read_of = |operation: &&Operation| match operation {
            Operation::HostRead { ppa, .. } => self.geometry.block_of(*ppa) == block,
            _ => false,
        };
        self.operations.iter().filter(is_read_of).count() as u32
    }

    /// Starts as many relocations as the die may have in flight.
    fn relocate<P: Platform>(&mut self, now: Time, die: DieId, platform: &mut P) {
        let limit = if self.waiting.is_empty() {
            self.config.gc_pages
        } else {
            self.config.gc_foreground_pages
        };
        while self.gc.victim_mut(die).in_flight < limit {
            if self.gc.collectors[die.index()].waits_for_room {
                return;
            }
            let Some((lpa, source)) = self.next_valid_page(die) else {
                return;
            };
            let Some(buffer) = self.gc.buffers.pop() else {
                let collector = &mut self.gc.collectors[die.index()];
                if !collector.waits_for_buffer {
                    collector.waits_for_buffer = true;
                    self.gc.waiting.push_back(die);
                }
                return;
            };
            let victim = self.gc.victim_mut(die);
            victim.cursor += 1;
            victim.in_flight += 1;
            self.stats.gc_reads += 1;
            self.estimator.enter(die, OpKind::Read, true);
            let operation = Operation::GcRead {
                lpa,
                source,
                buffer,
            };
            self.submit(now, operation, NandOp::Read { ppa: source }, platform);
        }
    }

    /// Moves the victim's cursor to its next valid page.
    fn next_valid_page(&mut self, die: DieId) -> Option<(Lpa, Ppa)> {
        let pages = self.geometry.pages_per_block;
        let victim = self.gc.victim_mut(die);
        let (block, from) = (victim.block, victim.cursor);
        let found = (from..pages).find_map(|page| {
            let source = self.geometry.page_on(block, page);
            Some((page, self.mapping.reverse(source)?, source))
        });
        self.gc.victim_mut(die).cursor = found.map_or(pages, |(page, ..)| page);
        found.map(|(_, lpa, source)| (lpa, source))
    }

    fn erase_if_empty<P: Platform>(&mut self, now: Time, die: DieId, platform: &mut P) {
        let pages = self.geometry.pages_per_block;
        let victim = *self.gc.victim_mut(die);
        let is_in_use = victim.in_flight > 0 || victim.host_reads > 0;
        if victim.cursor < pages || is_in_use || victim.is_erasing {
            return;
        }
        let valid = self.mapping.valid_count(victim.block);
        assert_eq!(
            valid, 0,
            "{:?} is erased with valid pages in it",
            victim.block
        );
        self.gc.victim_mut(die).is_erasing = true;
        self.stats.erases += 1;
        self.estimator.enter(die, OpKind::Erase, true);
        let block = victim.block;
        self.submit(
            now,
            Operation::Erase { block },
            NandOp::Erase { block },
            platform,
        );
    }

    /// A page of a victim is in the register: buffer it and program it elsewhere on the die,
    /// unless it has been overwritten since.
    pub(super) fn on_gc_read<P: Platform>(
        &mut self,
        now: Time,
        (tag, lpa, source, buffer): (NandTag, Lpa, Ppa, BufferId),
        platform: &mut P,
    ) -> Done {
        let die = self.geometry.die_of_page(source);
        self.estimator.leave(die, OpKind::Read, true);
        if self.mapping.reverse(source) != Some(lpa) {
            self.stats.gc_drops += 1;
            self.end_relocation(now, die, buffer, platform);
            return Done::Internal;
        }
        let Some(ppa) = self.allocator.take_gc_page(die) else {
            self.put_off_relocation(now, source, buffer, platform);
            return Done::Internal;
        };
        let lines = LineMask::full(self.geometry.page_size);
        let from = PagePlace::Buffer(buffer);
        platform.copy_page(PagePlace::Register(tag), from, lines);
        let cost = self.config.gc_page_cost;
        let ready = platform.charge(now, Unit::FirmwareCore, cost, cost);
        let block = self.geometry.block_of(ppa);
        self.allocator.block_mut(block).programs += 1;
        self.stats.gc_programs += 1;
        self.estimator
            .enter(self.geometry.die_of(block), OpKind::Program, true);
        let operation = Operation::GcProgram {
            lpa,
            source,
            ppa,
            buffer,
        };
        platform.record(Record::Begun(ppa));
        self.submit(
            ready,
            operation,
            NandOp::Program { ppa, lpa, from },
            platform,
        );
        Done::Internal
    }

    /// A page has been relocated: it is mapped, unless it has been overwritten since.
    pub(super) fn on_gc_program<P: Platform>(
        &mut self,
        now: Time,
        (lpa, source, ppa, buffer): (Lpa, Ppa, Ppa, BufferId),
        platform: &mut P,
    ) -> Done {
        let (die, home) = (
            self.geometry.die_of_page(ppa),
            self.geometry.die_of_page(source),
        );
        self.estimator.leave(die, OpKind::Program, true);
        self.allocator
            .block_mut(self.geometry.block_of(ppa))
            .programs -= 1;
        let is_valid = self.mapping.reverse(source) == Some(lpa);
        if is_valid {
            self.mapping.update(lpa, Some(ppa));
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
        let die = self.geometry.die_of_page(source);
        let page = self.geometry.page_in_block(source);
        let victim = self.gc.victim_mut(die);
        victim.cursor = victim.cursor.min(page);
        self.gc.collectors[die.index()].waits_for_room = true;
        self.gc.are_waiting_for_room = true;
        self.end_relocation(now, die, buffer, platform);
    }

    /// There may be room again for what had none.
    #[inline]
    pub(super) fn retry_relocations<P: Platform>(&mut self, now: Time, platform: &mut P) {
        if self.gc.are_waiting_for_room {
            self.find_room(now, platform);
        }
    }

    #[cold]
    fn find_room<P: Platform>(&mut self, now: Time, platform: &mut P) {
        self.gc.are_waiting_for_room = false;
        for die in 0..self.geometry.die_count() {
            if core::mem::take(&mut self.gc.collectors[die as usize].waits_for_room) {
                self.advance_gc(now, DieId::new(die), platform);
            }
        }
    }

    /// A victim has been erased.
    pub(super) fn on_erased<P: Platform>(
        &mut self,
        now: Time,
        block: BlockAddr,
        platform: &mut P,
    ) -> Done {
        let die = self.geometry.die_of(block);
        self.estimator.leave(die, OpKind::Erase, true);
        let collector = &mut self.gc.collectors[die.index()];
        collector.victim = None;
        collector.quota = collector.quota.saturating_sub(1);
        let wear = self.allocator.release_block(block);
        platform.record(Record::Erased(block, wear));
        self.retry_relocations(now, platform);
        self.submit_waiting(now, platform);
        self.advance_gc(now, die, platform);
        Done::Internal
    }

    fn end_relocation<P: Platform>(
        &mut self,
        now: Time,
        die: DieId,
        buffer: BufferId,
        platform: &mut P,
    ) {
        self.gc.victim_mut(die).in_flight -= 1;
        self.gc.buffers.push(buffer);
        // Those that wait come first, so that a busy die cannot keep the buffers to itself.
        while !self.gc.buffers.is_empty() {
            let Some(first) = self.gc.waiting.pop_front() else {
                break;
            };
            self.gc.collectors[first.index()].waits_for_buffer = false;
            self.advance_gc(now, first, platform);
        }
        self.advance_gc(now, die, platform);
    }
}
