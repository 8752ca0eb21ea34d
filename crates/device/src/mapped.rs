//! Files as memory: the one place with unsafe code. Memory without a file looks the same.
//!
//! A store into a shared mapping is in the kernel's page cache when it is executed, so it outlives
//! the process, as a store into battery-backed DRAM outlives the host's power. A process is killed
//! between two instructions: what it stored before is there, what came after is not. So order is a
//! matter of the compiler alone, and [`Mapped::store`] keeps it: a word is stored by one aligned
//! instruction, after everything before it in the program and before everything after it.
//!
//! The kernel delivers SIGBUS if a mapped page has no room on the disk; so the DRAM file is
//! allocated as a whole, and the media file block by block before a block is programmed. It also
//! does if somebody shortens the file meanwhile, against which there is no help; the lock keeps
//! other devices away.
#![allow(unsafe_code)]

use memmap2::{Advice, MmapOptions, MmapRaw};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence};

/// Bytes that are looked at at once when memory is copied: zeroes are left out.
const COPIED: usize = 64 << 10;
static ZEROES: [u8; COPIED] = [0; COPIED];

/// What a processor fetches at once.
#[cfg(target_arch = "x86_64")]
const CACHE_LINE: usize = 64;

/// A file in memory, shared with nobody; or memory alone.
#[derive(Debug)]
pub struct Mapped {
    map: Arc<MmapRaw>,
    file: Option<File>,
}

/// Has the kernel make pages of a mapping ready to be stored into, from any thread. No byte
/// changes.
#[derive(Clone, Debug)]
pub struct Readier(Arc<MmapRaw>);

impl Readier {
    /// Some pages, all at once, where each would have taken a fault of its own.
    ///
    /// # Errors
    /// A kernel that cannot (Linux before 5.14); above all, that there is no room for them.
    pub fn make_ready(&self, at: usize, size: usize) -> io::Result<()> {
        self.0.advise_range(Advice::PopulateWrite, at, size)
    }

    /// The same of pages that have room, of a file in memory: there a page that is looked at can be
    /// stored into, and the kernel finds sixteen at a time.
    ///
    /// # Errors
    /// As [`Readier::make_ready`].
    pub fn find(&self, at: usize, size: usize) -> io::Result<()> {
        self.0.advise_range(Advice::PopulateRead, at, size)
    }
}

impl Mapped {
    /// Maps a whole file, which the caller has locked.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn new(file: &File) -> io::Result<Self> {
        // SAFETY: the file is locked, so no other device stores into it; a process that does so in
        // spite of the lock changes bytes under references to `u8`, whose every value is valid.
        let map = unsafe { MmapOptions::new().map_mut(file)? };
        let (map, file) = (Arc::new(map.into()), Some(file.try_clone()?));
        Ok(Self { map, file })
    }

    /// So many zeroes without a file. The system gives the memory when it is first written.
    ///
    /// # Errors
    /// What the operating system says: above all, that it has not so much memory.
    pub fn anonymous(size: usize) -> io::Result<Self> {
        let mut options = MmapOptions::new();
        options.len(size).no_reserve_swap();
        let map = Arc::new(options.map_anon()?.into());
        Ok(Self { map, file: None })
    }

    /// The bytes as they are now, without a file.
    ///
    /// # Errors
    /// As [`Mapped::anonymous`].
    pub fn snapshot(&self) -> io::Result<Self> {
        let mut copy = Self::anonymous(self.len())?;
        let pieces = copy.all_mut().chunks_mut(COPIED);
        let pieces = pieces.zip(self.all().chunks(COPIED));
        for (to, from) in pieces {
            if from != &ZEROES[..from.len()] {
                to.copy_from_slice(from);
            }
        }
        Ok(copy)
    }

    /// Whether the file has no name any more: what is stored here goes with the process.
    pub fn is_removed(&self) -> bool {
        let file = self.file.as_ref();
        file.is_some_and(|file| file.metadata().is_ok_and(|file| file.nlink() == 0))
    }

    /// Maps a whole file, which the caller has locked, to be looked at: it need not be writable,
    /// and stores would never reach it.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn private(file: &File) -> io::Result<Self> {
        let mut options = MmapOptions::new();
        // Nothing is stored, so no memory is to be kept for it, however large the file.
        options.no_reserve_swap();
        // SAFETY: as in `new`.
        let map = unsafe { options.map_copy(file)? };
        let (map, file) = (Arc::new(map.into()), Some(file.try_clone()?));
        Ok(Self { map, file })
    }

    /// Bytes of the file.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    #[inline]
    fn all(&self) -> &[u8] {
        // SAFETY: the mapping is that long and stays as long as `self`. Stores go through
        // `&mut self` alone; a `Readier` changes nothing.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr(), self.map.len()) }
    }

    #[inline]
    fn all_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `all`; `&mut self` excludes other references to it.
        unsafe { std::slice::from_raw_parts_mut(self.map.as_mut_ptr(), self.map.len()) }
    }

    /// What makes its pages ready from another thread.
    pub fn readier(&self) -> Readier {
        Readier(Arc::clone(&self.map))
    }

    /// Some bytes.
    #[inline]
    pub fn bytes(&self, at: usize, size: usize) -> &[u8] {
        &self.all()[at..at + size]
    }

    /// Some bytes, to be changed.
    #[inline]
    pub fn bytes_mut(&mut self, at: usize, size: usize) -> &mut [u8] {
        &mut self.all_mut()[at..at + size]
    }

    /// Has the processor fetch bytes that somebody looks at soon, who does not wait for memory
    /// then. It is a hint, which not every processor gets.
    #[inline]
    pub fn foresee(&self, at: usize, size: usize) {
        for line in self.bytes(at, size).chunks(CACHE_LINE) {
            units::foresee(&line[0]);
        }
    }

    /// Copies bytes from one place to another.
    #[inline]
    pub fn copy(&mut self, from: usize, to: usize, size: usize) {
        self.all_mut().copy_within(from..from + size, to);
    }

    /// Stores eight bytes at once: after everything before, before everything after.
    #[inline]
    pub fn store(&mut self, at: usize, word: u64) {
        assert!(at.is_multiple_of(8), "a word is aligned");
        let place = self.all_mut()[at..at + 8].as_mut_ptr().cast::<u64>();
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the place is within the mapping, which begins at a page, and aligned; `&mut self`
        // excludes other references to it.
        unsafe { AtomicU64::from_ptr(place) }.store(word.to_le(), Ordering::Release);
        compiler_fence(Ordering::SeqCst);
    }

    /// Stores four bytes at once, likewise.
    #[inline]
    pub fn store_half(&mut self, at: usize, word: u32) {
        assert!(at.is_multiple_of(4), "half a word is aligned");
        let place = self.all_mut()[at..at + 4].as_mut_ptr().cast::<u32>();
        compiler_fence(Ordering::SeqCst);
        // SAFETY: as in `store`.
        unsafe { AtomicU32::from_ptr(place) }.store(word.to_le(), Ordering::Release);
        compiler_fence(Ordering::SeqCst);
    }

    /// Eight bytes at once.
    #[inline]
    pub fn load(&self, at: usize) -> u64 {
        assert!(at.is_multiple_of(8), "a word is aligned");
        let place = self.all()[at..at + 8].as_ptr().cast::<u64>().cast_mut();
        // SAFETY: the place is within the mapping and aligned, and nothing is stored through it;
        // another mapping of the file stores whole words ([`Mapped::store`]).
        u64::from_le(unsafe { AtomicU64::from_ptr(place) }.load(Ordering::Relaxed))
    }

    /// Four bytes at once.
    #[inline]
    pub fn load_half(&self, at: usize) -> u32 {
        assert!(at.is_multiple_of(4), "half a word is aligned");
        let place = self.all()[at..at + 4].as_ptr().cast::<u32>().cast_mut();
        // SAFETY: as in `load`.
        u32::from_le(unsafe { AtomicU32::from_ptr(place) }.load(Ordering::Relaxed))
    }

    /// Waits until the disk has everything. Only the machine's own crash needs it.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn sync(&self) -> io::Result<()> {
        match self.file {
            Some(_) => self.map.flush(),
            None => Ok(()),
        }
    }
}
