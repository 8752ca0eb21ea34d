//! The flash: units that work, buses that carry, commands that queue.
//!
//! A read occupies its die for `t_r`, then until its page has left over the channel's bus. A
//! program occupies its die while its page comes in and then for `t_prog`; an erase for its share
//! of `t_bers`. Buses are granted in the order in which dies ask for them. Invariants:
//! `docs/nand.md`.

use crate::arbiter::{Arbiter, Part};
use crate::die::{Bus, Phase, Suspended, Unit};
use crate::empirical::Empirical;
use crate::faults::{Faults, fault_of};
use crate::list::{OpId, Slab};
use crate::split::{Chain, Clocks};
use crate::{
    Command, Completion, Fault, Kind, NandConfig, NandEvent, NandStats, Operation, Parallelism,
    Scheduling, Transfer,
};
use units::{BlockAddr, DieId, Divisor, FlashGeometry, PageSize, Picos, Ppa, Time, Timing};

/// The flash of a device.
#[derive(Clone, Debug)]
pub struct Nand {
    pub(crate) units: Vec<Unit>,
    pub(crate) buses: Vec<Bus>,
    /// None: buses are granted in the order in which they are asked for.
    pub(crate) arbiter: Option<Box<Arbiter>>,
    pub(crate) slab: Slab,
    /// Programs and erases of each block that are not completed; empty with FIFO order, which
    /// does not need it.
    pub(crate) changes_of_block: Vec<u32>,
    pub(crate) stats: NandStats,
    pub(crate) geometry: FlashGeometry,
    /// Of the geometry.
    units_per_die: Divisor,
    channels: Divisor,
    die_count: u64,
    timing: Timing,
    /// None: times are constant.
    empirical: Option<Box<Empirical>>,
    /// Of a unit that is read, and of a page that is programmed.
    pub(crate) transfer_out: Picos,
    pub(crate) transfer_in: Picos,
    /// Set if reads suspend.
    suspend: Option<Picos>,
    parallelism: Parallelism,
    /// None: nothing fails.
    faults: Option<Box<Faults>>,
    /// Whether operations were performed by somebody else.
    is_measured: bool,
    /// By unit; empty unless commands go to `submit_split`.
    pub(crate) clocks: Vec<Clocks>,
    pub(crate) chain: Chain,
}

/// What the end of a phase brings.
#[derive(Clone, Copy, Debug)]
pub enum PhaseEnd {
    /// Nothing that anybody waits for.
    Nothing,
    /// What has come of a page of which somebody waits for a part ([`Nand::want`]).
    Part(Part),
    /// A command has finished.
    Done(Completion),
}

/// Keeps events of the flash until their time.
pub trait Schedule {
    /// Keeps one, which is brought to [`Nand::on_event`] at `at`.
    fn schedule(&mut self, at: Time, event: NandEvent);
}

impl Schedule for Vec<(Time, NandEvent)> {
    #[inline]
    fn schedule(&mut self, at: Time, event: NandEvent) {
        self.push((at, event));
    }
}

impl Nand {
    /// A flash with nothing to do, read in units of `unit` (`ftl.mapping_unit`). The configuration
    /// has passed [`NandConfig::validate`].
    pub fn new(config: &NandConfig, unit: PageSize) -> Self {
        let problems = config.validate();
        assert!(problems.is_empty(), "a usable nand section: {problems:?}");
        let geometry = config.geometry(unit);
        let unit_count = match config.parallelism {
            Parallelism::Die => geometry.die_count(),
            Parallelism::Channel => geometry.channel_count,
        };
        let tracked_blocks = match config.scheduling {
            Scheduling::Fifo | Scheduling::Split => 0,
            Scheduling::ReadPriority => geometry.block_count(),
        };
        Self {
            units: (0..unit_count).map(|_| Unit::NEW).collect(),
            buses: vec![Bus::default(); geometry.channel_count as usize],
            arbiter: (config.transfer == Transfer::WantedFirst).then(|| {
                let codeword = config.channel_bandwidth.time_for(config.codeword.bytes());
                let codewords = config.codewords_of(geometry.unit_size);
                Box::new(Arbiter::new(geometry.channel_count, codeword, codewords))
            }),
            slab: Slab::new(),
            changes_of_block: vec![0; tracked_blocks as usize],
            stats: NandStats::default(),
            geometry,
            units_per_die: Divisor::new(geometry.unit_count() / u64::from(geometry.die_count())),
            channels: Divisor::new(geometry.channel_count.into()),
            die_count: geometry.die_count().into(),
            timing: config.timing(),
            empirical: Empirical::new(&config.empirical, geometry.channel_count),
            transfer_out: config.transfer_time_of(geometry.unit_size),
            transfer_in: config.transfer_time(),
            suspend: config.suspend.then_some(config.t_suspend),
            parallelism: config.parallelism,
            faults: None,
            is_measured: false,
            clocks: match config.scheduling {
                Scheduling::Split => vec![Clocks::default(); unit_count as usize],
                Scheduling::Fifo | Scheduling::ReadPriority => Vec::new(),
            },
            chain: Chain::default(),
        }
    }

    /// A flash in which this goes wrong. Not with `scheduling = split`.
    #[must_use]
    pub fn with_faults(self, faults: Faults) -> Self {
        assert!(!self.is_split(), "two clocks know no faults");
        Self {
            faults: Some(Box::new(faults)),
            ..self
        }
    }

    /// What goes wrong; None if nothing does.
    pub fn faults(&self) -> Option<&Faults> {
        self.faults.as_deref()
    }
    /// As [`Nand::faults`], to let days pass or to restore what blocks have been through.
    pub fn faults_mut(&mut self) -> Option<&mut Faults> {
        self.faults.as_deref_mut()
    }

    /// How the flash is organised.
    pub const fn geometry(&self) -> &FlashGeometry {
        &self.geometry
    }
    /// What the flash did so far.
    pub const fn stats(&self) -> &NandStats {
        &self.stats
    }
    /// Commands submitted and not completed.
    pub fn in_flight(&self) -> u64 {
        self.slab.live_count()
    }

    /// Takes a command at `now` and schedules what must be brought back to [`Nand::on_event`] at
    /// its time. The page or block exists.
    #[inline]
    pub fn submit(&mut self, now: Time, command: Command, events: &mut impl Schedule) {
        let operation = command.operation;
        let die = match operation {
            Operation::Read(page) | Operation::Program(page) => {
                self.units_per_die.quotient(page.get())
            }
            Operation::Erase(block) => self.geometry.die_of(block).get().into(),
        };
        assert!(die < self.die_count, "the flash has the page or block");
        let unit = self.unit_of_die(DieId::new(die as u32));
        self.stats.of_mut(operation.kind()).submitted += 1;
        let id = self.slab.insert(command, now);
        self.note_submitted(id);
        let is_ahead = !self.changes_of_block.is_empty() && self.may_go_ahead(operation, unit);
        let queue = &mut self.units[unit as usize];
        if queue.phase == Phase::Idle {
            debug_assert!(
                queue.has_nothing(),
                "a unit that has something to do does it"
            );
            return self.begin(now, unit, id, events);
        }
        if is_ahead {
            queue.priority.push(&mut self.slab, id);
        } else {
            queue.ordered.push(&mut self.slab, id);
        }
        if let (Phase::Array(running), true) = (queue.phase, is_ahead) {
            self.try_suspend(now, unit, running, events);
        }
    }

    /// As [`Nand::end_phase`]; pushes the command that finished, and gives the part that has come.
    pub fn on_event(
        &mut self,
        now: Time,
        event: NandEvent,
        events: &mut impl Schedule,
        completed: &mut Vec<Completion>,
    ) -> Option<Part> {
        match self.end_phase(now, event, events) {
            PhaseEnd::Nothing => return None,
            PhaseEnd::Part(part) => return Some(part),
            PhaseEnd::Done(completion) => completed.push(completion),
        }
        None
    }

    /// Ends the phase that `event` belongs to, at the time it was scheduled for, and schedules what
    /// follows. An event whose phase was suspended does nothing. In its callers: they take little
    /// of what it gives, and no memory is written for that.
    #[inline(always)]
    pub fn end_phase(
        &mut self,
        now: Time,
        event: NandEvent,
        events: &mut impl Schedule,
    ) -> PhaseEnd {
        let number = event.unit();
        let unit = &mut self.units[number as usize];
        if unit.phase_number != event.phase_number() {
            return PhaseEnd::Nothing;
        }
        assert!(now == unit.phase_end, "an event is brought at its time");
        let phase = unit.phase;
        let lasted = unit.leave(now);
        self.stats.die_occupied += lasted;
        if let (Some(_), Phase::TransferIn(id) | Phase::TransferOut(id)) = (&self.arbiter, phase) {
            let (is_over, part) = self.end_transfer(now, (number, id), lasted, events);
            if !is_over {
                return part.map_or(PhaseEnd::Nothing, PhaseEnd::Part);
            }
        }
        match phase {
            Phase::Idle | Phase::ForBus(_) => unreachable!("such a phase has no event"),
            Phase::Suspending => self.start_next(now, number, events),
            Phase::TransferIn(id) => self.program(now, number, id, events),
            Phase::TransferOut(id) => return self.complete(now, number, id, events),
            Phase::Array(id) => {
                self.stats.die_busy += lasted;
                if self.slab[id].command.operation.kind() != Kind::Read {
                    self.leave_cells(number);
                    return self.complete(now, number, id, events);
                }
                self.enter_transfer(now, number, id, events);
            }
        }
        PhaseEnd::Nothing
    }

    /// Whether a command may start before those that wait already: a read may, unless one of them
    /// is a program of its page or an erase of its block. Notes programs and erases for later
    /// reads.
    #[inline]
    fn may_go_ahead(&mut self, operation: Operation, unit: u32) -> bool {
        let block = operation.block(&self.geometry);
        let changes = &mut self.changes_of_block[block.index()];
        let Operation::Read(page) = operation else {
            *changes += 1;
            return false;
        };
        // Only reads of a block that is being changed pay for the search.
        *changes == 0 || !self.is_changing(page, block, unit)
    }

    /// Whether a program of `page` or an erase of its `block` is not completed.
    fn is_changing(&self, page: Ppa, block: BlockAddr, unit: u32) -> bool {
        let state = &self.units[unit as usize];
        let suspended = state.suspended.map(|suspended| suspended.op);
        state
            .ordered
            .iter(&self.slab)
            .chain(state.phase.op())
            .chain(suspended)
            .any(|id| match self.slab[id].command.operation {
                Operation::Read(_) => false,
                Operation::Program(changing) => {
                    self.geometry.page_of(changing) == self.geometry.page_of(page)
                }
                Operation::Erase(changing) => changing == block,
            })
    }

    /// Gives an idle unit its next command: a read that may go ahead, else what was suspended,
    /// else the oldest.
    #[inline(always)]
    fn start_next(&mut self, now: Time, unit: u32, events: &mut impl Schedule) {
        let queue = &mut self.units[unit as usize];
        let next = match queue.priority.pop(&self.slab) {
            Some(id) => id,
            None => match queue.suspended.take() {
                Some(suspended) => return self.resume(now, unit, suspended, events),
                None => match queue.ordered.pop(&self.slab) {
                    Some(id) => id,
                    None => return,
                },
            },
        };
        self.begin(now, unit, next, events);
    }

    /// An idle unit takes a command up.
    #[inline(never)]
    fn begin(&mut self, now: Time, unit: u32, id: OpId, events: &mut impl Schedule) {
        let op = &mut self.slab[id];
        op.started = now;
        match op.command.operation.kind() {
            Kind::Program => self.enter_transfer(now, unit, id, events),
            _ => self.enter_array(now, unit, id, events),
        }
    }

    #[inline(always)]
    fn enter_array(&mut self, now: Time, unit: u32, id: OpId, events: &mut impl Schedule) {
        let kind = self.slab[id].command.operation.kind();
        let time = match self.empirical.is_some() {
            true => self.drawn_time(kind, unit),
            false => self.timing.expected(kind),
        };
        let mut end = now + time;
        if self.faults.is_some() {
            end += self.read_again(id);
        }
        self.enter(now, unit, Phase::Array(id), end, events);
    }

    /// What an operation takes where times are drawn.
    #[cold]
    fn drawn_time(&mut self, kind: Kind, unit: u32) -> Picos {
        let constant = self.timing.expected(kind);
        let (depth, channel) = (self.slab.live_count(), self.channel_of(unit));
        match self.empirical.as_mut() {
            Some(empirical) => empirical.time(kind, depth, channel, constant),
            None => constant,
        }
    }

    /// A program or erase is not at the cells any more: done or suspended.
    #[inline(always)]
    fn leave_cells(&mut self, unit: u32) {
        if self.empirical.is_some() {
            self.leave_drawn(unit);
        }
    }

    /// The same where times are drawn.
    #[cold]
    fn leave_drawn(&mut self, unit: u32) {
        let channel = self.channel_of(unit);
        if let Some(empirical) = self.empirical.as_mut() {
            empirical.leave(channel);
        }
    }

    /// Units are numbered so that both dies and channels give the channel by remainder.
    #[inline(always)]
    pub(crate) const fn channel_of(&self, unit: u32) -> u32 {
        self.channels.rest(unit as u64) as u32
    }

    /// How much longer flash that can fail reads: until the bits can be corrected, or in vain.
    #[cold]
    fn read_again(&mut self, id: OpId) -> Picos {
        let op = &mut self.slab[id];
        if let (Some(faults), Operation::Read(page)) = (&self.faults, op.command.operation) {
            let outcome = faults.read(page);
            (op.retries, op.is_lost) = (outcome.retries, !outcome.is_corrected);
        }
        self.timing.expected(Kind::Read) * u64::from(op.retries)
    }

    #[inline(always)]
    fn enter_transfer(&mut self, now: Time, unit: u32, id: OpId, events: &mut impl Schedule) {
        if self.arbiter.is_some() {
            return self.ask_bus(now, unit, id, events);
        }
        let channel = self.channel_of(unit) as usize;
        let bus = &mut self.buses[channel];
        let op = &mut self.slab[id];
        let (phase, transfer) = match op.command.operation.kind() {
            Kind::Program => (Phase::TransferIn(id), self.transfer_in),
            _ => (Phase::TransferOut(id), self.transfer_out),
        };
        let (wait, end) = bus.request(now, transfer);
        self.stats.channel_busy += transfer;
        op.channel_wait += wait;
        self.enter(now, unit, phase, end, events);
    }

    #[inline(always)]
    pub(crate) fn enter(
        &mut self,
        now: Time,
        unit: u32,
        phase: Phase,
        end: Time,
        events: &mut impl Schedule,
    ) {
        let state = &mut self.units[unit as usize];
        state.enter(phase, now, end);
        events.schedule(end, NandEvent::new(unit, state.phase_number));
    }

    /// The page has come in: the cells program it, unless a read that came meanwhile goes first.
    /// Nothing is interrupted then, so that the die spends no `t_suspend`.
    #[inline(always)]
    fn program(&mut self, now: Time, unit: u32, id: OpId, events: &mut impl Schedule) {
        let state = &mut self.units[unit as usize];
        if self.suspend.is_none() || state.priority.is_empty() {
            return self.enter_array(now, unit, id, events);
        }
        state.suspended = Some(Suspended {
            op: id,
            remaining: None,
            since: now,
        });
        self.start_next(now, unit, events);
    }

    /// Interrupts the program or erase at the cells for a read, unless it ends sooner than it
    /// could be suspended.
    fn try_suspend(&mut self, now: Time, unit: u32, running: OpId, events: &mut impl Schedule) {
        let Some(t_suspend) = self.suspend else {
            return;
        };
        let state = &mut self.units[unit as usize];
        let remaining = state.phase_end - now;
        if self.slab[running].command.operation.kind() == Kind::Read || remaining <= t_suspend {
            return;
        }
        let lasted = state.leave(now);
        state.suspended = Some(Suspended {
            op: running,
            remaining: Some(remaining),
            since: now,
        });
        self.stats.die_busy += lasted;
        self.stats.die_occupied += lasted;
        self.stats.suspensions += 1;
        self.leave_cells(unit);
        self.enter(now, unit, Phase::Suspending, now + t_suspend, events);
    }

    fn resume(&mut self, now: Time, unit: u32, suspended: Suspended, events: &mut impl Schedule) {
        self.slab[suspended.op].suspended += now - suspended.since;
        let Some(remaining) = suspended.remaining else {
            return self.enter_array(now, unit, suspended.op, events);
        };
        let channel = self.channel_of(unit);
        if let Some(empirical) = self.empirical.as_mut() {
            empirical.resume(channel);
        }
        let end = now + remaining;
        self.enter(now, unit, Phase::Array(suspended.op), end, events);
    }

    #[inline(always)]
    fn complete(&mut self, now: Time, unit: u32, id: OpId, events: &mut impl Schedule) -> PhaseEnd {
        let fault = match self.faults.is_some() {
            true => self.end_with_faults(id),
            false => None,
        };
        let op = &self.slab[id];
        let operation = op.command.operation;
        let completion = Completion {
            tag: op.command.tag,
            operation,
            submitted: op.submitted,
            started: op.started,
            finished: now,
            fault,
        };
        let stats = self.stats.of_mut(operation.kind());
        stats.completed += 1;
        stats.wait += op.started - op.submitted;
        stats.channel_wait += op.channel_wait;
        stats.suspended += op.suspended;
        stats.latency += now - op.submitted;
        self.slab.remove(id);
        self.note_completed(completion.tag);
        if !self.changes_of_block.is_empty() && operation.kind() != Kind::Read {
            let block = operation.block(&self.geometry);
            self.changes_of_block[block.index()] -= 1;
        }
        self.start_next(now, unit, events);
        PhaseEnd::Done(completion)
    }

    /// How a command of flash that can fail ends, and the counters of that.
    #[cold]
    fn end_with_faults(&mut self, id: OpId) -> Option<Fault> {
        let op = &self.slab[id];
        let operation = op.command.operation;
        let faults = self.faults.as_mut()?;
        let is_done = match operation {
            Operation::Read(_) => !op.is_lost,
            Operation::Program(page) => faults.program(page),
            Operation::Erase(block) => faults.erase(block),
        };
        let stats = self.stats.of_mut(operation.kind());
        stats.retries += u64::from(op.retries);
        stats.retry_time += self.timing.expected(Kind::Read) * u64::from(op.retries);
        stats.failed += u64::from(!is_done);
        (!is_done).then(|| fault_of(operation.kind()))
    }

    /// Counts an operation that somebody else has performed, and what it took from its start to its
    /// end. Dies and buses are not those of this flash, and stay idle.
    pub fn count_measured(&mut self, operation: Operation, took: Picos) {
        self.is_measured = true;
        let stats = self.stats.of_mut(operation.kind());
        stats.submitted += 1;
        stats.completed += 1;
        stats.latency += took;
    }

    /// Whether times vary, so that no sum of constants is what commands took.
    pub(crate) const fn times_vary(&self) -> bool {
        self.empirical.is_some() || self.is_measured
    }

    /// Expected time of an operation that waits for nothing.
    pub fn service_time(&self, kind: Kind) -> Picos {
        let array = self.timing.expected(kind);
        match kind {
            Kind::Erase => array,
            Kind::Read => array + self.transfer_out,
            Kind::Program => array + self.transfer_in,
        }
    }

    /// The die or channel that works on a block.
    #[inline]
    pub fn unit_of(&self, block: BlockAddr) -> u32 {
        self.unit_of_die(self.geometry.die_of(block))
    }

    #[inline(always)]
    fn unit_of_die(&self, die: DieId) -> u32 {
        match self.parallelism {
            Parallelism::Die => die.get(),
            Parallelism::Channel => self.geometry.channel_of(die).get(),
        }
    }
}
