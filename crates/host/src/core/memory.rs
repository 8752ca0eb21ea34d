//! Loads and stores on their way through TLB, L1D and L2 to the uncore.

use super::Core;
use crate::core::store_queue::Forward;
use crate::core::window::{PENDING, Phase, info};
use crate::miss_path::{Access, MissPath};
use crate::port::{HostLine, MissKind, Uncore};
use crate::tlb::Translation;
use units::Time;

impl Core {
    /// Translates the page of a data line for an access at `at`.
    pub(super) fn translate<U: Uncore>(
        &mut self,
        line: HostLine,
        at: u64,
        uncore: &mut U,
    ) -> Access {
        let chunk = line.chunk();
        match self.caches.tlb.translate(chunk) {
            Translation::L1 => Access::Done(at),
            Translation::L2 => {
                self.stats.l1_tlb_misses += 1;
                Access::Done(at + self.timing.l2_tlb)
            }
            Translation::Absent => self.walk(chunk, at + self.timing.l2_tlb, uncore),
            Translation::Remapped => Access::Done(self.walked(chunk, at, uncore)),
        }
    }

    /// Reads the leaf page-table entry of a chunk's page through L2.
    fn walk<U: Uncore>(&mut self, chunk: u32, at: u64, uncore: &mut U) -> Access {
        let line = HostLine::page_table(self.caches.tlb.page_of(chunk));
        let outcome = self.read_l2(line, MissKind::Walk, at + self.timing.l2, uncore);
        if outcome == Access::Refused {
            return outcome;
        }
        self.stats.l1_tlb_misses += 1;
        self.stats.walks += 1;
        match outcome {
            Access::Done(cycle) => {
                self.caches.tlb.insert(chunk);
                Access::Done(self.walked(chunk, cycle, uncore))
            }
            _ => outcome,
        }
    }

    /// The walk for a chunk's page, if there was one, ends at cycle `at`; gives when the
    /// translation can be used. A hint fault comes between: its handler keeps the core from
    /// dispatching, and the access from going on.
    fn walked<U: Uncore>(&mut self, chunk: u32, at: u64, uncore: &mut U) -> u64 {
        let lpa = self.caches.tlb.first_chunk(chunk);
        let cost = uncore.walked(self.time(at), self.id, lpa);
        if cost.is_zero() {
            return at;
        }
        let cycles = cost.get().div_ceil(self.timing.period);
        let from = self.front.cycle.max(at);
        self.front.not_before(from + cycles);
        at + cycles
    }

    /// Reads a translated data line for a load that looks it up at `at`.
    pub(super) fn read_line<U: Uncore>(
        &mut self,
        line: HostLine,
        at: u64,
        uncore: &mut U,
    ) -> Access {
        if let Some(done) = self.caches.load(line, at + self.timing.l1d) {
            self.stats.l1d_hits += 1;
            return Access::Done(done);
        }
        self.miss_l1d(line, MissKind::Load, at, uncore)
    }

    /// Hands a dirty line that left L2 at cycle `at` to the uncore.
    pub(super) fn write_back<U: Uncore>(
        &mut self,
        line: Option<HostLine>,
        at: u64,
        uncore: &mut U,
    ) {
        if let Some(line) = line {
            uncore.write_back(self.time(at), self.id, line);
        }
    }

    /// The instant of a cycle, not before the caller's present.
    pub(super) fn time(&self, cycle: u64) -> Time {
        Time::from_picos(cycle * self.timing.period).max(self.now)
    }

    /// Lets the load of a parked piece look for its data, from cycle `ready_address` on.
    pub(super) fn advance_load<U: Uncore>(&mut self, place: usize, uncore: &mut U) {
        let piece = self.window.parked[place];
        let at = piece.ready_address;
        match self.stores.forward(piece.store, at) {
            Forward::Cache => {}
            Forward::Known(data_at) => {
                return self.load_done(place, data_at + self.timing.l1d, true);
            }
            Forward::Pending(store) => {
                self.stats.forwarded += 1;
                self.window.parked[place].phase = Phase::Operands;
                return self.window.link_to_store(place, store);
            }
        }
        let line = HostLine::from_raw(piece.line);
        let translated = match self.translate(line, at, uncore) {
            Access::Done(cycle) => cycle,
            outcome => return self.wait(place, outcome, Phase::Walk),
        };
        match self.read_line(line, translated, uncore) {
            Access::Done(cycle) => self.line_arrives(place, cycle),
            outcome => {
                // A retry after a refusal finds the translation done.
                self.window.parked[place].ready_address = translated;
                self.wait(place, outcome, Phase::Line);
            }
        }
    }

    /// The line of a parked load is there at `cycle`: on to the second line of a split load.
    pub(super) fn line_arrives(&mut self, place: usize, cycle: u64) {
        let hit = self.timing.l1d;
        let piece = &mut self.window.parked[place];
        if piece.second == HostLine::NONE {
            return self.load_done(place, cycle, false);
        }
        piece.line = std::mem::replace(&mut piece.second, HostLine::NONE);
        piece.store = crate::core::store_queue::NO_STORE;
        piece.ready_address = cycle - hit + 1;
        piece.phase = Phase::Access;
        self.window.wake(place);
    }

    fn load_done(&mut self, place: usize, cycle: u64, is_forwarded: bool) {
        self.stats.forwarded += u64::from(is_forwarded);
        self.window.info[place] &= !info::DELAYED;
        self.window.parked[place].phase = Phase::Operands;
        self.window.data_arrives(place, cycle);
    }

    /// Translates the store of a parked piece that has executed, from cycle `ready_address` on.
    pub(super) fn advance_store<U: Uncore>(&mut self, place: usize, uncore: &mut U) {
        let piece = self.window.parked[place];
        let line = HostLine::from_raw(piece.line);
        match self.translate(line, piece.ready_address, uncore) {
            Access::Done(done) => {
                let piece = &mut self.window.parked[place];
                piece.phase = Phase::StoreWalk;
                piece.ready_address = done;
                self.window.wake(place);
            }
            outcome => self.wait(place, outcome, Phase::StoreWalk),
        }
    }

    /// The store of a parked piece is translated. It is complete, or complete when its lines are
    /// there (`cpu.stores = waited`).
    pub(super) fn store_translated<U: Uncore>(&mut self, place: usize, uncore: &mut U) {
        let number = self.window.parked[place].own_store;
        let goes_for_lines = self.stores_wait && !self.stores.entry(number).is_write_back;
        while goes_for_lines && self.stores.entry(number).lines[0] != HostLine::NONE {
            let line = HostLine::from_raw(self.stores.entry(number).lines[0]);
            let at = self.window.parked[place].ready_address;
            let hit = self.caches.store(line, at + 1);
            self.stats.l1d_hits += u64::from(hit.is_some());
            let outcome = match hit {
                Some(written) => Access::Done(written),
                None => self.miss_l1d(line, MissKind::Ownership, at, uncore),
            };
            match outcome {
                Access::Done(written) => self.store_line_written(place, written),
                outcome => return self.wait(place, outcome, Phase::StoreLine),
            }
        }
        self.complete(place, self.window.parked[place].ready_address);
    }

    fn store_line_written(&mut self, place: usize, cycle: u64) {
        let number = self.window.parked[place].own_store;
        self.stores.line_written(number, cycle);
        self.window.parked[place].ready_address = cycle;
    }

    /// The line of a store that waits has been filled: it is written, and the store goes on.
    pub(super) fn store_line_arrives(&mut self, place: usize, cycle: u64) {
        let number = self.window.parked[place].own_store;
        let line = HostLine::from_raw(self.stores.entry(number).lines[0]);
        self.caches.store(line, cycle);
        self.store_line_written(place, cycle);
        self.window.parked[place].phase = Phase::StoreWalk;
        self.window.wake(place);
    }

    /// Makes a parked piece wait for an MSHR in use, or for one to become free.
    pub(super) fn wait(&mut self, place: usize, outcome: Access, phase: Phase) {
        let piece = &mut self.window.parked[place];
        match outcome {
            Access::Miss(number) => {
                let miss = self.misses.miss(number);
                piece.phase = phase;
                piece.next = std::mem::replace(&mut miss.first, place as u16);
                if miss.is_delayed && matches!(phase, Phase::Line | Phase::StoreLine) {
                    self.window.info[place] |= info::DELAYED;
                }
            }
            _ => {
                self.stats.mshr_waits += 1;
                piece.phase = match phase {
                    Phase::StoreWalk | Phase::StoreLine => Phase::StoreQueue,
                    _ => Phase::Queue,
                };
                self.queue.push_back(place as u16);
            }
        }
    }

    /// Tries the loads that found no MSHR again, oldest attempt first, until one finds none.
    pub(super) fn retry_queue<U: Uncore>(&mut self, cycle: u64, uncore: &mut U) {
        while let Some(place) = self.queue.pop_front() {
            let place = usize::from(place);
            let piece = &mut self.window.parked[place];
            piece.ready_address = piece.ready_address.max(cycle);
            if piece.phase == Phase::Queue {
                piece.phase = Phase::Access;
                self.advance_load(place, uncore);
            } else {
                self.advance_store(place, uncore);
            }
            if matches!(
                self.window.parked[place].phase,
                Phase::Queue | Phase::StoreQueue
            ) {
                self.stats.mshr_waits -= 1;
                self.queue.pop_back();
                self.queue.push_front(place as u16);
                break;
            }
        }
    }

    /// Writes retired stores to L1D in order, one line a cycle, until one finds no MSHR. A store
    /// that misses does not hold back the next: only its queue entry stays.
    #[inline]
    pub(super) fn drain_stores<U: Uncore>(&mut self, uncore: &mut U) {
        while let Some((number, start)) = self.stores.next_drain() {
            let start = start.max(self.drain_from);
            let mut at = start;
            if self.stores.entry(number).is_write_back {
                self.drain_write_back(number, at, uncore);
                self.stores.drained_one(at);
                continue;
            }
            while self.stores.entry(number).lines[0] != HostLine::NONE {
                if !self.drain_line(number, at, uncore) {
                    self.drain_blocked = true;
                    return;
                }
                at += 1;
            }
            self.stores.drained_one(at - 1);
        }
    }

    fn drain_line<U: Uncore>(&mut self, number: u64, at: u64, uncore: &mut U) -> bool {
        let line = HostLine::from_raw(self.stores.entry(number).lines[0]);
        if let Some(written) = self.caches.store(line, at + 1) {
            self.stats.l1d_hits += 1;
            self.stores.line_written(number, written);
            return true;
        }
        match self.miss_l1d(line, MissKind::Ownership, at, uncore) {
            Access::Done(written) => self.stores.line_written(number, written),
            Access::Miss(miss) => {
                self.misses.miss(miss).store_waits = true;
                self.stores.line_awaited(number);
            }
            Access::Refused => return false,
        }
        true
    }

    pub(super) fn fill_piece<U: Uncore>(&mut self, place: usize, cycle: u64, uncore: &mut U) {
        match self.window.parked[place].phase {
            Phase::Line | Phase::StoreLine => self.take_line(place, cycle),
            Phase::Walk | Phase::StoreWalk => {
                let chunk = HostLine::from_raw(self.window.parked[place].line).chunk();
                self.caches.tlb.insert(chunk);
                let usable = self.walked(chunk, cycle, uncore);
                let piece = &mut self.window.parked[place];
                piece.ready_address = usable;
                if piece.phase == Phase::Walk {
                    piece.phase = Phase::Access;
                }
                self.window.wake(place);
            }
            phase => unreachable!("a piece in phase {phase:?} waits for no line"),
        }
        debug_assert!(self.window.info[place] & info::PARKED != 0 && cycle < PENDING);
    }
}
