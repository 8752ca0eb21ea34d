//! A fully connected layer, shared by all threads.
//!
//! Weights lie in panels of eight rows, a latch round each: input by input, and once more output by
//! output, so that both directions go along rows.

use super::math::{add_scaled, small};
use super::sample::Sample;
use super::shape::RATE;
use crate::random::hash;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Rows of a panel.
const ROWS: usize = 8;

/// Latches what no panicking thread leaves in pieces: a panel is written as a whole or the program
/// ends.
pub(super) fn read<T>(latch: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    latch.read().unwrap_or_else(PoisonError::into_inner)
}

/// Rows in panels.
#[derive(Debug)]
struct Matrix {
    rows: usize,
    columns: usize,
    panels: Vec<RwLock<Vec<f32>>>,
}

/// A matrix that nobody may change now.
pub(super) struct Open<'a> {
    columns: usize,
    panels: Vec<RwLockReadGuard<'a, Vec<f32>>>,
}

impl Open<'_> {
    #[inline(always)]
    pub(super) fn row(&self, row: usize) -> &[f32] {
        let start = row % ROWS * self.columns;
        &self.panels[row / ROWS][start..start + self.columns]
    }
}

impl Matrix {
    fn new(rows: usize, columns: usize, element: impl Fn(usize, usize) -> f32) -> Self {
        let panel = |first: usize| {
            let rows = first..(first + ROWS).min(rows);
            let elements = rows.flat_map(|row| (0..columns).map(move |column| (row, column)));
            RwLock::new(elements.map(|(row, column)| element(row, column)).collect())
        };
        Self {
            rows,
            columns,
            panels: (0..rows).step_by(ROWS).map(panel).collect(),
        }
    }

    fn open(&self) -> Open<'_> {
        Open {
            columns: self.columns,
            panels: self.panels.iter().map(read).collect(),
        }
    }

    /// A panel, to be changed, and the number of its first row.
    fn write(&self, panel: usize) -> (RwLockWriteGuard<'_, Vec<f32>>, usize) {
        let elements = self.panels[panel].write();
        (
            elements.unwrap_or_else(PoisonError::into_inner),
            panel * ROWS,
        )
    }
}

/// A layer.
#[derive(Debug)]
pub(super) struct Layer {
    by_input: Matrix,
    by_output: Matrix,
}

/// A layer to go through.
pub(super) struct OpenLayer<'a> {
    by_input: Open<'a>,
    by_output: Open<'a>,
}

/// The weight at the start: uniform, smaller the more inputs there are.
pub(super) fn first_weight(
    sequence: u64,
    (inputs, outputs): (usize, usize),
    at: (usize, usize),
) -> f32 {
    let place = (at.0 * outputs + at.1) as u64;
    // √(3 ÷ inputs) ÷ the root mean square of what `small` gives.
    let scale = libm::sqrtf(3.0 / inputs as f32) * 85.0;
    small(hash(sequence, place)) * scale
}

impl Layer {
    pub(super) fn new(size: (usize, usize), sequence: u64) -> Self {
        Self {
            by_input: Matrix::new(size.0, size.1, |i, o| first_weight(sequence, size, (i, o))),
            by_output: Matrix::new(size.1, size.0, |o, i| first_weight(sequence, size, (i, o))),
        }
    }

    pub(super) fn open(&self) -> OpenLayer<'_> {
        OpenLayer {
            by_input: self.by_input.open(),
            by_output: self.by_output.open(),
        }
    }

    /// Panels to learn, and panels to turn.
    pub(super) fn panels(&self) -> (usize, usize) {
        (self.by_input.panels.len(), self.by_output.panels.len())
    }

    /// Moves a panel's weights down the gradient of all samples, the first one first.
    #[inline(always)]
    pub(super) fn learn(
        &self,
        layer: usize,
        panel: usize,
        samples: &[RwLockReadGuard<'_, Sample>],
    ) {
        let columns = self.by_input.columns;
        let mut gradient = vec![0.0; columns];
        let (mut panel, first) = self.by_input.write(panel);
        for (row, input) in panel.chunks_exact_mut(columns).zip(first..) {
            gradient.fill(0.0);
            for sample in samples {
                let factor = sample.inputs[layer][input];
                add_scaled(&mut gradient, factor, &sample.deltas[layer]);
            }
            add_scaled(row, -RATE, &gradient);
        }
    }

    /// Makes a panel by output what the weights by input are.
    #[inline(always)]
    pub(super) fn turn(&self, panel: usize) {
        let by_input = self.by_input.open();
        let (mut panel, first) = self.by_output.write(panel);
        for (row, output) in panel.chunks_exact_mut(self.by_output.columns).zip(first..) {
            for (weight, input) in row.iter_mut().zip(0..) {
                *weight = by_input.row(input)[output];
            }
        }
    }

    /// All weights by input, and whether those by output are the same.
    pub(super) fn weights(&self) -> (Vec<f32>, bool) {
        let open = self.open();
        let (inputs, outputs) = (self.by_input.rows, self.by_input.columns);
        let weights = (0..inputs)
            .flat_map(|input| open.by_input.row(input).to_vec())
            .collect();
        let is_turned = (0..inputs).all(|input| {
            let row = open.by_input.row(input);
            (0..outputs)
                .all(|output| open.by_output.row(output)[input].to_bits() == row[output].to_bits())
        });
        (weights, is_turned)
    }

    /// Changes one weight.
    pub(super) fn spoil(&self) {
        self.by_input.write(0).0[0] += 1e-3;
    }
}

impl OpenLayer<'_> {
    /// Outputs of these inputs, before any activation.
    #[inline(always)]
    pub(super) fn forward(&self, inputs: &[f32], outputs: &mut [f32]) {
        outputs.fill(0.0);
        for (input, index) in inputs.iter().zip(0..) {
            add_scaled(outputs, *input, self.by_input.row(index));
        }
    }

    /// Gradient of the inputs from that of the outputs.
    #[inline(always)]
    pub(super) fn backward(&self, outputs: &[f32], inputs: &mut [f32]) {
        inputs.fill(0.0);
        for (output, index) in outputs.iter().zip(0..) {
            add_scaled(inputs, *output, self.by_output.row(index));
        }
    }
}
