//! Waits between transactions (ByteFS §4.3, D21, D25).
//!
//! A write where another open transaction has written waits until that one has ended, first come
//! first served. While it waits it has no place in the order of its lines: whatever the other one
//! still has to do there goes before it. A wait that would close a circle (each transaction in it
//! waits for the next) is refused, and the host aborts that transaction; hosts that write lines in
//! ascending order never see it.
//!
//! A write for which open transactions leave no room in the log waits until one of them has ended.
//! If all that hold room wait themselves, nothing would end: of those that may be split the one
//! whose write has waited longest is, that is, what it has written so far is committed and it goes
//! on under another name; if none may, the write that has waited longest is refused. A transaction
//! that fills the log by itself is split at once. One with a reservation is never in need of room.
//!
//! An abort gives up what waits of its transaction.
//!
//! The firmware wants to hear of a commit when the writes of the transaction are answered, and of
//! no writes behind it. So the commit of a part waits until no request of the transaction is under
//! way, and its other writes wait for the commit.

use super::Engine;
use super::command::{NONE, Running, State};
use super::event::{Event, Word};
use super::operation::Phase;
use crate::bytes::DataPlane;
use crate::lockstep::Lockstep;
use firmware::RequestOp;
use port::{Command, DeviceError};
use units::{LineAddr, RequestId, Time, TxId};

impl<B: DataPlane, W: Lockstep> Engine<B, W> {
    /// A command waits for something else than operations. What it has not sent leaves the order,
    /// unless its own transaction is what it waits for.
    pub(super) fn wait_for(&mut self, now: Time, index: u32, state: State) {
        // Another operation of it may have found something to wait for before.
        if self.commands[index as usize].state == State::UnderWay {
            self.begin_wait(now, index, state);
        }
        if state == State::Part {
            return;
        }
        let mut at = self.commands[index as usize].head;
        while at != NONE {
            let operation = self.host.operations[at as usize];
            if matches!(operation.phase, Phase::Held | Phase::Ready) {
                self.step_out(now, RequestId::new(at));
            }
            at = operation.next;
        }
    }

    fn begin_wait(&mut self, now: Time, index: u32, state: State) {
        let running = &mut self.commands[index as usize];
        running.state = state;
        self.waiting.push(index);
        if let Some(tx) = running.command.transaction() {
            self.transactions.get_mut(tx).waiting += 1;
        }
        if let State::Conflict(name) = state
            && self.transactions.of_name(name).is_none()
        {
            // It ended while the refusal was on its way.
            self.wake(now, |waits| waits == state);
        }
    }

    /// Lets those commands go on, in the order in which they came to wait, whose wait is over.
    pub(super) fn wake(&mut self, now: Time, is_over: impl Fn(State) -> bool) {
        self.end_waits(now, |running| is_over(running.state));
    }

    fn end_waits(&mut self, now: Time, is_over: impl Fn(&Running) -> bool) {
        let commands = &self.commands;
        let transactions = &mut self.transactions;
        let queue = &mut self.host.queue;
        self.waiting.retain(|index| {
            let running = &commands[*index as usize];
            let wakes = is_over(running);
            if wakes {
                queue.push(now, Word::of(Event::Resume(*index)));
                if let Some(tx) = running.command.transaction() {
                    transactions.get_mut(tx).waiting -= 1;
                }
            }
            !wakes
        });
    }

    /// The transaction is aborted: what waits of it is over.
    pub(super) fn give_up_waits(&mut self, now: Time, tx: TxId) {
        self.end_waits(now, |running| {
            running.command.transaction() == Some(tx) && running.state != State::Part
        });
        self.give_up_reservation(now, tx);
    }

    /// A command that has waited goes on.
    pub(super) fn resume(&mut self, now: Time, index: u32) {
        let running = &mut self.commands[index as usize];
        if let Command::Reserve(tx) = running.command {
            return self.on_reservation(now, index, tx);
        }
        running.state = State::UnderWay;
        if let Some(tx) = running.command.transaction()
            && self.transactions.get_mut(tx).is_aborting
        {
            let error = DeviceError::UnknownTransaction { tx };
            running.error.get_or_insert(Box::new(error));
        }
        // What was read of the edges may be of a transaction that was aborted.
        let edges = self.commands[index as usize].cut_edges();
        let mut at = self.commands[index as usize].head;
        let mut left = [false; 2];
        while at != NONE {
            let operation = self.host.operations[at as usize];
            let is_left = matches!(operation.phase, Phase::Outside | Phase::Ready | Phase::Held);
            left[0] |= is_left && at == self.commands[index as usize].head;
            left[1] |= is_left && operation.next == NONE;
            if operation.phase == Phase::Outside {
                self.enter(RequestId::new(at));
            }
            at = operation.next;
        }
        let running = &mut self.commands[index as usize];
        running.edges = [edges[0] && left[0], edges[1] && (left[1] || left[0])];
        running.next = running.head;
        self.skip_done(index);
        if self.commands[index as usize].error.is_some() {
            return self.settle_failed(now, index);
        }
        self.go_on(now, index);
    }

    fn settle_failed(&mut self, now: Time, index: u32) {
        if self.commands[index as usize].in_flight == 0 {
            self.give_up(now, index);
            self.conclude(now, index);
        }
    }

    fn skip_done(&mut self, index: u32) {
        let mut at = self.commands[index as usize].next;
        while at != NONE && self.host.operations[at as usize].phase == Phase::Over {
            at = self.host.operations[at as usize].next;
        }
        self.commands[index as usize].next = at;
    }

    /// A command comes to a line of the open transaction that the firmware knows as `with`: it
    /// waits for its end.
    ///
    /// # Errors
    /// It is not to wait, or would wait for itself.
    pub(super) fn wait_for_holder(
        &mut self,
        now: Time,
        index: u32,
        with: TxId,
        line: LineAddr,
    ) -> Result<(), DeviceError> {
        let at = line.byte();
        if !self.may_wait(index) {
            return Err(DeviceError::Locked { at });
        }
        let tx = self.commands[index as usize].command.transaction();
        if self.closes_a_circle(tx, with) {
            return Err(DeviceError::Deadlock { at });
        }
        self.wait_for(now, index, State::Conflict(with));
        self.relieve(now);
        Ok(())
    }

    /// Whether another open transaction has a line that a write covers in part. What would be read
    /// of it may be taken back before the write is there, so the write waits before it reads; or it
    /// is refused.
    pub(super) fn meets_holder(&mut self, now: Time, index: u32, line: LineAddr) -> bool {
        let Some(with) = self.soc.controller.holder(line) else {
            return false;
        };
        let tx = self.commands[index as usize].command.transaction();
        if tx.is_some_and(|tx| self.transactions.name(tx) == with) {
            return false;
        }
        if let Err(error) = self.wait_for_holder(now, index, with, line) {
            self.fail(index, error);
            self.settle_failed(now, index);
        }
        true
    }

    /// Whether a write of `tx` that waits for the transaction known as `with` would wait for
    /// itself.
    pub(super) fn closes_a_circle(&self, tx: Option<TxId>, with: TxId) -> bool {
        let Some(tx) = tx else {
            return false;
        };
        let mut next = vec![with];
        let mut seen = Vec::new();
        while let Some(name) = next.pop() {
            let Some(other) = self.transactions.of_name(name) else {
                continue;
            };
            if other == tx {
                return true;
            }
            if seen.contains(&other) {
                continue;
            }
            seen.push(other);
            for index in &self.waiting {
                let running = &self.commands[*index as usize];
                if let (Some(of), State::Conflict(name)) =
                    (running.command.transaction(), running.state)
                    && of == other
                {
                    next.push(name);
                }
            }
        }
        false
    }

    /// If everything that holds room waits, one transaction is split so that another can end.
    pub(super) fn relieve(&mut self, now: Time) {
        let is_room = |index: &u32| self.commands[*index as usize].state == State::Room;
        let Some(first) = self.waiting.iter().copied().find(is_room) else {
            return;
        };
        if self.reservations.is_asking() || self.transactions.any_gets_on() {
            return;
        }
        let room = self.waiting.iter().copied().filter(is_room);
        let writers = room.filter_map(|index| {
            let tx = self.commands[index as usize].command.transaction()?;
            let open = self.transactions.get_any(tx);
            open.has_written.then_some((index, tx, open.may_split))
        });
        let (mut longest, mut victim) = (None, None);
        for (index, tx, may_split) in writers {
            longest.get_or_insert(index);
            if may_split {
                victim = Some((index, tx));
                break;
            }
        }
        if let Some((index, tx)) = victim {
            // It waits for the commit of its part now.
            self.commands[index as usize].state = State::Part;
            self.transactions.get_mut(tx).splitter.get_or_insert(index);
            return self.commit_part(now, tx);
        }
        let refused = longest.unwrap_or(first);
        self.commands[refused as usize].error = Some(Box::new(DeviceError::LogFull));
        self.end_waits(now, |running| {
            running.state == State::Room && running.error.is_some()
        });
    }

    /// Whether a write has to wait until a part of its transaction is committed, or until those
    /// have room that have asked for it before its transaction wrote anything. If so, it does.
    pub(super) fn has_to_wait(&mut self, index: u32) -> bool {
        let Some(tx) = self.commands[index as usize].command.transaction() else {
            return false;
        };
        let now = self.now();
        let open = self.transactions.get_mut(tx);
        let is_new = !open.is_known;
        if open.splitter.is_some() {
            self.wait_for(now, index, State::Part);
            return true;
        }
        let waits = is_new && !self.reservations.is_empty() && self.may_wait(index);
        if waits {
            self.wait_for(now, index, State::Room);
        }
        waits
    }

    /// A run of a transaction found no room behind what it has written already.
    pub(super) fn split(&mut self, now: Time, index: u32, tx: TxId) {
        self.transactions.get_mut(tx).splitter.get_or_insert(index);
        self.wait_for(now, index, State::Part);
    }

    /// Whether anything was written under the name that a transaction has now, or is about to be.
    pub(super) fn has_part(&mut self, tx: TxId) -> bool {
        let open = self.transactions.get_mut(tx);
        open.has_written || open.in_flight > 0
    }

    /// Has the part committed, if one is to be and no request of the transaction is under way.
    pub(super) fn commit_part(&mut self, now: Time, tx: TxId) {
        let open = *self.transactions.get_mut(tx);
        let Some(splitter) = open.splitter.filter(|_| open.in_flight == 0) else {
            return;
        };
        if !open.has_written || open.is_aborting {
            return self.end_part(now, tx, false);
        }
        self.send_alone(now, splitter, RequestOp::Commit { tx: open.name });
    }

    /// The part is committed, or cannot be: the writes that wait for it go on, and those of others
    /// that waited for the transaction or for room.
    pub(super) fn end_part(&mut self, now: Time, tx: TxId, is_committed: bool) {
        let before = self.transactions.name(tx);
        if is_committed {
            self.transactions.rename(tx);
        }
        self.transactions.get_mut(tx).splitter = None;
        self.end_waits(now, |running| {
            running.command.transaction() == Some(tx) && running.state == State::Part
        });
        self.ask_for_room(now);
        self.wake(now, |state| {
            state == State::Conflict(before) || state == State::Room
        });
    }

    /// A write under a transaction is over, or its reservation.
    pub(super) fn end_write(&mut self, now: Time, tx: TxId) {
        let open = self.transactions.get_mut(tx);
        open.writes -= 1;
        if open.writes == 0
            && let Some(closer) = open.closer.take()
        {
            self.commands[closer as usize].state = State::UnderWay;
            self.end_transaction(now, closer, tx);
        }
        if !self.waiting.is_empty() {
            // It may have been the last one that was to get on.
            self.relieve(now);
        }
    }

    /// The host ends a transaction: behind its writes, if there are any under way.
    pub(super) fn end_transaction(&mut self, now: Time, index: u32, tx: TxId) {
        let open = self.transactions.get_mut(tx);
        let running = &mut self.commands[index as usize];
        if open.writes > 0 {
            open.closer = Some(index);
            running.state = State::Writes;
            return;
        }
        running.parts = open.parts;
        if !open.has_written {
            // This part is none.
            running.parts = open.parts.saturating_sub(1);
        }
        if !open.is_known {
            // The device knows nothing of it: the host has nothing to say.
            return self.conclude(now, index);
        }
        let name = open.name;
        let op = match running.command {
            Command::Commit(_) => {
                // What it has posted is in DRAM before the host is told that it survives.
                running.finished = running.finished.max(self.link.posted_until());
                RequestOp::Commit { tx: name }
            }
            _ => RequestOp::Abort { tx: name },
        };
        self.send_alone(now, index, op);
    }

    /// A transaction has ended: those that waited for it, or for room, go on.
    pub(super) fn forget_transaction(&mut self, now: Time, tx: TxId) {
        let open = self.transactions.close(tx);
        self.ask_for_room(now);
        self.wake(now, |state| {
            state == State::Conflict(open.name) || state == State::Room
        });
    }
}
