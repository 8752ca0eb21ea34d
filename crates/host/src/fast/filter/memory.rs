//! Loads, stores and page walks of the filter: what L1 and the TLB have, and what becomes a record.

use super::super::origin::Origin;
use super::{Brought, Filter, Forward, RENEWAL, WORDS};
use crate::cache::Place;
use crate::fast::stream::Kind;
use crate::port::{Access, HostLine};
use crate::tlb::Translation;

impl Filter {
    pub(super) fn load(&mut self, load: Access, issue: Origin) -> Origin {
        let word = load.byte / 8;
        let found = self.forwards[word as usize % WORDS];
        if found.word == word && found.piece >= self.oldest() {
            let mut data = issue;
            data.join(&found.data, self.oldest());
            return data.delayed_to(data.ready + self.l1d_latency, self.l1d_latency);
        }
        let (first, last) = lines(load);
        let data = self.read_line(first, issue);
        if first == last {
            return data;
        }
        let next = data.ready - self.l1d_latency + 1;
        self.read_line(last, data.delayed_to(next, 0))
    }

    fn read_line(&mut self, line: HostLine, at: Origin) -> Origin {
        let (at, is_new) = self.translate(line, at);
        let hit = at.ready + self.l1d_latency;
        let Some(place) = self.l1d.access(line) else {
            return self.miss(line, at, Kind::Load);
        };
        let brought = self.brought[place.index()];
        if is_new || self.piece - brought.piece > RENEWAL {
            let age = (self.piece - brought.piece).div_ceil(16);
            let record = self.emit(Kind::Touch, line.get(), at.ready, &at);
            self.stream.records[record as usize].age = u16::try_from(age).unwrap_or(u16::MAX);
            // The next ones need not wait for it: the line is there, most likely.
            self.brought[place.index()].piece = self.oldest() - 1;
            return Origin::of(record, self.piece, hit);
        }
        if brought.piece < self.oldest() {
            self.counts.l1d_hits += 1;
            return at.delayed_to(hit, self.l1d_latency);
        }
        // Whoever is first asks for the line: a store does when it has retired, and a load may have
        // to wait for what this one does not wait for.
        if brought.by_store || !at.covers(&brought.asked, self.oldest()) {
            let record = self.emit(Kind::Again, line.get(), at.ready, &at);
            return self.note(place, record, at, false);
        }
        self.counts.l1d_hits += 1;
        let mut data = at.delayed_to(hit, self.l1d_latency);
        let line = Origin::of(brought.record, brought.piece, brought.ready);
        data.join(&line, self.oldest());
        data
    }

    /// A line that L1D does not have: gives when it is there.
    fn miss(&mut self, line: HostLine, at: Origin, kind: Kind) -> Origin {
        let record = self.emit(kind, line.get(), at.ready, &at);
        let by_store = kind == Kind::Store;
        let (place, victim) = self.l1d.fill(line, by_store);
        if let Some(victim) = victim.filter(|victim| victim.is_dirty) {
            self.emit(Kind::WriteBack, victim.line.get(), 0, &Origin::at(0));
        }
        self.note(place, record, at, by_store)
    }

    fn note(&mut self, place: Place, record: u32, asked: Origin, by_store: bool) -> Origin {
        let ready = asked.ready + self.l1d_latency + self.l2_latency;
        self.brought[place.index()] = Brought {
            record,
            piece: self.piece,
            ready,
            by_store,
            asked,
        };
        Origin::of(record, self.piece, ready)
    }

    /// Translates a page; says whether the TLB did not have it, so that the replay must look.
    fn translate(&mut self, line: HostLine, at: Origin) -> (Origin, bool) {
        let chunk = line.chunk();
        match self.tlb.translate(chunk) {
            Translation::L1 | Translation::Remapped => (at, false),
            Translation::L2 => {
                self.counts.l1_tlb_misses += 1;
                let second = at.ready + self.l2_tlb_latency;
                (at.delayed_to(second, self.l2_tlb_latency), false)
            }
            Translation::Absent => {
                self.counts.l1_tlb_misses += 1;
                self.tlb.insert(chunk);
                (at, true)
            }
        }
    }

    pub(super) fn store(&mut self, store: Access, done: Origin) {
        let (first, last) = lines(store);
        self.write_line(first, done);
        if first != last {
            self.write_line(last, done);
        }
        let last = store.byte + u64::from(store.size) - 1;
        for word in store.byte / 8..=last / 8 {
            self.forwards[word as usize % WORDS] = Forward {
                word,
                piece: self.piece,
                data: done,
            };
        }
    }

    fn write_line(&mut self, line: HostLine, done: Origin) {
        let (done, _) = self.translate(line, done);
        let Some(place) = self.l1d.write(line) else {
            self.miss(line, done, Kind::Store);
            return;
        };
        self.counts.l1d_hits += 1;
        let brought = self.brought[place.index()];
        if self.piece - brought.piece > RENEWAL {
            let age = (self.piece - brought.piece).div_ceil(16);
            let record = self.emit(Kind::Renewal, line.get(), done.ready, &done);
            self.stream.records[record as usize].age = u16::try_from(age).unwrap_or(u16::MAX);
            self.brought[place.index()].piece = self.oldest() - 1;
        }
    }
}

/// The first and the last line of an access.
fn lines(access: Access) -> (HostLine, HostLine) {
    let last = access.byte + u64::from(access.size) - 1;
    (HostLine::of_byte(access.byte), HostLine::of_byte(last))
}
