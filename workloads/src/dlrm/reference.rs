//! The same training by one thread in the plainest way, to compare with: sums element by element,
//! embeddings in a map that begins empty.

use super::embedding::fill_row;
use super::input::Inputs;
use super::layer::first_weight;
use super::math::{cross_entropy, sigmoid};
use super::shape::{BATCH, LAYERS, LOOKUPS, RATE, SIZES, TABLES, TOP, VECTORS, Vector, WIDTH};
use std::collections::BTreeMap;

/// Model and losses after training.
pub(super) struct Reference {
    sequences: [u64; TABLES],
    /// Weights by layer, input, output.
    pub(super) weights: [Vec<Vec<f32>>; LAYERS],
    /// Rows that were ever looked up, by table and row.
    pub(super) rows: BTreeMap<(usize, u32), Vector>,
    /// Loss of each sample.
    pub(super) losses: Vec<f32>,
}

/// What a sample leaves to learn from.
struct Passed {
    inputs: [Vec<f32>; LAYERS],
    deltas: [Vec<f32>; LAYERS],
    gradients: [Vector; VECTORS],
}

fn relu(x: f32) -> f32 {
    if x > 0.0 { x } else { 0.0 }
}

fn dot(a: &Vector, b: &Vector) -> f32 {
    a.iter().zip(b).fold(0.0, |sum, (a, b)| sum + a * b)
}

impl Reference {
    pub(super) fn new(layers: [u64; LAYERS], sequences: [u64; TABLES]) -> Self {
        let weights = std::array::from_fn(|layer| {
            let (inputs, outputs) = SIZES[layer];
            let weight = |i, o| first_weight(layers[layer], SIZES[layer], (i, o));
            (0..inputs)
                .map(|i| (0..outputs).map(|o| weight(i, o)).collect())
                .collect()
        });
        Self {
            sequences,
            weights,
            rows: BTreeMap::new(),
            losses: Vec::new(),
        }
    }

    pub(super) fn train(&mut self, given: &Inputs) {
        for first in (0..given.count()).step_by(BATCH) {
            let batch = first..(first + BATCH).min(given.count());
            let share = 1.0 / batch.len() as f32;
            let passed: Vec<_> = batch
                .clone()
                .map(|sample| self.pass(sample, given, share))
                .collect();
            self.learn_weights(&passed);
            self.learn_rows(batch.start, given, &passed);
        }
    }

    fn row(&mut self, table: usize, row: u32) -> &mut Vector {
        let sequence = self.sequences[table];
        self.rows.entry((table, row)).or_insert_with(|| {
            let mut first = [0.0; WIDTH];
            fill_row(&mut first, sequence, row.into());
            first
        })
    }

    fn outputs(&self, layer: usize, inputs: &[f32]) -> Vec<f32> {
        let weights = &self.weights[layer];
        let sum = |o| {
            inputs
                .iter()
                .zip(weights)
                .fold(0.0, |sum, (x, row)| sum + x * row[o])
        };
        (0..SIZES[layer].1).map(sum).collect()
    }

    fn input_gradient(&self, layer: usize, deltas: &[f32]) -> Vec<f32> {
        let rows = self.weights[layer].iter();
        let sum = |row: &Vec<f32>| row.iter().zip(deltas).fold(0.0, |sum, (w, d)| sum + d * w);
        rows.map(sum).collect()
    }

    fn pass(&mut self, sample: usize, given: &Inputs, share: f32) -> Passed {
        let mut vectors = [[0.0; WIDTH]; VECTORS];
        for table in 0..TABLES {
            for row in given.lookups(sample, table) {
                let row = *self.row(table, *row);
                for d in 0..WIDTH {
                    vectors[table + 1][d] += row[d];
                }
            }
        }
        let with_bias = |mut values: Vec<f32>| {
            values.push(1.0);
            values
        };
        let hidden = |values: Vec<f32>| values.into_iter().map(relu).collect::<Vec<_>>();
        let first = with_bias(given.dense(sample).to_vec());
        let second = with_bias(hidden(self.outputs(0, &first)));
        let dense = hidden(self.outputs(1, &second));
        vectors[0].copy_from_slice(&dense);
        let pairs = (1..VECTORS).flat_map(|left| (0..left).map(move |right| (left, right)));
        let products = pairs.map(|(left, right)| dot(&vectors[left], &vectors[right]));
        let third = with_bias(dense.iter().copied().chain(products).collect());
        let fourth = with_bias(hidden(self.outputs(TOP, &third)));
        let probability = sigmoid(self.outputs(TOP + 1, &fourth)[0]);
        let label = given.label(sample);
        self.losses.push(cross_entropy(probability, label));
        self.back(
            [first, second, third, fourth],
            &vectors,
            (probability - label) * share,
        )
    }

    fn back(&self, inputs: [Vec<f32>; LAYERS], vectors: &[Vector; VECTORS], delta: f32) -> Passed {
        let masked = |gradient: &[f32], values: &[f32]| -> Vec<f32> {
            let pairs = gradient.iter().zip(values);
            pairs
                .map(|(g, x)| if *x > 0.0 { *g } else { 0.0 })
                .collect()
        };
        let fourth = vec![delta];
        let third = masked(
            &self.input_gradient(TOP + 1, &fourth)[..SIZES[TOP].1],
            &inputs[TOP + 1],
        );
        let back = self.input_gradient(TOP, &third);
        let mut gradients = [[0.0; WIDTH]; VECTORS];
        let mut pair = WIDTH;
        for left in 1..VECTORS {
            for right in 0..left {
                for d in 0..WIDTH {
                    gradients[left][d] += back[pair] * vectors[right][d];
                    gradients[right][d] += back[pair] * vectors[left][d];
                }
                pair += 1;
            }
        }
        let dense: Vec<_> = (0..WIDTH).map(|d| back[d] + gradients[0][d]).collect();
        let second = masked(&dense, &vectors[0]);
        let first = masked(&self.input_gradient(1, &second)[..WIDTH], &inputs[1]);
        Passed {
            inputs,
            deltas: [first, second, third, fourth],
            gradients,
        }
    }

    fn learn_weights(&mut self, passed: &[Passed]) {
        for layer in 0..LAYERS {
            for (row, i) in self.weights[layer].iter_mut().zip(0..) {
                for (weight, o) in row.iter_mut().zip(0..) {
                    let gradient = passed.iter().fold(0.0, |sum, sample| {
                        sum + sample.inputs[layer][i] * sample.deltas[layer][o]
                    });
                    *weight += -RATE * gradient;
                }
            }
        }
    }

    fn learn_rows(&mut self, first: usize, given: &Inputs, passed: &[Passed]) {
        let mut sums = BTreeMap::<_, Vector>::new();
        for (sample, index) in passed.iter().zip(first..) {
            for place in 0..TABLES * LOOKUPS {
                let (table, lookup) = (place / LOOKUPS, place % LOOKUPS);
                let row = given.lookups(index, table)[lookup];
                let sum = sums.entry((table, row)).or_insert([0.0; WIDTH]);
                for (sum, part) in sum.iter_mut().zip(&sample.gradients[table + 1]) {
                    *sum += part;
                }
            }
        }
        for ((table, row), sum) in sums {
            let row = self.row(table, row);
            for d in 0..WIDTH {
                row[d] += -RATE * sum[d];
            }
        }
    }
}
