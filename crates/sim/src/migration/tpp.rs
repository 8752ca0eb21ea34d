//! Migration by the operating system as TPP does it (SkyByte §VI-H): scans arm pages, hint faults
//! find hot ones, a daemon demotes cold ones.
//!
//! The device knows nothing of it. A page that moves is unmapped and locked: its translations are
//! shot down first, accesses wait until its 64 lines have crossed the link and the page table names
//! the destination. The work is a core's: that of the faulting thread for a promotion, any for the
//! daemon.

use crate::config::Config;
use crate::event::Event;
use crate::fabric::samples;
use crate::simulation::Simulation;
use host::placement::{Direction, HintFault, MigrationKind, Reclaimed};
use host::{CoreModel, SimulatedThread};
use units::{CoreId, Lpa, Picos, Time};

/// When the operating system scans next, for TPP and for balancing between nodes.
#[derive(Clone)]
pub(crate) struct Scans {
    scan_period: Picos,
    /// From the start of measurement to its first scan: warm-up uses up some of it.
    until_scan: Picos,
    arm_cost: Picos,
    /// What an instruction and a flash read count in warm-up, where nothing takes time.
    warm_instruction: Picos,
    warm_read: Picos,
    scan_count: u64,
    /// Pages that a scan has armed.
    newly: Vec<Lpa>,
}

impl Scans {
    /// Those of the design; none if nothing is ever sampled, so that nothing ever happens.
    pub fn of(config: &Config) -> Option<Box<Self>> {
        samples(config).then(|| {
            Box::new(Self {
                scan_period: config.tpp.scan_period,
                until_scan: config.tpp.scan_period,
                arm_cost: config.tpp.arm_cost,
                warm_instruction: config.cpu.period(),
                warm_read: config.nand.t_r,
                scan_count: u64::from(config.tpp.scan_pages),
                newly: Vec::new(),
            })
        })
    }
}

impl<S: SimulatedThread> Simulation<S> {
    /// Measurement begins: the first scan is to come.
    pub(crate) fn start_scans(&mut self) {
        if let Some(scans) = self.scans.as_ref().filter(|scans| scans.scan_count > 0) {
            let first = Time::ZERO + scans.until_scan;
            self.fabric.queue.push(first, Event::HintScan);
        }
    }

    /// Arms the next pages: each loses its translations, which takes one shootdown for all of them.
    /// Scans go on while anything else can happen.
    pub(crate) fn hint_scan(&mut self, now: Time) {
        let Some(scans) = &mut self.scans else { return };
        let mut newly = std::mem::take(&mut scans.newly);
        let (cost, next) = (scans.arm_cost, now + scans.scan_period);
        self.fabric.arm(&mut newly);
        if let Some(first) = newly.first() {
            self.charge_core(now, *first, cost * newly.len() as u64);
            for host_core in &mut self.host_cores {
                for lpa in &newly {
                    host_core.core.forget_page(*lpa);
                }
            }
            self.interrupt_all(now, self.costs.shootdown);
        }
        newly.clear();
        self.scans.as_mut().expect("it was there before").newly = newly;
        let is_over = self.is_done() || self.is_idle();
        if !is_over {
            self.fabric.queue.push(next, Event::HintScan);
        }
    }

    /// The handler of a hint fault: an active page is promoted, by the core that ran into it.
    pub(crate) fn hint_fault(&mut self, now: Time, core: CoreId, lpa: Lpa) {
        if !self.fabric.is_sampled(lpa) {
            return self.balance(now, core, lpa);
        }
        let Some(hints) = &mut self.fabric.hints else {
            return;
        };
        if hints.sampler.on_fault(now, lpa) != HintFault::Promote {
            return;
        }
        if self.costs.kind == MigrationKind::Instant {
            // There is no room on its way: the daemon goes first.
            self.demote_inactive(now, lpa);
        }
        let node = self.fabric.node_of(core);
        let begun = self.fabric.placement.begin_promotion_near(lpa, node);
        if begun.is_ok() {
            self.fabric.hints_promoted(now, lpa);
            match self.costs.kind {
                MigrationKind::Copied => self.move_locked(now, core, lpa),
                MigrationKind::Instant => {
                    self.fabric.placement.copy_at_once(lpa);
                    self.fabric.placement.finish_promotion(lpa, true);
                    self.shoot_down(now, lpa);
                }
            }
        }
        self.demote_inactive(now, lpa);
    }

    /// Keeps the watermark: what is coldest goes to the device. `newcomer` has come last.
    fn demote_inactive(&mut self, now: Time, newcomer: Lpa) {
        while self.fabric.placement.wants_reclaim(newcomer) {
            let Reclaimed::Copying(lpa) = self.fabric.placement.reclaim(newcomer) else {
                break;
            };
            if self.fabric.loses_demotions() {
                self.fabric.lose(now, lpa, newcomer);
                self.shoot_down(now, lpa);
                continue;
            }
            let core = CoreId::from_index(lpa.get() as usize % self.host_cores.len());
            self.move_locked(now, core, lpa);
        }
    }

    /// A core isolates a page, takes it from the page table, and will copy it.
    pub(super) fn move_locked(&mut self, now: Time, core: CoreId, lpa: Lpa) {
        let begins = now + self.costs.isolation;
        let cost = self.costs.isolation + self.costs.page_table;
        self.work_on(now, core, cost);
        self.shoot_down(now, lpa);
        self.fabric.queue.push(begins, Event::MigrationStart(lpa));
    }

    /// All lines are at the destination: the page table comes next.
    pub(super) fn locked_page_copied(&mut self, now: Time, lpa: Lpa) {
        let committed = now + self.costs.page_table;
        self.fabric
            .queue
            .push(committed, Event::MigrationCommit(lpa));
    }

    /// The page table names the destination: whoever waited goes on.
    pub(super) fn finish_locked(&mut self, now: Time, lpa: Lpa) {
        let placement = &mut self.fabric.placement;
        match placement.direction(lpa) {
            Direction::Promotion => {
                placement.finish_promotion(lpa, true);
            }
            Direction::Demotion => placement.finish_demotion(lpa),
        }
        self.fabric.unlock(now, lpa);
        self.demote_inactive(now, lpa);
    }

    /// Warm-up has executed instructions and read flash pages. Scans come when a machine would be
    /// there whose every instruction takes a cycle and every flash read its time, spread evenly
    /// over the cores.
    pub(crate) fn warm_scans(&mut self, instructions: u64, flash_reads: u64) {
        let Some(scans) = self.scans.as_mut().filter(|scans| scans.scan_count > 0) else {
            return;
        };
        let core_time = scans.warm_instruction * instructions + scans.warm_read * flash_reads;
        let passed = core_time / self.host_cores.len() as u64;
        if passed < scans.until_scan {
            scans.until_scan = scans.until_scan.saturating_sub(passed);
            return;
        }
        scans.until_scan = scans.scan_period;
        let mut newly = std::mem::take(&mut scans.newly);
        self.fabric.arm(&mut newly);
        for host_core in &mut self.host_cores {
            for lpa in &newly {
                host_core.core.forget_page(*lpa);
            }
        }
        newly.clear();
        self.scans.as_mut().expect("it was there before").newly = newly;
    }
}
