//! Where a value comes from: the records of the stream that it waits for.

use super::stream::{Dependence, MOST_DEPENDENCES};

/// A record that a value waits for, the piece it belongs to, and the cycles from its completion to
/// the value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Source {
    record: u32,
    piece: u32,
    after: u32,
}

const NONE: Source = Source {
    record: 0,
    piece: 0,
    after: 0,
};

/// When a value is there: the cycle, if every miss of L1 is found in L2, and the youngest records
/// that it waits for, the youngest first.
///
/// Not `Copy`, and changed in place: the compiler would copy it in pieces other than those it was
/// written in, for which a host core waits. That took half of the filter's time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Origin {
    pub(super) ready: u64,
    sources: [Source; MOST_DEPENDENCES],
    count: u8,
}

impl Origin {
    /// A value that is there at `ready`, whatever happens.
    pub(super) const fn at(ready: u64) -> Self {
        Self {
            ready,
            sources: [NONE; MOST_DEPENDENCES],
            count: 0,
        }
    }
    /// What the record, of this piece, brings: there at `ready`.
    pub(super) fn of(record: u32, piece: u32, ready: u64) -> Self {
        let mut origin = Self::at(ready);
        origin.sources[0] = Source {
            record,
            piece,
            after: 0,
        };
        origin.count = 1;
        origin
    }
    /// Becomes another one.
    #[inline]
    pub(super) fn set(&mut self, other: &Self) {
        self.ready = other.ready;
        self.count = other.count;
        for (at, source) in other.sources.iter().enumerate() {
            if at == usize::from(other.count) {
                break;
            }
            self.sources[at] = *source;
        }
    }
    /// The later of two. Pieces before `oldest` have retired and hold nothing up.
    #[inline]
    pub(super) fn join(&mut self, other: &Self, oldest: u32) {
        self.ready = self.ready.max(other.ready);
        for source in &other.sources[..usize::from(other.count)] {
            if source.piece >= oldest {
                self.add(*source);
            }
        }
    }
    fn add(&mut self, new: Source) {
        let count = usize::from(self.count);
        let mut at = 0;
        while at < count && self.sources[at].record > new.record {
            at += 1;
        }
        if at < count && self.sources[at].record == new.record {
            self.sources[at].after = self.sources[at].after.max(new.after);
            return;
        }
        if at == MOST_DEPENDENCES {
            return;
        }
        let end = count.min(MOST_DEPENDENCES - 1);
        self.sources.copy_within(at..end, at + 1);
        self.sources[at] = new;
        self.count = (end + 1) as u8;
    }
    /// The value is there at `ready`, which the filter knows; so much later than its sources are.
    #[inline]
    pub(super) fn delay_to(&mut self, ready: u64, latency: u64) {
        self.ready = ready;
        for source in &mut self.sources[..usize::from(self.count)] {
            source.after += latency as u32;
        }
    }
    /// The youngest record that it waits for, and the cycles from that to the value.
    #[inline]
    pub(super) fn youngest(&self) -> Option<(u32, u32)> {
        (self.count > 0).then(|| (self.sources[0].record, self.sources[0].after))
    }
    /// Whether everything that `other` waits for, from piece `oldest` on, is waited for here too.
    pub(super) fn covers(&self, other: &Self, oldest: u32) -> bool {
        let own = &self.sources[..usize::from(self.count)];
        let mut others = other.sources[..usize::from(other.count)].iter();
        others.all(|source| {
            source.piece < oldest || own.iter().any(|own| own.record == source.record)
        })
    }
    /// As the dependences of the record with this number; those of pieces before `oldest` are over.
    pub(super) fn dependences(&self, record: u32, oldest: u32) -> [Dependence; MOST_DEPENDENCES] {
        let mut found = [Dependence::default(); MOST_DEPENDENCES];
        let sources = &self.sources[..usize::from(self.count)];
        for (place, source) in found.iter_mut().zip(sources) {
            if source.piece >= oldest {
                *place = Dependence {
                    back: u16::try_from(record - source.record).unwrap_or(0),
                    after: source.after.min(u32::from(u16::MAX)) as u16,
                };
            }
        }
        found
    }
}
