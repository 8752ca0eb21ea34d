//! The data plane: where bytes really are, and copies between places (architecture B2).

use crate::counters::Counters;
use crate::error::DeviceFileError;
use crate::layout::{index, line_bytes};
use crate::media::Media;
use crate::superblock::Role;
use crate::tables::Tables;
use firmware::{Cell, NandTag, PagePlace};
use std::path::Path;
use units::{FrameId, LineInPage, LineMask, PageSize, Ppa, RequestId};

/// Bytes of a line.
const LINE: usize = line_bytes();

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
    frames: Vec<u8>,
    /// The page that a finished read has fetched, while the firmware is told so.
    pub register: Option<(NandTag, Ppa)>,
    page_bytes: usize,
    all_lines: LineMask,
    /// A page on its way from a place to another.
    bounce: Vec<u8>,
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
    /// With an empty data cache of `frames` pages.
    pub fn new(tables: Tables, media: Media, frames: u64, page: PageSize) -> Self {
        let page_bytes = index(page.bytes().get());
        Self {
            tables,
            media,
            payloads: Payloads::default(),
            frames: vec![0; index(frames) * page_bytes],
            register: None,
            page_bytes,
            all_lines: LineMask::full(page),
            bounce: vec![0; page_bytes],
        }
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
            PagePlace::Register(tag) => self.media.page(self.fetched(tag)),
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

    fn fetched(&self, tag: NandTag) -> Ppa {
        match self.register {
            Some((fetched, ppa)) if fetched == tag => ppa,
            _ => panic!("{tag} has fetched nothing just now"),
        }
    }

    /// Closes the image in order, once the disk has everything.
    ///
    /// # Errors
    /// What the operating system says.
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
        map.sync().map_err(DeviceFileError::io(&dram, doing))
    }
}
