//! What the answers to requests mean for their commands.

use super::Engine;
use super::command::{LINE, State};
use super::event::{Event, Word};
use super::operation::{Phase, Role};
use crate::bytes::DataPlane;
use crate::lockstep::Lockstep;
use firmware::{Answer, Refusal, RequestOp};
use port::{Command, Conflict, DeviceError};
use units::{Bytes, LineInPage, RequestId, Time, TxId};

impl<B: DataPlane, W: Lockstep> Engine<B, W> {
    /// A command begins.
    pub(super) fn start(&mut self, index: u32) {
        let now = self.now();
        match self.commands[index as usize].command {
            // Without a log the firmware must bring lines to flash, or says that their frames
            // survive.
            Command::Persist if !self.config.has_log => {
                self.commands[index as usize].finished = self.link.pushed(now);
                self.send_alone(now, index, RequestOp::Flush);
            }
            Command::Persist | Command::PersistPmem => {
                self.commands[index as usize].finished = self.link.pushed(now);
                self.conclude(now, index);
            }
            Command::Flush => self.send_alone(now, index, RequestOp::Flush),
            Command::Commit(tx) | Command::Abort(tx) => self.end_transaction(now, index, tx),
            Command::Drain => self.drain(now, index),
            Command::Reserve(_) => self.reserve(now, index),
            _ => {
                self.make_operations(now, index);
                self.set_out(now, index);
            }
        }
    }

    /// Brings everything that is logged to flash.
    fn drain(&mut self, now: Time, index: u32) {
        let drain = self.soc.with(&mut self.host, |controller, platform| {
            controller.drain_log(now, platform)
        });
        self.draining.push((index, drain));
        self.end_drains(now);
    }

    /// Ends the drains, if what was logged before is on flash, or never will be: at a standstill
    /// nothing more is programmed. With every event of a drain this is asked.
    pub(super) fn end_drains(&mut self, now: Time) {
        let is_stuck = self.soc.controller.is_stuck();
        let mut at = 0;
        while let Some(&(index, drain)) = self.draining.get(at) {
            let is_done = self.soc.controller.is_drained(drain);
            if !is_done && !is_stuck {
                at += 1;
                continue;
            }
            self.draining.remove(at);
            if !is_done {
                self.fail(index, DeviceError::ReadOnly);
            }
            self.conclude(now, index);
        }
    }

    /// The host knows an answer.
    #[inline]
    pub(super) fn on_known(&mut self, now: Time, id: RequestId) {
        if self.host.operations[id.index()].ends_command() {
            return self.end_single(now, id);
        }
        self.count_parts(now, id);
        let operation = &self.host.operations[id.index()];
        let (index, role, answer) = (operation.command, operation.role, operation.answer);
        let next = operation.next;
        let running = &mut self.commands[index as usize];
        running.in_flight -= 1;
        running.finished = running.finished.max(now);
        let tx = running.command.transaction();
        if let Some(tx) = tx {
            self.transactions.get_mut(tx).in_flight -= 1;
        }
        let is_done = match answer {
            Answer::Data | Answer::Written => self.on_done(now, id),
            Answer::Delay => panic!("a read is answered with a delay that nobody allowed"),
            Answer::Poison => self.on_poison(now, id),
            Answer::Refused(refusal) => self.on_refused(now, id, refusal),
        };
        if matches!(role, Role::Edge | Role::Alone) {
            self.free.push(id.get());
        } else if is_done {
            self.host.operations[id.index()].phase = Phase::Over;
            let running = &mut self.commands[index as usize];
            running.left -= 1;
            if running.next == id.get() {
                running.next = next;
            }
            self.leave(now, id);
        }
        if let Some(tx) = tx {
            self.commit_part(now, tx);
        }
        self.settle(now, index);
    }

    /// Goes on with a command, or ends it.
    #[inline]
    fn settle(&mut self, now: Time, index: u32) {
        let running = &self.commands[index as usize];
        if running.error.is_some() && running.state == State::UnderWay {
            if running.in_flight == 0 {
                self.give_up(now, index);
                self.conclude(now, index);
            }
        } else if running.is_complete() && running.state == State::UnderWay {
            self.conclude(now, index);
        } else {
            self.go_on(now, index);
        }
    }

    /// Those operations of a command that has failed leave the order which were not sent.
    pub(super) fn give_up(&mut self, now: Time, index: u32) {
        let mut at = self.commands[index as usize].head;
        while at != super::command::NONE {
            let operation = self.host.operations[at as usize];
            if matches!(operation.phase, Phase::Held | Phase::Ready) {
                self.step_out(now, RequestId::new(at));
            }
            at = operation.next;
        }
    }

    /// An operation that was not sent gives its place in the order up.
    pub(super) fn step_out(&mut self, now: Time, id: RequestId) {
        let operation = &mut self.host.operations[id.index()];
        let was_held = operation.phase == Phase::Held;
        operation.phase = Phase::Outside;
        let index = operation.command as usize;
        self.commands[index].held -= u32::from(was_held);
        self.leave(now, id);
    }

    /// Flash has lost lines that were read. A page of which a part is written keeps them; whoever
    /// reads is told, unless they are not of what was asked.
    #[cold]
    fn on_poison(&mut self, now: Time, id: RequestId) -> bool {
        let operation = &self.host.operations[id.index()];
        let (index, page) = (operation.command, self.config.page);
        let (line, lines, place) = (operation.line, operation.lines, operation.place);
        let running = &self.commands[index as usize];
        if operation.role == Role::Partial {
            return self.on_done(now, id);
        }
        let asked = running.asked_of(line.get(), lines);
        let is_part = running.part_at(place, lines, page).is_some() && asked.start < asked.end;
        if is_part {
            let ahead = usize::try_from((asked.start - line.get()) * LINE).expect("of a page");
            let bytes = &mut self.soc.resources.bytes;
            bytes.place(id, index as usize, place + ahead, asked.end - asked.start);
            if !bytes.is_poisoned(id) {
                return self.on_done(now, id);
            }
        }
        let first = line.lpa(page).line(page, LineInPage::new(0)).byte();
        self.fail(index, DeviceError::Lost { at: first });
        true
    }

    /// Puts together the page of an operation and what the command has of it, if that is a part.
    fn join_part(&mut self, id: RequestId) {
        let operation = &self.host.operations[id.index()];
        let running = &self.commands[operation.command as usize];
        let is_part = running
            .part_at(operation.place, operation.lines, self.config.page)
            .is_some();
        let index = operation.command as usize;
        if is_part && let Some(buffer) = self.soc.resources.bytes.buffer(index) {
            let lines = (operation.line.get(), operation.lines);
            running.join_part(operation.place, lines, buffer);
        }
    }

    /// Says whether the operation is done with its answer, or has another request to make.
    #[inline]
    fn on_done(&mut self, now: Time, id: RequestId) -> bool {
        let operation = &self.host.operations[id.index()];
        let index = operation.command as usize;
        let moved = Bytes::new(LINE * u64::from(operation.lines));
        let byte_port = &mut self.stats.byte_port;
        match operation.op {
            RequestOp::ReadRun { .. } => {
                byte_port.to_host += moved;
                if operation.role == Role::Edge
                    && let Some(buffer) = self.soc.resources.bytes.buffer(index)
                {
                    self.commands[index].join_edge(operation.place, buffer);
                }
            }
            RequestOp::Read { .. } => byte_port.to_host += moved,
            RequestOp::Write => byte_port.to_device += moved,
            RequestOp::WriteRun { .. } => {
                byte_port.to_device += moved;
                if let Some(tx) = self.commands[index].command.transaction() {
                    self.transactions.get_mut(tx).has_written = true;
                }
            }
            RequestOp::ReadPage if operation.role == Role::Partial => {
                self.write_partial(now, id);
                return false;
            }
            RequestOp::ReadPage => {
                let asked = self.asked_bytes(id);
                self.stats.block_port.to_host += asked;
                if asked != moved {
                    self.join_part(id);
                }
            }
            RequestOp::WritePage | RequestOp::WritePageThrough => {
                self.stats.block_port.to_device += self.asked_bytes(id);
            }
            // A transaction that did not fit was committed as far as it is, and goes on.
            RequestOp::Commit { .. } => {
                if let Some(tx) = self.commands[index].command.transaction() {
                    self.transactions.get_mut(tx).parts += 1;
                    self.end_part(now, tx, true);
                }
            }
            _ => {}
        }
        true
    }

    /// A page that is written in part was read: it is written, unless what was read of it may have
    /// been taken back since.
    fn write_partial(&mut self, now: Time, id: RequestId) {
        let operation = &self.host.operations[id.index()];
        let running = &self.commands[operation.command as usize];
        let part = running.part_at(operation.place, operation.lines, self.config.page);
        if part.is_some_and(|part| running.aborts[part] != self.aborts) {
            return self.send_within(now, id);
        }
        self.join_part(id);
        let operation = &mut self.host.operations[id.index()];
        operation.role = Role::Part;
        operation.op = match self.commands[operation.command as usize].command {
            Command::WriteBlocks(port::Acknowledge::Durable) => RequestOp::WritePageThrough,
            _ => RequestOp::WritePage,
        };
        operation.created = now;
        self.partial_writes += 1;
        self.send_within(now, id);
    }

    /// An operation that was refused begins anew when it may. A page of which a part is written is
    /// read again: others may write it meanwhile.
    fn begin_anew(&mut self, id: RequestId) {
        let operation = &mut self.host.operations[id.index()];
        operation.phase = Phase::Ready;
        let running = &self.commands[operation.command as usize];
        let is_part = running
            .part_at(operation.place, operation.lines, self.config.page)
            .is_some();
        if is_part && operation.op.is_write() {
            operation.role = Role::Partial;
            operation.op = RequestOp::ReadPage;
        }
    }

    /// What a refusal means. Says whether the operation is done, and its command with it.
    #[cold]
    fn on_refused(&mut self, now: Time, id: RequestId, refusal: Refusal) -> bool {
        let operation = self.host.operations[id.index()];
        let index = operation.command;
        let command = self.commands[index as usize].command;
        let tx = command.transaction();
        match (refusal, tx) {
            (Refusal::TooLarge, Some(tx)) if self.may_split(tx) && self.has_part(tx) => {
                self.begin_anew(id);
                self.split(now, index, tx);
                return false;
            }
            (Refusal::NameInUse, Some(tx)) => {
                // Another write of the transaction may have found that out before.
                if operation.op.transaction() == self.transactions.name(tx) {
                    self.transactions.rename(tx);
                }
                self.begin_anew(id);
                return false;
            }
            (Refusal::NoRoom, Some(_)) if self.may_wait(index) => {
                self.begin_anew(id);
                self.wait_for(now, index, State::Room);
                self.relieve(now);
                return false;
            }
            (Refusal::Conflict { with }, _) => {
                self.begin_anew(id);
                match self.wait_for_holder(now, index, with, operation.line) {
                    Ok(()) => return false,
                    Err(error) => self.fail(index, error),
                }
            }
            (Refusal::ReadOnly, _) => {
                self.fail(index, DeviceError::ReadOnly);
                if let RequestOp::Commit { tx: name } = operation.op {
                    match (command, tx) {
                        (Command::Commit(_), _) => {
                            // What cannot be committed is taken back: reads see it no more.
                            self.send_alone(now, index, RequestOp::Abort { tx: name });
                        }
                        (_, Some(tx)) => self.end_part(now, tx, false),
                        _ => {}
                    }
                }
            }
            (Refusal::NoRoom, _) => self.fail(index, DeviceError::LogFull),
            (Refusal::TooLarge, _) => {
                let most = self.soc.controller.most_open_lines();
                self.fail(index, DeviceError::TooLarge { most });
            }
            (Refusal::BeyondReservation, Some(tx)) => {
                let lines = self.transactions.get_mut(tx).reserved;
                self.fail(index, DeviceError::BeyondReservation { tx, lines });
            }
            // The device knows nothing of it: every write of it was refused.
            (Refusal::UnknownTransaction, _) if tx.is_none() => {}
            (refusal, _) => panic!("{command:?} is refused with {refusal:?}, which it cannot be"),
        }
        true
    }

    /// Whether a command is to wait, and not to be refused.
    pub(super) fn may_wait(&mut self, index: u32) -> bool {
        let running = &self.commands[index as usize];
        if running.conflict == Conflict::Refuse {
            return false;
        }
        let tx = running.command.transaction();
        tx.is_none_or(|tx| !self.transactions.get_mut(tx).is_aborting)
    }

    fn may_split(&mut self, tx: TxId) -> bool {
        let open = self.transactions.get_mut(tx);
        open.may_split && !open.is_aborting
    }

    pub(super) fn fail(&mut self, index: u32, error: DeviceError) {
        self.commands[index as usize]
            .error
            .get_or_insert(Box::new(error));
    }

    /// All of a command is done; the host knows at its time.
    #[inline]
    pub(super) fn conclude(&mut self, now: Time, index: u32) {
        let running = &mut self.commands[index as usize];
        running.finished = running.finished.max(now);
        let at = running.finished;
        if at == now {
            self.finish(now, index);
        } else {
            self.host.queue.push(at, Word::of(Event::Finish(index)));
        }
    }

    /// The host knows of the end of a command.
    #[inline]
    pub(super) fn finish(&mut self, now: Time, index: u32) {
        self.forget_operations(index);
        let running = &self.commands[index as usize];
        let command = running.command;
        if running.error.is_none() {
            self.count(index);
        }
        self.release(index);
        match command {
            Command::Commit(tx) | Command::Abort(tx) => self.forget_transaction(now, tx),
            Command::Write(tx) if tx != TxId::NONE => self.end_write(now, tx),
            Command::Reserve(tx) => self.end_write(now, tx),
            _ => {}
        }
    }

    /// Counts a command that the host knows the end of.
    #[inline]
    fn count(&mut self, index: u32) {
        let running = &self.commands[index as usize];
        let took = running.took();
        let stats = &mut self.stats;
        let port = match running.command.is_block() {
            true => &mut stats.block_port,
            false => &mut stats.byte_port,
        };
        match running.command {
            Command::Read | Command::ReadLines | Command::ReadBlocks => {
                port.reads += 1;
                port.read_time = port.read_time.saturating_add(took);
            }
            Command::Write(_) | Command::WriteLines | Command::WriteBlocks(_) | Command::Trim => {
                port.writes += 1;
                port.write_time = port.write_time.saturating_add(took);
            }
            Command::Persist | Command::PersistPmem | Command::Flush | Command::Drain => {
                stats.barriers += 1
            }
            Command::Commit(_) => stats.commits += 1,
            Command::Abort(_) => stats.aborts += 1,
            Command::Reserve(_) => {}
        }
    }
}
