//! Named random streams: one per component, so that a new component never shifts another's draws.

use crate::Ratio;
use core::hint::select_unpredictable;
use rand_core::RngCore;
use rand_pcg::Pcg64Mcg;

/// A stream of random numbers, determined by (run seed, component path).
#[derive(Clone, Debug)]
pub struct Stream(Pcg64Mcg);

impl Stream {
    /// The stream of the component at `path` in the run with `seed`.
    pub fn new(seed: u64, path: &str) -> Self {
        // FNV-1a over the path, then two rounds of the SplitMix64 finaliser to spread the seed.
        let hashed = path.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let low = mix(hashed ^ mix(seed));
        let high = mix(low ^ hashed.rotate_left(32));
        Self(Pcg64Mcg::new((u128::from(high) << 64) | u128::from(low)))
    }
    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }
    /// A number below `bound`, without bias (Lemire's multiply and reject).
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a draw needs at least one outcome");
        let mut product = u128::from(self.bits()) * u128::from(bound);
        // What is rejected lies below the bound, so that few draws pay for the division.
        if (product as u64) < bound {
            let floor = bound.wrapping_neg() % bound;
            while (product as u64) < floor {
                product = u128::from(self.bits()) * u128::from(bound);
            }
        }
        (product >> 64) as u64
    }
    /// As [`Stream::below`], but a single outcome takes no bits. That depends on the bound without
    /// a branch, which would be mispredicted wherever bounds are drawn themselves.
    #[inline]
    pub fn below_if_many(&mut self, bound: u64) -> u64 {
        let mut ahead = self.clone();
        let drawn = ahead.below(bound);
        self.0 = select_unpredictable(bound == 1, self.0.clone(), ahead.0);
        drawn
    }
    /// True with this probability.
    pub fn chance(&mut self, probability: Ratio) -> bool {
        self.below(probability.denominator()) < probability.numerator()
    }
}

/// The finaliser of SplitMix64.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_repeats_and_differs_by_seed_and_path() {
        let draw = |seed, path| Stream::new(seed, path).bits();
        assert_eq!(draw(1, "nand/die"), draw(1, "nand/die"));
        assert_ne!(draw(1, "nand/die"), draw(2, "nand/die"));
        assert_ne!(draw(1, "nand/die"), draw(1, "nand/dif"));
    }

    #[test]
    fn a_single_outcome_takes_no_bits() {
        let (mut one, mut other) = (Stream::new(7, "test"), Stream::new(7, "test"));
        for bound in [1, 6, 1, 1, 1 << 40, 3, 1] {
            let expected = if bound == 1 { 0 } else { other.below(bound) };
            assert_eq!(one.below_if_many(bound), expected);
            assert_eq!(one.clone().bits(), other.clone().bits());
        }
    }

    #[test]
    fn bounded_draws_are_spread_evenly() {
        let mut stream = Stream::new(7, "test");
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[stream.below(10) as usize] += 1;
        }
        assert!(
            counts.iter().all(|count| (9_500..10_500).contains(count)),
            "{counts:?}"
        );
        let hits = (0..100_000)
            .filter(|_| stream.chance(Ratio::percent(25)))
            .count();
        assert!((24_000..26_000).contains(&hits), "{hits}");
    }
}
