//! Latency histograms with [log-linear buckets](units::log_buckets): exact counts, merged exactly.

use units::Picos;
use units::log_buckets::{bucket_of, quantile, upper_edge};

/// Latencies counted in buckets.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LatencyHistogram {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    maximum: Picos,
}

impl LatencyHistogram {
    /// An empty histogram.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts one latency.
    #[inline]
    pub fn record(&mut self, latency: Picos) {
        let bucket = bucket_of(latency);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.count += 1;
        self.sum += u128::from(latency.get());
        self.maximum = self.maximum.max(latency);
    }

    /// Latencies counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum in picoseconds; the largest number if it is beyond all.
    pub fn sum(&self) -> u64 {
        u64::try_from(self.sum).unwrap_or(u64::MAX)
    }

    /// The exact mean, rounded down; nothing if empty.
    pub fn mean(&self) -> Picos {
        let mean = self.sum.checked_div(u128::from(self.count)).unwrap_or(0);
        Picos::new(u64::try_from(mean).expect("a mean is at most the maximum"))
    }

    /// The largest latency.
    pub fn maximum(&self) -> Picos {
        self.maximum
    }

    /// The upper edge of the bucket below which at least `per_mille` ‰ of the latencies lie, or the
    /// maximum if that is less.
    pub fn quantile(&self, per_mille: u64) -> Picos {
        let counts = self.counts.iter().copied();
        quantile(counts, per_mille, self.count, self.maximum)
    }

    /// (upper edge of bucket, latencies up to it), for each bucket that holds any.
    pub fn cumulative(&self) -> Vec<(Picos, u64)> {
        let mut seen = 0;
        let mut points = Vec::new();
        for (bucket, count) in self
            .counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
        {
            seen += count;
            points.push((upper_edge(bucket), seen));
        }
        points
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.maximum = self.maximum.max(other.maximum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quantiles_agree_with_a_sorted_list(mut values in prop::collection::vec(0u64..1 << 40, 1..300), per_mille in 1u64..=1000) {
            let mut histogram = LatencyHistogram::new();
            values.iter().for_each(|value| histogram.record(Picos::new(*value)));
            values.sort_unstable();
            let rank = (values.len() as u64 * per_mille).div_ceil(1000) as usize;
            let exact = values[rank - 1];
            let found = histogram.quantile(per_mille).get();
            prop_assert!(found >= exact && found - exact <= exact / 64 + 1);
            prop_assert_eq!(histogram.cumulative().last().unwrap().1, values.len() as u64);
            prop_assert_eq!(histogram.mean().get(), values.iter().sum::<u64>() / values.len() as u64);
        }

        #[test]
        fn merging_equals_recording_together(a: Vec<u32>, b: Vec<u32>) {
            let record = |values: &[u32]| {
                let mut histogram = LatencyHistogram::new();
                values.iter().for_each(|v| histogram.record(Picos::new(u64::from(*v))));
                histogram
            };
            let mut merged = record(&a);
            merged.merge(&record(&b));
            let together = record(&[a, b].concat());
            prop_assert_eq!(merged.cumulative(), together.cumulative());
            prop_assert_eq!(merged.mean(), together.mean());
        }
    }
}
