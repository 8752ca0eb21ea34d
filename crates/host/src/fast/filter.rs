//! The filter: one walk through a thread, for all devices.
//!
//! The thread has a core for itself whose every L1 miss is found in L2. So each instruction is
//! executed on the spot, and beside the cycle in which a value is there the filter knows the
//! records that it would wait for if their lines came later.

mod functional;
mod memory;
#[cfg(test)]
mod tests;

use super::origin::Origin;
use super::stream::{Dependence, FilterCounts, Kind, MOST_DEPENDENCES, Record, Stream};
use crate::branch::{BranchPredictor, TargetPrediction};
use crate::cache::CacheArray;
use crate::config::CpuConfig;
use crate::core::calendar::Calendar;
use crate::port::{HostLine, InstructionSource, Step};
use crate::program::{Op, Port, READY_REG, SINK_REG};
use crate::tlb::Tlb;
use trace::SyncEvent;

/// Pieces from one record to the next at most.
const MOST_PIECES: u8 = 64;
/// Entries of the table by which loads find stores in flight.
const WORDS: usize = 1024;
/// Pieces after which a line that L1D has is asked for again: another thread may have been on the
/// core meanwhile.
const RENEWAL: u32 = 1024;
/// Instructions at the end of warm-up that the filter executes as those behind, so that what waits
/// for what is known where time begins.
const RUN_UP: u64 = 4096;

/// Filters a thread from its start to its end. Its first `warmup` instructions are for functional
/// warm-up alone. `config` is one that the fast mode accepts.
pub fn filter<S: InstructionSource>(source: &mut S, config: &CpuConfig, warmup: u64) -> Stream {
    let mut filter = Filter::new(config);
    filter.pass(source, warmup.saturating_sub(RUN_UP));
    while let Some(step) = source.peek() {
        let op = source.program().op(step.inst);
        filter.resolve_target(&step);
        filter.count(&step);
        filter.fetch(op.code_line);
        match step.has_sync.then(|| source.sync()).flatten() {
            Some(event) => filter.sync(event),
            None => filter.execute(&step, &op),
        }
        source.advance();
    }
    filter.finish()
}

/// The youngest record that pieces since the last record wait for, and the slots from when it is
/// complete to when piece 0 would retire, if there were one in each slot before the latest of them.
#[derive(Clone, Copy, Default)]
struct Held {
    record: u32,
    until: i64,
    is_known: bool,
}

impl Held {
    /// A piece is complete with this value.
    #[inline]
    fn until(&mut self, value: &Origin, piece: u32, width: u64) {
        if let Some((record, after)) = value.youngest() {
            let until = (u64::from(after) * width) as i64 - i64::from(piece);
            if !self.is_known || record > self.record {
                (self.record, self.until, self.is_known) = (record, until, true);
            } else if record == self.record {
                self.until = self.until.max(until);
            }
        }
    }
    /// As a dependence of the record of `piece`.
    fn dependence(self, number: u32, piece: u32) -> Dependence {
        match self.is_known {
            false => Dependence::NONE,
            true => Dependence {
                back: u16::try_from(number - self.record).unwrap_or(0),
                after: (self.until + i64::from(piece)).clamp(0, u16::MAX.into()) as u16,
            },
        }
    }
}

/// What was counted since the last record.
#[derive(Clone, Copy, Default)]
struct Pending {
    pieces: u8,
    instructions: u8,
    loads: u8,
    stores: u8,
    held: Held,
}

/// Which record brought a line of L1D, for which piece, and when it is there.
#[derive(Clone)]
struct Brought {
    record: u32,
    piece: u32,
    ready: u64,
    by_store: bool,
    /// What the record waits for.
    asked: Origin,
}

impl Brought {
    const LONG_AGO: Self = Self {
        record: 0,
        piece: 0,
        ready: 0,
        by_store: false,
        asked: Origin::at(0),
    };
}

/// A store that loads may still find in flight.
#[derive(Clone)]
struct Forward {
    word: u64,
    piece: u32,
    data: Origin,
}

/// A pipeline end that takes so many pieces a cycle.
struct Slots {
    cycle: u64,
    used: u64,
    width: u64,
}

impl Slots {
    fn not_before(&mut self, cycle: u64) {
        if cycle > self.cycle {
            (self.cycle, self.used) = (cycle, 0);
        }
    }
    /// Takes the first slot and gives its cycle.
    fn take(&mut self) -> u64 {
        let cycle = self.cycle;
        self.used += 1;
        if self.used == self.width {
            (self.cycle, self.used) = (self.cycle + 1, 0);
        }
        cycle
    }
    /// The number of the first slot that is free.
    fn now(&self) -> u64 {
        self.cycle * self.width + self.used
    }
}

struct Filter {
    rob: u32,
    l1d_latency: u64,
    l2_latency: u64,
    l2_tlb_latency: u64,
    penalty: u64,
    l1i: CacheArray,
    l1d: CacheArray,
    brought: Vec<Brought>,
    tlb: Tlb,
    predictor: BranchPredictor,
    target: Option<(TargetPrediction, Origin)>,
    calendar: Calendar,
    front: Slots,
    retirement: Slots,
    /// From when on the slot of each of the last `rob` pieces is free.
    free_from: Vec<u64>,
    /// Which of them is the slot of the piece that is being dispatched.
    place: usize,
    /// The piece that is being dispatched.
    piece: u32,
    /// The slot in which the latest piece was dispatched.
    slot: u64,
    code_line: u32,
    registers: Box<[Origin; 256]>,
    forwards: Vec<Forward>,
    pending: Pending,
    /// Slot of the last record.
    last_slot: u64,
    counts: FilterCounts,
    stream: Stream,
}

impl Filter {
    fn new(config: &CpuConfig) -> Self {
        let width = u64::from(config.width);
        let slots = || Slots {
            cycle: 0,
            used: 0,
            width,
        };
        let l1d = CacheArray::new(config.l1d, config.l1d_ways);
        let nothing = Forward {
            word: u64::MAX,
            piece: 0,
            data: Origin::at(0),
        };
        Self {
            rob: config.rob,
            l1d_latency: config.l1d_latency.get(),
            l2_latency: config.l2_latency.get(),
            l2_tlb_latency: config.l2_tlb_latency.get(),
            penalty: config.mispredict_penalty.get(),
            l1i: CacheArray::new(config.l1i, config.l1i_ways),
            brought: vec![Brought::LONG_AGO; l1d.place_count()],
            l1d,
            tlb: match config.tlb {
                true => Tlb::new(config.l1_tlb, config.l2_tlb, config.page_size),
                false => Tlb::perfect(config.page_size),
            },
            predictor: BranchPredictor::new(config.history_bits, config.branch_start),
            target: None,
            calendar: Calendar::new(config),
            front: slots(),
            retirement: slots(),
            free_from: vec![0; config.rob as usize],
            place: 0,
            // So that nothing is recent at the start.
            piece: 2 * config.rob,
            slot: 0,
            code_line: HostLine::NONE,
            registers: Box::new([const { Origin::at(0) }; 256]),
            forwards: vec![nothing; WORDS],
            pending: Pending::default(),
            last_slot: 0,
            counts: FilterCounts::default(),
            stream: Stream {
                records: Vec::new(),
                syncs: Vec::new(),
                marks: Vec::new(),
            },
        }
    }

    fn count(&mut self, step: &Step) {
        if self.pending.pieces >= MOST_PIECES || step.has_sync {
            self.emit(Kind::Pad, 0, 0, &Origin::at(0));
        }
        self.pending.pieces += 1;
        self.pending.instructions += u8::from(step.counts);
        self.pending.loads += u8::from(step.load.is_some());
        self.pending.stores += u8::from(step.store.is_some());
        self.piece += 1;
    }

    /// The oldest piece that may not have retired when this one is dispatched.
    fn oldest(&self) -> u32 {
        self.piece - self.rob
    }

    /// Writes a record of the piece that is being dispatched; gives its number.
    fn emit(&mut self, kind: Kind, line: u32, ready: u64, waits: &Origin) -> u32 {
        let number = self.stream.records.len();
        if number.is_multiple_of(Stream::MARK) {
            self.stream.marks.push(self.counts);
        }
        let number = u32::try_from(number).expect("a thread has less than 2^32 records");
        let Pending {
            pieces,
            instructions,
            loads,
            stores,
            held,
        } = std::mem::take(&mut self.pending);
        // What does not fit is told by the next record.
        let gap = self
            .slot
            .saturating_sub(self.last_slot)
            .min(u16::MAX.into());
        let late = ready.saturating_sub(self.slot / self.front.width);
        self.last_slot += gap;
        self.stream.records.push(Record {
            line,
            gap: gap as u16,
            age: 0,
            depends: waits.dependences(number, self.oldest()),
            held: held.dependence(number, self.piece),
            pieces,
            instructions,
            loads,
            stores,
            late: u16::try_from(late).unwrap_or(u16::MAX),
            kind,
        });
        number
    }

    fn finish(mut self) -> Stream {
        self.emit(Kind::End, 0, 0, &Origin::at(0));
        self.stream.records.shrink_to_fit();
        self.stream.marks.push(self.counts);
        self.stream
    }

    fn resolve_target(&mut self, step: &Step) {
        if let Some((prediction, done)) = self.target.take() {
            self.counts.branches += 1;
            if !self.predictor.resolve(prediction, step.inst) {
                self.mispredict(&done);
            }
        }
    }

    fn mispredict(&mut self, done: &Origin) {
        self.counts.mispredicts += 1;
        let mut done = done.clone();
        done.delay_to(done.ready + self.penalty, self.penalty);
        self.hold_front(&done);
    }

    /// Nothing more is dispatched before a value is there.
    fn hold_front(&mut self, until: &Origin) {
        self.front.not_before(until.ready);
        let none = [Default::default(); MOST_DEPENDENCES];
        if until.dependences(self.next_record(), self.oldest()) != none {
            self.emit(Kind::Branch, 0, until.ready, until);
            self.last_slot = self.front.now();
        }
    }

    fn next_record(&self) -> u32 {
        self.stream.records.len() as u32
    }

    fn fetch(&mut self, line: u32) {
        if line == self.code_line {
            return;
        }
        self.code_line = line;
        let line = HostLine::from_raw(line);
        if self.l1i.access(line).is_some() {
            self.counts.l1i_hits += 1;
            return;
        }
        self.slot = self.slot.max(self.front.now());
        let until = self.front.cycle + self.l2_latency;
        self.emit(Kind::Fetch, line.get(), until, &Origin::at(0));
        self.l1i.fill(line, false);
        self.front.not_before(until);
        self.last_slot = self.front.now();
    }

    /// Takes a slot of the front end for the piece, at this cycle or later.
    fn dispatch(&mut self, from: u64) -> u64 {
        self.front.not_before(from.max(self.free_from[self.place]));
        self.slot = self.front.now();
        self.front.take()
    }

    fn retire(&mut self, done: u64) {
        self.retirement.not_before(done);
        self.free_from[self.place] = self.retirement.take() + 1;
        self.place += 1;
        if self.place == self.free_from.len() {
            self.place = 0;
        }
    }

    fn sync(&mut self, event: SyncEvent) {
        let cycle = self.dispatch(self.retirement.cycle);
        self.emit_sync(event);
        self.retire(cycle);
        self.front.not_before(cycle);
    }

    fn emit_sync(&mut self, event: SyncEvent) {
        let number = self.stream.syncs.len() as u32;
        self.stream.syncs.push(event);
        self.emit(Kind::Sync, number, 0, &Origin::at(0));
    }

    fn execute(&mut self, step: &Step, op: &Op) {
        let drains = op.is(Op::SERIALISES);
        let at = self.dispatch(if drains { self.retirement.cycle } else { 0 });
        if drains {
            self.emit(Kind::Drain, 0, 0, &Origin::at(0));
        }
        let mut value = Origin::at(at + 1);
        self.join_registers(&mut value, &op.reads);
        match step.load {
            Some(load) => {
                let mut loaded = Origin::at(at + 1);
                self.join_registers(&mut loaded, &op.address);
                if op.is(Op::LOADS_LAST) {
                    self.join_registers(&mut loaded, &op.reads);
                }
                let issue = self.calendar.book(Port::Load, loaded.ready);
                loaded.delay_to(issue, 0);
                self.load(load, &mut loaded);
                value.join(&loaded, self.oldest());
            }
            None => self.join_registers(&mut value, &op.address),
        }
        if op.is(Op::EXECUTES) {
            let done = self.calendar.execute(op, value.ready);
            value.delay_to(done, u64::from(op.latency));
        }
        if let Some(store) = step.store {
            let issue = self.calendar.book(Port::Store, value.ready);
            value.delay_to(issue + 1, 1);
            self.store(store, &value);
        }
        for register in op.writes {
            if register != SINK_REG {
                self.registers[usize::from(register)].set(&value);
            }
        }
        if op.is(Op::SPECIAL) {
            self.steer(step, op, &value);
        }
        self.pending
            .held
            .until(&value, self.piece, self.front.width);
        self.retire(value.ready);
    }

    fn join_registers(&self, origin: &mut Origin, registers: &[u8]) {
        for register in registers {
            if *register != READY_REG {
                origin.join(&self.registers[usize::from(*register)], self.oldest());
            }
        }
    }

    fn steer(&mut self, step: &Step, op: &Op, done: &Origin) {
        if op.is(Op::CONDITIONAL) {
            self.counts.branches += 1;
            if !self.predictor.direction(op.pc, step.taken) {
                self.mispredict(done);
            }
        }
        if op.is(Op::INDIRECT) {
            self.target = Some((self.predictor.target(op.pc), done.clone()));
        }
        if op.is(Op::SERIALISES) {
            self.hold_front(done);
        }
    }
}
