//! What a window counts that begins while the machine is at work: differences of counters.

use super::Totals;
use crate::result::mean;
use crate::simulation::Simulation;
use firmware::Served;
use host::SimulatedThread;
use serde_json::{Value, json};
use units::{Picos, Time};

/// Counters at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measured {
    at: Time,
    counts: [u64; COUNT],
}

const NAMES: [&str; COUNT] = [
    "instructions",
    "reads",
    "read_ps",
    "all_reads",
    "all_read_ps",
    "host_reads",
    "device_writes",
    "log_hits",
    "cache_hits",
    "flash_misses",
    "delayed",
    "first_touch_fetches",
    "page_fetches",
    "cache_fills",
    "log_fills",
    "compactions",
    "coalescing_reads",
    "program_pages",
    "gc_program_pages",
    "read_pages",
    "erased_blocks",
    "promotions",
    "demotions",
    "switches_long_delay",
];
const COUNT: usize = 24;

impl Measured {
    /// What has been counted so far.
    pub(crate) fn of<S: SimulatedThread>(simulation: &Simulation<S>, at: Time) -> Self {
        let totals = Totals::of(simulation);
        let stats = &simulation.fabric.stats;
        let (controller, ftl) = (&totals.controller, &totals.ftl);
        let placement = simulation.fabric.placement.stats();
        Self {
            at,
            counts: [
                totals.cores.executed(),
                stats.counted(),
                stats.paper_total.get(),
                stats.all.count(),
                stats.all.sum(),
                stats.host_reads,
                stats.device_writes,
                stats.served_by(Served::LogHit),
                stats.served_by(Served::CacheHit),
                stats.served_by(Served::Flash),
                stats.delayed,
                stats.cold_misses,
                stats.flash_fetches(),
                controller.cache_fills,
                controller.log_fills,
                controller.compactions,
                controller.coalescing_reads,
                ftl.host_programs + ftl.gc_programs + ftl.padding,
                ftl.gc_programs,
                totals.flash_reads,
                ftl.erases,
                placement.promotions,
                placement.demotions + placement.drops,
                simulation.switches.long_delay,
            ],
        }
    }

    /// What was counted since `begin`, as JSON.
    pub(crate) fn since(&self, begin: &Self) -> Value {
        let counts = self.counts.iter().zip(begin.counts);
        let counts: Vec<u64> = counts.map(|(end, begin)| end - begin).collect();
        let mut fields = serde_json::Map::new();
        fields.insert("time_ps".to_string(), json!((self.at - begin.at).get()));
        for (name, count) in NAMES.iter().zip(&counts) {
            fields.insert((*name).to_string(), json!(count));
        }
        for (name, sum, count) in [("amat_ps", 2, 1), ("amat_all_ps", 4, 3)] {
            let amat = mean(Picos::new(counts[sum]), counts[count]);
            fields.insert(name.to_string(), json!(amat));
        }
        Value::Object(fields)
    }
}
