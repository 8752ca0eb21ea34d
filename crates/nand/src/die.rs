//! The state of one unit that serves one operation at a time: a die, or with
//! `parallelism = channel` all dies of a channel.

use crate::list::{List, OpId};
use units::{Picos, Time};

/// What a unit is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Nothing, and nothing is queued.
    Idle,
    /// Cells are read, programmed or erased.
    Array(OpId),
    /// A page waits for the bus or comes in over it, to be programmed.
    TransferIn(OpId),
    /// A page waits for the bus or goes out over it; the page register is occupied until then.
    TransferOut(OpId),
    /// A page waits for its bus, where buses have queues ([`crate::arbiter`]).
    ForBus(OpId),
    /// A program or erase is being suspended for the first of the priority reads.
    Suspending,
}

impl Phase {
    /// The command at work.
    pub const fn op(self) -> Option<OpId> {
        match self {
            Self::Idle | Self::Suspending => None,
            Self::Array(id) | Self::TransferIn(id) | Self::TransferOut(id) | Self::ForBus(id) => {
                Some(id)
            }
        }
    }
}

/// A program or erase that gave way to reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suspended {
    pub op: OpId,
    /// What is left of its time at the cells; None: they have not begun with it.
    pub remaining: Option<Picos>,
    pub since: Time,
}

/// A die, or all dies of a channel.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub phase: Phase,
    /// Counts phases, so that the event of a phase cut short by suspension is recognised.
    pub phase_number: u32,
    pub phase_start: Time,
    /// Latest end of a phase so far; phases do not overlap (I1).
    pub phase_end: Time,
    pub suspended: Option<Suspended>,
    /// Reads that may start before everything in `ordered`.
    pub priority: List,
    /// Everything else, in order of submission.
    pub ordered: List,
    /// Sum of the phases that ended.
    pub occupied: Picos,
}

impl Unit {
    pub const NEW: Self = Self {
        phase: Phase::Idle,
        phase_number: 0,
        phase_start: Time::ZERO,
        phase_end: Time::ZERO,
        suspended: None,
        priority: List::EMPTY,
        ordered: List::EMPTY,
        occupied: Picos::ZERO,
    };

    /// Whether no command waits for it.
    pub const fn has_nothing(&self) -> bool {
        self.priority.is_empty() && self.ordered.is_empty() && self.suspended.is_none()
    }

    /// Enters a phase that lasts from `now` to `end`.
    #[inline]
    pub fn enter(&mut self, phase: Phase, now: Time, end: Time) {
        assert!(self.phase_end <= now, "a die serves one thing at a time");
        self.phase = phase;
        self.phase_number = self.phase_number.wrapping_add(1);
        self.phase_start = now;
        self.phase_end = end;
    }

    /// Enters a phase of which nobody knows the end.
    #[inline]
    pub fn wait(&mut self, phase: Phase, now: Time) {
        self.enter(phase, now, Time::MAX);
    }

    /// The phase ends sooner: the event of its old end is out of date.
    pub fn shorten(&mut self, end: Time) {
        self.phase_number = self.phase_number.wrapping_add(1);
        self.phase_end = end;
    }

    /// Leaves the phase at `now`, its end or earlier; says how long it lasted.
    #[inline]
    pub fn leave(&mut self, now: Time) -> Picos {
        assert!(now <= self.phase_end, "a phase is left at its end");
        let lasted = now - self.phase_start;
        self.occupied += lasted;
        self.phase_end = now;
        self.phase = Phase::Idle;
        lasted
    }
}

/// The bus of a channel: FIFO and never interrupted, so the end of a transfer is known when the
/// bus is asked for, and no queue is kept (architecture B4; the model test compares with one).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bus {
    pub free_at: Time,
    pub busy: Picos,
}

impl Bus {
    /// Takes the bus for `transfer` as soon as everyone who asked before is served; gives the
    /// wait and the end.
    #[inline]
    pub fn request(&mut self, now: Time, transfer: Picos) -> (Picos, Time) {
        let wait = self.free_at.saturating_since(now);
        self.free_at = now + wait + transfer;
        self.busy += transfer;
        (wait, self.free_at)
    }

    /// Notes a transfer that ends `now`, where buses have queues.
    #[inline]
    pub fn carried(&mut self, now: Time, lasted: Picos) {
        self.free_at = now;
        self.busy += lasted;
    }
}
