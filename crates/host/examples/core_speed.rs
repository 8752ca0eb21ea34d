//! Simulated instructions for `valgrind --tool=callgrind`: an L1-resident loop, or one that misses.
//!
//! `core_speed [l1|l2|memory] [instructions]` prints the cycles it took; host instructions per
//! simulated instruction are callgrind's total divided by the instructions, less a run of none.

use host::config::{
    BranchStart, BranchTargets, CodeFetch, L2Victims, LoadOperands, MemoryIssue, StorePolicy,
};
use host::{
    Access, Core, CpuConfig, HostLine, InstructionSource, MissKind, MissSlot, Pause, Program, Step,
    Uncore,
};
use std::collections::VecDeque;
use trace::{CodeLine, Inst, OpClass, Reg, SyncEvent};
use units::{Bytes, CoreId, Cycles, Hertz, Picos, Time};

/// A loop with the mix of ordinary integer code: 25 % loads, 10 % stores, 15 % branches.
fn body() -> Vec<Inst> {
    let reg = Reg::general;
    let add = |pc, to, from: &[u8]| {
        let from: Vec<Reg> = from.iter().map(|number| reg(*number)).collect();
        Inst::new(OpClass::IntAlu, pc, 4)
            .reading(&from)
            .writing(&[reg(to), Reg::FLAGS])
    };
    let load = |pc, to, base| {
        Inst::new(OpClass::Move, pc, 4)
            .addressing(&[reg(base)])
            .writing(&[reg(to)])
            .with_memory(true, false)
    };
    let store = |pc, from, base| {
        Inst::new(OpClass::Move, pc, 4)
            .reading(&[reg(from)])
            .addressing(&[reg(base)])
            .with_memory(false, true)
    };
    let branch = |pc| Inst::new(OpClass::CondBranch, pc, 2).reading(&[Reg::FLAGS]);
    let body = [
        add(0, 1, &[1, 2]),
        load(4, 3, 1),
        add(8, 4, &[3, 4]),
        add(12, 5, &[5]),
        branch(16),
        load(20, 6, 5),
        add(24, 7, &[6, 4]),
        store(28, 7, 5),
        add(32, 2, &[2]),
        add(36, 8, &[8, 2]),
        branch(40),
        load(44, 9, 8),
        add(48, 10, &[9, 10]),
        load(52, 11, 1),
        add(56, 12, &[11, 3]),
        branch(60),
        add(64, 13, &[13]),
        load(68, 14, 13),
        store(72, 14, 2),
        add(76, 15, &[15, 14]),
    ];
    let lines = body.map(|mut inst| {
        inst.code_line = CodeLine::new((inst.pc / 64) as u32);
        inst
    });
    lines.to_vec()
}

struct Loop {
    program: Program,
    at: u64,
    end: u64,
    /// Bytes between the loads of successive iterations, and the bytes that they run over.
    stride: u64,
    footprint: u64,
}

impl InstructionSource for Loop {
    #[inline]
    fn program(&self) -> &Program {
        &self.program
    }
    #[inline]
    fn peek(&mut self) -> Option<Step> {
        if self.at >= self.end {
            return None;
        }
        let (round, inst) = (self.at / 20, (self.at % 20) as u32);
        let byte = ((round * self.stride + u64::from(inst) * 512) % self.footprint) & !7;
        let access = Access::new(byte, 8);
        Some(Step {
            inst,
            load: access.filter(|_| matches!(inst, 1 | 5 | 11 | 13 | 17)),
            store: access.filter(|_| matches!(inst, 7 | 18)),
            taken: inst == 15,
            counts: true,
            has_sync: false,
        })
    }
    fn sync(&mut self) -> Option<SyncEvent> {
        None
    }
    #[inline]
    fn advance(&mut self) {
        self.at += 1;
    }
    fn position(&self) -> u64 {
        self.at
    }
    fn rewind_to(&mut self, position: u64) {
        self.at = position;
    }
}

/// Answers in order, 100 ns after each read.
#[derive(Default)]
struct Memory {
    fills: VecDeque<(Time, MissSlot)>,
    reads: u64,
}

impl Uncore for Memory {
    fn read(&mut self, at: Time, _: CoreId, slot: MissSlot, _: HostLine, _: MissKind) {
        self.fills.push_back((at + Picos::from_nanos(100), slot));
        self.reads += 1;
    }
    fn write_back(&mut self, _: Time, _: CoreId, _: HostLine) {}
    fn persist(&mut self, _: Time, _: CoreId, _: HostLine, _: bool) {}
    fn cancel(&mut self, _: CoreId, _: MissSlot) {}
}

fn config() -> CpuConfig {
    CpuConfig {
        clock: Hertz::new(4_000_000_000),
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
        page_numbers: host::PageNumbering::Canonical,
        split_accesses: true,
        tlb: true,
        page_size: host::MappedPage::Kib4,
        stores: StorePolicy::Posted,
        memory_issue: MemoryIssue::OutOfOrder,
        load_operands: LoadOperands::Address,
        branch_targets: BranchTargets::Predicted,
        l2_victims: L2Victims::Written,
        l2_tlb_latency: Cycles::new(7),
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let kind = args.next().unwrap_or_else(|| "l1".to_string());
    let end = args
        .next()
        .map_or(10_000_000, |count| count.parse().expect("a count"));
    let (stride, footprint) = match kind.as_str() {
        "l1" => (8, 16 << 10),
        "l2" => (64, 256 << 10),
        "memory" => (64, 64 << 20),
        _ => panic!("core_speed [l1|l2|memory] [instructions]"),
    };
    let mut source = Loop {
        program: Program::new(&body(), 0),
        at: 0,
        end,
        stride,
        footprint,
    };
    let mut memory = Memory::default();
    let mut core = Core::new(CoreId::new(0), &config());
    core.start(Time::ZERO);
    let mut now = Time::ZERO;
    loop {
        match core.run(now, now + Picos::from_micros(10), &mut source, &mut memory) {
            Pause::Horizon { at } => now = at,
            Pause::End { .. } => break,
            _ => loop {
                let (at, slot) = memory.fills.pop_front().expect("a fill is coming");
                now = at;
                if core.on_fill(now, slot, &mut source, &mut memory) {
                    break;
                }
            },
        }
        // Fills that came while the core ran on.
        while memory.fills.front().is_some_and(|(at, _)| *at <= now) {
            let (at, slot) = memory.fills.pop_front().expect("just seen");
            core.on_fill(at, slot, &mut source, &mut memory);
        }
    }
    let stats = core.stats();
    let bound = stats.memory_bound_cycles * 100 / stats.active_cycles.max(1);
    println!(
        "{kind}: {} instructions in {} cycles, {bound} % memory bound, {} L1D misses, {} reads",
        stats.instructions, stats.active_cycles, stats.l1d_misses, memory.reads
    );
}
