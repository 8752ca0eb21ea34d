//! Operations: the parts of a command, each one request of the firmware at a time.

use super::Engine;
use super::command::{LINE, NONE, Running, State};
use super::event::{Event, Word};
use super::order::Claim;
use crate::bytes::DataPlane;
use crate::lockstep::Lockstep;
use firmware::{Answer, Breakdown, Request, RequestOp, Response};
use port::{Acknowledge, Command, Door};
use units::{Bytes, LineAddr, Picos, RequestId, Time, TxId};

/// Operations of a line-port command that are with the device at a time: all.
const ALL: u32 = u32::MAX;

/// What an operation is of its command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// A part of its range.
    Part,
    /// A page that is read because a part of it is to be written; it is written behind that.
    Partial,
    /// A line that is read because a part of it is to be written; it has no place in the order.
    Edge,
    /// All of a command without a range, or the commit of a part of a transaction.
    Alone,
}

/// How far an operation is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// It has no place in the order.
    Outside,
    /// Others of its lines stand before it.
    Held,
    /// It may go.
    Ready,
    /// It is with the device.
    Sent,
    /// It is done.
    Over,
}

/// An operation of a command.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// Of which command.
    pub command: u32,
    /// The next one of it.
    pub next: u32,
    pub role: Role,
    pub phase: Phase,
    /// What the firmware is asked.
    pub op: RequestOp,
    /// First line.
    pub line: LineAddr,
    /// How many lines it moves in the device.
    pub lines: u16,
    /// Where its bytes are in the command's buffer.
    pub place: usize,
    /// It is all of its command, and takes the short way.
    pub is_single: bool,
    /// When its command was submitted.
    pub created: Time,
    /// When the host sent it.
    pub sent: Time,
    /// When the device answered.
    pub answered: Time,
    pub answer: Answer,
    pub breakdown: Breakdown,
}

/// An operation that begins: what of it is known then.
pub struct New {
    pub command: u32,
    pub role: Role,
    pub phase: Phase,
    pub op: RequestOp,
    pub line: LineAddr,
    pub lines: u16,
    pub place: usize,
    pub is_single: bool,
    pub created: Time,
}

impl Operation {
    /// The place of an operation that there is not.
    pub const NONE: Self = Self {
        command: NONE,
        next: NONE,
        role: Role::Part,
        phase: Phase::Outside,
        op: RequestOp::Flush,
        line: LineAddr::new(0),
        lines: 0,
        place: 0,
        is_single: false,
        created: Time::ZERO,
        sent: Time::ZERO,
        answered: Time::ZERO,
        answer: Answer::Written,
        breakdown: Breakdown {
            stall: Picos::ZERO,
            index: Picos::ZERO,
            dram: Picos::ZERO,
            flash: Picos::ZERO,
        },
    };

    /// Nothing has been done of an operation. What is known when it is sent and answered stays what
    /// it was of another one.
    #[inline]
    pub fn begin(&mut self, new: New) {
        self.command = new.command;
        self.next = NONE;
        self.role = new.role;
        self.phase = new.phase;
        self.op = new.op;
        self.line = new.line;
        self.lines = new.lines;
        self.place = new.place;
        self.is_single = new.is_single;
        self.created = new.created;
    }

    /// The firmware has answered.
    #[inline]
    pub fn take(&mut self, response: &Response) {
        self.answered = response.at;
        self.answer = response.answer;
        self.breakdown = response.breakdown;
    }

    /// Whether the host goes on when the device has it, whatever the answer: a store that found
    /// room.
    #[inline]
    pub fn is_posted(&self) -> bool {
        matches!(self.op, RequestOp::WriteRun { .. }) && self.breakdown.stall.is_zero()
    }
}

/// What operations of one direction took, in sum: picoseconds. An open loop that the device cannot
/// follow makes each of millions wait for minutes, which is beyond 64 bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts {
    /// Operations.
    pub count: u64,
    /// Waiting for other operations of their lines, for room, for other transactions.
    pub order: u128,
    /// The parts that the firmware tells apart.
    pub stall: u128,
    /// Lookups.
    pub index: u128,
    /// Device DRAM.
    pub dram: u128,
    /// Flash.
    pub flash: u128,
    /// The link, there and back.
    pub link: u128,
}

impl Parts {
    /// Adds an operation that is all of its command.
    #[inline]
    pub(super) fn count_one(&mut self, now: Time, operation: &Operation) {
        self.count += 1;
        self.add(now, operation);
    }

    #[inline]
    fn add(&mut self, now: Time, operation: &Operation) {
        let device = &operation.breakdown;
        let order = operation.sent - operation.created;
        let total = now - operation.created;
        let known = order + device.stall + device.index + device.dram + device.flash;
        for (sum, part) in [
            (&mut self.order, order),
            (&mut self.stall, device.stall),
            (&mut self.index, device.index),
            (&mut self.dram, device.dram),
            (&mut self.flash, device.flash),
            // A posted store is in DRAM after the host has gone on.
            (&mut self.link, total.saturating_sub(known)),
        ] {
            *sum += u128::from(part.get());
        }
    }
}

impl<B: DataPlane, W: Lockstep> Engine<B, W> {
    /// Makes the operations of a command, and enters them into the order of their lines.
    #[inline]
    pub(super) fn make_operations(&mut self, now: Time, index: u32) {
        let running = &self.commands[index as usize];
        let (command, first, end) = (running.command, running.first, running.end);
        let span = (running.at, running.at + running.size);
        let door = command.door();
        let (is_lines, is_bytes) = (door == Door::Lines, door == Door::Bytes);
        let is_write = command.is_write();
        let page_bits = self.config.page.line_bits();
        let unit_bits = if is_lines { 0 } else { page_bits };
        let mut line = first;
        let mut last = NONE;
        let mut made = 0;
        while line < end {
            let unit_first = (line >> unit_bits) << unit_bits;
            let unit_end = unit_first + (1 << unit_bits);
            let (from, to) = match is_bytes {
                true => (line, unit_end.min(end)),
                false => (unit_first, unit_end),
            };
            let is_whole = is_bytes || is_lines || from * LINE >= span.0 && to * LINE <= span.1;
            let is_partial = !is_whole && is_write;
            let count = u16::try_from(to - from).expect("a page has few lines");
            let place = match is_whole {
                true => usize::try_from((from - first) * LINE).expect("it is in memory"),
                false => {
                    let part = usize::from(from * LINE >= span.0);
                    self.commands[index as usize].part_place(part, self.config.page)
                }
            };
            let new = New {
                command: index,
                role: if is_partial {
                    Role::Partial
                } else {
                    Role::Part
                },
                phase: Phase::Ready,
                op: op_of(command, is_partial, count),
                line: LineAddr::new(from),
                lines: match command {
                    Command::Trim if is_whole => 0,
                    _ => count,
                },
                place,
                is_single: false,
                created: now,
            };
            let number = match last {
                NONE => index,
                _ => self.new_number(),
            };
            let id = self.open_operation(number, new);
            match last {
                NONE => {
                    let running = &mut self.commands[index as usize];
                    (running.head, running.next) = (id.get(), id.get());
                }
                last => self.host.operations[last as usize].next = id.get(),
            }
            last = id.get();
            made += 1;
            self.enter_lines(id, (from, count), is_write);
            line = unit_end;
        }
        self.commands[index as usize].left = made;
    }

    /// Enters an operation into the order of its lines.
    pub(super) fn enter(&mut self, id: RequestId) {
        let operation = &mut self.host.operations[id.index()];
        operation.phase = Phase::Ready;
        let lines = match operation.op {
            RequestOp::Trim => self.config.page.line_count(),
            _ => operation.lines,
        };
        let first = operation.line.get();
        let command = self.commands[operation.command as usize].command;
        self.enter_lines(id, (first, lines), command.is_write());
    }

    /// Says whether it may go at once.
    #[inline(always)]
    pub(super) fn enter_lines(
        &mut self,
        id: RequestId,
        (first, lines): (u64, u16),
        is_write: bool,
    ) -> bool {
        let page = self.config.page;
        let line = LineAddr::new(first);
        let first = line.in_page(page).index() as u16;
        let claim = Claim {
            page: line.lpa(page),
            first,
            end: first + lines,
            is_write,
        };
        let may_go = self.order.enter(id, claim);
        if !may_go {
            let operation = &mut self.host.operations[id.index()];
            operation.phase = Phase::Held;
            self.commands[operation.command as usize].held += 1;
            self.ordered += 1;
        }
        may_go
    }

    /// An operation leaves the order; those that may go now do.
    #[inline(always)]
    pub(super) fn leave(&mut self, now: Time, id: RequestId) {
        self.order.leave(id, &mut self.freed);
        if !self.freed.is_empty() {
            self.let_go(now);
        }
    }

    /// Operations that waited may go.
    fn let_go(&mut self, now: Time) {
        let mut freed = std::mem::take(&mut self.freed);
        for id in freed.drain(..) {
            let index = self.host.operations[id.index()].command;
            self.host.operations[id.index()].phase = Phase::Ready;
            self.commands[index as usize].held -= 1;
            self.go_on(now, index);
        }
        self.freed = freed;
    }

    /// Notes an operation under a number of its own or its command's.
    #[inline]
    fn open_operation(&mut self, number: u32, new: New) -> RequestId {
        self.host.operations[number as usize].begin(new);
        RequestId::new(number)
    }

    /// A command whose operations were just made begins.
    #[inline]
    pub(super) fn set_out(&mut self, now: Time, index: u32) {
        if self.commands[index as usize].left == 0 {
            return self.conclude(now, index);
        }
        self.go_on(now, index);
    }

    /// Sends those operations of a command that may go now.
    pub(super) fn go_on(&mut self, now: Time, index: u32) {
        let running = &self.commands[index as usize];
        if running.state != State::UnderWay || running.error.is_some() {
            return;
        }
        match running.command.door() {
            Door::Bytes => self.go_on_in_sequence(now, index),
            Door::Lines => self.send_ready(now, index, ALL),
            Door::Blocks => {
                let most = self.config.operations_at_a_time;
                self.send_ready(now, index, most);
            }
            Door::None => {}
        }
    }

    /// The byte port: edges, then runs, one after the other, when nothing stands before any.
    fn go_on_in_sequence(&mut self, now: Time, index: u32) {
        let running = &mut self.commands[index as usize];
        if running.held > 0 || running.in_flight > 0 || running.left == 0 {
            return;
        }
        if self.has_to_wait(index) {
            return;
        }
        let running = &mut self.commands[index as usize];
        if let Some(edge) = running
            .edges
            .iter()
            .position(|is_to_be_read| *is_to_be_read)
        {
            running.edges[edge] = false;
            let line = if edge == 0 {
                running.first
            } else {
                running.end - 1
            };
            let place = running.edge_place(edge);
            if self.meets_holder(now, index, LineAddr::new(line)) {
                return;
            }
            return self.send_beside(
                now,
                index,
                Role::Edge,
                RequestOp::ReadRun { count: 1 },
                (line, 1),
                place,
            );
        }
        let id = RequestId::new(running.next);
        if let Some(tx) = running.command.transaction() {
            let open = self.transactions.get_mut(tx);
            open.is_known = true;
            let name = open.name;
            if let RequestOp::WriteRun { tx, .. } = &mut self.host.operations[id.index()].op {
                *tx = name;
            }
        }
        self.send(now, id);
    }

    /// The other ports: operations that may go, in order, up to so many.
    #[inline]
    fn send_ready(&mut self, now: Time, index: u32, most: u32) {
        let mut at = self.commands[index as usize].next;
        // Those before the first that waits are not looked at again.
        let mut is_first = true;
        while at != NONE && self.commands[index as usize].in_flight < most {
            let operation = &self.host.operations[at as usize];
            let (phase, next) = (operation.phase, operation.next);
            if phase == Phase::Ready {
                self.send(now, RequestId::new(at));
            }
            is_first &= !matches!(phase, Phase::Held | Phase::Outside);
            if is_first {
                self.commands[index as usize].next = next;
            }
            at = next;
        }
    }

    /// Sends a request that is no part of a command's range.
    pub(super) fn send_beside(
        &mut self,
        now: Time,
        index: u32,
        role: Role,
        op: RequestOp,
        (line, lines): (u64, u16),
        place: usize,
    ) {
        let new = New {
            command: index,
            role,
            phase: Phase::Ready,
            op,
            line: LineAddr::new(line),
            lines,
            place,
            is_single: false,
            created: now,
        };
        let number = self.new_number();
        let id = self.open_operation(number, new);
        self.send(now, id);
    }

    /// Sends a request that is all of a command, or the commit of a part of a transaction.
    pub(super) fn send_alone(&mut self, now: Time, index: u32, op: RequestOp) {
        self.send_beside(now, index, Role::Alone, op, (0, 0), 0);
    }

    /// Sends an operation to the device.
    #[inline]
    pub(super) fn send(&mut self, now: Time, id: RequestId) {
        let operation = &mut self.host.operations[id.index()];
        operation.phase = Phase::Sent;
        operation.sent = now;
        let lines = u64::from(operation.lines);
        let size = Bytes::new(lines * LINE);
        let index = operation.command;
        let (command, place) = (index as usize, operation.place);
        let arrives = match operation.op {
            RequestOp::WriteRun { .. } | RequestOp::Write => self.link.store(now, lines),
            RequestOp::ReadRun { .. } | RequestOp::Read { .. } => self.link.load(now),
            op if op.is_write() => self.link.command(now, size),
            // A page is read in the device: the part that is written comes with the command.
            _ if operation.role == Role::Partial => {
                let part = self.asked_bytes(id);
                self.link.command(now, part)
            }
            _ => self.link.command(now, Bytes::ZERO),
        };
        self.soc.resources.bytes.place(id, command, place, lines);
        let running = &mut self.commands[command];
        running.in_flight += 1;
        if let Some(tx) = running.command.transaction() {
            self.transactions.get_mut(tx).in_flight += 1;
        }
        if arrives == now {
            self.deliver(now, id);
        } else {
            self.host.queue.push(arrives, Word::of(Event::Arrive(id)));
        }
    }

    /// Bytes of an operation of the block port that cross the link: those of a page that the host
    /// asks for or writes.
    #[inline]
    pub(super) fn asked_bytes(&self, id: RequestId) -> Bytes {
        let operation = &self.host.operations[id.index()];
        let running = &self.commands[operation.command as usize];
        let asked = running.asked_of(operation.line.get(), operation.lines);
        match running.command {
            Command::Trim => Bytes::ZERO,
            _ => Bytes::new((asked.end - asked.start) * LINE),
        }
    }

    /// Sends the write of a page of which the host has written a part: from the device to itself.
    pub(super) fn send_within(&mut self, now: Time, id: RequestId) {
        let operation = &mut self.host.operations[id.index()];
        operation.sent = now;
        self.commands[operation.command as usize].in_flight += 1;
        self.deliver(now, id);
    }

    /// A request has reached the device.
    #[inline]
    pub(super) fn deliver(&mut self, now: Time, id: RequestId) {
        let operation = &self.host.operations[id.index()];
        match operation.op {
            RequestOp::Abort { .. } => self.aborts += 1,
            RequestOp::ReadPage if operation.role == Role::Partial => {
                let running = &mut self.commands[operation.command as usize];
                if let Some(part) =
                    running.part_at(operation.place, operation.lines, self.config.page)
                {
                    running.aborts[part] = self.aborts;
                }
            }
            _ => {}
        }
        let request = Request {
            id,
            op: operation.op,
            line: operation.line,
            source: None,
        };
        self.on_request(now, request);
    }

    /// The answer leaves the device: the link brings it to the host.
    #[inline]
    pub(super) fn on_answer(&mut self, now: Time, id: RequestId) {
        let operation = &self.host.operations[id.index()];
        let lines = u64::from(operation.lines);
        let known = match operation.op {
            RequestOp::WriteRun { .. } | RequestOp::Write => {
                self.link.post(operation.answered);
                now
            }
            _ if self.link.is_direct() => now,
            RequestOp::ReadRun { .. } | RequestOp::Read { .. } => self.link.loaded(now, lines),
            // The device has read it, to put it together with what is written.
            RequestOp::ReadPage if operation.role == Role::Partial => now,
            RequestOp::ReadPage => {
                let asked = self.asked_bytes(id);
                self.link.commanded(now, asked)
            }
            _ => self.link.commanded(now, Bytes::ZERO),
        };
        if known == now {
            self.on_known(now, id);
        } else {
            self.host.queue.push(known, Word::of(Event::Known(id)));
        }
    }

    /// Counts where the time of an operation went.
    #[inline]
    pub(super) fn count_parts(&mut self, now: Time, id: RequestId) {
        let operation = &self.host.operations[id.index()];
        let is_write = operation.op.is_write() || operation.role == Role::Partial;
        let parts = &mut self.host.parts[usize::from(is_write)];
        parts.count += u64::from(operation.role == Role::Part);
        parts.add(now, operation);
    }

    /// The operations of a command are not heard of any more.
    #[inline]
    pub(super) fn forget_operations(&mut self, index: u32) {
        let running = &mut self.commands[index as usize];
        let mut at = std::mem::replace(&mut running.head, NONE);
        while at != NONE {
            // The first one has the number of its command, whose ticket may be asked for yet.
            if at != index {
                self.free.push(at);
            }
            at = self.host.operations[at as usize].next;
        }
    }
}

impl Running {
    /// Whether everything of it is done.
    pub(super) fn is_complete(&self) -> bool {
        self.left == 0 && self.in_flight == 0
    }
}

fn op_of(command: Command, is_partial: bool, count: u16) -> RequestOp {
    match command {
        Command::Read => RequestOp::ReadRun { count },
        Command::Write(_) => RequestOp::WriteRun {
            count,
            tx: TxId::NONE,
        },
        Command::ReadLines => RequestOp::Read {
            delay_allowed: false,
        },
        Command::WriteLines => RequestOp::Write,
        Command::WriteBlocks(_) | Command::Trim if is_partial => RequestOp::ReadPage,
        Command::WriteBlocks(Acknowledge::Accepted) => RequestOp::WritePage,
        Command::WriteBlocks(Acknowledge::Durable) => RequestOp::WritePageThrough,
        Command::Trim => RequestOp::Trim,
        _ => RequestOp::ReadPage,
    }
}
