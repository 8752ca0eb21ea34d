//! The short way of a command that is one operation: a line, a page, a run of lines of one page.
//!
//! Most commands are. One that no transaction has, and that no line is read for, needs no list of
//! operations and none to go through: it is sent when it is submitted, and over with its answer.
//! Events and their order are those of the long way, which it takes as soon as it has to wait or is
//! refused.

use super::Engine;
use super::command::{LINE, Running, State};
use super::event::{Event, Word};
use super::operation::{New, Operation, Phase, Role};
use crate::bytes::{Brought, DataPlane};
use crate::lockstep::Lockstep;
use firmware::{Answer, Request, RequestOp};
use port::{Acknowledge, Command, Conflict};
use units::{ByteAddr, Bytes, LineAddr, PageSize, RequestId, Time, TxId};

/// A command that is one operation.
#[derive(Clone, Copy)]
pub struct Single {
    op: RequestOp,
    line: LineAddr,
    lines: u16,
    is_write: bool,
    is_block: bool,
}

impl Single {
    /// What is to be done for a command, if that is one operation.
    #[inline]
    pub fn of(command: Command, (at, size): (ByteAddr, Bytes), page: PageSize) -> Option<Self> {
        let (at, size) = (at.get(), size.get());
        // What is no range may be anything.
        let last = at.wrapping_add(size.checked_sub(1)?);
        let first = at / LINE;
        let is_line = last / LINE == first;
        // Of more lines than a page has it is not looked at.
        let lines = (last / LINE).wrapping_sub(first).wrapping_add(1) as u16;
        let rest_of_page = page.bytes().get() - 1;
        let is_in_page = at | rest_of_page == last | rest_of_page;
        let is_page = size == rest_of_page + 1 && at & rest_of_page == 0;
        let is_lines = (at | size) & (LINE - 1) == 0;
        let of_lines = |op, is_write| Self {
            op,
            line: LineAddr::new(first),
            lines,
            is_write,
            is_block: false,
        };
        let of_page = |op, is_write| Self {
            is_block: true,
            ..of_lines(op, is_write)
        };
        match command {
            Command::ReadLines if is_line => {
                let delay_allowed = false;
                Some(of_lines(RequestOp::Read { delay_allowed }, false))
            }
            Command::WriteLines if is_line => Some(of_lines(RequestOp::Write, true)),
            Command::Read if is_in_page => {
                Some(of_lines(RequestOp::ReadRun { count: lines }, false))
            }
            Command::Write(tx @ TxId::NONE) if is_in_page && is_lines => {
                Some(of_lines(RequestOp::WriteRun { count: lines, tx }, true))
            }
            Command::ReadBlocks if is_page => Some(of_page(RequestOp::ReadPage, false)),
            Command::WriteBlocks(Acknowledge::Accepted) if is_page => {
                Some(of_page(RequestOp::WritePage, true))
            }
            Command::WriteBlocks(Acknowledge::Durable) if is_page => {
                Some(of_page(RequestOp::WritePageThrough, true))
            }
            _ => None,
        }
    }
}

impl Running {
    /// A command that is one operation takes the place of one that is over.
    #[inline]
    fn begin_single(
        &mut self,
        number: u32,
        (command, conflict, is_abandoned): (Command, Conflict, bool),
        (at, size): (ByteAddr, Bytes),
        (single, now): (&Single, Time),
    ) {
        self.command = command;
        self.state = State::UnderWay;
        self.conflict = conflict;
        (self.at, self.size) = (at.get(), size.get());
        self.first = single.line.get();
        self.end = self.first + u64::from(single.lines);
        (self.head, self.next) = (number, number);
        (self.held, self.left, self.in_flight) = (0, 1, 0);
        (self.submitted, self.finished) = (now, now);
        self.parts = 0;
        debug_assert!(self.error.is_none(), "whoever had the place was told");
        self.is_abandoned = is_abandoned;
        self.edges = [false; 2];
    }
}

impl<B: DataPlane, W: Lockstep> Engine<B, W> {
    /// Begins a command that is one operation, and sends that if it may go.
    #[inline]
    pub(super) fn start_single(
        &mut self,
        now: Time,
        asked: (Command, Conflict, bool),
        range: (ByteAddr, Bytes),
        single: &Single,
        brought: Brought<'_>,
    ) -> u32 {
        let Single {
            op,
            line,
            lines,
            is_write,
            is_block,
        } = *single;
        let number = self.new_number();
        let place = number as usize;
        self.commands[place].begin_single(number, asked, range, (single, now));
        let id = RequestId::new(number);
        let operation = &mut self.host.operations[place];
        operation.begin(New {
            command: number,
            role: Role::Part,
            phase: Phase::Sent,
            op,
            line,
            lines,
            place: 0,
            is_single: true,
            created: now,
        });
        operation.sent = now;
        let size = LINE * u64::from(lines);
        let offset = (range.0.get() - line.get() * LINE) as usize;
        let data = &mut self.soc.resources.bytes;
        brought.open(data, place, (size as usize, offset));
        if !self.enter_lines(id, (line.get(), lines), is_write) {
            return number;
        }
        let data = &mut self.soc.resources.bytes;
        data.place(id, place, 0, lines.into());
        self.commands[place].in_flight = 1;
        let arrives = match (is_block, is_write) {
            (false, false) => self.link.load(now),
            (false, true) => self.link.store(now, lines.into()),
            (true, false) => self.link.command(now, Bytes::ZERO),
            (true, true) => self.link.command(now, Bytes::new(size)),
        };
        if arrives > now {
            let arrival = Word::of(Event::Arrive(id));
            self.host.queue.push(arrives, arrival);
            return number;
        }
        let request = Request {
            id,
            op,
            line,
            source: None,
        };
        self.on_request(now, request);
        number
    }

    /// The host knows the answer to an operation that is all of its command: the command is over.
    #[inline]
    pub(super) fn end_single(&mut self, now: Time, id: RequestId) {
        let operation = &self.host.operations[id.index()];
        let (is_write, is_block) = (operation.op.is_write(), operation.op.is_page());
        let moved = Bytes::new(LINE * u64::from(operation.lines));
        self.host.parts[usize::from(is_write)].count_one(now, operation);
        self.leave(now, id);
        let running = &mut self.commands[id.index()];
        running.finished = now;
        let took = now - running.submitted;
        let port = match is_block {
            true => &mut self.stats.block_port,
            false => &mut self.stats.byte_port,
        };
        if is_write {
            port.to_device += moved;
            port.writes += 1;
            port.write_time = port.write_time.saturating_add(took);
        } else {
            port.to_host += moved;
            port.reads += 1;
            port.read_time = port.read_time.saturating_add(took);
        }
        self.release_as(id.get(), now, false);
    }
}

impl Operation {
    /// Whether its answer ends its command.
    #[inline]
    pub(super) fn ends_command(&self) -> bool {
        self.is_single && matches!(self.answer, Answer::Data | Answer::Written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::Door;
    use proptest::prelude::*;
    use units::address::LINE_BYTES;

    const PAGE: PageSize = PageSize::KIB_4;

    /// Operations of the long way: of whole lines or pages, or runs of lines of one page each.
    fn is_single(command: Command, at: u64, size: u64) -> bool {
        let page = PAGE.bytes().get();
        let unit = match command.door() {
            Door::Lines => LINE,
            _ => page,
        };
        let is_whole = match command {
            Command::Write(_) => at.is_multiple_of(LINE) && size.is_multiple_of(LINE),
            Command::ReadBlocks | Command::WriteBlocks(_) => {
                at.is_multiple_of(page) && size == page
            }
            _ => true,
        };
        size > 0 && is_whole && at / unit == (at + size - 1) / unit
    }

    fn commands() -> impl Strategy<Value = Command> {
        prop_oneof![
            Just(Command::Read),
            Just(Command::Write(TxId::NONE)),
            Just(Command::ReadLines),
            Just(Command::WriteLines),
            Just(Command::ReadBlocks),
            Just(Command::WriteBlocks(Acknowledge::Accepted)),
            Just(Command::WriteBlocks(Acknowledge::Durable)),
        ]
    }

    proptest! {
        #[test]
        fn a_command_is_single_if_the_long_way_makes_one_operation_of_it(
            command in commands(),
            at in prop_oneof![0u64..200, Just(4096u64), 4000u64..8300],
            size in prop_oneof![0u64..300, Just(4096u64), 4000u64..8300, (0u64..4).prop_map(|more| (65_535 + more) * LINE)],
        ) {
            let range = (ByteAddr::new(at), Bytes::new(size));
            let single = Single::of(command, range, PAGE);
            prop_assert_eq!(single.is_some(), is_single(command, at, size));
            if let Some(single) = single {
                let end = (at + size).div_ceil(LINE);
                prop_assert_eq!(single.line.get(), at / LINE);
                prop_assert_eq!(u64::from(single.lines), end - at / LINE);
                prop_assert_eq!(single.is_write, command.is_write());
                prop_assert_eq!(single.is_block, command.is_block());
                prop_assert_eq!(single.op.is_write(), command.is_write());
                prop_assert_eq!(single.op.is_page(), command.is_block());
            }
        }
    }

    #[test]
    fn what_has_no_range_or_a_transaction_is_not() {
        let line = (ByteAddr::new(0), LINE_BYTES);
        let far = (ByteAddr::new(u64::MAX), Bytes::new(u64::MAX));
        let tx = TxId::new(3);
        for command in [
            Command::Write(tx),
            Command::Trim,
            Command::Reserve(tx),
            Command::Flush,
            Command::Commit(tx),
        ] {
            for range in [line, far] {
                assert!(Single::of(command, range, PAGE).is_none(), "{command:?}");
            }
        }
    }
}
