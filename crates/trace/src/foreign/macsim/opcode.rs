//! MacSim's opcode classes: XED categories in alphabetical order from 0 to 94 (Pin 3.13), then
//! MacSim's own, and what they are in a capture.

use crate::inst::{Inst, OpClass};

/// One more than the last class.
pub(super) const COUNT: u8 = 105;

const AES: u8 = 3;
const BINARY: u8 = 13;
const CALL: u8 = 19;
const CLWB: u8 = 23;
const COND_BR: u8 = 27;
const DATAXFER: u8 = 30;
pub(super) const MISC: u8 = 47;
const NOP: u8 = 51;
const POP: u8 = 55;
const PUSH: u8 = 59;
const RET: u8 = 65;
const SEMAPHORE: u8 = 69;
const SSE: u8 = 75;
const SYSCALL: u8 = 78;
const SYSTEM: u8 = 80;
const UNCOND_BR: u8 = 82;
const VFMA: u8 = 85;
const X87_ALU: u8 = 91;
const XSAVE: u8 = 93;
const TR_MUL: u8 = 95;
const TR_DIV: u8 = 96;
const TR_FMUL: u8 = 97;
const TR_FDIV: u8 = 98;
pub(super) const TR_NOP: u8 = 99;

/// What a record says of an instruction's kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Kind {
    pub(super) opcode: u8,
    pub(super) floating: bool,
    pub(super) branch: u8,
}

/// The kind that stands for `inst`. A move is never floating point: it would take the three cycles
/// of an addition there. Only DATAXFER loads into a register without another operation.
pub(super) fn kind(inst: &Inst) -> Kind {
    let (opcode, floating, branch) = match inst.class {
        OpClass::Nop => (NOP, false, 0),
        OpClass::Move => (DATAXFER, false, 0),
        OpClass::Lea | OpClass::Fence => (MISC, false, 0),
        OpClass::LineWriteBack => (CLWB, false, 0),
        OpClass::IntAlu => (BINARY, false, 0),
        OpClass::IntMul => (TR_MUL, false, 0),
        OpClass::IntDiv => (TR_DIV, false, 0),
        OpClass::FpAdd => (SSE, true, 0),
        OpClass::FpMul => (TR_FMUL, true, 0),
        OpClass::FpDiv => (TR_FDIV, true, 0),
        OpClass::Fma => (VFMA, true, 0),
        OpClass::Simd => (SSE, false, 0),
        OpClass::CondBranch => (COND_BR, false, 2),
        OpClass::Jump => (UNCOND_BR, false, 1),
        OpClass::Call => (CALL, false, 3),
        OpClass::Return => (RET, false, 7),
        OpClass::IndirectJump => (UNCOND_BR, false, 4),
        OpClass::IndirectCall => (CALL, false, 5),
        OpClass::Atomic => (SEMAPHORE, false, 0),
        OpClass::Serialising => (SYSTEM, false, 0),
        OpClass::Syscall => (SYSCALL, false, 8),
        OpClass::Other => (XSAVE, false, 0),
    };
    Kind {
        opcode,
        floating,
        branch,
    }
}

/// The class of an instruction of this kind. MISC with a target computes an address (`lea`); the
/// caller knows fences. Vector work is floating point if the record says so.
pub(super) fn class(kind: Kind, writes: bool) -> OpClass {
    match kind.branch {
        1 => return OpClass::Jump,
        2 | 9 => return OpClass::CondBranch,
        3 => return OpClass::Call,
        4 | 6 => return OpClass::IndirectJump,
        5 => return OpClass::IndirectCall,
        7 => return OpClass::Return,
        _ => {}
    }
    let vector = if kind.floating {
        OpClass::FpAdd
    } else {
        OpClass::Simd
    };
    match kind.opcode {
        AES | 72 | 83 | 86 | XSAVE | 94 => OpClass::Other,
        1 | 4..=12 | 15 | 18 | 26 | 28 | 33 | 38 | 48 | SSE | 77 | 84 | 92 => vector,
        29 => OpClass::FpAdd,
        34 | X87_ALU => OpClass::FpAdd,
        36 | VFMA => OpClass::Fma,
        37 | 67 => OpClass::Simd,
        39 => OpClass::IntMul,
        45 | 52 | 87 => OpClass::Simd,
        CLWB => OpClass::LineWriteBack,
        21 | 22 | 24 | NOP | 56..=58 | 90 | TR_NOP | 100..=103 => OpClass::Nop,
        DATAXFER | 43 | 49 | POP | PUSH | 64 | 68 | 76 => OpClass::Move,
        MISC if writes => OpClass::Lea,
        SEMAPHORE => OpClass::Atomic,
        SYSCALL => OpClass::Syscall,
        40..=42 | 53 | 54 | 60..=63 | 71 | 74 | 79 | SYSTEM | 88 | 89 => OpClass::Serialising,
        TR_MUL => OpClass::IntMul,
        TR_DIV => OpClass::IntDiv,
        TR_FMUL => OpClass::FpMul,
        TR_FDIV => OpClass::FpDiv,
        MISC => OpClass::Nop,
        _ => OpClass::IntAlu,
    }
}

/// Whether the category moves the stack pointer for itself, which makes no dependency in a capture.
pub(super) const fn moves_stack(opcode: u8) -> bool {
    matches!(opcode, CALL | POP | PUSH | RET)
}

/// A word for the category, as `trace head` prints it.
pub(super) const fn word(opcode: u8) -> &'static str {
    match opcode {
        BINARY => "binary",
        CALL => "call",
        COND_BR => "cond-br",
        DATAXFER => "dataxfer",
        44 => "logical",
        MISC => "misc",
        NOP | TR_NOP => "nop",
        POP => "pop",
        PUSH => "push",
        RET => "ret",
        SEMAPHORE => "semaphore",
        73 => "shift",
        SSE => "sse",
        76 => "stringop",
        SYSCALL => "syscall",
        UNCOND_BR => "uncond-br",
        TR_MUL | TR_FMUL => "mul",
        TR_DIV | TR_FDIV => "div",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inst::Reg;

    #[test]
    fn every_class_but_the_fence_is_read_back_from_its_kind() {
        for &of in OpClass::ALL {
            let inst = Inst::new(of, 0x1000, 3).writing(&[Reg::general(0)]);
            let kind = kind(&inst);
            assert!(kind.opcode < COUNT && kind.branch <= 9);
            let expected = if of == OpClass::Fence {
                OpClass::Lea
            } else {
                of
            };
            assert_eq!(class(kind, true), expected);
        }
    }

    #[test]
    fn every_opcode_has_a_class() {
        for opcode in 0..COUNT {
            let kind = Kind {
                opcode,
                floating: false,
                branch: 0,
            };
            class(kind, false);
            assert!(!word(opcode).is_empty());
        }
    }
}
