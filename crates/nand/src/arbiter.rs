//! Buses that carry what is wanted first (`nand.transfer = wanted_first`).
//!
//! Whoever waits for a line of a page wants the codeword that has it. That codeword leaves the page
//! register first, and goes before everything else on the bus: pages that nobody waits for, what is
//! left of others, and pages on their way in. Those give way at the end of a codeword. As ends of
//! transfers are not known when a bus is asked for, buses have queues here. Invariants:
//! `docs/nand.md`.

use crate::die::Phase;
use crate::list::OpId;
use crate::{Kind, Nand, NandEvent, Schedule};
use std::collections::VecDeque;
use units::{Picos, Time};

/// Codewords of a page that is read, of which some are on their way, and the others not yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The caller's name for the command.
    pub tag: u32,
    /// A bit for each codeword that is in the controller now.
    pub codewords: u64,
}

/// What is left of a command's way over the bus.
#[derive(Clone, Copy, Debug)]
struct Progress {
    /// The command, once it is submitted.
    op: Option<OpId>,
    /// Time of the bus that it still needs.
    left: Picos,
    /// Codewords that somebody waits for.
    wanted: u64,
    /// Codewords that have been carried.
    sent: u64,
    /// Since when it waits for the bus.
    since: Time,
}

impl Progress {
    const NONE: Self = Self {
        op: None,
        left: Picos::ZERO,
        wanted: 0,
        sent: 0,
        since: Time::ZERO,
    };

    /// The codeword that goes first.
    const fn first_wanted(&self) -> Option<u32> {
        match self.wanted & !self.sent {
            0 => None,
            open => Some(open.trailing_zeros()),
        }
    }
}

/// What a bus does, and who waits for it.
#[derive(Clone, Debug, Default)]
struct Channel {
    /// Whose page it carries, and whether a codeword that is wanted.
    carries: Option<(u32, bool)>,
    /// Units with a codeword that is wanted.
    wanted: VecDeque<u32>,
    /// All others.
    others: VecDeque<u32>,
}

/// The queues of all buses.
#[derive(Clone, Debug)]
pub(crate) struct Arbiter {
    codeword: Picos,
    /// Codewords of a unit that is read.
    codewords: u32,
    channels: Vec<Channel>,
    /// By tag.
    progress: Vec<Progress>,
}

impl Arbiter {
    /// Idle buses that carry a codeword in `codeword`, and a unit that is read in so many.
    pub fn new(channels: u32, codeword: Picos, codewords: u32) -> Self {
        Self {
            codeword,
            codewords,
            channels: vec![Channel::default(); channels as usize],
            progress: Vec::new(),
        }
    }

    #[inline]
    fn of(&mut self, tag: u32) -> &mut Progress {
        let at = tag as usize;
        if at >= self.progress.len() {
            self.progress.resize(at + 1, Progress::NONE);
        }
        &mut self.progress[at]
    }

    /// Codewords whose transfer takes `time`, the last one of a page perhaps a little less.
    fn codewords_in(&self, time: Picos) -> u32 {
        match self.codeword.get() {
            0 => self.codewords,
            codeword => time.get().div_ceil(codeword) as u32,
        }
    }
}

impl Nand {
    /// Somebody waits for this codeword of what the command of this tag reads, which has been
    /// submitted or will be, and is not completed. It does nothing where whole pages are carried.
    pub fn want(&mut self, now: Time, tag: u32, codeword: u32, events: &mut impl Schedule) {
        let Some(arbiter) = self.arbiter.as_mut() else {
            return;
        };
        assert!(codeword < arbiter.codewords, "the unit has the codeword");
        let progress = arbiter.of(tag);
        let before = progress.first_wanted();
        progress.wanted |= 1 << codeword;
        let Some(op) = progress.op else { return };
        if before.is_some() || progress.first_wanted().is_none() {
            return;
        }
        let block = self.slab[op].command.operation.block(&self.geometry);
        let unit = self.unit_of(block);
        let channel = self.channel_of(unit) as usize;
        match self.units[unit as usize].phase {
            Phase::ForBus(id) if id == op => {
                let channel = &mut self.arbiter_mut().channels[channel];
                let place = channel.others.iter().position(|other| *other == unit);
                let place = place.expect("what waits for a bus is in a queue of it");
                channel.others.remove(place);
                channel.wanted.push_back(unit);
                self.cut(now, unit, events);
            }
            Phase::TransferOut(id) if id == op => self.cut(now, unit, events),
            _ => {}
        }
    }

    #[inline]
    fn arbiter_mut(&mut self) -> &mut Arbiter {
        self.arbiter.as_mut().expect("buses have queues")
    }

    /// A command is submitted: its way over the bus lies before it.
    #[inline(always)]
    pub(crate) fn note_submitted(&mut self, id: OpId) {
        if self.arbiter.is_some() {
            self.begin_way(id);
        }
    }

    #[inline(never)]
    fn begin_way(&mut self, id: OpId) {
        let arbiter = self.arbiter.as_mut().expect("buses have queues");
        let command = self.slab[id].command;
        let progress = arbiter.of(command.tag);
        assert!(progress.op.is_none(), "a tag names one command at a time");
        progress.op = Some(id);
        progress.left = match command.operation.kind() {
            Kind::Read => self.transfer_out,
            _ => self.transfer_in,
        };
    }

    /// A command is completed.
    #[inline]
    pub(crate) fn note_completed(&mut self, tag: u32) {
        if let Some(arbiter) = self.arbiter.as_mut() {
            *arbiter.of(tag) = Progress::NONE;
        }
    }

    /// The unit's command asks for the bus of its channel.
    #[inline(never)]
    pub(crate) fn ask_bus(&mut self, now: Time, unit: u32, id: OpId, events: &mut impl Schedule) {
        let is_wanted = self.queue(now, (unit, id), false);
        if is_wanted {
            self.cut(now, unit, events);
        }
        self.arbitrate(now, self.channel_of(unit) as usize, events);
    }

    /// Puts the unit into the queue of its bus, in front of all that is not wanted if it was
    /// interrupted. Says whether it has a codeword that is wanted.
    fn queue(&mut self, now: Time, (unit, id): (u32, OpId), was_interrupted: bool) -> bool {
        let tag = self.slab[id].command.tag;
        let channel = self.channel_of(unit) as usize;
        let arbiter = self.arbiter_mut();
        let progress = arbiter.of(tag);
        progress.since = now;
        let is_wanted = progress.first_wanted().is_some();
        let queues = &mut arbiter.channels[channel];
        match (is_wanted, was_interrupted) {
            (true, _) => queues.wanted.push_back(unit),
            (false, true) => queues.others.push_front(unit),
            (false, false) => queues.others.push_back(unit),
        }
        self.units[unit as usize].wait(Phase::ForBus(id), now);
        is_wanted
    }

    /// Gives an idle bus to whoever is first.
    fn arbitrate(&mut self, now: Time, channel: usize, events: &mut impl Schedule) {
        let arbiter = self.arbiter_mut();
        let queues = &mut arbiter.channels[channel];
        if queues.carries.is_some() {
            return;
        }
        let next = queues.wanted.pop_front();
        let Some(unit) = next.or_else(|| queues.others.pop_front()) else {
            return;
        };
        let Phase::ForBus(id) = self.units[unit as usize].phase else {
            unreachable!("who is in the queue of a bus waits for it");
        };
        let command = self.slab[id].command;
        let arbiter = self.arbiter_mut();
        let codeword = arbiter.codeword;
        let progress = arbiter.of(command.tag);
        let is_wanted = progress.first_wanted().is_some();
        let (left, since) = (progress.left, progress.since);
        let lasts = match is_wanted {
            true => left.min(codeword),
            false => left,
        };
        arbiter.channels[channel].carries = Some((unit, is_wanted));
        self.slab[id].channel_wait += now - since;
        let waited = self.units[unit as usize].leave(now);
        self.stats.die_occupied += waited;
        let phase = match command.operation.kind() {
            Kind::Program => Phase::TransferIn(id),
            _ => Phase::TransferOut(id),
        };
        self.enter(now, unit, phase, now + lasts, events);
    }

    /// Whatever nobody waits for leaves the bus of this unit's channel at the end of a codeword.
    fn cut(&mut self, now: Time, unit: u32, events: &mut impl Schedule) {
        let channel = self.channel_of(unit) as usize;
        let arbiter = self.arbiter_mut();
        let (Some((carried, false)), codeword) =
            (arbiter.channels[channel].carries, arbiter.codeword)
        else {
            return;
        };
        if codeword == Picos::ZERO {
            return;
        }
        let state = &mut self.units[carried as usize];
        let carried_for = (now - state.phase_start).get();
        let boundary = carried_for.div_ceil(codeword.get()) * codeword.get();
        let end = state.phase_start + Picos::new(boundary);
        if end < state.phase_end {
            state.shorten(end);
            events.schedule(end, NandEvent::new(carried, state.phase_number));
        }
    }

    /// A transfer has ended, of a whole or of a part; the next one begins. Says whether the whole
    /// is over, and what has come of a read of which somebody waits for a part.
    #[inline(never)]
    pub(crate) fn end_transfer(
        &mut self,
        now: Time,
        (unit, id): (u32, OpId),
        lasted: Picos,
        events: &mut impl Schedule,
    ) -> (bool, Option<Part>) {
        let channel = self.channel_of(unit) as usize;
        let command = self.slab[id].command;
        self.stats.channel_busy += lasted;
        self.buses[channel].carried(now, lasted);
        let arbiter = self.arbiter_mut();
        let count = arbiter.codewords_in(lasted);
        let carried = arbiter.channels[channel].carries.take();
        let was_wanted = carried.is_some_and(|(_, is_wanted)| is_wanted);
        let progress = arbiter.of(command.tag);
        progress.left = progress.left.saturating_sub(lasted);
        let sent_before = progress.sent;
        match was_wanted {
            true => {
                let first = progress.first_wanted().expect("it went for that");
                progress.sent |= 1 << first;
            }
            false => (0..count).for_each(|_| progress.sent |= progress.sent.wrapping_add(1)),
        }
        let is_over = progress.left == Picos::ZERO;
        let is_told = command.operation.kind() == Kind::Read
            && progress.wanted != 0
            && progress.sent != sent_before;
        let part = Part {
            tag: command.tag,
            codewords: progress.sent & !sent_before,
        };
        if !is_over {
            self.queue(now, (unit, id), !was_wanted);
        }
        self.arbitrate(now, channel, events);
        let is_lost = self.slab[id].is_lost;
        (is_over, (is_told && !is_over && !is_lost).then_some(part))
    }
}
