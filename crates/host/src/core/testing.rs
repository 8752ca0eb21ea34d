//! Synthetic instructions and a memory of fixed latency, for tests.

use crate::config::{
    BranchStart, BranchTargets, CodeFetch, CpuConfig, L2Victims, LoadOperands, MemoryIssue,
    StorePolicy,
};
use crate::core::Core;
use crate::pages::MappedPage;
use crate::port::{
    Access, HostLine, InstructionSource, MissKind, MissSlot, Pause, Step, Uncore, WarmUncore,
};
use crate::program::Program;
use std::collections::{BTreeMap, BTreeSet};
use trace::{DurationClass, Inst, OpClass, Reg, SyncEvent};
use units::{Bytes, CoreId, Cycles, Hertz, Time};

/// SkyByte Table II with the defaults that this crate proposes, at one picosecond a cycle, so that
/// cycles and picoseconds are the same number.
pub(crate) fn config() -> CpuConfig {
    CpuConfig {
        clock: Hertz::new(1_000_000_000_000),
        cores: 8,
        width: 4,
        fetch_ahead: 0,
        rob: 256,
        load_queue: 128,
        store_queue: 128,
        alu_ports: 4,
        load_ports: 2,
        store_ports: 1,
        fp_ports: 2,
        alu_scheduler: 0,
        alu_queue: 32,
        memory_scheduler: 0,
        memory_queue: 16,
        fp_scheduler: 0,
        fp_queue: 32,
        branch_ports: 2,
        mispredict_penalty: Cycles::new(15),
        branch_start: BranchStart::NotTaken,
        code_fetch: CodeFetch::EachLine,
        history_bits: 16,
        l1i: Bytes::from_kib(32),
        l1i_ways: 8,
        l1d: Bytes::from_kib(32),
        l1d_ways: 8,
        l1d_latency: Cycles::new(4),
        l1d_mshrs: 8,
        store_grants: 0,
        l2: Bytes::from_kib(512),
        l2_ways: 32,
        l2_latency: Cycles::new(10),
        l2_mshrs: 128,
        l3: Bytes::from_mib(16),
        l3_ways: 16,
        l3_hop: Cycles::new(0),
        l3_latency: Cycles::new(40),
        l3_mshrs: 1024,
        l1_tlb: 64,
        l2_tlb: 1536,
        memory_latency: Cycles::new(0),
        l3_interval: Cycles::new(0),
        serialising: true,
        page_numbers: crate::PageNumbering::Canonical,
        split_accesses: true,
        tlb: true,
        page_size: MappedPage::Kib4,
        stores: StorePolicy::Posted,
        memory_issue: MemoryIssue::OutOfOrder,
        load_operands: LoadOperands::Address,
        branch_targets: BranchTargets::Predicted,
        l2_victims: L2Victims::Written,
        l2_tlb_latency: Cycles::new(7),
    }
}

pub(crate) fn reg(number: u8) -> Reg {
    Reg::general(number)
}

/// A list of steps, and the instructions that they execute.
pub(crate) struct Script {
    program: Program,
    pub(crate) steps: Vec<Step>,
    next: usize,
}

impl Script {
    pub(crate) fn new(insts: &[Inst], steps: Vec<Step>) -> Self {
        Self {
            program: Program::new(insts, 0),
            steps,
            next: 0,
        }
    }
    /// The same for cores of `config`.
    pub(crate) fn for_cores(self, insts: &[Inst], config: &CpuConfig) -> Self {
        Self {
            program: self.program.for_cores(insts, config),
            ..self
        }
    }
    /// Every instruction once, in order, with these accesses.
    pub(crate) fn straight(pieces: &[(Inst, Option<Access>, Option<Access>)]) -> Self {
        let insts: Vec<Inst> = pieces.iter().map(|piece| piece.0).collect();
        let steps = (0..)
            .zip(pieces)
            .map(|(inst, piece)| step(inst, piece.1, piece.2))
            .collect();
        Self::new(&insts, steps)
    }
    /// `count` times the instructions of a loop body without memory accesses.
    pub(crate) fn repeat(body: &[Inst], count: usize) -> Self {
        let steps = (0..count).flat_map(|_| (0..body.len() as u32).map(|n| step(n, None, None)));
        Self::new(body, steps.collect())
    }
}

pub(crate) fn step(inst: u32, load: Option<Access>, store: Option<Access>) -> Step {
    Step {
        inst,
        load,
        store,
        taken: false,
        counts: true,
        has_sync: false,
    }
}

pub(crate) fn at(byte: u64) -> Option<Access> {
    Access::new(byte, 8)
}

impl InstructionSource for Script {
    fn program(&self) -> &Program {
        &self.program
    }
    fn peek(&mut self) -> Option<Step> {
        self.steps.get(self.next).copied()
    }
    fn sync(&mut self) -> Option<SyncEvent> {
        let syscall = SyncEvent::Syscall {
            number: 1,
            duration: DurationClass::from_log2(9),
        };
        self.steps
            .get(self.next)
            .filter(|step| step.has_sync)
            .map(|_| syscall)
    }
    fn advance(&mut self) {
        self.next += 1;
    }
    fn position(&self) -> u64 {
        self.next as u64
    }
    fn rewind_to(&mut self, position: u64) {
        self.next = position as usize;
    }
}

/// A memory that answers every read and write-back after `latency`.
pub(crate) struct Memory {
    pub(crate) latency: u64,
    pub(crate) fills: BTreeMap<(u64, u64), MissSlot>,
    pub(crate) reads: Vec<(u64, HostLine, MissKind)>,
    pub(crate) write_backs: Vec<HostLine>,
    /// Lines written back: when, and whether they were dirty.
    pub(crate) persists: Vec<(u64, HostLine, bool)>,
    /// When they will be acknowledged, and their number.
    pub(crate) acknowledgements: BTreeSet<(u64, usize)>,
    pub(crate) cancelled: Vec<MissSlot>,
}

impl Memory {
    pub(crate) fn new(latency: u64) -> Self {
        Self {
            latency,
            fills: BTreeMap::new(),
            reads: Vec::new(),
            write_backs: Vec::new(),
            persists: Vec::new(),
            acknowledgements: BTreeSet::new(),
            cancelled: Vec::new(),
        }
    }
}

impl Uncore for Memory {
    fn read(&mut self, at: Time, _: CoreId, slot: MissSlot, line: HostLine, kind: MissKind) {
        let at = at.as_picos();
        self.fills
            .insert((at + self.latency, self.reads.len() as u64), slot);
        self.reads.push((at, line, kind));
    }
    fn write_back(&mut self, _: Time, _: CoreId, line: HostLine) {
        self.write_backs.push(line);
    }
    fn persist(&mut self, at: Time, _: CoreId, line: HostLine, is_dirty: bool) {
        let at = at.as_picos();
        self.acknowledgements
            .insert((at + self.latency, self.persists.len()));
        self.persists.push((at, line, is_dirty));
    }
    fn cancel(&mut self, _: CoreId, slot: MissSlot) {
        self.fills.retain(|_, waiting| *waiting != slot);
        self.cancelled.push(slot);
    }
}

impl WarmUncore for Memory {
    fn read(&mut self, _: CoreId, line: HostLine, kind: MissKind) {
        self.reads.push((0, line, kind));
    }
    fn persist(&mut self, _: CoreId, line: HostLine, is_dirty: bool) {
        self.persists.push((0, line, is_dirty));
    }
    fn write_back(&mut self, _: CoreId, line: HostLine) {
        self.write_backs.push(line);
    }
}

/// Gives the core its fills and acknowledgements until `run` returns something other than
/// `Waiting`.
pub(crate) fn run_until_pause(
    core: &mut Core,
    now: Time,
    source: &mut Script,
    memory: &mut Memory,
) -> Pause {
    let mut pause = core.run(now, Time::MAX, source, memory);
    while pause == Pause::Waiting {
        let (now, goes_on) = answer(core, source, memory);
        if goes_on {
            pause = core.run(now, Time::MAX, source, memory);
        }
        assert_eq!(core.audit(), Vec::<String>::new());
    }
    pause
}

/// The next fill or acknowledgement comes: when, and whether the core goes on.
fn answer(core: &mut Core, source: &mut Script, memory: &mut Memory) -> (Time, bool) {
    let fill = memory.fills.first_key_value().map(|((at, _), _)| *at);
    let acknowledged = memory.acknowledgements.first().map(|(at, _)| *at);
    if let Some(at) = acknowledged.filter(|at| fill.is_none_or(|fill| *at < fill)) {
        memory.acknowledgements.pop_first();
        let now = Time::from_picos(at);
        return (now, core.on_persisted(now));
    }
    let ((at, _), slot) = memory
        .fills
        .pop_first()
        .expect("a waiting core has an answer coming");
    let now = Time::from_picos(at);
    (now, core.on_fill(now, slot, source, memory))
}

/// A core that has executed `source` functionally, so that everything it touches is cached as far
/// as it fits, and has forgotten what it counted.
pub(crate) fn warmed(config: &CpuConfig, source: &mut Script) -> Core {
    let mut core = Core::new(CoreId::new(0), config);
    let mut memory = Memory::new(0);
    while source.peek().is_some() {
        core.warm(source, &mut memory);
        source.advance();
    }
    source.rewind_to(0);
    core.reset_stats();
    core
}

/// Cycles from the start of the thread to its last retirement.
pub(crate) fn cycles(core: &mut Core, source: &mut Script, memory: &mut Memory) -> u64 {
    core.start(Time::ZERO);
    match run_until_pause(core, Time::ZERO, source, memory) {
        Pause::End { at } => at.as_picos(),
        pause => panic!("the thread ends, not {pause:?}"),
    }
}

/// An addition that reads and writes registers.
pub(crate) fn add(write: u8, reads: &[u8]) -> Inst {
    let reads: Vec<Reg> = reads.iter().map(|number| reg(*number)).collect();
    Inst::new(OpClass::IntAlu, 0, 4)
        .reading(&reads)
        .writing(&[reg(write)])
}

/// A load through a register.
pub(crate) fn load(write: u8, address: u8) -> Inst {
    Inst::new(OpClass::Move, 0, 4)
        .addressing(&[reg(address)])
        .writing(&[reg(write)])
        .with_memory(true, false)
}

/// A store of a register through a register.
pub(crate) fn store(read: u8, address: u8) -> Inst {
    Inst::new(OpClass::Move, 0, 4)
        .reading(&[reg(read)])
        .addressing(&[reg(address)])
        .with_memory(false, true)
}

/// A write-back of the line that a register points to.
pub(crate) fn write_back(address: u8) -> Inst {
    Inst::new(OpClass::LineWriteBack, 0, 5)
        .addressing(&[reg(address)])
        .with_memory(true, false)
}

/// A memory fence.
pub(crate) fn fence() -> Inst {
    Inst::new(OpClass::Fence, 0, 3)
}
