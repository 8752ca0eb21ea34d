//! A digest of results, to compare runs by.

use crate::random;
use std::fmt;

/// Digest of a sequence of numbers. Not against malice: it tells whether two runs did the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Digest(u64);

impl Digest {
    /// The digest after one more number.
    #[inline]
    #[must_use]
    pub const fn with(self, number: u64) -> Self {
        Self(random::hash(self.0 ^ number, 1))
    }
    /// The digest of these numbers.
    pub fn of(numbers: impl IntoIterator<Item = u64>) -> Self {
        numbers.into_iter().fold(Self::default(), Self::with)
    }
    /// The digest as a number, to go into another.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_values_matter() {
        assert_ne!(Digest::of([1, 2]), Digest::of([2, 1]));
        assert_ne!(Digest::of([1, 2]), Digest::of([1, 3]));
        assert_ne!(Digest::of([0]), Digest::of([0, 0]));
        assert_eq!(Digest::of([1, 2]), Digest::of([1]).with(2));
    }
}
