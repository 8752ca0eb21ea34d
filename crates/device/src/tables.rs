//! Battery-backed DRAM: bytes of log, buffers and frames that are kept, and what they mean.
//!
//! Every [`Record`] is one table entry, made valid or void by one aligned store, which is the last
//! one of the record: a process that is killed leaves it wholly there or not at all. The bytes it
//! vouches for were stored before it, in program order ([`Mapped::store`]).

use crate::layout::{HEADER_BYTES, Layout, line_bytes};
use crate::mapped::Mapped;
use firmware::{
    BlockRecord, BufferId, BufferedPage, Durable, KeptFrame, LoggedLine, PowerLossProtection,
    Record, WriteOrder,
};
use nand::Day;
use std::ops::Range;
use units::{BlockAddr, FrameId, LineAddr, LineInPage, LineMask, LogSlot, Lpa, Ppa, TxId};

/// Bit of the first word of a header: it counts.
const COUNTS: u64 = 1;
/// Bit of the first word of a buffer's header: its page is on flash, at the place that the second
/// word has above the page.
const ON_FLASH: u64 = 2;
/// Where that place is in the second word.
const PLACE_SHIFT: u32 = 32;
/// Slots of which is asked at once whether any counts.
const RUN: usize = 256;
/// Where the order begins in that word, above flags and line.
const ORDER_SHIFT: u32 = 16;
/// Where the line is in that word.
const LINE_SHIFT: u32 = 8;
/// Where the pages that have begun are in the word of a block, above its wear.
const BEGUN_SHIFT: u32 = 32;
/// Bit of that word: the block is retired.
const RETIRED: u64 = 1 << 63;
/// Bit of that word: a program of the block has failed.
const CONDEMNED: u64 = 1 << 62;
/// Both.
const LOST: u64 = RETIRED | CONDEMNED;
/// The numbers of frames, in the header of a line on its way into one.
const FRAMES: u64 = u32::MAX as u64;

/// The DRAM file in memory.
#[derive(Debug)]
pub struct Tables {
    map: Mapped,
    layout: Layout,
}

impl Tables {
    /// The file has the length that the layout says.
    pub fn new(map: Mapped, layout: Layout) -> Self {
        assert_eq!(map.len(), layout.dram_bytes, "the file has been checked");
        Self { map, layout }
    }

    /// The tables as they are now, in memory alone.
    ///
    /// # Errors
    /// The system has not so much memory.
    pub fn snapshot(&self) -> std::io::Result<Self> {
        Ok(Self::new(self.map.snapshot()?, self.layout))
    }

    /// The file, for what lies outside the tables.
    pub fn map(&self) -> &Mapped {
        &self.map
    }

    /// The file, to change what lies outside the tables.
    pub fn map_mut(&mut self) -> &mut Mapped {
        &mut self.map
    }

    /// The line of a slot.
    #[inline]
    pub fn slot(&self, slot: LogSlot) -> &[u8] {
        self.map.bytes(self.layout.slot(slot), line_bytes())
    }
    /// The line of a slot, to be written.
    #[inline]
    pub fn slot_mut(&mut self, slot: LogSlot) -> &mut [u8] {
        self.map.bytes_mut(self.layout.slot(slot), line_bytes())
    }
    /// A slot is looked at soon, and its header changes.
    #[inline]
    pub fn foresee(&self, slot: LogSlot) {
        self.map.foresee(self.layout.slot(slot), line_bytes());
        self.map
            .foresee(self.layout.slot_header(slot), HEADER_BYTES);
    }
    /// A line of the window.
    #[inline]
    pub fn window(&self, line: LineAddr) -> &[u8] {
        self.map.bytes(self.layout.window(line), line_bytes())
    }
    /// A line of the window, to be written.
    #[inline]
    pub fn window_mut(&mut self, line: LineAddr) -> &mut [u8] {
        self.map.bytes_mut(self.layout.window(line), line_bytes())
    }
    /// Lines of a buffer, from `line` on.
    #[inline]
    pub fn buffer(&self, buffer: BufferId, line: LineInPage, size: usize) -> &[u8] {
        let at = self.layout.buffer_line(buffer, line);
        self.map.bytes(at, size)
    }
    /// Lines of a buffer, from `line` on, to be written.
    #[inline]
    pub fn buffer_mut(&mut self, buffer: BufferId, line: LineInPage, size: usize) -> &mut [u8] {
        let at = self.layout.buffer_line(buffer, line);
        self.map.bytes_mut(at, size)
    }
    /// Bytes of a frame that is kept, from `line` on.
    #[inline]
    pub fn frame(&self, frame: FrameId, line: LineInPage, size: usize) -> &[u8] {
        self.map.bytes(self.layout.frame_line(frame, line), size)
    }
    /// Bytes of a frame that counts for nothing yet, from `line` on, to be written.
    #[inline]
    pub fn frame_mut(&mut self, frame: FrameId, line: LineInPage, size: usize) -> &mut [u8] {
        self.map
            .bytes_mut(self.layout.frame_line(frame, line), size)
    }
    /// Writes a line of a frame, which may count: a process that is killed leaves it as it was or
    /// as it is to be. It is written beside the frame first, and from there by whoever opens the
    /// image next.
    #[inline]
    pub fn write_frame_line(&mut self, frame: FrameId, line: LineInPage, bytes: &[u8]) {
        let incoming = self.layout.incoming();
        self.map
            .bytes_mut(incoming, line_bytes())
            .copy_from_slice(bytes);
        let place = u64::from(frame.get()) << ORDER_SHIFT | u64::from(line.get()) << LINE_SHIFT;
        self.map
            .store(self.layout.incoming_header(), place | COUNTS);
        self.end_frame_line();
    }
    /// The line that is on its way into a frame, if there is one. Of damaged tables it may be one
    /// that there is not.
    pub fn incoming(&self) -> Option<(FrameId, LineInPage)> {
        if self.layout.frames == 0 {
            return None;
        }
        let word = self.map.load(self.layout.incoming_header());
        let line = u16::from((word >> LINE_SHIFT) as u8);
        let frame = FrameId::from_index((word >> ORDER_SHIFT & FRAMES) as usize);
        (word & COUNTS != 0).then_some((frame, LineInPage::new(line)))
    }
    /// Whether there is such a frame, and such a line of it.
    pub fn has_frame_line(&self, frame: FrameId, line: LineInPage) -> bool {
        frame.index() < self.layout.frames && line.index() * line_bytes() < self.layout.page
    }
    /// Brings a line that is on its way into a frame there, if there is one. The tables are sound.
    pub fn end_frame_line(&mut self) {
        if let Some((frame, line)) = self.incoming() {
            let to = self.layout.frame_line(frame, line);
            self.map.copy(self.layout.incoming(), to, line_bytes());
            self.map.store(self.layout.incoming_header(), 0);
        }
    }
    /// Copies a line from a slot into a buffer.
    #[inline]
    pub fn slot_to_buffer(&mut self, slot: LogSlot, buffer: BufferId, line: LineInPage) {
        let (from, to) = (
            self.layout.slot(slot),
            self.layout.buffer_line(buffer, line),
        );
        self.map.copy(from, to, line_bytes());
    }
    /// Copies a line from a slot to another.
    #[inline]
    pub fn slot_to_slot(&mut self, from: LogSlot, to: LogSlot) {
        let (from, to) = (self.layout.slot(from), self.layout.slot(to));
        self.map.copy(from, to, line_bytes());
    }
    /// Copies bytes from a buffer to another.
    #[inline]
    pub fn buffer_to_buffer(
        &mut self,
        from: BufferId,
        to: BufferId,
        line: LineInPage,
        size: usize,
    ) {
        let (from, to) = (
            self.layout.buffer_line(from, line),
            self.layout.buffer_line(to, line),
        );
        self.map.copy(from, to, size);
    }

    /// Where a logical page is.
    #[inline]
    pub fn place_of(&self, lpa: Lpa) -> Option<Ppa> {
        match self.map.load_half(self.layout.mapping(lpa)) {
            0 => None,
            place => Some(Ppa::new(u64::from(place - 1))),
        }
    }

    /// Keeps the day on which the first flash page of a block is programmed. Others say nothing.
    #[inline]
    pub fn note_day(&mut self, ppa: Ppa, day: Day) {
        let (block, begun) = self.layout.begun(ppa);
        if begun <= self.layout.page_units as u64
            && let Some(at) = self.layout.day(block)
        {
            self.map.store_half(at, day.get());
        }
    }

    /// The day that was kept of a block.
    pub fn day(&self, block: BlockAddr) -> Option<Day> {
        let at = self.layout.day(block)?;
        Some(Day::new(self.map.load_half(at)))
    }

    /// Whether a logical page exists and is there.
    #[inline]
    pub fn knows(&self, lpa: Lpa, ppa: Ppa) -> bool {
        self.layout.has_page(lpa) && self.place_of(lpa) == Some(ppa)
    }

    /// What a device loses with its power that has not a battery for all of it: log and buffers,
    /// or the latter alone, bytes and meaning. Mapping and blocks such a drive keeps on flash, in a
    /// way of its own.
    pub fn lose(&mut self, protection: PowerLossProtection) {
        match protection {
            PowerLossProtection::Battery | PowerLossProtection::Dram => {}
            PowerLossProtection::Log => self.lose_buffers(),
            PowerLossProtection::None => {
                self.lose_log();
                self.lose_buffers();
            }
        }
    }

    fn lose_log(&mut self) {
        for slot in (0..self.layout.slots).map(LogSlot::from_index) {
            self.record(Record::Dropped(slot));
            self.slot_mut(slot).fill(u8::MAX);
        }
    }

    fn lose_buffers(&mut self) {
        for buffer in (0..self.layout.buffers).map(BufferId::from_index) {
            self.record(Record::Unbuffered(buffer));
            let page = self.layout.page;
            self.buffer_mut(buffer, LineInPage::new(0), page)
                .fill(u8::MAX);
        }
    }

    /// Applies a record.
    #[inline]
    pub fn record(&mut self, record: Record) {
        match record {
            Record::Logged(slot, line) => self.log(slot, &line),
            Record::Dropped(slot) => self.map.store(self.layout.slot_header(slot), 0),
            Record::Buffered(buffer, page) => self.buffer_page(buffer, page),
            Record::Unbuffered(buffer) => self.map.store(self.layout.buffer_header(buffer), 0),
            Record::Framed(frame, kept) => {
                let at = self.layout.frame_header(frame);
                self.map.store(at + 8, kept.lpa.get());
                for (nth, word) in kept.lines.words().into_iter().enumerate() {
                    self.map.store(at + HEADER_BYTES + 8 * nth, word);
                }
                self.map.store(at, kept.order.get() << ORDER_SHIFT | COUNTS);
            }
            Record::FramedMore(frame, lines) => {
                let at = self.layout.frame_header(frame) + HEADER_BYTES;
                for (nth, word) in lines.words().into_iter().enumerate() {
                    let before = self.map.load(at + 8 * nth);
                    self.map.store(at + 8 * nth, before | word);
                }
            }
            Record::Unframed(frame) => self.map.store(self.layout.frame_header(frame), 0),
            Record::Committed { at, tx } => {
                self.map.store_half(self.layout.tx_entry(at), tx.get());
            }
            Record::Forgotten { at } => self.map.store_half(self.layout.tx_entry(at), 0),
            Record::Mapped(lpa, ppa) => {
                let place = u32::try_from(ppa.get() + 1).expect("a page has a 32-bit number");
                self.map.store_half(self.layout.mapping(lpa), place);
            }
            Record::Unmapped(lpa) => self.map.store_half(self.layout.mapping(lpa), 0),
            Record::Begun(ppa) => {
                let (block, begun) = self.layout.begun(ppa);
                self.change_block(block, |word| {
                    let wear = word & (LOST | u64::from(u32::MAX));
                    wear | begun << BEGUN_SHIFT
                });
            }
            Record::Erased(block, wear) => {
                self.change_block(block, |word| word & LOST | u64::from(wear));
            }
            Record::Condemned(block) => self.change_block(block, |word| word | CONDEMNED),
            Record::Retired(block) => self.change_block(block, |word| word | RETIRED),
        }
    }

    #[inline]
    fn log(&mut self, slot: LogSlot, line: &LoggedLine) {
        let at = self.layout.slot_header(slot);
        let lpa = u32::try_from(line.lpa.get()).expect("a page has a 32-bit number");
        self.map
            .store(at + 8, u64::from(line.tx.get()) << 32 | u64::from(lpa));
        let place = u64::from(line.line.get()) << LINE_SHIFT;
        self.map
            .store(at, line.order.get() << ORDER_SHIFT | place | COUNTS);
    }

    fn buffer_page(&mut self, buffer: BufferId, page: BufferedPage) {
        let at = self.layout.buffer_header(buffer);
        self.map.store(at + 8, page.lpa.get());
        self.map.store(at, page.order.get() << ORDER_SHIFT | COUNTS);
    }

    /// As [`Record::Buffered`], of a page that is on flash instead: programmed there, and mapped by
    /// nobody yet.
    pub fn buffer_on_flash(&mut self, buffer: BufferId, page: BufferedPage, ppa: Ppa) {
        let at = self.layout.buffer_header(buffer);
        self.map
            .store(at + 8, ppa.get() << PLACE_SHIFT | page.lpa.get());
        let order = page.order.get() << ORDER_SHIFT;
        self.map.store(at, order | ON_FLASH | COUNTS);
    }

    /// The page of a buffer is in it again.
    pub fn buffer_is_back(&mut self, buffer: BufferId) {
        let at = self.layout.buffer_header(buffer);
        let word = self.map.load(at);
        if word & COUNTS != 0 {
            self.map.store(at, word & !ON_FLASH);
        }
    }

    /// Buffers whose pages are on flash, which pages, and where.
    pub fn on_flash(&self) -> impl Iterator<Item = (BufferId, Lpa, Ppa)> {
        (0..self.layout.buffers).filter_map(|buffer| {
            let buffer = BufferId::from_index(buffer);
            let at = self.layout.buffer_header(buffer);
            let is_on_flash = self.map.load(at) & (ON_FLASH | COUNTS) == ON_FLASH | COUNTS;
            let word = self.map.load(at + 8);
            let ppa = Ppa::new(word >> PLACE_SHIFT);
            is_on_flash.then(|| (buffer, buffered_page(word), ppa))
        })
    }

    /// Whether there is such a place on flash.
    pub fn has_place(&self, ppa: Ppa) -> bool {
        self.layout.has_place(ppa)
    }

    fn change_block(&mut self, block: BlockAddr, change: impl FnOnce(u64) -> u64) {
        let at = self.layout.block(block);
        let word = self.map.load(at);
        self.map.store(at, change(word));
    }

    /// Whether any slot of a run has a line that counts: a look at all of them, of which most of an
    /// image that was closed have none, takes a third of looking at each.
    fn has_logged(&self, run: &Range<usize>) -> bool {
        let first = self.layout.slot_header(LogSlot::from_index(run.start));
        let headers = self.map.bytes(first, run.len() * HEADER_BYTES);
        let (headers, _) = headers.as_chunks::<HEADER_BYTES>();
        // Word by word: of bytes that are apart compilers make more instructions than of these.
        let word = |header: &[u8; HEADER_BYTES]| *header.first_chunk().expect("it has two words");
        let all = headers
            .iter()
            .fold(0, |all, header| all | u64::from_le_bytes(word(header)));
        all & COUNTS != 0
    }

    /// What a header says: its order and line, and its second word; None if it does not count.
    fn header(&self, at: usize) -> Option<(WriteOrder, LineInPage, u64)> {
        let word = self.map.load(at);
        (word & COUNTS != 0).then(|| {
            let line = u16::from((word >> LINE_SHIFT) as u8);
            (
                WriteOrder::new(word >> ORDER_SHIFT),
                LineInPage::new(line),
                self.map.load(at + 8),
            )
        })
    }
}

/// The page that the second word of a buffer's header names; above it may be where it was on flash.
fn buffered_page(word: u64) -> Lpa {
    Lpa::new(word & u64::from(u32::MAX))
}

impl Durable for Tables {
    fn logged(&self) -> impl Iterator<Item = (LogSlot, LoggedLine)> {
        let slots = self.layout.slots;
        let runs = (0..slots).step_by(RUN);
        let runs = runs.map(move |first| first..slots.min(first + RUN));
        let slots = runs.filter(|run| self.has_logged(run)).flatten();
        slots.filter_map(|slot| {
            let slot = LogSlot::from_index(slot);
            let (order, line, word) = self.header(self.layout.slot_header(slot))?;
            let logged = LoggedLine {
                lpa: Lpa::new(word & u64::from(u32::MAX)),
                line,
                tx: TxId::new((word >> 32) as u32),
                order,
            };
            Some((slot, logged))
        })
    }

    fn buffered(&self) -> impl Iterator<Item = (BufferId, BufferedPage)> {
        (0..self.layout.buffers).filter_map(|buffer| {
            let buffer = BufferId::from_index(buffer);
            let (order, _, word) = self.header(self.layout.buffer_header(buffer))?;
            let lpa = buffered_page(word);
            Some((buffer, BufferedPage { lpa, order }))
        })
    }

    fn framed(&self) -> impl Iterator<Item = (FrameId, KeptFrame)> {
        (0..self.layout.frames).filter_map(|frame| {
            let frame = FrameId::from_index(frame);
            let at = self.layout.frame_header(frame);
            let (order, _, word) = self.header(at)?;
            let words = [0, 8, 16, 24].map(|of| self.map.load(at + HEADER_BYTES + of));
            let kept = KeptFrame {
                lpa: Lpa::new(word),
                order,
                lines: LineMask::from_words(words),
            };
            Some((frame, kept))
        })
    }

    fn committed(&self) -> impl Iterator<Item = (u32, TxId)> {
        (0..self.layout.tx_entries).filter_map(|at| {
            let at = u32::try_from(at).expect("the TxLog is short");
            let tx = self.map.load_half(self.layout.tx_entry(at));
            (tx != 0).then(|| (at, TxId::new(tx)))
        })
    }

    fn mapped(&self) -> impl Iterator<Item = (Lpa, Ppa)> {
        (0..self.layout.logical_pages).filter_map(|lpa| {
            let lpa = Lpa::new(lpa as u64);
            Some((lpa, self.place_of(lpa)?))
        })
    }

    fn blocks(&self) -> impl Iterator<Item = (BlockAddr, BlockRecord)> {
        (0..self.layout.blocks).filter_map(|block| {
            let block = BlockAddr::new(u32::try_from(block).expect("blocks have 32-bit numbers"));
            let word = self.map.load(self.layout.block(block));
            (word != 0).then(|| {
                let record = BlockRecord {
                    wear: word as u32,
                    begun: ((word & !LOST) >> BEGUN_SHIFT) as u32,
                    is_condemned: word & CONDEMNED != 0,
                    is_retired: word & RETIRED != 0,
                };
                (block, record)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DeviceConfig;

    #[test]
    fn a_line_on_its_way_into_a_frame_is_ended_by_whoever_comes_next() {
        let small = ["nand.blocks_per_plane=64", "ssd.dram=1MiB"];
        let layers = small.map(|set| settings::Layer::assignment(set).expect("it is one"));
        let config = DeviceConfig::of_preset("bytefs-cache", &layers).expect("it is in range");
        let layout = Layout::new(&config);
        let map = Mapped::anonymous(layout.dram_bytes).expect("there is memory");
        let mut tables = Tables::new(map, layout);
        let (frame, line) = (FrameId::new(200), LineInPage::new(63));
        tables.write_frame_line(frame, line, &[1; 64]);
        assert_eq!(tables.frame(frame, line, 64), [1; 64]);
        // As a process leaves it that is killed behind the second store.
        let next = LineInPage::new(62);
        let place = u64::from(frame.get()) << ORDER_SHIFT | u64::from(next.get()) << LINE_SHIFT;
        tables.map.bytes_mut(layout.incoming(), 64).fill(2);
        tables.map.store(layout.incoming_header(), place | COUNTS);
        for _ in 0..2 {
            tables.end_frame_line();
            assert_eq!(tables.frame(frame, next, 64), [2; 64]);
            tables.frame_mut(frame, line, 64).fill(3);
        }
        assert_eq!(tables.frame(frame, line, 64), [3; 64]);
        assert_eq!(tables.incoming(), None);
        tables.map.store(layout.incoming_header(), u64::MAX);
        let (frame, line) = tables.incoming().expect("it counts");
        assert!(!tables.has_frame_line(frame, line));
    }

    #[test]
    fn lines_are_found_wherever_in_the_log_they_are() {
        let small = [
            "nand.blocks_per_plane=64",
            "ssd.log.size=50KiB",
            "ssd.log.tx_log=4KiB",
        ];
        let layers = small.map(|set| settings::Layer::assignment(set).expect("it is one"));
        let config = DeviceConfig::of_preset("bytefs", &layers).expect("it is in range");
        let layout = Layout::new(&config);
        assert!(layout.slots > 3 * RUN && !layout.slots.is_multiple_of(RUN));
        let map = Mapped::anonymous(layout.dram_bytes).expect("there is memory");
        let mut tables = Tables::new(map, layout);
        let found = |tables: &Tables| tables.logged().collect::<Vec<_>>();
        assert_eq!(found(&tables), []);
        let at = [0, RUN - 1, 2 * RUN, layout.slots - 1].map(LogSlot::from_index);
        let lines = [7, 5, 6, 4].map(|order| LoggedLine {
            lpa: Lpa::new(order + 1),
            line: LineInPage::new(order as u16),
            tx: TxId::NONE,
            order: WriteOrder::new(order),
        });
        let logged: Vec<_> = at.into_iter().zip(lines).collect();
        for (slot, line) in &logged {
            tables.record(Record::Logged(*slot, *line));
        }
        assert_eq!(found(&tables), logged);
        tables.record(Record::Dropped(at[0]));
        tables.record(Record::Dropped(at[2]));
        assert_eq!(found(&tables), [logged[1], logged[3]]);
    }
}
