//! For each variant, the pieces it executes with holes for the addresses: decoding a block is
//! copying its pieces and filling the holes.

use crate::dictionary::{Access, AccessKind, Dictionary, Variant};
use crate::dynamic::DynInst;
use crate::error::Fault;
use crate::inst::{Inst, OpClass};

/// Where the addresses of a piece come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holes {
    None,
    Load,
    Store,
    /// A load from one address, then a store to another.
    LoadStore,
    /// A load and a store at the same address.
    Update,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct TemplateStep {
    pub(crate) dynamic: DynInst,
    pub(crate) holes: Holes,
}

/// What a cursor needs to know of a variant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VariantShape {
    /// First of its pieces, and one past the last.
    pub(crate) pieces: (u32, u32),
    /// First of its accesses, which is where its addresses are predicted.
    pub(crate) first_slot: u32,
    /// Address of its first instruction.
    pub(crate) pc: u64,
    /// Address after its last instruction.
    pub(crate) fallthrough: u64,
    /// Address of its last instruction.
    pub(crate) last_pc: u64,
    /// Whether that is a conditional branch.
    pub(crate) conditional: bool,
    /// Whether that is a repeated string operation.
    pub(crate) repeats: bool,
    /// Whether it is either, so that something depends on the next block.
    pub(crate) asks_next: bool,
}

impl VariantShape {
    /// Tells the `last` piece of this variant what depends on the next one.
    #[inline]
    pub(crate) fn settle(&self, next: &Self, last: &mut DynInst) {
        if self.conditional && next.pc != self.fallthrough {
            last.flags |= DynInst::TAKEN;
        }
        if self.repeats && next.pc == self.last_pc {
            last.flags &= !DynInst::COUNTS;
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Templates {
    pub(crate) pieces: Vec<TemplateStep>,
    pub(crate) shapes: Vec<VariantShape>,
    pub(crate) slots: usize,
}

/// Most pieces of all variants: ten times those of the largest programs. A variant has the pieces
/// of its whole block, so few bytes of a dictionary could ask for any number of them.
const MOST_PIECES: u64 = 1 << 24;

impl Templates {
    /// # Errors
    /// The variants are too many, or too long.
    pub(crate) fn new(dictionary: &Dictionary) -> Result<Self, Fault> {
        let pieces = |variant: &Variant| {
            let block = dictionary.blocks[variant.block as usize];
            u64::from(block.count) + u64::from(variant.access_count)
        };
        let asked: u64 = dictionary.variants.iter().map(pieces).sum();
        if asked > MOST_PIECES {
            let problem = format!(
                "has blocks of {asked} instructions and accesses in all their variants, more than \
                 the {MOST_PIECES} that are read; record a part of the program"
            );
            return Err(Fault::Unusable(problem));
        }
        let mut this = Self {
            slots: dictionary.accesses.len(),
            ..Self::default()
        };
        for variant in &dictionary.variants {
            this.add(dictionary, variant);
        }
        Ok(this)
    }

    fn add(&mut self, dictionary: &Dictionary, variant: &Variant) {
        let block = dictionary.blocks[variant.block as usize];
        let first = self.pieces.len() as u32;
        let accesses = variant.first_access..variant.first_access + variant.access_count;
        let mut accesses = &dictionary.accesses[accesses.start as usize..accesses.end as usize];
        for n in 0..block.count {
            let id = block.first + n;
            let own = accesses
                .iter()
                .take_while(|access| u32::from(access.inst) == n)
                .count();
            self.add_inst(&dictionary.insts[id as usize], id, &accesses[..own]);
            accesses = &accesses[own..];
        }
        let start = &dictionary.insts[block.first as usize];
        let last = &dictionary.insts[(block.first + block.count - 1) as usize];
        let (conditional, repeats) = (last.class == OpClass::CondBranch, last.repeats());
        self.shapes.push(VariantShape {
            pieces: (first, self.pieces.len() as u32),
            first_slot: variant.first_access,
            pc: start.pc,
            fallthrough: last.fallthrough(),
            last_pc: last.pc,
            conditional,
            repeats,
            asks_next: conditional || repeats,
        });
    }

    fn add_inst(&mut self, inst: &Inst, id: u32, accesses: &[Access]) {
        let mut plain = DynInst::plain(id);
        plain.flags &= !DynInst::COUNTS;
        if inst.class.is_branch() && inst.class != OpClass::CondBranch {
            plain.flags |= DynInst::TAKEN;
        }
        let mut open = TemplateStep {
            dynamic: plain,
            holes: Holes::None,
        };
        for access in accesses {
            let joined = join(open.holes, access.kind);
            if joined.is_none() {
                self.pieces.push(open);
                open = TemplateStep {
                    dynamic: plain,
                    holes: Holes::None,
                };
            }
            open.holes = joined.unwrap_or_else(|| alone(access.kind));
            if access.kind != AccessKind::Store {
                open.dynamic.load_bytes = access.bytes;
            }
            if access.kind != AccessKind::Load {
                open.dynamic.store_bytes = access.bytes;
            }
        }
        open.dynamic.flags |= DynInst::COUNTS;
        self.pieces.push(open);
    }
}

fn alone(kind: AccessKind) -> Holes {
    match kind {
        AccessKind::Load => Holes::Load,
        AccessKind::Store => Holes::Store,
        AccessKind::Update => Holes::Update,
    }
}

/// The holes of a piece that also makes this access, if there is room.
fn join(holes: Holes, kind: AccessKind) -> Option<Holes> {
    match (holes, kind) {
        (Holes::None, kind) => Some(alone(kind)),
        (Holes::Load, AccessKind::Store) => Some(Holes::LoadStore),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(accesses: &[(AccessKind, u8)]) -> Vec<TemplateStep> {
        let mut templates = Templates::default();
        let access = |(kind, bytes): &(AccessKind, u8)| Access {
            inst: 0,
            kind: *kind,
            bytes: *bytes,
        };
        let accesses: Vec<_> = accesses.iter().map(access).collect();
        templates.add_inst(&Inst::new(OpClass::Simd, 0, 4), 7, &accesses);
        templates.pieces
    }

    #[test]
    fn a_load_and_a_store_share_a_piece_and_a_second_load_opens_another() {
        use AccessKind::{Load, Store};
        let pieces = pieces(&[(Load, 4), (Load, 8), (Store, 8)]);
        let holes: Vec<_> = pieces.iter().map(|piece| piece.holes).collect();
        assert_eq!(holes, [Holes::Load, Holes::LoadStore]);
        let counts: Vec<_> = pieces.iter().map(|piece| piece.dynamic.counts()).collect();
        assert_eq!(counts, [false, true]);
        assert_eq!(pieces[1].dynamic.load_bytes, 8);
    }

    #[test]
    fn an_instruction_without_accesses_is_one_piece_that_counts() {
        let pieces = pieces(&[]);
        assert_eq!((pieces.len(), pieces[0].dynamic.counts()), (1, true));
        assert_eq!(pieces[0].dynamic.load(), None);
    }
}
