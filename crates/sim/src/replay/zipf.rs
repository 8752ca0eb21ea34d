//! Zipf's law: rank r is drawn with a probability in proportion to r to the power of −θ.
//!
//! The first ranks stand alone; further on ranks share buckets of 1/64 of an octave, in which they
//! are equally likely. A table of aliases draws a bucket in constant time (Walker's method).

use std::hint::select_unpredictable;
use units::Stream;

/// Ranks that stand alone, and buckets of an octave after them.
const FINE: u64 = 64;

/// Neighbouring ranks that are equally likely.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// The first rank, counted from 0.
    first: u64,
    count: u64,
    /// Draws below this share of 2^64 stay; others go to the alias.
    threshold: u64,
    alias: u32,
}

/// The distribution over some ranks.
pub struct Zipf {
    buckets: Vec<Bucket>,
    count: u64,
}

impl Zipf {
    /// Ranks 0 to `count` − 1, the exponent in thousandths.
    pub fn new(count: u64, exponent_milli: u32) -> Self {
        assert!(count > 0, "a distribution has outcomes");
        let exponent = f64::from(exponent_milli) / 1000.0;
        let mut buckets = Vec::new();
        let mut weights = Vec::new();
        let mut first = 0;
        while first < count {
            let width = if first < FINE {
                1
            } else {
                (1 << (first + 1).ilog2()) / FINE
            };
            let width = width.min(count - first);
            weights.push(weight(first, width, exponent));
            buckets.push(Bucket {
                first,
                count: width,
                threshold: u64::MAX,
                alias: 0,
            });
            first += width;
        }
        give_aliases(&mut buckets, &weights);
        Self { buckets, count }
    }

    /// Ranks.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// A rank.
    #[inline]
    pub fn draw(&self, stream: &mut Stream) -> u64 {
        let product = u128::from(stream.bits()) * self.buckets.len() as u128;
        let at = (product >> 64) as usize;
        let drawn = &self.buckets[at];
        // A coin that no branch predictor knows.
        let stays = product as u64 <= drawn.threshold;
        let bucket = &self.buckets[select_unpredictable(stays, at, drawn.alias as usize)];
        bucket.first + stream.below_if_many(bucket.count)
    }
}

/// The sum of the weights of ranks: exact for one, an integral for more. `libm` gives the same bits
/// on every machine, which the platform's own powers and logarithms do not.
fn weight(first: u64, width: u64, exponent: f64) -> f64 {
    let rank = first as f64 + 1.0;
    if width == 1 {
        return libm::pow(rank, -exponent);
    }
    let (from, to) = (rank - 0.5, rank - 0.5 + width as f64);
    let rest = 1.0 - exponent;
    if rest.abs() < 1e-9 {
        libm::log(to / from)
    } else {
        (libm::pow(to, rest) - libm::pow(from, rest)) / rest
    }
}

/// Vose's way to build the table: each bucket that is too light is filled up by one that is not.
fn give_aliases(buckets: &mut [Bucket], weights: &[f64]) {
    let total: f64 = weights.iter().sum();
    let mean = total / weights.len() as f64;
    let mut shares: Vec<f64> = weights.iter().map(|weight| weight / mean).collect();
    let (mut light, mut heavy): (Vec<usize>, Vec<usize>) =
        (0..shares.len()).partition(|index| shares[*index] < 1.0);
    while let (Some(small), Some(large)) = (light.pop(), heavy.last().copied()) {
        buckets[small].threshold = (shares[small] * 18_446_744_073_709_551_616.0) as u64;
        buckets[small].alias = large as u32;
        shares[large] -= 1.0 - shares[small];
        if shares[large] < 1.0 {
            heavy.pop();
            light.push(large);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often the ranks below each of some bounds are drawn, in thousandths.
    fn below(count: u64, exponent_milli: u32, bounds: [u64; 3]) -> [u64; 3] {
        let zipf = Zipf::new(count, exponent_milli);
        let mut stream = Stream::new(1, "test");
        let draws: Vec<u64> = (0..200_000).map(|_| zipf.draw(&mut stream)).collect();
        assert!(draws.iter().all(|rank| *rank < count));
        bounds.map(|bound| draws.iter().filter(|rank| **rank < bound).count() as u64 / 200)
    }

    fn expected(count: u64, exponent: f64, bounds: [u64; 3]) -> [u64; 3] {
        let sum = |to: u64| {
            (1..=to)
                .map(|r| libm::pow(r as f64, -exponent))
                .sum::<f64>()
        };
        bounds.map(|bound| (1000.0 * sum(bound) / sum(count)) as u64)
    }

    #[test]
    fn shares_agree_with_the_sum_of_the_law() {
        let bounds = [1, 100, 10_000];
        for (milli, exponent) in [(500, 0.5), (900, 0.9), (1000, 1.0), (1300, 1.3)] {
            let (found, exact) = (
                below(100_000, milli, bounds),
                expected(100_000, exponent, bounds),
            );
            for (found, exact) in found.into_iter().zip(exact) {
                assert!(found.abs_diff(exact) <= 6, "{milli}: {found} {exact}");
            }
        }
    }

    #[test]
    fn one_outcome_is_always_drawn() {
        assert_eq!(below(1, 900, [1, 1, 1]), [1000; 3]);
    }
}
