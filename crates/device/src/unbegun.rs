//! Pages that have not begun, against the flash: a device programs them, and flash takes no program
//! of a page that holds one.
//!
//! One search for opening, which refuses the image at the first such page, and for `fsck`, which
//! tells all of them. Only what has room on the disk is looked at: a new image costs nothing.

use crate::layout::Layout;
use crate::media::Media;
use crate::tables::Tables;
use firmware::Durable;
use std::ops::Range;
use units::{BlockAddr, Ppa};

/// What is wrong with a page that has not begun.
pub fn sentence(ppa: Ppa) -> String {
    format!("{ppa} is programmed, and has not begun")
}

/// The pages of an image that have not begun, block by block.
pub struct Unbegun<'a> {
    media: &'a Media,
    layout: Layout,
    /// By block, how many of its pages have begun.
    begun: Vec<u32>,
    /// What has room on the disk, by page.
    present: Vec<Range<u64>>,
}

impl<'a> Unbegun<'a> {
    /// Of an image whose tables may be damaged.
    pub fn of(tables: &Tables, media: &'a Media, layout: Layout) -> Self {
        let mut begun = vec![0; layout.blocks];
        for (block, record) in tables.blocks() {
            if let Some(known) = begun.get_mut(block.index()) {
                *known = record.begun;
            }
        }
        let present = media.ever_programmed();
        Self {
            media,
            layout,
            begun,
            present,
        }
    }

    /// Erase blocks.
    pub fn blocks(&self) -> impl Iterator<Item = BlockAddr> + use<> {
        let count = u32::try_from(self.layout.blocks).expect("blocks have 32-bit numbers");
        (0..count).map(BlockAddr::new)
    }

    /// The pages of a block that have not begun.
    pub fn pages(&self, block: BlockAddr) -> Range<u64> {
        let first = self.layout.first_page(block).get();
        let end = first + self.layout.block_pages as u64;
        (first + u64::from(self.begun[block.index()])).min(end)..end
    }

    /// Those of them that are programmed all the same.
    pub fn programmed(&self, block: BlockAddr) -> impl Iterator<Item = Ppa> + '_ {
        let pages = self.pages(block);
        let from = self
            .present
            .partition_point(|range| range.end <= pages.start);
        let present = self.present[from..].iter();
        let of_block = present
            .map(move |range| range.start.max(pages.start)..range.end.min(pages.end))
            .take_while(|range| !range.is_empty());
        let programmed = |ppa: &Ppa| self.media.holder(*ppa).is_some();
        of_block.flatten().map(Ppa::new).filter(programmed)
    }

    /// The first one of the image.
    pub fn first_programmed(&self) -> Option<Ppa> {
        self.blocks()
            .find_map(|block| self.programmed(block).next())
    }
}
