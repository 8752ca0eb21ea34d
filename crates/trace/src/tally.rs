//! Whether the counts of a chunk are those of its columns.
//!
//! A checksum says that a file is as it was written, not that who wrote it was honest. So opening
//! a capture follows the blocks of each chunk once and compares what it finds with what the head of
//! the chunk says. Whoever reads on relies on it: no cursor runs out of a column, every address
//! lies on a listed page, and threads have as many instructions as the index tells.
//!
//! Cost: a table lookup and some additions for each block, the decoding of each address.

use crate::chunk::{ADDRESSES, RUNS, SURPRISES, SYNC, take_sync};
use crate::columns::Columns;
use crate::dictionary::{AccessKind, Dictionary, Variant};
use crate::error::Fault;
use crate::file::ChunkEntry;
use crate::predictor::{AddressPredictor, FlowPredictor};
use crate::template::{Holes, Templates};
use crate::translate::{PageIndex, Translator};
use crate::wire::{Wire, unzigzag};
use std::sync::Arc;

/// What one execution of a variant adds to the counts of its chunk.
#[derive(Clone, Copy, Default)]
struct Tally {
    instructions: u32,
    /// Where its addresses are predicted.
    first_slot: u32,
    accesses: u32,
    loads: u32,
    stores: u32,
    /// Address of its first instruction.
    pc: u64,
    /// Address of its last one, if that is a repeated string operation: where it runs again, its
    /// iterations count once together.
    repeats: Option<u64>,
    /// Its last piece accesses memory, so that it has no room for an event.
    ends_in_access: bool,
}

/// Checks the chunks of one capture.
pub(crate) struct Counts {
    tallies: Vec<Tally>,
    slots: usize,
    columns: Columns,
    flow: FlowPredictor,
    addresses: AddressPredictor,
    translator: Translator,
}

impl Counts {
    /// Checks of chunks that were recorded with these variants and pages.
    pub(crate) fn new(
        dictionary: &Dictionary,
        templates: &Templates,
        pages: &Arc<PageIndex>,
    ) -> Self {
        let tally = |(variant, shape): (&Variant, &crate::template::VariantShape)| {
            let last = &templates.pieces[shape.pieces.1 as usize - 1];
            Tally {
                ends_in_access: last.holes != Holes::None,
                pc: shape.pc,
                repeats: shape.repeats.then_some(shape.last_pc),
                ..tally(dictionary, variant)
            }
        };
        let variants = dictionary.variants.iter().zip(&templates.shapes);
        Self {
            tallies: variants.map(tally).collect(),
            slots: templates.slots,
            columns: Columns::default(),
            flow: FlowPredictor::new(),
            addresses: AddressPredictor::new(),
            translator: Translator::new(Arc::clone(pages)),
        }
    }

    /// Compares the head of a chunk of a file with its columns.
    ///
    /// # Errors
    /// They contradict each other.
    pub(crate) fn check(&mut self, file: &[u8], entry: &ChunkEntry) -> Result<(), Fault> {
        let summary = &entry.place.summary;
        let at = entry.place.offset;
        let damaged = Fault::Damaged {
            part: "instruction stream",
            at,
        };
        if !self.columns.load(file, entry) {
            return Err(damaged);
        }
        let places = self.events(summary.blocks, at)?;
        let found = self.follow(summary.blocks, &places).ok_or(damaged)?;
        let said = |what, said: u32, found: u64| Fault::Count {
            what,
            said: u64::from(said),
            found,
            at,
        };
        if u64::from(summary.loads) != found.loads {
            return Err(said("loads", summary.loads, found.loads));
        }
        if u64::from(summary.stores) != found.stores {
            return Err(said("stores", summary.stores, found.stores));
        }
        // What an iteration at the chunk's end counts is said by the chunk behind it.
        let least = found.instructions - u64::from(found.is_repeating);
        if !(least..=found.instructions).contains(&u64::from(summary.instructions)) {
            let said = said("instructions", summary.instructions, found.instructions);
            return Err(said);
        }
        Ok(())
    }

    /// The blocks that have an event, in order. At most one in a block.
    fn events(&self, blocks: u32, at: u64) -> Result<Vec<u32>, Fault> {
        let mut wire = Wire::new(&self.columns.bytes[SYNC], "instruction stream", at);
        let mut places: Vec<u32> = Vec::new();
        while wire.end().is_err() {
            let (gap, _) = take_sync(&mut wire)?;
            let place = match places.last() {
                Some(last) if gap > 0 => last.checked_add(gap),
                Some(_) => None,
                None => Some(gap),
            };
            let place = place.filter(|place| *place < blocks);
            places.push(place.ok_or_else(|| wire.damaged())?);
        }
        Ok(places)
    }

    /// Follows the blocks; `None` if the columns do not have exactly what they need.
    fn follow(&mut self, blocks: u32, events: &[u32]) -> Option<Sums> {
        self.flow.reset();
        self.addresses.reset(self.slots);
        let mut sums = Sums::default();
        let mut events = events.iter().copied().peekable();
        let mut foreseen = self.run()?;
        let mut repeated = None;
        for block in 0..blocks {
            let variant = match &mut foreseen {
                Some(0) => {
                    let variant = self.columns.varint(SURPRISES)?;
                    foreseen = self.run()?;
                    u32::try_from(variant).ok()?
                }
                Some(left) => {
                    *left -= 1;
                    self.flow.expected()
                }
                None => self.flow.expected(),
            };
            let tally = *self.tallies.get(variant as usize)?;
            self.flow.learn(variant);
            sums.add(&tally);
            for slot in (tally.first_slot as usize..).take(tally.accesses as usize) {
                self.address(slot)?;
            }
            sums.instructions -= u64::from(repeated == Some(tally.pc));
            repeated = tally.repeats;
            if events.next_if_eq(&block).is_some() && tally.ends_in_access {
                return None;
            }
        }
        sums.is_repeating = repeated.is_some();
        let mut columns = [RUNS, SURPRISES, ADDRESSES].into_iter();
        let is_read = columns.all(|column| self.columns.is_at_end(column));
        (is_read && foreseen.is_none()).then_some(sums)
    }

    /// Reads an address, which must lie on a listed page.
    fn address(&mut self, slot: usize) -> Option<()> {
        let residual = unzigzag(self.columns.varint(ADDRESSES)?);
        let address = self.addresses.address(slot, residual);
        self.translator.translate(address).map(drop)
    }

    /// How many variants come as predicted before the next surprise: `Some(None)` if all do.
    fn run(&mut self) -> Option<Option<u64>> {
        match self.columns.is_at_end(RUNS) {
            true => Some(None),
            false => self.columns.varint(RUNS).map(Some),
        }
    }
}

/// What was found in a chunk.
#[derive(Default)]
struct Sums {
    instructions: u64,
    loads: u64,
    stores: u64,
    /// The last block may run again.
    is_repeating: bool,
}

impl Sums {
    #[inline]
    fn add(&mut self, tally: &Tally) {
        self.instructions += u64::from(tally.instructions);
        self.loads += u64::from(tally.loads);
        self.stores += u64::from(tally.stores);
    }
}

fn tally(dictionary: &Dictionary, variant: &Variant) -> Tally {
    let first = variant.first_access as usize;
    let accesses = &dictionary.accesses[first..][..variant.access_count as usize];
    let without = |kind| accesses.iter().filter(move |access| access.kind != kind);
    let count =
        |kind| u32::try_from(without(kind).count()).expect("accesses are counted in 32 bits");
    Tally {
        instructions: dictionary.blocks[variant.block as usize].count,
        first_slot: variant.first_access,
        accesses: variant.access_count,
        loads: count(AccessKind::Store),
        stores: count(AccessKind::Load),
        ..Tally::default()
    }
}
