//! What a device says of itself, for programs: as JSON and as Prometheus text.

use crate::activity::{ACTIVITY, HEALTH, STANDING};
use crate::counters::Counters;
use crate::latency::{Kind, Latencies, Latency};
use port::PortTraffic;
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// A number with its name and what it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metric {
    /// Name, its unit at the end; as it is in JSON.
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// How much.
    pub value: u64,
    /// Whether it only grows.
    pub grows: bool,
}

/// Everything that a device counts, since its image was made, and how it stands.
pub fn metrics(counters: &Counters) -> Vec<Metric> {
    let stats = &counters.stats;
    let metric = |name, help, value| Metric {
        name,
        help,
        value,
        grows: true,
    };
    let mut all = vec![
        metric("clock_ps", "Accounted device time.", stats.clock.as_picos()),
        metric(
            "unsafe_shutdowns",
            "Power cuts: processes that did not close the image.",
            counters.unsafe_shutdowns,
        ),
        metric("barriers", "Persist barriers and flushes.", stats.barriers),
        metric("commits", "Transactions committed.", stats.commits),
        metric("aborts", "Transactions aborted.", stats.aborts),
    ];
    all.extend(port_metrics(&BYTE_PORT, &stats.byte_port));
    all.extend(port_metrics(&BLOCK_PORT, &stats.block_port));
    let flash = &stats.flash;
    all.extend([
        metric("flash_read_pages", "Pages read from flash.", flash.reads),
        metric(
            "flash_programmed_pages",
            "Pages programmed.",
            flash.programs,
        ),
        metric("flash_erased_blocks", "Blocks erased.", flash.erases),
        metric(
            "flash_read_bytes",
            "Bytes read from flash.",
            flash.read_bytes.get(),
        ),
        metric(
            "flash_programmed_bytes",
            "Bytes programmed.",
            flash.programmed_bytes.get(),
        ),
    ]);
    all.extend(named(&ACTIVITY, &counters.activity, true));
    all.extend(named(&STANDING, &counters.standing, false));
    all.extend(named(&HEALTH, &counters.health, false));
    all
}

fn named<'a>(
    names: &'a [(&'static str, &'static str)],
    values: &'a [u64],
    grows: bool,
) -> impl Iterator<Item = Metric> + 'a {
    let both = names.iter().zip(values);
    both.map(move |((name, help), value)| Metric {
        name,
        help,
        value: *value,
        grows,
    })
}

/// Name and help of each number of a port.
type PortNames = [(&'static str, &'static str); 6];

const BYTE_PORT: PortNames = [
    ("byte_port_reads", "Reads through the byte port."),
    ("byte_port_writes", "Writes through the byte port."),
    (
        "byte_port_to_host_bytes",
        "Bytes of whole lines from device to host.",
    ),
    (
        "byte_port_to_device_bytes",
        "Bytes of whole lines from host to device.",
    ),
    (
        "byte_port_read_time_ps",
        "Device time of its reads, added up.",
    ),
    (
        "byte_port_write_time_ps",
        "Device time of its writes, added up.",
    ),
];

const BLOCK_PORT: PortNames = [
    ("block_port_reads", "Reads through the block port."),
    (
        "block_port_writes",
        "Writes and trims through the block port.",
    ),
    (
        "block_port_to_host_bytes",
        "Bytes of blocks from device to host.",
    ),
    (
        "block_port_to_device_bytes",
        "Bytes of blocks from host to device.",
    ),
    (
        "block_port_read_time_ps",
        "Device time of its reads, added up.",
    ),
    (
        "block_port_write_time_ps",
        "Device time of its writes, added up.",
    ),
];

fn port_metrics(names: &PortNames, port: &PortTraffic) -> Vec<Metric> {
    let values = [
        port.reads,
        port.writes,
        port.to_host.get(),
        port.to_device.get(),
        port.read_time.get(),
        port.write_time.get(),
    ];
    named(names, &values, true).collect()
}

/// Per mille of the percentiles that are reported, with their names in JSON.
pub const PERCENTILES: [(u64, &str); 4] = [
    (500, "p50_ps"),
    (900, "p90_ps"),
    (990, "p99_ps"),
    (999, "p99_9_ps"),
];

/// As one JSON object: name to number, and `latencies` by kind of request.
pub fn json(counters: &Counters, latencies: &Latencies) -> Value {
    let pairs = metrics(counters).into_iter();
    let mut object: Map<String, Value> = pairs
        .map(|metric| (metric.name.to_owned(), Value::from(metric.value)))
        .collect();
    object.insert("latencies".to_owned(), latencies_json(latencies));
    Value::Object(object)
}

/// Accounted latencies by kind of request; null where there was none.
pub fn latencies_json(latencies: &Latencies) -> Value {
    let of = |latency: &Latency| {
        let mut object = Map::new();
        let mut insert = |name: &str, value: Value| object.insert(name.to_owned(), value);
        insert("requests", json!(latency.count()));
        insert("mean_ps", json!(latency.mean().map(units::Picos::get)));
        for (per_mille, name) in PERCENTILES {
            let value = latency.quantile(per_mille).map(units::Picos::get);
            insert(name, json!(value));
        }
        insert("max_ps", json!(latency.longest().map(units::Picos::get)));
        Value::Object(object)
    };
    let kinds = Kind::ALL.into_iter();
    let object = kinds.map(|kind| (kind.name().to_owned(), of(latencies.of(kind))));
    Value::Object(object.collect())
}

/// As Prometheus text (exposition format 0.0.4), with the label `image`: counters
/// `entresol_device_NAME_total`, gauges `entresol_device_NAME`, latencies as a summary by kind of
/// request.
pub fn prometheus(counters: &Counters, latencies: &Latencies, image: &str) -> String {
    let label = image
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    let mut text = String::new();
    for metric in metrics(counters) {
        let Metric { help, value, .. } = metric;
        let (name, kind) = match metric.grows {
            true => (format!("{}_total", metric.name), "counter"),
            false => (metric.name.to_owned(), "gauge"),
        };
        writeln!(
            text,
            "# HELP entresol_device_{name} {help}\n\
             # TYPE entresol_device_{name} {kind}\n\
             entresol_device_{name}{{image=\"{label}\"}} {value}"
        )
        .expect("text grows");
    }
    summaries(&mut text, latencies, &label);
    text
}

fn summaries(text: &mut String, latencies: &Latencies, label: &str) {
    const NAME: &str = "entresol_device_latency_ps";
    text.push_str(
        "# HELP entresol_device_latency_ps Accounted device time of requests, by kind.\n\
         # TYPE entresol_device_latency_ps summary\n",
    );
    for kind in Kind::ALL {
        let latency = latencies.of(kind);
        let labels = format!("image=\"{label}\",request=\"{}\"", kind.name());
        let mut line = |rest: String| writeln!(text, "{NAME}{rest}").expect("text grows");
        for (per_mille, _) in PERCENTILES.into_iter().chain([(1000, "")]) {
            let share = per_mille as f64 / 1000.0;
            if let Some(span) = latency.quantile(per_mille) {
                line(format!("{{{labels},quantile=\"{share}\"}} {}", span.get()));
            }
        }
        line(format!("_sum{{{labels}}} {}", latency.sum().get()));
        line(format!("_count{{{labels}}} {}", latency.count()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use units::Picos;

    #[test]
    fn every_name_is_there_once_in_both_forms() {
        let mut counters = Counters::default();
        counters.stats.block_port.reads = 17;
        let names: BTreeSet<_> = metrics(&counters)
            .iter()
            .map(|metric| metric.name)
            .collect();
        let latencies = Latencies::of_spans(&[(Kind::Flush, Picos::new(40))]);
        let json = json(&counters, &latencies);
        assert_eq!(names.len() + 1, json.as_object().unwrap().len());
        assert_eq!(json["block_port_reads"], 17);
        assert_eq!(json["latencies"]["flush"]["p99_ps"], 40);
        assert_eq!(json["latencies"]["trim"]["p99_ps"], Value::Null);
        let text = prometheus(&counters, &latencies, "a\"b\\c\nd");
        let summaries = 2 + 2 * Kind::ALL.len() + 5;
        assert_eq!(text.lines().count(), 3 * names.len() + summaries);
        assert!(
            text.contains("request=\"flush\",quantile=\"0.999\"} 40\n"),
            "{text}"
        );
        assert!(
            text.contains("# TYPE entresol_device_log_used_slots gauge\n"),
            "{text}"
        );
        let line = r#"entresol_device_block_port_reads_total{image="a\"b\\c\nd"} 17"#;
        assert!(text.lines().any(|found| found == line), "{text}");
    }
}
