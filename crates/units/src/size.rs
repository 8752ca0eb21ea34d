//! Sizes and bandwidths.

use crate::ParseQuantityError;
use crate::Picos;
use crate::quantity::{self, Unit, serde_as_text, textual};
use core::fmt;
use core::ops::{Add, AddAssign, Div, Mul, Sub};

/// Sizes print in binary units and parse in binary or decimal ones.
const SIZE_UNITS: (&[Unit], &[Unit]) = (
    &[
        ("B", 1),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
    ],
    &[
        ("B", 1),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
    ],
);

/// A size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Bytes(u64);

textual!(Bytes, SIZE_UNITS, "a size such as \"64MiB\"");

impl Bytes {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// A size of `bytes` bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }
    /// A size of `kib` binary kilobytes.
    pub const fn from_kib(kib: u64) -> Self {
        Self(kib << 10)
    }
    /// A size of `mib` binary megabytes.
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib << 20)
    }
    /// Whether there are none.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}
impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}
impl Sub for Bytes {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}
impl Mul<u64> for Bytes {
    type Output = Self;
    fn mul(self, factor: u64) -> Self {
        Self(self.0 * factor)
    }
}
/// How many of `unit` fit (rounded down).
impl Div for Bytes {
    type Output = u64;
    fn div(self, unit: Self) -> u64 {
        self.0 / unit.0
    }
}

/// A bandwidth. Decimal units (D10): `16GB/s` is 16 × 10⁹ bytes each second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct BytesPerSec(u64);

const RATE_UNITS: (&[Unit], &[Unit]) = (
    &[
        ("B/s", 1),
        ("kB/s", 1_000),
        ("MB/s", 1_000_000),
        ("GB/s", 1_000_000_000),
    ],
    &[
        ("B/s", 1),
        ("kB/s", 1_000),
        ("MB/s", 1_000_000),
        ("GB/s", 1_000_000_000),
        ("KiB/s", 1 << 10),
        ("MiB/s", 1 << 20),
        ("GiB/s", 1 << 30),
    ],
);

/// The text of [`BytesPerSec::UNLIMITED`].
const UNLIMITED: &str = "unlimited";

impl fmt::Display for BytesPerSec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::UNLIMITED => f.pad(UNLIMITED),
            Self(rate) => quantity::format(f, rate, RATE_UNITS.0),
        }
    }
}
impl fmt::Debug for BytesPerSec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl core::str::FromStr for BytesPerSec {
    type Err = ParseQuantityError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim() {
            UNLIMITED => Ok(Self::UNLIMITED),
            text => {
                let expected = "a bandwidth such as \"16GB/s\"";
                quantity::parse(text, RATE_UNITS.1, expected).map(Self)
            }
        }
    }
}
serde_as_text!(BytesPerSec);

impl BytesPerSec {
    /// A bandwidth of `bytes` each second.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }
    /// A bandwidth at which nothing takes time; its text is `unlimited`.
    pub const UNLIMITED: Self = Self(u64::MAX);

    /// Bytes each second.
    pub const fn get(self) -> u64 {
        self.0
    }
    /// How long `size` takes, rounded up to a picosecond; no time at all if unlimited.
    pub fn time_for(self, size: Bytes) -> Picos {
        if self == Self::UNLIMITED {
            return Picos::ZERO;
        }
        assert!(self.0 > 0, "a bandwidth is not zero");
        let picos = (u128::from(size.get()) * 1_000_000_000_000).div_ceil(u128::from(self.0));
        Picos::new(u64::try_from(picos).expect("a transfer time fits in 64 bits of picoseconds"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    #[test]
    fn sizes_parse_binary_and_decimal_and_print_binary() {
        assert_eq!("64MiB".parse(), Ok(Bytes::from_mib(64)));
        assert_eq!("1kB".parse(), Ok(Bytes::new(1000)));
        assert_eq!(Bytes::from_mib(64).to_string(), "64MiB");
        assert_eq!(Bytes::new(1000).to_string(), "1000B");
        assert!("64".parse::<Bytes>().is_err());
    }

    #[test]
    fn an_unlimited_rate_takes_no_time_and_is_read_back() {
        let rate: BytesPerSec = "unlimited".parse().unwrap();
        assert_eq!(rate, BytesPerSec::UNLIMITED);
        assert_eq!(rate.time_for(Bytes::from_mib(1)), Picos::ZERO);
        assert_eq!(rate.to_string(), "unlimited");
    }

    #[test]
    fn a_line_takes_four_nanoseconds_at_16_gigabytes_per_second() {
        let rate: BytesPerSec = "16GB/s".parse().unwrap();
        assert_eq!(rate.time_for(Bytes::new(64)), Picos::from_nanos(4));
        assert_eq!(
            BytesPerSec::new(3).time_for(Bytes::new(1)).get(),
            333_333_333_334
        );
    }

    proptest! {
        #[test]
        fn printing_and_parsing_are_inverse(value: u64) {
            prop_assert_eq!(Bytes::new(value).to_string().parse(), Ok(Bytes::new(value)));
            prop_assert_eq!(BytesPerSec::new(value).to_string().parse(), Ok(BytesPerSec::new(value)));
        }
    }
}
