//! What most of a run's core time goes to, with the numbers that show it.

use super::{View, milli};
use crate::config::MemoryKind;
use crate::simulation::SwitchCounts;
use host::SimulatedThread;
use host::os::WakePolicy;
use nand::{Kind, Parallelism};
use serde_json::{Value, json};
use units::Picos;

/// A part of the core time.
struct Part {
    what: &'static str,
    time: Picos,
    evidence: String,
}

impl<S: SimulatedThread> View<'_, S> {
    /// The largest part of the time of all cores: its name, its share in thousandths, and what
    /// shows it. What is bound by memory is divided as the average access is (SkyByte §VI-D).
    pub(super) fn bottleneck(&self) -> Value {
        let cores = u64::from(self.config.cpu.cores);
        let whole = self.end.as_picos().saturating_mul(cores);
        let mut parts = self.memory_parts();
        parts.extend(self.core_parts());
        // Of equal parts the first, which is nearest to memory.
        let largest = parts.into_iter().rev().max_by_key(|part| part.time);
        let Some(part) = largest.filter(|part| part.time > Picos::ZERO) else {
            return Value::Null;
        };
        json!({
            "what": part.what,
            "share_milli": milli(part.time.get(), whole),
            "evidence": part.evidence,
        })
    }

    /// How much of the measured time `busy` is, over so many equal resources.
    fn busy(&self, busy: Picos, count: u32) -> String {
        let whole = self.end.as_picos().saturating_mul(u64::from(count));
        percent(busy.get(), whole)
    }

    fn memory_parts(&self) -> Vec<Part> {
        let (memory, _) = self.active();
        let stats = &self.simulation.fabric.stats;
        let device = &stats.device;
        let times = [
            ("flash", device.flash, self.of_flash()),
            ("device DRAM", device.dram, self.of_device_dram()),
            ("room on the device", device.stall, self.of_room()),
            (
                "waiting in the host",
                stats.credit_wait,
                self.of_host_waits(),
            ),
            ("the link", stats.link, self.of_link()),
            ("index lookup", device.index, self.of_lookups()),
            (
                "the way between sockets",
                stats.inter_socket,
                self.of_link(),
            ),
            ("host DRAM", stats.host_dram, self.of_misses()),
        ];
        let total: u64 = times.iter().map(|(_, time, _)| time.get()).sum();
        let share = |time: Picos| {
            let part = u128::from(memory.get()) * u128::from(time.get());
            Picos::new((part / u128::from(total.max(1))) as u64)
        };
        times
            .into_iter()
            .map(|(what, time, evidence)| Part {
                what,
                time: share(time),
                evidence,
            })
            .collect()
    }

    fn core_parts(&self) -> Vec<Part> {
        let (memory, active) = self.active();
        let charged = self.simulation.charged;
        let migration = charged.work + charged.shootdowns;
        let compute = active.saturating_sub(memory);
        // What has made switches longer counts among them, the rest among what cores compute.
        let of_threads = migration.saturating_sub(charged.switching).min(compute);
        let (switching, idle) = self.off_thread();
        let whole = Picos::new(self.end.as_picos()) * u64::from(self.config.cpu.cores);
        let switches = &self.simulation.switches;
        let placement = self.simulation.fabric.placement.stats();
        let moved = placement.promotions + placement.demotions + placement.drops;
        let threads = self.simulation.host_threads.iter();
        let present = threads.filter(|thread| thread.is_present).count();
        vec![
            Part {
                what: "page migration",
                time: of_threads + charged.switching,
                evidence: format!(
                    "{moved} pages moved; shootdowns took {} of it, charged to all cores, at work or not",
                    percent(charged.shootdowns.get(), migration.get())
                ),
            },
            Part {
                what: "thread switches",
                time: switching.saturating_sub(charged.switching),
                evidence: of_switches(switches),
            },
            Part {
                what: "computing",
                time: compute.saturating_sub(of_threads),
                evidence: format!("{} instructions", self.totals.cores.executed()),
            },
            // What is none of these: cores that are kept for a thread whose page is on its way.
            Part {
                what: "threads that wait on their cores",
                time: whole.saturating_sub(active + switching + idle),
                evidence: format!("os.wake = {}", self.wake()),
            },
            Part {
                what: "idle cores",
                time: idle,
                evidence: format!("{present} threads on {} cores", self.config.cpu.cores),
            },
        ]
    }

    fn wake(&self) -> &'static str {
        match self.config.os.wake {
            WakePolicy::HoldCore => "hold_core",
            WakePolicy::OnData => "on_data",
            WakePolicy::OnArrival => "on_arrival",
            WakePolicy::Requeue => "requeue",
        }
    }

    fn of_flash(&self) -> String {
        let Some(device) = &self.simulation.fabric.device else {
            return String::new();
        };
        let nand = &device.resources.nand;
        let reads = nand.stats().of(Kind::Read);
        let geometry = nand.geometry();
        let (units, name) = match self.config.nand.parallelism {
            Parallelism::Die => (geometry.die_count(), "die"),
            Parallelism::Channel => (geometry.channel_count, "channel"),
        };
        let mean = reads.latency.get() / reads.completed.max(1);
        let mean = format!("{}.{} us", mean / 1_000_000, mean / 100_000 % 10);
        format!(
            "a read takes {mean}, of it {} behind other work of its {name}; {name}s busy {}{}",
            percent(reads.wait.get(), reads.latency.get()),
            self.busy(nand.stats().die_busy, units),
            self.of_misses_if_short()
        )
    }

    fn of_device_dram(&self) -> String {
        let Some(device) = &self.simulation.fabric.device else {
            return String::new();
        };
        let dram = device.resources.dram.stats();
        let channels = self.config.ssd_dram.channels;
        format!(
            "its buses are busy {}; lines waited {} of it for banks and buses{}",
            self.busy(dram.busy, channels),
            percent(
                dram.wait.get(),
                dram.wait.get().saturating_add(dram.busy.get())
            ),
            self.of_misses_if_short()
        )
    }

    /// What it waits for is not told apart: all of it is counted as one.
    fn of_host_waits(&self) -> String {
        format!(
            "for write credits, a locked page or another request of the line; {}",
            self.of_room()
        )
    }

    fn of_lookups(&self) -> String {
        let device = &self.simulation.fabric.device;
        if device
            .as_ref()
            .is_some_and(|device| device.resources.takes_given_times())
        {
            return "as long as each was measured to take of the firmware, one at a time"
                .to_owned();
        }
        let ssd = self.config.controller().ssd;
        match ssd.log.half_slot_count() {
            0 => format!("{} for the data cache", ssd.cache.lookup),
            _ => format!(
                "{} for the data cache, {} for the log",
                ssd.cache.lookup, ssd.log.lookup
            ),
        }
    }

    fn of_room(&self) -> String {
        let c = &self.totals.controller;
        let ssd = self.config.controller().ssd;
        if ssd.log.half_slot_count() == 0 {
            return format!(
                "{} dirty pages left the data cache, each through one of {} page buffers \
                 (ssd.buffers), and {} pages can be fetched at once (ssd.cache.mshr_count)",
                c.evictions_dirty, ssd.buffers, ssd.cache.mshr_count
            );
        }
        let most = ssd.buffers.saturating_sub(ssd.compaction.leaves);
        format!(
            "the log filled {} times, compactions that ended took {} of the time, at most {} pages \
             at once (ssd.compaction.batch, ssd.buffers)",
            c.log_fills,
            self.busy(c.compaction_time, 1),
            ssd.compaction.batch.min(most)
        )
    }

    fn of_link(&self) -> String {
        let link = self.simulation.fabric.link.stats();
        format!(
            "busy {} to the device and {} to the host",
            self.busy(link.to_device.busy, 1),
            self.busy(link.to_host.busy, 1)
        )
    }

    fn of_misses(&self) -> String {
        let c = &self.totals.cores;
        format!(
            "{} of the misses of L1D found every MSHR taken",
            percent(c.mshr_waits, c.l1d_misses)
        )
    }

    /// That cores are short of MSHRs, if they are.
    fn of_misses_if_short(&self) -> String {
        let c = &self.totals.cores;
        match c.mshr_waits * 10 > c.l1d_misses && self.config.design.memory == MemoryKind::Ssd {
            true => format!("; {}", self.of_misses()),
            false => String::new(),
        }
    }
}

/// What threads were switched for; what never happened is no evidence.
fn of_switches(counts: &SwitchCounts) -> String {
    let parts = [
        (counts.long_delay, "coordinated switches"),
        (counts.retries, "of threads that came back too early"),
        (counts.slice, "for time slices that ended"),
        (counts.blocked, "of threads that wait for another one"),
        (counts.syscalls, "system calls"),
    ];
    let happened = parts.iter().filter(|(count, _)| *count > 0);
    let named: Vec<String> = happened
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    named.join(", ")
}

/// A share as text: with a tenth of a percent below ten.
fn percent(part: u64, whole: u64) -> String {
    match milli(part, whole) {
        small @ 0..100 => format!("{}.{} %", small / 10, small % 10),
        milli => format!("{} %", (milli + 5) / 10),
    }
}
