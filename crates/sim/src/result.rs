//! The result of a run: one function per statistic, and their JSON (schema 1).
//!
//! Integers only, with the unit in the name (`_ps`, `_bytes`, `_milli` = thousandths), so that
//! equal runs are equal files. No time of day, host name or path.

mod bottleneck;
pub(crate) mod measured;
mod shared;
mod warnings;

pub use shared::milli;
pub(crate) use shared::{FlashWork, config_texts, flash, latency_cdf, mean};

use crate::config::Config;
use crate::run::Prepared;
use crate::simulation::{Pace, Simulation};
use firmware::{ControllerStats, FtlStats, Served};
use host::core::CoreStats;
use host::placement::SamplerStats;
use host::placement::page_cache::PageCacheStats;
use host::{CoreModel, SimulatedThread};
use nand::Kind;
use serde_json::{Value, json};
use units::{Picos, Time};

/// Version of the schema; additive changes keep it (D22).
pub const SCHEMA: u32 = 1;

/// The result of one run.
#[derive(Clone, Debug)]
pub struct RunResult {
    json: Value,
}

impl RunResult {
    /// Collects what a finished simulation has counted.
    pub fn new<S: SimulatedThread>(
        run: &Prepared,
        simulation: &Simulation<S>,
        warmed: u64,
        end: Time,
    ) -> Self {
        let totals = Totals::of(simulation);
        let view = View {
            config: run.config(),
            simulation,
            totals,
            end,
        };
        let mut warnings = view.idle_mechanisms();
        warnings.extend(view.lonely_threads(run.thread_count()));
        warnings.extend(warnings::small_programs(run.config(), run.page_count()));
        warnings.extend(run.mode().warning());
        let json = json!({
            "trace": run.trace_name(),
            "design": run.design(),
            "fidelity": run.fidelity(),
            "mode": run.mode().name(),
            "mode_error_milli": run.mode().error_milli(),
            "threads": run.thread_count(),
            "seed": run.config().run.seed,
            "config_digest": run.config().digest(),
            "instructions": view.totals.cores.executed(),
            "warmup_instructions": warmed,
            "execution_time_ps": end.as_picos(),
            "warnings": warnings,
            "bottleneck": view.bottleneck(),
            "programs": view.programs(run),
            "statistics": {
                "cores": view.cores(),
                "caches": view.caches(),
                "requests": view.requests(),
                "amat": view.amat(),
                "latency_cdf": latency_cdf(&view.simulation.fabric.stats.all),
                "flash": view.flash(),
                "activity": view.activity(),
                "os": view.os(),
                "link": view.link(),
                "numa": view.numa(),
                "threads": view.threads(),
            },
            "config": config_texts(run.config()),
        });
        Self { json }
    }

    /// Says that this is window `index` of its run, how fast each thread was in it, and how much
    /// each has to do in the whole run. What a whole program took is then unknown.
    pub(crate) fn with_window(mut self, index: u32, paces: &[Pace], measured: &[u64]) -> Self {
        let threads = paces.iter().zip(measured).enumerate();
        let pace: Value = threads
            .filter(|(_, (_, measured))| **measured > 0)
            .map(|(thread, (pace, measured))| {
                json!({
                    "thread": thread,
                    "instructions": measured,
                    "quota": pace.quota,
                    "executed": pace.executed,
                    "active_ps": pace.active.get(),
                })
            })
            .collect();
        let fields = self.json.as_object_mut().expect("a result is an object");
        fields.shift_remove("programs");
        fields.insert("window".to_string(), json!(index));
        fields.insert("pace".to_string(), pace);
        self
    }

    /// Says on which device, if that is not the model alone, and what the reader must know of it.
    pub(crate) fn on_device(mut self, device: Value, warning: Option<String>) -> Self {
        let fields = self.json.as_object_mut().expect("a result is an object");
        fields.insert("device".to_string(), device);
        let warnings = fields.get_mut("warnings").and_then(Value::as_array_mut);
        let warnings = warnings.expect("a result has a list of warnings");
        warnings.extend(warning.map(Value::from));
        self
    }

    /// The result as JSON: one element of `runs`.
    pub fn json(&self) -> &Value {
        &self.json
    }
}

/// Counters summed over cores and taken from the device.
struct Totals {
    cores: CoreStats,
    controller: ControllerStats,
    ftl: FtlStats,
    /// Completed flash operations and the summed latency of reads.
    flash_reads: u64,
    flash_read_latency: Picos,
}

impl Totals {
    fn of<S: SimulatedThread>(simulation: &Simulation<S>) -> Self {
        let mut cores = CoreStats::default();
        for host_core in &simulation.host_cores {
            cores.add(&host_core.core.stats());
        }
        for host_thread in &simulation.host_threads {
            cores.add(&host_thread.source.counted_before());
        }
        let device = simulation.fabric.device.as_ref();
        let reads = device.map(|device| *device.resources.nand.stats().of(Kind::Read));
        Self {
            cores,
            controller: device.map(|d| *d.controller.stats()).unwrap_or_default(),
            ftl: device
                .map(|d| *d.controller.ftl_stats())
                .unwrap_or_default(),
            flash_reads: reads.map_or(0, |reads| reads.completed),
            flash_read_latency: reads.map_or(Picos::ZERO, |reads| reads.latency),
        }
    }
}

struct View<'a, S: SimulatedThread> {
    config: &'a Config,
    simulation: &'a Simulation<S>,
    totals: Totals,
    end: Time,
}

impl<S: SimulatedThread> View<'_, S> {
    fn period(&self) -> Picos {
        self.config
            .cpu
            .clock
            .period()
            .expect("a validated clock has a period")
    }

    /// Time of all cores that is bound by memory, and with a thread on the core.
    fn active(&self) -> (Picos, Picos) {
        let c = &self.totals.cores;
        // A retry in closed form is a core that waits for memory.
        let retries = self.simulation.lanes.time;
        (
            self.period() * c.memory_bound_cycles + retries,
            self.period() * c.active_cycles + retries,
        )
    }

    /// Time of all cores that went to switches, and without a thread.
    fn off_thread(&self) -> (Picos, Picos) {
        let times = self.simulation.host_cores.iter().map(|host_core| {
            self.simulation
                .scheduler
                .core_times(host_core.core.id(), self.end)
        });
        let (mut switching, mut idle) = (Picos::ZERO, Picos::ZERO);
        for core in times {
            switching += core.switching;
            idle += core.idle;
        }
        (switching, idle)
    }

    fn cores(&self) -> Value {
        let c = &self.totals.cores;
        let (memory, active) = self.active();
        let (switching, idle) = self.off_thread();
        json!({
            "instructions": c.executed(),
            "loads": c.loads,
            "stores": c.stores,
            "line_write_backs": c.write_backs,
            "branches": c.branches,
            "mispredicts": c.mispredicts,
            "squashed_instructions": c.squashed,
            "memory_bound_ps": memory.get(),
            "compute_bound_ps": active.saturating_sub(memory).get(),
            "switch_ps": switching.get(),
            "idle_ps": idle.get(),
            "ipc_micro": milli(c.executed() * 1000, active.get() / self.period().get()),
        })
    }

    fn caches(&self) -> Value {
        let c = &self.totals.cores;
        let l3 = self.simulation.fabric.llc.stats();
        let l3_misses = l3.misses + l3.merged;
        json!({
            "l1i_accesses": c.l1i_hits + c.l1i_misses,
            "l1i_misses": c.l1i_misses,
            "l1d_accesses": c.l1d_hits + c.l1d_misses,
            "l1d_misses": c.l1d_misses,
            "l2_accesses": c.l2_hits + c.l2_misses + c.l2_merged,
            "l2_misses": c.l2_misses,
            "l3_accesses": l3.hits + l3_misses,
            "l3_misses": l3_misses,
            "l3_write_backs": l3.write_backs_out,
            "tlb_walks": c.walks,
            "l3_mpki_milli": milli(l3.misses * 1000, c.executed()),
        })
    }

    fn requests(&self) -> Value {
        let stats = &self.simulation.fabric.stats;
        json!({
            "host_reads": stats.host_reads,
            "host_writes": stats.host_writes,
            "ssd_log_hits": stats.served_by(Served::LogHit),
            "ssd_cache_hits": stats.served_by(Served::CacheHit),
            "ssd_buffer_hits": stats.served_by(Served::BufferHit),
            "ssd_misses": stats.served_by(Served::Flash),
            "ssd_merged_misses": stats.served_by(Served::MergedMiss),
            "ssd_unmapped": stats.served_by(Served::Unmapped),
            "ssd_store_misses": stats.served_by(Served::Write),
            "ssd_writes": stats.device_writes,
            "write_backs_ssd": stats.persisted_on_device,
            "write_backs_ssd_average_ps": mean(stats.persist_latency, stats.persisted_on_device),
            "write_backs_host": stats.persisted_in_host,
            "write_backs_clean": stats.persisted_clean,
            "delayed": stats.delayed,
            "reissued": stats.reissued,
        })
    }

    /// AMAT as the paper defines it, its components (they add up), and over all accesses (D8).
    fn amat(&self) -> Value {
        let stats = &self.simulation.fabric.stats;
        let count = stats.counted();
        let device = &stats.device;
        json!({
            "paper_accesses": count,
            "paper_ps": mean(stats.paper_total, count),
            "host_dram_ps": mean(stats.host_dram, count),
            "link_ps": mean(stats.link, count),
            "inter_socket_ps": mean(stats.inter_socket, count),
            "index_ps": mean(device.index, count),
            "ssd_dram_ps": mean(device.dram, count),
            "flash_ps": mean(device.flash, count),
            "stall_ps": mean(device.stall, count),
            "l3_queue_ps": mean(stats.credit_wait, count),
            "all_accesses": stats.all.count(),
            "all_ps": stats.all.mean().get(),
            "p50_ps": stats.all.quantile(500).get(),
            "p99_ps": stats.all.quantile(990).get(),
            "p999_ps": stats.all.quantile(999).get(),
        })
    }

    fn flash(&self) -> Value {
        flash(&FlashWork {
            ftl: &self.totals.ftl,
            controller: &self.totals.controller,
            page_size: self.config.ftl.mapping_unit.bytes(),
            units_per_page: self.config.geometry().units_per_page,
            reads: self.totals.flash_reads,
            read_latency: self.totals.flash_read_latency,
        })
    }

    fn activity(&self) -> Value {
        let c = &self.totals.controller;
        let placement = self.simulation.fabric.placement.stats();
        let hints = self.hints();
        let host_cache = self.host_cache();
        let frames = self
            .config
            .controller()
            .ssd
            .frame_count(self.config.ftl.mapping_unit.bytes());
        json!({
            "log_fills": c.log_fills,
            "compactions": c.compactions,
            "pages_compacted": c.compacted_pages,
            "compaction_average_ps": mean(c.compaction_time, c.compactions),
            "index_peak_bytes": c.index_bytes_peak,
            "gc_invocations": self.totals.ftl.gc_victims,
            "data_cache_turnover_milli": milli(c.cache_fills, frames),
            "cold_miss_share_milli": self.cold_miss_share_milli(),
            "promotions": placement.promotions,
            "demotions": placement.demotions + placement.drops,
            "promotion_recalls": c.promotion_recalls,
            "reads_before_page": c.reads_before_page,
            "fills_given_up": c.fills_given_up,
            "prefetches": c.prefetches,
            "useful_prefetches": c.prefetches_useful,
            "late_prefetches": c.prefetches_late,
            "useless_prefetches": c.prefetches_useless,
            "hint_scans": hints.scans,
            "hint_faults": hints.faults,
            "promotions_rate_limited": hints.rate_limited,
            "host_cache_fills": host_cache.fills,
            "host_cache_write_backs": host_cache.write_backs,
            "host_cache_conflicts": host_cache.conflicts,
            "pinned_pages": self.simulation.fabric.placement.pinned_count(),
            "pinned_offers": placement.refusals_pinned,
        })
    }

    fn host_cache(&self) -> PageCacheStats {
        let store = self.simulation.fabric.page_store.as_ref();
        store.map(|store| store.cache.stats()).unwrap_or_default()
    }

    fn hints(&self) -> SamplerStats {
        let hints = self.simulation.fabric.hints.as_ref();
        hints.map(|hints| hints.sampler.stats()).unwrap_or_default()
    }

    /// Of the demand accesses that had to fetch a page from flash, the share that touched the page
    /// for the first time: these no cache could have served.
    fn cold_miss_share_milli(&self) -> u64 {
        let stats = &self.simulation.fabric.stats;
        milli(stats.cold_misses, stats.flash_fetches())
    }

    fn os(&self) -> Value {
        let switches = &self.simulation.switches;
        json!({
            "switches_long_delay": switches.long_delay,
            "switches_slice": switches.slice,
            "switches_blocked": switches.blocked,
            "retries": switches.retries,
            "retries_in_closed_form": self.simulation.lanes.count,
            "syscalls": switches.syscalls,
            "data_wakes": switches.data_wakes,
        })
    }

    fn link(&self) -> Value {
        let link = self.simulation.fabric.link.stats();
        json!({
            "to_device_bytes": link.to_device.bytes.get(),
            "to_host_bytes": link.to_host.bytes.get(),
            "to_device_busy_ps": link.to_device.busy.get(),
            "to_host_busy_ps": link.to_host.busy.get(),
        })
    }

    /// Who was near to what.
    fn numa(&self) -> Value {
        let stats = &self.simulation.fabric.stats;
        let placement = self.simulation.fabric.placement.stats();
        let device_reads = stats.counted() - stats.host_reads;
        json!({
            "host_reads_local": stats.host_reads - stats.host_reads_remote,
            "host_reads_remote": stats.host_reads_remote,
            "ssd_reads_local": device_reads - stats.device_reads_remote,
            "ssd_reads_remote": stats.device_reads_remote,
            "promotions_home": placement.promotions - placement.promotions_elsewhere,
            "promotions_elsewhere": placement.promotions_elsewhere,
            "page_moves": placement.moves,
            "page_moves_refused": placement.moves_refused,
        })
    }

    fn threads(&self) -> Value {
        let host_threads = self.simulation.host_threads.iter().enumerate();
        host_threads
            .filter(|(_, host_thread)| host_thread.is_present)
            .map(|(index, host_thread)| {
                let id = units::ThreadId::from_index(index);
                json!({
                    "thread": index,
                    "running_ps": self.simulation.scheduler.received(id, self.end).get(),
                    "finished_ps": host_thread.finished.unwrap_or(self.end).as_picos(),
                })
            })
            .collect()
    }

    /// Each program of the run: one, or those of a co-run (D3).
    fn programs(&self, run: &Prepared) -> Value {
        let guests = run.guests().iter();
        guests
            .map(|guest| {
                let host_threads = &self.simulation.host_threads[guest.threads()];
                let ends = host_threads
                    .iter()
                    .filter_map(|host_thread| host_thread.finished);
                json!({
                    "trace": guest.name,
                    "threads": guest.thread_count(),
                    "instructions": guest.measured(self.config.run.warmup),
                    "execution_time_ps": ends.max().unwrap_or(self.end).as_picos(),
                })
            })
            .collect()
    }
}
