//! The device as it stands before the run, as a formula (D18).
//!
//! Nothing is stored per page: 128 GiB and 2 TiB cost the same few hundred bytes. Every die holds
//! the same number of pages. Its first blocks are full and partly overwritten, the oldest most (a
//! linear ramp, which is what greedy GC of evenly spread overwrites leaves behind); one block is
//! open, and dies stand at different places in it, so that they do not collect garbage in step;
//! the rest are free.
//!
//! A page is at (die, position), `position` a bijection of its number within the die that
//! scatters neighbours over blocks. A Bresenham line through the positions picks those that lie in
//! the open block.

use super::config::{FtlConfig, GcKind};
use alloc::vec::Vec;
use units::{BlockAddr, DieId, Divisor, FlashGeometry, Locator, Lpa, Ppa, Ratio};

/// How the pages of one die are laid out at the start; the same for every die.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Pages of a die that are exported.
    pub exported: u64,
    /// Exported pages that hold data.
    pub mapped: u64,
    /// Blocks that have been written from end to end.
    pub full_blocks: u32,
    /// Most blocks that may be full at the start, given the watermark of GC.
    pub full_block_limit: u32,
}

impl Layout {
    /// The layout that `config` asks for on this flash.
    pub fn new(geometry: &FlashGeometry, config: &FtlConfig) -> Self {
        let blocks = geometry.blocks_per_die();
        let block_pages = u64::from(geometry.units_per_block);
        let raw = u64::from(blocks) * block_pages;
        let exported = raw.saturating_sub(config.over_provisioning.of(raw));
        let mapped = config.fill.of(exported);
        let free_floor = match config.gc {
            GcKind::Incremental => config.gc_start_blocks,
            GcKind::Bulk => {
                let in_use = config.gc_threshold.of(u64::from(blocks));
                blocks
                    .saturating_sub(u32::try_from(in_use).unwrap_or(blocks))
                    .max(config.reserve_blocks.saturating_add(1))
            }
        };
        let full_block_limit = blocks.saturating_sub(free_floor).saturating_sub(1);
        let overwritten = config.overwritten.of(mapped);
        let written = mapped.saturating_add(overwritten).div_ceil(block_pages);
        let full_blocks = u32::try_from(written)
            .map_or(full_block_limit, |written| written.min(full_block_limit));
        Self {
            exported,
            mapped,
            full_blocks,
            full_block_limit,
        }
    }

    /// Whether the mapped pages fit in the blocks that may be full.
    pub fn fits(&self, geometry: &FlashGeometry) -> bool {
        self.mapped <= u64::from(self.full_block_limit) * u64::from(geometry.units_per_block)
    }
}

/// The mapping before the run: both directions by arithmetic.
#[derive(Clone, Debug)]
pub struct Precondition {
    geometry: FlashGeometry,
    locator: Locator,
    /// Of the geometry: dies, and units of a block.
    dies: Divisor,
    block_units: Divisor,
    layout: Layout,
    /// Positions below each full block: block `i` holds `starts[i]..starts[i + 1]`, less those in
    /// the open block.
    starts: Vec<u64>,
    /// For the first of each 2 to the power of `hint_bits` positions: which block that is. A few
    /// steps from there are quicker than a search among all blocks.
    hints: Vec<u32>,
    hint_bits: u32,
    /// position = number within the die × step, modulo `layout.mapped`.
    step: u64,
    /// The inverse of `step` modulo `layout.mapped`.
    inverse: u64,
    /// 0, or what each stripe is turned by.
    placement: u64,
}

impl Precondition {
    /// The state that `config` describes; the configuration is valid for this flash.
    pub fn new(geometry: FlashGeometry, config: &FtlConfig) -> Self {
        let layout = Layout::new(&geometry, config);
        assert!(
            layout.fits(&geometry),
            "the preconditioned pages fit in full blocks"
        );
        let (step, inverse) = scatter(layout.mapped);
        let starts = ramp(&layout, u64::from(geometry.units_per_block));
        let hint_bits = geometry.units_per_block.ilog2();
        Self {
            hints: hints(&starts, layout.mapped, hint_bits),
            hint_bits,
            starts,
            locator: Locator::new(&geometry),
            dies: Divisor::new(geometry.die_count().into()),
            block_units: Divisor::new(geometry.units_per_block.into()),
            geometry,
            layout,
            step,
            inverse,
            placement: config.placement,
        }
    }

    /// A device that holds nothing, with the logical space of `config`.
    pub fn empty(geometry: FlashGeometry, config: &FtlConfig) -> Self {
        let nothing = FtlConfig {
            fill: Ratio::percent(0),
            ..config.clone()
        };
        Self::new(geometry, &nothing)
    }

    /// Pages of the exported logical space: a whole number of stripes over the dies.
    pub fn logical_page_count(&self) -> u64 {
        self.layout.exported * u64::from(self.geometry.die_count())
    }
    /// Pages that hold data: LPAs below this.
    pub fn mapped_page_count(&self) -> u64 {
        self.layout.mapped * u64::from(self.geometry.die_count())
    }
    /// Mapped pages of each die.
    pub fn mapped_per_die(&self) -> u64 {
        self.layout.mapped
    }
    /// Full blocks of each die: those numbered below this.
    pub fn full_blocks(&self) -> u32 {
        self.layout.full_blocks
    }

    /// Pages already programmed in the open block of a die, which is block `full_blocks()`.
    pub fn open_pages(&self, die: DieId) -> u32 {
        // The golden ratio spreads any run of dies evenly over the block.
        let share = u64::from(die.get().wrapping_mul(0x9e37_79b1));
        let pages = (share * u64::from(self.geometry.units_per_block)) >> 32;
        pages.min(self.layout.mapped) as u32
    }

    /// Where a page is.
    pub fn lookup(&self, lpa: Lpa) -> Option<Ppa> {
        if lpa.get() >= self.mapped_page_count() {
            return None;
        }
        let stripe = self.dies.quotient(lpa.get());
        let die = self.dies.rest(lpa.get() + self.turn(stripe));
        let die = DieId::new(die as u32);
        let mapped = self.layout.mapped;
        let position = stripe * self.step % mapped;
        if let Some(page) = self.open_page_of(die, position) {
            let block = self.geometry.block_on(die, self.layout.full_blocks);
            return Some(self.geometry.unit_on(block, page));
        }
        let block = self.full_block_of(position);
        let held = self.starts[block + 1] - self.starts[block];
        let nth = position - self.starts[block];
        let page = nth * u64::from(self.geometry.units_per_block) / held;
        Some(
            self.geometry
                .unit_on(self.geometry.block_on(die, block as u32), page as u32),
        )
    }

    /// Which page is there, if a valid one is.
    pub fn reverse(&self, ppa: Ppa) -> Option<Lpa> {
        let (die, block) = self.locator.locate(ppa);
        let page = self.block_units.rest(ppa.get()) as u32;
        let in_die = self.block_in_die(block, die);
        let position = if in_die < self.layout.full_blocks {
            self.position_in_full(in_die, page)
                .filter(|position| self.open_page_of(die, *position).is_none())
        } else if in_die == self.layout.full_blocks && page < self.open_pages(die) {
            let open = u64::from(self.open_pages(die));
            Some((u64::from(page + 1) * self.layout.mapped).div_ceil(open) - 1)
        } else {
            None
        }?;
        let number = position * self.inverse % self.layout.mapped;
        let dies = u64::from(self.geometry.die_count());
        let turned = u64::from(die.get()) + dies - self.turn(number);
        Some(Lpa::new(number * dies + self.dies.rest(turned)))
    }

    /// By how many dies a stripe of pages is turned.
    fn turn(&self, stripe: u64) -> u64 {
        if self.placement == 0 {
            return 0;
        }
        // The finaliser of SplitMix64.
        let mut bits = stripe.wrapping_add(self.placement.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ bits >> 31) % u64::from(self.geometry.die_count())
    }

    /// Valid pages of each block, in the order of blocks.
    pub fn valid_counts(&self) -> Vec<u32> {
        let blocks = self.geometry.blocks_per_die() as usize;
        let dies = self.geometry.die_count();
        let mut counts = Vec::with_capacity(blocks * dies as usize);
        let mapped = self.layout.mapped.max(1);
        for die in (0..dies).map(DieId::new) {
            // What lies in the open block is not in the full ones.
            let open = self.open_pages(die);
            let mut below = 0;
            counts.extend(self.starts[1..].iter().map(|end| {
                let until = end - end * u64::from(open) / mapped;
                (until - core::mem::replace(&mut below, until)) as u32
            }));
            counts.push(open);
            counts.resize(blocks * (die.get() as usize + 1), 0);
        }
        counts
    }

    fn block_in_die(&self, block: BlockAddr, die: DieId) -> u32 {
        block.get() - self.geometry.block_on(die, 0).get()
    }
    /// The position that a page of a full block holds, unless it is an overwritten copy.
    fn position_in_full(&self, block: u32, page: u32) -> Option<u64> {
        let block_pages = u64::from(self.geometry.units_per_block);
        let start = self.starts[block as usize];
        let held = self.starts[block as usize + 1] - start;
        let nth = u64::from(page) * held + block_pages - 1;
        let nth = self.block_units.quotient(nth);
        (nth < held && nth * block_pages / held == u64::from(page)).then_some(start + nth)
    }
    /// The full block that holds `position`, unless the open block does: the last one that starts
    /// there or before.
    #[inline]
    fn full_block_of(&self, position: u64) -> usize {
        let mut block = self.hints[(position >> self.hint_bits) as usize] as usize;
        while self.starts[block + 1] <= position {
            block += 1;
        }
        block
    }
    /// The page of the open block that holds `position`, if the open block does.
    fn open_page_of(&self, die: DieId, position: u64) -> Option<u32> {
        // One more below the next position than below this one: of as many as `mapped`, the
        // remainder and the pages of one position more make a whole.
        let open = u64::from(self.open_pages(die));
        let mapped = self.layout.mapped.max(1);
        let (page, rest) = (position * open / mapped, position * open % mapped);
        (rest + open >= mapped).then_some(page as u32)
    }
}

/// Positions below each full block. The overwritten copies fall off linearly from the oldest block
/// to none; when they are more than half, the valid pages rise linearly from none instead.
fn ramp(layout: &Layout, block_pages: u64) -> Vec<u64> {
    let blocks = u64::from(layout.full_blocks);
    let overwritten = (blocks * block_pages).saturating_sub(layout.mapped);
    let share = |pages: u64, part: u64| {
        let square = u128::from(blocks) * u128::from(blocks);
        (u128::from(pages) * u128::from(part) * u128::from(part) / square.max(1)) as u64
    };
    (0..=blocks)
        .map(|below| {
            if overwritten * 2 > blocks * block_pages {
                share(layout.mapped, below)
            } else {
                below * block_pages - (overwritten - share(overwritten, blocks - below))
            }
        })
        .collect()
}

/// Which block holds the first of each 2 to the power of `bits` of `mapped` positions.
fn hints(starts: &[u64], mapped: u64, bits: u32) -> Vec<u32> {
    let firsts = (0..mapped).step_by(1 << bits);
    let block = |first| starts.partition_point(|start| *start <= first) as u32 - 1;
    firsts.map(block).collect()
}

/// A multiplier near the golden section of `modulus` that has an inverse, and the inverse.
fn scatter(modulus: u64) -> (u64, u64) {
    let mut step = (modulus * 618 / 1000).max(1);
    loop {
        if let Some(inverse) = inverse(step, modulus) {
            return (step, inverse);
        }
        step += 1;
    }
}

/// The number whose product with `value` is one modulo `modulus`, if they are coprime.
fn inverse(value: u64, modulus: u64) -> Option<u64> {
    let (mut old_rest, mut rest) = (i128::from(value), i128::from(modulus.max(1)));
    let (mut old_factor, mut factor) = (1i128, 0i128);
    while rest != 0 {
        let quotient = old_rest / rest;
        (old_rest, rest) = (rest, old_rest - quotient * rest);
        (old_factor, factor) = (factor, old_factor - quotient * factor);
    }
    (old_rest == 1).then(|| old_factor.rem_euclid(i128::from(modulus.max(1))) as u64)
}

#[cfg(test)]
mod tests;
