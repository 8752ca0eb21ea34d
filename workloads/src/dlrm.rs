//! Training of a deep-learning recommendation model (Naumov et al., arXiv 1906.00091): embeddings
//! of categorical features, looked up by Zipf's law and added up; a bottom network for dense
//! features; dot products of all pairs of vectors; a top network that gives the probability of a
//! click; the gradient of the mean loss of a batch, and a step of gradient descent.
//!
//! A step has three phases with a barrier after each. Samples: each thread takes its samples
//! forward and back. Learning: embeddings by table and weights by panel, each by one thread, adding
//! up the samples' gradients in their order. Turning: the weights' second copy, by output. So every
//! sum has one order, and any number of threads gives the same bits.

mod shape;

mod math;

mod input;

mod embedding;

mod sample;

mod layer;

mod reference;

use crate::program::{Checked, Failure, Program, Workload, execute};
use crate::random::{hash, key};
use crate::{Digest, Member, Setting, team, wide};
use embedding::{Embedding, ROW_BYTES, is_same};
use input::{INPUT_BYTES, Inputs};
use layer::{Layer, read};
use reference::Reference;
use sample::{Desk, Sample};
use shape::{BATCH, LAYERS, LOOKUPS, SIZES, TABLES};
use std::ops::Range;
use std::sync::{Mutex, PoisonError, RwLock};
use units::Bytes;

/// Its entry in the list.
pub const PROGRAM: Program = Program {
    name: "dlrm",
    suite: "DLRM",
    what: "training of a deep-learning recommendation model",
    check: "losses, weights and embeddings are to the bit those of a plain serial training",
    work_unit: "samples",
    footprint: Bytes::new(12_350_000_000),
    small_work: 576,
    paper_work: 576,
    run: execute::<Dlrm>,
};

/// Networks, samples of a batch with their gradients, and their latches, rounded up.
const BYTES_OF_NETWORKS: u64 = 2 << 20;

/// Of so many rows one is looked at whether it is still as at the start if no sample wanted it.
const LOOKED_AT: usize = 61;

/// The model and what it is trained with.
#[derive(Debug)]
pub struct Dlrm {
    inputs: Inputs,
    rows: u64,
    sequence: u64,
    tables: Vec<Embedding>,
    layers: Vec<Layer>,
    samples: Vec<RwLock<Sample>>,
    losses: Mutex<Vec<(usize, f32)>>,
}

/// The sequence that a table's or a layer's first values come from.
fn part_of(sequence: u64, part: usize) -> u64 {
    hash(sequence, part as u64)
}

/// One member's part of a step.
struct Step<'a> {
    model: &'a Dlrm,
    member: &'a Member<'a>,
    batch: Range<usize>,
}

/// A step's first phase.
struct Pass<'a>(&'a Step<'a>, &'a mut Desk);

/// Its second phase.
struct Learn<'a>(&'a Step<'a>);

/// Its third phase.
struct Turn<'a>(&'a Step<'a>);

impl wide::Work for Pass<'_> {
    type Output = Vec<(usize, f32)>;
    #[inline(always)]
    fn run(self) -> Self::Output {
        let Self(
            Step {
                model,
                member,
                batch,
            },
            desk,
        ) = self;
        let tables: Vec<_> = model.tables.iter().map(Embedding::open).collect();
        let layers: Vec<_> = model.layers.iter().map(Layer::open).collect();
        let share = 1.0 / batch.len() as f32;
        let mut losses = Vec::with_capacity(BATCH);
        for place in member.part(batch.len()) {
            let index = batch.start + place;
            let mut sample = model.samples[place]
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            sample.pass(desk, (index, &model.inputs), (&tables, &layers), share);
            losses.push((index, sample.loss()));
        }
        losses
    }
}

impl wide::Work for Learn<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Step {
            model,
            member,
            batch,
        } = self.0;
        let samples: Vec<_> = model.samples[..batch.len()].iter().map(read).collect();
        let mut wanted = Vec::with_capacity(BATCH * LOOKUPS);
        for (table, index) in model.tables.iter().zip(0..) {
            if index % member.threads() == member.index() {
                wanted.clear();
                for (sample, place) in batch.clone().zip(0..) {
                    let rows = model.inputs.lookups(sample, index).iter();
                    wanted.extend(rows.map(|row| (*row, place)));
                }
                table.learn(index, &mut wanted, &samples);
            }
        }
        for (layer, panel, number) in model.panels(|layer| layer.panels().0) {
            // From the last member on: the first ones have one more table.
            if number % member.threads() == member.threads() - 1 - member.index() {
                model.layers[layer].learn(layer, panel, &samples);
            }
        }
    }
}

impl wide::Work for Turn<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Step { model, member, .. } = self.0;
        for (layer, panel, number) in model.panels(|layer| layer.panels().1) {
            if number % member.threads() == member.index() {
                model.layers[layer].turn(panel);
            }
        }
    }
}

impl Dlrm {
    /// Layers with their panels, numbered.
    fn panels(
        &self,
        count: impl Fn(&Layer) -> usize,
    ) -> impl Iterator<Item = (usize, usize, usize)> {
        let panels = self
            .layers
            .iter()
            .zip(0..)
            .flat_map(move |(layer, index)| (0..count(layer)).map(move |panel| (index, panel)));
        panels
            .zip(0..)
            .map(|((layer, panel), number)| (layer, panel, number))
    }

    fn train(&self, member: &Member<'_>) {
        let mut desk = Desk::new();
        for first in (0..self.inputs.count()).step_by(BATCH) {
            let step = Step {
                model: self,
                member,
                batch: first..(first + BATCH).min(self.inputs.count()),
            };
            let mut losses = wide::run(Pass(&step, &mut desk));
            member.barrier();
            wide::run(Learn(&step));
            member.barrier();
            wide::run(Turn(&step));
            self.losses
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .append(&mut losses);
            member.barrier();
        }
    }

    fn check_losses(&self, reference: &Reference) -> Result<Vec<f32>, Failure> {
        let mut losses = self
            .losses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        losses.sort_unstable_by_key(|(index, _)| *index);
        let losses: Vec<_> = losses.into_iter().map(|(_, loss)| loss).collect();
        if !is_same(&losses, &reference.losses) {
            return Err(Failure::wrong(
                "dlrm: the samples' losses are not those of a serial training.",
            ));
        }
        Ok(losses)
    }

    fn check_weights(&self, reference: &Reference) -> Result<Digest, Failure> {
        let mut digest = Digest::default();
        for (layer, index) in self.layers.iter().zip(0..) {
            let (weights, is_turned) = layer.weights();
            if !is_turned || !is_same(&weights, &reference.weights[index].concat()) {
                return Err(Failure::wrong(format!(
                    "dlrm: layer {index}'s weights are not those of a serial training."
                )));
            }
            digest = weights
                .iter()
                .fold(digest, |digest, x| digest.with(x.to_bits().into()));
        }
        Ok(digest)
    }

    fn check_rows(&self, reference: &Reference) -> Result<Digest, Failure> {
        let mut digest = Digest::default();
        for ((table, row), expected) in &reference.rows {
            let open = self.tables[*table].open();
            if !is_same(open.row(*row), expected) {
                return Err(Failure::wrong(format!(
                    "dlrm: row {row} of table {table} is not that of a serial training."
                )));
            }
            digest = expected
                .iter()
                .fold(digest, |digest, x| digest.with(x.to_bits().into()));
        }
        for (table, index) in self.tables.iter().zip(0..) {
            let others = (0..self.rows).step_by(LOOKED_AT);
            let mut unwanted =
                others.filter(|row| !reference.rows.contains_key(&(index, *row as u32)));
            if let Some(row) = unwanted.find(|row| !table.is_first(*row)) {
                return Err(Failure::wrong(format!(
                    "dlrm: row {row} of table {index} changed, which no sample looked up."
                )));
            }
        }
        Ok(digest)
    }
}

impl Workload for Dlrm {
    fn prepare(setting: &Setting) -> Result<Self, Failure> {
        let count = setting.work.get();
        let others = BYTES_OF_NETWORKS.saturating_add(count.saturating_mul(INPUT_BYTES));
        let rest = setting.footprint.get().saturating_sub(others);
        let rows = rest / (TABLES as u64 * ROW_BYTES);
        if !(2..1 << 32).contains(&rows) {
            return Err(Failure::refused(format!(
                "dlrm: {} hold tables of {rows} rows beside {} for samples and networks; give a \
                 --footprint for 2 rows or more, but less than 2^32.",
                setting.footprint,
                Bytes::new(others),
            )));
        }
        let sequence = key(setting.seed, "model");
        let tables = team::combine(
            TABLES,
            |part| {
                part.map(|table| Embedding::new(rows, part_of(sequence, table)))
                    .collect()
            },
            |mut before: Vec<_>, mut after| {
                before.append(&mut after);
                before
            },
        );
        let layer = |index| Layer::new(SIZES[index], part_of(!sequence, index));
        Ok(Self {
            inputs: Inputs::new(count as usize, rows, key(setting.seed, "samples")),
            rows,
            sequence,
            tables,
            layers: (0..LAYERS).map(layer).collect(),
            samples: (0..BATCH).map(|_| RwLock::new(Sample::new())).collect(),
            losses: Mutex::default(),
        })
    }

    fn region(&self, member: &Member<'_>) {
        self.train(member);
    }

    fn spoil(&mut self) {
        self.layers[0].spoil();
    }

    fn check(self, _setting: &Setting) -> Result<Checked, Failure> {
        let mut reference = Reference::new(
            std::array::from_fn(|layer| part_of(!self.sequence, layer)),
            std::array::from_fn(|table| part_of(self.sequence, table)),
        );
        reference.train(&self.inputs);
        let losses = self.check_losses(&reference)?;
        let (weights, rows) = (
            self.check_weights(&reference)?,
            self.check_rows(&reference)?,
        );
        let mean = losses.iter().sum::<f32>() / losses.len() as f32;
        Ok(Checked {
            said: format!(
                "{} samples with mean loss {mean:.4}; weights and {} of {} embeddings are those of a \
                 serial training",
                losses.len(),
                reference.rows.len(),
                self.rows * TABLES as u64,
            ),
            digest: weights.with(rows.get()).with(mean.to_bits().into()),
        })
    }
}
