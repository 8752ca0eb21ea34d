//! The FTL after a power cut, from what survived it.
//!
//! Mapping, wear and retired blocks are as recorded. What was in flight is gone: a program without
//! its `Mapped` came to nothing, whatever is on flash, and the next program of its block goes
//! behind it; an erase without its `Erased` is done again, for nothing in the block is valid. So is
//! the emptying of a block that GC was at. See docs/ftl.md.

use super::allocator::Allocator;
use super::estimator::Estimator;
use super::gc::Gc;
use super::mapping::{ImplicitMapping, Mapping};
use super::operation::{Operations, Watches};
use super::precondition::Precondition;
use super::{Failures, Ftl, FtlConfig, FtlStats};
use crate::durable::{BlockRecord, Durable, Record};
use crate::platform::{BufferId, Platform};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use units::{BlockAddr, DieId, FlashGeometry, Locator, Lpa, Ppa, Time, Timing};

/// Why tables are none that an FTL on this flash has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnsoundTables {
    /// The logical page is beyond the exported space.
    NoSuchPage(Lpa),
    /// The page is mapped to a place that the flash does not have.
    NoSuchPlace(Lpa, Ppa),
    /// Two pages are mapped to one place.
    PlaceTwice(Lpa, Lpa, Ppa),
    /// The page is mapped to a place where no program has begun.
    NothingThere(Lpa, Ppa),
    /// The page is mapped to a place in a retired block.
    Retired(Lpa, Ppa),
    /// The flash does not have the block, or not so many pages in it.
    NoSuchBlock(BlockAddr),
    /// Of a flash page of the block a part is to have begun.
    PartOfPage(BlockAddr),
}

impl fmt::Display for UnsoundTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the tables of the flash translation layer are damaged, or of another flash: ",
        )?;
        match self {
            Self::NoSuchPage(lpa) => write!(f, "{lpa} is beyond the exported space"),
            Self::NoSuchPlace(lpa, ppa) => write!(f, "{lpa} is at {ppa}, beyond the flash"),
            Self::PlaceTwice(one, other, ppa) => write!(f, "{one} and {other} are both at {ppa}"),
            Self::NothingThere(lpa, ppa) => {
                write!(f, "{lpa} is at {ppa}, where no program has begun")
            }
            Self::Retired(lpa, ppa) => write!(f, "{lpa} is at {ppa}, in a retired block"),
            Self::NoSuchBlock(block) => write!(f, "{block} is beyond the flash or too full"),
            Self::PartOfPage(block) => {
                write!(f, "{block} says that a part of a flash page has begun")
            }
        }
    }
}

impl core::error::Error for UnsoundTables {}

/// Mapping and blocks as a power cut has left them, checked.
pub(crate) struct CheckedTables {
    blocks: Vec<BlockRecord>,
    mapping: ImplicitMapping,
    logical_page_count: u64,
}

/// Is told of something wrong; an error ends the search.
type Judge<'a> = &'a mut dyn FnMut(UnsoundTables) -> Result<(), UnsoundTables>;

impl CheckedTables {
    /// Reads the tables; changes nothing.
    ///
    /// # Errors
    /// Those of `judge`. If it has none, what is wrong is left out.
    pub(crate) fn read<D: Durable>(
        geometry: FlashGeometry,
        config: &FtlConfig,
        durable: &D,
        judge: Judge<'_>,
    ) -> Result<Self, UnsoundTables> {
        let precondition = Precondition::empty(geometry, config);
        let logical_page_count = precondition.logical_page_count();
        let blocks = block_records(&geometry, durable, judge)?;
        let mut mapping = ImplicitMapping::new(geometry, precondition);
        for (lpa, ppa) in durable.mapped() {
            let checked = check_place(&geometry, logical_page_count, &blocks, (lpa, ppa));
            let filled_in = checked.and_then(|()| {
                mapping
                    .fill_in(lpa, ppa)
                    .map_err(|other| UnsoundTables::PlaceTwice(other, lpa, ppa))
            });
            if let Err(unsound) = filled_in {
                judge(unsound)?;
            }
        }
        Ok(Self {
            blocks,
            mapping,
            logical_page_count,
        })
    }

    /// Pages that the host can name.
    pub(crate) fn logical_page_count(&self) -> u64 {
        self.logical_page_count
    }
}

impl Ftl {
    /// The FTL of a device that `durable` has survived of, with the other arguments of
    /// [`Ftl::new`]; what `config` says of the state before the run does not count. GC that a cut
    /// interrupted goes on at `now`.
    ///
    /// # Errors
    /// If the tables are damaged or of another flash, before anything is recorded.
    pub fn restore<D: Durable, P: Platform>(
        (geometry, config, timing): (FlashGeometry, &FtlConfig, Timing),
        first_buffer: BufferId,
        durable: &D,
        now: Time,
        platform: &mut P,
    ) -> Result<Self, UnsoundTables> {
        let tables = CheckedTables::read(geometry, config, durable, &mut Err)?;
        let parts = (geometry, config, timing);
        Ok(Self::taken_over(parts, first_buffer, tables, now, platform))
    }

    /// [`Ftl::restore`] of what has been checked.
    pub(crate) fn taken_over<P: Platform>(
        (geometry, config, timing): (FlashGeometry, &FtlConfig, Timing),
        first_buffer: BufferId,
        tables: CheckedTables,
        now: Time,
        platform: &mut P,
    ) -> Self {
        let CheckedTables {
            blocks,
            mapping,
            logical_page_count,
        } = tables;
        let mut allocator = Allocator::restored(geometry, &blocks, &mapping, config.reserve_blocks);
        allocator.level_wear(config.wear_spread > 0);
        for early in allocator.take_closed() {
            platform.record(Record::Begun(last_page(&geometry, early)));
        }
        let mut ftl = Self {
            geometry,
            locator: Locator::new(&geometry),
            allocator,
            mapping,
            gc: Gc::new(&geometry, first_buffer, config),
            operations: Operations::default(),
            watches: Watches::default(),
            estimator: Estimator::new(config.estimator, geometry, timing),
            waiting: VecDeque::new(),
            is_closing: false,
            ending: None,
            is_submitting: false,
            logical_page_count,
            mapped_page_count: 0,
            stats: FtlStats::default(),
            failures: Failures::default(),
            is_read_only: false,
            is_stuck: false,
            config: config.clone(),
        };
        ftl.count_capacity();
        for die in (0..geometry.die_count()).map(DieId::new) {
            ftl.advance_gc(now, die, platform);
        }
        ftl.see_whether_stuck();
        ftl
    }
}

impl<M: Mapping> Ftl<M> {
    /// Records the present state of a device that has kept no records so far, as one that is
    /// preconditioned. Nothing is in flight.
    pub fn record_state<P: Platform>(&self, platform: &mut P) {
        assert!(self.is_idle(), "what is in flight cannot be recorded");
        for block in (0..self.geometry.block_count()).map(BlockAddr::new) {
            if self.allocator.block(block).wear > 0 {
                platform.record(Record::Erased(block, self.allocator.block(block).wear));
            }
            if let Some(last) = self.allocator.begun(block).checked_sub(1) {
                platform.record(Record::Begun(self.geometry.unit_on(block, last)));
            }
        }
        for lpa in (0..self.logical_page_count).map(Lpa::new) {
            if let Some(ppa) = self.mapping.lookup(lpa) {
                platform.record(Record::Mapped(lpa, ppa));
            }
        }
    }
}

/// What is known of each block; of most that they are as the factory made them.
fn block_records<D: Durable>(
    geometry: &FlashGeometry,
    durable: &D,
    judge: Judge<'_>,
) -> Result<Vec<BlockRecord>, UnsoundTables> {
    let mut blocks = vec![BlockRecord::default(); geometry.block_count() as usize];
    for (block, record) in durable.blocks() {
        match blocks.get_mut(block.index()) {
            Some(known) if record.begun <= geometry.units_per_block => {
                *known = record;
                if !record.begun.is_multiple_of(geometry.units_per_page) {
                    judge(UnsoundTables::PartOfPage(block))?;
                    known.begun = record.begun.next_multiple_of(geometry.units_per_page);
                }
            }
            Some(known) => {
                judge(UnsoundTables::NoSuchBlock(block))?;
                // One bad word is one complaint: what is mapped there may be right.
                known.begun = geometry.units_per_block;
            }
            None => judge(UnsoundTables::NoSuchBlock(block))?,
        }
    }
    Ok(blocks)
}

/// As far as a block can begin.
pub(super) fn last_page(geometry: &FlashGeometry, block: BlockAddr) -> Ppa {
    geometry.unit_on(block, geometry.units_per_block - 1)
}

#[inline]
fn check_place(
    geometry: &FlashGeometry,
    logical_page_count: u64,
    blocks: &[BlockRecord],
    (lpa, ppa): (Lpa, Ppa),
) -> Result<(), UnsoundTables> {
    if lpa.get() >= logical_page_count {
        return Err(UnsoundTables::NoSuchPage(lpa));
    }
    if ppa.get() >= geometry.unit_count() {
        return Err(UnsoundTables::NoSuchPlace(lpa, ppa));
    }
    let block = &blocks[geometry.block_of(ppa).index()];
    if block.is_retired {
        return Err(UnsoundTables::Retired(lpa, ppa));
    }
    if geometry.unit_in_block(ppa) >= block.begun {
        return Err(UnsoundTables::NothingThere(lpa, ppa));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
