//! Functional warm-up (D5): the first part of each thread's instructions passes through caches,
//! TLBs, predictors, placement and the firmware itself, without time.
//!
//! The firmware runs on a platform where nothing takes time, so what is warmed is the state that
//! the very same code would have reached, not an imitation of it.

mod fabric;
mod flash;

use crate::config::{Config, MemoryKind};
use crate::error::SimError;
use crate::fabric::device_line;
use crate::simulation::{Progress, Simulation};
pub(crate) use fabric::{InstantPlatform, WarmFabric};
use firmware::RequestOp;
pub(crate) use flash::WarmFlash;
use host::llc::SharedCache;
use host::placement::Location;
use host::{CoreModel, SimulatedThread};
use inloop::What;
use nand::Nand;
use trace::SyncEvent;
use units::{LineInPage, Lpa, Time};

/// Instructions of one thread before the next one takes its turn.
const TURN: u64 = 1_000;

/// Flash that takes its time in warm-up, if it is to, for so many threads of so many pages.
pub(crate) fn flash_of(config: &Config, thread_count: usize, page_count: u64) -> Option<WarmFlash> {
    let is_ssd = config.design.memory == MemoryKind::Ssd;
    if config.run.warm_waits == 0 || !is_ssd {
        return None;
    }
    let nand = Nand::new(&config.nand, config.ftl.mapping_unit);
    // Threads share the cores evenly.
    let turns = (thread_count as u64).div_ceil(u64::from(config.cpu.cores));
    let instruction = config.cpu.period() * turns.max(1);
    Some(WarmFlash::new(
        nand,
        config.run.warm_waits,
        instruction,
        thread_count,
        page_count,
    ))
}

impl<S: SimulatedThread> Simulation<S> {
    /// Executes functionally until each thread has done as many instructions as its target says,
    /// or is at its end. `done` is what they have done before, and after.
    ///
    /// # Errors
    /// Interrupted by the observer.
    pub(crate) fn warm_to(
        &mut self,
        targets: &[u64],
        done: &mut [u64],
        observe: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<(), SimError> {
        let left = targets.iter().zip(&*done);
        let mut left: Vec<u64> = left.map(|(to, from)| to.saturating_sub(*from)).collect();
        let mut platform = InstantPlatform::default();
        platform.flash = self.warm_flash.take();
        while left.iter().any(|left| *left > 0) {
            // Threads that have times of their own: whoever is least far.
            let next = platform
                .flash
                .as_ref()
                .map(|flash| flash.next_thread(&left));
            let turns = match next {
                Some(Some(thread)) => thread..thread + 1,
                _ => 0..left.len(),
            };
            for thread in turns {
                let left = &mut left[thread];
                let turn = TURN.min(*left);
                if turn == 0 || !self.host_threads[thread].is_present {
                    *left = 0;
                    continue;
                }
                let reads = platform.reads;
                let (executed, is_at_end) = self.warm_turn(thread, turn, &mut platform);
                self.warm_scans(executed, platform.reads - reads);
                done[thread] += executed;
                *left = if is_at_end { 0 } else { *left - executed };
            }
            let goes_on = observe(Progress {
                is_measured: false,
                instructions: done.iter().sum(),
                at: Time::ZERO,
            });
            if !goes_on {
                return Err(SimError::Interrupted);
            }
        }
        self.warm_flash = platform.flash;
        Ok(())
    }

    /// Up to `turn` instructions of a thread, fewer if it has to wait; says how many there were,
    /// and whether it is at its end.
    fn warm_turn(
        &mut self,
        thread: usize,
        turn: u64,
        platform: &mut InstantPlatform,
    ) -> (u64, bool) {
        let host_core_index = thread % self.host_cores.len();
        let mut executed = 0;
        if let Some(flash) = &mut platform.flash {
            flash.switch_to(thread);
        }
        while executed < turn {
            let host_thread = &mut self.host_threads[thread];
            let Some(step) = host_thread.source.peek() else {
                return (executed, true);
            };
            if step.has_sync {
                self.warm_sync(thread);
            }
            let mut uncore = WarmFabric {
                fabric: &mut self.fabric,
                platform,
                migration: self.costs.kind,
            };
            let source = &mut self.host_threads[thread].source;
            let core = &mut self.host_cores[host_core_index].core;
            if self.warms_memory_only {
                // No cache has anything to write back.
                let load = step
                    .load
                    .filter(|_| !source.program().is_write_back(step.inst));
                let both = [(load, false), (step.store, true)];
                for (access, is_write) in both {
                    if let Some(access) = access {
                        uncore.access(core.id(), access, is_write);
                    }
                }
                source.advance();
                executed += u64::from(step.counts);
            } else {
                let most = match uncore.platform.flash {
                    Some(_) => 1,
                    None => turn - executed,
                };
                executed += core.warm(source, &mut uncore, most);
            }
            if let Some(flash) = &mut platform.flash
                && step.counts
                && flash.step()
            {
                break;
            }
        }
        (executed, false)
    }

    /// Replays what other threads may wait for; nobody waits during warm-up.
    fn warm_sync(&mut self, thread: usize) {
        let event = self.host_threads[thread]
            .source
            .sync()
            .expect("the step has a sync event");
        if matches!(
            event,
            SyncEvent::ThreadCreate { .. } | SyncEvent::FutexWake { .. }
        ) {
            self.replay_sync(units::ThreadId::from_index(thread), event);
        }
    }

    /// What the log is to hold when measurement starts, and nothing else; all of it is then on its
    /// way to flash, without a read of the pages `at_hand`.
    fn drain_these(&mut self, lines: Vec<(Lpa, LineInPage)>, at_hand: Vec<Lpa>) {
        let mut platform = InstantPlatform::default();
        let mut uncore = WarmFabric {
            fabric: &mut self.fabric,
            platform: &mut platform,
            migration: self.costs.kind,
        };
        for (lpa, line) in lines {
            if uncore.fabric.placement.locate(lpa) == Location::Device {
                uncore.request(RequestOp::Write, device_line(lpa, line), None);
            }
        }
        // The lines go back into the log, and nobody uses them: no page is the hotter for it.
        uncore.refuse_offered();
        self.forget_uses();
        self.fabric.reset_stats();
        self.fabric.drain_log(at_hand);
    }

    /// Measurement starts: everything counted is forgotten.
    pub(crate) fn end_warm_up(&mut self) {
        if self.fabric.drains_log() {
            let mut platform = InstantPlatform::default();
            let mut uncore = WarmFabric {
                fabric: &mut self.fabric,
                platform: &mut platform,
                migration: self.costs.kind,
            };
            uncore.empty_log();
        }
        if let Some(config) = &self.cold_cores {
            for host_core in &mut self.host_cores {
                host_core.core = S::Core::new(host_core.core.id(), config);
            }
            self.fabric.llc = SharedCache::new(config);
            if let Some(numbers) = &self.numbers {
                for host_core in &mut self.host_cores {
                    host_core.core.number_pages(numbers);
                }
                self.fabric.llc.number_pages(numbers);
            }
        }
        self.forget_uses();
        for host_core in &mut self.host_cores {
            host_core.core.reset_stats();
        }
        for host_thread in &mut self.host_threads {
            host_thread.retired = host_thread.source.position();
            host_thread.source.start_counting();
        }
        self.lanes.reset_stats();
        self.fabric.reset_stats();
        self.fabric.in_loop.tell(What::Begin);
    }

    /// With `run.warm_counts = forgotten`, how often pages were used does not count on.
    fn forget_uses(&mut self) {
        if self.forgets_warm_counts
            && let Some(device) = &mut self.fabric.device
        {
            self.fabric.in_loop.tell(What::ForgetAccesses);
            device.controller.forget_accesses();
        }
    }
}

impl<S: SimulatedThread + Clone> Simulation<S> {
    /// Executes the first instructions of each thread functionally, so many of each, threads in
    /// turn, then forgets everything that was counted. With `run.drain_log` what is left is
    /// rehearsed.
    ///
    /// # Errors
    /// Interrupted by the observer.
    pub fn warm_up(
        &mut self,
        counts: &[u64],
        observe: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<u64, SimError> {
        let mut done = vec![0; counts.len()];
        self.warm_to(counts, &mut done, observe)?;
        self.end_warm_up();
        self.drain_what_is_left(|rehearsal| rehearsal.run(observe).map(drop))?;
        Ok(done.iter().sum())
    }

    /// With `run.drain_log`, measurement is rehearsed, and what that leaves in the log goes to
    /// flash from now on.
    ///
    /// # Errors
    /// The rehearsal's.
    pub(crate) fn drain_what_is_left(
        &mut self,
        rehearse: impl FnOnce(&mut Self) -> Result<(), SimError>,
    ) -> Result<(), SimError> {
        if self.fabric.drains_log() {
            let mut rehearsal = self.clone();
            rehearse(&mut rehearsal)?;
            let device = rehearsal.fabric.device.as_ref();
            let left = &device.expect("a device has the log").controller;
            let mut lines = left.logged_lines();
            let mut at_hand: Vec<Lpa> = lines.iter().map(|(lpa, _)| *lpa).collect();
            at_hand.dedup();
            at_hand.retain(|lpa| left.compacts_without_read(*lpa));
            // What has to be read is read and programmed first: pages are compacted in the order
            // in which they were logged.
            lines.sort_by_key(|(lpa, _)| at_hand.binary_search(lpa).is_ok());
            self.drain_these(lines, at_hand);
        }
        Ok(())
    }
}
