//! What loads draw: sizes of files, and keys.
//!
//! Sizes are drawn with integers alone. Keys come from a table that is made once with `libm`, whose
//! powers have the same bits on every machine.

use units::{Bytes, Ratio, Stream};

/// One, in numbers with 32 bits behind the point.
const ONE: u64 = 1 << 32;
/// The natural logarithm of 2 in such a number.
const LN_2: u64 = 2_977_044_472;

/// The base-2 logarithm of a number that is not 0, with 32 bits behind the point: bit by bit, by
/// squaring.
fn log2(number: u64) -> u64 {
    let whole = u64::from(number.ilog2());
    // Between 1 and 2, with 63 bits behind the point.
    let mut rest = u128::from(number << number.leading_zeros());
    let mut fraction = 0;
    for _ in 0..32 {
        rest = (rest * rest) >> 63;
        fraction <<= 1;
        if rest >= 1 << 64 {
            rest >>= 1;
            fraction |= 1;
        }
    }
    whole * ONE + fraction
}

/// Exponentially distributed with mean 1, with 32 bits behind the point.
fn exponential(stream: &mut Stream) -> u64 {
    let uniform = stream.bits().max(1);
    let doublings = 64 * ONE - log2(uniform);
    ((u128::from(doublings) * u128::from(LN_2)) >> 32) as u64
}

/// Gamma distributed with shape 1/2 and scale 1: an exponential times the square of the cosine of
/// any angle, which von Neumann's rejection draws without trigonometry.
fn gamma_half(stream: &mut Stream) -> u64 {
    loop {
        let bits = stream.bits();
        let (x, y) = (bits >> 32, bits & (ONE - 1));
        let (x2, y2) = (u128::from(x * x), u128::from(y * y));
        if x2 + y2 == 0 || x2 + y2 > 1 << 64 {
            continue;
        }
        return (u128::from(exponential(stream)) * x2 / (x2 + y2)) as u64;
    }
}

/// A size that is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Size {
    /// Always the same.
    Fixed(Bytes),
    /// Gamma distributed with this mean and a shape of so many halves (Filebench's `cvar-gamma`).
    Gamma { mean: Bytes, halves: u64 },
}

impl Size {
    /// With a mean and a shape, if there is one; the shape is a multiple of 1/2.
    pub fn new(mean: Bytes, shape: Option<Ratio>) -> Option<Self> {
        let Some(shape) = shape else {
            return Some(Self::Fixed(mean));
        };
        let (halves, rest) = (
            2 * shape.numerator() / shape.denominator(),
            2 * shape.numerator() % shape.denominator(),
        );
        ((1..=64).contains(&halves) && rest == 0).then_some(Self::Gamma { mean, halves })
    }

    /// A size, which is at least one byte.
    pub fn draw(self, stream: &mut Stream) -> u64 {
        match self {
            Self::Fixed(size) => size.get(),
            Self::Gamma { mean, halves } => {
                let mut sum: u64 = (0..halves / 2).map(|_| exponential(stream)).sum();
                if halves % 2 == 1 {
                    sum += gamma_half(stream);
                }
                let size = u128::from(mean.get()) * u128::from(sum) * 2 / u128::from(halves);
                ((size >> 32) as u64).max(1)
            }
        }
    }
}

/// Ranks that stand alone, and the parts of an octave after them.
const FINE: u64 = 64;

/// Zipf's law: rank r, counted from 1, is drawn with a probability as r to the power of −θ.
///
/// Ranks below 64 stand alone; further on those of 1/64 of an octave are equally likely.
pub(crate) struct Zipf {
    /// First rank, counted from 0, ranks, and the share of 2^64 up to the end of these.
    buckets: Vec<(u64, u64, u64)>,
}

impl Zipf {
    /// Ranks 0 to `count` − 1, at least one, with θ in thousandths, not 1,000.
    pub fn new(count: u64, theta_milli: u32) -> Self {
        assert!(count > 0 && theta_milli != 1000, "a law with outcomes");
        let theta = f64::from(theta_milli) / 1000.0;
        let mut weights = Vec::new();
        let mut first = 0;
        while first < count {
            let width = match first {
                first if first < FINE => 1,
                first => ((1 << (first + 1).ilog2()) / FINE).min(count - first),
            };
            weights.push((first, width, weight(first, width, theta)));
            first += width;
        }
        let total: f64 = weights.iter().map(|(_, _, weight)| weight).sum();
        let mut sum = 0.0;
        let buckets = weights.iter().map(|&(first, width, weight)| {
            sum += weight;
            // The conversion stops at the largest number, which the last one is to have.
            (
                first,
                width,
                (sum / total * 18_446_744_073_709_551_616.0) as u64,
            )
        });
        let mut buckets: Vec<_> = buckets.collect();
        if let Some(last) = buckets.last_mut() {
            last.2 = u64::MAX;
        }
        Self { buckets }
    }

    /// A rank.
    pub fn draw(&self, stream: &mut Stream) -> u64 {
        let bits = stream.bits();
        let at = self.buckets.partition_point(|(_, _, end)| *end < bits);
        let (first, width, _) = self.buckets[at];
        first + stream.below(width)
    }
}

/// The sum of the weights of ranks: exact for one, an integral for more.
fn weight(first: u64, width: u64, theta: f64) -> f64 {
    let rank = first as f64 + 1.0;
    if width == 1 {
        return libm::pow(rank, -theta);
    }
    let (from, to, rest) = (rank - 0.5, rank - 0.5 + width as f64, 1.0 - theta);
    (libm::pow(to, rest) - libm::pow(from, rest)) / rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_exact_to_thirty_bits() {
        for number in [1, 2, 3, 10, 1000, 12_345_678_901, u64::MAX] {
            let exact = libm::log2(number as f64) * ONE as f64;
            assert!((log2(number) as f64 - exact).abs() < 8.0, "{number}");
        }
    }

    #[test]
    fn sizes_have_mean_and_spread_of_their_law() {
        let mut stream = Stream::new(3, "test");
        for halves in [1, 2, 3, 4] {
            let mean = Bytes::from_kib(16);
            let size = Size::new(mean, Some(Ratio::new(halves, 2))).unwrap();
            let drawn: Vec<f64> = (0..200_000)
                .map(|_| size.draw(&mut stream) as f64)
                .collect();
            let found = drawn.iter().sum::<f64>() / 200_000.0;
            assert!(
                (found / 16_384.0 - 1.0).abs() < 0.02,
                "{halves}: mean {found}"
            );
            let variance = drawn.iter().map(|size| (size - found).powi(2)).sum::<f64>() / 200_000.0;
            // The variance of a gamma distribution is the square of its mean by its shape.
            let expected = 16_384.0 * 16_384.0 / (halves as f64 / 2.0);
            assert!(
                (variance / expected - 1.0).abs() < 0.05,
                "{halves}: {variance}"
            );
        }
        assert_eq!(Size::new(Bytes::new(9), Some(Ratio::new(1, 3))), None);
    }

    #[test]
    fn ranks_come_as_often_as_the_law_says() {
        let zipf = Zipf::new(100_000, 990);
        let mut stream = Stream::new(1, "test");
        let mut drawn: Vec<u64> = (0..200_000).map(|_| zipf.draw(&mut stream)).collect();
        drawn.sort_unstable();
        assert!(*drawn.last().unwrap() < 100_000);
        let sum = |to: u64| (1..=to).map(|r| libm::pow(r as f64, -0.99)).sum::<f64>();
        for bound in [1, 10, 100, 10_000] {
            let found = drawn.partition_point(|rank| *rank < bound) as f64 / 200_000.0;
            let exact = sum(bound) / sum(100_000);
            assert!((found - exact).abs() < 0.006, "{bound}: {found} {exact}");
        }
    }
}
