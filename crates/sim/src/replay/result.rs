//! The result of a replay: `kind` "replay" of schema 1 (`docs/formats/replay.md`).

use super::Replay;
use super::engine::{Direction, Engine};
use super::workload::{Arrivals, Port};
use crate::device::Resources;
use crate::in_loop::{self, DeviceSource};
use crate::result::{FlashWork, config_texts, flash, latency_cdf, mean, milli};
use dram::DramStats;
use firmware::{ControllerStats, FtlStats};
use inloop::Tape;
use nand::{Kind, NandStats};
use serde_json::{Value, json};
use soc::Parts;
use units::{Picos, Time};

/// What flash and device DRAM have counted up to a moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    nand: NandStats,
    dram: DramStats,
}

impl Snapshot {
    /// What they have counted so far.
    pub fn of(resources: &Resources) -> Self {
        Self {
            nand: resources.nand.stats().clone(),
            dram: *resources.dram.stats(),
        }
    }
}

/// The result of one replay.
#[derive(Clone, Debug)]
pub struct ReplayResult {
    json: Value,
}

impl ReplayResult {
    /// Collects what a finished replay has counted.
    pub(super) fn new(
        replay: &Replay,
        engine: &Engine,
        times: &DeviceSource,
        tape: Option<&Tape>,
    ) -> Self {
        let (start, before) = engine
            .start
            .clone()
            .unwrap_or_else(|| (engine.end, Snapshot::of(&engine.device.soc().resources)));
        let (controller, ftl) = engine.device.soc().controller.stats();
        let view = View {
            replay,
            engine,
            time: engine.end - start,
            before,
            after: Snapshot::of(&engine.device.soc().resources),
            controller: *controller,
            ftl: *ftl,
        };
        let mut json = view.json();
        // As of a run: only where the model does not say all.
        if let Some(device) = in_loop::described(replay.config(), times, tape) {
            json["device"] = device;
        }
        if let (Some(warning), Some(warnings)) =
            (in_loop::warning(times), json["warnings"].as_array_mut())
        {
            warnings.push(json!(warning));
        }
        Self { json }
    }

    /// The result as JSON: one element of `runs`.
    pub fn json(&self) -> &Value {
        &self.json
    }
}

struct View<'a> {
    replay: &'a Replay,
    engine: &'a Engine,
    time: Picos,
    before: Snapshot,
    after: Snapshot,
    controller: ControllerStats,
    ftl: FtlStats,
}

/// `count` in `time`, for a second; 0 if no time has passed.
fn per_second(count: u64, time: Picos) -> u64 {
    let second = Time::ZERO + Picos::from_micros(1_000_000);
    let scaled = u128::from(count) * u128::from(second.as_picos());
    u64::try_from(scaled.checked_div(u128::from(time.get())).unwrap_or(0)).unwrap_or(u64::MAX)
}

impl View<'_> {
    fn json(&self) -> Value {
        let (config, workload) = (self.replay.config(), self.replay.workload());
        let (queue_depth, speedup) = match workload.arrivals {
            Arrivals::Closed(depth) => (depth, 0),
            Arrivals::Open { speedup_milli } => (0, speedup_milli),
        };
        let port = match self.engine.port() {
            Port::Line => "line",
            Port::Block => "block",
        };
        json!({
            "kind": "replay",
            "trace": self.replay.name(),
            "design": self.replay.design(),
            "seed": config.run.seed,
            "config_digest": config.digest(),
            "port": port,
            "queue_depth": queue_depth,
            "speedup_milli": speedup,
            "requests": self.requests(),
            "warmup_requests": self.engine.completed() - self.requests(),
            "execution_time_ps": self.time.get(),
            "warnings": self.warnings(),
            "statistics": {
                "throughput": self.throughput(),
                "read_latency": latency(self.reads()),
                "write_latency": latency(self.writes()),
                "read_parts": parts(&self.engine.parts()[0]),
                "write_parts": parts(&self.engine.parts()[1]),
                "read_latency_cdf": latency_cdf(&self.reads().latency),
                "write_latency_cdf": latency_cdf(&self.writes().latency),
                "served": self.served(),
                "flash": self.flash(),
                "activity": self.activity(),
                "utilisation": self.utilisation(),
            },
            "config": config_texts(config),
        })
    }

    fn reads(&self) -> &Direction {
        &self.engine.directions[0]
    }

    fn writes(&self) -> &Direction {
        &self.engine.directions[1]
    }

    fn requests(&self) -> u64 {
        self.reads().latency.count() + self.writes().latency.count()
    }

    fn throughput(&self) -> Value {
        let (reads, writes) = (self.reads(), self.writes());
        json!({
            "reads": reads.latency.count(),
            "writes": writes.latency.count(),
            "read_bytes": reads.bytes,
            "write_bytes": writes.bytes,
            "requests_per_second": per_second(self.requests(), self.time),
            "reads_per_second": per_second(reads.latency.count(), self.time),
            "writes_per_second": per_second(writes.latency.count(), self.time),
            "bytes_per_second": per_second(reads.bytes + writes.bytes, self.time),
        })
    }

    fn served(&self) -> Value {
        let served = &self.controller.served;
        let (ordered, partial_writes) = self.engine.device.waits();
        json!({
            "log_hits": served.log_hit,
            "cache_hits": served.cache_hit,
            "buffer_hits": served.buffer_hit,
            "misses": served.flash,
            "merged_misses": served.merged_miss,
            "unmapped": served.unmapped,
            "writes": served.write,
            "ordered": ordered,
            "partial_page_writes": partial_writes,
        })
    }

    fn flash(&self) -> Value {
        let (before, after) = (
            self.before.nand.of(Kind::Read),
            self.after.nand.of(Kind::Read),
        );
        let mut fields = flash(&FlashWork {
            ftl: &self.ftl,
            controller: &self.controller,
            page_size: self.replay.config().ftl.mapping_unit.bytes(),
            units_per_page: self.replay.config().geometry().units_per_page,
            reads: after.completed - before.completed,
            read_latency: after.latency - before.latency,
        });
        fields["program_waits"] = json!(self.ftl.waits);
        fields["program_wait_ps"] = json!(self.ftl.wait_time.get());
        fields
    }

    fn activity(&self) -> Value {
        let c = &self.controller;
        let config = self.replay.config();
        let page = config.ftl.mapping_unit.bytes();
        let frames = config.controller().ssd.frame_count(page);
        json!({
            "log_fills": c.log_fills,
            "compactions": c.compactions,
            "pages_compacted": c.compacted_pages,
            "compaction_average_ps": mean(c.compaction_time, c.compactions),
            "index_peak_bytes": c.index_bytes_peak,
            "gc_invocations": self.ftl.gc_victims,
            "data_cache_turnover_milli": milli(c.cache_fills, frames),
            "prefetches": c.prefetches,
            "useful_prefetches": c.prefetches_useful,
            "late_requests": self.engine.late(),
        })
    }

    fn utilisation(&self) -> Value {
        let geometry = self.replay.config().geometry();
        let share =
            |busy: Picos, units: u32| milli(busy.get(), self.time.get()) / u64::from(units.max(1));
        let (nand, dram) = (&self.after.nand, &self.after.dram);
        let (nand_before, dram_before) = (&self.before.nand, &self.before.dram);
        let channels = geometry.channel_count;
        let dies = geometry.die_count();
        let dram_channels = self.replay.config().ssd_dram.channels;
        json!({
            "dies_busy_milli": share(nand.die_busy.saturating_sub(nand_before.die_busy), dies),
            "dies_occupied_milli":
                share(nand.die_occupied.saturating_sub(nand_before.die_occupied), dies),
            "channels_busy_milli":
                share(nand.channel_busy.saturating_sub(nand_before.channel_busy), channels),
            "ssd_dram_busy_milli": share(dram.busy.saturating_sub(dram_before.busy), dram_channels),
        })
    }

    /// What the reader must know before believing a number (D5).
    fn warnings(&self) -> Vec<String> {
        let c = &self.controller;
        let (reads, writes) = (self.reads().latency.count(), self.writes().latency.count());
        let has_log = self.replay.config().design.write_log;
        let line_writes = c.writes > 0;
        let mut warnings = Vec::new();
        let mut warn = |applies: bool, text: &str| {
            if applies {
                warnings.push(text.to_string());
            }
        };
        warn(
            reads + writes == 0,
            "nothing was measured: the warm-up took all requests",
        );
        warn(
            has_log && line_writes && c.log_fills == 0,
            "the write log never filled: its effect on flash writes is not visible in this run",
        );
        warn(
            writes > 0 && self.ftl.gc_victims == 0,
            "garbage collection never ran: its effect is not visible in this run",
        );
        warn(
            c.served.unmapped * 100 > (c.reads + c.page_reads).max(1),
            "more than a hundredth of the reads were of pages that were never written; see \
             ftl.fill",
        );
        warn(
            self.engine.late() > 0,
            "some requests are stamped earlier than the one before; they arrived with it",
        );
        warnings
    }
}

fn latency(direction: &Direction) -> Value {
    let latency = &direction.latency;
    json!({
        "count": latency.count(),
        "mean_ps": latency.mean().get(),
        "p50_ps": latency.quantile(500).get(),
        "p99_ps": latency.quantile(990).get(),
        "p999_ps": latency.quantile(999).get(),
        "max_ps": latency.maximum().get(),
    })
}

fn parts(parts: &Parts) -> Value {
    let mean = |sum: u128| {
        let mean = sum.checked_div(parts.count.into()).unwrap_or(0);
        u64::try_from(mean).expect("a mean is at most the simulated time")
    };
    json!({
        "operations": parts.count,
        "order_ps": mean(parts.order),
        "stall_ps": mean(parts.stall),
        "index_ps": mean(parts.index),
        "ssd_dram_ps": mean(parts.dram),
        "flash_ps": mean(parts.flash),
    })
}
