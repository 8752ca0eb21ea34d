//! What a device says of itself, for programs: as JSON and as Prometheus text.

use crate::counters::Counters;
use port::PortTraffic;
use serde_json::{Map, Value};
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
}

/// Everything that a device counts, since its image was made.
pub fn metrics(counters: &Counters) -> Vec<Metric> {
    let stats = &counters.stats;
    let metric = |name, help, value| Metric { name, help, value };
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
    all
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
    let named = names.iter().zip(values);
    named
        .map(|((name, help), value)| Metric { name, help, value })
        .collect()
}

/// As one JSON object, name to number.
pub fn json(counters: &Counters) -> Value {
    let pairs = metrics(counters).into_iter();
    let object: Map<String, Value> = pairs
        .map(|metric| (metric.name.to_owned(), Value::from(metric.value)))
        .collect();
    Value::Object(object)
}

/// As Prometheus text (exposition format 0.0.4): counters `entresol_device_NAME_total`, with the
/// label `image`.
pub fn prometheus(counters: &Counters, image: &str) -> String {
    let label = image
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    let mut text = String::new();
    for Metric { name, help, value } in metrics(counters) {
        writeln!(
            text,
            "# HELP entresol_device_{name}_total {help}\n\
             # TYPE entresol_device_{name}_total counter\n\
             entresol_device_{name}_total{{image=\"{label}\"}} {value}"
        )
        .expect("text grows");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_name_is_there_once_in_both_forms() {
        let mut counters = Counters::default();
        counters.stats.block_port.reads = 17;
        let names: BTreeSet<_> = metrics(&counters)
            .iter()
            .map(|metric| metric.name)
            .collect();
        let json = json(&counters);
        assert_eq!(names.len(), json.as_object().unwrap().len());
        assert_eq!(json["block_port_reads"], 17);
        let text = prometheus(&counters, "a\"b\\c\nd");
        assert_eq!(text.lines().count(), 3 * names.len());
        let line = r#"entresol_device_block_port_reads_total{image="a\"b\\c\nd"} 17"#;
        assert!(text.lines().any(|found| found == line), "{text}");
    }
}
