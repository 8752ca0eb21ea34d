//! The pages that the operating system maps data in: of 4 KiB, or of 2 MiB (SkyByte §IV).
//!
//! The device knows 4 KiB pages only. A huge page is 512 of them, its *chunks*, that follow one
//! another from a multiple of 512 on, so that number and chunk are the two parts of an [`Lpa`].

use serde::{Deserialize, Serialize};
use units::{Bytes, Lpa, PageSize};

/// Size of the pages that data are mapped in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum MappedPage {
    /// 4 KiB.
    #[serde(rename = "4KiB")]
    Kib4,
    /// 2 MiB.
    #[serde(rename = "2MiB")]
    Mib2,
}

impl MappedPage {
    /// Binary logarithm of the chunks in a page.
    pub const fn chunk_bits(self) -> u32 {
        match self {
            Self::Kib4 => 0,
            Self::Mib2 => 9,
        }
    }

    /// Chunks in a page.
    pub const fn chunk_count(self) -> u64 {
        1 << self.chunk_bits()
    }

    /// Size of a page.
    pub fn bytes(self) -> Bytes {
        PageSize::KIB_4.bytes() * self.chunk_count()
    }

    /// Number of the page that a chunk is of.
    pub const fn number(self, chunk: Lpa) -> u64 {
        chunk.get() >> self.chunk_bits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_huge_page_is_512_chunks() {
        assert_eq!(MappedPage::Kib4.bytes(), Bytes::from_kib(4));
        assert_eq!(MappedPage::Mib2.bytes(), Bytes::from_mib(2));
        let number = |chunk| MappedPage::Mib2.number(Lpa::new(chunk));
        assert_eq!([0, 511, 512, 1_535].map(number), [0, 0, 1, 2]);
        assert_eq!(MappedPage::Kib4.number(Lpa::new(511)), 511);
    }
}
