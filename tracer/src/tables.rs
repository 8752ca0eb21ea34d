//! What all threads share of the static side: translated blocks, and the dictionary of those that
//! were recorded.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use std::sync::Arc;
use trace::dictionary::{Access, BlockId, Dictionary, VariantId};
use trace::{AccessKind, Inst, OpClass};

/// A translated block, as the streams need it.
#[derive(Clone, Copy, Debug)]
pub struct BlockFacts {
    /// Address of the first instruction.
    pub pc: u64,
    /// Address of the last instruction.
    pub last_pc: u64,
    /// Instructions.
    pub instructions: u32,
    /// Whether the last is a repeated string operation.
    pub repeats: bool,
}

/// A variant in the dictionary, as the streams need it.
#[derive(Debug)]
pub struct VariantFacts {
    /// Its number.
    pub id: VariantId,
    /// Where the predictor keeps its addresses.
    pub first_slot: u32,
    /// Its accesses.
    pub accesses: Vec<Access>,
    /// Loads among them, updates included.
    pub loads: u32,
    /// Stores among them, updates included.
    pub stores: u32,
}

struct Translated {
    insts: Vec<(Inst, String)>,
    facts: BlockFacts,
    recorded: Option<BlockId>,
}

/// Translated blocks and the dictionary.
#[derive(Default)]
pub struct Tables {
    blocks: Vec<Translated>,
    by_code: HashMap<(u64, Vec<u8>), u32, FxBuildHasher>,
    variants: HashMap<(u32, Vec<Access>), Arc<VariantFacts>, FxBuildHasher>,
    dictionary: Dictionary,
}

impl Tables {
    /// The number of the block of `code` at `pc`, if it was translated before: the emulator
    /// forgets and translates again.
    pub fn known(&self, pc: u64, code: &[u8]) -> Option<u32> {
        self.by_code.get(&(pc, code.to_vec())).copied()
    }
    /// Numbers a block not known before.
    pub fn add(&mut self, code: Vec<u8>, insts: Vec<(Inst, String)>) -> u32 {
        let number = u32::try_from(self.blocks.len()).expect("fewer than 2^32 blocks");
        let (first, last) = (insts[0].0, insts[insts.len() - 1].0);
        self.by_code.insert((first.pc, code), number);
        let facts = BlockFacts {
            pc: first.pc,
            last_pc: last.pc,
            instructions: insts.len() as u32,
            repeats: last.repeats(),
        };
        self.blocks.push(Translated {
            insts,
            facts,
            recorded: None,
        });
        number
    }
    /// What is known of block `number`.
    pub fn block(&self, number: u32) -> BlockFacts {
        self.blocks[number as usize].facts
    }
    /// Whether each instruction of block `number` may access memory.
    pub fn may_access(&self, number: u32) -> Vec<bool> {
        let insts = &self.blocks[number as usize].insts;
        insts.iter().map(|(inst, _)| may_access(inst)).collect()
    }
    /// Whether block `number` can have made an access.
    pub fn belongs(&self, number: u32, access: Access) -> bool {
        let insts = &self.blocks[number as usize].insts;
        let Some((inst, _)) = insts.get(usize::from(access.inst)) else {
            return false;
        };
        let loads = access.kind == AccessKind::Store || inst.loads();
        let stores = access.kind == AccessKind::Load || inst.stores();
        loads && stores || is_unknown(inst)
    }
    /// Whether instruction `inst` of block `number` saves the processor's state.
    pub fn saves_state(&self, number: u32, inst: u16) -> bool {
        let insts = &self.blocks[number as usize].insts;
        let saves = |inst: &Inst| inst.class == OpClass::Other && inst.stores();
        insts
            .get(usize::from(inst))
            .is_some_and(|(inst, _)| saves(inst))
    }
    /// The variant of block `number` with these accesses, made if it is new; all belong to it.
    pub fn variant(&mut self, number: u32, accesses: &[Access]) -> Arc<VariantFacts> {
        let key = (number, accesses.to_vec());
        if let Some(known) = self.variants.get(&key) {
            return known.clone();
        }
        let block = self.recorded(number);
        let id = self.dictionary.add_variant(block, accesses);
        let count = |store: bool| {
            let other = if store {
                AccessKind::Load
            } else {
                AccessKind::Store
            };
            accesses
                .iter()
                .filter(|access| access.kind != other)
                .count() as u32
        };
        let facts = Arc::new(VariantFacts {
            id,
            first_slot: self.dictionary.first_slot(id),
            accesses: accesses.to_vec(),
            loads: count(false),
            stores: count(true),
        });
        self.variants.insert(key, facts.clone());
        facts
    }
    /// The dictionary of everything recorded so far.
    pub fn dictionary(&self) -> &Dictionary {
        &self.dictionary
    }

    fn recorded(&mut self, number: u32) -> BlockId {
        let block = &mut self.blocks[number as usize];
        if let Some(id) = block.recorded {
            return id;
        }
        let insts = block
            .insts
            .iter()
            .map(|(inst, name)| (*inst, name.as_str()));
        let id = self.dictionary.add_block(insts);
        block.recorded = Some(id);
        id
    }
}

/// Whether an instruction may access memory.
fn may_access(inst: &Inst) -> bool {
    inst.loads() || inst.stores() || is_unknown(inst)
}

/// Whether an instruction's accesses are taken as they come: it did not decode, or does what the
/// decoder does not know of. One that restores the processor's state loads, and what is stored with
/// its mark is the frame of a signal.
fn is_unknown(inst: &Inst) -> bool {
    inst.class == OpClass::Other && !inst.loads() && !inst.stores()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::decode;
    use iced_x86::InstructionInfoFactory;

    #[test]
    fn of_the_kernels_accesses_none_is_taken_for_a_restore_of_the_processors_state() {
        let belongs = |code: &[u8], kind| {
            let decoded = decode(code, 0x1000, &mut InstructionInfoFactory::new());
            let mut tables = Tables::default();
            let number = tables.add(code.to_vec(), vec![decoded]);
            let (inst, bytes) = (0, 8);
            tables.belongs(number, Access { inst, kind, bytes })
        };
        // xrstor, xsavec and fxsave at 0x40(%rsp); push %es, which 64-bit code does not have.
        let restore = [0x0f, 0xae, 0x6c, 0x24, 0x40];
        let save = [0x0f, 0xc7, 0x64, 0x24, 0x40];
        let old_save = [0x0f, 0xae, 0x44, 0x24, 0x40];
        assert!(belongs(&restore, AccessKind::Load));
        assert!(!belongs(&restore, AccessKind::Store));
        assert!(belongs(&save, AccessKind::Store));
        assert!(belongs(&old_save, AccessKind::Store));
        assert!(belongs(&[0x06], AccessKind::Load) && belongs(&[0x06], AccessKind::Store));
    }
}
