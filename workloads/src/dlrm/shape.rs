//! Sizes of the model.

/// Tables of embeddings, one for each categorical feature.
pub(super) const TABLES: usize = 24;
/// Elements of an embedding: four lines.
pub(super) const WIDTH: usize = 64;
/// Rows that a sample looks up in each table, to be added up.
pub(super) const LOOKUPS: usize = 4;
/// Numerical features.
pub(super) const DENSE: usize = 13;
/// Vectors that interact: the bottom network's and one of each table.
pub(super) const VECTORS: usize = TABLES + 1;
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
    (WIDTH + PAIRS + 1, 64),
    (64 + 1, 1),
];
/// Samples of a step.
pub(super) const BATCH: usize = 48;
/// Learning rate of the gradient of a step's mean loss.
pub(super) const RATE: f32 = 0.1;
