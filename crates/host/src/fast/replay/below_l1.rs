//! The replaying core's side of its misses: who waits, and where lines go.

use super::{FastCore, Stop};
use crate::core::window::NIL;
use crate::miss_path::{MissPath, Parts};
use crate::port::{HostLine, MissKind, Uncore};

impl MissPath for FastCore {
    #[inline]
    fn parts(&mut self) -> Parts<'_> {
        Parts {
            id: self.id,
            now: &mut self.now,
            timing: self.timing,
            l2: &mut self.l2,
            misses: &mut self.misses,
            stats: &mut self.stats,
        }
    }

    #[inline]
    fn fill_l1d_from_l2<U: Uncore>(&mut self, line: HostLine, _: MissKind, _: u64, _: &mut U) {
        self.fill_l1d(line);
    }

    fn take_fill<U: Uncore>(&mut self, number: usize, cycle: u64, uncore: &mut U) {
        let line = self.misses.line(number);
        let miss = *self.misses.miss(number);
        self.misses.free(number, cycle);
        // L1D may have written it to L2 before it came: the filter has all lines at once.
        if self.l2.find(line).is_none() {
            self.fill_l2(line, false, cycle, uncore);
        }
        let is_data = matches!(miss.kind, MissKind::Load | MissKind::Ownership);
        if is_data {
            self.fill_l1d(line);
        }
        if self.awaited == line.get() {
            self.awaited = HostLine::NONE;
            // Nothing has been dispatched since.
            self.window.entry(self.window.tail - 1).done = cycle;
            self.front = self.front.max(cycle * self.width);
        }
        if miss.store_waits {
            self.stores.filled(line, cycle);
        }
        let mut place = miss.first;
        while place != NIL {
            let entry = self.window.at(place);
            let next = entry.next;
            if std::mem::take(&mut entry.walks) {
                self.end_walk(place, cycle, uncore);
            } else {
                entry.done = cycle;
                entry.is_delayed = false;
            }
            place = next;
        }
    }

    fn go_on<U: Uncore>(&mut self, cycle: u64, uncore: &mut U) {
        self.wake(uncore);
        while let Some(number) = self.queue.front().copied() {
            let entry = self.window.entry(number);
            entry.issue = entry.issue.max(cycle);
            if !self.issue(number, uncore) {
                self.queue.pop_back();
                break;
            }
            self.queue.pop_front();
            self.wake(uncore);
        }
        self.write_stores_again(cycle, uncore);
        self.retire_ready(uncore);
    }

    #[inline]
    fn should_run(&self) -> bool {
        self.stop != Stop::None && (self.can_continue() || self.exception().is_some())
    }

    fn write_back_waits(&self, _line: HostLine) -> bool {
        false
    }

    fn take_grant(&mut self, line: HostLine, cycle: u64) {
        self.stores.filled(line, cycle);
    }

    fn flag_delayed(&mut self, first: u16) {
        let mut place = first;
        while place != NIL {
            let entry = self.window.at(place);
            entry.is_delayed = true;
            place = entry.next;
        }
    }
}
