//! Physical flash addresses and the geometry that gives them meaning.

use crate::{Bytes, ChannelId, DieId, PageSize};
use core::fmt;

/// A physical page: block × pages of a block + page in the block, blocks counted die-major.
///
/// Blocks of one die are contiguous (block = die × blocks of a die + block in the die); planes
/// share that numbering, plane-minor.
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

/// How the flash is organised: channel → chip → die → plane → block → page.
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
    /// Pages of an erase block.
    pub pages_per_block: u32,
    /// Size of a page.
    pub page_size: PageSize,
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
    /// Physical pages of the device.
    pub const fn page_count(&self) -> u64 {
        self.block_count() as u64 * self.pages_per_block as u64
    }
    /// Raw capacity.
    pub const fn capacity(&self) -> Bytes {
        Bytes::new(self.page_count() * self.page_size.bytes().get())
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
    /// The block of a page.
    #[inline]
    pub const fn block_of(&self, page: Ppa) -> BlockAddr {
        BlockAddr((page.0 / self.pages_per_block as u64) as u32)
    }
    /// The die of a page.
    #[inline]
    pub const fn die_of_page(&self, page: Ppa) -> DieId {
        self.die_of(self.block_of(page))
    }
    /// The page's index within its block.
    #[inline]
    pub const fn page_in_block(&self, page: Ppa) -> u32 {
        (page.0 % self.pages_per_block as u64) as u32
    }
    /// The block number `block` of a die.
    #[inline]
    pub const fn block_on(&self, die: DieId, block: u32) -> BlockAddr {
        BlockAddr(die.get() * self.blocks_per_die() + block)
    }
    /// The page number `page` of a block.
    #[inline]
    pub const fn page_on(&self, block: BlockAddr, page: u32) -> Ppa {
        Ppa(block.0 as u64 * self.pages_per_block as u64 + page as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SkyByte Table II.
    const TABLE_II: FlashGeometry = FlashGeometry {
        channel_count: 16,
        chips_per_channel: 8,
        dies_per_chip: 8,
        planes_per_die: 1,
        blocks_per_plane: 128,
        pages_per_block: 256,
        page_size: PageSize::KIB_4,
    };

    #[test]
    fn table_ii_is_128_gib_on_1024_dies() {
        assert_eq!(TABLE_II.die_count(), 1024);
        assert_eq!(TABLE_II.capacity(), Bytes::new(128 << 30));
    }

    #[test]
    fn a_physical_page_is_taken_apart_and_put_together() {
        for number in [0, 255, 256, 32_768, TABLE_II.page_count() - 1] {
            let page = Ppa::new(number);
            let block = TABLE_II.block_of(page);
            assert_eq!(TABLE_II.page_on(block, TABLE_II.page_in_block(page)), page);
            let die = TABLE_II.die_of(block);
            let in_die = block.get() - TABLE_II.block_on(die, 0).get();
            assert_eq!(TABLE_II.block_on(die, in_die), block);
        }
        assert_eq!(TABLE_II.channel_of(DieId::new(17)), ChannelId::new(1));
    }
}
