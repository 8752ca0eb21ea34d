//! Lines that cores write back to memory while they keep them (`clwb`, SkyByte §IV).
//!
//! A line whose page is on the device goes there as any write does, in the order of its line's
//! requests; the device's NDR says that it is in the battery-backed log, and the core is told.

use super::{Fabric, device_line};
use crate::event::Event;
use host::{HostLine, Region};
use units::{CoreId, LineAddr, LineInPage, Lpa, Time};

/// A write-back of a line that is clean because a write of it is on its way already.
#[derive(Clone, Copy, Debug)]
pub(super) struct Persisting {
    address: LineAddr,
    core: CoreId,
    /// When it was found clean in L3: it is not acknowledged before.
    at: Time,
}

impl Fabric {
    /// A line that a core writes back is at L3. `is_dirty`: a private cache had newer bytes.
    pub(crate) fn l3_persist(&mut self, now: Time, core: CoreId, line: HostLine, is_dirty: bool) {
        let is_dirty = self.llc.clean(line) || is_dirty;
        let at = self.l3_turn(now) + self.l3_latency;
        let Region::Data(lpa, in_page) = line.region() else {
            unreachable!("programs write data lines back")
        };
        if is_dirty || self.is_write_locked(lpa, in_page) {
            self.write_data(at + self.memory_latency, lpa, in_page, Some(core));
            return;
        }
        self.stats.persisted_clean += 1;
        // What drove it out of L3 may not have been acknowledged yet.
        let address = device_line(lpa, in_page);
        if self.order.is_written(address) {
            self.persisting.push(Persisting { address, core, at });
        } else {
            self.queue.push(at, Event::Persisted(core));
        }
    }

    /// When the line will be at L3, if an L2 has written it back and it is on its way there.
    pub(crate) fn comes_to_l3(&self, line: HostLine) -> Option<Time> {
        let is_it = |event: &Event| matches!(event, Event::L3WriteBack(coming) if *coming == line);
        self.queue.last_time(is_it)
    }

    /// A write of the line waits for its page to come or to be unlocked.
    fn is_write_locked(&self, lpa: Lpa, line: LineInPage) -> bool {
        let mut waiting = self.locked.iter().filter(|(page, _)| *page == lpa);
        waiting.any(|(_, access)| access.writes(line))
    }

    /// Whether a write of a data line is on its way to memory, or waits to go. What leaves host
    /// DRAM for the device, pages that are not pinned, has been in memory before.
    #[cfg(test)]
    pub(crate) fn is_on_its_way(&self, line: HostLine) -> bool {
        let Region::Data(lpa, in_page) = line.region() else {
            return false;
        };
        let is_sent = self.order.is_written(device_line(lpa, in_page));
        is_sent && self.placement.is_pinned(lpa) || self.is_write_locked(lpa, in_page)
    }

    /// A request of the line was answered: if it was the last write, who waits for it is told.
    pub(super) fn settle_persisting(&mut self, now: Time, address: LineAddr) {
        if self.order.is_written(address) {
            return;
        }
        let queue = &mut self.queue;
        self.persisting.retain(|waiting| {
            let is_over = waiting.address == address;
            if is_over {
                queue.push(now.max(waiting.at), Event::Persisted(waiting.core));
            }
            !is_over
        });
    }

    /// The device has acknowledged a line that a core has written back, at L3 at `issued`.
    pub(super) fn persisted_on_device(&mut self, now: Time, core: CoreId, issued: Time) {
        self.stats.persisted_on_device += 1;
        self.stats.persist_latency += now - issued;
        self.queue.push(now, Event::Persisted(core));
    }

    /// Checks that whoever waits for the write of a clean line has one to wait for.
    ///
    /// # Panics
    /// With a sentence, if nothing of the line is on its way.
    pub(super) fn audit_persisting(&self) {
        let mut lines = self.persisting.iter().map(|waiting| waiting.address);
        assert!(
            lines.all(|line| self.order.is_written(line)),
            "a core waits for the write of a line of which none is on its way"
        );
    }

    /// A line that a core has written back is in host DRAM at `done`.
    pub(super) fn persisted_in_host(&mut self, done: Time, core: CoreId) {
        self.stats.persisted_in_host += 1;
        self.queue.push(done, Event::Persisted(core));
    }
}
