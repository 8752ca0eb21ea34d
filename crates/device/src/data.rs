//! The data plane: where bytes really are, and copies between places (architecture B2).

mod past_buffers;
mod payloads;

use crate::counters::Counters;
use crate::error::DeviceFileError;
use crate::layout::{index, line_bytes};
use crate::media::Media;
use crate::superblock::{ImageId, Role};
use crate::tables::Tables;
use firmware::{Cell, NandFault, NandOp, NandTag, PagePlace, Record};
use memmap2::MmapMut;
use nand::{Day, Fault};
use past_buffers::PastBuffers;
pub use past_buffers::{Astray, astray, bring_all_back};
use payloads::{Payloads, Place};
use port::{Payload, SharedBlock};
use soc::{DataPlane, fault_of};
use std::io;
use std::path::{Path, PathBuf};
use units::{FrameId, LineInPage, LineMask, LogSlot, PageSize, Ppa, RequestId, Stream};

/// Bytes of a block that is shared.
const SHARED: usize = 4096;
/// Bytes of a line.
pub const LINE: usize = line_bytes();

/// All places that hold bytes.
#[derive(Debug)]
pub struct Data {
    /// Log, buffers, and the data cache where a power cut does not empty it.
    pub tables: Tables,
    /// Flash.
    pub media: Media,
    /// What the host sent, and where it wants what it asked for.
    payloads: Payloads,
    /// Pages of block writes, which need no copy in a buffer.
    past_buffers: PastBuffers,
    /// The data cache, if a power cut empties it; else it is in `tables`.
    frames: Option<MmapMut>,
    /// What a finished read has fetched, while the firmware is told so.
    register: Option<(NandTag, Fetched)>,
    /// By tag: what the flash was asked for.
    operations: Vec<Option<InFlight>>,
    /// Why nothing changes any more: the disk is full.
    failure: Option<String>,
    /// What the image holds of a device that has stopped.
    kept: &'static str,
    id: ImageId,
    page_bytes: usize,
    all_lines: LineMask,
    /// A page of poison. Poison is a value of a line's bytes, drawn from the image's random name:
    /// so it goes where bytes go, in every place and through a power cut, and costs nothing. That a
    /// program writes it by chance is less likely than an undetected error of any memory.
    poison: Vec<u8>,
    /// A page on its way from a place to another.
    bounce: Vec<u8>,
}

/// A NAND operation that is not over.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    op: NandOp,
    /// What is read is the page that the tables have there.
    is_in_place: bool,
}

/// What a read of the flash brings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fetched {
    /// The bytes that were programmed there.
    Page(Ppa),
    /// It cannot be read.
    Poison,
}

impl Data {
    /// A data cache of `frames` pages, for [`Data::new`].
    ///
    /// # Errors
    /// What the operating system says: above all, that it has not so much memory.
    pub fn empty_cache(frames: u64, page: PageSize) -> io::Result<MmapMut> {
        MmapMut::map_anon(index(frames) * index(page.bytes().get()))
    }

    /// With this data cache, of pages of this size.
    pub fn new(
        tables: Tables,
        media: Media,
        id: ImageId,
        (frames, page): (Option<MmapMut>, PageSize),
        kept: &'static str,
    ) -> Self {
        let page_bytes = index(page.bytes().get());
        let line = poison_of(id);
        Self {
            tables,
            media,
            payloads: Payloads::default(),
            past_buffers: PastBuffers::default(),
            frames,
            register: None,
            operations: Vec::new(),
            failure: None,
            kept,
            id,
            page_bytes,
            all_lines: LineMask::full(page),
            bounce: vec![0; page_bytes],
            poison: line.repeat(page_bytes / LINE),
        }
    }

    /// The bytes as they are now, in memory alone.
    ///
    /// # Errors
    /// The system has not so much memory.
    pub fn snapshot(&self) -> io::Result<Self> {
        let copy = |frames: &MmapMut| {
            let mut copy = MmapMut::map_anon(frames.len())?;
            copy.copy_from_slice(frames);
            io::Result::Ok(copy)
        };
        let frames = self.frames.as_ref().map(copy).transpose()?;
        Ok(Self {
            tables: self.tables.snapshot()?,
            media: self.media.snapshot()?,
            payloads: self.payloads.clone(),
            past_buffers: self.past_buffers.clone(),
            frames,
            register: self.register,
            operations: self.operations.clone(),
            failure: self.failure.clone(),
            kept: self.kept,
            id: self.id,
            page_bytes: self.page_bytes,
            all_lines: self.all_lines,
            poison: self.poison.clone(),
            bounce: self.bounce.clone(),
        })
    }

    /// The image's name, which poison is drawn from.
    pub fn id(&self) -> ImageId {
        self.id
    }

    /// A page as it is now.
    pub fn page(&self, place: PagePlace) -> &[u8] {
        let size = self.page_bytes;
        match place {
            PagePlace::Frame(frame) => match &self.frames {
                Some(frames) => &frames[self.frame(frame)..][..size],
                None => self.tables.frame(frame, LineInPage::new(0), size),
            },
            PagePlace::Buffer(buffer) => match self.past_buffers.place(buffer) {
                None => self.tables.buffer(buffer, LineInPage::new(0), size),
                Some(ppa) => self.media.page(ppa),
            },
            PagePlace::Host(id) => self.payloads.bytes(id, 0, size),
            PagePlace::Register(tag) => match self.fetched(tag) {
                Fetched::Page(ppa) => self.media.page(ppa),
                Fetched::Poison => &self.poison,
            },
            PagePlace::Zero => panic!("zeroes are nowhere; they are written where they go"),
        }
    }

    fn page_mut(&mut self, place: PagePlace) -> &mut [u8] {
        let size = self.page_bytes;
        match place {
            PagePlace::Frame(frame) => {
                let at = self.frame(frame);
                match &mut self.frames {
                    Some(frames) => &mut frames[at..at + size],
                    None => self.tables.frame_mut(frame, LineInPage::new(0), size),
                }
            }
            PagePlace::Buffer(buffer) => self.tables.buffer_mut(buffer, LineInPage::new(0), size),
            PagePlace::Host(id) => self.payloads.bytes_mut(id, 0, size),
            PagePlace::Register(_) | PagePlace::Zero => panic!("{place:?} is only a source"),
        }
    }

    #[inline]
    fn line(&self, cell: Cell) -> &[u8] {
        match cell {
            Cell::Host(id) => self.payloads.bytes(id, 0, LINE),
            Cell::HostLine(id, line) => self.payloads.bytes(id, line.index() * LINE, LINE),
            Cell::Log(slot) => self.tables.slot(slot),
            Cell::Window(line) => self.tables.window(line),
            Cell::Page(PagePlace::Zero, _) => &[0; LINE],
            Cell::Page(place, line) => &self.page(place)[line.index() * LINE..][..LINE],
        }
    }

    #[inline]
    fn line_mut(&mut self, cell: Cell) -> &mut [u8] {
        match cell {
            Cell::Host(id) => self.payloads.bytes_mut(id, 0, LINE),
            Cell::HostLine(id, line) => self.payloads.bytes_mut(id, line.index() * LINE, LINE),
            Cell::Log(slot) => self.tables.slot_mut(slot),
            Cell::Window(line) => self.tables.window_mut(line),
            Cell::Page(PagePlace::Buffer(buffer), line) => {
                self.tables.buffer_mut(buffer, line, LINE)
            }
            Cell::Page(place, line) => &mut self.page_mut(place)[line.index() * LINE..][..LINE],
        }
    }

    /// Whether a page is what was programmed for the logical page that it belongs to.
    fn is_sound(&self, ppa: Ppa) -> bool {
        let holder = self.media.holder(ppa);
        // The bytes of a page that was mapped elsewhere while it was read are as good as ever.
        holder.is_some_and(|lpa| self.media.check(ppa, lpa).is_ok())
    }

    /// Programs a unit of a flash page from a place.
    fn program(&mut self, ppa: Ppa, lpa: units::Lpa, from: PagePlace) {
        let size = self.page_bytes;
        match from {
            PagePlace::Buffer(buffer) if self.past_buffers.place(buffer).is_none() => {
                let page = self.tables.buffer(buffer, LineInPage::new(0), size);
                self.media.program(ppa, lpa, page);
            }
            PagePlace::Frame(frame) => {
                let at = self.frame(frame);
                let page = match &self.frames {
                    Some(frames) => &frames[at..at + size],
                    None => self.tables.frame(frame, LineInPage::new(0), size),
                };
                self.media.program(ppa, lpa, page);
            }
            _ => {
                let mut bounce = std::mem::take(&mut self.bounce);
                bounce.copy_from_slice(self.page(from));
                self.media.program(ppa, lpa, &bounce);
                self.bounce = bounce;
            }
        }
    }

    /// Copies some bytes of a page to the same ones of another page: at once where they are in
    /// different memories.
    fn copy_part(&mut self, from: PagePlace, to: PagePlace, line: LineInPage, size: usize) {
        let begin = line.index() * LINE;
        let part = begin..begin + size;
        match (from, to) {
            (PagePlace::Zero, _) => self.page_mut(to)[part].fill(0),
            // A block write on its way in.
            (PagePlace::Host(id), PagePlace::Buffer(buffer)) => {
                let bytes = self.payloads.bytes(id, begin, size);
                let target = self.tables.buffer_mut(buffer, line, size);
                target.copy_from_slice(bytes);
            }
            // What compaction puts lines into.
            (PagePlace::Register(tag), PagePlace::Buffer(buffer)) => {
                let bytes = match self.fetched(tag) {
                    Fetched::Page(ppa) => self.media.page(ppa),
                    Fetched::Poison => &self.poison,
                };
                let target = self.tables.buffer_mut(buffer, line, size);
                target.copy_from_slice(&bytes[part]);
            }
            _ => {
                let mut bounce = std::mem::take(&mut self.bounce);
                bounce[..size].copy_from_slice(&self.page(from)[part.clone()]);
                self.page_mut(to)[part].copy_from_slice(&bounce[..size]);
                self.bounce = bounce;
            }
        }
    }

    /// Whether what is there survives a power cut. Of a device that has stopped it stays as it is:
    /// the firmware goes on to the end of the event, and no record says any more that something
    /// else is there.
    #[cold]
    fn survives(&self, cell: Cell) -> bool {
        match cell {
            Cell::Log(_) | Cell::Window(_) | Cell::Page(PagePlace::Buffer(_), _) => true,
            Cell::Page(PagePlace::Frame(_), _) => self.frames.is_none(),
            Cell::Host(_) | Cell::HostLine(..) | Cell::Page(..) => false,
        }
    }

    #[inline]
    fn frame(&self, frame: FrameId) -> usize {
        frame.index() * self.page_bytes
    }

    fn fetched(&self, tag: NandTag) -> Fetched {
        match self.register {
            Some((of, fetched)) if of == tag => fetched,
            _ => panic!("{tag} has fetched nothing just now"),
        }
    }

    /// Closes the image in order, once the disk has everything.
    ///
    /// # Errors
    /// A file of it was removed. What the operating system says.
    pub fn close(&mut self, image: &Path) -> Result<(), DeviceFileError> {
        let path = |role: Role| image.join(role.file_name());
        let doing = "write it to the disk";
        let (media, dram) = (path(Role::Media), path(Role::Dram));
        self.media
            .sync()
            .map_err(DeviceFileError::io(&media, doing))?;
        let map = self.tables.map_mut();
        map.sync().map_err(DeviceFileError::io(&dram, doing))?;
        // A device that has stopped was cut off.
        if self.failure.is_none() {
            Counters::close(map);
        }
        map.sync().map_err(DeviceFileError::io(&dram, doing))?;
        self.removed(image)
            .map_or(Ok(()), |path| Err(DeviceFileError::Removed(path)))
    }

    /// A file of the image that was removed: what it holds goes with this process.
    pub fn removed(&self, image: &Path) -> Option<PathBuf> {
        let files = [
            (Role::Media, self.media.is_removed()),
            (Role::Dram, self.tables.map().is_removed()),
        ];
        let removed = files.into_iter().find(|(_, is_removed)| *is_removed);
        removed.map(|(role, _)| image.join(role.file_name()))
    }
}

impl DataPlane for Data {
    #[inline(always)]
    fn foresees(&self) -> bool {
        true
    }

    #[inline]
    fn foresee(&mut self, slot: LogSlot) {
        self.tables.foresee(slot);
    }

    #[inline]
    fn copy_line(&mut self, from: Cell, to: Cell) {
        if self.failure.is_some() && self.survives(to) {
            return;
        }
        self.settle();
        if let Cell::Page(PagePlace::Buffer(buffer), _) = to {
            self.bring_back(buffer);
        }
        match (from, to) {
            (Cell::Log(from), Cell::Log(to)) => self.tables.slot_to_slot(from, to),
            (Cell::Log(slot), Cell::Page(PagePlace::Buffer(buffer), line)) => {
                self.tables.slot_to_buffer(slot, buffer, line);
            }
            _ => {
                let mut bytes = [0; LINE];
                bytes.copy_from_slice(self.line(from));
                match to {
                    Cell::Page(PagePlace::Frame(frame), line) if self.frames.is_none() => {
                        self.tables.write_frame_line(frame, line, &bytes);
                    }
                    _ => self.line_mut(to).copy_from_slice(&bytes),
                }
            }
        }
    }

    fn copy_page(&mut self, from: PagePlace, to: PagePlace, lines: LineMask) {
        if self.failure.is_some() && self.survives(Cell::Page(to, LineInPage::new(0))) {
            return;
        }
        self.settle();
        if let PagePlace::Buffer(buffer) = to {
            match (from, lines == self.all_lines) {
                (PagePlace::Host(id), true) if self.may_pass(id) => {
                    return self.begin_to_pass(buffer, id);
                }
                (_, true) => self.past_buffers.forget(buffer),
                (_, false) => self.bring_back(buffer),
            }
        }
        if lines == self.all_lines {
            return self.copy_part(from, to, LineInPage::new(0), self.page_bytes);
        }
        for (line, count) in runs(lines) {
            self.copy_part(from, to, line, count * LINE);
        }
    }

    fn load_unit(&mut self, ppa: Ppa, lpa: units::Lpa, from: PagePlace) {
        self.settle();
        if self.failure.is_none() {
            self.program(ppa, lpa, from);
        }
    }

    fn nand_begins(&mut self, tag: NandTag, op: &NandOp) {
        if self.failure.is_some() {
            return;
        }
        let mut is_in_place = true;
        match *op {
            NandOp::Read { ppa } => {
                let holder = self.media.holder(ppa);
                is_in_place = holder.is_some_and(|lpa| self.tables.knows(lpa, ppa));
            }
            NandOp::Program { ppa, lpa, from } => {
                if !self.program_coming((ppa, lpa), from) {
                    self.settle();
                    self.program(ppa, lpa, from);
                }
            }
            NandOp::Erase { block } => self.media.erase(block),
        }
        if tag.index() >= self.operations.len() {
            self.operations.resize(tag.index() + 1, None);
        }
        let place = &mut self.operations[tag.index()];
        assert!(place.is_none(), "a tag names one operation at a time");
        *place = Some(InFlight {
            op: *op,
            is_in_place,
        });
    }

    fn nand_done(&mut self, tag: NandTag, fault: Option<Fault>) -> Option<NandFault> {
        let in_flight = self.operations[tag.index()].take();
        let in_flight = in_flight.expect("an operation is kept until it is done");
        match in_flight.op {
            NandOp::Read { ppa } => {
                self.media.fetch(ppa);
                let is_sound = in_flight.is_in_place && self.is_sound(ppa);
                let is_lost = fault.is_some() || !is_sound;
                let fetched = match is_lost {
                    true => Fetched::Poison,
                    false => Fetched::Page(ppa),
                };
                self.register = Some((tag, fetched));
                is_lost.then_some(NandFault::Uncorrectable)
            }
            NandOp::Program { ppa, .. } => {
                if fault.is_some() {
                    self.bring_back_from(self.media.units_of_page(ppa));
                    self.media.spoil_page(ppa);
                }
                fault.map(fault_of)
            }
            NandOp::Erase { .. } => fault.map(fault_of),
        }
    }

    fn nand_brings(&mut self, tag: NandTag) -> bool {
        let in_flight =
            self.operations[tag.index()].expect("an operation is kept until it is done");
        let NandOp::Read { ppa } = in_flight.op else {
            unreachable!("only a read brings lines");
        };
        self.media.fetch(ppa);
        let is_sound = in_flight.is_in_place && self.is_sound(ppa);
        if is_sound {
            self.register = Some((tag, Fetched::Page(ppa)));
        }
        is_sound
    }

    #[inline]
    fn nand_ends(&mut self) {
        self.register = None;
    }

    #[inline]
    fn end_step(&mut self) {
        self.settle();
    }

    #[inline]
    fn is_poisoned(&self, request: RequestId) -> bool {
        let lines = self.payloads.places[request.index()].lines;
        let bytes = self.payloads.bytes(request, 0, lines * LINE);
        let poison = &self.poison[..LINE];
        bytes.chunks_exact(LINE).any(|line| line == poison)
    }

    #[inline]
    fn record(&mut self, record: Record, today: Day) {
        // A device that has stopped is one whose power is gone: what it would write from then on
        // may vouch for bytes that are not there.
        if self.failure.is_some() {
            return;
        }
        if let Record::Begun(ppa) = record {
            if let Err(error) = self.media.make_room(ppa) {
                self.settle();
                self.failure = Some(format!(
                    "the disk has no room for the media file ({error}); make room and open the \
                     image again: {} is in it",
                    self.kept
                ));
                return;
            }
            self.tables.note_day(ppa, today);
            // Nothing waits for what was recorded before: of a page that has begun nobody says that
            // it holds something.
        } else if self.past_buffers.is_coming() {
            return self.record_behind(record);
        }
        self.tables.record(record);
    }

    #[inline]
    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    fn open_buffer(&mut self, command: usize, size: usize, from: &[u8], offset: usize) {
        let buffers = &mut self.payloads.buffers;
        if command >= buffers.len() {
            buffers.resize_with(command + 1, Vec::new);
        }
        let buffer = &mut buffers[command];
        if buffer.len() < size {
            buffer.resize(size, 0);
        }
        // Nothing may be asked for at a place that the buffer has not.
        if !from.is_empty() {
            buffer[offset..offset + from.len()].copy_from_slice(from);
        }
    }

    fn open_shared(&mut self, command: usize, blocks: &[SharedBlock]) {
        // A page is asked for in one piece.
        if self.page_bytes > SHARED {
            let bytes = Payload::Shared(blocks);
            let bytes = bytes.bytes_out();
            return self.open_buffer(command, bytes.len(), &bytes, 0);
        }
        let shared = &mut self.payloads.shared;
        if command >= shared.len() {
            shared.resize_with(command + 1, Vec::new);
        }
        shared[command].extend_from_slice(blocks);
    }

    #[inline]
    fn close_shared(&mut self, command: usize) {
        self.settle();
        if let Some(blocks) = self.payloads.shared.get_mut(command) {
            blocks.clear();
        }
    }

    #[inline]
    fn place(&mut self, request: RequestId, command: usize, offset: usize, lines: u64) {
        let places = &mut self.payloads.places;
        if request.index() >= places.len() {
            places.resize(request.index() + 1, Place::default());
        }
        places[request.index()] = Place {
            command,
            at: offset,
            lines: index(lines),
        };
    }

    #[inline]
    fn buffer(&mut self, command: usize) -> Option<&mut [u8]> {
        Some(&mut self.payloads.buffers[command])
    }
}

/// Lines that follow each other: the first of them, and how many.
fn runs(lines: LineMask) -> impl Iterator<Item = (LineInPage, usize)> {
    let mut lines = lines.iter().peekable();
    std::iter::from_fn(move || {
        let first = lines.next()?;
        let mut count = 1;
        while lines
            .next_if(|line| line.index() == first.index() + count)
            .is_some()
        {
            count += 1;
        }
        Some((first, count))
    })
}

/// The line that means poison in this image.
pub fn poison_of(id: ImageId) -> [u8; LINE] {
    let mut stream = Stream::new(0, &id.to_string());
    let mut line = [0; LINE];
    for bytes in line.chunks_exact_mut(8) {
        bytes.copy_from_slice(&stream.bits().to_le_bytes());
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DeviceConfig;
    use crate::layout::Layout;
    use crate::mapped::Mapped;
    use firmware::BufferId;
    use units::LineAddr;

    /// Of a preset with this data cache, in memory.
    fn data(preset: &str, layers: &[&str]) -> Data {
        let assignment = |set: &&str| settings::Layer::assignment(set).expect("it is one");
        let layers: Vec<_> = layers.iter().map(assignment).collect();
        let config = DeviceConfig::of_preset(preset, &layers).expect("it is in range");
        let layout = Layout::new(&config);
        let map = |size| Mapped::anonymous(size).expect("there is memory");
        let frames = match config.ssd.power_loss_protection.keeps_frames() {
            true => None,
            false => Some(Data::empty_cache(8, config.page()).expect("there is memory")),
        };
        let tables = Tables::new(map(layout.dram_bytes), layout);
        let media = Media::in_memory(map(layout.media_bytes), layout);
        let cache = (frames, config.page());
        Data::new(tables, media, ImageId([0; 16]), cache, "all")
    }

    /// What a firmware writes that goes on to the end of an event is not vouched for any more: in
    /// its place may be what still is.
    #[test]
    fn of_a_device_that_has_stopped_what_survives_stays_as_it_is() {
        let id = RequestId::new(0);
        let line = LineInPage::new(3);
        let (frame, buffer) = (FrameId::new(5), BufferId::new(2));
        let kept = PagePlace::Frame(frame);
        let buffer = PagePlace::Buffer(buffer);
        let of_preset = |preset, layers: &[&str], pages: &[PagePlace], cells: &[Cell]| {
            let mut data = data(preset, layers);
            let write = |data: &mut Data, with: u8| {
                data.open_buffer(0, 4096, &[with; 4096], 0);
                data.place(id, 0, 0, 64);
                for page in pages {
                    data.copy_page(PagePlace::Host(id), *page, data.all_lines);
                    data.copy_line(Cell::Host(id), Cell::Page(*page, line));
                }
                for cell in cells {
                    data.copy_line(Cell::Host(id), *cell);
                }
            };
            let found = |data: &Data| {
                let pages = pages.iter().map(|page| data.page(*page).to_vec());
                let cells = cells.iter().map(|cell| data.line(*cell).to_vec());
                pages.chain(cells).collect::<Vec<_>>()
            };
            write(&mut data, 1);
            let before = found(&data);
            assert!(before.concat().iter().all(|byte| *byte == 1));
            data.failure = Some("the disk is full".to_owned());
            write(&mut data, 2);
            assert!(
                found(&data) == before,
                "{preset}: what survives has changed"
            );
        };
        let small = ["nand.blocks_per_plane=64", "ssd.dram=1MiB"];
        of_preset("bytefs-cache", &small, &[kept, buffer], &[]);
        let log = [
            "nand.blocks_per_plane=64",
            "ssd.log.size=32KiB",
            "ssd.log.tx_log=4KiB",
            "ssd.dram=1MiB",
            "device.pmem=64KiB",
        ];
        let window = Cell::Window(LineAddr::new(1));
        of_preset(
            "bytefs",
            &log,
            &[buffer],
            &[Cell::Log(LogSlot::new(7)), window],
        );
    }
}
