//! The detailed core's side of its misses: who waits, and where lines go.

use super::{Core, Stop};
use crate::core::window::{NIL, info};
use crate::miss_path::{MissPath, Parts};
use crate::port::{HostLine, MissKind, Uncore};

impl MissPath for Core {
    #[inline]
    fn parts(&mut self) -> Parts<'_> {
        Parts {
            id: self.id,
            now: &mut self.now,
            timing: self.timing,
            l2: &mut self.caches.l2,
            misses: &mut self.misses,
            stats: &mut self.stats,
        }
    }

    #[inline]
    fn fill_l1d_from_l2<U: Uncore>(
        &mut self,
        line: HostLine,
        kind: MissKind,
        ready: u64,
        uncore: &mut U,
    ) {
        let is_dirty = kind == MissKind::Ownership;
        let pushed = (self.caches).fill_l1d(line, is_dirty, ready, &mut self.stats);
        self.write_back(pushed, ready, uncore);
    }

    fn take_fill<U: Uncore>(&mut self, number: usize, cycle: u64, uncore: &mut U) {
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

    fn go_on<U: Uncore>(&mut self, cycle: u64, uncore: &mut U) {
        self.settle(self.window.head, uncore);
        self.retry_queue(cycle, uncore);
        self.settle(self.window.head, uncore);
        self.drain_again(cycle, uncore);
        self.retire_ready(uncore);
        self.run_fetched(uncore);
    }

    #[inline]
    fn should_run(&self) -> bool {
        self.stop != Stop::None && (self.can_continue() || self.exception().is_some())
    }

    fn write_back_waits(&self, line: HostLine) -> bool {
        self.stores.write_back_waits(line)
    }

    fn take_grant(&mut self, line: HostLine, cycle: u64) {
        let write_backs = self.stores.line_filled(line, cycle);
        debug_assert_eq!(write_backs, 0, "no write-back waits");
    }

    fn flag_delayed(&mut self, first: u16) {
        let mut at = first;
        while at != NIL {
            self.window.info[usize::from(at)] |= info::DELAYED;
            at = self.window.parked[usize::from(at)].next;
        }
    }
}
