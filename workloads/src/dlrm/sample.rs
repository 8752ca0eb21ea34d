//! One sample on its way through the model and back.

use super::embedding::Open;
use super::input::Inputs;
use super::layer::OpenLayer;
use super::math::{add_scaled, cross_entropy, dot, rectify, rectify_gradient, sigmoid};
use super::shape::{DENSE, LAYERS, PAIRS, SIZES, TABLES, TOP, VECTORS, WIDTH};

/// A sample's values and gradients, kept until weights and embeddings have learnt from them.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// What goes into each layer; the last element is 1.
    pub(super) inputs: [Vec<f32>; LAYERS],
    /// Gradient of the loss by each layer's outputs, before activation.
    pub(super) deltas: [Vec<f32>; LAYERS],
    /// The vectors that interact, and the gradients by them.
    vectors: Vec<f32>,
    gradients: Vec<f32>,
    /// Gradient by a layer's inputs.
    back: Vec<f32>,
    loss: f32,
}

fn vector(vectors: &[f32], index: usize) -> &[f32] {
    &vectors[index * WIDTH..(index + 1) * WIDTH]
}

fn vector_mut(vectors: &mut [f32], index: usize) -> &mut [f32] {
    &mut vectors[index * WIDTH..(index + 1) * WIDTH]
}

impl Sample {
    pub(super) fn new() -> Self {
        let inputs = SIZES.map(|(inputs, _)| {
            let mut values = vec![0.0; inputs];
            values[inputs - 1] = 1.0;
            values
        });
        let most = SIZES
            .iter()
            .map(|(inputs, _)| *inputs)
            .max()
            .expect("layers");
        Self {
            inputs,
            deltas: SIZES.map(|(_, outputs)| vec![0.0; outputs]),
            vectors: vec![0.0; VECTORS * WIDTH],
            gradients: vec![0.0; VECTORS * WIDTH],
            back: vec![0.0; most],
            loss: 0.0,
        }
    }

    /// The gradient by what was looked up in a table.
    #[inline(always)]
    pub(super) fn gradient(&self, table: usize) -> &[f32] {
        vector(&self.gradients, table + 1)
    }

    pub(super) fn loss(&self) -> f32 {
        self.loss
    }

    /// Forward and back; `share` is the sample's share in the mean loss.
    #[inline(always)]
    pub(super) fn pass(
        &mut self,
        index: usize,
        given: &Inputs,
        tables: &[Open<'_>],
        layers: &[OpenLayer<'_>],
        share: f32,
    ) {
        self.inputs[0][..DENSE].copy_from_slice(given.dense(index));
        self.pool(index, given, tables);
        self.forward(layers);
        let label = given.label(index);
        let probability = sigmoid(self.back[0]);
        self.loss = cross_entropy(probability, label);
        self.deltas[LAYERS - 1][0] = (probability - label) * share;
        self.backward(layers);
    }

    /// Adds up what is looked up in each table.
    #[inline(always)]
    fn pool(&mut self, index: usize, given: &Inputs, tables: &[Open<'_>]) {
        for (open, table) in tables.iter().zip(0..TABLES) {
            let sum = vector_mut(&mut self.vectors, table + 1);
            sum.fill(0.0);
            for row in given.lookups(index, table) {
                add_scaled(sum, 1.0, open.row(*row));
            }
        }
    }

    /// Leaves the logit in `back`.
    #[inline(always)]
    fn forward(&mut self, layers: &[OpenLayer<'_>]) {
        let [first, second, third, fourth] = &mut self.inputs;
        layers[0].forward(first, &mut second[..WIDTH]);
        rectify(&mut second[..WIDTH]);
        let dense = &mut self.vectors[..WIDTH];
        layers[1].forward(second, dense);
        rectify(dense);
        third[..WIDTH].copy_from_slice(dense);
        let mut pair = WIDTH;
        for left in 1..VECTORS {
            for right in 0..left {
                third[pair] = dot(vector(&self.vectors, left), vector(&self.vectors, right));
                pair += 1;
            }
        }
        let outputs = SIZES[TOP].1;
        layers[TOP].forward(third, &mut fourth[..outputs]);
        rectify(&mut fourth[..outputs]);
        layers[TOP + 1].forward(fourth, &mut self.back[..1]);
    }

    #[inline(always)]
    fn backward(&mut self, layers: &[OpenLayer<'_>]) {
        let [first, second, third, fourth] = &mut self.deltas;
        let back = &mut self.back;
        layers[TOP + 1].backward(fourth, &mut back[..SIZES[TOP + 1].0]);
        third.copy_from_slice(&back[..SIZES[TOP].1]);
        rectify_gradient(third, &self.inputs[TOP + 1]);
        layers[TOP].backward(third, &mut back[..SIZES[TOP].0]);
        interact_back(
            &self.vectors,
            &back[WIDTH..WIDTH + PAIRS],
            &mut self.gradients,
        );
        second.copy_from_slice(&back[..WIDTH]);
        add_scaled(second, 1.0, vector(&self.gradients, 0));
        rectify_gradient(second, vector(&self.vectors, 0));
        layers[1].backward(second, &mut back[..SIZES[1].0]);
        first.copy_from_slice(&back[..WIDTH]);
        rectify_gradient(first, &self.inputs[1]);
    }
}

/// Gradients by the vectors from those by their dot products.
#[inline(always)]
fn interact_back(vectors: &[f32], pairs: &[f32], gradients: &mut [f32]) {
    gradients.fill(0.0);
    let mut pair = 0;
    for left in 1..VECTORS {
        for right in 0..left {
            let factor = pairs[pair];
            add_scaled(vector_mut(gradients, left), factor, vector(vectors, right));
            add_scaled(vector_mut(gradients, right), factor, vector(vectors, left));
            pair += 1;
        }
    }
}
