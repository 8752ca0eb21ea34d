//! Static instructions: what the capture knows of an instruction before it runs.
//!
//! Decoded once, at capture; a consumer never sees machine code. Registers are normalised for a
//! dataflow model: partial registers are the full one, zeroing idioms read nothing, and the stack
//! pointer's own bookkeeping (`push`, `pop`, `call`, `ret`) is left to a stack engine, so it makes
//! no dependency.

/// An architectural register as a dense number below [`Reg::COUNT`].
///
/// 0–15 general purpose, 16–47 vector, 48 flags, 49 x87 and MMX together, 50–57 masks, 58 the rest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct Reg(u8);

impl Reg {
    /// No register.
    pub const NONE: Self = Self(255);
    /// One more than the largest register number: the size of a rename table.
    pub const COUNT: usize = 64;
    /// The flags.
    pub const FLAGS: Self = Self(48);
    /// The x87 stack and the MMX registers, as one.
    pub const X87: Self = Self(49);
    /// Segment bases, control words and everything else, as one.
    pub const OTHER: Self = Self(58);

    /// General purpose register `number`, 0 to 15 in the encoding's order (rax, rcx, rdx, …).
    pub const fn general(number: u8) -> Self {
        assert!(number < 16, "there are 16 general purpose registers");
        Self(number)
    }
    /// Vector register `number`, 0 to 31.
    pub const fn vector(number: u8) -> Self {
        assert!(number < 32, "there are 32 vector registers");
        Self(16 + number)
    }
    /// Mask register `number`, 0 to 7.
    pub const fn mask(number: u8) -> Self {
        assert!(number < 8, "there are 8 mask registers");
        Self(50 + number)
    }
    /// The register stored as `byte`, if that is one (or [`Reg::NONE`]).
    pub(crate) const fn from_byte(byte: u8) -> Option<Self> {
        if byte < Self::COUNT as u8 || byte == Self::NONE.0 {
            Some(Self(byte))
        } else {
            None
        }
    }
    /// The register as it is stored.
    pub(crate) const fn to_byte(self) -> u8 {
        self.0
    }
    /// The register as an index; not to be called on [`Reg::NONE`].
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
    /// Whether this is [`Reg::NONE`].
    #[inline]
    pub const fn is_none(self) -> bool {
        self.0 == Self::NONE.0
    }
    /// Whether this is a vector, x87, MMX or mask register.
    #[inline]
    pub const fn is_vector(self) -> bool {
        (self.0 >= 16 && self.0 < 48) || (self.0 >= 49 && self.0 < 58)
    }
}

impl core::fmt::Display for Reg {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        const GENERAL: [&str; 16] = [
            "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11",
            "r12", "r13", "r14", "r15",
        ];
        match self.0 {
            n @ 0..=15 => f.write_str(GENERAL[n as usize]),
            n @ 16..=47 => write!(f, "v{}", n - 16),
            48 => f.write_str("flags"),
            49 => f.write_str("x87"),
            n @ 50..=57 => write!(f, "k{}", n - 50),
            255 => f.write_str("-"),
            _ => f.write_str("other"),
        }
    }
}

macro_rules! op_classes {
    ($($(#[$meta:meta])* $name:ident = $word:literal,)*) => {
        /// What an instruction computes, which decides its execution port and latency. Loads and
        /// stores are not classes: any class may come with memory operands ([`Inst::loads`]).
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum OpClass {
            $($(#[$meta])* $name,)*
        }

        impl OpClass {
            /// Every class, in the order of their stored numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The class in a word, as `trace head` prints it.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }
        }
    };
}

op_classes! {
    /// Does nothing (also prefetches and hints).
    Nop = "nop",
    /// Moves a value between registers, or is only a load or a store.
    Move = "move",
    /// Computes an address.
    Lea = "lea",
    /// One-cycle integer arithmetic, logic, shift, conditional move.
    IntAlu = "int-alu",
    /// Integer multiplication.
    IntMul = "int-mul",
    /// Integer division.
    IntDiv = "int-div",
    /// Floating-point addition, comparison, conversion.
    FpAdd = "fp-add",
    /// Floating-point multiplication.
    FpMul = "fp-mul",
    /// Floating-point division and square root.
    FpDiv = "fp-div",
    /// Fused multiply and add.
    Fma = "fma",
    /// Integer vector work and shuffles.
    Simd = "simd",
    /// Conditional branch.
    CondBranch = "cond-branch",
    /// Direct unconditional jump.
    Jump = "jump",
    /// Direct call.
    Call = "call",
    /// Return.
    Return = "return",
    /// Jump through a register or memory.
    IndirectJump = "indirect-jump",
    /// Call through a register or memory.
    IndirectCall = "indirect-call",
    /// Atomic read-modify-write (locked, or `xchg` with memory).
    Atomic = "atomic",
    /// Memory fence.
    Fence = "fence",
    /// Waits until everything older has retired (`cpuid`, …).
    Serialising = "serialising",
    /// Enters the kernel.
    Syscall = "syscall",
    /// Long microcoded work that fits nowhere else (x87 transcendental, state save, AES rounds …).
    Other = "other",
    /// Writes a line back to memory and keeps it in the caches (`clwb`); its load names the line.
    LineWriteBack = "line-write-back",
}

impl OpClass {
    /// The class with this stored number.
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(byte as usize).copied()
    }
    /// Whether the instruction may continue elsewhere than at the next address.
    #[inline]
    pub const fn is_branch(self) -> bool {
        self as u8 >= Self::CondBranch as u8 && self as u8 <= Self::IndirectCall as u8
    }
    /// Whether the target is not in the instruction: a register, memory or the return stack.
    #[inline]
    pub const fn is_indirect(self) -> bool {
        matches!(self, Self::Return | Self::IndirectJump | Self::IndirectCall)
    }
}

/// An instruction's index in the capture's dictionary. Index 0 and up, dense.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct InstId(u32);

impl InstId {
    /// The instruction with this index.
    #[inline]
    pub const fn new(index: u32) -> Self {
        Self(index)
    }
    /// The index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
    /// The index as it is stored.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// A 64-byte line of code, numbered densely in order of address. Code is not in the canonical page
/// list: it lives in host DRAM (D9).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct CodeLine(u32);

impl CodeLine {
    /// Code line number `index`.
    #[inline]
    pub const fn new(index: u32) -> Self {
        Self(index)
    }
    /// The number.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// A static instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Inst {
    /// Virtual address of the instruction: identity for branch predictors, not a memory access.
    pub pc: u64,
    /// The code line of its first byte.
    pub code_line: CodeLine,
    /// Index into the dictionary's mnemonics.
    pub(crate) mnemonic: u16,
    /// What it computes.
    pub class: OpClass,
    /// Length in bytes, 1 to 15.
    pub len: u8,
    /// Registers read as data, [`Reg::NONE`] after the last.
    pub reads: [Reg; 4],
    /// Registers read to form addresses (base, index), [`Reg::NONE`] after the last.
    pub address_reads: [Reg; 3],
    /// Registers written, [`Reg::NONE`] after the last.
    pub writes: [Reg; 3],
    pub(crate) flags: u8,
}

impl Inst {
    pub(crate) const LOADS: u8 = 1;
    pub(crate) const STORES: u8 = 2;
    pub(crate) const REPEATS: u8 = 4;

    /// An instruction without registers or memory operands; its code line is set when it joins a
    /// dictionary.
    pub const fn new(class: OpClass, pc: u64, len: u8) -> Self {
        Self {
            pc,
            code_line: CodeLine::new(0),
            mnemonic: 0,
            class,
            len,
            reads: [Reg::NONE; 4],
            address_reads: [Reg::NONE; 3],
            writes: [Reg::NONE; 3],
            flags: 0,
        }
    }
    /// The instruction, reading `regs` (at most 4; more are dropped).
    #[must_use]
    pub fn reading(mut self, regs: &[Reg]) -> Self {
        fill(&mut self.reads, regs);
        self
    }
    /// The instruction, forming addresses from `regs` (at most 3; more are dropped).
    #[must_use]
    pub fn addressing(mut self, regs: &[Reg]) -> Self {
        fill(&mut self.address_reads, regs);
        self
    }
    /// The instruction, writing `regs` (at most 3; more are dropped).
    #[must_use]
    pub fn writing(mut self, regs: &[Reg]) -> Self {
        fill(&mut self.writes, regs);
        self
    }
    /// The instruction with or without a load and a store among its operands.
    #[must_use]
    pub const fn with_memory(mut self, loads: bool, stores: bool) -> Self {
        self.flags &= !(Self::LOADS | Self::STORES);
        self.flags |= loads as u8 * Self::LOADS + stores as u8 * Self::STORES;
        self
    }
    /// The instruction marked as a repeated string operation: each iteration is executed as a
    /// block of its own, and only the last counts.
    #[must_use]
    pub const fn repeated(mut self) -> Self {
        self.flags |= Self::REPEATS;
        self
    }
    /// Whether a memory operand is read.
    #[inline]
    pub const fn loads(&self) -> bool {
        self.flags & Self::LOADS != 0
    }
    /// Whether a memory operand is written.
    #[inline]
    pub const fn stores(&self) -> bool {
        self.flags & Self::STORES != 0
    }
    /// Whether this is a repeated string operation.
    #[inline]
    pub const fn repeats(&self) -> bool {
        self.flags & Self::REPEATS != 0
    }
    /// The address after the instruction.
    #[inline]
    pub const fn fallthrough(&self) -> u64 {
        self.pc.wrapping_add(self.len as u64)
    }
}

fn fill<const N: usize>(slots: &mut [Reg; N], regs: &[Reg]) {
    *slots = [Reg::NONE; N];
    for (slot, reg) in slots.iter_mut().zip(regs) {
        *slot = *reg;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_is_read_back_from_its_stored_number() {
        for &class in OpClass::ALL {
            assert_eq!(OpClass::from_byte(class as u8), Some(class));
        }
        assert_eq!(OpClass::from_byte(OpClass::ALL.len() as u8), None);
    }

    #[test]
    fn branches_are_the_six_classes_that_leave_the_line() {
        let branches: Vec<_> = OpClass::ALL.iter().filter(|c| c.is_branch()).collect();
        assert_eq!(branches.len(), 6);
        assert!(!OpClass::Atomic.is_branch() && !OpClass::Simd.is_branch());
    }

    #[test]
    fn registers_of_different_kinds_do_not_collide() {
        let mut seen = [false; Reg::COUNT];
        let all = (0..16).map(Reg::general).chain((0..32).map(Reg::vector));
        let all = all
            .chain((0..8).map(Reg::mask))
            .chain([Reg::FLAGS, Reg::X87, Reg::OTHER]);
        for reg in all {
            assert!(
                !core::mem::replace(&mut seen[reg.index()], true),
                "{reg} is taken twice"
            );
        }
    }

    #[test]
    fn surplus_registers_are_dropped() {
        let regs: Vec<_> = (0..6).map(Reg::general).collect();
        let inst = Inst::new(OpClass::IntAlu, 0, 3).writing(&regs);
        assert_eq!(
            inst.writes,
            [Reg::general(0), Reg::general(1), Reg::general(2)]
        );
    }
}
