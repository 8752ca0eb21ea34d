//! Operations on their way to the firmware, and its answers on their way back.

use crate::command::{Ask, Piece};
use crate::engine::{DeviceEngine, Operation};
use crate::latency::{self, Kind};
use crate::world::Event;
use firmware::{Answer, Refusal, RequestOp, Response};
use port::DeviceError;
use units::address::LINE_BYTES;
use units::{Bytes, LineAddr, RequestId, Time, TxId};

impl DeviceEngine {
    /// A command begins that nothing stands before.
    pub(crate) fn start(&mut self, index: usize) {
        let now = self.world.now();
        let has_log = self.has_log;
        let command = &mut self.commands[index];
        match command.ask {
            // Without a log nothing that a store has reached survives.
            Ask::Persist if !has_log => {
                command.finished = self.wire.pushed(now);
                self.send_alone(index, RequestOp::Flush);
            }
            Ask::Persist => {
                command.finished = self.wire.pushed(now);
                self.end(index);
            }
            Ask::Flush => self.send_alone(index, RequestOp::Flush),
            Ask::Commit(tx) | Ask::Abort(tx) => {
                let is_commit = command.ask == Ask::Commit(tx);
                let open = self.transactions.close(tx);
                let command = &mut self.commands[index];
                command.parts = open.parts;
                let tx = open.name;
                if open.has_written {
                    let op = match is_commit {
                        true => RequestOp::Commit { tx },
                        false => RequestOp::Abort { tx },
                    };
                    self.send_alone(index, op);
                } else {
                    // The device knows nothing of it: the host has nothing to say.
                    command.parts = command.parts.saturating_sub(1);
                    self.end(index);
                }
            }
            _ => self.hand_out(index),
        }
    }

    /// Hands out the pieces of a command that may be under way now.
    pub(crate) fn hand_out(&mut self, index: usize) {
        if self.waits_for_part(index) {
            return;
        }
        let name = match self.commands[index].ask {
            Ask::Write(tx) => self.transactions.name(tx),
            _ => TxId::NONE,
        };
        while self.commands[index].error.is_none()
            && let Some(piece) = self.commands[index].next_piece(self.page, name)
        {
            self.send(index, piece);
        }
        if self.commands[index].left == 0 {
            self.end(index);
        }
    }

    /// All of a command is done; the host will know at its time.
    fn end(&mut self, index: usize) {
        let command = &mut self.commands[index];
        command.finished = command.finished.max(self.world.now());
        let at = command.finished;
        self.world.schedule(at, Event::Finish(index));
    }

    pub(crate) fn send_alone(&mut self, index: usize, op: RequestOp) {
        let piece = Piece {
            op,
            line: LineAddr::new(0),
            lines: 0,
            place: 0,
        };
        self.send(index, piece);
    }

    /// Sends an operation to the device.
    fn send(&mut self, index: usize, piece: Piece) {
        let now = self.world.now();
        let size = LINE_BYTES * piece.lines;
        let arrives = match piece.op {
            RequestOp::WriteRun { .. } => self.wire.store(now, piece.lines),
            RequestOp::ReadRun { .. } => self.wire.load(now),
            op if op.is_write() => self.wire.command(now, size),
            _ => self.wire.command(now, Bytes::ZERO),
        };
        let operation = Operation {
            command: index,
            piece,
            arrives,
        };
        let place = (index, piece.place);
        let id = match self.free_operations.pop() {
            Some(id) => {
                let id = RequestId::new(id);
                self.operations[id.index()] = operation;
                self.world.data.payloads.places[id.index()] = place;
                self.world.lines[id.index()] = piece.lines;
                id
            }
            None => {
                self.operations.push(operation);
                self.world.data.payloads.places.push(place);
                self.world.lines.push(piece.lines);
                RequestId::from_index(self.operations.len() - 1)
            }
        };
        self.commands[index].left += 1;
        self.world.schedule(arrives, Event::Arrive(id));
    }

    /// The firmware has answered an operation.
    pub(crate) fn on_answer(&mut self, response: &Response) {
        let operation = self.operations[response.request.index()];
        self.free_operation(response.request);
        self.take_answer(&operation, response);
        if let Ask::Write(tx) = self.commands[operation.command].ask {
            self.commit_part(tx);
        }
    }

    fn take_answer(&mut self, operation: &Operation, response: &Response) {
        let index = operation.command;
        self.commands[index].left -= 1;
        let at = self.comes_back(operation, response);
        let command = &mut self.commands[index];
        command.finished = command.finished.max(at);
        match response.answer {
            Answer::Data | Answer::Written => self.on_done(operation),
            Answer::Delay => panic!("a read is answered with a delay that nobody allowed"),
            Answer::Poison => {
                let at = operation.piece.line.lpa(self.page);
                let first = at.line(self.page, units::LineInPage::new(0)).byte();
                self.fail(index, DeviceError::Lost { at: first });
            }
            Answer::Refused(refusal) => {
                if self.goes_on(operation, refusal) {
                    return;
                }
            }
        }
        let command = &self.commands[index];
        let is_over = command.is_handed_out() || command.error.is_some();
        match (is_over, command.left) {
            (true, 0) => self.end(index),
            (true, _) => {}
            (false, _) => self.world.schedule(at, Event::Next(index)),
        }
    }

    /// When the host knows of an answer.
    fn comes_back(&mut self, operation: &Operation, response: &Response) -> Time {
        let (lines, answered) = (operation.piece.lines, response.at);
        match operation.piece.op {
            RequestOp::WriteRun { .. } => {
                let has_waited = !response.breakdown.stall.is_zero();
                self.wire.stored(operation.arrives, answered, has_waited)
            }
            RequestOp::ReadRun { .. } => self.wire.loaded(answered, lines),
            RequestOp::ReadPage => self.wire.commanded(answered, LINE_BYTES * lines),
            _ => self.wire.commanded(answered, Bytes::ZERO),
        }
    }

    fn on_done(&mut self, operation: &Operation) {
        let index = operation.command;
        let command = &self.commands[index];
        let (piece, moved) = (operation.piece, LINE_BYTES * operation.piece.lines);
        match piece.op {
            RequestOp::ReadRun { .. } => {
                self.stats.byte_port.to_host += moved;
                if command.is_edge(piece.place) {
                    let buffer = &mut self.world.data.payloads.buffers[index];
                    command.join_edge(piece.place, buffer);
                }
            }
            RequestOp::WriteRun { tx, .. } => {
                self.stats.byte_port.to_device += moved;
                if let Ask::Write(host) = command.ask
                    && tx != TxId::NONE
                {
                    self.transactions.get_mut(host).has_written = true;
                }
            }
            RequestOp::ReadPage => self.stats.block_port.to_host += moved,
            RequestOp::WritePage | RequestOp::WritePageThrough => {
                self.stats.block_port.to_device += moved;
            }
            // A transaction that did not fit was committed as far as it is, and goes on.
            RequestOp::Commit { .. } => {
                if let Ask::Write(host) = command.ask {
                    self.transactions.get_mut(host).parts += 1;
                    self.transactions.rename(host);
                    self.end_part(host);
                }
            }
            _ => {}
        }
    }

    /// What a refusal means; says whether the command goes on in spite of it.
    fn goes_on(&mut self, operation: &Operation, refusal: Refusal) -> bool {
        let index = operation.command;
        let ask = self.commands[index].ask;
        let line = operation.piece.line;
        match (refusal, ask) {
            (Refusal::TooLarge, Ask::Write(tx)) if self.transactions.name(tx) != TxId::NONE => {
                if self.has_part(tx) {
                    self.commands[index].next = line.get();
                    self.split(index, tx);
                    return true;
                }
                self.fail(index, DeviceError::LogFull);
            }
            (Refusal::NameInUse, Ask::Write(tx)) => {
                // Another write of the transaction may have found that out before.
                if operation.piece.op.transaction() == self.transactions.name(tx) {
                    self.transactions.rename(tx);
                }
                self.commands[index].next = line.get();
                self.hand_out(index);
                return true;
            }
            (Refusal::Conflict { .. }, _) => {
                self.fail(index, DeviceError::Locked { at: line.byte() });
            }
            (Refusal::ReadOnly, _) => {
                self.fail(index, DeviceError::ReadOnly);
                if let (RequestOp::Commit { .. }, Ask::Write(tx)) = (operation.piece.op, ask) {
                    self.end_part(tx);
                }
            }
            (Refusal::NoRoom | Refusal::TooLarge, _) => self.fail(index, DeviceError::LogFull),
            (Refusal::UnknownTransaction, Ask::Commit(tx) | Ask::Abort(tx)) => {
                self.fail(index, DeviceError::UnknownTransaction { tx });
            }
            (refusal, ask) => panic!("{ask:?} is refused with {refusal:?}, which it cannot be"),
        }
        false
    }

    fn fail(&mut self, index: usize, error: DeviceError) {
        self.commands[index].error.get_or_insert(error);
    }

    /// Counts a command that the host knows the end of.
    pub(crate) fn count(&mut self, index: usize) {
        let command = &self.commands[index];
        let took = command.took();
        if command.error.is_none() {
            let map = self.world.data.tables.map_mut();
            latency::record(map, Kind::of(command.ask), took);
            let stats = &mut self.stats;
            let port = match command.ask.is_block() {
                true => &mut stats.block_port,
                false => &mut stats.byte_port,
            };
            match command.ask {
                Ask::Read | Ask::ReadBlocks => {
                    port.reads += 1;
                    port.read_time = port.read_time.saturating_add(took);
                }
                Ask::Write(_) | Ask::WriteBlocks(_) | Ask::Trim => {
                    port.writes += 1;
                    port.write_time = port.write_time.saturating_add(took);
                }
                Ask::Persist | Ask::Flush => stats.barriers += 1,
                Ask::Commit(_) => stats.commits += 1,
                Ask::Abort(_) => stats.aborts += 1,
            }
        }
        self.count_down();
    }
}
