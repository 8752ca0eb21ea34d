//! What is measured of operations: how many, how long, how many bytes.

use serde::Serialize;
use std::cell::RefCell;
use std::collections::BTreeMap;
use units::Picos;
use units::log_buckets::{bucket_of, quantile};

/// Latencies of one kind of operation, in log-linear buckets no wider than 1/64.
#[derive(Clone, Default, Debug)]
struct Histogram {
    counts: Vec<u64>,
    all: u64,
    sum: Picos,
    longest: Picos,
}

impl Histogram {
    fn record(&mut self, took: Picos) {
        let bucket = bucket_of(took);
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.all += 1;
        self.sum = self.sum.saturating_add(took);
        self.longest = self.longest.max(took);
    }

    fn summary(&self) -> Latency {
        let of = |per_mille| {
            let counts = self.counts.iter().copied();
            quantile(counts, per_mille, self.all, self.longest).get()
        };
        Latency {
            operations: self.all,
            mean_ps: self.sum.get().checked_div(self.all).unwrap_or(0),
            p50_ps: of(500),
            p95_ps: of(950),
            p99_ps: of(990),
            max_ps: self.longest.get(),
        }
    }
}

/// How long operations of a kind took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Latency {
    /// How many.
    pub operations: u64,
    /// Mean, in picoseconds.
    pub mean_ps: u64,
    /// Median, at most 1/64 too high.
    pub p50_ps: u64,
    /// What 95 % do not exceed, likewise.
    pub p95_ps: u64,
    /// What 99 % do not exceed, likewise.
    pub p99_ps: u64,
    /// The longest.
    pub max_ps: u64,
}

/// Counts operations of all threads.
#[derive(Default)]
pub(crate) struct Recorder {
    kinds: RefCell<BTreeMap<&'static str, Histogram>>,
    bytes: RefCell<(u64, u64)>,
}

impl Recorder {
    /// An operation took so long.
    pub fn record(&self, kind: &'static str, took: Picos) {
        self.kinds
            .borrow_mut()
            .entry(kind)
            .or_default()
            .record(took);
    }

    /// The application has read so many bytes.
    pub fn count_read(&self, bytes: usize) {
        self.bytes.borrow_mut().0 += bytes as u64;
    }

    /// The application has written so many bytes.
    pub fn count_written(&self, bytes: usize) {
        self.bytes.borrow_mut().1 += bytes as u64;
    }

    /// Bytes that the application has read and written.
    pub fn bytes(&self) -> (u64, u64) {
        *self.bytes.borrow()
    }

    /// By kind, in the order of names.
    pub fn latencies(&self) -> BTreeMap<String, Latency> {
        let kinds = self.kinds.borrow();
        let summary = |(kind, of): (&&'static str, &Histogram)| ((*kind).to_owned(), of.summary());
        kinds.iter().map(summary).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_told_apart_by_kind() {
        let recorder = Recorder::default();
        for nth in 1..=100 {
            recorder.record("read", Picos::from_nanos(nth));
        }
        recorder.record("write", Picos::from_nanos(7));
        let found = recorder.latencies();
        assert_eq!(found["read"].operations, 100);
        assert_eq!(found["read"].mean_ps, 50_500);
        assert_eq!(found["read"].max_ps, 100_000);
        assert!((95_000..=96_500).contains(&found["read"].p95_ps));
        assert_eq!(found["write"].p50_ps, 7_000);
    }
}
