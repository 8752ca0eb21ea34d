//! Registers as Pin numbers them: the language of MacSim's and ChampSim's traces.
//!
//! Pin 3.13's numbers below 256 (MacSim keeps eight bits of them), of which ChampSim gives 6, 25
//! and 26 a meaning of their own. Partial registers are their full one, as in a capture.

use crate::inst::{Inst, OpClass, Reg};

/// The stack pointer.
pub(super) const STACK_POINTER: u8 = 6;
/// The flags.
pub(super) const FLAGS: u8 = 25;
/// The instruction pointer, which makes no dependency.
pub(super) const INSTRUCTION_POINTER: u8 = 26;
/// A source that is no register, where ChampSim needs one to tell an indirect branch.
pub(super) const UNKNOWN: u8 = 255;
/// A register that is neither general, flags nor pointer: MXCSR.
const OTHER: u8 = 195;

/// Pin's number of general register `n`: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi run downwards.
const fn general(n: u8) -> u8 {
    if n < 8 { 10 - n } else { n + 3 }
}

/// The number that stands for `reg`; vectors are written as their lowest 128 bits.
pub(super) fn number(reg: Reg) -> u8 {
    match reg.to_byte() {
        n @ 0..=15 => general(n),
        n @ 16..=47 => 91 + (n - 16),
        48 => FLAGS,
        49 => 207,
        n @ 50..=57 => 187 + (n - 50),
        255 => 0,
        _ => OTHER,
    }
}

/// The register that `number` means; none for "no register" and the instruction pointer.
pub(super) fn register(number: u8) -> Reg {
    const PARTIAL: [u8; 4] = [0, 1, 2, 3];
    match number {
        0..=2 | INSTRUCTION_POINTER | 44 | 58 | UNKNOWN => Reg::NONE,
        n @ 3..=10 => Reg::general(10 - n),
        n @ 11..=18 => Reg::general(n - 3),
        FLAGS | 43 | 57 => Reg::FLAGS,
        n @ 27..=38 => Reg::general(PARTIAL[usize::from((n - 27) / 3)]),
        39 => Reg::general(5),
        40 => Reg::general(6),
        41 => Reg::general(7),
        42 => Reg::general(4),
        n @ 45..=52 => Reg::general([7, 6, 5, 4][usize::from((n - 45) / 2)]),
        n @ 53..=56 => Reg::general([3, 2, 1, 0][usize::from(n - 53)]),
        n @ 59..=82 => Reg::general(8 + (n - 59) / 3),
        83..=90 | 198..=214 => Reg::X87,
        n @ 91..=186 => Reg::vector((n - 91) % 32),
        n @ 187..=194 => Reg::mask(n - 187),
        _ => Reg::OTHER,
    }
}

/// The registers of these numbers, each once; without the stack pointer if its use is only the
/// instruction's own bookkeeping.
pub(super) fn registers(numbers: &[u8], drop_stack: bool) -> Vec<Reg> {
    let mut regs: Vec<Reg> = Vec::new();
    for number in numbers {
        let reg = register(*number);
        let dropped = drop_stack && reg == register(STACK_POINTER);
        if !reg.is_none() && !dropped && !regs.contains(&reg) {
            regs.push(reg);
        }
    }
    regs
}

/// The numbers of these registers, each once.
pub(super) fn numbers<'a>(regs: impl Iterator<Item = &'a Reg>) -> Vec<u8> {
    let mut numbers = Vec::new();
    for reg in regs.filter(|reg| !reg.is_none()) {
        let number = number(*reg);
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    numbers
}

/// What [`operands`] assumes, as a sentence for the capture's provenance.
pub(super) const ASSUMPTION: &str = "the source does not say which registers form an address: \
     taken are the general ones, of an instruction that does more than load without those it \
     also writes";

/// `inst` with its registers. Sources that only list registers do not say which form an address:
/// see [`ASSUMPTION`]. `mov rax, [rax]` follows a pointer, `add rax, [rbx]` adds up in `rax`. If
/// nothing is left to form the address, all general registers do.
pub(super) fn operands(inst: Inst, sources: &[Reg], targets: &[Reg]) -> Inst {
    let inst = inst.writing(targets);
    if !inst.loads() && !inst.stores() {
        return inst.reading(sources);
    }
    let general = |reg: &&Reg| reg.index() < 16;
    let mut address: Vec<_> = sources.iter().filter(general).copied().collect();
    if inst.class == OpClass::Move && !inst.stores() {
        address.truncate(inst.address_reads.len());
        let data: Vec<_> = sources
            .iter()
            .filter(|reg| !address.contains(reg))
            .copied()
            .collect();
        return inst.addressing(&address).reading(&data);
    }
    if address.iter().any(|reg| !targets.contains(reg)) {
        address.retain(|reg| !targets.contains(reg));
    }
    inst.addressing(&address).reading(sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_register_is_read_back_from_its_number() {
        for byte in (0..=58_u8).chain([255]) {
            let reg = Reg::from_byte(byte).unwrap();
            assert_eq!(register(number(reg)), reg);
        }
    }

    #[test]
    fn partial_registers_are_their_full_one() {
        let same = [
            (27, 10),
            (38, 7),
            (42, 6),
            (46, 3),
            (53, 7),
            (56, 10),
            (61, 11),
            (82, 18),
        ];
        for (partial, full) in same {
            assert_eq!(register(partial), register(full), "{partial}");
        }
        assert_eq!(register(154), Reg::vector(31));
        assert_eq!(register(155), Reg::vector(0));
    }
}
