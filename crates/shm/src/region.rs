//! Shared memory: the one place with unsafe code.
//!
//! Another process, which may be hostile, stores into the same memory at any time. So nothing here
//! gives a reference to bytes: memory is reached through atomic words and bytes alone, whose every
//! value is valid and which may change between two loads. Who needs a value twice keeps the first.
//!
//! The mapping stays valid because the memory's file cannot shrink: it is sealed before anybody
//! gets it, and [`Region::new`] refuses one that is not.
#![allow(unsafe_code)]

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::SealFlags;
use rustix::mm::Advice;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Bytes of a word.
const WORD: usize = size_of::<u64>();

/// Memory that two processes have.
#[derive(Debug)]
pub struct Region {
    map: MmapRaw,
}

impl Region {
    /// Maps the first bytes of a file in memory.
    ///
    /// # Errors
    /// What the operating system says; a file that is too short or that could become so.
    pub fn new(file: &File, bytes: usize) -> io::Result<Self> {
        let seals = rustix::fs::fcntl_get_seals(file)?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(io::Error::other("the shared memory can be made shorter"));
        }
        if file.metadata()?.len() < bytes as u64 {
            return Err(io::Error::other("the shared memory is too short"));
        }
        let map = MmapOptions::new().len(bytes).map_raw(file)?;
        Ok(Self { map })
    }

    /// A page of this process alone. Its forks find it empty, whatever is stored here: it tells
    /// them apart for the price of a load, where asking the system costs a tenth of a microsecond.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn empty_in_forks() -> io::Result<Self> {
        let map = MmapRaw::from(
            MmapOptions::new()
                .len(rustix::param::page_size())
                .map_anon()?,
        );
        // SAFETY: the mapping is anonymous, this process' own, and as long as is said; that forks
        // find zeroes in it takes nothing from anybody, for it has atomic words alone.
        unsafe {
            rustix::mm::madvise(map.as_mut_ptr().cast(), map.len(), Advice::LinuxWipeOnFork)?;
        }
        Ok(Self { map })
    }

    /// Bytes of it.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A word, at a multiple of eight bytes.
    ///
    /// # Panics
    /// Beyond the end, or not aligned: the caller has checked what it was told.
    #[inline]
    pub fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(WORD), "a word is aligned");
        assert!(at < self.len() && self.len() - at >= WORD, "a word within");
        // SAFETY: the word lies within the mapping, which begins at a page, and is aligned; the
        // mapping lives as long as `self` and the file cannot shrink. All accesses of this process
        // are atomic; those of the other one are outside the language, on whole words or bytes.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().add(at).cast()) }
    }

    #[inline]
    fn byte(&self, at: usize) -> &AtomicU8 {
        assert!(at < self.len(), "a byte within");
        // SAFETY: as in `word`; a byte is always aligned.
        unsafe { AtomicU8::from_ptr(self.map.as_mut_ptr().add(at)) }
    }

    /// Copies bytes out, each read once. `at` is a multiple of eight.
    ///
    /// # Panics
    /// As [`Region::word`].
    #[inline]
    pub fn read(&self, at: usize, into: &mut [u8]) {
        let mut chunks = into.chunks_exact_mut(WORD);
        let mut place = at;
        for chunk in &mut chunks {
            let word = self.word(place).load(Ordering::Relaxed);
            chunk.copy_from_slice(&word.to_ne_bytes());
            place += WORD;
        }
        for byte in chunks.into_remainder() {
            *byte = self.byte(place).load(Ordering::Relaxed);
            place += 1;
        }
    }

    /// Copies bytes in. `at` is a multiple of eight.
    ///
    /// # Panics
    /// As [`Region::word`].
    #[inline]
    pub fn write(&self, at: usize, bytes: &[u8]) {
        let (chunks, rest) = bytes.as_chunks::<WORD>();
        let mut place = at;
        for chunk in chunks {
            let word = u64::from_ne_bytes(*chunk);
            self.word(place).store(word, Ordering::Relaxed);
            place += WORD;
        }
        for byte in rest {
            self.byte(place).store(*byte, Ordering::Relaxed);
            place += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handshake::memory;

    #[test]
    fn bytes_of_any_length_come_back_and_their_neighbours_stay() {
        let region = memory(4096).unwrap().1;
        for size in 0..40 {
            region.write(64, &[0xee; 48]);
            let bytes: Vec<u8> = (0..size).collect();
            region.write(64, &bytes);
            let mut found = [0; 48];
            region.read(64, &mut found);
            assert_eq!(found[..bytes.len()], bytes);
            assert!(found[bytes.len()..].iter().all(|byte| *byte == 0xee));
            let mut short = vec![0; bytes.len()];
            region.read(64, &mut short);
            assert_eq!(short, bytes);
        }
    }

    #[test]
    fn memory_that_could_shrink_is_refused() {
        let flags = rustix::fs::MemfdFlags::ALLOW_SEALING;
        let file = File::from(rustix::fs::memfd_create("test", flags).unwrap());
        file.set_len(8192).unwrap();
        let error = Region::new(&file, 8192).unwrap_err().to_string();
        assert!(error.contains("shorter"), "{error}");
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
        let error = Region::new(&file, 8200).unwrap_err().to_string();
        assert!(error.contains("too short"), "{error}");
        assert!(Region::new(&file, 8192).is_ok());
    }

    #[test]
    #[should_panic(expected = "a word within")]
    fn nothing_is_read_beyond_the_end() {
        memory(4096).unwrap().1.read(4088, &mut [0; 16]);
    }
}
