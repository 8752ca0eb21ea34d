//! Page migration as the host runs it (SkyByte §III-C, D20).
//!
//! MSI-X → handler → lines copied through the link while the look-aside buffer serves accesses →
//! page table → TLB shootdown on all cores → acknowledgement to the device. Demotion copies the
//! other way, through the link and into the log or the data cache like any write.

use crate::event::Event;
use crate::fabric::device_line;
use crate::request::Purpose;
use crate::simulation::Simulation;
use cxl::MessageClass;
use dram::{Access, DramLine};
use host::InstructionSource;
use host::placement::{Copied, Reclaimed, Refusal};
use units::{LineAddr, Lpa, PageSize, Time};

impl<S: InstructionSource> Simulation<S> {
    /// The device offers a page.
    pub(crate) fn promotion_offered(&mut self, now: Time, lpa: Lpa) {
        self.make_room(now);
        match self.fabric.placement.begin_promotion(lpa) {
            Ok(_) => {
                let begins = now + self.costs.handler;
                self.fabric.queue.push(begins, Event::MigrationStart(lpa));
            }
            Err(Refusal::NotOnDevice | Refusal::PlbFull | Refusal::NoHostPage) => {
                self.fabric
                    .device
                    .as_mut()
                    .expect("a device made the offer")
                    .controller
                    .on_promotion_refused(lpa);
            }
        }
    }

    /// Takes cold pages out of host DRAM while fewer are free than the reserve.
    fn make_room(&mut self, now: Time) {
        while self.fabric.placement.wants_reclaim() {
            match self.fabric.placement.reclaim() {
                Reclaimed::Dropped(lpa) => self.shoot_down(now, lpa),
                Reclaimed::Copying(lpa) => self.copy_lines(now, lpa, Purpose::Demotion),
                Reclaimed::PlbFull | Reclaimed::Nothing => break,
            }
        }
    }

    /// The handler begins to copy a page: all of its lines are asked for, one after the other.
    pub(crate) fn migration_start(&mut self, now: Time, lpa: Lpa) {
        self.copy_lines(now, lpa, Purpose::Promotion);
    }

    fn copy_lines(&mut self, now: Time, lpa: Lpa, purpose: Purpose) {
        while let Some(line) = self.fabric.placement.next_line(lpa) {
            let address = device_line(lpa, line);
            let mut at = now;
            if purpose == Purpose::Demotion {
                let source = DramLine::new(address.get());
                at = self.fabric.host_dram.access(now, source, Access::Read);
            }
            self.fabric.send_migration(at, address, purpose);
        }
    }

    /// A line of a page under promotion has arrived at the host.
    pub(crate) fn promotion_line(&mut self, now: Time, line: LineAddr) {
        let lpa = line.lpa(PageSize::KIB_4);
        self.fabric
            .host_dram
            .access(now, DramLine::new(line.get()), Access::Write);
        match self
            .fabric
            .placement
            .line_copied(lpa, line.in_page(PageSize::KIB_4))
        {
            Copied::Again => self.copy_lines(now, lpa, Purpose::Promotion),
            Copied::Done if !self.fabric.placement.is_copied(lpa) => {}
            Copied::Done => {
                let committed = now + self.costs.page_table;
                self.fabric
                    .queue
                    .push(committed, Event::MigrationCommit(lpa));
            }
        }
    }

    /// A line of a page under demotion has arrived on the device.
    pub(crate) fn demotion_line(&mut self, now: Time, line: LineAddr) {
        let lpa = line.lpa(PageSize::KIB_4);
        match self
            .fabric
            .placement
            .line_copied(lpa, line.in_page(PageSize::KIB_4))
        {
            Copied::Again => self.copy_lines(now, lpa, Purpose::Demotion),
            Copied::Done if !self.fabric.placement.is_copied(lpa) => {}
            Copied::Done => {
                self.fabric.placement.finish_demotion(lpa);
                self.shoot_down(now, lpa);
            }
        }
    }

    /// The page table names host DRAM; the device is told.
    pub(crate) fn migration_commit(&mut self, now: Time, lpa: Lpa) {
        self.shoot_down(now, lpa);
        let told = self.fabric.link.send(now, MessageClass::MemRd);
        self.fabric.queue.push(told, Event::PromotionDone(lpa));
    }

    /// The device drops its copies.
    pub(crate) fn promotion_done(&mut self, now: Time, lpa: Lpa) {
        let is_dirty = self.fabric.drop_promoted(now, lpa);
        self.fabric.placement.finish_promotion(lpa, is_dirty);
    }

    /// Every core loses time and its translation of the page.
    fn shoot_down(&mut self, now: Time, lpa: Lpa) {
        for seat in &mut self.seats {
            seat.core.shoot_down(now, lpa, self.costs.shootdown);
        }
    }
}
