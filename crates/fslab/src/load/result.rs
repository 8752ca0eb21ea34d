//! What came of a load.

use super::measure::{Latency, Recorder};
use super::runner::Setup;
use super::spec::Load;
use bytefs::{Class, DaxReport, FsStats, Ino, Structure};
use dax::Decision;
use device::Counters;
use device::metrics::metrics;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use units::Picos;
use units::parameter::Texts;

/// What a load was run on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Conditions {
    /// Its name on the command line.
    pub load: String,
    /// Its name in tables.
    pub title: String,
    /// How changes were made durable.
    pub personality: String,
    /// The preset of the device.
    pub device: String,
    /// By how much everything was smaller than the paper's.
    pub scale: u64,
    /// Of all random streams.
    pub seed: u64,
    /// Processors.
    pub cores: u32,
    /// Threads by name.
    pub threads: BTreeMap<String, u32>,
    /// Pages of files that the host could cache, in bytes.
    pub cache_bytes: u64,
    /// Costs of the file system's code, in picoseconds.
    pub costs_ps: BTreeMap<String, u64>,
    /// Every parameter of the device.
    pub device_configuration: BTreeMap<String, String>,
    /// What the file system was told.
    pub fs_configuration: BTreeMap<String, String>,
}

impl Conditions {
    pub(crate) fn new(name: &str, load: &Load, setup: &Setup, preset: &str, texts: &Texts) -> Self {
        let mut threads: BTreeMap<String, u32> = BTreeMap::new();
        for group in &load.threads {
            threads.insert(group.name.clone(), group.count);
        }
        if let Some(store) = &load.store {
            threads.insert("client".to_owned(), store.threads);
        }
        let costs = [
            ("operation", setup.costs.operation),
            ("change", setup.costs.change),
            ("page", setup.costs.page),
            ("compare", setup.costs.compare),
            ("commit", setup.costs.commit),
            ("request", setup.costs.request),
            ("switch", setup.costs.switch),
        ];
        let cache = setup.scale.of_bytes(setup.cache, units::Bytes::from_mib(1));
        let sections = texts.iter().flat_map(|(section, keys)| {
            let whole = move |(key, text): &(_, String)| (format!("{section}.{key}"), text.clone());
            keys.iter().map(whole)
        });
        Self {
            load: name.to_owned(),
            title: load.title.clone(),
            personality: setup.personality.to_string(),
            device: preset.to_owned(),
            scale: setup.scale.get(),
            seed: setup.seed,
            cores: setup.cores,
            threads,
            cache_bytes: cache.get(),
            costs_ps: costs
                .map(|(name, span)| (name.to_owned(), span.get()))
                .into(),
            device_configuration: sections.collect(),
            fs_configuration: setup.fs.texts().into_iter().collect(),
        }
    }
}

/// What a file system and its device have counted up to a moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Totals {
    /// What only grows.
    counters: BTreeMap<String, u64>,
    /// What rises and falls.
    standing: BTreeMap<String, u64>,
}

impl Totals {
    pub fn of(files: &FsStats, dax: Option<DaxReport>, device: &Counters) -> Self {
        let mut counters = BTreeMap::new();
        let mut standing = BTreeMap::new();
        for class in Class::ALL {
            let traffic = files.of(class);
            for (what, bytes) in [
                ("written_by_bytes", traffic.bytes_written),
                ("read_by_bytes", traffic.bytes_read),
                ("read_by_blocks", traffic.blocks_read),
                ("written_by_blocks", traffic.blocks_written),
            ] {
                counters.insert(format!("{}_{what}", class.name()), bytes);
            }
        }
        for structure in Structure::ALL {
            let moved = files.of_structure(structure);
            counters.insert(format!("{}_read", structure.name()), moved.read);
            counters.insert(format!("{}_written", structure.name()), moved.written);
        }
        for (name, count) in [
            ("batches", files.batches),
            ("batch_lines", files.batch_lines),
            ("pages_by_bytes", files.pages_by_bytes),
            ("pages_by_blocks", files.pages_by_blocks),
            ("read", files.read),
            ("written", files.written),
            ("syncs", files.syncs),
            ("flushes", files.flushes),
            ("trims", files.trims),
            ("cleaned_segments", files.cleaned_segments),
            ("moved_blocks", files.moved_blocks),
            ("cleaned_logs", files.cleaned_logs),
            ("emptied_logs", files.emptied_logs),
        ] {
            counters.insert(format!("fs_{name}"), count);
        }
        for (name, count) in [
            ("cached_pages", files.cached_pages),
            ("dirty_pages", files.dirty_pages),
            ("duplicate_pages", files.duplicate_pages),
        ] {
            standing.insert(format!("fs_{name}"), count);
        }
        if let Some(dax) = dax {
            for (name, count) in [
                ("upgrades", dax.ranges.upgrades),
                ("downgrades", dax.ranges.downgrades),
                ("predicted", dax.ranges.predicted),
                ("let_go", dax.ranges.let_go),
                ("light_syncs", dax.pmem.light_syncs),
                ("syncs_without_room", dax.pmem.without_room),
                ("stored_lines", dax.pmem.lines),
            ] {
                counters.insert(format!("dax_{name}"), count);
            }
            standing.insert("dax_frames_in_use".to_owned(), dax.frames.0);
            standing.insert("dax_most_frames_in_use".to_owned(), dax.pmem.most_frames);
        }
        for metric in metrics(device) {
            let of = match metric.grows {
                true => &mut counters,
                false => &mut standing,
            };
            of.insert(format!("device_{}", metric.name), metric.value);
        }
        Self { counters, standing }
    }

    /// What was counted since an earlier moment; what rises and falls as it is now.
    fn since(&self, earlier: &Self) -> BTreeMap<String, u64> {
        let grown = self.counters.iter().map(|(name, count)| {
            let before = earlier.counters.get(name).copied().unwrap_or(0);
            (name.clone(), count.saturating_sub(before))
        });
        let standing = self
            .standing
            .iter()
            .map(|(name, value)| (name.clone(), *value));
        grown.chain(standing).collect()
    }
}

/// What came of a load.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LoadResult {
    /// What it was run on.
    pub conditions: Conditions,
    /// Operations of all threads in the measured part.
    pub operations: u64,
    /// From its begin to the end of its last counted thread, in picoseconds.
    pub virtual_time_ps: u64,
    /// Of virtual time.
    pub operations_per_second: f64,
    /// By kind of operation.
    pub latencies: BTreeMap<String, Latency>,
    /// Bytes that programs have read.
    pub application_read_bytes: u64,
    /// Bytes that programs have written.
    pub application_written_bytes: u64,
    /// What file system and device have counted in the measured part.
    pub measured: BTreeMap<String, u64>,
    /// The same with the sync and the drain of the device's log behind it.
    pub synced: BTreeMap<String, u64>,
    /// What they have counted before: file system, files, and the sync behind them.
    pub made: BTreeMap<String, u64>,
    /// Of a recording, a part that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    /// Of a recording, what transparent DAX has judged and decided, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decisions: Option<Decisions>,
}

/// What transparent DAX has judged and decided.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Decisions {
    /// In the order in which it happened.
    pub kept: Vec<Decided>,
    /// Older ones, of which only the number is known.
    pub lost: u64,
}

/// One of them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Decided {
    /// When, in picoseconds since the machine began.
    pub at_ps: u64,
    /// The file's inode. Its number may be another file's by now.
    pub inode: u32,
    /// The first page of the range.
    pub first_page: u64,
    /// Pages of it.
    pub pages: u64,
    /// What, as traces have it.
    pub event: &'static str,
    /// Pages written that count.
    pub writes: u32,
    /// Pages written back that count.
    pub write_backs: u32,
    /// By what the range is judged, in percent.
    pub ratio_percent: Option<u64>,
}

impl Decisions {
    pub(crate) fn of(decisions: &[(Ino, Decision)], lost: u64) -> Self {
        let decided = |(ino, decision): &(Ino, Decision)| Decided {
            at_ps: decision.at.as_picos(),
            inode: ino.0,
            first_page: decision.pages.start,
            pages: decision.pages.end - decision.pages.start,
            event: decision.what.name(),
            writes: decision.counts.writes,
            write_backs: decision.counts.write_backs,
            ratio_percent: decision.metric,
        };
        Self {
            kept: decisions.iter().map(decided).collect(),
            lost,
        }
    }
}

/// What came of a part of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Part {
    /// Threads that did most of it: each at least a quarter of what the busiest one did.
    pub threads: u32,
    /// Their operations.
    pub operations: u64,
    /// From the begin of their first operation to the end of their last one, in picoseconds.
    pub virtual_time_ps: u64,
    /// The same when it was recorded.
    pub recorded_time_ps: u64,
    /// Syncs of files among them.
    pub syncs: u64,
    /// What one of these took in the mean, in picoseconds; 0 if there was none.
    pub sync_mean_ps: u64,
}

impl LoadResult {
    pub(crate) fn new(
        conditions: Conditions,
        took: Picos,
        recorder: &Recorder,
        (before, after, synced): (&Totals, &Totals, &Totals),
        made: Option<&Totals>,
    ) -> Self {
        let latencies = recorder.latencies();
        let operations = latencies.values().map(|of| of.operations).sum();
        let (read, written) = recorder.bytes();
        let per_second = match took.get() {
            0 => 0.0,
            picos => operations as f64 / (picos as f64 / 1e12),
        };
        Self {
            conditions,
            operations,
            virtual_time_ps: took.get(),
            operations_per_second: per_second,
            latencies,
            application_read_bytes: read,
            application_written_bytes: written,
            measured: after.since(before),
            synced: synced.since(before),
            made: made.map_or_else(BTreeMap::new, |made| made.counters.clone()),
            part: None,
            decisions: None,
        }
    }

    /// As JSON, in the order of fields and of names.
    pub fn json(&self) -> Value {
        serde_json::to_value(self).expect("a result is JSON")
    }
}
