//! Accounted latencies by kind of request: histograms of fixed size in the DRAM file.
//!
//! A request is one count in its bucket ([`units::log_buckets`]), stored where it stays; so the
//! histograms are of the device's whole life, survive a killed process as everything there does,
//! and can be read while another process has the image open.

use crate::layout::Layout;
use crate::mapped::Mapped;
use port::Command;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use units::Picos;
use units::log_buckets::{bucket_of, quantile};

/// The last bucket begins with this: 140 s. It has whatever takes longer.
const LAST: Picos = Picos::new(1 << 47);
/// Buckets of a histogram.
const BUCKETS: usize = bucket_of(LAST) + 1;
/// Words before them: time of all added up, the longest.
const HEAD: usize = 2;
/// Words of a histogram.
const WORDS: usize = HEAD + BUCKETS;
/// Bytes of the region.
pub const LATENCY_BYTES: usize = Kind::ALL.len() * WORDS * 8;

/// Kinds of requests whose latencies are told apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Read of any length, byte port.
    ByteRead,
    /// Write of any length, byte port: until the host goes on.
    ByteWrite,
    /// Persist barrier.
    Persist,
    /// Read of blocks.
    BlockRead,
    /// Write of blocks, acknowledged as the host asked for it.
    BlockWrite,
    /// Flush.
    Flush,
    /// Trim.
    Trim,
    /// Commit of a transaction.
    Commit,
    /// Abort of a transaction.
    Abort,
}

impl Kind {
    /// All, in the order of the region.
    pub const ALL: [Self; 9] = [
        Self::ByteRead,
        Self::ByteWrite,
        Self::Persist,
        Self::BlockRead,
        Self::BlockWrite,
        Self::Flush,
        Self::Trim,
        Self::Commit,
        Self::Abort,
    ];

    /// Its name in statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ByteRead => "byte_read",
            Self::ByteWrite => "byte_write",
            Self::Persist => "persist",
            Self::BlockRead => "block_read",
            Self::BlockWrite => "block_write",
            Self::Flush => "flush",
            Self::Trim => "trim",
            Self::Commit => "commit",
            Self::Abort => "abort",
        }
    }

    /// Of what is asked; of a reservation there is none.
    pub(crate) const fn of(command: Command) -> Option<Self> {
        Some(match command {
            Command::Read | Command::ReadLines => Self::ByteRead,
            Command::Write(_) | Command::WriteLines => Self::ByteWrite,
            Command::Persist | Command::PersistPmem | Command::Drain => Self::Persist,
            Command::ReadBlocks => Self::BlockRead,
            Command::WriteBlocks(_) => Self::BlockWrite,
            Command::Trim => Self::Trim,
            Command::Flush => Self::Flush,
            Command::Commit(_) => Self::Commit,
            Command::Abort(_) => Self::Abort,
            Command::Reserve(_) => return None,
        })
    }
}

/// Counts one request.
#[inline]
pub(crate) fn record(map: &mut Mapped, kind: Kind, took: Picos) {
    let word = |nth: usize| Layout::latency(kind as usize * WORDS + nth);
    let bucket = bucket_of(took).min(BUCKETS - 1);
    let (sum, longest, count) = (word(0), word(1), word(HEAD + bucket));
    map.store(sum, map.load(sum).saturating_add(took.get()));
    if took.get() > map.load(longest) {
        map.store(longest, took.get());
    }
    map.store(count, map.load(count).wrapping_add(1));
}

/// The latencies of one kind of request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Latency {
    sum: Picos,
    longest: Picos,
    counts: Box<[u64]>,
}

impl Latency {
    fn from_words(word: impl Fn(usize) -> u64) -> Self {
        Self {
            sum: Picos::new(word(0)),
            longest: Picos::new(word(1)),
            counts: (HEAD..WORDS).map(word).collect(),
        }
    }

    /// Requests.
    pub fn count(&self) -> u64 {
        self.counts
            .iter()
            .fold(0, |all, count| all.wrapping_add(*count))
    }

    /// The mean, if there is a request.
    pub fn mean(&self) -> Option<Picos> {
        let mean = self.sum.get().checked_div(self.count());
        mean.map(Picos::new)
    }

    /// Time of all of them, added up.
    pub fn sum(&self) -> Picos {
        self.sum
    }

    /// The longest, if there is a request.
    pub fn longest(&self) -> Option<Picos> {
        (self.count() > 0).then_some(self.longest)
    }

    /// What `per_mille` ‰ of the requests do not exceed, at most 1/64 above it, if there is a
    /// request.
    pub fn quantile(&self, per_mille: u64) -> Option<Picos> {
        let all = self.count();
        let counts = self.counts.iter().copied();
        (all > 0).then(|| quantile(counts, per_mille, all, self.longest))
    }

    /// Those that came after an earlier look. The longest is that of the bucket it is in, since a
    /// histogram does not say when its longest was.
    pub fn since(&self, earlier: &Self) -> Self {
        let both = self.counts.iter().zip(&earlier.counts);
        let counts: Box<[u64]> = both.map(|(now, then)| now.wrapping_sub(*then)).collect();
        let highest = counts.iter().rposition(|count| *count > 0);
        let longest = highest.map_or(Picos::ZERO, |bucket| match bucket {
            bucket if bucket + 1 == BUCKETS => self.longest,
            bucket => units::log_buckets::upper_edge(bucket).min(self.longest),
        });
        Self {
            sum: Picos::new(self.sum.get().saturating_sub(earlier.sum.get())),
            longest,
            counts,
        }
    }
}

/// The latencies of all kinds of requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Latencies([Latency; Kind::ALL.len()]);

impl Latencies {
    /// What a mapped DRAM file says.
    pub(crate) fn read(map: &Mapped) -> Self {
        Self::from_words(|word| map.load(Layout::latency(word)))
    }

    /// What a DRAM file says that may be open elsewhere.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn read_file(file: &mut File) -> io::Result<Self> {
        let mut bytes = vec![0; LATENCY_BYTES];
        file.seek(SeekFrom::Start(Layout::latency(0) as u64))?;
        file.read_exact(&mut bytes)?;
        Ok(Self::from_words(|word| {
            let word = bytes[word * 8..word * 8 + 8].try_into();
            u64::from_le_bytes(word.expect("eight bytes are eight"))
        }))
    }

    fn from_words(word: impl Fn(usize) -> u64) -> Self {
        let of = |kind: Kind| Latency::from_words(|nth| word(kind as usize * WORDS + nth));
        Self(Kind::ALL.map(of))
    }

    /// Of a few requests, for tests.
    #[cfg(test)]
    pub(crate) fn of_spans(spans: &[(Kind, Picos)]) -> Self {
        let mut words = vec![0; Kind::ALL.len() * WORDS];
        for (kind, span) in spans {
            let first = *kind as usize * WORDS;
            words[first] += span.get();
            words[first + 1] = words[first + 1].max(span.get());
            words[first + HEAD + bucket_of(*span).min(BUCKETS - 1)] += 1;
        }
        Self::from_words(|word| words[word])
    }

    /// Of one kind.
    pub const fn of(&self, kind: Kind) -> &Latency {
        &self.0[kind as usize]
    }

    /// Of the requests that came after an earlier look.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self(Kind::ALL.map(|kind| self.of(kind).since(earlier.of(kind))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latency(spans: &[u64]) -> Latency {
        let spans: Vec<_> = spans
            .iter()
            .map(|span| (Kind::Flush, Picos::new(*span)))
            .collect();
        Latencies::of_spans(&spans).of(Kind::Flush).clone()
    }

    #[test]
    fn kinds_are_in_the_order_of_the_region() {
        for (place, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, place);
        }
    }

    #[test]
    fn quantiles_are_of_the_counted_spans() {
        let spans: Vec<u64> = (1..=1000).map(|nth| nth * 1_000_000).collect();
        let latency = latency(&spans);
        assert_eq!(
            (latency.count(), latency.mean()),
            (1000, Some(Picos::new(500_500_000)))
        );
        for (per_mille, exact) in [(500, 500), (900, 900), (990, 990), (999, 999)] {
            let found = latency.quantile(per_mille).unwrap().get();
            let exact = exact * 1_000_000;
            assert!(
                (exact..=exact + exact / 64).contains(&found),
                "{per_mille}: {found}"
            );
        }
        assert_eq!(latency.longest(), Some(Picos::from_micros(1000)));
        assert_eq!(super::tests::latency(&[]).quantile(500), None);
    }

    #[test]
    fn what_takes_longer_than_the_last_bucket_is_the_longest() {
        let hours = 10_000_000_000_000_000;
        let latency = latency(&[5, hours]);
        assert_eq!(latency.quantile(1000), Some(Picos::new(hours)));
        assert_eq!(
            latency.since(&super::tests::latency(&[5])).longest(),
            Some(Picos::new(hours))
        );
    }

    #[test]
    fn a_later_look_has_what_came_since() {
        let (then, now) = (
            latency(&[9_000_000, 40]),
            latency(&[9_000_000, 40, 41, 1_000]),
        );
        let since = now.since(&then);
        assert_eq!((since.count(), since.sum()), (2, Picos::new(1_041)));
        assert_eq!(since.quantile(500), Some(Picos::new(41)));
        let longest = since.longest().unwrap().get();
        assert!((1_000..=1_015).contains(&longest), "{longest}");
        assert_eq!(now.since(&now).quantile(500), None);
    }
}
