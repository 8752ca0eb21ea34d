//! How pages that move together are made of chunks of 4 KiB: number and chunk are the two parts of
//! an address, on the device and in host DRAM.

use super::HostPage;
use super::plb::Chunk;
use units::Lpa;

/// Pages of 2^`bits` chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Chunking {
    pub bits: u32,
}

impl Chunking {
    /// Pages of one chunk.
    pub const NONE: Self = Self { bits: 0 };

    /// Chunks in a page.
    pub const fn count(self) -> u32 {
        1 << self.bits
    }

    /// Pages that hold so many chunks.
    pub const fn pages_of(self, chunks: u64) -> u64 {
        chunks.div_ceil(1 << self.bits)
    }

    /// Number of the page that a chunk is of.
    #[inline]
    pub const fn page(self, chunk: Lpa) -> usize {
        (chunk.get() >> self.bits) as usize
    }

    /// A chunk's place in its page.
    #[inline]
    pub const fn place(self, chunk: Lpa) -> Chunk {
        Chunk::new(chunk.get() as u32 & (self.count() - 1))
    }

    /// The first chunk of the page that a chunk is of.
    pub const fn first(self, chunk: Lpa) -> Lpa {
        Lpa::new(chunk.get() >> self.bits << self.bits)
    }

    /// A chunk of the page of another one.
    pub const fn at(self, of: Lpa, place: Chunk) -> Lpa {
        Lpa::new(self.first(of).get() + place.get() as u64)
    }

    /// The 4 KiB of host DRAM that hold a chunk, whose page is in this one of host DRAM's.
    #[inline]
    pub const fn in_host(self, page: HostPage, chunk: Lpa) -> HostPage {
        HostPage::new(page.get() << self.bits | self.place(chunk).get())
    }
}
