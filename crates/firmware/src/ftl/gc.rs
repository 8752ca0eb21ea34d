//! Garbage collection: which block, when, and one page after the other.
//!
//! Each die collects for itself and within itself: it picks a victim, reads the valid units into
//! buffers, programs them into its GC block, and erases the victim, with a few pages in flight so
//! that host reads wait behind a few operations and not behind a block (D18). A unit that the host
//! overwrites meanwhile is dropped on the way. Units are gathered in the buffers of one flash page
//! until it is full or the victim has no more.

mod buffers;
mod gathering;
pub mod greedy;
mod owed;
mod relocation;

use super::allocator::{BlockState, units_that_count};
use super::config::{FtlConfig, GcKind};
use super::mapping::Mapping;
use super::operation::Operation;
use super::{Done, Ftl};
use crate::durable::Record;
use crate::platform::{BufferId, NandOp, Platform};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use buffers::Buffers;
pub(super) use buffers::PageBuffer;
use greedy::Greedy;
use units::{BlockAddr, DieId, FlashGeometry, FlashOp, Lpa, Ppa, Time};

/// A block that GC may collect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// The block that is emptied.
    pub block: BlockAddr,
    /// Its valid units, which would have to be moved; they fill fewer flash pages than it has.
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
    /// Units below have been looked at.
    cursor: u32,
    /// Units under way.
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
    /// Where the next units of the victim go, if some have gone there and some more can.
    filling: Option<PageBuffer>,
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
    buffers: Buffers,
    /// Dies that want a buffer, in order.
    waiting: VecDeque<DieId>,
    are_waiting_for_room: bool,
    /// Units that a die may have in flight, those of one flash page at least: usually, and while
    /// the host lacks room.
    limits: [u32; 2],
}

impl Gc {
    pub(super) fn new(
        geometry: &FlashGeometry,
        first_buffer: BufferId,
        config: &FtlConfig,
    ) -> Self {
        let dies = geometry.die_count() as usize;
        let units = geometry.units_per_page;
        let pages = [config.gc_pages, config.gc_foreground_pages];
        Self {
            collectors: vec![Collector::default(); dies],
            buffers: Buffers::new(units, first_buffer, config.gc_buffers),
            waiting: VecDeque::with_capacity(dies),
            are_waiting_for_room: false,
            limits: pages.map(|pages| pages.saturating_mul(units)),
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.buffers.are_free() && self.collectors.iter().all(|die| die.victim.is_none())
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

    /// The die's victim has been erased or retired.
    pub(super) fn end_victim(&mut self, die: DieId) {
        let collector = &mut self.collectors[die.index()];
        collector.victim = None;
        collector.quota = collector.quota.saturating_sub(1);
    }

    /// Whether a page of a victim has no place to go.
    #[inline]
    pub(super) fn are_waiting_for_room(&self) -> bool {
        self.are_waiting_for_room
    }

    /// Whether a victim is empty but for reads that are in flight.
    pub(super) fn waits_for_reads(&self) -> bool {
        let mut collectors = self.collectors.iter();
        collectors.any(|die| {
            let has_reads = die.victim.is_some_and(|victim| victim.host_reads > 0);
            has_reads && !die.waits_for_room
        })
    }

    /// Whether the die is collecting a block.
    pub(super) fn has_victim(&self, die: DieId) -> bool {
        self.collectors[die.index()].victim.is_some()
    }

    /// The block that the die is collecting.
    pub(super) fn victim_of(&self, die: DieId) -> BlockAddr {
        let victim = self.collectors[die.index()].victim;
        victim
            .expect("a die that empties a block has a victim")
            .block
    }

    /// Units on their way in the buffers of a flash page, and the die that they are of, for the
    /// audit.
    pub(super) fn units_in(&self, page: PageBuffer) -> (u32, DieId) {
        let count = self.buffers.units(page).count() as u32;
        (count, self.buffers.gathered(page).home)
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
    #[inline(always)]
    pub(super) fn advance_gc<P: Platform>(&mut self, now: Time, die: DieId, platform: &mut P) {
        let victim = &self.gc.collectors[die.index()].victim;
        let limit = self.gc.limits[usize::from(self.host_lacks_room())];
        // With so many in flight, as nearly always, the end of one of them comes here again.
        if victim
            .as_ref()
            .is_none_or(|victim| victim.in_flight < limit)
        {
            self.collect(now, die, limit, platform);
        }
    }

    #[inline(never)]
    fn collect<P: Platform>(&mut self, now: Time, die: DieId, limit: u32, platform: &mut P) {
        if self.gc.collectors[die.index()].victim.is_none() && !self.start_victim(die) {
            return;
        }
        self.relocate(now, die, limit, platform);
        let gathers = self.geometry.units_per_page > 1;
        if !(gathers && self.close_if_exhausted(now, die, platform)) {
            self.erase_if_empty(now, die, platform);
        }
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
            GcKind::Bulk => {
                let is_short = !self.allocator.has_more_than_reserve(die);
                self.gc.collectors[die.index()].quota > 0 || is_short
            }
        }
    }

    /// Picks a victim if the die should collect and has something to gain.
    fn start_victim(&mut self, die: DieId) -> bool {
        if self.allocator.has_condemned(die) && self.start_condemned(die) {
            return true;
        }
        if !self.wants_gc(die) {
            return false;
        }
        let Some(chosen) = Greedy.choose(self.candidates(die)) else {
            self.gc.collectors[die.index()].quota = 0;
            return false;
        };
        self.stats.gc_victims += 1;
        self.begin_victim(die, chosen.block);
        true
    }

    /// Blocks of the die of which something would be gained.
    fn candidates(&self, die: DieId) -> impl Iterator<Item = Candidate> + '_ {
        let is_at_rest = |it: &Candidate| self.allocator.block(it.block).programs == 0;
        self.candidates_at_rest(die).filter(is_at_rest)
    }

    /// The same when what is being programmed has been: of that all is valid.
    fn candidates_at_rest(&self, die: DieId) -> impl Iterator<Item = Candidate> + '_ {
        let gainful = units_that_count(&self.geometry);
        (0..self.geometry.blocks_per_die()).filter_map(move |nth| {
            let block = self.geometry.block_on(die, nth);
            let state = self.allocator.block(block);
            let programs = u32::from(state.programs) * self.geometry.units_per_page;
            let valid = self.mapping.valid_count(block) + programs;
            let is_full = state.state == BlockState::Full && !state.is_condemned;
            (is_full && valid < gainful).then_some(Candidate {
                block,
                valid,
                wear: state.wear,
            })
        })
    }

    /// The die collects the block from now on.
    pub(super) fn begin_victim(&mut self, die: DieId, block: BlockAddr) {
        self.allocator.block_mut(block).state = BlockState::Victim;
        self.gc.collectors[die.index()].victim = Some(Victim {
            block,
            cursor: 0,
            in_flight: 0,
            host_reads: self.host_reads_of(block),
            is_erasing: false,
        });
    }

    /// Looks at everything in flight: once for each block that is collected.
    pub(super) fn host_reads_of(&self, block: BlockAddr) -> u32 {
        let is_read_of = |operation: &&Operation| match operation {
            Operation::HostRead { ppa, .. } => self.geometry.block_of(*ppa) == block,
            _ => false,
        };
        self.operations.iter().filter(is_read_of).count() as u32
    }

    /// Starts to relocate as many units as the die may have in flight.
    fn relocate<P: Platform>(&mut self, now: Time, die: DieId, limit: u32, platform: &mut P) {
        while self.gc.victim_mut(die).in_flight < limit {
            if self.gc.collectors[die.index()].waits_for_room {
                return;
            }
            let Some((lpa, source)) = self.next_valid_page(die) else {
                return;
            };
            let collector = &mut self.gc.collectors[die.index()];
            let buffers = &mut self.gc.buffers;
            let buffer = match self.geometry.units_per_page {
                1 => buffers.take_single(),
                _ => buffers.take(die, &mut collector.filling),
            };
            let Some(buffer) = buffer else {
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
            self.estimator.enter(die, FlashOp::Read, true);
            let operation = Operation::GcRead {
                lpa,
                source,
                buffer,
                home: die,
            };
            self.submit(now, operation, NandOp::Read { ppa: source }, platform);
        }
    }

    /// Moves the victim's cursor to its next valid unit.
    fn next_valid_page(&mut self, die: DieId) -> Option<(Lpa, Ppa)> {
        let victim = self.gc.victim_mut(die);
        let first = self.geometry.unit_on(victim.block, 0);
        let end = first.offset(self.geometry.units_per_block);
        let from = first.offset(victim.cursor);
        let found = self.mapping.next_held(victim.block, from, end);
        let next = found.map_or(end, |(source, _)| source);
        victim.cursor = (next.get() - first.get()) as u32;
        found.map(|(source, lpa)| (lpa, source))
    }

    fn erase_if_empty<P: Platform>(&mut self, now: Time, die: DieId, platform: &mut P) {
        let pages = self.geometry.units_per_block;
        let victim = self.gc.victim_mut(die);
        let is_in_use = victim.in_flight > 0 || victim.host_reads > 0;
        if victim.cursor < pages || is_in_use || victim.is_erasing {
            return;
        }
        let block = victim.block;
        let valid = self.mapping.valid_count(block);
        assert_eq!(valid, 0, "{block:?} is erased with valid pages in it");
        if self.allocator.block(block).is_condemned {
            return self.retire_victim(now, die, platform);
        }
        self.gc.victim_mut(die).is_erasing = true;
        self.stats.erases += 1;
        self.estimator.enter(die, FlashOp::Erase, true);
        self.submit(
            now,
            Operation::Erase { block },
            NandOp::Erase { block },
            platform,
        );
    }

    /// A victim has been erased.
    pub(super) fn on_erased<P: Platform>(
        &mut self,
        now: Time,
        block: BlockAddr,
        platform: &mut P,
    ) -> Done {
        let die = self.geometry.die_of(block);
        self.estimator.leave(die, FlashOp::Erase, true);
        self.gc.end_victim(die);
        let wear = self.allocator.release_block(block);
        platform.record(Record::Erased(block, wear));
        self.retry_relocations(now, platform);
        self.submit_waiting(now, platform);
        if self.config.wear_spread > 0 {
            self.level_wear(die);
        }
        self.advance_gc(now, die, platform);
        Done::Internal
    }
}
