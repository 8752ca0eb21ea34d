//! Samples: dense features, rows to look up, labels. A loader brings them before the region.

use super::math::small;
use super::shape::{DENSE, LOOKUPS, TABLES};
use crate::random::hash;
use crate::team;
use crate::zipf::Zipf;

/// How unequal rows are wanted: Zipf's exponent.
const EXPONENT: f64 = 0.8;

/// Bytes of a sample's input.
pub(super) const INPUT_BYTES: u64 = ((DENSE + TABLES * LOOKUPS) * 4 + 4) as u64;

/// All samples of a run.
#[derive(Debug)]
pub(super) struct Inputs {
    dense: Vec<f32>,
    lookups: Vec<u32>,
    labels: Vec<f32>,
}

impl Inputs {
    /// `count` samples for tables of `rows` rows.
    pub(super) fn new(count: usize, rows: u64, sequence: u64) -> Self {
        let zipf = Zipf::new(rows, EXPONENT);
        let per_sample = TABLES * LOOKUPS;
        let lookups = team::combine(
            count,
            |part| {
                let places = part.start * per_sample..part.end * per_sample;
                places
                    .map(|place| zipf.item(hash(sequence, place as u64), rows) as u32)
                    .collect()
            },
            |before: Vec<_>, after| [before, after].concat(),
        );
        let number = |place: usize| hash(!sequence, place as u64);
        Self {
            dense: (0..count * DENSE)
                .map(|place| 64.0 * small(number(place)))
                .collect(),
            lookups,
            labels: (0..count)
                .map(|place| (number(!place) & 1) as f32)
                .collect(),
        }
    }

    /// How many samples there are.
    pub(super) fn count(&self) -> usize {
        self.labels.len()
    }

    pub(super) fn dense(&self, sample: usize) -> &[f32] {
        &self.dense[sample * DENSE..(sample + 1) * DENSE]
    }

    #[inline(always)]
    pub(super) fn lookups(&self, sample: usize, table: usize) -> &[u32] {
        let start = (sample * TABLES + table) * LOOKUPS;
        &self.lookups[start..start + LOOKUPS]
    }

    pub(super) fn label(&self, sample: usize) -> f32 {
        self.labels[sample]
    }
}
