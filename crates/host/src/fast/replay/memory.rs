//! Records on their way to L2 and beyond.

use super::FastCore;
use crate::core::window::PENDING;
use crate::fast::stream::Kind;
use crate::miss_path::{Access, MissPath};
use crate::port::{HostLine, MissKind, Uncore};
use crate::tlb::Translation;

impl FastCore {
    /// A record has been dispatched, or what it waited for is complete: it issues if it can.
    pub(super) fn start_record<U: Uncore>(&mut self, number: u64, uncore: &mut U) {
        let entry = self.window.entry(number);
        let floor = entry.slot / self.width + u64::from(entry.record.late);
        entry.done = PENDING;
        let Some(issue) = self.window.ready(number, floor) else {
            return self.parked.push(number);
        };
        self.window.entry(number).issue = issue;
        self.issue(number, uncore);
    }

    /// What a hint fault at the line's page takes from the core and from the access.
    fn fault<U: Uncore>(&mut self, line: HostLine, at: u64, uncore: &mut U) -> u64 {
        let cost = uncore.walked(self.time(at), self.id, self.tlb.first_chunk(line.chunk()));
        if cost.is_zero() {
            return at;
        }
        let cycles = cost.get().div_ceil(self.timing.period);
        let from = (self.front / self.width).max(at);
        self.front = self.front.max((from + cycles) * self.width);
        at + cycles
    }

    /// Lets a load or a store look for its page, and a load for its line; says whether it found an
    /// MSHR.
    pub(super) fn issue<U: Uncore>(&mut self, number: u64, uncore: &mut U) -> bool {
        let entry = self.window.peek(number);
        let (line, kind) = (HostLine::from_raw(entry.record.line), entry.record.kind);
        if entry.is_at_hand {
            self.stats.l1d_hits += 1;
            self.window.entry(number).done = entry.issue + self.timing.l1d;
            return true;
        }
        if !entry.is_translated {
            match self.translate(line, entry.issue, uncore) {
                Access::Done(cycle) => self.translated(number, cycle),
                outcome => return self.wait(number, outcome, true),
            }
        }
        let at = self.window.peek(number).issue;
        if matches!(kind, Kind::Store | Kind::Renewal) {
            self.window.entry(number).done = at;
            return true;
        }
        if kind != Kind::Load && self.l1d.access(line).is_some() {
            self.stats.l1d_hits += 1;
            self.window.entry(number).done = at + self.timing.l1d;
            return true;
        }
        match self.miss_l1d(line, MissKind::Load, at, uncore) {
            Access::Done(cycle) => {
                self.window.entry(number).done = cycle;
                true
            }
            outcome => self.wait(number, outcome, false),
        }
    }

    fn translated(&mut self, number: u64, cycle: u64) {
        let entry = self.window.entry(number);
        entry.is_translated = true;
        entry.is_refused = false;
        entry.issue = cycle;
    }

    /// Translates the page of a line for an access at `at`. Beyond both levels of the TLB a walk
    /// reads the leaf entry; the second level's time the filter knows.
    fn translate<U: Uncore>(&mut self, line: HostLine, at: u64, uncore: &mut U) -> Access {
        let chunk = line.chunk();
        match self.tlb.translate(chunk) {
            Translation::L1 | Translation::L2 => Access::Done(at),
            Translation::Remapped => Access::Done(self.fault(line, at, uncore)),
            Translation::Absent => {
                let table = HostLine::page_table(self.tlb.page_of(chunk));
                let done = at + self.timing.l2_tlb + self.timing.l2;
                let outcome = self.read_l2(table, MissKind::Walk, done, uncore);
                self.stats.walks += u64::from(outcome != Access::Refused);
                match outcome {
                    Access::Done(cycle) => {
                        self.tlb.insert(chunk);
                        Access::Done(self.fault(line, cycle, uncore))
                    }
                    _ => outcome,
                }
            }
        }
    }

    /// Makes a record wait for an MSHR in use, or for one to become free.
    fn wait(&mut self, number: u64, outcome: Access, walks: bool) -> bool {
        let Access::Miss(mshr) = outcome else {
            let entry = self.window.entry(number);
            let is_first = !std::mem::replace(&mut entry.is_refused, true);
            self.stats.mshr_waits += u64::from(is_first);
            self.queue.push_back(number);
            return false;
        };
        let place = self.window.place(number);
        let miss = self.misses.miss(mshr);
        let next = std::mem::replace(&mut miss.first, place);
        let is_delayed = miss.is_delayed;
        let entry = self.window.entry(number);
        entry.next = next;
        entry.walks = walks;
        entry.is_delayed = is_delayed && !walks;
        true
    }

    /// L1D writes a dirty line to L2.
    pub(super) fn take_dirty<U: Uncore>(&mut self, line: HostLine, cycle: u64, uncore: &mut U) {
        if self.l2.write(line).is_none() {
            self.fill_l2(line, true, cycle, uncore);
        }
    }

    pub(super) fn fill_l1d(&mut self, line: HostLine) {
        if self.l1d.access(line).is_none() {
            self.l1d.fill(line, false);
            self.fills += 1;
        }
    }

    pub(super) fn fill_l2<U: Uncore>(
        &mut self,
        line: HostLine,
        dirty: bool,
        cycle: u64,
        uncore: &mut U,
    ) {
        let victim = self.l2.fill(line, dirty).1;
        if let Some(victim) = victim.filter(|victim| victim.is_dirty) {
            self.stats.l2_write_backs += 1;
            uncore.write_back(self.time(cycle), self.id, victim.line);
        }
    }

    /// The walk that a record waits for has its entry: it goes on with those that find an MSHR.
    pub(super) fn end_walk<U: Uncore>(&mut self, place: u16, cycle: u64, uncore: &mut U) {
        let number = self.window.number(place);
        let line = HostLine::from_raw(self.window.peek(number).record.line);
        let chunk = line.chunk();
        if !self.tlb.has(chunk) {
            self.tlb.insert(chunk);
        }
        let cycle = self.fault(line, cycle, uncore);
        self.translated(number, cycle);
        self.queue.push_back(number);
    }

    /// Lets parked records issue whose dependences are complete, the oldest first.
    pub(super) fn wake<U: Uncore>(&mut self, uncore: &mut U) {
        if self.parked.is_empty() {
            return;
        }
        let mut parked = std::mem::replace(&mut self.parked, std::mem::take(&mut self.spare));
        for number in parked.drain(..) {
            self.start_record(number, uncore);
        }
        self.spare = parked;
    }
}
