//! Where things are in the two files of an image. `docs/formats/image.md` is this file in words.

use crate::config::DeviceConfig;
use crate::latency::LATENCY_BYTES;
use crate::superblock::SUPERBLOCK_BYTES;
use firmware::BufferId;
use units::address::LINE_BYTES;
use units::{BlockAddr, FrameId, LineAddr, LineInPage, LogSlot, Lpa, Ppa};

/// Bytes of an entry of the TxLog (ByteFS §4.3).
const TX_ENTRY_BYTES: usize = 4;
/// Bytes of the header of a slot of the log, of a page buffer, and of a page's spare area.
pub const HEADER_BYTES: usize = 16;
/// Bytes of the header of a frame that is kept: as others, and a bit for each line.
const FRAME_HEADER_BYTES: usize = HEADER_BYTES + 32;
/// Bytes of the region of counters.
pub const COUNTER_BYTES: usize = 4096;
/// Where the region of latencies begins.
const LATENCIES_AT: usize = SUPERBLOCK_BYTES + COUNTER_BYTES;
/// Regions begin at multiples of this.
const ALIGNMENT: usize = 4096;

/// Where the regions begin; all in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Bytes of a logical page, which fills a mapping unit.
    pub page: usize,
    /// Lines of the log, both halves.
    pub slots: usize,
    /// Page buffers of controller and GC.
    pub buffers: usize,
    /// Entries of the TxLog.
    pub tx_entries: usize,
    /// Logical pages.
    pub logical_pages: usize,
    /// Erase blocks.
    pub blocks: usize,
    /// Mapping units of a block.
    pub block_pages: usize,
    /// Mapping units of a flash page.
    pub page_units: usize,
    slot_headers_at: usize,
    slots_at: usize,
    buffer_headers_at: usize,
    buffers_at: usize,
    tx_log_at: usize,
    mapping_at: usize,
    blocks_at: usize,
    /// Of flash that ages.
    days_at: Option<usize>,
    /// The window.
    window_at: usize,
    /// Frames of the data cache that are kept.
    pub frames: usize,
    frame_headers_at: usize,
    frames_at: usize,
    /// A line on its way into one of them, its header first.
    incoming_at: usize,
    /// Length of the DRAM file.
    pub dram_bytes: usize,
    pages_at: usize,
    /// Length of the media file.
    pub media_bytes: usize,
}

impl Layout {
    /// Of a device.
    pub fn new(config: &DeviceConfig) -> Self {
        let geometry = config.geometry();
        let page = index(geometry.unit_size.bytes().get());
        let slots = index(2 * config.ssd.log.half_slot_count());
        let buffers = index(config.controller().buffer_count());
        let tx_entries = index(config.ssd.log.tx_log.get()) / TX_ENTRY_BYTES;
        let logical_pages = index(config.ftl.exported_pages(&geometry));
        let (blocks, block_pages) = (
            geometry.block_count() as usize,
            geometry.units_per_block as usize,
        );
        let mut next = LATENCIES_AT + LATENCY_BYTES.next_multiple_of(ALIGNMENT);
        let mut region = |size: usize| {
            let at = next;
            next = (at + size).next_multiple_of(ALIGNMENT);
            at
        };
        let slot_headers_at = region(slots * HEADER_BYTES);
        let slots_at = region(slots * line_bytes());
        let buffer_headers_at = region(buffers * HEADER_BYTES);
        let buffers_at = region(buffers * page);
        let tx_log_at = region(tx_entries * TX_ENTRY_BYTES);
        let mapping_at = region(logical_pages * 4);
        let blocks_at = region(blocks * 8);
        let days_at = (!config.faults.is_off()).then(|| region(blocks * 4));
        let window_at = region(index(config.device.pmem.get()));
        let frames = match config.ssd.power_loss_protection.keeps_frames() {
            true => index(config.ssd.frame_count(geometry.unit_size.bytes())),
            false => 0,
        };
        let frame_headers_at = region(frames * FRAME_HEADER_BYTES);
        let frames_at = region(frames * page);
        let incoming_at = region(frames.min(1) * (HEADER_BYTES + line_bytes()));
        let pages = blocks * block_pages;
        let pages_at = (SUPERBLOCK_BYTES + pages * HEADER_BYTES).next_multiple_of(ALIGNMENT);
        Self {
            page,
            slots,
            buffers,
            tx_entries,
            logical_pages,
            blocks,
            block_pages,
            page_units: geometry.units_per_page as usize,
            slot_headers_at,
            slots_at,
            buffer_headers_at,
            buffers_at,
            tx_log_at,
            mapping_at,
            blocks_at,
            days_at,
            window_at,
            frames,
            frame_headers_at,
            frames_at,
            incoming_at,
            dram_bytes: next,
            pages_at,
            media_bytes: pages_at + pages * page,
        }
    }

    /// A counter, in the DRAM file.
    #[inline]
    pub const fn counter(number: usize) -> usize {
        SUPERBLOCK_BYTES + number * 8
    }
    /// A word of the histograms of latencies, in the DRAM file.
    #[inline]
    pub const fn latency(word: usize) -> usize {
        LATENCIES_AT + word * 8
    }
    /// The header of a slot.
    #[inline]
    pub const fn slot_header(&self, slot: LogSlot) -> usize {
        self.slot_headers_at + slot.index() * HEADER_BYTES
    }
    /// The line of a slot.
    #[inline]
    pub const fn slot(&self, slot: LogSlot) -> usize {
        self.slots_at + slot.index() * line_bytes()
    }
    /// The header of a buffer.
    #[inline]
    pub const fn buffer_header(&self, buffer: BufferId) -> usize {
        self.buffer_headers_at + buffer.index() * HEADER_BYTES
    }
    /// A line of a buffer.
    #[inline]
    pub const fn buffer_line(&self, buffer: BufferId, line: LineInPage) -> usize {
        self.buffers_at + buffer.index() * self.page + line.index() * line_bytes()
    }
    /// The header of a frame that is kept.
    #[inline]
    pub const fn frame_header(&self, frame: FrameId) -> usize {
        self.frame_headers_at + frame.index() * FRAME_HEADER_BYTES
    }
    /// A line of a frame that is kept.
    #[inline]
    pub const fn frame_line(&self, frame: FrameId, line: LineInPage) -> usize {
        self.frames_at + frame.index() * self.page + line.index() * line_bytes()
    }
    /// The header of the line on its way into a frame.
    #[inline]
    pub const fn incoming_header(&self) -> usize {
        self.incoming_at
    }
    /// That line.
    #[inline]
    pub const fn incoming(&self) -> usize {
        self.incoming_at + HEADER_BYTES
    }
    /// An entry of the TxLog.
    #[inline]
    pub const fn tx_entry(&self, at: u32) -> usize {
        self.tx_log_at + at as usize * TX_ENTRY_BYTES
    }
    /// Where a logical page is.
    #[inline]
    pub fn mapping(&self, lpa: Lpa) -> usize {
        self.mapping_at + index(lpa.get()) * 4
    }
    /// What is known of an erase block.
    #[inline]
    pub const fn block(&self, block: BlockAddr) -> usize {
        self.blocks_at + block.index() * 8
    }
    /// On what day a block was written first since its last erase, if the device keeps days.
    #[inline]
    pub fn day(&self, block: BlockAddr) -> Option<usize> {
        self.days_at.map(|at| at + block.index() * 4)
    }
    /// A line of the window, counted from its first.
    #[inline]
    pub fn window(&self, line: LineAddr) -> usize {
        self.window_at + index(line.get()) * line_bytes()
    }
    /// The units of the flash page of a unit, in order.
    #[inline]
    pub fn units_of_page(&self, ppa: Ppa) -> impl Iterator<Item = Ppa> + use<> {
        let units = self.page_units as u64;
        let first = ppa.get() - ppa.get() % units;
        (first..first + units).map(Ppa::new)
    }
    /// The block of a unit, and how many units of it have begun when this one has.
    #[inline]
    pub fn begun(&self, ppa: Ppa) -> (BlockAddr, u64) {
        let pages = self.block_pages as u64;
        let block = u32::try_from(ppa.get() / pages).expect("blocks have 32-bit numbers");
        (BlockAddr::new(block), ppa.get() % pages + 1)
    }
    /// The spare area of a physical page, in the media file.
    #[inline]
    pub fn spare(&self, ppa: Ppa) -> usize {
        SUPERBLOCK_BYTES + index(ppa.get()) * HEADER_BYTES
    }
    /// Where the spare areas end, and the pages begin.
    pub const fn spares_end(&self) -> usize {
        self.pages_at
    }
    /// A physical page.
    #[inline]
    pub fn physical_page(&self, ppa: Ppa) -> usize {
        self.pages_at + index(ppa.get()) * self.page
    }
    /// Where the spare areas of physical pages behind each other are, and the pages, each with its
    /// size.
    pub fn areas(&self, first: Ppa, pages: usize) -> [(usize, usize); 2] {
        [
            (self.spare(first), pages * HEADER_BYTES),
            (self.physical_page(first), pages * self.page),
        ]
    }
    /// Whether there is such a logical page.
    #[inline]
    pub const fn has_page(&self, lpa: Lpa) -> bool {
        lpa.get() < self.logical_pages as u64
    }
    /// Whether there is such a physical page.
    #[inline]
    pub const fn has_place(&self, ppa: Ppa) -> bool {
        ppa.get() < (self.blocks * self.block_pages) as u64
    }
    /// The first page of an erase block.
    #[inline]
    pub const fn first_page(&self, block: BlockAddr) -> Ppa {
        Ppa::new((block.index() * self.block_pages) as u64)
    }
}

/// Bytes of a line.
pub const fn line_bytes() -> usize {
    LINE_BYTES.get() as usize
}

/// A number as an index.
#[inline]
pub fn index(number: u64) -> usize {
    usize::try_from(number).expect("what is in memory has an index")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_follow_each_other_and_do_not_overlap() {
        let config = DeviceConfig::of_preset("bytefs", &[]).unwrap();
        let layout = Layout::new(&config);
        let ends = [
            (layout.slot_headers_at, layout.slots * 16, layout.slots_at),
            (layout.slots_at, layout.slots * 64, layout.buffer_headers_at),
            (
                layout.buffer_headers_at,
                layout.buffers * 16,
                layout.buffers_at,
            ),
            (layout.buffers_at, layout.buffers * 4096, layout.tx_log_at),
            (layout.tx_log_at, 2 << 20, layout.mapping_at),
            (
                layout.mapping_at,
                layout.logical_pages * 4,
                layout.blocks_at,
            ),
            (layout.blocks_at, layout.blocks * 8, layout.dram_bytes),
        ];
        for (at, size, next) in ends {
            assert!(
                at + size <= next && next - (at + size) < ALIGNMENT,
                "{at} {size} {next}"
            );
        }
        assert_eq!(layout.slots, 4 << 20);
        assert_eq!(layout.logical_pages, 8 << 20);
        let last = Ppa::new((layout.blocks * layout.block_pages - 1) as u64);
        assert_eq!(layout.physical_page(last) + 4096, layout.media_bytes);
        assert!(layout.spare(last) + 16 <= layout.pages_at);
    }
}
