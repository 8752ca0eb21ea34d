//! Accesses that were answered by SkyByte-Delay: who is told, and what the exception leaves behind.
//!
//! As the paper has it, the line is not coming: loads that wait are flagged, the exception is
//! raised once a flagged one is the oldest, and [`Core::squash`] empties the window. The rest of
//! this file is what SkyByte's artifact does: the line comes with the answer
//! ([`Core::on_delivery`]), the exception is taken when the answer arrives and leaves the older
//! instructions in the window ([`Core::except`]), and the squashed ones may run on.

use super::{Core, Stop};
use crate::core::window::{NIL, PENDING, Phase, info};
use crate::miss_path::MissPath;
use crate::port::{Delayed, InstructionSource, MissKind, MissSlot, Squash, Squashed, Uncore};
use crate::program::Op;
use units::Time;

impl Core {
    /// Pieces that are executed again at most: a source goes back that far (D12).
    const MOST_REPLAYED: u64 = 1024;

    /// The access of `slot` was answered by SkyByte-Delay. If a load waits, call `run` now.
    ///
    /// Loads that wait are flagged. If nothing else waits, the MSHR is free at once: the line is
    /// not coming, and flagged loads that are not the oldest must not keep the oldest from its own
    /// access.
    pub fn on_delay<U: Uncore>(&mut self, now: Time, slot: MissSlot, uncore: &mut U) -> Delayed {
        self.access_delayed(now, slot, uncore)
    }

    /// The access of `slot` was answered by SkyByte-Delay and the line has come all the same
    /// (`os.delayed_line = delivered`). If `may_raise`, the access that asked for the line is
    /// flagged and does not take it; everything else that waits does. Says whether one was flagged.
    pub fn on_delivery<U: Uncore>(
        &mut self,
        now: Time,
        slot: MissSlot,
        may_raise: bool,
        uncore: &mut U,
    ) -> bool {
        self.now = now;
        let Some(number) = self.misses.get(slot) else {
            self.stats.late_fills += 1;
            return false;
        };
        let trigger = if may_raise {
            self.take_first_waiter(number)
        } else {
            NIL
        };
        if trigger != NIL {
            self.window.info[usize::from(trigger)] |= info::DELAYED;
        }
        let cycle = self.cycle_after(now);
        self.take_fill(number, cycle, uncore);
        self.go_on(cycle, uncore);
        trigger != NIL
    }

    /// Pieces of the window from the access on that was first to wait for the MSHR's line; none if
    /// no load or store of the window waits for it.
    pub fn count_from_first_waiter(&self, slot: MissSlot) -> u64 {
        let Some(number) = self.misses.get(slot) else {
            return 0;
        };
        let (_, at) = self.first_waiter(number);
        if at == NIL {
            return 0;
        }
        let is_it = |sequence: &u64| self.window.place(*sequence) == usize::from(at);
        let first = (self.window.head..self.window.tail).find(is_it);
        first.map_or(0, |first| self.window.tail - first)
    }

    /// The access that was first to wait for an MSHR's line, and the one after it in its list.
    fn first_waiter(&self, number: usize) -> (u16, u16) {
        let miss = self.misses.peek(number);
        if !matches!(miss.kind, MissKind::Load | MissKind::Ownership) || miss.store_waits {
            return (NIL, NIL);
        }
        // The list begins with the latest.
        let (mut before, mut at) = (NIL, miss.first);
        while at != NIL && self.window.parked[usize::from(at)].next != NIL {
            before = at;
            at = self.window.parked[usize::from(at)].next;
        }
        (before, at)
    }

    /// Takes the access that was first to wait for an MSHR's line off its list.
    fn take_first_waiter(&mut self, number: usize) -> u16 {
        let (before, at) = self.first_waiter(number);
        if at == NIL {
            return NIL;
        }
        match before {
            NIL => self.misses.miss(number).first = NIL,
            _ => self.window.parked[usize::from(before)].next = NIL,
        }
        at
    }

    /// Whether a flagged access is in the window, so that [`Core::except`] can be called.
    pub fn is_delayed(&self) -> bool {
        self.delayed_sequence().is_some()
    }

    /// The oldest piece of the window that is flagged.
    fn delayed_sequence(&self) -> Option<u64> {
        (self.window.head..self.window.tail).find(|sequence| {
            let place = self.window.place(*sequence);
            self.window.info[place] & info::DELAYED != 0 && self.window.done[place] >= PENDING
        })
    }

    /// Takes the Long Delay Exception of the oldest flagged access, wherever it is in the window:
    /// the older instructions complete, and the source goes back to it. What becomes of the others
    /// is `squash`; if they run on, the source stays behind them, and behind what was fetched: the
    /// caller says at [`Core::replay`] how much is executed again. The core can start a thread once
    /// [`Core::is_empty`].
    pub fn except<S: InstructionSource, U: Uncore>(
        &mut self,
        now: Time,
        squash: Squash,
        source: &mut S,
        uncore: &mut U,
    ) -> Squashed {
        let first = self
            .delayed_sequence()
            .expect("an exception is taken of a flagged access");
        self.now = now.max(self.now);
        let end = self.cycle_after(self.now);
        let instructions = self.window.tail - first;
        match squash {
            Squash::RunsOn => self.fetch_ahead(end, source),
            _ => source.rewind_to(source.position() - instructions),
        }
        self.restart_fetching();
        self.stop = Stop::None;
        self.stats.squashes += 1;
        self.stats.squashed += instructions;
        let cancelled = match squash {
            Squash::RunsOn => self.let_run_on(first, end),
            Squash::AtOnce => self.squash_from(first, end, Some(uncore)),
            Squash::MissesRunOn => self.squash_from::<U>(first, end, None),
        };
        self.go_on(end, uncore);
        Squashed {
            instructions,
            cancelled,
            at: self.time(self.retirement.cycle),
        }
    }

    /// A thread that has left by [`Squash::RunsOn`] executes its last `pieces` again, those that
    /// ran on included, when it is started: the source goes back. An event of another thread's, or
    /// what waits for an empty window, is not repeated. Nothing counts twice as retired.
    pub fn replay<S: InstructionSource>(&mut self, pieces: u64, source: &mut S) {
        let end = source.position();
        let mut first = end - pieces.min(end).min(Self::MOST_REPLAYED);
        source.rewind_to(first);
        let mut counted = 0;
        while source.position() < end {
            let step = source.peek().expect("what was executed is in the source");
            source.advance();
            if step.has_sync || source.program().op(step.inst).is(Op::HELD) {
                (first, counted) = (source.position(), 0);
            } else {
                counted += u64::from(step.counts);
            }
        }
        source.rewind_to(first);
        self.stats.replayed += counted;
    }

    /// Everything from `first` on stays, takes its line if it is flagged, and retires.
    fn let_run_on(&mut self, first: u64, cycle: u64) -> u64 {
        for sequence in first..self.window.tail {
            let place = self.window.place(sequence);
            let flags = self.window.info[place];
            if flags & info::DELAYED != 0 && self.window.done[place] >= PENDING {
                self.window.info[place] &= !info::DELAYED;
                self.take_line(place, cycle);
            }
        }
        0
    }

    /// Forgets everything from `first` on. Without an uncore to cancel them at, misses that nobody
    /// waits for any more go on, and fill the caches.
    fn squash_from<U: Uncore>(&mut self, first: u64, cycle: u64, uncore: Option<&mut U>) -> u64 {
        let (mut loads, mut stores) = (0, 0);
        for sequence in first..self.window.tail {
            let flags = self.window.info[self.window.place(sequence)];
            loads += u64::from(flags & info::LOAD != 0);
            stores += u64::from(flags & info::STORE != 0);
        }
        self.unschedule_from(first, cycle);
        self.window.squash_from(first);
        self.reschedule();
        self.load_queue.squash_last(loads);
        self.stores.squash_last(stores);
        let window = &self.window;
        self.queue.retain(|place| window.holds(usize::from(*place)));
        let mut cancelled = 0;
        let mut uncore = uncore;
        for number in 0..self.misses.top() {
            if !self.misses.is_used(number) {
                continue;
            }
            let first = self.window.keep_waiting(self.misses.miss(number).first);
            let miss = self.misses.miss(number);
            miss.first = first;
            let is_needed = first != NIL || miss.store_waits;
            if !is_needed && let Some(uncore) = uncore.as_deref_mut() {
                let slot = self.misses.name(number);
                self.misses.free(number, cycle);
                uncore.cancel(self.id, slot);
                cancelled += 1;
            }
        }
        cancelled
    }

    /// A parked access takes its line at `cycle`.
    pub(super) fn take_line(&mut self, place: usize, cycle: u64) {
        match self.window.parked[place].phase {
            Phase::Line => self.line_arrives(place, cycle),
            Phase::StoreLine => self.store_line_arrives(place, cycle),
            phase => unreachable!("a piece in phase {phase:?} waits for no line"),
        }
    }
}
