//! Loads and stores on their way through TLB, L1D and L2 to the uncore.

use super::Core;
use crate::core::miss::NoMshr;
use crate::core::store_queue::Forward;
use crate::core::window::{NIL, PENDING, Phase, info};
use crate::port::{HostLine, MissKind, Uncore};
use crate::tlb::Translation;
use units::Time;

/// How an access went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Access {
    /// Its data, or its translation, is there at this cycle.
    Done(u64),
    /// It must wait for this MSHR.
    Miss(usize),
    /// There is no MSHR.
    Refused,
}

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
        let done = at + self.timing.l2;
        if self.caches.l2.access(line).is_some() {
            self.stats.l1_tlb_misses += 1;
            self.stats.walks += 1;
            self.stats.l2_hits += 1;
            self.caches.tlb.insert(chunk);
            return Access::Done(self.walked(chunk, done, uncore));
        }
        let outcome = self.request(line, MissKind::Walk, NIL, done, uncore);
        if outcome != Access::Refused {
            self.stats.l1_tlb_misses += 1;
            self.stats.walks += 1;
        }
        outcome
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

    /// Fetches a line that L1D does not have, for a load or for a retired store.
    pub(super) fn miss_l1d<U: Uncore>(
        &mut self,
        line: HostLine,
        kind: MissKind,
        at: u64,
        uncore: &mut U,
    ) -> Access {
        if let Some(number) = self.misses.find(line) {
            self.stats.l1d_misses += 1;
            self.stats.l2_merged += 1;
            return Access::Miss(number);
        }
        let Ok((l1_slot, at)) = self.misses.l1_slot(at) else {
            return Access::Refused;
        };
        let done = at + self.timing.l1d + self.timing.l2;
        if self.caches.l2.access(line).is_some() {
            self.stats.l1d_misses += 1;
            self.stats.l2_hits += 1;
            self.misses.hold_l1(l1_slot, done);
            let pushed =
                self.caches
                    .fill_l1d(line, kind == MissKind::Ownership, done, &mut self.stats);
            self.write_back(pushed, done, uncore);
            return Access::Done(done);
        }
        let outcome = self.request(line, kind, l1_slot, done, uncore);
        if outcome != Access::Refused {
            self.stats.l1d_misses += 1;
        }
        outcome
    }

    /// Asks the uncore for a line at cycle `at`, or joins the request that is already under way.
    pub(super) fn request<U: Uncore>(
        &mut self,
        line: HostLine,
        kind: MissKind,
        l1_slot: u16,
        at: u64,
        uncore: &mut U,
    ) -> Access {
        if let Some(number) = self.misses.find(line) {
            self.stats.l2_merged += 1;
            return Access::Miss(number);
        }
        match self.misses.allocate(line, kind, l1_slot) {
            Err(NoMshr) => Access::Refused,
            Ok(number) => {
                self.stats.l2_misses += 1;
                uncore.read(self.time(at), self.id, self.misses.name(number), line, kind);
                Access::Miss(number)
            }
        }
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

    /// Frees an MSHR at `cycle` and puts its line where it belongs.
    pub(super) fn take_fill<U: Uncore>(&mut self, number: usize, cycle: u64, uncore: &mut U) {
        let line = self.misses.line(number);
        let miss = *self.misses.miss(number);
        self.misses.free(number, cycle);
        let pushed = self.caches.fill_l2(line, &mut self.stats);
        self.write_back(pushed, cycle, uncore);
        match miss.kind {
            MissKind::Load | MissKind::Ownership => {
                let dirty = miss.store_waits;
                let pushed = self.caches.fill_l1d(line, dirty, cycle, &mut self.stats);
                self.write_back(pushed, cycle, uncore);
            }
            MissKind::Fetch => self.front.fetched(&mut self.caches, line, cycle),
            MissKind::Walk => {}
        }
        if miss.store_waits {
            for _ in 0..self.stores.line_filled(line, cycle) {
                self.persist(line, cycle, uncore);
            }
        }
        let mut at = miss.first;
        while at != NIL {
            let place = usize::from(at);
            at = self.window.parked[place].next;
            self.fill_piece(place, cycle, uncore);
        }
    }

    fn fill_piece<U: Uncore>(&mut self, place: usize, cycle: u64, uncore: &mut U) {
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
