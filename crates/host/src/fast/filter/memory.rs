//! Loads, stores and page walks of the filter: what L1 and the TLB have, and what becomes a record.

use super::super::origin::Origin;
use super::{Filter, RENEWAL, WORDS};
use crate::cache::Place;
use crate::fast::stream::Kind;
use crate::port::{Access, HostLine};
use crate::tlb::Translation;

impl Filter {
    /// A load at `at`, which becomes when its value is there.
    pub(super) fn load(&mut self, load: Access, at: &mut Origin) {
        let word = load.byte / 8;
        let oldest = self.oldest();
        let found = &self.forwards[word as usize % WORDS];
        if found.word == word && found.piece >= oldest {
            at.join(&found.data, oldest);
            return at.delay_to(at.ready + self.l1d_latency, self.l1d_latency);
        }
        let (first, last) = lines(load);
        self.read_line(first, at);
        if first != last {
            at.delay_to(at.ready - self.l1d_latency + 1, 0);
            self.read_line(last, at);
        }
    }

    fn read_line(&mut self, line: HostLine, at: &mut Origin) {
        let is_new = self.translate(line, at);
        let hit = at.ready + self.l1d_latency;
        let Some(place) = self.l1d.access(line) else {
            return self.miss(line, at, Kind::Load);
        };
        let (oldest, brought) = (self.oldest(), &self.brought[place.index()]);
        if is_new || self.piece - brought.piece > RENEWAL {
            let record = self.ask_again(place, line, at, Kind::Touch);
            return at.set(&Origin::of(record, self.piece, hit));
        }
        if brought.piece < oldest {
            self.counts.l1d_hits += 1;
            return at.delay_to(hit, self.l1d_latency);
        }
        // Whoever is first asks for the line: a store does when it has retired, and a load may have
        // to wait for what this one does not wait for.
        if brought.by_store || !at.covers(&brought.asked, oldest) {
            let record = self.emit(Kind::Again, line.get(), at.ready, at);
            return self.note(place, record, at, false);
        }
        self.counts.l1d_hits += 1;
        at.delay_to(hit, self.l1d_latency);
        let line = Origin::of(brought.record, brought.piece, brought.ready);
        at.join(&line, oldest);
    }

    /// A line that L1D has, unless another thread has been on the core.
    fn ask_again(&mut self, place: Place, line: HostLine, at: &Origin, kind: Kind) -> u32 {
        let age = (self.piece - self.brought[place.index()].piece).div_ceil(16);
        let record = self.emit(kind, line.get(), at.ready, at);
        self.stream.records[record as usize].age = u16::try_from(age).unwrap_or(u16::MAX);
        // The next ones need not wait for it: the line is there, most likely.
        self.brought[place.index()].piece = self.oldest() - 1;
        record
    }

    /// A line that L1D does not have, asked for at `at`, which becomes when it is there.
    fn miss(&mut self, line: HostLine, at: &mut Origin, kind: Kind) {
        let record = self.emit(kind, line.get(), at.ready, at);
        let by_store = kind == Kind::Store;
        let (place, victim) = self.l1d.fill(line, by_store);
        if let Some(victim) = victim.filter(|victim| victim.is_dirty) {
            self.emit(Kind::WriteBack, victim.line.get(), 0, &Origin::at(0));
        }
        self.note(place, record, at, by_store);
    }

    fn note(&mut self, place: Place, record: u32, at: &mut Origin, by_store: bool) {
        let ready = at.ready + self.l1d_latency + self.l2_latency;
        let brought = &mut self.brought[place.index()];
        brought.asked.set(at);
        (brought.record, brought.piece) = (record, self.piece);
        (brought.ready, brought.by_store) = (ready, by_store);
        at.set(&Origin::of(record, self.piece, ready));
    }

    /// Translates a page; says whether the TLB did not have it, so that the replay must look.
    fn translate(&mut self, line: HostLine, at: &mut Origin) -> bool {
        let chunk = line.chunk();
        match self.tlb.translate(chunk) {
            Translation::L1 | Translation::Remapped => false,
            Translation::L2 => {
                self.counts.l1_tlb_misses += 1;
                at.delay_to(at.ready + self.l2_tlb_latency, self.l2_tlb_latency);
                false
            }
            Translation::Absent => {
                self.counts.l1_tlb_misses += 1;
                self.tlb.insert(chunk);
                true
            }
        }
    }

    /// A store whose address and data are there at `done`.
    pub(super) fn store(&mut self, store: Access, done: &Origin) {
        let (first, last) = lines(store);
        self.write_line(first, done.clone());
        if first != last {
            self.write_line(last, done.clone());
        }
        let last = store.last();
        for word in store.byte / 8..=last / 8 {
            let forward = &mut self.forwards[word as usize % WORDS];
            (forward.word, forward.piece) = (word, self.piece);
            forward.data.set(done);
        }
    }

    fn write_line(&mut self, line: HostLine, mut done: Origin) {
        self.translate(line, &mut done);
        let Some(place) = self.l1d.write(line) else {
            return self.miss(line, &mut done, Kind::Store);
        };
        self.counts.l1d_hits += 1;
        if self.piece - self.brought[place.index()].piece > RENEWAL {
            self.ask_again(place, line, &done, Kind::Renewal);
        }
    }
}

/// The first and the last line of an access.
fn lines(access: Access) -> (HostLine, HostLine) {
    (
        HostLine::of_byte(access.byte),
        HostLine::of_byte(access.last()),
    )
}
