//! A design's device and host placement live through a file of misses, without time.

use crate::config::{Config, MemoryKind};
use crate::fabric::Fabric;
use crate::simulation::Simulation;
use crate::warm::{InstantPlatform, WarmFabric};
use host::{HostLine, MissKind, Region, SimulatedThread};
use serde_json::{Value, json};
use trace::SyncEvent;
use trace::misses::Miss;
use units::address::LINE_BYTES;
use units::{CoreId, ThreadId};

/// What the threads have done to each other so far.
#[derive(Clone, Debug)]
struct Deeds {
    /// Who has created whom, in order.
    created: Vec<(u32, u32)>,
    /// By thread, how often it has woken others.
    wakes: Vec<u32>,
}

/// Device and placement on their way to the steady state.
pub(crate) struct Pass {
    pub(crate) fabric: Fabric,
    platform: InstantPlatform,
    migration: host::placement::MigrationKind,
    is_ssd: bool,
    cores: u32,
    thread: u32,
    deeds: Deeds,
    reads: u64,
    writes: u64,
    first_touches: u64,
}

impl Pass {
    /// At the start of a program, of whose simulation it takes everything beyond the cores.
    pub(crate) fn new<S: SimulatedThread>(config: &Config, start: Simulation<S>) -> Self {
        let threads = start.host_threads.len();
        Self {
            fabric: start.fabric,
            platform: InstantPlatform::default(),
            migration: config.host.migration,
            is_ssd: config.design.memory == MemoryKind::Ssd,
            cores: config.cpu.cores,
            thread: 0,
            deeds: Deeds {
                created: Vec::new(),
                wakes: vec![0; threads],
            },
            reads: 0,
            writes: 0,
            first_touches: 0,
        }
    }

    /// Lives through one record.
    #[inline]
    pub(crate) fn take(&mut self, miss: Miss) {
        match miss {
            Miss::Load(line) => self.read(line, MissKind::Load),
            Miss::Ownership(line) => self.read(line, MissKind::Ownership),
            Miss::WriteBack(line) => {
                self.writes += 1;
                if self.is_ssd {
                    let mut warm = self.warm();
                    warm.write(line_of(line));
                    warm.promote_offered();
                }
            }
            Miss::Turn(thread) => self.thread = thread,
            Miss::Create(child) => self.deeds.created.push((self.thread, child)),
            Miss::Wake(count) => {
                let wakes = &mut self.deeds.wakes[self.thread as usize];
                *wakes = count.max(*wakes);
            }
        }
    }

    #[inline]
    fn read(&mut self, line: u32, kind: MissKind) {
        let Region::Data(lpa, in_page) = line_of(line).region() else {
            unreachable!("a file of misses has lines of data")
        };
        self.reads += 1;
        self.first_touches += u64::from(self.fabric.touch(lpa));
        if self.is_ssd {
            let core = CoreId::new(self.thread % self.cores);
            let mut warm = self.warm();
            warm.fetch(core, (lpa, in_page), kind);
            warm.promote_offered();
        }
    }

    #[inline]
    fn warm(&mut self) -> WarmFabric<'_> {
        WarmFabric {
            fabric: &mut self.fabric,
            platform: &mut self.platform,
            migration: self.migration,
        }
    }

    /// Puts device, placement and what threads have done to each other into a simulation, whose
    /// caches stay as they are.
    pub(crate) fn give_to<S: SimulatedThread>(&self, simulation: &mut Simulation<S>) {
        let mut fabric = self.fabric.clone();
        std::mem::swap(&mut fabric.llc, &mut simulation.fabric.llc);
        simulation.fabric = fabric;
        for (thread, child) in &self.deeds.created {
            let child = ThreadId::new(*child);
            simulation.replay_sync(ThreadId::new(*thread), SyncEvent::ThreadCreate { child });
        }
        for (thread, count) in self.deeds.wakes.iter().enumerate() {
            if *count > 0 {
                let wake = SyncEvent::FutexWake {
                    futex: trace::FutexId::new(0),
                    count: *count,
                };
                simulation.replay_sync(ThreadId::from_index(thread), wake);
            }
        }
    }

    /// Pages that the device's flash was made to program for so many of the controller's.
    pub(crate) fn amplification(&self) -> (u64, u64) {
        let device = self.fabric.device.as_ref();
        device.map_or((0, 0), |device| {
            let ftl = device.controller.ftl_stats();
            let all = ftl.host_programs + ftl.gc_programs + ftl.padding;
            (all, ftl.host_programs)
        })
    }

    /// Pages that came to host DRAM, those that left it, and those that are there: moved ones, or
    /// those of the page cache.
    fn promoted(&self) -> (u64, u64, usize) {
        match &self.fabric.page_store {
            Some(store) => {
                let stats = store.cache.stats();
                let left = stats.write_backs + stats.drops;
                (stats.fills, left, store.cache.counts().0)
            }
            None => {
                let stats = self.fabric.placement.stats();
                let left = stats.demotions + stats.drops;
                (
                    stats.promotions,
                    left,
                    self.fabric.placement.resident_count(),
                )
            }
        }
    }

    /// What has happened since the start, as JSON; `part` is where the pass is.
    pub(crate) fn json(&self, part: u32) -> Value {
        let device = self.fabric.device.as_ref();
        let controller = device.map(|d| *d.controller.stats()).unwrap_or_default();
        let ftl = device
            .map(|d| *d.controller.ftl_stats())
            .unwrap_or_default();
        let (promotions, demotions, promoted) = self.promoted();
        let owed = device.map(|d| d.controller.owed()).unwrap_or_default();
        json!({
            "part": part,
            "reads": self.reads,
            "writes": self.writes,
            "first_touches": self.first_touches,
            "page_fetches": controller.served.flash,
            "cache_fills": controller.cache_fills,
            "log_fills": controller.log_fills,
            "promotions": promotions,
            "demotions": demotions,
            "promoted_pages": promoted,
            "program_pages": ftl.host_programs,
            "gc_program_pages": ftl.gc_programs,
            "erased_blocks": ftl.erases,
            "dirty_bytes": owed.dirty_frames * 4096 + owed.log_lines * LINE_BYTES.get(),
        })
    }
}

/// The line of data with this number.
#[inline]
fn line_of(number: u32) -> HostLine {
    HostLine::of_byte(u64::from(number) * LINE_BYTES.get())
}
