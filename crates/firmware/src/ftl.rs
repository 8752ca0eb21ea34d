//! The flash translation layer: where pages are, where they go next, and how room is made.
//!
//! The controller asks for pages by logical address; everything physical stays in here, tags of
//! NAND operations included. A page is mapped when its program is *done*; until then reads go to
//! the old copy and the controller answers from its buffer.
//!
//! A logical page fills a mapping unit, and a flash page holds one or several. Programs of the
//! controller are gathered until they fill a flash page, or until it says that nobody will. See
//! docs/ftl.md.

mod allocator;
mod audit;
pub mod config;
pub mod estimator;
mod failures;
pub mod gc;
mod host;
pub mod mapping;
mod operation;
pub mod precondition;
mod restore;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use config::{EstimatorKind, FirstWrite, FtlConfig, GcKind, ProgramTo};
pub use failures::Failures;
pub(crate) use restore::CheckedTables;
pub use restore::UnsoundTables;

use crate::durable::Record;
use crate::platform::{BufferId, NandOp, NandTag, PagePlace, Platform};
use alloc::collections::VecDeque;
use allocator::{Allocator, BlockState};
use estimator::Estimator;
use gc::Gc;
use mapping::{ImplicitMapping, Mapping};
use operation::{Operation, Operations, Program, Watches};
use precondition::Precondition;
use units::{DieId, FlashGeometry, FlashOp, Locator, Lpa, Picos, Time, Timing};

units::ids! {
    /// Whoever asked for a NAND operation; the FTL hands it back and knows nothing of it.
    Owner, "owner";
}

/// What a finished NAND operation means to the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Done {
    /// The page is in `PagePlace::Register(tag)` until the call of `on_nand_done` is over.
    Read {
        /// The number with which the controller asked.
        owner: Owner,
        /// The page that was read.
        lpa: Lpa,
        /// A program or trim of the page took effect after the read was submitted, so the register
        /// holds older bytes. Relocation by GC does not make a read stale.
        stale: bool,
    },
    /// The page is on flash and, unless a program submitted later finished first, mapped.
    Programmed {
        /// The number with which the controller asked.
        owner: Owner,
        /// The page that was programmed.
        lpa: Lpa,
    },
    /// A matter of the FTL alone.
    Internal,
}

/// What Algorithm 1 (SkyByte §III-A) says of a read submitted now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Estimate {
    /// tR × (reads queued + 1) + tProg × programs queued + tBERS × erases queued.
    pub latency: Picos,
    /// GC operations are queued before it: switch at once.
    pub gc_in_progress: bool,
}

/// Counters of the FTL since the last reset.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FtlStats {
    /// Reads of a mapping unit submitted for the controller.
    pub host_reads: u64,
    /// Mapping units that the controller had programmed. Write amplification is
    /// (host + GC programs + padding) ÷ host programs.
    pub host_programs: u64,
    /// Reads of a mapping unit submitted by GC.
    pub gc_reads: u64,
    /// Mapping units that GC had programmed.
    pub gc_programs: u64,
    /// Mapping units of flash pages that were programmed with nothing in them, because nothing
    /// more came to fill the page.
    pub padding: u64,
    /// Relocations that came to nothing because the page was overwritten meanwhile.
    pub gc_drops: u64,
    /// GC invocations: blocks chosen as victims.
    pub gc_victims: u64,
    /// Block erases submitted.
    pub erases: u64,
    /// Blocks chosen as victims only because they are worn too little.
    pub wear_victims: u64,
    /// Host programs that had to wait for GC to make room.
    pub waits: u64,
    /// Time they waited, all together.
    pub wait_time: Picos,
}

/// Erases per block that serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wear {
    /// Of the least worn block.
    pub min: u32,
    /// Of the most worn block.
    pub max: u32,
    /// Of all blocks together.
    pub total: u64,
}

/// A host program that is gathered for a flash page, or that no die has room for.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    since: Time,
    program: Program,
    /// It has been seen that no die has room.
    lacks_room: bool,
}

/// The flash translation layer.
#[derive(Clone, Debug)]
pub struct Ftl<M = ImplicitMapping> {
    geometry: FlashGeometry,
    locator: Locator,
    config: FtlConfig,
    mapping: M,
    allocator: Allocator,
    gc: Gc,
    operations: Operations,
    watches: Watches,
    estimator: Estimator,
    /// In order of submission.
    waiting: VecDeque<Waiting>,
    /// Nobody will fill the flash page that those in front are gathered for.
    is_closing: bool,
    /// The units that are to follow of the flash page whose program is done.
    ending: Option<NandTag>,
    /// Those that wait are being submitted.
    is_submitting: bool,
    logical_page_count: u64,
    mapped_page_count: u64,
    stats: FtlStats,
    failures: Failures,
    is_read_only: bool,
    /// Pages wait for room, and nothing is under way that could make any.
    is_stuck: bool,
}

impl Ftl {
    /// A preconditioned device; `config` is valid for the geometry. GC uses buffer `first_buffer`
    /// and those after it: `config.gc_buffers` times as many as a flash page has units.
    pub fn new(
        geometry: FlashGeometry,
        config: &FtlConfig,
        timing: Timing,
        first_buffer: BufferId,
    ) -> Self {
        let mapping = ImplicitMapping::new(geometry, Precondition::new(geometry, config));
        Self::with_mapping(geometry, config, timing, first_buffer, mapping)
    }
}

impl<M: Mapping> Ftl<M> {
    /// The host's next program goes to the die that page `lpa` is on at the start, if that has
    /// room: page after page they take turns.
    pub fn start_programs_behind(&mut self, lpa: Lpa) {
        let dies = u64::from(self.geometry.die_count());
        self.allocator
            .go_on_at(DieId::new((lpa.get() % dies) as u32));
    }

    /// As [`Ftl::new`], with another implementation of the mapping, in the preconditioned state.
    pub fn with_mapping(
        geometry: FlashGeometry,
        config: &FtlConfig,
        timing: Timing,
        first_buffer: BufferId,
        mapping: M,
    ) -> Self {
        let precondition = Precondition::new(geometry, config);
        let mut allocator = Allocator::new(geometry, &precondition, config.reserve_blocks);
        allocator.level_wear(config.wear_spread > 0);
        Self {
            geometry,
            locator: Locator::new(&geometry),
            mapping,
            allocator,
            gc: Gc::new(&geometry, first_buffer, config),
            operations: Operations::default(),
            watches: Watches::default(),
            estimator: Estimator::new(config.estimator, geometry, timing),
            waiting: VecDeque::new(),
            is_closing: false,
            ending: None,
            is_submitting: false,
            logical_page_count: precondition.logical_page_count(),
            mapped_page_count: precondition.mapped_page_count(),
            stats: FtlStats::default(),
            failures: Failures::default(),
            is_read_only: false,
            is_stuck: false,
            config: config.clone(),
        }
    }

    /// Pages of the exported logical space; LPAs are below it.
    pub fn logical_page_count(&self) -> u64 {
        self.logical_page_count
    }
    /// Pages that were mapped at the start: the LPAs below this.
    pub fn preconditioned_page_count(&self) -> u64 {
        self.mapped_page_count
    }
    /// Whether the page is on flash.
    pub fn is_mapped(&self, lpa: Lpa) -> bool {
        self.mapping.is_mapped(lpa)
    }
    /// The die that a mapped page is on.
    pub fn die_of(&self, lpa: Lpa) -> Option<DieId> {
        self.mapping
            .lookup(lpa)
            .map(|page| self.geometry.die_of_unit(page))
    }

    /// Whether there is a die with nothing to do.
    #[inline]
    pub fn has_idle_die(&self) -> bool {
        self.estimator.has_idle_die()
    }

    /// The next program goes to a die with nothing to do, if one has room.
    pub fn go_to_idle_die(&mut self) {
        self.allocator.go_to_one_of(self.estimator.idle_dies());
    }

    /// Fetches a mapped page.
    pub fn read<P: Platform>(
        &mut self,
        at: Time,
        lpa: Lpa,
        owner: Owner,
        platform: &mut P,
    ) -> NandTag {
        self.read_for(at, lpa, owner, false, platform)
    }

    /// As [`Ftl::read`], and says whether log compaction asks.
    pub fn read_for<P: Platform>(
        &mut self,
        at: Time,
        lpa: Lpa,
        owner: Owner,
        is_compaction: bool,
        platform: &mut P,
    ) -> NandTag {
        let ppa = self.mapping.lookup(lpa);
        let ppa = ppa.unwrap_or_else(|| panic!("{lpa} is read from flash but not mapped"));
        let seen = self.watches.begin_read(lpa);
        self.stats.host_reads += 1;
        let (die, block) = self.locator.locate(ppa);
        self.gc.begin_host_read(die, block);
        self.estimator.enter(die, FlashOp::Read, false);
        let operation = Operation::HostRead {
            lpa,
            ppa,
            owner,
            seen,
        };
        self.submit_for(at, operation, NandOp::Read { ppa }, is_compaction, platform)
    }

    /// Programs a page; waits inside until a flash page is full or closed ([`Ftl::close_page`]),
    /// and while no die has room, so `from` must keep the bytes until [`Done::Programmed`].
    pub fn program<P: Platform>(
        &mut self,
        at: Time,
        lpa: Lpa,
        from: PagePlace,
        owner: Owner,
        platform: &mut P,
    ) {
        self.program_for(at, lpa, from, owner, false, platform);
    }

    /// The next program goes past the die that it would have gone to.
    pub fn pass_die(&mut self) {
        self.allocator.pass_die();
    }

    /// As [`Ftl::program`], and says whether log compaction asks.
    pub fn program_for<P: Platform>(
        &mut self,
        at: Time,
        lpa: Lpa,
        from: PagePlace,
        owner: Owner,
        is_compaction: bool,
        platform: &mut P,
    ) {
        assert!(
            lpa.get() < self.logical_page_count,
            "{lpa} is beyond the exported space"
        );
        let sequence = self.watches.begin_program(lpa);
        let program = Program {
            lpa,
            from,
            owner,
            sequence,
            is_compaction,
        };
        self.stats.host_programs += 1;
        let is_alone = self.geometry.units_per_page == 1 && self.waiting.is_empty();
        if is_alone && self.submit_program(at, program, platform) {
            return;
        }
        self.waiting.push_back(Waiting {
            since: at,
            program,
            lacks_room: false,
        });
        if self.geometry.units_per_page > 1 {
            self.submit_waiting(at, platform);
        }
        self.wait_for_room(at, platform);
    }

    /// Programs of which a flash page is not full, so that they wait for more.
    #[inline]
    pub fn gathered(&self) -> usize {
        match self.is_page_due() {
            false => self.waiting.len(),
            true => 0,
        }
    }

    /// Nobody will fill the flash page that programs are gathered for: what is missing is padding.
    pub fn close_page<P: Platform>(&mut self, now: Time, platform: &mut P) {
        self.is_closing = !self.waiting.is_empty();
        self.submit_waiting(now, platform);
        self.wait_for_room(now, platform);
    }

    /// Those that might be submitted, but for room, wait for it.
    fn wait_for_room<P: Platform>(&mut self, now: Time, platform: &mut P) {
        if !self.is_page_due() {
            return;
        }
        let new = self.waiting.iter_mut().rev();
        for waiting in new.take_while(|waiting| !waiting.lacks_room) {
            waiting.lacks_room = true;
            self.stats.waits += 1;
        }
        self.retry_relocations(now, platform);
        self.see_whether_stuck();
    }

    /// Forgets a page; programs of it that are in flight come to nothing.
    pub fn trim<P: Platform>(&mut self, lpa: Lpa, platform: &mut P) {
        self.watches.trim(lpa);
        if let Some(before) = self.mapping.lookup(lpa) {
            self.mapping.update(lpa, None);
            platform.record(Record::Unmapped(lpa));
            self.allocator
                .release_page(self.geometry.die_of_unit(before));
        }
    }

    /// A NAND operation has finished. A flash page may bring more than one end: [`Ftl::next_done`]
    /// has the others.
    // In the controller's function, which is one for all ends.
    #[inline(always)]
    pub fn on_nand_done<P: Platform>(&mut self, now: Time, tag: NandTag, platform: &mut P) -> Done {
        let done = self.end_operation(now, tag, platform);
        self.see_whether_stuck();
        done
    }

    /// What else has ended with the operation that finished last; to be asked until nothing has.
    #[inline]
    pub fn next_done<P: Platform>(&mut self, now: Time, platform: &mut P) -> Option<Done> {
        let tag = self.ending.take()?;
        Some(self.end_unit(now, tag, platform))
    }

    /// A further unit of the flash page of the operation that finished last.
    #[inline(never)]
    fn end_unit<P: Platform>(&mut self, now: Time, tag: NandTag, platform: &mut P) -> Done {
        let Operation::HostProgram { ppa, program, rest } = self.operations.finish(tag) else {
            unreachable!("{tag} is of a flash page of the host");
        };
        let Program { lpa, owner, .. } = program;
        self.ending = rest;
        let block = self.geometry.block_of(ppa);
        let die = self.geometry.die_of(block);
        self.on_host_program(now, (die, block), (lpa, ppa, program.sequence), platform);
        self.see_whether_stuck();
        Done::Programmed { owner, lpa }
    }

    #[inline(always)]
    fn end_operation<P: Platform>(&mut self, now: Time, tag: NandTag, platform: &mut P) -> Done {
        match self.operations.finish(tag) {
            Operation::HostRead {
                lpa,
                ppa,
                owner,
                seen,
            } => {
                self.on_host_read(now, ppa, platform);
                Done::Read {
                    owner,
                    lpa,
                    stale: self.watches.end_read(lpa, seen),
                }
            }
            Operation::HostProgram { ppa, program, rest } => {
                let Program { lpa, owner, .. } = program;
                self.ending = rest;
                let (die, block) = self.locator.locate(ppa);
                self.estimator.leave(die, FlashOp::Program, false);
                self.on_host_program(now, (die, block), (lpa, ppa, program.sequence), platform);
                Done::Programmed { owner, lpa }
            }
            Operation::GcRead {
                lpa,
                source,
                buffer,
                home,
            } => self.on_gc_read(now, home, (tag, lpa, source, buffer), platform),
            Operation::GcProgram {
                lpa,
                source,
                ppa,
                buffer,
                home,
            } => self.on_gc_program(now, home, (lpa, source, ppa, buffer), platform),
            Operation::GcPage { ppa, page } => self.on_gathered(now, (ppa, page), platform),
            Operation::Erase { block } => self.on_erased(now, block, platform),
        }
    }

    /// Who asked for the read with this tag, which is not over; none if that is not the controller.
    pub(crate) fn owner_of_read(&self, tag: NandTag) -> Option<Owner> {
        match self.operations.get(tag) {
            Operation::HostRead { owner, .. } => Some(owner),
            _ => None,
        }
    }

    /// How long a read of a mapped page submitted now would take, by Algorithm 1; no time at all
    /// for an unmapped page.
    pub fn estimate(&self, lpa: Lpa) -> Estimate {
        let nothing = Estimate {
            latency: Picos::ZERO,
            gc_in_progress: false,
        };
        self.die_of(lpa)
            .map_or(nothing, |die| self.estimator.estimate(die))
    }
    /// Whether nothing is in flight or waiting.
    pub fn is_idle(&self) -> bool {
        self.watches.is_empty() && self.gc.is_idle()
    }
    /// Blocks that are erased and not being written.
    pub fn free_blocks(&self) -> u32 {
        self.geometry.block_count() - self.allocator.used_block_count()
    }

    /// Counters since the last reset.
    pub fn stats(&self) -> &FtlStats {
        &self.stats
    }
    /// Sets the counters to zero; wear stays.
    pub fn reset_stats(&mut self) {
        self.stats = FtlStats::default();
    }
    /// Erases of the blocks that serve, since they were made.
    pub fn wear(&self) -> Wear {
        let serving = self.allocator.blocks().iter();
        let serving = serving.filter(|block| block.state != BlockState::Retired);
        let wears = serving.map(|block| block.wear);
        Wear {
            min: wears.clone().min().unwrap_or(0),
            max: wears.clone().max().unwrap_or(0),
            total: wears.map(u64::from).sum(),
        }
    }
    /// How the flash is organised.
    pub fn geometry(&self) -> &FlashGeometry {
        &self.geometry
    }
}
