//! Zipf's distribution: rank r is drawn with a probability that goes as 1 ÷ (r + 1)^exponent.
//!
//! Drawn by the approximate inverse of Gray et al., "Quickly Generating Billion-Record Synthetic
//! Databases" (SIGMOD 1994), as YCSB does. Powers come from `libm`, so that every machine draws the
//! same ranks.

use crate::random::{hash, unit};

/// YCSB's scrambled distribution draws ranks of so many items whatever there are, and spreads them
/// by a hash (Cooper et al., SoCC 2010, and the generator of that name).
const SCRAMBLED_ITEMS: f64 = 1e10;
const SCRAMBLED_EXPONENT: f64 = 0.99;
/// Σ 1 ÷ i^0.99 for i from 1 to 10¹⁰.
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

/// Ranks below a number of items.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    items: f64,
    zeta: f64,
    second: f64,
    alpha: f64,
    eta: f64,
}

impl Zipf {
    /// Ranks below `items`, which are at least 2, with an exponent between 0 and 1.
    #[must_use]
    pub fn new(items: u64, exponent: f64) -> Self {
        Self::with_zeta(items as f64, exponent, zeta(items, exponent))
    }

    /// YCSB's distribution before its ranks are scrambled.
    #[must_use]
    pub fn scrambled() -> Self {
        Self::with_zeta(SCRAMBLED_ITEMS, SCRAMBLED_EXPONENT, SCRAMBLED_ZETA)
    }

    fn with_zeta(items: f64, exponent: f64, zeta: f64) -> Self {
        assert!(
            items >= 2.0 && exponent > 0.0 && exponent < 1.0,
            "a Zipf distribution's bounds"
        );
        let second = 1.0 + libm::pow(0.5, exponent);
        Self {
            items,
            zeta,
            second,
            alpha: 1.0 / (1.0 - exponent),
            eta: (1.0 - libm::pow(2.0 / items, 1.0 - exponent)) / (1.0 - second / zeta),
        }
    }

    /// The rank that these 64 random bits draw.
    #[must_use]
    pub fn rank(&self, bits: u64) -> u64 {
        let share = unit(bits);
        if share * self.zeta < 1.0 {
            return 0;
        }
        if share * self.zeta < self.second {
            return 1;
        }
        let rank = self.items * libm::pow(self.eta * share - self.eta + 1.0, self.alpha);
        (rank as u64).min(self.items as u64 - 1)
    }

    /// As [`Self::rank`], spread over `0..items` so that popular ones lie anywhere; two ranks may
    /// fall on one item.
    #[must_use]
    pub fn item(&self, bits: u64, items: u64) -> u64 {
        hash(0x5363_7261_6d62_6c65, self.rank(bits)) % items
    }
}

/// Σ 1 ÷ i^exponent for i from 1 to `items`: the first thousand one by one, the others by the
/// Euler–Maclaurin formula, whose error is then below 10⁻⁹.
fn zeta(items: u64, exponent: f64) -> f64 {
    let power = |i: f64| libm::pow(i, -exponent);
    let first = items.min(1_000);
    let sum: f64 = (1..=first).map(|i| power(i as f64)).sum();
    if items == first {
        return sum;
    }
    let (a, b) = (first as f64, items as f64);
    let integral = (libm::pow(b, 1.0 - exponent) - libm::pow(a, 1.0 - exponent)) / (1.0 - exponent);
    let slope = |i: f64| -exponent * libm::pow(i, -exponent - 1.0);
    sum + integral + (power(b) - power(a)) / 2.0 + (slope(b) - slope(a)) / 12.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_by_formula_is_the_sum_one_by_one() {
        for exponent in [0.5, 0.8, 0.99] {
            let slow: f64 = (1..=200_000)
                .map(|i| libm::pow(f64::from(i), -exponent))
                .sum();
            assert!((zeta(200_000, exponent) - slow).abs() < 1e-8, "{exponent}");
        }
        assert!((zeta(10_000_000_000, 0.99) - SCRAMBLED_ZETA).abs() < 1e-6);
    }

    #[test]
    fn ranks_come_as_often_as_zipf_says() {
        const DRAWS: u64 = 400_000;
        let zipf = Zipf::new(1_000, 0.9);
        let mut counts = vec![0_u32; 1_000];
        for index in 0..DRAWS {
            counts[zipf.rank(hash(9, index)) as usize] += 1;
        }
        let expected = |rank: f64| DRAWS as f64 / libm::pow(rank + 1.0, 0.9) / zeta(1_000, 0.9);
        // The inverse is exact for the first two ranks and approximate by a tenth in sums over
        // many.
        for rank in [0, 1] {
            let share = f64::from(counts[rank]) / expected(rank as f64);
            assert!((0.97..1.03).contains(&share), "rank {rank}: {share}");
        }
        for ranks in [2..10, 10..100, 100..1_000] {
            let drawn: f64 = counts[ranks.clone()]
                .iter()
                .map(|count| f64::from(*count))
                .sum();
            let share = drawn / ranks.clone().map(|rank| expected(rank as f64)).sum::<f64>();
            assert!((0.9..1.1).contains(&share), "ranks {ranks:?}: {share}");
        }
    }

    #[test]
    fn scrambled_items_are_skewed_and_everywhere() {
        let zipf = Zipf::scrambled();
        let mut counts = vec![0_u32; 10_000];
        for index in 0..100_000 {
            counts[zipf.item(hash(2, index), 10_000) as usize] += 1;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let share = f64::from(counts[0]) / 100_000.0;
        assert!(
            (0.036..0.040).contains(&share),
            "1 ÷ 26.47 go to the most popular: {share}"
        );
        assert!(
            counts[9_000] > 0,
            "and nine tenths of the others are drawn too"
        );
    }
}
