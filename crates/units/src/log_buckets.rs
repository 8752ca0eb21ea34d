//! Log-linear buckets of spans: exact below 64 ps, then 64 buckets for each power of two, so that a
//! bucket is no wider than 1/64 of its lower edge. Whoever counts keeps the counts: in memory that
//! grows, or in a file of fixed size.

use crate::Picos;

/// Buckets for each power of two, as a power of two.
const LINEAR_BITS: u32 = 6;
const LINEAR: u64 = 1 << LINEAR_BITS;

/// The bucket of a span.
#[inline]
pub const fn bucket_of(span: Picos) -> usize {
    let value = span.get();
    if value < LINEAR {
        return value as usize;
    }
    let shift = value.ilog2() - LINEAR_BITS;
    (shift as u64 * LINEAR + (value >> shift)) as usize
}

/// The longest span of a bucket.
pub const fn upper_edge(bucket: usize) -> Picos {
    let bucket = bucket as u64;
    if bucket < 2 * LINEAR {
        return Picos::new(bucket);
    }
    let shift = bucket / LINEAR - 1;
    let mantissa = (bucket - shift * LINEAR) as u128;
    // In wide numbers: the last bucket ends with the last span.
    Picos::new((((mantissa + 1) << shift) - 1) as u64)
}

/// The upper edge of the bucket below which at least `per_mille` ‰ of the spans lie, or `longest`,
/// the longest of them, if that is less. `counts` are those of the buckets in order, a last one
/// whose spans may lie beyond its edge included if it is the one that `longest` is in.
pub fn quantile(
    counts: impl ExactSizeIterator<Item = u64>,
    per_mille: u64,
    all: u64,
    longest: Picos,
) -> Picos {
    let wanted = (u128::from(all) * u128::from(per_mille)).div_ceil(1000);
    let last = counts.len().saturating_sub(1);
    let mut seen = 0u128;
    for (bucket, count) in counts.enumerate() {
        seen += u128::from(count);
        if seen >= wanted && seen > 0 && bucket < last {
            return upper_edge(bucket).min(longest);
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_last_span_has_a_bucket() {
        let last = Picos::new(u64::MAX);
        assert_eq!(upper_edge(bucket_of(last)), last);
    }

    #[test]
    fn spans_beyond_the_last_bucket_are_the_longest() {
        let longest = Picos::from_micros(7);
        let counts = [2, 0, 3];
        let at = |per_mille| quantile(counts.into_iter(), per_mille, 5, longest);
        assert_eq!(at(400), Picos::new(0));
        assert_eq!(at(401), longest);
        assert_eq!(quantile([].into_iter(), 500, 0, Picos::ZERO), Picos::ZERO);
    }

    proptest! {
        #[test]
        fn a_span_is_in_its_bucket_and_the_bucket_is_narrow(value in 0..u64::MAX >> 1) {
            let bucket = bucket_of(Picos::new(value));
            let below = bucket.checked_sub(1).map_or(0, |below| upper_edge(below).get() + 1);
            let edge = upper_edge(bucket).get();
            prop_assert!((below..=edge).contains(&value));
            prop_assert!(edge - below <= value / LINEAR);
        }
    }
}
