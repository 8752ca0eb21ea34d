//! Instants and spans in integer picoseconds, clock frequencies and cycles.

use crate::quantity::{Unit, textual};
use core::iter::Sum;
use core::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// Print units and parse units of a span.
const SPAN_UNITS: (&[Unit], &[Unit]) = {
    const ALL: &[Unit] = &[
        ("ps", 1),
        ("ns", 1_000),
        ("us", 1_000_000),
        ("ms", 1_000_000_000),
        ("s", 1_000_000_000_000),
    ];
    (ALL, ALL)
};

/// A span of time in picoseconds (up to 213 days).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Picos(u64);

textual!(
    Picos,
    SPAN_UNITS,
    "a span of time such as \"3us\", \"158ns\" or \"250ps\""
);

impl Picos {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest span.
    pub const MAX: Self = Self(u64::MAX);

    /// A span of `picos` picoseconds.
    pub const fn new(picos: u64) -> Self {
        Self(picos)
    }
    /// A span of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos * 1_000)
    }
    /// A span of `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros * 1_000_000)
    }
    /// The number of picoseconds.
    pub const fn get(self) -> u64 {
        self.0
    }
    /// Whether the span is empty.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
    /// The part of `self` beyond `other`, or nothing.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
    /// The sum, or the longest span if that is less.
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
    /// `self × numerator ÷ denominator`, rounded down.
    pub fn scale(self, numerator: u64, denominator: u64) -> Self {
        let scaled = u128::from(self.0) * u128::from(numerator) / u128::from(denominator);
        Self(u64::try_from(scaled).expect("a scaled span fits in 64 bits of picoseconds"))
    }
}

impl Add for Picos {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}
impl AddAssign for Picos {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}
impl Sub for Picos {
    type Output = Self;
    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}
impl SubAssign for Picos {
    #[inline]
    fn sub_assign(&mut self, other: Self) {
        self.0 -= other.0;
    }
}
impl Mul<u64> for Picos {
    type Output = Self;
    #[inline]
    fn mul(self, factor: u64) -> Self {
        Self(self.0 * factor)
    }
}
impl Div<u64> for Picos {
    type Output = Self;
    #[inline]
    fn div(self, divisor: u64) -> Self {
        Self(self.0 / divisor)
    }
}
impl Sum for Picos {
    fn sum<I: Iterator<Item = Self>>(spans: I) -> Self {
        spans.fold(Self::ZERO, Add::add)
    }
}

/// An instant on the clock that the platform keeps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Time(u64);

textual!(Time, SPAN_UNITS, "an instant such as \"1.204ms\"");

impl Time {
    /// The start of the clock.
    pub const ZERO: Self = Self(0);
    /// Later than everything.
    pub const MAX: Self = Self(u64::MAX);

    /// The instant `picos` picoseconds after the start.
    pub const fn from_picos(picos: u64) -> Self {
        Self(picos)
    }
    /// Picoseconds since the start.
    pub const fn as_picos(self) -> u64 {
        self.0
    }
    /// The span since `earlier`, or nothing if it is later.
    pub const fn saturating_since(self, earlier: Self) -> Picos {
        Picos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Picos> for Time {
    type Output = Self;
    #[inline]
    fn add(self, span: Picos) -> Self {
        Self(self.0 + span.0)
    }
}
impl AddAssign<Picos> for Time {
    #[inline]
    fn add_assign(&mut self, span: Picos) {
        self.0 += span.0;
    }
}
impl Sub for Time {
    type Output = Picos;
    #[inline]
    fn sub(self, earlier: Self) -> Picos {
        assert!(
            self.0 >= earlier.0,
            "an instant is subtracted from an earlier one"
        );
        Picos(self.0 - earlier.0)
    }
}

/// A number of clock cycles.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Cycles(u64);

const CYCLE_UNITS: (&[Unit], &[Unit]) = (&[("cycles", 1)], &[("cycles", 1), ("cycle", 1)]);

textual!(
    Cycles,
    CYCLE_UNITS,
    "a number of cycles such as \"4cycles\""
);

impl Cycles {
    /// `count` cycles.
    pub const fn new(count: u64) -> Self {
        Self(count)
    }
    /// The number of cycles.
    pub const fn get(self) -> u64 {
        self.0
    }
    /// How long they last at `period` each.
    pub fn span(self, period: Picos) -> Picos {
        period * self.0
    }
}

/// A clock frequency.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Hertz(u64);

const HERTZ_UNITS: (&[Unit], &[Unit]) = {
    const ALL: &[Unit] = &[
        ("Hz", 1),
        ("kHz", 1_000),
        ("MHz", 1_000_000),
        ("GHz", 1_000_000_000),
    ];
    (ALL, ALL)
};

textual!(Hertz, HERTZ_UNITS, "a frequency such as \"4GHz\"");

impl Hertz {
    /// A frequency of `hertz` per second.
    pub const fn new(hertz: u64) -> Self {
        Self(hertz)
    }
    /// Cycles per second.
    pub const fn get(self) -> u64 {
        self.0
    }
    /// The period if it is a whole number of picoseconds.
    pub fn period(self) -> Option<Picos> {
        const PICOS_PER_SECOND: u64 = 1_000_000_000_000;
        (self.0 > 0 && PICOS_PER_SECOND.is_multiple_of(self.0))
            .then(|| Picos(PICOS_PER_SECOND / self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    #[test]
    fn spans_print_as_a_person_writes_them() {
        for text in ["3us", "158ns", "250ps", "1.204ms", "0ps", "2s", "1.5us"] {
            assert_eq!(text.parse::<Picos>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_fraction_of_a_picosecond_is_refused() {
        assert!("0.5ps".parse::<Picos>().is_err());
        assert!("3".parse::<Picos>().is_err());
        assert!("us".parse::<Picos>().is_err());
        assert!("1.2.3us".parse::<Picos>().is_err());
        assert!("99999999999s".parse::<Picos>().is_err());
        assert!("-1ns".parse::<Picos>().is_err());
    }

    #[test]
    fn four_gigahertz_has_a_period_of_250_ps_and_three_has_none() {
        assert_eq!(
            "4GHz".parse::<Hertz>().unwrap().period(),
            Some(Picos::new(250))
        );
        assert_eq!("3GHz".parse::<Hertz>().unwrap().period(), None);
    }

    proptest! {
        #[test]
        fn printing_and_parsing_are_inverse(picos: u64) {
            prop_assert_eq!(Picos::new(picos).to_string().parse(), Ok(Picos::new(picos)));
            let instant = Time::from_picos(picos);
            prop_assert_eq!(instant.to_string().parse(), Ok(instant));
        }
    }
}
