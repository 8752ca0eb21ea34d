//! One sample on its way through the model and back.

use super::embedding::Open;
use super::input::Inputs;
use super::layer::OpenLayer;
use super::math::{add_row, add_scaled, cross_entropy, rectify, rectify_gradient, sigmoid};
use super::shape::{DENSE, LAYERS, PADDED, PAIRS, SIZES, TABLES, TOP, VECTORS, Vector, WIDTH};

/// A sample's values and gradients, kept until weights and embeddings have learnt from them.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// What goes into each layer; the last element is 1.
    pub(super) inputs: [Vec<f32>; LAYERS],
    /// Gradient of the loss by each layer's outputs, before activation.
    pub(super) deltas: [Vec<f32>; LAYERS],
    /// Gradients by the vectors that interact.
    gradients: [Vector; VECTORS],
    loss: f32,
}

/// What a thread needs for one sample after the other.
#[derive(Debug)]
pub(super) struct Desk {
    /// The vectors that interact.
    vectors: [Vector; VECTORS],
    /// Their first elements, then their second ones …
    turned: [[f32; PADDED]; WIDTH],
    /// Their dot products, by rows.
    products: [[f32; PADDED]; VECTORS],
    /// A layer's outputs, or the gradient by its inputs.
    back: Vec<f32>,
}

impl Desk {
    pub(super) fn new() -> Self {
        let most = SIZES
            .iter()
            .map(|(inputs, _)| *inputs)
            .max()
            .expect("layers");
        Self {
            vectors: [[0.0; WIDTH]; VECTORS],
            turned: [[0.0; PADDED]; WIDTH],
            products: [[0.0; PADDED]; VECTORS],
            back: vec![0.0; most],
        }
    }

    /// Adds up what is looked up in each table.
    #[inline(always)]
    fn pool(&mut self, index: usize, given: &Inputs, tables: &[Open<'_>]) {
        for (open, table) in tables.iter().zip(0..TABLES) {
            let sum = &mut self.vectors[table + 1];
            sum.fill(0.0);
            for row in given.lookups(index, table) {
                add_row(sum, 1.0, open.row(*row));
            }
        }
    }

    /// Dot products of all pairs: the product of the vectors as a matrix with itself turned, one
    /// element of all vectors after the other.
    #[inline(always)]
    fn interact(&mut self, pairs: &mut [f32]) {
        for (elements, place) in self.turned.iter_mut().zip(0..) {
            for (element, vector) in elements.iter_mut().zip(&self.vectors) {
                *element = vector[place];
            }
        }
        self.products.as_flattened_mut().fill(0.0);
        for elements in &self.turned {
            for (row, factor) in self.products.iter_mut().zip(elements).skip(1) {
                add_row(row, *factor, elements);
            }
        }
        let mut pair = 0;
        for (row, left) in self.products.iter().zip(0..) {
            pairs[pair..pair + left].copy_from_slice(&row[..left]);
            pair += left;
        }
    }
}

impl Sample {
    pub(super) fn new() -> Self {
        let inputs = SIZES.map(|(inputs, _)| {
            let mut values = vec![0.0; inputs];
            values[inputs - 1] = 1.0;
            values
        });
        Self {
            inputs,
            deltas: SIZES.map(|(_, outputs)| vec![0.0; outputs]),
            gradients: [[0.0; WIDTH]; VECTORS],
            loss: 0.0,
        }
    }

    /// The gradient by what was looked up in a table.
    #[inline(always)]
    pub(super) fn gradient(&self, table: usize) -> &Vector {
        &self.gradients[table + 1]
    }

    pub(super) fn loss(&self) -> f32 {
        self.loss
    }

    /// Forward and back; `share` is the sample's share in the mean loss.
    #[inline(always)]
    pub(super) fn pass(
        &mut self,
        desk: &mut Desk,
        (index, given): (usize, &Inputs),
        (tables, layers): (&[Open<'_>], &[OpenLayer<'_>]),
        share: f32,
    ) {
        self.inputs[0][..DENSE].copy_from_slice(given.dense(index));
        desk.pool(index, given, tables);
        let probability = sigmoid(self.forward(desk, layers));
        let label = given.label(index);
        self.loss = cross_entropy(probability, label);
        self.deltas[LAYERS - 1][0] = (probability - label) * share;
        self.backward(desk, layers);
    }

    /// The logit.
    #[inline(always)]
    fn forward(&mut self, desk: &mut Desk, layers: &[OpenLayer<'_>]) -> f32 {
        let [first, second, third, fourth] = &mut self.inputs;
        layers[0].forward(first, &mut second[..WIDTH]);
        rectify(&mut second[..WIDTH]);
        let dense = &mut desk.vectors[0];
        layers[1].forward(second, dense);
        rectify(dense);
        third[..WIDTH].copy_from_slice(dense);
        desk.interact(&mut third[WIDTH..WIDTH + PAIRS]);
        let outputs = SIZES[TOP].1;
        layers[TOP].forward(third, &mut fourth[..outputs]);
        rectify(&mut fourth[..outputs]);
        let logit = &mut desk.back[..1];
        layers[TOP + 1].forward(fourth, logit);
        logit[0]
    }

    #[inline(always)]
    fn backward(&mut self, desk: &mut Desk, layers: &[OpenLayer<'_>]) {
        let [first, second, third, fourth] = &mut self.deltas;
        let back = &mut desk.back;
        layers[TOP + 1].backward(fourth, &mut back[..SIZES[TOP + 1].0]);
        third.copy_from_slice(&back[..SIZES[TOP].1]);
        rectify_gradient(third, &self.inputs[TOP + 1]);
        layers[TOP].backward(third, &mut back[..SIZES[TOP].0]);
        interact_back(
            &desk.vectors,
            &back[WIDTH..WIDTH + PAIRS],
            &mut self.gradients,
        );
        second.copy_from_slice(&back[..WIDTH]);
        add_scaled(second, 1.0, &self.gradients[0]);
        rectify_gradient(second, &desk.vectors[0]);
        layers[1].backward(second, &mut back[..SIZES[1].0]);
        first.copy_from_slice(&back[..WIDTH]);
        rectify_gradient(first, &self.inputs[1]);
    }
}

/// Gradients by the vectors from those by their dot products.
#[inline(always)]
fn interact_back(vectors: &[Vector; VECTORS], pairs: &[f32], gradients: &mut [Vector; VECTORS]) {
    gradients.as_flattened_mut().fill(0.0);
    let mut pair = 0;
    for left in 1..VECTORS {
        for right in 0..left {
            let factor = pairs[pair];
            add_row(&mut gradients[left], factor, &vectors[right]);
            add_row(&mut gradients[right], factor, &vectors[left]);
            pair += 1;
        }
    }
}
