//! The static dictionary: instructions, blocks, and each block's variants.
//!
//! A block is a straight run of instructions as the emulator translated it. A *variant* is a block
//! together with the memory accesses it made: nearly every block has one, a block with a `cmov`
//! from memory or a gather may have a few. The dynamic stream is then a sequence of variants and
//! addresses, with nothing else to say about operands.

use crate::error::Fault;
use crate::inst::{CodeLine, Inst, OpClass, Reg};
use crate::wire::{Wire, put_varint, unzigzag, zigzag};

/// What an access does to memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum AccessKind {
    /// Reads.
    Load = 1,
    /// Writes.
    Store = 2,
    /// Reads and writes the same bytes (`add [m], r`, atomics).
    Update = 3,
}

/// One memory access of a variant: pieces that the emulator made of a wide access are merged.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Access {
    /// The instruction, counted from the start of the block.
    pub inst: u16,
    /// Load, store or both.
    pub kind: AccessKind,
    /// Bytes, 1 to 64.
    pub bytes: u8,
}

/// A block: a run of instructions in the dictionary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    pub(crate) first: u32,
    pub(crate) count: u32,
}

/// A variant: a block and a run of accesses. The run's position is also where the predictor keeps
/// the addresses of these accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Variant {
    pub(crate) block: u32,
    pub(crate) first_access: u32,
    pub(crate) access_count: u32,
}

/// Number of a block in the dictionary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockId(u32);

/// Number of a variant in the dictionary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VariantId(pub(crate) u32);

impl VariantId {
    /// The number as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Instructions, blocks and variants of a capture.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Dictionary {
    pub(crate) insts: Vec<Inst>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) variants: Vec<Variant>,
    pub(crate) accesses: Vec<Access>,
    pub(crate) mnemonics: Vec<String>,
}

/// Bytes that an instruction takes at least, and a variant.
const INST_BYTES: usize = 15;
const VARIANT_BYTES: usize = 2;

fn index(len: usize) -> u32 {
    u32::try_from(len).expect("a dictionary has fewer than 2^32 entries")
}

impl Dictionary {
    /// Adds a block of at least one and at most 65,536 instructions with their mnemonics.
    pub fn add_block<'a>(&mut self, insts: impl Iterator<Item = (Inst, &'a str)>) -> BlockId {
        let first = index(self.insts.len());
        for (mut inst, mnemonic) in insts {
            inst.mnemonic = self.mnemonic(mnemonic);
            self.insts.push(inst);
        }
        let count = index(self.insts.len()) - first;
        assert!(
            (1..=1 << 16).contains(&count),
            "a block has 1 to 65,536 instructions"
        );
        self.blocks.push(Block { first, count });
        BlockId(index(self.blocks.len() - 1))
    }
    /// Adds a variant of `block`; the accesses are in order of their instructions.
    pub fn add_variant(&mut self, block: BlockId, accesses: &[Access]) -> VariantId {
        let first_access = index(self.accesses.len());
        let access_count = index(accesses.len());
        self.accesses.extend_from_slice(accesses);
        self.variants.push(Variant {
            block: block.0,
            first_access,
            access_count,
        });
        VariantId(index(self.variants.len() - 1))
    }
    /// Where the predictor keeps the addresses of the variant's accesses.
    pub fn first_slot(&self, variant: VariantId) -> u32 {
        self.variants[variant.index()].first_access
    }

    fn mnemonic(&mut self, word: &str) -> u16 {
        let found = self.mnemonics.iter().position(|known| known == word);
        let at = found.unwrap_or_else(|| {
            self.mnemonics.push(word.to_string());
            self.mnemonics.len() - 1
        });
        u16::try_from(at).expect("an instruction set has fewer than 65,536 mnemonics")
    }

    /// The dictionary as bytes: one column after the other.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.mnemonics.len() as u64);
        for word in &self.mnemonics {
            put_varint(&mut out, word.len() as u64);
            out.extend(word.as_bytes());
        }
        put_varint(&mut out, self.insts.len() as u64);
        self.put_insts(&mut out);
        put_varint(&mut out, self.blocks.len() as u64);
        for block in &self.blocks {
            put_varint(&mut out, u64::from(block.count));
        }
        put_varint(&mut out, self.variants.len() as u64);
        let mut last = 0;
        for variant in &self.variants {
            put_varint(&mut out, zigzag(i64::from(variant.block) - last));
            put_varint(&mut out, u64::from(variant.access_count));
            last = i64::from(variant.block);
        }
        for access in &self.accesses {
            put_varint(&mut out, u64::from(access.inst));
            out.extend([access.kind as u8, access.bytes]);
        }
        out
    }

    fn put_insts(&self, out: &mut Vec<u8>) {
        let mut expected = 0;
        for inst in &self.insts {
            put_varint(out, zigzag(inst.pc.wrapping_sub(expected) as i64));
            expected = inst.fallthrough();
        }
        out.extend(self.insts.iter().map(|inst| inst.len));
        out.extend(self.insts.iter().map(|inst| inst.class as u8));
        out.extend(self.insts.iter().map(|inst| inst.flags));
        for inst in &self.insts {
            put_varint(out, u64::from(inst.mnemonic));
        }
        for slot in 0..4 {
            out.extend(self.insts.iter().map(|inst| inst.reads[slot].to_byte()));
        }
        for slot in 0..3 {
            out.extend(
                self.insts
                    .iter()
                    .map(|inst| inst.address_reads[slot].to_byte()),
            );
            out.extend(self.insts.iter().map(|inst| inst.writes[slot].to_byte()));
        }
    }

    /// Reads what [`Dictionary::to_bytes`] wrote, checking that every index is in range.
    pub(crate) fn from_bytes(wire: &mut Wire<'_>) -> Result<Self, Fault> {
        let mut mnemonics = Vec::new();
        for _ in 0..wire.count()? {
            mnemonics.push(wire.text()?);
        }
        let mut this = Self {
            mnemonics,
            ..Self::default()
        };
        this.take_insts(wire)?;
        this.take_blocks(wire)?;
        this.take_variants(wire)?;
        wire.end()?;
        Ok(this)
    }

    fn take_insts(&mut self, wire: &mut Wire<'_>) -> Result<(), Fault> {
        let count = wire.count_of(INST_BYTES)?;
        let mut gaps = Vec::with_capacity(count);
        for _ in 0..count {
            gaps.push(unzigzag(wire.varint()?));
        }
        let (lens, classes, flags) = (wire.take(count)?, wire.take(count)?, wire.take(count)?);
        let mut expected = 0_u64;
        for n in 0..count {
            let class = OpClass::from_byte(classes[n]).ok_or_else(|| wire.damaged())?;
            let pc = expected.wrapping_add(gaps[n] as u64);
            let mut inst = Inst::new(class, pc, lens[n]);
            inst.flags = flags[n];
            inst.mnemonic = wire.int()?;
            if usize::from(inst.mnemonic) >= self.mnemonics.len() {
                return Err(wire.damaged());
            }
            expected = inst.fallthrough();
            self.insts.push(inst);
        }
        for slot in 0..4 {
            take_regs(wire, &mut self.insts, |inst| &mut inst.reads[slot])?;
        }
        for slot in 0..3 {
            take_regs(wire, &mut self.insts, |inst| &mut inst.address_reads[slot])?;
            take_regs(wire, &mut self.insts, |inst| &mut inst.writes[slot])?;
        }
        self.number_code_lines();
        Ok(())
    }

    fn number_code_lines(&mut self) {
        let mut lines: Vec<u64> = self.insts.iter().map(|inst| inst.pc >> 6).collect();
        lines.sort_unstable();
        lines.dedup();
        for inst in &mut self.insts {
            let line = lines
                .binary_search(&(inst.pc >> 6))
                .expect("every line was collected");
            inst.code_line = CodeLine::new(index(line));
        }
    }

    fn take_blocks(&mut self, wire: &mut Wire<'_>) -> Result<(), Fault> {
        let mut first = 0_u32;
        for _ in 0..wire.count()? {
            let count: u32 = wire.int()?;
            self.blocks.push(Block { first, count });
            first = first.checked_add(count).ok_or_else(|| wire.damaged())?;
            if count == 0 || count > 1 << 16 {
                return Err(wire.damaged());
            }
        }
        if first as usize == self.insts.len() {
            Ok(())
        } else {
            Err(wire.damaged())
        }
    }

    fn take_variants(&mut self, wire: &mut Wire<'_>) -> Result<(), Fault> {
        let (mut block, mut first_access) = (0_i64, 0_u32);
        for _ in 0..wire.count_of(VARIANT_BYTES)? {
            block = block
                .checked_add(unzigzag(wire.varint()?))
                .ok_or_else(|| wire.damaged())?;
            let access_count: u32 = wire.int()?;
            let known = u32::try_from(block)
                .ok()
                .filter(|b| (*b as usize) < self.blocks.len());
            let block = known.ok_or_else(|| wire.damaged())?;
            self.variants.push(Variant {
                block,
                first_access,
                access_count,
            });
            first_access = first_access
                .checked_add(access_count)
                .ok_or_else(|| wire.damaged())?;
        }
        for n in 0..self.variants.len() {
            self.take_accesses(wire, self.variants[n])?;
        }
        Ok(())
    }

    fn take_accesses(&mut self, wire: &mut Wire<'_>, variant: Variant) -> Result<(), Fault> {
        let mut last = 0;
        for _ in 0..variant.access_count {
            let inst: u16 = wire.int()?;
            let kind = match wire.u8()? {
                1 => AccessKind::Load,
                2 => AccessKind::Store,
                3 => AccessKind::Update,
                _ => return Err(wire.damaged()),
            };
            let bytes = wire.u8()?;
            let in_block = u32::from(inst) < self.blocks[variant.block as usize].count;
            if !in_block || inst < last || !(1..=64).contains(&bytes) {
                return Err(wire.damaged());
            }
            last = inst;
            self.accesses.push(Access { inst, kind, bytes });
        }
        Ok(())
    }
}

fn take_regs(
    wire: &mut Wire<'_>,
    insts: &mut [Inst],
    slot: impl Fn(&mut Inst) -> &mut Reg,
) -> Result<(), Fault> {
    let bytes = wire.take(insts.len())?;
    for (inst, byte) in insts.iter_mut().zip(bytes) {
        *slot(inst) = Reg::from_byte(*byte).ok_or_else(|| wire.damaged())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Dictionary {
        let mut dictionary = Dictionary::default();
        let load = Inst::new(OpClass::Move, 0x40_1000, 4)
            .addressing(&[Reg::general(7)])
            .writing(&[Reg::general(0)])
            .with_memory(true, false);
        let jump = Inst::new(OpClass::CondBranch, 0x40_1004, 2).reading(&[Reg::FLAGS]);
        let block = dictionary.add_block([(load, "mov"), (jump, "jne")].into_iter());
        let access = Access {
            inst: 0,
            kind: AccessKind::Load,
            bytes: 8,
        };
        dictionary.add_variant(block, &[access]);
        dictionary.add_variant(block, &[]);
        dictionary
    }

    fn read(bytes: &[u8]) -> Result<Dictionary, Fault> {
        Dictionary::from_bytes(&mut Wire::new(bytes, "dictionary", 0))
    }

    #[test]
    fn a_dictionary_is_read_back() {
        let dictionary = sample();
        assert_eq!(read(&dictionary.to_bytes()).unwrap(), dictionary);
    }

    #[test]
    fn code_lines_are_numbered_in_order_of_address() {
        let mut dictionary = sample();
        let low = Inst::new(OpClass::Nop, 0x1000, 1);
        dictionary.add_block([(low, "nop")].into_iter());
        let read = read(&dictionary.to_bytes()).unwrap();
        let lines: Vec<_> = read.insts.iter().map(|inst| inst.code_line.get()).collect();
        assert_eq!(lines, [1, 1, 0]);
    }

    #[test]
    fn no_damage_makes_the_reader_panic() {
        let bytes = sample().to_bytes();
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                let _ = read(&damaged);
            }
            assert!(read(&bytes[..at]).is_err());
        }
    }
}
