//! Thresholds and probabilities as ratios of integers, so that no float decides anything.

use crate::ParseQuantityError;
use crate::quantity::serde_as_text;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

/// A ratio such as `1/8` or `60%`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Ratio {
    numerator: u64,
    denominator: u64,
}

impl Ratio {
    /// `numerator ÷ denominator`; the denominator is not zero.
    pub const fn new(numerator: u64, denominator: u64) -> Self {
        assert!(denominator > 0, "a ratio has a denominator");
        Self {
            numerator,
            denominator,
        }
    }
    /// A percentage.
    pub const fn percent(percent: u64) -> Self {
        Self::new(percent, 100)
    }
    /// The numerator.
    pub const fn numerator(self) -> u64 {
        self.numerator
    }
    /// The denominator.
    pub const fn denominator(self) -> u64 {
        self.denominator
    }
    /// This share of `count`, rounded down; of more than one, at most what 64 bits hold.
    pub fn of(self, count: u64) -> u64 {
        let share = u128::from(count) * u128::from(self.numerator) / u128::from(self.denominator);
        u64::try_from(share).unwrap_or(u64::MAX)
    }
    /// What is left of one, if this is at most one; nothing otherwise.
    pub const fn rest(self) -> Self {
        Self::new(
            self.denominator.saturating_sub(self.numerator),
            self.denominator,
        )
    }
    /// Whether `part ÷ whole` is more than this ratio.
    pub fn is_exceeded_by(self, part: u64, whole: u64) -> bool {
        u128::from(part) * u128::from(self.denominator)
            > u128::from(whole) * u128::from(self.numerator)
    }
    /// Whether the ratio is at most one.
    pub const fn is_at_most_one(self) -> bool {
        self.numerator <= self.denominator
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.denominator == 100 {
            write!(f, "{}%", self.numerator)
        } else {
            write!(f, "{}/{}", self.numerator, self.denominator)
        }
    }
}

impl FromStr for Ratio {
    type Err = ParseQuantityError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fail = || ParseQuantityError::new(text, "a ratio such as \"12.5%\" or \"1/8\"");
        let trimmed = text.trim();
        if let Some(percent) = trimmed.strip_suffix('%') {
            let (whole, fraction) = percent.split_once('.').unwrap_or((percent, ""));
            let digits: String = [whole, fraction].concat();
            let scale = 10u64
                .checked_pow(u32::try_from(fraction.len()).map_err(|_| fail())?)
                .and_then(|scale| scale.checked_mul(100))
                .ok_or_else(fail)?;
            return Ok(Self::new(digits.parse().map_err(|_| fail())?, scale));
        }
        let (numerator, denominator) = trimmed.split_once('/').ok_or_else(fail)?;
        let denominator: u64 = denominator.trim().parse().map_err(|_| fail())?;
        if denominator == 0 {
            return Err(fail());
        }
        Ok(Self::new(
            numerator.trim().parse().map_err(|_| fail())?,
            denominator,
        ))
    }
}

serde_as_text!(Ratio);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn percentages_and_fractions_read_and_print() {
        assert_eq!("60%".parse(), Ok(Ratio::percent(60)));
        assert_eq!("12.5%".parse(), Ok(Ratio::new(125, 1000)));
        assert_eq!("1/8".parse::<Ratio>().unwrap().to_string(), "1/8");
        assert_eq!("12.5%".parse::<Ratio>().unwrap().of(1000), 125);
        assert_eq!(Ratio::percent(u64::MAX).of(200), u64::MAX);
        assert!("1/0".parse::<Ratio>().is_err());
        assert!("half".parse::<Ratio>().is_err());
    }

    #[test]
    fn a_threshold_is_exceeded_only_beyond_it() {
        let three_quarters = Ratio::percent(75);
        assert!(!three_quarters.is_exceeded_by(3, 4));
        assert!(three_quarters.is_exceeded_by(4, 5));
    }
}
