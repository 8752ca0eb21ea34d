//! Instructions of sources that tell addresses and lengths but no registers.
//!
//! An instruction is complete when the next one is fetched: only then are its accesses all there,
//! and whether it fell through. [`Fetched`] collects it; [`Sites`] turns it into a static
//! instruction, found by address and made anew only when its shape at that address changes.

use crate::assembler::{Assembler, Known};
use crate::dictionary::AccessKind;
use crate::foreign::Dependencies;
use crate::inst::{Inst, OpClass, Reg};
use crate::writer::Operand;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

/// Longest instruction of x86 (Intel SDM 2.3.11).
const LONGEST: u64 = 15;
/// Bytes that one access of an instruction may have: state saves have some thousand.
const WIDEST: u64 = 1 << 15;
/// Bytes of a piece of an access in a capture.
const PIECE: u64 = 64;
/// Pieces of one instruction's accesses: a save of the largest state has a tenth of that. What
/// claims more is damaged, and must not fill the memory.
const MOST_PIECES: usize = 4096;

/// An instruction whose accesses are still coming.
#[derive(Default)]
pub(crate) struct Fetched {
    pc: u64,
    /// 0 if nothing was fetched yet.
    len: u8,
    accesses: Vec<(AccessKind, Operand)>,
}

impl Fetched {
    /// Begins an instruction of `len` bytes at `pc`.
    ///
    /// # Errors
    /// When no instruction has that length.
    pub(crate) fn begin(&mut self, pc: u64, len: u64) -> Result<(), String> {
        if len == 0 || len > LONGEST {
            return Err(format!(
                "is an instruction of {len} bytes; they have 1 to {LONGEST}"
            ));
        }
        self.pc = pc;
        self.len = len as u8;
        self.accesses.clear();
        Ok(())
    }
    /// Ends the instruction without another one.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }
    /// Whether an instruction was begun.
    pub(crate) const fn is_some(&self) -> bool {
        self.len != 0
    }
    /// Its address.
    pub(crate) const fn pc(&self) -> u64 {
        self.pc
    }
    /// Its length in bytes.
    pub(crate) const fn len(&self) -> u8 {
        self.len
    }
    /// The address after it.
    pub(crate) const fn fallthrough(&self) -> u64 {
        self.pc.wrapping_add(self.len as u64)
    }
    /// Its accesses in order, none of more than 64 bytes.
    pub(crate) fn accesses(&self) -> &[(AccessKind, Operand)] {
        &self.accesses
    }
    /// Adds an access. A store right after a load of the same bytes makes it an update.
    ///
    /// # Errors
    /// When there is no instruction, no access has that size or place, or no instruction that many.
    pub(crate) fn access(&mut self, kind: AccessKind, addr: u64, size: u64) -> Result<(), String> {
        if !self.is_some() {
            return Err("is an access before the first instruction; leave it out".into());
        }
        check_access(addr, size)?;
        if kind == AccessKind::Store
            && let Some(last) = self.accesses.last_mut()
            && *last == (AccessKind::Load, (addr, size as u8))
            && size <= PIECE
        {
            last.0 = AccessKind::Update;
            return Ok(());
        }
        if self.accesses.len() >= MOST_PIECES {
            return Err(format!(
                "is an access of an instruction that has {MOST_PIECES} already, more than any has"
            ));
        }
        pieces(addr, size, |piece| self.accesses.push((kind, piece)));
        Ok(())
    }
    fn loads(&self) -> bool {
        self.accesses
            .iter()
            .any(|access| access.0 != AccessKind::Store)
    }
    fn stores(&self) -> bool {
        self.accesses
            .iter()
            .any(|access| access.0 != AccessKind::Load)
    }
    /// The class of an instruction that does not branch: one that only loads or only stores moves
    /// data; nothing more is known.
    pub(crate) fn plain_class(&self) -> OpClass {
        match self.loads() != self.stores() {
            true => OpClass::Move,
            false => OpClass::IntAlu,
        }
    }
}

/// Checks that an access lies in the address space and is as wide as accesses are.
///
/// # Errors
/// The end of a sentence about the record.
pub(crate) fn check_access(addr: u64, size: u64) -> Result<(), String> {
    if size == 0 || size > WIDEST {
        return Err(format!(
            "accesses {size} bytes; one access has 1 to {WIDEST}"
        ));
    }
    if addr.checked_add(size).is_none() {
        return Err(format!(
            "accesses {size} bytes at {addr:#x}, beyond the end of memory"
        ));
    }
    Ok(())
}

/// Gives an access to `take` in pieces of at most 64 bytes, cut where lines end.
pub(crate) fn pieces(addr: u64, size: u64, mut take: impl FnMut(Operand)) {
    if size <= PIECE {
        return take((addr, size as u8));
    }
    let end = addr + size;
    let mut at = addr;
    while at < end {
        let next = (at / PIECE + 1).saturating_mul(PIECE).min(end);
        take((at, (next - at) as u8));
        at = next;
    }
}

/// The registers of an instruction whose source tells none.
fn with_registers(inst: Inst, dependencies: Dependencies) -> Inst {
    /// Written by every load.
    const LINK: Reg = Reg::general(0);
    let inst = match dependencies {
        Dependencies::Chain if inst.loads() || inst.stores() => inst.addressing(&[LINK]),
        Dependencies::Chain | Dependencies::None => inst,
    };
    if inst.loads() {
        inst.writing(&[LINK])
    } else {
        inst
    }
}

/// The static instructions of a source, by address.
pub(crate) struct Sites {
    dependencies: Dependencies,
    known: HashMap<u64, (Shape, Known), FxBuildHasher>,
}

/// All that makes two executions of an address the same static instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Shape {
    class: OpClass,
    len: u8,
    loads: bool,
    stores: bool,
    repeats: bool,
}

impl Sites {
    /// No instructions yet.
    pub(crate) fn new(dependencies: Dependencies) -> Self {
        Self {
            dependencies,
            known: HashMap::default(),
        }
    }
    /// The static instruction of `fetched`.
    pub(crate) fn find(
        &mut self,
        out: &mut Assembler,
        fetched: &Fetched,
        class: OpClass,
        repeats: bool,
    ) -> Known {
        let shape = Shape {
            class,
            len: fetched.len,
            loads: fetched.loads(),
            stores: fetched.stores(),
            repeats,
        };
        if let Some((last, known)) = self.known.get(&fetched.pc)
            && *last == shape
        {
            return *known;
        }
        let inst = Inst::new(class, fetched.pc, fetched.len);
        let inst = inst.with_memory(shape.loads, shape.stores);
        let inst = if repeats { inst.repeated() } else { inst };
        let known = out.intern(with_registers(inst, self.dependencies), class.word());
        self.known.insert(fetched.pc, (shape, known));
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_after_a_load_of_the_same_bytes_is_an_update() {
        let mut fetched = Fetched::default();
        fetched.begin(0x1000, 4).unwrap();
        fetched.access(AccessKind::Load, 64, 8).unwrap();
        fetched.access(AccessKind::Store, 64, 8).unwrap();
        fetched.access(AccessKind::Store, 64, 4).unwrap();
        let expected = [(AccessKind::Update, (64, 8)), (AccessKind::Store, (64, 4))];
        assert_eq!(fetched.accesses(), expected);
        assert_eq!(fetched.plain_class(), OpClass::IntAlu);
    }

    #[test]
    fn a_wide_access_is_cut_where_lines_end() {
        let mut cut = Vec::new();
        pieces(100, 130, |piece| cut.push(piece));
        assert_eq!(cut, [(100, 28), (128, 64), (192, 38)]);
        cut.clear();
        pieces(u64::MAX - 70, 70, |piece| cut.push(piece));
        assert_eq!(cut, [(u64::MAX - 70, 7), (u64::MAX - 63, 63)]);
        cut.clear();
        pieces(100, 64, |piece| cut.push(piece));
        assert_eq!(cut, [(100, 64)], "one access of a vector stays one");
    }

    #[test]
    fn what_no_instruction_does_is_refused() {
        let mut fetched = Fetched::default();
        assert!(
            fetched
                .access(AccessKind::Load, 0, 8)
                .unwrap_err()
                .contains("before")
        );
        assert!(fetched.begin(0, 16).is_err() && fetched.begin(0, 0).is_err());
        fetched.begin(0, 15).unwrap();
        assert!(fetched.access(AccessKind::Load, 0, 0).is_err());
        assert!(fetched.access(AccessKind::Load, u64::MAX, 1).is_err());
        assert!(fetched.access(AccessKind::Load, 0, WIDEST + 1).is_err());
        for n in 0..MOST_PIECES as u64 {
            fetched.access(AccessKind::Load, n * 64, 8).unwrap();
        }
        let problem = fetched.access(AccessKind::Load, 0, 8).unwrap_err();
        assert!(problem.contains("4096 already"), "{problem}");
    }
}
