//! The media file: NAND pages, each with a spare area that says whose bytes they are.
//!
//! A page's spare holds its logical address and a checksum of both, made when the page is
//! programmed and checked whenever it is read: end to end, so that a page that the disk changed,
//! lost or put elsewhere is known for what it is. A block takes room on the disk from its first
//! program on.

use crate::ahead::{Ahead, Pieces};
use crate::layout::{HEADER_BYTES, Layout, index};
use crate::mapped::Mapped;
use crate::packed::Packed;
use crate::room;
use nix::errno::Errno;
use nix::sys::statfs::{TMPFS_MAGIC, fstatfs};
use nix::unistd::{Whence, lseek};
use std::fs::File;
use std::io;
use std::ops::Range;
use units::{BlockAddr, Lpa, Ppa};

/// The media file in memory.
#[derive(Debug)]
pub struct Media {
    /// None: memory alone, which needs no room.
    file: Option<File>,
    /// The file is on tmpfs: in memory, where a page that is there costs nothing to store into.
    is_on_tmpfs: bool,
    /// Spare areas, and behind them the pages.
    map: Mapped,
    /// The pages, instead of in the map.
    packed: Option<Fetching>,
    layout: Layout,
    pieces: Pieces,
    /// Once something of a file in memory is programmed.
    ahead: Option<Ahead>,
}

/// Pages that are packed, and the one that is looked at.
#[derive(Clone, Debug)]
struct Fetching {
    pages: Packed,
    /// Whose bytes these are.
    of: Option<Ppa>,
    bytes: Vec<u8>,
}

/// What is wrong with a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageFault {
    /// Nothing was programmed there since the last erase.
    Erased,
    /// Its bytes are not those that were programmed.
    Damaged,
    /// It is another logical page.
    Misplaced,
}

impl Media {
    /// The file is locked, mapped, and has the length that the layout says.
    pub fn new(file: File, map: Mapped, layout: Layout) -> Self {
        assert_eq!(map.len(), layout.media_bytes, "the file has been checked");
        let is_on_tmpfs =
            fstatfs(&file).is_ok_and(|system| system.filesystem_type() == TMPFS_MAGIC);
        Self {
            file: Some(file),
            is_on_tmpfs,
            map,
            packed: None,
            layout,
            pieces: Pieces::new(&layout, false),
            ahead: None,
        }
    }

    /// Erased flash in memory alone, or flash as it is in such memory.
    pub fn in_memory(map: Mapped, layout: Layout) -> Self {
        assert_eq!(map.len(), layout.media_bytes, "as long as the layout says");
        Self {
            file: None,
            is_on_tmpfs: false,
            map,
            packed: None,
            layout,
            pieces: Pieces::new(&layout, true),
            ahead: None,
        }
    }

    /// Erased flash in memory alone, whose pages take as little of it as what they hold can. The
    /// memory has room for the spare areas only. A page is looked at when it was fetched.
    pub fn packed(map: Mapped, layout: Layout) -> Self {
        assert_eq!(map.len(), layout.spares_end(), "as long as the layout says");
        Self {
            file: None,
            is_on_tmpfs: false,
            map,
            packed: Some(Fetching {
                pages: Packed::new(layout.blocks * layout.block_pages),
                of: None,
                bytes: vec![0; layout.page],
            }),
            layout,
            pieces: Pieces::new(&layout, true),
            ahead: None,
        }
    }

    /// The flash as it is now, in memory alone.
    ///
    /// # Errors
    /// The system has not so much memory.
    pub fn snapshot(&self) -> io::Result<Self> {
        Ok(Self {
            file: None,
            is_on_tmpfs: false,
            map: self.map.snapshot()?,
            packed: self.packed.clone(),
            layout: self.layout,
            pieces: Pieces::new(&self.layout, true),
            ahead: None,
        })
    }

    /// Takes room for this page: on the disk for its block.
    ///
    /// # Errors
    /// What the operating system says: above all, that the disk is full.
    #[inline]
    pub fn make_room(&mut self, ppa: Ppa) -> io::Result<()> {
        let (piece, is_first) = self.pieces.of(&self.layout, ppa);
        if self.pieces.has_room(piece) && !is_first {
            return Ok(());
        }
        self.begin(piece)
    }

    /// A piece of a block is begun.
    #[cold]
    fn begin(&mut self, piece: usize) -> io::Result<()> {
        if self.is_on_tmpfs {
            self.begin_on_tmpfs(piece);
        }
        let Some(file) = self.file.as_ref().filter(|_| !self.pieces.has_room(piece)) else {
            return Ok(());
        };
        let block = self.pieces.of_same_block(piece);
        let first = self.pieces.first_page(&self.layout, block.start);
        let count = self.layout.block_pages;
        let [spares, pages] = self.layout.areas(first, count);
        for (at, size) in [spares, pages] {
            room::take(file, at, size)?;
        }
        let mut marks = self.map.bytes(spares.0, spares.1).iter();
        if marks.all(|byte| *byte == 0) {
            room::fill(file, pages.0, pages.1)?;
        }
        block.for_each(|piece| self.pieces.note_room(piece));
        Ok(())
    }

    /// Makes a piece ready if nobody has, and asks for the one behind it.
    fn begin_on_tmpfs(&mut self, piece: usize) {
        if self.ahead.is_none() {
            // Without a handle of its own nothing is made ready ahead.
            let file = self.file.as_ref().and_then(|file| file.try_clone().ok());
            self.ahead = file.map(|file| {
                Ahead::start(file, self.layout, self.map.readier(), self.pieces.clone())
            });
        }
        if let Some(next) = self.pieces.behind(piece)
            && let Some(ahead) = &self.ahead
        {
            ahead.ask(next);
        }
        let pieces = &self.pieces;
        let make_ready = |file| {
            let map = self.map.readier();
            pieces.make_ready((file, &map), &self.layout, piece).is_ok()
        };
        if !pieces.has_room(piece) && self.file.as_ref().is_some_and(make_ready) {
            pieces.note_room(piece);
        }
    }

    /// Programs a unit, whose block has room.
    ///
    /// # Panics
    /// If the page was programmed since the last erase of its block: NAND cannot.
    pub fn program(&mut self, ppa: Ppa, lpa: Lpa, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.layout.page, "a page is programmed whole");
        let spare = self.layout.spare(ppa);
        assert_eq!(self.map.load(spare), 0, "{ppa} is programmed twice");
        if let Some(packed) = &mut self.packed {
            packed.pages.put(index(ppa.get()), bytes);
        } else {
            let page = self.layout.physical_page(ppa);
            self.map.bytes_mut(page, bytes.len()).copy_from_slice(bytes);
        }
        self.map.store(spare, holder(lpa));
        let sum = u64::from(checksum(lpa, bytes));
        self.map.store(spare + 8, sum);
    }

    /// The program of a flash page has failed: its units hold nothing that anybody could read.
    pub fn spoil_page(&mut self, ppa: Ppa) {
        for unit in self.layout.units_of_page(ppa) {
            let spare = self.layout.spare(unit);
            if self.map.load(spare) != 0 {
                self.map.store(spare + 8, !self.map.load(spare + 8));
            }
        }
    }

    /// Checks what a page holds.
    ///
    /// # Errors
    /// If it is not what was programmed for `lpa`.
    pub fn check(&self, ppa: Ppa, lpa: Lpa) -> Result<(), PageFault> {
        let spare = self.layout.spare(ppa);
        match self.map.load(spare) {
            0 => Err(PageFault::Erased),
            word if word != holder(lpa) => Err(PageFault::Misplaced),
            _ if self.map.load(spare + 8) != u64::from(checksum(lpa, self.page(ppa))) => {
                Err(PageFault::Damaged)
            }
            _ => Ok(()),
        }
    }

    /// Whose page it is, as far as its spare says; None if it is erased.
    pub fn holder(&self, ppa: Ppa) -> Option<Lpa> {
        self.map
            .load(self.layout.spare(ppa))
            .checked_sub(1)
            .map(Lpa::new)
    }

    /// Pages, by number, whose spare areas have room on the disk, in ascending order: all others
    /// have never been programmed, and need not be looked at.
    pub fn ever_programmed(&self) -> Vec<Range<u64>> {
        let first = self.layout.spare(Ppa::new(0)) as i64;
        let end = first + (self.layout.blocks * self.layout.block_pages * HEADER_BYTES) as i64;
        let page_at = |at: i64| (at.clamp(first, end) - first) as u64 / HEADER_BYTES as u64;
        // The search for a hole goes on behind the spare areas: through all of a file without.
        let (mut found, mut at) = (Vec::new(), first);
        let Some(file) = self.file.as_ref().filter(|file| !room::is_full(file)) else {
            found.push(page_at(first)..page_at(end));
            return found;
        };
        while at < end {
            let data = match lseek(file, at, Whence::SeekData) {
                Ok(data) => data,
                Err(Errno::ENXIO) => break,
                // A file system that does not tell: everything may be there.
                Err(_) => at,
            };
            let hole = lseek(file, data, Whence::SeekHole).unwrap_or(end);
            found.push(page_at(data)..page_at(hole));
            at = hole.max(data + 1);
        }
        found
    }

    /// Whether a page must be fetched to be looked at.
    #[inline]
    pub fn is_packed(&self) -> bool {
        self.packed.is_some()
    }

    /// The units of the flash page that has this one.
    pub fn units_of_page(&self, ppa: Ppa) -> impl Iterator<Item = Ppa> + use<> {
        self.layout.units_of_page(ppa)
    }

    /// Makes ready for a page to be looked at, until the next one is.
    #[inline]
    pub fn fetch(&mut self, ppa: Ppa) {
        if let Some(packed) = &mut self.packed {
            packed.pages.get(index(ppa.get()), &mut packed.bytes);
            packed.of = Some(ppa);
        }
    }

    /// The bytes of a page.
    ///
    /// # Panics
    /// If the pages are packed and this is not the one that was fetched last.
    #[inline]
    pub fn page(&self, ppa: Ppa) -> &[u8] {
        match &self.packed {
            None => self
                .map
                .bytes(self.layout.physical_page(ppa), self.layout.page),
            Some(packed) => {
                assert_eq!(packed.of, Some(ppa), "a packed page is fetched first");
                &packed.bytes
            }
        }
    }

    /// Erases a block: its pages can be programmed again.
    pub fn erase(&mut self, block: BlockAddr) {
        let first = self.layout.first_page(block);
        let size = self.layout.block_pages * HEADER_BYTES;
        self.map.bytes_mut(self.layout.spare(first), size).fill(0);
        if let Some(packed) = &mut self.packed {
            let first = index(first.get());
            packed.pages.drop(first..first + self.layout.block_pages);
        }
    }

    /// Whether the file was removed.
    pub fn is_removed(&self) -> bool {
        self.map.is_removed()
    }

    /// Waits until the disk has everything.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn sync(&self) -> io::Result<()> {
        self.map.sync()
    }
}

/// The first word of a spare area.
fn holder(lpa: Lpa) -> u64 {
    lpa.get() + 1
}

/// Of the bytes and of whose they are.
fn checksum(lpa: Lpa, bytes: &[u8]) -> u32 {
    checksum::crc32c_append(checksum::crc32c(bytes), &lpa.get().to_le_bytes())
}
