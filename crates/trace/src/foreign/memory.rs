//! Instructions for sources that say only which bytes were accessed: a load, a store, an update,
//! and simple work for the time between them.
//!
//! The code is a straight run of [`RUN`] one-cycle operations and one instruction for each kind of
//! access: time is a jump into the run. Blocks repeat, and cost almost nothing.

use super::Dependencies;
use crate::assembler::{Assembler, Known};
use crate::dictionary::AccessKind;
use crate::inst::{Inst, OpClass, Reg};
use crate::writer::Operand;
use units::ThreadId;

/// Where the made-up code stands.
const CODE: u64 = 0x40_0000;
/// Operations of the run that stands for time.
const RUN: u64 = 32;
/// Instructions without an access that are taken for work; a longer gap was spent waiting.
const LONGEST_GAP: u64 = 1_000_000;

/// What is assumed of a source without registers, for the capture's provenance.
pub(super) fn note(dependencies: Dependencies) -> String {
    match dependencies {
        Dependencies::None => {
            "no registers in the source: every access is independent (dependencies = none)"
        }
        Dependencies::Chain => {
            "no registers in the source: the address of every access depends on the load before \
             it in its thread (dependencies = chain)"
        }
    }
    .into()
}

/// The made-up instructions.
pub(super) struct MemoryOnly {
    work: Vec<Known>,
    load: Known,
    store: Known,
    both: Known,
    syscall: Known,
    dependencies: Dependencies,
    cut_gaps: u64,
}

impl MemoryOnly {
    /// Instructions whose addresses depend on what `dependencies` says.
    pub(super) fn new(out: &mut Assembler, dependencies: Dependencies) -> Self {
        let alu = |n| Inst::new(OpClass::IntAlu, CODE + 4 * n, 4);
        let work = (0..RUN).map(|n| out.intern(alu(n), "work")).collect();
        let value = Reg::general(0);
        let base: &[Reg] = match dependencies {
            Dependencies::None => &[],
            Dependencies::Chain => &[value],
        };
        let mut access = |n: u64, loads, stores, mnemonic| {
            let inst = Inst::new(OpClass::Move, CODE + 4 * (RUN + n), 4).with_memory(loads, stores);
            let inst = inst.addressing(base);
            let inst = if loads { inst.writing(&[value]) } else { inst };
            out.intern(inst, mnemonic)
        };
        let (load, store) = (
            access(0, true, false, "load"),
            access(1, false, true, "store"),
        );
        let both = access(2, true, true, "update");
        let syscall = Inst::new(OpClass::Syscall, CODE + 4 * (RUN + 3), 2);
        Self {
            work,
            load,
            store,
            both,
            syscall: out.intern(syscall, "syscall"),
            dependencies,
            cut_gaps: 0,
        }
    }
    /// So many instructions without an access.
    pub(super) fn gap(&mut self, out: &mut Assembler, thread: ThreadId, instructions: u64) {
        self.cut_gaps += u64::from(instructions > LONGEST_GAP);
        self.work(out, thread, instructions.min(LONGEST_GAP));
    }
    /// Exactly so many instructions without an access.
    pub(super) fn work(&self, out: &mut Assembler, thread: ThreadId, instructions: u64) {
        let first = (RUN - instructions % RUN) % RUN;
        let runs = instructions.div_ceil(RUN);
        for n in first..runs * RUN {
            out.execute(thread, self.work[(n % RUN) as usize], &[]);
        }
    }
    /// One instruction with these accesses.
    pub(super) fn access(
        &self,
        out: &mut Assembler,
        thread: ThreadId,
        accesses: &[(AccessKind, Operand)],
    ) {
        let has = |not: AccessKind| accesses.iter().any(|access| access.0 != not);
        let inst = match (has(AccessKind::Store), has(AccessKind::Load)) {
            (true, true) => self.both,
            (false, true) => self.store,
            _ => self.load,
        };
        out.execute(thread, inst, accesses);
    }
    /// One instruction with which `parent` starts `child`.
    pub(super) fn create(&self, out: &mut Assembler, parent: ThreadId, child: ThreadId) {
        out.create(parent, self.syscall, child);
    }
    /// What was assumed, for the capture's provenance.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = vec![note(self.dependencies)];
        if self.cut_gaps > 0 {
            notes.push(format!(
                "{} gaps of more than {LONGEST_GAP} instructions without an access are waiting, \
                 cut to that",
                self.cut_gaps
            ));
        }
        notes
    }
}
