//! Static instructions, prepared for the core: ports, latencies and padded register lists.

use crate::config::{BranchTargets, CodeFetch, CpuConfig, LoadOperands, MemoryIssue};
use crate::port::HostLine;
use trace::{Inst, OpClass, Reg};

/// Classes of issue ports. The value is the shift of the class's counter in a calendar slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Port {
    Alu = 0,
    Load = 4,
    Store = 8,
    Fp = 12,
    Multiply = 16,
    Branch = 20,
}

/// Register number that is always ready: pads lists of sources.
pub(crate) const READY_REG: u8 = 255;
/// Register number that every store writes and every memory access reads, where those are in order.
pub(crate) const STORE_REG: u8 = 253;
/// Register number that nobody reads: pads lists of destinations.
pub(crate) const SINK_REG: u8 = 254;

/// A static instruction as the core wants it; 24 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    pub(crate) reads: [u8; 4],
    pub(crate) address: [u8; 3],
    pub(crate) writes: [u8; 3],
    pub(crate) port: Port,
    pub(crate) latency: u8,
    pub(crate) flags: u8,
    /// The code line, as a raw [`HostLine`].
    pub(crate) code_line: u32,
    /// The address, folded: the branch predictors' identity of the instruction.
    pub(crate) pc: u32,
}

impl Op {
    /// An instruction that reads, writes and does nothing.
    pub(crate) const NONE: Self = Self {
        reads: [READY_REG; 4],
        address: [READY_REG; 3],
        writes: [SINK_REG; 3],
        port: Port::Alu,
        latency: 0,
        flags: 0,
        code_line: 0,
        pc: 0,
    };
    /// Occupies a port beside its memory accesses.
    pub(crate) const EXECUTES: u8 = 1;
    /// Its direction is predicted.
    pub(crate) const CONDITIONAL: u8 = 2;
    /// Its target is predicted (returns are not: the return stack is perfect).
    pub(crate) const INDIRECT: u8 = 4;
    /// Waits until everything older has retired and drained, and holds back everything younger.
    pub(crate) const SERIALISES: u8 = 8;
    /// Holds its unit until it is done.
    pub(crate) const UNPIPELINED: u8 = 16;
    /// Writes a line back, which its load names.
    pub(crate) const WRITES_BACK: u8 = 32;
    /// Its load waits for everything that it reads.
    pub(crate) const LOADS_LAST: u8 = 64;
    /// Reads more than its first two registers and the first two of its address.
    pub(crate) const READS_MORE: u8 = 128;
    /// Is not dispatched as others are.
    pub(crate) const HELD: u8 = Self::SERIALISES | Self::WRITES_BACK;
    /// Any of the flags that take an instruction off the straight path.
    pub(crate) const SPECIAL: u8 = Self::CONDITIONAL | Self::INDIRECT | Self::SERIALISES;

    pub(crate) const fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn new(inst: &Inst, first_code_line: u32) -> Self {
        let (port, latency, flags) = timing(inst);
        Self {
            reads: inst.reads.map(|reg| number(reg, READY_REG)),
            address: inst.address_reads.map(|reg| number(reg, READY_REG)),
            writes: inst.writes.map(|reg| number(reg, SINK_REG)),
            port,
            latency,
            flags,
            code_line: HostLine::code(first_code_line + inst.code_line.get()).get(),
            pc: (inst.pc ^ inst.pc >> 32) as u32,
        }
        .with_reads_noted()
    }

    /// Notes how much it reads.
    fn with_reads_noted(mut self) -> Self {
        let [_, _, third, fourth] = self.reads;
        let is_more = [third, fourth, self.address[2]] != [READY_REG; 3];
        self.flags = self.flags & !Self::READS_MORE | if is_more { Self::READS_MORE } else { 0 };
        self
    }

    /// The instruction, as cores want it that execute memory accesses in order: behind the last
    /// store, by way of a register. A load with three address registers waits for the store with
    /// its data instead; a store with three destinations, which x86 has not, orders nothing.
    fn in_order(mut self, inst: &Inst) -> Self {
        let put = |list: &mut [u8], empty: u8| {
            let place = list.iter_mut().find(|number| **number == empty);
            place.map(|number| *number = STORE_REG).is_some()
        };
        if inst.loads() || inst.stores() {
            let _ = put(&mut self.address, READY_REG) || put(&mut self.reads, READY_REG);
        }
        if inst.stores() {
            put(&mut self.writes, SINK_REG);
        }
        self
    }
}

fn number(reg: Reg, otherwise: u8) -> u8 {
    if reg.is_none() {
        otherwise
    } else {
        reg.index() as u8
    }
}

/// Port, latency in cycles and flags of an instruction. Latencies are Skylake's (Fog, instruction
/// tables), as in the map that SkyByte's artifact uses: add 1, multiply 3, divide 26.
fn timing(inst: &Inst) -> (Port, u8, u8) {
    const RUNS: u8 = Op::EXECUTES;
    let is_vector = inst
        .writes
        .iter()
        .any(|reg| !reg.is_none() && reg.is_vector());
    let mover = if is_vector { Port::Fp } else { Port::Alu };
    match inst.class {
        OpClass::Nop => (Port::Alu, 0, 0),
        // A move with a memory operand is that access and nothing else.
        OpClass::Move if inst.loads() || inst.stores() => (mover, 0, 0),
        OpClass::Move => (mover, 1, RUNS),
        OpClass::Lea | OpClass::IntAlu => (Port::Alu, 1, RUNS),
        OpClass::IntMul => (Port::Multiply, 3, RUNS),
        OpClass::IntDiv => (Port::Multiply, 26, RUNS | Op::UNPIPELINED),
        OpClass::FpAdd | OpClass::FpMul | OpClass::Fma => (Port::Fp, 4, RUNS),
        OpClass::FpDiv => (Port::Multiply, 14, RUNS | Op::UNPIPELINED),
        OpClass::Simd => (Port::Fp, 1, RUNS),
        OpClass::CondBranch => (Port::Branch, 1, RUNS | Op::CONDITIONAL),
        OpClass::Jump | OpClass::Call | OpClass::Return => (Port::Branch, 1, RUNS),
        OpClass::IndirectJump | OpClass::IndirectCall => (Port::Branch, 1, RUNS | Op::INDIRECT),
        OpClass::Atomic => (Port::Alu, 1, RUNS | Op::SERIALISES),
        OpClass::Fence => (Port::Alu, 1, RUNS | Op::SERIALISES),
        OpClass::Serialising => (Port::Alu, 100, RUNS | Op::SERIALISES),
        OpClass::Syscall => (Port::Alu, 1, RUNS | Op::SERIALISES),
        OpClass::Other => (Port::Alu, 20, RUNS),
        // One that stores besides is no such instruction, and only its accesses are executed.
        OpClass::LineWriteBack if inst.stores() => (mover, 0, 0),
        OpClass::LineWriteBack => (Port::Store, 0, Op::WRITES_BACK),
    }
}

/// The static instructions of one capture. Built once and shared by its threads.
#[derive(Clone, Debug)]
pub struct Program {
    ops: Vec<Op>,
    writes_back: bool,
}

impl Program {
    /// Prepares the instructions of a capture's dictionary, in its order. The capture's code lines
    /// are numbered from `first_code_line`, so that captures of a co-run (D3) do not overlap.
    pub fn new(insts: &[Inst], first_code_line: u32) -> Self {
        let ops = insts.iter().map(|inst| Op::new(inst, first_code_line));
        let ops: Vec<Op> = ops.collect();
        let writes_back = ops.iter().any(|op| op.is(Op::WRITES_BACK));
        Self { ops, writes_back }
    }
    /// Whether any instruction writes a cache line back.
    pub fn writes_back(&self) -> bool {
        self.writes_back
    }
    /// The same instructions for cores of `config`. `insts` are those of [`Program::new`].
    #[must_use]
    pub fn for_cores(mut self, insts: &[Inst], config: &CpuConfig) -> Self {
        if config.code_fetch == CodeFetch::InGroups {
            self.fetch_in_groups(insts);
        }
        for (op, inst) in self.ops.iter_mut().zip(insts) {
            if config.branch_targets == BranchTargets::Perfect {
                op.flags &= !Op::INDIRECT;
            }
            if !config.serialising {
                op.flags &= !Op::SERIALISES;
            }
            if config.load_operands == LoadOperands::All && inst.loads() {
                op.flags |= Op::LOADS_LAST;
            }
            if config.memory_issue == MemoryIssue::InOrder {
                *op = op.in_order(inst).with_reads_noted();
            }
        }
        self
    }
    /// An instruction that follows another one that is no branch is where that one is.
    fn fetch_in_groups(&mut self, insts: &[Inst]) {
        let mut order: Vec<usize> = (0..insts.len()).collect();
        order.sort_by_key(|index| insts[*index].pc);
        for pair in order.windows(2) {
            let (before, inst) = (&insts[pair[0]], &insts[pair[1]]);
            let follows = before.pc + u64::from(before.len) == inst.pc;
            if before.pc == inst.pc || follows && !before.class.is_branch() {
                self.ops[pair[1]].code_line = self.ops[pair[0]].code_line;
            }
        }
    }
    /// Whether an instruction writes a line back (`clwb`): what it has in the place of a load loads
    /// nothing.
    pub fn is_write_back(&self, inst: u32) -> bool {
        self.op(inst).is(Op::WRITES_BACK)
    }
    /// The instruction with this index.
    #[inline]
    pub(crate) fn op(&self, inst: u32) -> Op {
        self.ops[inst as usize]
    }
}
