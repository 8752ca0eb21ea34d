//! Schedulers apart from the reorder buffer (`cpu.alu_scheduler` and its like), as SkyByte's
//! artifact has them.
//!
//! A dispatched operation stands in its class's queue, which it leaves in program order for an
//! entry of the class's scheduler, and keeps that entry until it issues. So operations that wait
//! for a miss fill the scheduler, those behind them stand still although their operands may be
//! there, and when the queue is full too, dispatch stops.
//!
//! As everywhere in the core nothing is stepped: an entry is known by the cycle from which it is
//! free. An operation that gets one at a known cycle begins there. One that must wait until another
//! issues is parked with one operand more, a *turn*, that comes with the entry.

use super::{Core, Stop};
use crate::config::CpuConfig;
use crate::core::store_queue::NO_STORE;
use crate::core::window::{Phase, info};
use crate::port::Step;
use crate::program::{Op, Port};
use std::collections::VecDeque;

/// Who shares a scheduler. The value is the place in `Schedulers`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// Integer operations, branches, and what does nothing.
    Alu = 0,
    /// Loads and stores.
    Memory = 1,
    /// Floating-point additions and multiplications.
    Fp = 2,
}

impl Class {
    const ALL: [Self; 3] = [Self::Alu, Self::Memory, Self::Fp];

    /// The class of what an instruction does beside its accesses.
    fn of(op: &Op) -> Self {
        if op.port == Port::Fp && op.latency > 1 {
            Self::Fp
        } else {
            Self::Alu
        }
    }
    /// Its bit in `Parked::held` and `Parked::turns`.
    pub(crate) fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Classes whose schedulers a piece needs entries of, as bits.
fn needed(step: &Step, op: &Op) -> u8 {
    let accesses = step.load.is_some() || step.store.is_some();
    let memory = if accesses { Class::Memory.bit() } else { 0 };
    if op.is(Op::EXECUTES) || !accesses {
        memory | Class::of(op).bit()
    } else {
        memory
    }
}

/// One scheduler and the queue before it. Without entries it has no limit.
#[derive(Clone, Default)]
struct Scheduler {
    entries: usize,
    /// From when on each free entry is free.
    free: Vec<u64>,
    /// Operations in the queue, at most.
    queue: usize,
    /// When the latest that left the queue did, oldest first; at most `queue`.
    left: VecDeque<u64>,
    /// Places of pieces that stand in the queue and do not know until when.
    waiting: VecDeque<u16>,
}

impl Scheduler {
    fn new(entries: u32, queue: u32) -> Self {
        Self {
            entries: entries as usize,
            free: vec![0; entries as usize],
            queue: queue as usize,
            left: VecDeque::with_capacity(queue as usize + 1),
            waiting: VecDeque::new(),
        }
    }
    /// When the queue has room, or `None` if that is not known.
    fn room_at(&self) -> Option<u64> {
        let known = self.queue.checked_sub(self.waiting.len());
        match known {
            None | Some(0) => None,
            Some(known) if known > self.left.len() => Some(0),
            Some(known) => Some(self.left[self.left.len() - known]),
        }
    }
    /// Takes an entry for the next of the queue, which stands there from `from` on; says when.
    fn take(&mut self, from: u64) -> Option<u64> {
        let (entry, _) = (self.free.iter().enumerate()).min_by_key(|(_, free)| **free)?;
        let at = self.free.swap_remove(entry).max(from);
        let at = self.left.back().map_or(at, |before| at.max(*before));
        if self.left.len() == self.queue {
            self.left.pop_front();
        }
        self.left.push_back(at);
        Some(at)
    }
}

/// All schedulers of a core.
#[derive(Clone)]
pub(crate) struct Schedulers {
    classes: [Scheduler; 3],
    /// Entries that the piece being dispatched holds, as bits of classes.
    held: u8,
}

impl Schedulers {
    /// The schedulers of `config`, if any has a limit.
    pub(crate) fn new(config: &CpuConfig) -> Option<Box<Self>> {
        let classes = [
            Scheduler::new(config.alu_scheduler, config.alu_queue),
            Scheduler::new(config.memory_scheduler, config.memory_queue),
            Scheduler::new(config.fp_scheduler, config.fp_queue),
        ];
        let is_limited = classes.iter().any(|class| class.entries > 0);
        is_limited.then(|| Box::new(Self { classes, held: 0 }))
    }
    fn of(&mut self, class: Class) -> Option<&mut Scheduler> {
        let scheduler = &mut self.classes[class as usize];
        (scheduler.entries > 0).then_some(scheduler)
    }
    /// From when on there is room in all queues that a piece goes to.
    pub(crate) fn room_at(&mut self, step: &Step, op: &Op) -> Result<u64, Class> {
        let needed = needed(step, op);
        let mut at = 0;
        for class in Class::ALL {
            if needed & class.bit() != 0
                && let Some(scheduler) = self.of(class)
            {
                at = at.max(scheduler.room_at().ok_or(class)?);
            }
        }
        Ok(at)
    }
    /// Whether the queue of `class`, which had none, has room.
    pub(crate) fn has_room(&self, class: Class) -> bool {
        self.classes[class as usize].room_at().is_some()
    }
    /// Sends the piece that is dispatched to its schedulers, where it can be from `floor` on. Gives
    /// when its access, and when its execution, has an entry, and the classes whose turn it must
    /// wait for.
    pub(crate) fn enter(&mut self, step: &Step, op: &Op, floor: u64) -> (u64, u64, u8) {
        let needed = needed(step, op);
        let (mut memory, mut execution, mut turns) = (floor, floor, 0);
        self.held = 0;
        for class in Class::ALL {
            if needed & class.bit() == 0 {
                continue;
            }
            let Some(scheduler) = self.of(class) else {
                continue;
            };
            let taken = match scheduler.waiting.is_empty() {
                true => scheduler.take(floor),
                false => None,
            };
            match taken {
                None => turns |= class.bit(),
                Some(at) => {
                    self.held |= class.bit();
                    match class {
                        Class::Memory => memory = at,
                        Class::Alu | Class::Fp => execution = at,
                    }
                }
            }
        }
        (memory, execution, turns)
    }
    /// The piece that is dispatched waits for its turn in `turns`; it has been parked at `place`.
    pub(crate) fn queue(&mut self, place: usize, turns: u8) {
        for class in Class::ALL {
            if turns & class.bit() != 0 {
                self.classes[class as usize].waiting.push_back(place as u16);
            }
        }
    }
    /// What the piece that is dispatched holds: from now on its parked entry knows it.
    pub(crate) fn hand_over(&mut self) -> u8 {
        std::mem::take(&mut self.held)
    }
    /// Frees the entries of the classes in `held` at `cycle`.
    fn release(&mut self, held: u8, cycle: u64) {
        for class in Class::ALL {
            if held & class.bit() != 0 {
                self.classes[class as usize].free.push(cycle);
            }
        }
    }
    /// Nothing waits, and everything is free from `cycle` on.
    pub(crate) fn squash(&mut self, cycle: u64) {
        for class in &mut self.classes {
            class.free.resize(class.entries, cycle);
            class.waiting.clear();
        }
        self.held = 0;
    }
}

impl Core {
    /// The piece being dispatched issues its access (`is_access`) or its execution at `issue`.
    #[inline]
    pub(super) fn issues(&mut self, op: &Op, is_access: bool, issue: u64) {
        if let Some(schedulers) = &mut self.schedulers {
            let class = if is_access {
                Class::Memory
            } else {
                Class::of(op)
            };
            let held = schedulers.held & class.bit();
            schedulers.held &= !held;
            schedulers.release(held, issue + 1);
        }
    }

    /// The parked piece at `place` issues its access (`is_access`) or its execution at `issue`. The
    /// access of a piece that loads and stores issues when its store does.
    #[inline]
    pub(super) fn parked_issues(&mut self, place: usize, is_access: bool, issue: u64) {
        if self.schedulers.is_some() {
            let class = if is_access {
                Class::Memory
            } else {
                Class::of(&self.window.parked[place].op)
            };
            self.leave(place, class, issue);
        }
    }

    #[inline(never)]
    fn leave(&mut self, place: usize, class: Class, issue: u64) {
        let Some(schedulers) = &mut self.schedulers else {
            return;
        };
        let held = self.window.parked[place].held & class.bit();
        self.window.parked[place].held &= !held;
        schedulers.release(held, issue + 1);
        self.give_turns(class);
    }

    /// Gives free entries to those that wait for them.
    fn give_turns(&mut self, class: Class) {
        while let Some(schedulers) = &mut self.schedulers {
            let scheduler = &mut schedulers.classes[class as usize];
            let Some(place) = scheduler.waiting.front().map(|place| usize::from(*place)) else {
                return;
            };
            let Some(at) = scheduler.take(self.window.parked[place].dispatched) else {
                return;
            };
            scheduler.waiting.pop_front();
            let piece = &mut self.window.parked[place];
            piece.held |= class.bit();
            if class == Class::Memory && piece.phase == Phase::Address {
                piece.ready_address = piece.ready_address.max(at);
                piece.waits_address -= 1;
                if piece.waits_address == 0 {
                    self.window.wake(place);
                }
            } else {
                self.window.data_arrives(place, at);
            }
        }
    }

    /// The pieces from `first` on leave the window at `cycle`: their entries are free.
    pub(super) fn unschedule_from(&mut self, first: u64, cycle: u64) {
        let Some(schedulers) = &mut self.schedulers else {
            return;
        };
        for sequence in first..self.window.tail {
            let place = self.window.place(sequence);
            if self.window.info[place] & info::PARKED != 0 {
                let held = std::mem::take(&mut self.window.parked[place].held);
                schedulers.release(held, cycle);
            }
        }
    }

    /// The pieces that have left the window wait for no turn any more; others may have theirs.
    pub(super) fn reschedule(&mut self) {
        let window = &self.window;
        if let Some(schedulers) = &mut self.schedulers {
            for class in &mut schedulers.classes {
                class
                    .waiting
                    .retain(|place| window.holds(usize::from(*place)));
            }
        }
        for class in Class::ALL {
            self.give_turns(class);
        }
    }

    /// Whether the parked piece at `place` issues its access with its load.
    pub(super) fn issues_with_load(&self, place: usize) -> bool {
        self.window.parked[place].own_store == NO_STORE
    }

    /// When the queues of the schedulers have room for the piece.
    #[inline]
    pub(super) fn schedulers_room(&mut self, step: &Step, op: &Op) -> Result<u64, Stop> {
        match &mut self.schedulers {
            None => Ok(0),
            Some(schedulers) => schedulers.room_at(step, op).map_err(Stop::Scheduler),
        }
    }

    /// Whether as many entries are free or held as there are.
    pub(super) fn schedulers_agree(&self) -> bool {
        let Some(schedulers) = &self.schedulers else {
            return true;
        };
        Class::ALL.into_iter().all(|class| {
            let scheduler = &schedulers.classes[class as usize];
            let holds = |sequence: &u64| {
                let place = self.window.place(*sequence);
                let is_parked = self.window.info[place] & info::PARKED != 0;
                is_parked && self.window.parked[place].held & class.bit() != 0
            };
            let held = (self.window.head..self.window.tail).filter(holds).count();
            scheduler.free.len() + held == scheduler.entries
        })
    }
}
