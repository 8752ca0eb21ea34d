//! A table of embeddings, most of the model.

use super::layer::read;
use super::math::{add_row, small};
use super::sample::Sample;
use super::shape::{RATE, Vector, WIDTH};
use crate::random::hash;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// A row's bytes.
pub(super) const ROW_BYTES: u64 = WIDTH as u64 * 4;

/// A table's rows under a latch: all look them up at once, then one thread changes them.
#[derive(Debug)]
pub(super) struct Embedding {
    rows: RwLock<Vec<Vector>>,
    sequence: u64,
}

/// A table that nobody may change now.
pub(super) struct Open<'a>(RwLockReadGuard<'a, Vec<Vector>>);

impl Open<'_> {
    #[inline(always)]
    pub(super) fn row(&self, row: u32) -> &Vector {
        &self.0[row as usize]
    }
}

/// The elements of a row at the start, four by four.
pub(super) fn fill_row(elements: &mut Vector, sequence: u64, row: u64) {
    for (four, index) in elements.chunks_exact_mut(4).zip(row * WIDTH as u64 / 4..) {
        let bits = hash(sequence, index);
        for (element, part) in four.iter_mut().zip([0, 16, 32, 48]) {
            *element = small(bits >> part);
        }
    }
}

impl Embedding {
    pub(super) fn new(rows: u64, sequence: u64) -> Self {
        let mut elements = vec![[0.0; WIDTH]; rows as usize];
        for (elements, row) in elements.iter_mut().zip(0..) {
            fill_row(elements, sequence, row);
        }
        Self {
            rows: RwLock::new(elements),
            sequence,
        }
    }

    pub(super) fn open(&self) -> Open<'_> {
        Open(read(&self.rows))
    }

    /// Moves the rows that were looked up down their gradients. `wanted` are rows with the sample
    /// that wanted them; those of one row are first added up, the first sample's first.
    #[inline(always)]
    pub(super) fn learn(
        &self,
        table: usize,
        wanted: &mut [(u32, u32)],
        samples: &[RwLockReadGuard<'_, Sample>],
    ) {
        wanted.sort_unstable();
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        let mut gradient = [0.0; WIDTH];
        for same in wanted.chunk_by(|a, b| a.0 == b.0) {
            gradient.fill(0.0);
            for (_, sample) in same {
                add_row(
                    &mut gradient,
                    1.0,
                    samples[*sample as usize].gradient(table),
                );
            }
            add_row(&mut rows[same[0].0 as usize], -RATE, &gradient);
        }
    }

    /// Whether a row still is as it was at the start.
    pub(super) fn is_first(&self, row: u64) -> bool {
        let mut first = [0.0; WIDTH];
        fill_row(&mut first, self.sequence, row);
        is_same(&first, self.open().row(row as u32))
    }
}

/// Equal to the bit.
pub(super) fn is_same(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}
