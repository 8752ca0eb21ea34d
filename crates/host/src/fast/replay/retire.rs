//! Retirement in order, and the stores that follow it.

use super::FastCore;
use crate::core::window::PENDING;
use crate::fast::stream::Record;
use crate::miss_path::{Access, MissPath};
use crate::port::{MissKind, Uncore};

impl FastCore {
    /// Retires every complete record that has no incomplete one before it.
    pub(super) fn retire_ready<U: Uncore>(&mut self, uncore: &mut U) {
        while !self.window.is_empty() {
            let entry = *self.window.peek(self.window.head);
            if entry.done >= PENDING {
                break;
            }
            let record = entry.record;
            let slot = (self.retired + u64::from(record.pieces)).max(entry.slot);
            let slot = slot.max(self.window.held_until(self.window.head, self.width));
            let done = entry.done * self.width;
            if done > slot {
                self.stats.memory_bound_cycles += (done - slot) / self.width;
            }
            self.retired = slot.max(done);
            self.window.entry(self.window.head).retired = self.retired;
            self.window.head += 1;
            self.count_retired(&record);
            if entry.is_queued {
                self.stores.retire(self.retired / self.width);
                self.write_stores(uncore);
            }
        }
    }

    pub(super) fn count_retired(&mut self, record: &Record) {
        self.stats.pieces += u64::from(record.pieces);
        self.stats.instructions += u64::from(record.instructions);
        self.stats.loads += u64::from(record.loads);
        self.stats.stores += u64::from(record.stores);
    }

    /// Lets retired stores go for their lines in order, one a cycle, until one finds no MSHR.
    pub(super) fn write_stores<U: Uncore>(&mut self, uncore: &mut U) {
        while let Some((line, start)) = self.stores.next() {
            match self.miss_l1d(line, MissKind::Ownership, start, uncore) {
                Access::Done(written) => self.stores.asked(start, Some(written)),
                Access::Miss(number) => {
                    self.misses.miss(number).store_waits = true;
                    self.stores.asked(start, None);
                }
                Access::Refused => {
                    self.stores.is_blocked = true;
                    return;
                }
            }
        }
    }

    /// An MSHR is free at `cycle`: stores that found none try again.
    pub(super) fn write_stores_again<U: Uncore>(&mut self, cycle: u64, uncore: &mut U) {
        if std::mem::take(&mut self.stores.is_blocked) {
            self.stores.not_before = self.stores.not_before.max(cycle);
            self.write_stores(uncore);
        }
    }
}
