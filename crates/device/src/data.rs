//! The data plane: where bytes really are, and copies between places (architecture B2).

use crate::counters::Counters;
use crate::error::DeviceFileError;
use crate::layout::{index, line_bytes};
use crate::media::Media;
use crate::superblock::{ImageId, Role};
use crate::tables::Tables;
use firmware::{Cell, NandTag, PagePlace};
use memmap2::MmapMut;
use std::io;
use std::path::Path;
use units::{FrameId, LineInPage, LineMask, PageSize, Ppa, RequestId, Stream};

/// Bytes of a line.
pub const LINE: usize = line_bytes();

/// All places that hold bytes.
#[derive(Debug)]
pub struct Data {
    /// Log and buffers.
    pub tables: Tables,
    /// Flash.
    pub media: Media,
    /// What the host sent, and where it wants what it asked for.
    pub payloads: Payloads,
    /// The data cache, which a power cut empties.
    frames: MmapMut,
    /// What a finished read has fetched, while the firmware is told so.
    pub register: Option<(NandTag, Fetched)>,
    page_bytes: usize,
    all_lines: LineMask,
    /// A page of poison. Poison is a value of a line's bytes, drawn from the image's random name:
    /// so it goes where bytes go, in every place and through a power cut, and costs nothing. That a
    /// program writes it by chance is less likely than an undetected error of any memory.
    poison: Vec<u8>,
    /// A page on its way from a place to another.
    bounce: Vec<u8>,
}

/// What a read of the flash brings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fetched {
    /// The bytes that were programmed there.
    Page(Ppa),
    /// It cannot be read.
    Poison,
}

/// Bytes of requests: each operation of the firmware has its place in the buffer of a command.
#[derive(Debug, Default)]
pub struct Payloads {
    /// By command.
    pub buffers: Vec<Vec<u8>>,
    /// By operation: which command's buffer, and where in it.
    pub places: Vec<(usize, usize)>,
}

impl Payloads {
    #[inline]
    fn bytes(&self, id: RequestId, at: usize, size: usize) -> &[u8] {
        let (buffer, place) = self.places[id.index()];
        &self.buffers[buffer][place + at..place + at + size]
    }
    #[inline]
    fn bytes_mut(&mut self, id: RequestId, at: usize, size: usize) -> &mut [u8] {
        let (buffer, place) = self.places[id.index()];
        &mut self.buffers[buffer][place + at..place + at + size]
    }
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
        (frames, page): (MmapMut, PageSize),
    ) -> Self {
        let page_bytes = index(page.bytes().get());
        let line = poison_of(id);
        Self {
            tables,
            media,
            payloads: Payloads::default(),
            frames,
            register: None,
            page_bytes,
            all_lines: LineMask::full(page),
            bounce: vec![0; page_bytes],
            poison: line.repeat(page_bytes / LINE),
        }
    }

    /// Whether one of the first lines of a request's payload is poison.
    #[inline]
    pub fn is_poisoned(&self, id: RequestId, lines: u64) -> bool {
        let bytes = self.payloads.bytes(id, 0, index(lines) * LINE);
        let poison = &self.poison[..LINE];
        bytes.chunks_exact(LINE).any(|line| line == poison)
    }

    /// Copies one line.
    #[inline]
    pub fn copy_line(&mut self, from: Cell, to: Cell) {
        match (from, to) {
            (Cell::Log(from), Cell::Log(to)) => self.tables.slot_to_slot(from, to),
            (Cell::Log(slot), Cell::Page(PagePlace::Buffer(buffer), line)) => {
                self.tables.slot_to_buffer(slot, buffer, line);
            }
            _ => {
                let mut bytes = [0; LINE];
                bytes.copy_from_slice(self.line(from));
                self.line_mut(to).copy_from_slice(&bytes);
            }
        }
    }

    /// Copies some lines of a page, or all.
    pub fn copy_page(&mut self, from: PagePlace, to: PagePlace, lines: LineMask) {
        if lines != self.all_lines {
            for line in lines.iter() {
                self.copy_line(Cell::Page(from, line), Cell::Page(to, line));
            }
            return;
        }
        if from == PagePlace::Zero {
            self.page_mut(to).fill(0);
            return;
        }
        let mut bounce = std::mem::take(&mut self.bounce);
        bounce.copy_from_slice(self.page(from));
        self.page_mut(to).copy_from_slice(&bounce);
        self.bounce = bounce;
    }

    /// A page as it is now.
    pub fn page(&self, place: PagePlace) -> &[u8] {
        let size = self.page_bytes;
        match place {
            PagePlace::Frame(frame) => &self.frames[self.frame(frame)..][..size],
            PagePlace::Buffer(buffer) => self.tables.buffer(buffer, LineInPage::new(0), size),
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
                &mut self.frames[at..at + size]
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
            Cell::Page(PagePlace::Buffer(buffer), line) => self.tables.buffer(buffer, line, LINE),
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
            Cell::Page(PagePlace::Buffer(buffer), line) => {
                self.tables.buffer_mut(buffer, line, LINE)
            }
            Cell::Page(place, line) => &mut self.page_mut(place)[line.index() * LINE..][..LINE],
        }
    }

    /// Whether a page is what was programmed for the logical page that it belongs to.
    pub fn is_sound(&self, ppa: Ppa) -> bool {
        let holder = self.media.holder(ppa);
        // The bytes of a page that was mapped elsewhere while it was read are as good as ever.
        holder.is_some_and(|lpa| self.media.check(ppa, lpa).is_ok())
    }

    /// Programs a physical page from a place.
    pub fn program(&mut self, ppa: Ppa, lpa: units::Lpa, from: PagePlace) {
        let mut bounce = std::mem::take(&mut self.bounce);
        bounce.copy_from_slice(self.page(from));
        self.media.program(ppa, lpa, &bounce);
        self.bounce = bounce;
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
        Counters::close(map);
        map.sync().map_err(DeviceFileError::io(&dram, doing))?;
        let removed = [(self.media.is_removed(), media), (map.is_removed(), dram)];
        match removed.into_iter().find(|(is_removed, _)| *is_removed) {
            Some((_, path)) => Err(DeviceFileError::Removed(path)),
            None => Ok(()),
        }
    }
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
