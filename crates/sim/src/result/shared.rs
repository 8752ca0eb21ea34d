//! What the results of a run and of a replay have in common: the same function gives the same keys.

use crate::config::Config;
use crate::histogram::LatencyHistogram;
use firmware::{ControllerStats, FtlStats};
use serde_json::{Map, Value, json};
use units::{Bytes, Picos};

/// `1000 × part ÷ whole`, rounded down; 0 if there is no whole.
pub fn milli(part: u64, whole: u64) -> u64 {
    let scaled = u128::from(part) * 1000;
    u64::try_from(scaled.checked_div(u128::from(whole)).unwrap_or(0)).unwrap_or(u64::MAX)
}

/// The mean of a sum over `count`, rounded down; 0 if there are none.
pub(crate) fn mean(sum: Picos, count: u64) -> u64 {
    sum.get().checked_div(count).unwrap_or(0)
}

/// The configuration as its sections' texts: what is written can be read again.
pub(crate) fn config_texts(config: &Config) -> Value {
    let sections = config.texts().into_iter().map(|(section, keys)| {
        let texts = keys
            .into_iter()
            .map(|(key, text)| (key.to_string(), json!(text)));
        (section.to_string(), Value::Object(texts.collect()))
    });
    Value::Object(sections.collect::<Map<String, Value>>())
}

/// Pairs of a latency in picoseconds and how many accesses took at most that.
pub(crate) fn latency_cdf(latencies: &LatencyHistogram) -> Value {
    let points = latencies.cumulative().into_iter();
    points
        .map(|(edge, count)| json!([edge.get(), count]))
        .collect()
}

/// What has been counted of the flash in the measured part.
pub(crate) struct FlashWork<'a> {
    pub(crate) ftl: &'a FtlStats,
    pub(crate) controller: &'a ControllerStats,
    /// A logical page, of which a flash page holds so many.
    pub(crate) page_size: Bytes,
    pub(crate) units_per_page: u32,
    /// Flash reads that have ended, and the sum of their latencies.
    pub(crate) reads: u64,
    pub(crate) read_latency: Picos,
}

/// `statistics.flash`: logical pages read and programmed (with those of flash pages that nothing
/// filled, `padding_pages`), blocks erased, for whom, and how long reads took.
pub(crate) fn flash(work: &FlashWork) -> Value {
    let (ftl, controller) = (work.ftl, work.controller);
    let programs = ftl.host_programs + ftl.gc_programs + ftl.padding;
    let mut fields = json!({
        "read_pages": ftl.host_reads + ftl.gc_reads,
        "program_pages": programs,
        "host_read_pages": ftl.host_reads,
        "host_program_pages": ftl.host_programs,
        "coalescing_read_pages": controller.coalescing_reads,
        "gc_read_pages": ftl.gc_reads,
        "gc_program_pages": ftl.gc_programs,
        "erased_blocks": ftl.erases,
        "write_amplification_milli": milli(programs, ftl.host_programs),
        "written_bytes": programs * work.page_size.get(),
        "average_read_latency_ps": mean(work.read_latency, work.reads),
    });
    if work.units_per_page > 1 {
        fields["padding_pages"] = json!(ftl.padding);
    }
    fields
}
