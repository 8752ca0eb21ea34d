//! Transparent DAX of a mount: its settings, what it tells, and the trace of what it decides.

use bytefs::fuse::Mounted;
use bytefs::{DaxAt, DaxFile, DaxReport, DaxView, Ino, Lacked, Refused};
use dax::{Counts, Decision, PolicyKind, RangeView, Settings, Span};
use port::{Device, Drive};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use units::Time;

/// Its settings: `mode`, which is a mount option, and `set`, by the names of settings.
pub(crate) fn settings(told: &Value) -> Result<Settings, String> {
    let mut settings = Settings::default();
    match told["mode"].as_str() {
        Some("explicit") => settings.kind = PolicyKind::Explicit,
        Some("always") => settings.kind = PolicyKind::Always,
        _ => {}
    }
    for (key, value) in told["set"].as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        let set = settings.set(key, value);
        set.map_err(|error| format!("-o dax_{key}={value}: {error}"))?;
    }
    Ok(settings)
}

/// What of the device it is to be at; None: as the device is.
pub(crate) fn at(told: &Value) -> Result<Option<DaxAt>, String> {
    let asked = told["at"].as_str().map(str::parse);
    asked.transpose().map_err(|error| format!("-o {error}"))
}

/// What it has done, name by name.
pub(crate) fn counted(report: &DaxReport) -> Value {
    let (ranges, pmem, footprint) = (report.ranges, report.pmem, report.footprint);
    json!({
        "tracked_ranges": footprint.ranges,
        "tracker_bytes": footprint.held + footprint.index + footprint.decaying.1,
        "wanted_upgrades": ranges.wanted_upgrades,
        "predicted_upgrades": ranges.predicted,
        "wanted_downgrades": ranges.wanted_downgrades,
        "evictions": ranges.evictions,
        "let_go": ranges.let_go,
        "upgrades": ranges.upgrades,
        "downgrades": ranges.downgrades,
        "failures": ranges.failures,
        "withdrawn": ranges.withdrawn,
        "light_syncs": pmem.light_syncs,
        "syncs_without_room": pmem.without_room,
        "stored_lines": pmem.lines,
        "recovered_pages": pmem.recovered,
        "frames_in_use": report.frames.0,
        "most_frames_in_use": pmem.most_frames,
        "frames": report.frames.1,
    })
}

/// Everything that `.entresol/dax` says.
pub(crate) fn told(view: &DaxView) -> Value {
    let (settings, report) = (&view.settings, &view.report);
    json!({
        "at": view.at.name(),
        "settings": {
            "policy": settings.kind.name(),
            "upgrade": settings.policy.upgrade_above,
            "downgrade": settings.policy.downgrade_below,
            "after": settings.policy.after_writes,
            "order": settings.order,
            "reserve": settings.reserve,
            "write_delay_s": settings.write_delay.get() / SECOND,
            "write_back_delay_s": settings.write_back_delay.get() / SECOND,
        },
        "thresholds": view.thresholds.map(|now| json!({
            "upgrade": now.upgrade_above,
            "downgrade": now.downgrade_below,
            "after": now.after_writes,
        })),
        "memory": {
            "frames": report.frames.1,
            "in_use": report.frames.0,
            "of_explicit": view.requested,
            "reserved": view.reserved,
            "free": view.free,
        },
        "counters": counted(report),
        "lacked": view.lacked.as_ref().map(lacked),
        "refused": view.refused.iter().map(refused).collect::<Vec<_>>(),
        "files": view.files.iter().map(file).collect::<Vec<_>>(),
    })
}

const SECOND: u64 = 1_000_000_000_000;

fn lacked(lacked: &Lacked) -> Value {
    json!({
        "at_us": micros(lacked.at),
        "inode": lacked.ino.0,
        "page": lacked.page,
        "frames": lacked.frames,
        "free": lacked.free,
        "kept": lacked.kept,
        "why": format!(
            "a sync of inode {} needs {} frames and {} are free, of which {} are kept for pages \
             that programs ask for; it took the usual way",
            lacked.ino.0, lacked.frames, lacked.free, lacked.kept.min(lacked.free)
        ),
    })
}

fn refused(refused: &Refused) -> Value {
    let pages = refused.pages.as_ref();
    json!({
        "at_us": micros(refused.at),
        "inode": refused.ino.map(|ino| ino.0),
        "first_page": pages.map(|pages| pages.start),
        "pages": pages.map(|pages| pages.end - pages.start),
        "asked": refused.asked,
        "why": refused.why,
        "times": refused.times,
    })
}

fn file(file: &DaxFile) -> Value {
    let explicit = file.spans.iter().filter(|span| span.is_requested);
    json!({
        "inode": file.ino.0,
        "frames": file.frames,
        "explicit_pages": explicit.map(pages).collect::<Vec<_>>(),
        "ranges": file.ranges.iter().map(range).collect::<Vec<_>>(),
    })
}

/// The first page and the one behind the last; null if that is the end of the file.
fn pages(span: &Span) -> Value {
    let end = Some(span.pages.end).filter(|end| *end != u64::MAX);
    json!([span.pages.start, end])
}

fn range((range, frames): &(RangeView, usize)) -> Value {
    let marks = range.stage.marks();
    let Counts {
        writes,
        write_backs,
    } = range.counts;
    json!({
        "first_page": range.pages.start,
        "pages": range.pages.end - range.pages.start,
        "stage": range.stage.name(),
        "to_upgrade": marks & 1 != 0,
        "to_downgrade": marks & 2 != 0,
        "upgraded": marks & 4 != 0,
        "writes": writes,
        "write_backs": write_backs,
        "ratio_percent": range.metric,
        "frames": frames,
    })
}

fn micros(time: Time) -> u64 {
    time.as_picos() / 1_000_000
}

/// A file with a line for each decision.
pub(crate) struct Trace {
    path: PathBuf,
    file: File,
}

/// The columns.
const COLUMNS: &str = "time_us,inode,first_page,pages,event,writes,write_backs,ratio_percent\n";

impl Trace {
    /// Begins the file that the options of a mount name, if they name one.
    pub fn of(options: &str) -> Result<Option<Self>, String> {
        let told: Value = serde_json::from_str(options).map_err(|error| error.to_string())?;
        let Some(path) = told["dax_trace"].as_str().map(PathBuf::from) else {
            return Ok(None);
        };
        let wrong = |error| wrong(&path, error);
        let mut file = File::create_new(&path).map_err(wrong)?;
        file.write_all(COLUMNS.as_bytes()).map_err(wrong)?;
        Ok(Some(Self { path, file }))
    }

    /// Removes the file: nothing was mounted.
    pub fn discard(self) {
        drop(self.file);
        // What cannot be removed is a file with a head and no line.
        let _ = std::fs::remove_file(&self.path);
    }

    /// Writes what was decided since this was asked for last.
    pub fn write<D: Device + Drive + Send + Sync + 'static>(
        &mut self,
        mount: &Mounted<D>,
    ) -> Result<(), String> {
        let (decisions, lost) = mount.look(|fs| fs.take_dax_trace()).unwrap_or_default();
        let mut text = String::new();
        if lost > 0 {
            // Not a line like the others: who reads it must see that some are missing.
            text.push_str(&format!(
                "# {lost} decisions are lost: nobody took them in time\n"
            ));
        }
        text.extend(decisions.iter().map(line));
        let written = self.file.write_all(text.as_bytes());
        written.map_err(|error| wrong(&self.path, error))
    }
}

fn wrong(path: &Path, error: std::io::Error) -> String {
    format!("--dax-trace {}: {error}", path.display())
}

fn line((ino, decision): &(Ino, Decision)) -> String {
    let ino = ino.0;
    let metric = decision.metric.map_or(String::new(), |of| of.to_string());
    let (pages, counts) = (&decision.pages, decision.counts);
    format!(
        "{},{ino},{},{},{},{},{},{metric}\n",
        micros(decision.at),
        pages.start,
        pages.end - pages.start,
        decision.what.name(),
        counts.writes,
        counts.write_backs,
    )
}
