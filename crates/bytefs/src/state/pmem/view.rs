//! What is told of transparent DAX.

use super::{DaxAt, Pmem, Refused};
use crate::{DaxReport, Ino};
use dax::{RangeView, Ratio, Settings, Span};
use units::Time;

/// A sync that found no frames, and took the usual way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lacked {
    /// When.
    pub at: Time,
    /// Of which file.
    pub ino: Ino,
    /// The first page that has none.
    pub page: u64,
    /// How many it needs.
    pub frames: usize,
    /// How many were free.
    pub free: usize,
    /// How many of these are kept for pages that programs have asked for.
    pub kept: usize,
}

/// A file of which something is tracked or mapped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DaxFile {
    /// Which one.
    pub ino: Ino,
    /// What is in persistent memory, and because of whom.
    pub spans: Vec<Span>,
    /// Its ranges, and how many frames each has.
    pub ranges: Vec<(RangeView, usize)>,
    /// Frames that it has.
    pub frames: usize,
}

/// Everything that is told of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DaxView {
    /// What was done, and what is held.
    pub report: DaxReport,
    /// What of the device is persistent memory.
    pub at: DaxAt,
    /// What is set.
    pub settings: Settings,
    /// By what ranges are judged now; None: they are not.
    pub thresholds: Option<Ratio>,
    /// Frames that only pages have which programs have asked for.
    pub reserved: usize,
    /// Frames of such pages.
    pub requested: usize,
    /// Frames that nobody has.
    pub free: usize,
    /// The last sync that found no frames.
    pub lacked: Option<Lacked>,
    /// What was asked for last and is not done, the newest at the end.
    pub refused: Vec<Refused>,
    /// By inode.
    pub files: Vec<DaxFile>,
}

impl Pmem {
    /// What is told of it.
    pub fn view(&mut self, now: Time) -> DaxView {
        let mut known: Vec<_> = self.files.iter().map(|(ino, of)| (*ino, of.id)).collect();
        known.sort_unstable();
        let mut files = Vec::new();
        for (ino, id) in known {
            let ranges = self.dax.ranges(id, now).into_iter();
            let count = |pages: core::ops::Range<u64>| {
                self.framed
                    .range((ino, pages.start)..(ino, pages.end))
                    .count()
            };
            let ranges: Vec<_> = ranges
                .map(|range| {
                    let frames = count(range.pages.clone());
                    (range, frames)
                })
                .collect();
            let file = DaxFile {
                ino,
                spans: self.dax.spans(id).iter().cloned().collect(),
                ranges,
                frames: count(0..u64::MAX),
            };
            if !(file.spans.is_empty() && file.ranges.is_empty() && file.frames == 0) {
                files.push(file);
            }
        }
        DaxView {
            report: self.report(),
            at: self.at,
            settings: *self.dax.settings(),
            thresholds: self.dax.policy().thresholds().copied(),
            reserved: self.reserved(),
            requested: self.requested,
            free: self.free.len(),
            lacked: self.lacked,
            refused: self.refused.all().cloned().collect(),
            files,
        }
    }

    /// What was done, and what is held.
    pub fn report(&self) -> DaxReport {
        DaxReport {
            ranges: self.dax.stats(),
            pmem: self.stats,
            frames: (self.used() as u64, self.window.frames.into()),
            footprint: self.dax.footprint(),
        }
    }
}
