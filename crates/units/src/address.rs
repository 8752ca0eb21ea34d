//! Logical addresses: lines and pages of the device's logical space.

use crate::quantity::serde_as_text;
use crate::{Bytes, ParseQuantityError};
use core::fmt;
use core::str::FromStr;

/// Size of a line, the unit of CXL.mem and of the write log.
pub const LINE_BYTES: Bytes = Bytes::new(64);

/// A byte of the device's logical space.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct ByteAddr(u64);

impl ByteAddr {
    /// The byte with this number.
    #[inline]
    pub const fn new(byte: u64) -> Self {
        Self(byte)
    }
    /// The number of the byte.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
    /// The line that holds the byte.
    #[inline]
    pub const fn line(self) -> LineAddr {
        LineAddr(self.0 / LINE_BYTES.get())
    }
    /// The byte `size` further on, if there can be one.
    #[inline]
    pub fn checked_add(self, size: Bytes) -> Option<Self> {
        self.0.checked_add(size.get()).map(Self)
    }
}

impl fmt::Display for ByteAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A line of the device's logical space: page number × lines of a page + line in the page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct LineAddr(u64);

impl LineAddr {
    /// The line with this number.
    #[inline]
    pub const fn new(line: u64) -> Self {
        Self(line)
    }
    /// The number of the line.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
    /// The line's first byte.
    #[inline]
    pub const fn byte(self) -> ByteAddr {
        ByteAddr(self.0 * LINE_BYTES.get())
    }
    /// The page that holds the line.
    #[inline]
    pub const fn lpa(self, page: PageSize) -> Lpa {
        Lpa(self.0 >> page.line_bits)
    }
    /// The line's number within its page.
    #[inline]
    pub const fn in_page(self, page: PageSize) -> LineInPage {
        LineInPage((self.0 & page.line_index_mask()) as u16)
    }
}

/// A logical page address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Lpa(u64);

impl Lpa {
    /// The page with this number.
    #[inline]
    pub const fn new(page: u64) -> Self {
        Self(page)
    }
    /// The number of the page.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
    /// The page `pages` further on.
    #[inline]
    pub const fn offset(self, pages: u64) -> Self {
        Self(self.0 + pages)
    }
    /// The page's line number `line`.
    #[inline]
    pub const fn line(self, page: PageSize, line: LineInPage) -> LineAddr {
        LineAddr((self.0 << page.line_bits) | line.0 as u64)
    }
}

impl fmt::Display for Lpa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "L{}", self.0)
    }
}
impl fmt::Debug for Lpa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A line's number within its page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct LineInPage(u16);

impl LineInPage {
    /// Line number `line`.
    #[inline]
    pub const fn new(line: u16) -> Self {
        Self(line)
    }
    /// The line's number.
    #[inline]
    pub const fn get(self) -> u16 {
        self.0
    }
    /// The line's number as an index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The size of a flash page or of a mapping unit: 1 to 256 lines, a power of two (flash pages of
/// 4 KiB in SkyByte, of 16 KiB on OpenCXD's board).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PageSize {
    line_bits: u8,
}

impl PageSize {
    /// 1 KiB, 16 lines.
    pub const KIB_1: Self = Self { line_bits: 4 };
    /// 4 KiB, 64 lines.
    pub const KIB_4: Self = Self { line_bits: 6 };
    /// 16 KiB, 256 lines.
    pub const KIB_16: Self = Self { line_bits: 8 };

    /// A page of `size`, if that is a power of two between a line and 256 lines.
    pub fn new(size: Bytes) -> Option<Self> {
        let lines = size / LINE_BYTES;
        (lines.is_power_of_two() && lines <= 256 && LINE_BYTES * lines == size).then(|| Self {
            line_bits: lines.trailing_zeros() as u8,
        })
    }
    /// The size in bytes.
    pub const fn bytes(self) -> Bytes {
        Bytes::new(LINE_BYTES.get() << self.line_bits)
    }
    /// Lines of a page.
    #[inline]
    pub const fn line_count(self) -> u16 {
        1 << self.line_bits
    }
    /// Base-two logarithm of the lines of a page.
    #[inline]
    pub const fn line_bits(self) -> u8 {
        self.line_bits
    }
    const fn line_index_mask(self) -> u64 {
        (1 << self.line_bits) - 1
    }
}

impl fmt::Display for PageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.bytes(), f)
    }
}
impl fmt::Debug for PageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl FromStr for PageSize {
    type Err = ParseQuantityError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::new(text.parse()?).ok_or_else(|| {
            ParseQuantityError::new(text, "a page size: a power of two from 64B to 16KiB")
        })
    }
}
serde_as_text!(PageSize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_split_into_page_and_line_and_joined_again() {
        for page in [PageSize::KIB_4, PageSize::KIB_16] {
            let line = LineAddr::new(123_457);
            assert_eq!(line.lpa(page).line(page, line.in_page(page)), line);
        }
    }

    #[test]
    fn a_byte_lies_in_the_line_that_starts_at_or_before_it() {
        let line = LineAddr::new(3);
        assert_eq!(line.byte(), ByteAddr::new(192));
        assert_eq!(ByteAddr::new(255).line(), line);
        assert_eq!(ByteAddr::new(256).line(), LineAddr::new(4));
        assert_eq!(ByteAddr::new(u64::MAX).checked_add(Bytes::new(1)), None);
    }

    #[test]
    fn page_sizes_are_powers_of_two_of_lines() {
        assert_eq!("4KiB".parse(), Ok(PageSize::KIB_4));
        assert!("3KiB".parse::<PageSize>().is_err());
        assert!("32KiB".parse::<PageSize>().is_err());
        assert!("32B".parse::<PageSize>().is_err());
    }
}
