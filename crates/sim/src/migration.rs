//! Page migration as the host runs it (SkyByte §III-C, D20).
//!
//! MSI-X → handler → lines copied through the link while the look-aside buffer serves accesses →
//! page table → TLB shootdown on all cores → acknowledgement to the device. Demotion copies the
//! other way, through the link and into the log or the data cache like any write.

mod balance;
mod batch;
mod tpp;

pub(crate) use batch::Batches;
pub(crate) use tpp::Scans;

use crate::event::Event;
use crate::fabric::device_line;
use crate::request::Purpose;
use crate::simulation::Simulation;
use cxl::MessageClass;
use dram::Access;
use host::placement::{Copied, Direction, MigrationKind, Reclaimed};
use host::{CoreModel, SimulatedThread};
use units::{CoreId, LineAddr, Lpa, PageSize, Picos, Time};

impl<S: SimulatedThread> Simulation<S> {
    /// The device offers a page.
    ///
    /// The handler takes its time from a core whether the offer is accepted or not. Of a pinned
    /// page the device has been told, so that there is no interrupt.
    pub(crate) fn promotion_offered(&mut self, now: Time, lpa: Lpa) {
        if !self.fabric.placement.is_pinned(lpa) {
            self.charge_core(now, lpa, self.costs.handler);
            self.make_room(now, lpa);
        }
        match self.fabric.placement.begin_promotion(lpa) {
            Ok(_) if self.costs.kind == MigrationKind::Instant => {
                self.fabric.placement.copy_at_once(lpa);
                self.charge_core(now, lpa, self.costs.page_table);
                self.shoot_down(now, lpa);
                self.promotion_done(now, lpa);
            }
            Ok(_) => {
                let begins = now + self.costs.handler;
                self.batches.begin(Direction::Promotion);
                self.fabric.queue.push(begins, Event::MigrationStart(lpa));
            }
            Err(_) => {
                self.fabric.refuse_page(lpa);
            }
        }
    }

    /// Takes cold pages out of host DRAM, while fewer are free than the reserve, for the promotion
    /// of a page.
    fn make_room(&mut self, now: Time, promoted: Lpa) {
        if !self.fabric.placement.wants_reclaim(promoted) {
            return;
        }
        if self.batches.is_used() {
            return self.reclaim_batch(now, promoted);
        }
        while self.fabric.placement.wants_reclaim(promoted) {
            match self.fabric.placement.reclaim(promoted) {
                Reclaimed::Dropped(lpa) => self.unmap(now, lpa),
                Reclaimed::Copying(lpa) if self.fabric.loses_demotions() => {
                    self.fabric.lose(now, lpa, promoted);
                    self.unmap(now, lpa);
                }
                Reclaimed::Copying(lpa) => self.copy_lines(now, lpa, Purpose::Demotion),
                Reclaimed::PlbFull | Reclaimed::Nothing => break,
            }
        }
    }

    /// Takes as many cold pages as make a batch, so that those which are dropped share a shootdown.
    /// Dirty ones are copied no sooner than room is wanted: their lines take the link.
    fn reclaim_batch(&mut self, now: Time, promoted: Lpa) {
        let mut dropped = Vec::new();
        for _ in 0..self.batches.most() {
            match self.fabric.placement.reclaim(promoted) {
                Reclaimed::Dropped(lpa) => dropped.push(lpa),
                Reclaimed::Copying(lpa) => {
                    self.batches.begin(Direction::Demotion);
                    self.copy_lines(now, lpa, Purpose::Demotion);
                    if !self.fabric.placement.wants_reclaim(promoted) {
                        break;
                    }
                }
                Reclaimed::PlbFull | Reclaimed::Nothing => break,
            }
        }
        self.unmap_all(now, &dropped);
    }

    /// The host begins to copy a page: all of its lines are asked for, one after the other.
    pub(crate) fn migration_start(&mut self, now: Time, lpa: Lpa) {
        if let Some((from, to)) = self.fabric.placement.moving(lpa) {
            return self.copy_between_nodes(now, lpa, from, to);
        }
        let purpose = match self.fabric.placement.direction(lpa) {
            Direction::Promotion => Purpose::Promotion,
            Direction::Demotion => Purpose::Demotion,
        };
        self.copy_lines(now, lpa, purpose);
    }

    fn copy_lines(&mut self, now: Time, lpa: Lpa, purpose: Purpose) {
        while let Some((chunk, line)) = self.fabric.placement.next_line(lpa) {
            let address = device_line(chunk, line);
            let mut at = now;
            // Until its copy has arrived, a line under demotion is read in its host page.
            if purpose == Purpose::Demotion {
                let source = self.fabric.placement.host_page(chunk);
                let read = self.fabric.host_dram.page(now, source, line, Access::Read);
                at = read + self.fabric.way_home(source);
            }
            self.fabric.send_migration(at, address, purpose);
        }
    }

    /// A line of a page under promotion has arrived at the host.
    pub(crate) fn promotion_line(&mut self, now: Time, line: LineAddr) {
        let lpa = line.lpa(PageSize::KIB_4);
        let in_page = line.in_page(PageSize::KIB_4);
        let copied = self.fabric.placement.line_copied(lpa, in_page);
        if copied != Copied::Again {
            let target = self.fabric.placement.host_page(lpa);
            let at = now + self.fabric.way_home(target);
            self.fabric
                .host_dram
                .page(at, target, in_page, Access::Write);
        }
        match copied {
            Copied::Again | Copied::ChunkDone => self.copy_lines(now, lpa, Purpose::Promotion),
            Copied::Done if !self.fabric.placement.is_copied(lpa) => {}
            Copied::Done if self.fabric.placement.is_locking() => self.locked_page_copied(now, lpa),
            Copied::Done => self.commit_copied(now, lpa),
        }
    }

    /// All lines of a page have been copied to host DRAM: it is remapped, with others of its batch.
    fn commit_copied(&mut self, now: Time, lpa: Lpa) {
        let pages = self.batches.copied(lpa, Direction::Promotion);
        let Some((last, others)) = pages.split_last() else {
            return;
        };
        let all = self.costs.page_table * pages.len() as u64;
        self.charge_core(now, *last, all);
        let committed = now + all;
        let with_last = others.iter().map(|page| (*last, *page));
        self.batches.committing.extend(with_last);
        self.fabric
            .queue
            .push(committed, Event::MigrationCommit(*last));
    }

    /// A line of a page under demotion has arrived on the device.
    pub(crate) fn demotion_line(&mut self, now: Time, line: LineAddr) {
        let lpa = line.lpa(PageSize::KIB_4);
        match self
            .fabric
            .placement
            .line_copied(lpa, line.in_page(PageSize::KIB_4))
        {
            Copied::Again | Copied::ChunkDone => self.copy_lines(now, lpa, Purpose::Demotion),
            Copied::Done if !self.fabric.placement.is_copied(lpa) => {}
            Copied::Done if self.fabric.placement.is_locking() => self.locked_page_copied(now, lpa),
            Copied::Done => {
                let pages = self.batches.copied(lpa, Direction::Demotion);
                for page in &pages {
                    self.fabric.placement.finish_demotion(*page);
                }
                self.unmap_all(now, &pages);
            }
        }
    }

    /// The page table names host DRAM; the device is told.
    pub(crate) fn migration_commit(&mut self, now: Time, lpa: Lpa) {
        if self.fabric.placement.moving(lpa).is_some() {
            return self.finish_move(now, lpa);
        }
        if self.fabric.placement.is_locking() {
            return self.finish_locked(now, lpa);
        }
        let pages = self.batches.take_committing(lpa);
        self.shoot_down_all(now, &pages);
        for page in pages {
            let told = self.fabric.link.send(now, MessageClass::MemRd);
            self.fabric.queue.push(told, Event::PromotionDone(page));
        }
    }

    /// The device drops its copies.
    pub(crate) fn promotion_done(&mut self, now: Time, lpa: Lpa) {
        let mut is_dirty = false;
        for chunk in self.fabric.placement.chunks(lpa) {
            is_dirty |= self.fabric.drop_promoted(now, chunk);
        }
        self.fabric.placement.finish_promotion(lpa, is_dirty);
    }

    /// The page table names the device again.
    fn unmap(&mut self, now: Time, lpa: Lpa) {
        self.charge_core(now, lpa, self.costs.page_table);
        self.shoot_down(now, lpa);
    }

    /// As [`Self::unmap`], of several pages with one shootdown.
    fn unmap_all(&mut self, now: Time, pages: &[Lpa]) {
        let Some(first) = pages.first() else { return };
        self.charge_core(now, *first, self.costs.page_table * pages.len() as u64);
        self.shoot_down_all(now, pages);
    }

    /// Every core loses its translations of some pages by one shootdown.
    fn shoot_down_all(&mut self, now: Time, pages: &[Lpa]) {
        let Some((first, others)) = pages.split_first() else {
            return;
        };
        let cost = self.costs.shootdown + self.batches.further * others.len() as u64;
        for host_core in &mut self.host_cores {
            host_core.core.forget_page(*first);
            for page in others {
                host_core.core.forget_page(*page);
            }
        }
        self.interrupt_all(now, cost);
    }

    /// The core that works on a page's migration loses time. Interrupts are spread over the cores
    /// by page.
    fn charge_core(&mut self, now: Time, lpa: Lpa, cost: Picos) {
        let core = self.fabric.placement.number_of(lpa) % self.host_cores.len();
        self.work_on(now, CoreId::from_index(core), cost);
    }

    /// A core works on a page's migration.
    fn work_on(&mut self, now: Time, core: CoreId, cost: Picos) {
        self.charged.work += cost;
        self.interrupt(now, core, cost);
    }

    /// Every core loses time and its translation of the page.
    fn shoot_down(&mut self, now: Time, lpa: Lpa) {
        for host_core in &mut self.host_cores {
            host_core.core.forget_page(lpa);
        }
        self.interrupt_all(now, self.costs.shootdown);
    }

    /// Every core takes part in a shootdown.
    fn interrupt_all(&mut self, now: Time, cost: Picos) {
        self.charged.shootdowns += cost * self.host_cores.len() as u64;
        for core in 0..self.host_cores.len() {
            self.interrupt(now, CoreId::from_index(core), cost);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::run::{Prepared, RunSpec};
    use trace::{Reg, TraceWriter};

    /// Execution time in microseconds of a program on one core that reads one page, which is
    /// promoted, past caches of one line.
    fn micros(setting: &str) -> u64 {
        let mut writer = TraceWriter::new();
        let load = writer.load(Reg::general(3), Reg::general(3));
        let thread = writer.thread();
        for step in 0..2_000 {
            let byte = 0x1000_0000 + step % 64 * 64;
            writer.execute(thread, load, Some((byte, 8)), None);
        }
        let caches = ["l1d", "l2", "l3"];
        let caches = caches
            .map(|key| format!("cpu.{key}=64B;cpu.{key}_ways=1"))
            .join(";");
        let settings =
            format!("{caches};cpu.cores=1;run.warmup=0%;ssd.promotion.threshold=1;{setting}");
        let spec = RunSpec {
            trace: "one page.etr".to_string(),
            machine: "demo".to_string(),
            design: "skybyte-p".to_string(),
            nand: None,
            fidelity: Default::default(),
            files: Vec::new(),
            overrides: settings.split(';').map(str::to_string).collect(),
            threads: None,
            is_audited: true,
            mode: crate::run::Mode::Detailed,
        };
        let run = Prepared::with_trace(spec, writer.finish()).unwrap();
        let result = run.execute(&mut |_| true).unwrap();
        let json = result.json();
        json["execution_time_ps"].as_u64().unwrap() / 1_000_000
    }

    #[test]
    fn a_promotion_takes_its_costs_from_a_core() {
        let base = micros("host.handler_cost=0ps");
        assert!(base < 900, "{base} us");
        for key in ["handler_cost", "page_table_cost", "shootdown_cost"] {
            let with = micros(&format!("host.{key}=1ms"));
            assert!((1_000..2_000).contains(&with), "{key}: {with} us");
        }
    }
}
