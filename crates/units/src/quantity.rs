//! Reading and writing numbers with units, exactly, without floating point.

use alloc::string::{String, ToString};
use core::fmt;

/// A quantity that could not be read; `Display` says what was found and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseQuantityError {
    found: String,
    expected: &'static str,
}

impl ParseQuantityError {
    /// An error about `found` where something like `expected` was wanted.
    pub fn new(found: &str, expected: &'static str) -> Self {
        Self {
            found: found.to_string(),
            expected,
        }
    }
}

impl fmt::Display for ParseQuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" is not {}", self.found, self.expected)
    }
}

impl core::error::Error for ParseQuantityError {}

/// A unit's suffix and its size in base units.
pub(crate) type Unit = (&'static str, u64);

/// Reads `<decimal><unit>` into base units; the result must be a whole number of them.
pub(crate) fn parse(
    text: &str,
    units: &[Unit],
    expected: &'static str,
) -> Result<u64, ParseQuantityError> {
    let fail = || ParseQuantityError::new(text, expected);
    let trimmed = text.trim();
    let split = trimmed
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_' || c == ','))
        .ok_or_else(fail)?;
    let (number, suffix) = trimmed.split_at(split);
    let scale = units
        .iter()
        .find(|(name, _)| *name == suffix.trim())
        .map(|(_, scale)| *scale)
        .ok_or_else(fail)?;
    parse_decimal(number, scale).ok_or_else(fail)
}

/// `number × scale` when that is a whole number that fits.
fn parse_decimal(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.contains('.') {
        return None;
    }
    let digits = |text: &str| -> Option<u128> {
        text.chars()
            .filter(|c| *c != '_' && *c != ',')
            .try_fold(0u128, |sum, c| {
                let digit = c.to_digit(10)?;
                sum.checked_mul(10)?.checked_add(u128::from(digit))
            })
    };
    let fraction_len = u32::try_from(fraction.chars().filter(char::is_ascii_digit).count()).ok()?;
    let divisor = 10u128.checked_pow(fraction_len)?;
    let fraction_scaled = digits(fraction)?.checked_mul(u128::from(scale))?;
    if fraction_scaled % divisor != 0 {
        return None;
    }
    let total = digits(whole)?
        .checked_mul(u128::from(scale))?
        .checked_add(fraction_scaled / divisor)?;
    u64::try_from(total).ok()
}

/// Writes `value` base units exactly, in the largest unit that needs at most three decimals.
/// `units` are in ascending order and start with the base unit.
pub(crate) fn format(f: &mut fmt::Formatter<'_>, value: u64, units: &[Unit]) -> fmt::Result {
    let (name, scale) = units
        .iter()
        .rev()
        .find(|(_, scale)| value >= *scale && u128::from(value) * 1000 % u128::from(*scale) == 0)
        .or_else(|| units.first())
        .expect("a quantity has at least one unit");
    let (whole, mut rest) = (value / scale, value % scale);
    let mut text = whole.to_string();
    if rest > 0 {
        text.push('.');
        while rest > 0 {
            let tenfold = u128::from(rest) * 10;
            let digit = tenfold / u128::from(*scale);
            text.push(char::from(
                b'0' + u8::try_from(digit).expect("a digit is below ten"),
            ));
            rest = u64::try_from(tenfold % u128::from(*scale)).expect("a remainder is below scale");
        }
    }
    text.push_str(name);
    f.pad(&text)
}

/// Implements `Display`, `FromStr`, `Serialize` and `Deserialize` (as a string) for a newtype over
/// `u64` from its list of units.
macro_rules! textual {
    ($name:ident, $units:expr, $expected:literal) => {
        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                $crate::quantity::format(f, self.0, $units.0)
            }
        }
        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                core::fmt::Display::fmt(self, f)
            }
        }
        impl core::str::FromStr for $name {
            type Err = $crate::ParseQuantityError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                $crate::quantity::parse(text, $units.1, $expected).map(Self)
            }
        }
        $crate::quantity::serde_as_text!($name);
    };
}

/// Serialises through `Display` and deserialises through `FromStr`.
macro_rules! serde_as_text {
    ($name:ident) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
                let text = <alloc::string::String as serde::Deserialize>::deserialize(input)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

pub(crate) use {serde_as_text, textual};
