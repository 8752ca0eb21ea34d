//! Sizes of the model.

/// Tables of embeddings, one for each categorical feature.
pub(super) const TABLES: usize = 24;
/// Elements of an embedding: four lines.
pub(super) const WIDTH: usize = 64;
/// An embedding, and everything of its size.
pub(super) type Vector = [f32; WIDTH];
/// Rows that a sample looks up in each table, to be added up.
pub(super) const LOOKUPS: usize = 8;
/// Numerical features.
pub(super) const DENSE: usize = 13;
/// Vectors that interact: the bottom network's and one of each table.
pub(super) const VECTORS: usize = TABLES + 1;
/// Their number, rounded up to whole vector registers.
pub(super) const PADDED: usize = VECTORS.next_multiple_of(8);
/// Pairs of them.
pub(super) const PAIRS: usize = VECTORS * (VECTORS - 1) / 2;
/// Layers: two of the bottom network, two of the top one.
pub(super) const LAYERS: usize = 4;
/// The first layer of the top network.
pub(super) const TOP: usize = 2;
/// Inputs of each layer, the constant 1 that carries the bias among them, and outputs.
pub(super) const SIZES: [(usize, usize); LAYERS] = [
    (DENSE + 1, WIDTH),
    (WIDTH + 1, WIDTH),
    (WIDTH + PAIRS + 1, 32),
    (32 + 1, 1),
];
/// Samples of a step.
pub(super) const BATCH: usize = 48;
/// Learning rate of the gradient of a step's mean loss.
pub(super) const RATE: f32 = 0.1;
