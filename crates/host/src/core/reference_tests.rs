//! The core against the plainest model of the same machine: every cycle computed from formulas in
//! program order, with the latency of every miss known in advance and more ports than can be used.

use super::testing::*;
use super::*;
use crate::port::Step;
use proptest::prelude::*;
use trace::{Inst, OpClass, Reg};

const ROB: usize = 8;
const QUEUE: usize = 3;
const MEMORY: u64 = 150;
/// Lines from here on are cold, and each is used once.
const COLD: u64 = 1 << 14;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Add,
    Multiply,
    Load { word: u64 },
    Miss,
    Store { word: u64 },
    WriteBack,
    Branch { taken: bool },
    Fence,
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        3 => Just(Kind::Add),
        2 => Just(Kind::Multiply),
        2 => (0u64..4).prop_map(|word| Kind::Load { word }),
        2 => Just(Kind::Miss),
        2 => (0u64..4).prop_map(|word| Kind::Store { word }),
        1 => Just(Kind::WriteBack),
        2 => any::<bool>().prop_map(|taken| Kind::Branch { taken }),
        1 => Just(Kind::Fence),
    ]
}

fn machine() -> CpuConfig {
    CpuConfig {
        rob: ROB as u32,
        load_queue: QUEUE as u32,
        store_queue: QUEUE as u32,
        alu_ports: 7,
        load_ports: 7,
        store_ports: 7,
        fp_ports: 7,
        branch_ports: 7,
        l1d_mshrs: 64,
        ..config()
    }
}

/// Plain lists of when everything happened.
#[derive(Default)]
struct Reference {
    regs: [u64; 8],
    free_from: Vec<u64>,
    loads: Vec<u64>,
    /// Word, data, written.
    stores: Vec<(u64, u64, u64)>,
    /// When lines were sent to memory, and whether they were dirty.
    persists: Vec<(u64, bool)>,
    is_dirty: bool,
    front: (u64, u64),
    retired: (u64, u64),
    last_drain: u64,
}

impl Reference {
    fn advance(slot: &mut (u64, u64), at: u64) -> u64 {
        if at > slot.0 {
            *slot = (at, 0);
        } else if slot.1 == 4 {
            *slot = (slot.0 + 1, 0);
        }
        slot.1 += 1;
        slot.0
    }
    fn back(list: &[u64], count: usize) -> u64 {
        list.len().checked_sub(count).map_or(0, |index| list[index])
    }
    fn execute(&mut self, kind: Kind, to: usize, from: usize, predictor: &mut BranchPredictor) {
        let is_load = matches!(kind, Kind::Load { .. } | Kind::Miss);
        let is_store = matches!(kind, Kind::Store { .. } | Kind::WriteBack);
        let mut at = Self::back(&self.free_from, ROB);
        if is_load {
            at = at.max(Self::back(&self.loads, QUEUE));
        }
        let written: Vec<u64> = self.stores.iter().map(|store| store.2).collect();
        if is_store {
            at = at.max(Self::back(&written, QUEUE));
        }
        if matches!(kind, Kind::Fence) {
            at = at
                .max(self.retired.0)
                .max(written.last().copied().unwrap_or(0))
                .max(self.acknowledged());
        }
        let at = Self::advance(&mut self.front, at);
        let ready = (at + 1).max(self.regs[from]);
        let done = match kind {
            Kind::Add | Kind::Fence | Kind::Branch { .. } => ready + 1,
            Kind::Multiply => ready + 4,
            Kind::Load { word } => ready.max(self.in_flight(word, ready)) + 4,
            Kind::Miss => ready + 14 + MEMORY,
            Kind::Store { .. } => ready.max(self.regs[to]) + 1,
            Kind::WriteBack => ready + 1,
        };
        match kind {
            Kind::Branch { taken } if !predictor.direction(0, taken) => {
                self.front_not_before(done + 15);
            }
            Kind::Fence => self.front_not_before(done),
            Kind::Add | Kind::Multiply | Kind::Load { .. } | Kind::Miss => self.regs[to] = done,
            _ => {}
        }
        let retired = Self::advance(&mut self.retired, done);
        self.free_from.push(retired + 1);
        if is_load {
            self.loads.push(retired + 1);
        }
        if let Kind::Store { word } = kind {
            self.last_drain = retired.max(self.last_drain) + 1;
            self.stores.push((word, done, self.last_drain + 1));
            self.is_dirty = true;
        }
        if kind == Kind::WriteBack {
            self.last_drain = retired.max(self.last_drain) + 1;
            // Its entry is free as soon as it has retired, but not before the one ahead of it.
            let before = self.stores.last().map_or(0, |store| store.2);
            self.stores.push((u64::MAX, done, retired.max(before)));
            self.persists.push((self.last_drain + 14, self.is_dirty));
            self.is_dirty = false;
        }
    }
    /// When every line sent so far is acknowledged.
    fn acknowledged(&self) -> u64 {
        let sent = self.persists.iter().map(|persist| persist.0 + MEMORY);
        sent.max().unwrap_or(0)
    }
    fn front_not_before(&mut self, cycle: u64) {
        if cycle > self.front.0 {
            self.front = (cycle, 0);
        }
    }
    /// When the data of the youngest store to `word` is there, if it is in flight at `at`.
    fn in_flight(&self, word: u64, at: u64) -> u64 {
        let youngest = self.stores.iter().rev().find(|store| store.0 == word);
        youngest
            .filter(|store| store.2 > at)
            .map_or(0, |store| store.1)
    }
}

fn instruction(kind: Kind, to: u8, from: u8) -> Inst {
    match kind {
        Kind::Add => add(to, &[from]),
        Kind::Multiply => Inst::new(OpClass::FpMul, 0, 4)
            .reading(&[reg(from)])
            .writing(&[reg(to)]),
        Kind::Load { .. } | Kind::Miss => load(to, from),
        Kind::Store { .. } => store(to, from),
        Kind::WriteBack => write_back(from),
        Kind::Branch { .. } => Inst::new(OpClass::CondBranch, 0, 2).reading(&[reg(from)]),
        Kind::Fence => Inst::new(OpClass::Fence, 0, 3)
            .reading(&[reg(from)])
            .writing(&[Reg::NONE]),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_core_agrees_with_formulas_in_program_order(
        program in prop::collection::vec((kind(), 0u8..8, 0u8..8), 1..150),
    ) {
        let mut reference = Reference::default();
        let mut predictor = BranchPredictor::new(16, crate::config::BranchStart::NotTaken);
        let (mut insts, mut steps) = (Vec::new(), Vec::new());
        for (number, (kind, to, from)) in (0..).zip(&program) {
            reference.execute(*kind, usize::from(*to), usize::from(*from), &mut predictor);
            insts.push(instruction(*kind, *to, *from));
            let bare = step(number, None, None);
            steps.push(match *kind {
                Kind::Load { word } => Step { load: at(word * 8), ..bare },
                Kind::Miss => Step { load: at(COLD + u64::from(number) * 64), ..bare },
                Kind::Store { word } => Step { store: at(word * 8), ..bare },
                Kind::WriteBack => Step { load: at(0), ..bare },
                Kind::Branch { taken } => Step { taken, ..bare },
                _ => bare,
            });
        }
        let mut source = Script::new(&insts, steps);
        let mut core = warmed(&machine(), &mut Script::straight(&[(load(1, 2), at(0), None)]));
        (0..8).for_each(|page| core.caches.tlb.insert(page));
        let mut memory = Memory::new(MEMORY);
        let end = cycles(&mut core, &mut source, &mut memory);
        prop_assert_eq!(end, reference.retired.0);
        let persists = memory.persists.iter().map(|(at, _, is_dirty)| (*at, *is_dirty));
        prop_assert_eq!(persists.collect::<Vec<_>>(), reference.persists);
    }
}
