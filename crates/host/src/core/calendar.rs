//! When ports are taken, and in which cycles something other than memory executes.

use crate::config::CpuConfig;
use crate::program::{Op, Port};

/// Cycles that the calendar remembers.
const SLOTS: u64 = 1024;
/// Words of 64 cycles that the record of execution remembers.
const WORDS: u64 = 64;

/// Issue slots of each port class in each recent cycle. Bookings may come in any order; a cycle
/// more than 1024 before the latest booked one is taken as free.
#[derive(Clone, Debug)]
pub(crate) struct Calendar {
    /// Lap of the ring in the upper half; below it a counter of 4 bits for each class, biased so
    /// that bit 3 is set when the class is full.
    slots: Box<[u64; SLOTS as usize]>,
    empty: u64,
    /// For each class, a run of cycles known to be full, to be skipped.
    full: [(u64, u64); 6],
    divider_free: u64,
    pub(crate) execution: Execution,
}

impl Calendar {
    pub(crate) fn new(config: &CpuConfig) -> Self {
        let limits = [
            (Port::Alu, config.alu_ports),
            (Port::Load, config.load_ports),
            (Port::Store, config.store_ports),
            (Port::Fp, config.fp_ports),
            (Port::Multiply, 1),
            (Port::Branch, config.branch_ports),
        ];
        let empty = limits.iter().fold(0, |bits, (port, limit)| {
            assert!((1..8).contains(limit), "a port class has 1 to 7 ports");
            bits | u64::from(8 - limit) << *port as u32
        });
        Self {
            slots: Box::new([empty; SLOTS as usize]),
            empty,
            full: [(0, 0); 6],
            divider_free: 0,
            execution: Execution::new(),
        }
    }
    /// Books the first free slot of a class at `ready` or later and returns its cycle.
    // As `Core::execute`.
    #[inline(always)]
    pub(crate) fn book(&mut self, port: Port, ready: u64) -> u64 {
        let (lap, shift) = (ready / SLOTS, port as u32);
        let slot = &mut self.slots[(ready % SLOTS) as usize];
        let booked = *slot;
        if booked >> 32 == lap && booked >> shift & 8 == 0 {
            *slot = booked + (1 << shift);
            return ready;
        }
        if booked >> 32 < lap {
            // Every class has a port.
            *slot = (lap << 32 | self.empty) + (1 << shift);
            return ready;
        }
        self.search(port, ready)
    }
    /// Books a port for the execution of `op` and returns when its result is there.
    // As `Core::execute`.
    #[inline(always)]
    pub(crate) fn execute(&mut self, op: &Op, ready: u64) -> u64 {
        let latency = u64::from(op.latency);
        if op.is(Op::UNPIPELINED) {
            return self.divide(op.port, ready, latency);
        }
        let issue = self.book(op.port, ready);
        self.execution.note(issue, latency);
        issue + latency
    }

    #[inline(never)]
    fn divide(&mut self, port: Port, ready: u64, latency: u64) -> u64 {
        let issue = self.book(port, ready.max(self.divider_free));
        self.divider_free = issue + latency;
        self.execution.note(issue, latency);
        issue + latency
    }
    #[inline(never)]
    fn search(&mut self, port: Port, ready: u64) -> u64 {
        let shift = port as u32;
        let run = self.full[shift as usize / 4];
        let in_run = run.0 <= ready && ready < run.1;
        let mut cycle = if in_run { run.1 } else { ready };
        loop {
            let lap = cycle / SLOTS;
            let slot = &mut self.slots[(cycle % SLOTS) as usize];
            if *slot >> 32 < lap {
                *slot = lap << 32 | self.empty;
            }
            if *slot >> 32 > lap {
                return cycle;
            }
            if *slot >> shift & 8 == 0 {
                *slot += 1 << shift;
                break;
            }
            cycle += 1;
        }
        if in_run {
            self.full[shift as usize / 4].1 = cycle;
        } else if cycle > ready + 1 {
            self.full[shift as usize / 4] = (ready, cycle);
        }
        cycle
    }
}

/// One bit for each recent cycle: whether an instruction other than a memory access executes.
#[derive(Clone, Debug)]
pub(crate) struct Execution {
    words: Box<[(u64, u64); WORDS as usize]>,
}

impl Execution {
    fn new() -> Self {
        Self {
            words: Box::new([(0, 0); WORDS as usize]),
        }
    }
    /// An instruction executes for `length` cycles from `from`.
    #[inline(always)]
    fn note(&mut self, from: u64, length: u64) {
        let bit = from % 64;
        if bit + length <= 64 {
            // At most 64 cycles, and a length of 64 only at bit 0.
            self.set(from / 64, (u64::MAX >> (64 - length)) << bit);
        } else {
            self.note_long(from, length);
        }
    }
    /// How many of the cycles from `from` up to, not including, `to` have an execution.
    pub(crate) fn count(&self, from: u64, to: u64) -> u64 {
        if from >= to {
            return 0;
        }
        let (first, last) = (from / 64, (to - 1) / 64);
        // Cycles that have left the ring can only be counted as without execution.
        (first.max(last.saturating_sub(WORDS - 1))..=last)
            .map(|number| {
                let (tag, bits) = self.words[(number % WORDS) as usize];
                let mut bits = if tag == number { bits } else { 0 };
                if number == first {
                    bits &= u64::MAX << (from % 64);
                }
                if number == last {
                    bits &= u64::MAX >> (63 - (to - 1) % 64);
                }
                u64::from(bits.count_ones())
            })
            .sum()
    }

    #[inline(always)]
    fn set(&mut self, number: u64, bits: u64) {
        let word = &mut self.words[(number % WORDS) as usize];
        if word.0 == number {
            word.1 |= bits;
        } else if word.0 < number {
            *word = (number, bits);
        }
    }
    #[inline(never)]
    fn note_long(&mut self, from: u64, length: u64) {
        let mut at = from;
        while at < from + length {
            let end = ((at / 64 + 1) * 64).min(from + length);
            self.set(at / 64, (u64::MAX >> (64 - (end - at))) << (at % 64));
            at = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::testing::config;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    proptest! {
        #[test]
        fn bookings_are_the_earliest_free_slots(
            asks in prop::collection::vec((0u64..300, any::<bool>()), 1..400),
        ) {
            let mut calendar = Calendar::new(&config());
            let mut taken: BTreeMap<(u64, bool), u32> = BTreeMap::new();
            for (ready, loads) in asks {
                let (port, limit) = if loads { (Port::Load, 2) } else { (Port::Alu, 4) };
                let mut cycle = ready;
                while taken.get(&(cycle, loads)).is_some_and(|count| *count == limit) {
                    cycle += 1;
                }
                *taken.entry((cycle, loads)).or_default() += 1;
                prop_assert_eq!(calendar.book(port, ready), cycle);
            }
        }
        #[test]
        fn cycles_with_an_execution_are_counted_once(
            notes in prop::collection::vec((0u64..1000, 1u64..120), 0..40), from in 0u64..1200, length in 0u64..1200,
        ) {
            let mut execution = Execution::new();
            let mut cycles = BTreeSet::new();
            for (at, latency) in notes {
                execution.note(at, latency);
                cycles.extend(at..at + latency);
            }
            let expected = cycles.range(from..from + length).count() as u64;
            prop_assert_eq!(execution.count(from, from + length), expected);
        }
    }
}
