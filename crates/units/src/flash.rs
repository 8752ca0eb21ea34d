//! Physical flash addresses and the geometry that gives them meaning.

use crate::{Bytes, ChannelId, DieId, Divisor, PageSize};
use core::fmt;

/// A physical page: the place of one mapping unit, of which a flash page holds one or several.
///
/// It is block × units of a block + unit in the block; units of a flash page follow each other.
/// Blocks are counted die-major: those of one die are contiguous (block = die × blocks of a die +
/// block in the die); planes share that numbering, plane-minor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Ppa(u64);

impl Ppa {
    /// The physical page with this number.
    #[inline]
    pub const fn new(page: u64) -> Self {
        Self(page)
    }
    /// The number of the physical page.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
    /// The physical page `units` further on.
    #[inline]
    pub const fn offset(self, units: u32) -> Self {
        Self(self.0 + units as u64)
    }
}

impl fmt::Display for Ppa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "P{}", self.0)
    }
}
impl fmt::Debug for Ppa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A flash page, counted over the whole device: what is programmed at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct FlashPage(u64);

impl FlashPage {
    /// The number of the flash page.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// An erase block, counted over the whole device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct BlockAddr(u32);

impl BlockAddr {
    /// The block with this number.
    #[inline]
    pub const fn new(block: u32) -> Self {
        Self(block)
    }
    /// The number of the block.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }
    /// The number of the block as an index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for BlockAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {}", self.0)
    }
}

/// How the flash is organised: channel → chip → die → plane → block → flash page → mapping unit.
///
/// A flash page is what is programmed at a time; a mapping unit is what a logical page fills
/// (`ftl.mapping_unit`), what a [`Ppa`] names, and what is read at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlashGeometry {
    /// Channels of the device.
    pub channel_count: u32,
    /// Chips (ways) on a channel.
    pub chips_per_channel: u32,
    /// Dies in a chip.
    pub dies_per_chip: u32,
    /// Planes of a die.
    pub planes_per_die: u32,
    /// Erase blocks of a plane.
    pub blocks_per_plane: u32,
    /// Mapping units of an erase block: a multiple of those of a flash page.
    pub units_per_block: u32,
    /// Size of a mapping unit.
    pub unit_size: PageSize,
    /// Mapping units of a flash page: a power of two.
    pub units_per_page: u32,
}

impl FlashGeometry {
    /// Dies on a channel.
    pub const fn dies_per_channel(&self) -> u32 {
        self.chips_per_channel * self.dies_per_chip
    }
    /// Dies of the device.
    pub const fn die_count(&self) -> u32 {
        self.channel_count * self.dies_per_channel()
    }
    /// Erase blocks of a die.
    pub const fn blocks_per_die(&self) -> u32 {
        self.planes_per_die * self.blocks_per_plane
    }
    /// Erase blocks of the device.
    pub const fn block_count(&self) -> u32 {
        self.die_count() * self.blocks_per_die()
    }
    /// Mapping units of the device.
    pub const fn unit_count(&self) -> u64 {
        self.block_count() as u64 * self.units_per_block as u64
    }
    /// Size of a flash page.
    pub const fn page_size(&self) -> Bytes {
        Bytes::new(self.unit_size.bytes().get() * self.units_per_page as u64)
    }
    /// Raw capacity.
    pub const fn capacity(&self) -> Bytes {
        Bytes::new(self.unit_count() * self.unit_size.bytes().get())
    }
    /// The channel of a die. Dies are numbered so that consecutive ones are on consecutive
    /// channels: die = (die on the channel) × channels + channel.
    #[inline]
    pub const fn channel_of(&self, die: DieId) -> ChannelId {
        ChannelId::new(die.get() % self.channel_count)
    }
    /// The die of a block.
    #[inline]
    pub const fn die_of(&self, block: BlockAddr) -> DieId {
        DieId::new(block.0 / self.blocks_per_die())
    }
    /// The block of a unit.
    #[inline]
    pub const fn block_of(&self, unit: Ppa) -> BlockAddr {
        BlockAddr((unit.0 / self.units_per_block as u64) as u32)
    }
    /// The die of a unit.
    #[inline]
    pub const fn die_of_unit(&self, unit: Ppa) -> DieId {
        self.die_of(self.block_of(unit))
    }
    /// The unit's index within its block.
    #[inline]
    pub const fn unit_in_block(&self, unit: Ppa) -> u32 {
        (unit.0 % self.units_per_block as u64) as u32
    }
    /// The block number `block` of a die.
    #[inline]
    pub const fn block_on(&self, die: DieId, block: u32) -> BlockAddr {
        BlockAddr(die.get() * self.blocks_per_die() + block)
    }
    /// The unit number `unit` of a block.
    #[inline]
    pub const fn unit_on(&self, block: BlockAddr, unit: u32) -> Ppa {
        Ppa(block.0 as u64 * self.units_per_block as u64 + unit as u64)
    }
    /// The flash page of a unit, counted over the whole device.
    #[inline]
    pub const fn page_of(&self, unit: Ppa) -> FlashPage {
        FlashPage(unit.0 / self.units_per_page as u64)
    }
    /// The flash page's index within its block.
    #[inline]
    pub const fn page_in_block(&self, unit: Ppa) -> u32 {
        self.unit_in_block(unit) / self.units_per_page
    }
    /// The units of the flash page of a unit, in order.
    #[inline]
    pub fn units_of_page(&self, unit: Ppa) -> impl Iterator<Item = Ppa> + use<> {
        let first = unit.0 - unit.0 % self.units_per_page as u64;
        (first..first + self.units_per_page as u64).map(Ppa)
    }
}

/// Finds block and die of a unit, as the geometry does, for those who ask all the time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Locator {
    units_per_block: Divisor,
    blocks_per_die: Divisor,
}

impl Locator {
    /// That of a geometry.
    pub const fn new(geometry: &FlashGeometry) -> Self {
        Self {
            units_per_block: Divisor::new(geometry.units_per_block as u64),
            blocks_per_die: Divisor::new(geometry.blocks_per_die() as u64),
        }
    }
    /// The block of a unit.
    #[inline(always)]
    pub const fn block_of(&self, unit: Ppa) -> BlockAddr {
        BlockAddr(self.units_per_block.quotient(unit.0) as u32)
    }
    /// The die of a block.
    #[inline(always)]
    pub const fn die_of(&self, block: BlockAddr) -> DieId {
        DieId::new(self.blocks_per_die.quotient(block.0 as u64) as u32)
    }
    /// Die and block of a unit.
    #[inline(always)]
    pub const fn locate(&self, unit: Ppa) -> (DieId, BlockAddr) {
        let block = self.block_of(unit);
        (self.die_of(block), block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// SkyByte Table II.
    const TABLE_II: FlashGeometry = FlashGeometry {
        channel_count: 16,
        chips_per_channel: 8,
        dies_per_chip: 8,
        planes_per_die: 1,
        blocks_per_plane: 128,
        units_per_block: 256,
        unit_size: PageSize::KIB_4,
        units_per_page: 1,
    };

    #[test]
    fn table_ii_is_128_gib_on_1024_dies() {
        assert_eq!(TABLE_II.die_count(), 1024);
        assert_eq!(TABLE_II.capacity(), Bytes::new(128 << 30));
    }

    #[test]
    fn a_physical_page_is_taken_apart_and_put_together() {
        for number in [0, 255, 256, 32_768, TABLE_II.unit_count() - 1] {
            let page = Ppa::new(number);
            let block = TABLE_II.block_of(page);
            assert_eq!(TABLE_II.unit_on(block, TABLE_II.unit_in_block(page)), page);
            let die = TABLE_II.die_of(block);
            let in_die = block.get() - TABLE_II.block_on(die, 0).get();
            assert_eq!(TABLE_II.block_on(die, in_die), block);
        }
        assert_eq!(TABLE_II.channel_of(DieId::new(17)), ChannelId::new(1));
    }

    #[test]
    fn a_locator_says_what_the_geometry_says() {
        let odd = FlashGeometry {
            blocks_per_plane: 100,
            units_per_block: 192,
            ..TABLE_II
        };
        for geometry in [TABLE_II, odd] {
            let locator = Locator::new(&geometry);
            for number in [0, 191, 192, 255, 256, 32_768, geometry.unit_count() - 1] {
                let unit = Ppa::new(number);
                let block = geometry.block_of(unit);
                assert_eq!(locator.locate(unit), (geometry.die_of(block), block));
            }
        }
    }

    #[test]
    fn a_flash_page_of_16_kib_has_four_units_in_a_row() {
        let geometry = FlashGeometry {
            units_per_block: 1024,
            units_per_page: 4,
            ..TABLE_II
        };
        assert_eq!(geometry.capacity(), Bytes::new(512 << 30));
        let unit = Ppa::new(1024 + 6);
        assert_eq!(geometry.block_of(unit), BlockAddr::new(1));
        assert_eq!(geometry.page_of(unit).get(), 256 + 1);
        assert_eq!(geometry.page_in_block(unit), 1);
        let page: Vec<u64> = geometry.units_of_page(unit).map(Ppa::get).collect();
        assert_eq!(page, [1028, 1029, 1030, 1031]);
    }
}
