//! Pages of an image in memory (tmpfs) are made ready by a thread of their own.
//!
//! The kernel clears a page before anybody may store into it, which takes longer than the copy that
//! fills it. A flash block is programmed from its first page to its last, so what comes next is
//! known: while one piece of a block is programmed, the next one is made ready. Where that has not
//! happened in time the device does it itself. No byte changes, so it matters to nobody else when
//! it happens, or whether.

use crate::layout::{Layout, index};
use crate::mapped::Readier;
use crate::room;
use nix::sys::statfs::fstatfs;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use units::Ppa;

/// Mapping units that are made ready together.
const PIECE: usize = 64;

/// Which pieces of flash blocks have room.
#[derive(Clone, Debug)]
pub struct Pieces {
    of_block: usize,
    have_room: Arc<[AtomicBool]>,
}

impl Pieces {
    /// Of a flash none of which, or all, has room.
    pub fn new(layout: &Layout, have_room: bool) -> Self {
        let of_block = layout.block_pages.div_ceil(PIECE);
        let all = 0..layout.blocks * of_block;
        Self {
            of_block,
            have_room: all.map(|_| AtomicBool::new(have_room)).collect(),
        }
    }

    /// The piece of a page, and whether it begins with it.
    #[inline]
    pub fn of(&self, layout: &Layout, ppa: Ppa) -> (usize, bool) {
        let (block, begun) = layout.begun(ppa);
        let before = index(begun) - 1;
        let piece = block.index() * self.of_block + before / PIECE;
        (piece, before % PIECE < layout.page_units)
    }

    /// What is programmed behind a piece, if that has no room yet: of the next block where the die
    /// takes blocks in order, as it does as long as it has new ones.
    pub fn behind(&self, piece: usize) -> Option<usize> {
        let next = piece + 1;
        (next < self.have_room.len() && !self.has_room(next)).then_some(next)
    }

    /// Whether its pages can be stored into.
    #[inline]
    pub fn has_room(&self, piece: usize) -> bool {
        self.have_room[piece].load(Ordering::Acquire)
    }

    /// They can.
    pub fn note_room(&self, piece: usize) {
        self.have_room[piece].store(true, Ordering::Release);
    }

    /// All pieces of the block of this one.
    pub fn of_same_block(&self, piece: usize) -> Range<usize> {
        let first = piece - piece % self.of_block;
        first..first + self.of_block
    }

    /// The first page of a piece.
    pub fn first_page(&self, layout: &Layout, piece: usize) -> Ppa {
        let (block, part) = (piece / self.of_block, piece % self.of_block);
        Ppa::new((block * layout.block_pages + part * PIECE) as u64)
    }

    /// Has the pages of a piece, and what is beside them, be ready.
    pub fn make_ready(
        &self,
        (file, map): (&File, &Readier),
        layout: &Layout,
        piece: usize,
    ) -> io::Result<()> {
        let first = self.first_page(layout, piece);
        let count = PIECE.min(layout.block_pages - piece % self.of_block * PIECE);
        let mut areas = layout.areas(first, count).into_iter();
        areas.try_for_each(|(at, size)| make_range_ready((file, map), at, size))
    }
}

/// Where pages may lack room they get it as a whole first: the kernel takes a fifth longer where
/// it finds for each by itself that it is not there. Whether they do is not asked for, since the
/// search for a hole goes on behind them.
fn make_range_ready((file, map): (&File, &Readier), at: usize, size: usize) -> io::Result<()> {
    if room::is_full(file) {
        return map.find(at, size);
    }
    room::take(file, at, size)?;
    map.make_ready(at, size)
}

/// The thread.
#[derive(Debug)]
pub struct Ahead {
    asked: Option<Sender<usize>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ahead {
    /// Of the image in this file. Without a thread nothing is made ready ahead, which is no error.
    pub fn start(file: File, layout: Layout, map: Readier, pieces: Pieces) -> Self {
        let (asked, wanted) = channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let work = move || make_ready(&file, &layout, &map, &pieces, &wanted, &ends);
        let thread = Builder::new().name("ahead".to_owned()).spawn(work).ok();
        Self {
            asked: thread.is_some().then_some(asked),
            is_over,
            thread,
        }
    }

    /// A piece will be wanted.
    pub fn ask(&self, piece: usize) {
        if let Some(asked) = &self.asked {
            // A thread that has ended makes nothing ready.
            let _ = asked.send(piece);
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        drop(self.asked.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Whether what may never be written can have room: an eighth of the image's length must be free.
/// Of that a block for each die, which is what can be ready in vain, is a small part, so that a
/// file system that is nearly full is not filled by it. Asked just before the room is taken, for
/// many pieces may have been asked for meanwhile.
fn is_roomy(file: &File, layout: &Layout) -> bool {
    fstatfs(file).is_ok_and(|now| {
        let free = u128::from(now.blocks_available()) * now.block_size() as u128;
        free >= layout.media_bytes as u128 / 8
    })
}

fn make_ready(
    file: &File,
    layout: &Layout,
    map: &Readier,
    pieces: &Pieces,
    wanted: &Receiver<usize>,
    is_over: &AtomicBool,
) {
    for piece in wanted {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        // What cannot be made ready the device asks for itself, and says why it cannot go on.
        if !pieces.has_room(piece)
            && is_roomy(file, layout)
            && pieces.make_ready((file, map), layout, piece).is_ok()
        {
            pieces.note_room(piece);
        }
    }
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    reason = "it is waited for a thread that says nothing when it is done"
)]
mod tests {
    use crate::DeviceConfig;
    use crate::layout::Layout;
    use crate::mapped::Mapped;
    use crate::media::Media;
    use std::fs::File;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;
    use std::thread;
    use std::time::Duration;
    use units::{Lpa, Ppa};

    /// Looks, 10 s.
    const LOOKS: u32 = 1_000;

    #[test]
    fn what_is_programmed_next_is_made_ready_and_no_byte_of_it_changes() {
        let folder = Path::new("/dev/shm");
        if !folder.is_dir() {
            eprintln!("skipped: this machine has no {}", folder.display());
            return;
        }
        let layout = Layout::new(&DeviceConfig::of_preset("bytefs", &[]).unwrap());
        let path = folder.join(format!("entresol-ahead-{}", std::process::id()));
        let mut options = File::options();
        let options = options.read(true).write(true).create_new(true);
        let file = options.open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.set_len(layout.media_bytes as u64).unwrap();
        let map = Mapped::new(&file).unwrap();
        let mut media = Media::new(file.try_clone().unwrap(), map, layout);
        let page = vec![7; layout.page];
        let (first, lpa) = (Ppa::new(0), Lpa::new(3));
        let next = Ppa::new(super::PIECE as u64);
        media.program(next, lpa, &page);
        media.make_room(first).unwrap();
        media.program(first, lpa, &page);
        let blocks = |pieces: usize| (pieces * super::PIECE * layout.page / 512) as u64;
        let has_both = || file.metadata().unwrap().blocks() >= blocks(2);
        assert!(
            (0..LOOKS).any(|_| has_both() || {
                thread::sleep(Duration::from_millis(10));
                false
            }),
            "the second piece has no room: {} blocks",
            file.metadata().unwrap().blocks()
        );
        assert!(media.check(first, lpa).is_ok() && media.check(next, lpa).is_ok());
        media.make_room(next).unwrap();
        assert!(media.check(next, lpa).is_ok());
    }
}
