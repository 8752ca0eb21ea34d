//! Sets of lines of one page.

use crate::{LineInPage, PageSize};
use core::fmt;

/// A set of up to 256 lines of a page.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct LineMask([u64; 4]);

impl LineMask {
    /// No line.
    pub const EMPTY: Self = Self([0; 4]);

    /// Every line of a page.
    pub fn full(page: PageSize) -> Self {
        let lines = u32::from(page.line_count());
        let word = |index: u32| match lines.saturating_sub(64 * index) {
            0 => 0,
            rest @ 1..64 => (1 << rest) - 1,
            _ => u64::MAX,
        };
        Self([word(0), word(1), word(2), word(3)])
    }
    /// Adds a line; says whether it was absent.
    #[inline]
    pub fn insert(&mut self, line: LineInPage) -> bool {
        let (word, bit) = Self::position(line);
        let was_absent = self.0[word] & bit == 0;
        self.0[word] |= bit;
        was_absent
    }
    /// Takes a line out; says whether it was present.
    #[inline]
    pub fn remove(&mut self, line: LineInPage) -> bool {
        let (word, bit) = Self::position(line);
        let was_present = self.0[word] & bit != 0;
        self.0[word] &= !bit;
        was_present
    }
    /// Whether the line is in the set.
    #[inline]
    pub fn contains(&self, line: LineInPage) -> bool {
        let (word, bit) = Self::position(line);
        self.0[word] & bit != 0
    }
    /// Lines in the set.
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }
    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }
    /// The lines that are in `self` or in `other`.
    pub fn union(self, other: Self) -> Self {
        let mut result = self;
        for (word, more) in result.0.iter_mut().zip(other.0) {
            *word |= more;
        }
        result
    }
    /// The lines of `self` that are not in `other`.
    pub fn without(self, other: Self) -> Self {
        let mut result = self;
        for (word, less) in result.0.iter_mut().zip(other.0) {
            *word &= !less;
        }
        result
    }
    /// A bit for each line, the first one the lowest of the first word.
    pub const fn words(self) -> [u64; 4] {
        self.0
    }
    /// The set of which these are the words.
    pub const fn from_words(words: [u64; 4]) -> Self {
        Self(words)
    }
    /// The lines in ascending order.
    pub fn iter(self) -> impl Iterator<Item = LineInPage> {
        self.0.into_iter().enumerate().flat_map(|(word, bits)| {
            core::iter::successors((bits != 0).then_some(bits), |bits| {
                let rest = bits & (bits - 1);
                (rest != 0).then_some(rest)
            })
            .map(move |bits| LineInPage::new((word * 64) as u16 + bits.trailing_zeros() as u16))
        })
    }
    #[inline]
    fn position(line: LineInPage) -> (usize, u64) {
        (line.index() / 64, 1 << (line.index() % 64))
    }
}

impl FromIterator<LineInPage> for LineMask {
    fn from_iter<I: IntoIterator<Item = LineInPage>>(lines: I) -> Self {
        let mut mask = Self::EMPTY;
        for line in lines {
            mask.insert(line);
        }
        mask
    }
}

impl fmt::Debug for LineMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.iter().map(LineInPage::get))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behaves_as_an_ordered_set(a: Vec<u8>, b: Vec<u8>) {
            let lines = |v: &[u8]| v.iter().map(|l| LineInPage::new(u16::from(*l))).collect::<Vec<_>>();
            let (mask_a, mask_b): (LineMask, LineMask) =
                (lines(&a).into_iter().collect(), lines(&b).into_iter().collect());
            let (set_a, set_b): (BTreeSet<_>, BTreeSet<_>) =
                (lines(&a).into_iter().collect(), lines(&b).into_iter().collect());
            prop_assert_eq!(mask_a.count() as usize, set_a.len());
            prop_assert!(mask_a.iter().eq(set_a.iter().copied()));
            prop_assert!(mask_a.union(mask_b).iter().eq(set_a.union(&set_b).copied()));
            prop_assert!(mask_a.without(mask_b).iter().eq(set_a.difference(&set_b).copied()));
        }
    }

    #[test]
    fn a_full_mask_has_every_line_of_the_page() {
        assert_eq!(LineMask::full(PageSize::KIB_4).count(), 64);
        assert_eq!(LineMask::full(PageSize::KIB_16).count(), 256);
    }
}
