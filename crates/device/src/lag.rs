//! How far a device with a wall clock lags behind it: from when something happened on its clock to
//! when whoever drives it let it happen. A lag delays what the host sees and no time that the
//! device accounts.

use units::Picos;
use units::log_buckets::{bucket_of, quantile};

/// The last bucket begins with this: 140 s.
const LAST: Picos = Picos::new(1 << 47);

/// Lags, counted in logarithmic buckets.
#[derive(Clone, Debug)]
pub struct Lag {
    counts: Vec<u64>,
    longest: Picos,
}

impl Default for Lag {
    fn default() -> Self {
        Self {
            counts: vec![0; bucket_of(LAST) + 1],
            longest: Picos::ZERO,
        }
    }
}

impl Lag {
    /// Something was let happen so late.
    pub(crate) fn record(&mut self, lag: Picos) {
        let last = self.counts.len() - 1;
        self.counts[bucket_of(lag).min(last)] += 1;
        self.longest = self.longest.max(lag);
    }

    /// How often something was let happen.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The lag that so many thousandths do not exceed, to the bucket's width.
    pub fn quantile(&self, per_mille: u64) -> Picos {
        quantile(
            self.counts.iter().copied(),
            per_mille,
            self.count(),
            self.longest,
        )
    }

    /// The longest lag.
    pub fn longest(&self) -> Picos {
        self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lag_is_told_by_its_median_its_tail_and_the_longest() {
        let mut lag = Lag::default();
        for _ in 0..99 {
            lag.record(Picos::from_nanos(100));
        }
        lag.record(Picos::from_micros(7));
        assert_eq!(lag.count(), 100);
        let median = lag.quantile(500);
        assert!(
            median >= Picos::from_nanos(90) && median <= Picos::from_nanos(120),
            "{median}"
        );
        assert!(lag.quantile(1000) >= Picos::from_micros(6));
        assert_eq!(lag.longest(), Picos::from_micros(7));
    }
}
