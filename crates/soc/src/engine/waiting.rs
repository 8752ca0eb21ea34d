//! Waits between transactions (ByteFS §4.3, D21, D25).
//!
//! A write where another open transaction has written waits until that one has ended, first come
//! first served. While it waits it has no place in the order of its lines: whatever the other one
//! still has to do there goes before it. A wait that would close a circle (each transaction in it
//! waits for the next) is refused, and the host aborts that transaction; hosts that write lines in
//! ascending order never see it.
//!
//! A write for which open transactions leave no room in the log waits until one of them has ended.
//! If all that have written wait themselves, nothing would end: the one among them whose write has
//! waited longest is split, that is, what it has written so far is committed and it goes on under
//! another name. A transaction that fills the log by itself is split at once.
//!
//! The firmware wants to hear of a commit when the writes of the transaction are answered, and of
//! no writes behind it. So the commit of a part waits until no request of the transaction is under
//! way, and its other writes wait for the commit.

use super::Engine;
use super::command::{NONE, State};
use super::event::{Event, Word};
use super::operation::Phase;
use super::transactions::Open;
use crate::bytes::DataPlane;
use firmware::RequestOp;
use port::{Command, DeviceError};
use units::{RequestId, Time, TxId};

impl<B: DataPlane> Engine<B> {
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
    fn wake(&mut self, now: Time, is_over: impl Fn(State) -> bool) {
        let commands = &self.commands;
        let queue = &mut self.host.queue;
        self.waiting.retain(|index| {
            let wakes = is_over(commands[*index as usize].state);
            if wakes {
                queue.push(now, Word::of(Event::Resume(*index)));
            }
            !wakes
        });
    }

    /// A command that has waited goes on.
    pub(super) fn resume(&mut self, now: Time, index: u32) {
        let running = &mut self.commands[index as usize];
        running.state = State::UnderWay;
        let tx = running.command.transaction();
        if let Some(tx) = tx {
            self.transactions.get_mut(tx).waiting -= 1;
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

    /// If every transaction that has written waits, one of them is split so that another can end.
    pub(super) fn relieve(&mut self, now: Time) {
        let is_room = |index: &u32| self.commands[*index as usize].state == State::Room;
        let room: Vec<u32> = self.waiting.iter().copied().filter(is_room).collect();
        let can_end = |open: &Open| open.has_written && open.waiting == 0;
        if room.is_empty() || self.transactions.iter().any(|(_, open)| can_end(open)) {
            return;
        }
        let tx_of = |index: u32| self.commands[index as usize].command.transaction();
        let has_written = |tx: TxId| {
            let mut open = self.transactions.iter();
            open.any(|(of, open)| of == tx && open.has_written)
        };
        let mut writers = room
            .iter()
            .filter_map(|index| Some((*index, tx_of(*index)?)));
        let victim = writers.find(|(_, tx)| has_written(*tx));
        match (victim, room.first().copied()) {
            (Some((index, tx)), _) => {
                // It waits for the commit of its part now.
                self.commands[index as usize].state = State::Part;
                self.transactions.get_mut(tx).splitter.get_or_insert(index);
                self.commit_part(now, tx);
            }
            (None, Some(index)) => {
                self.commands[index as usize].error = Some(Box::new(DeviceError::LogFull));
                self.waiting.retain(|waits| *waits != index);
                self.host.queue.push(now, Word::of(Event::Resume(index)));
            }
            (None, None) => {}
        }
    }

    /// Whether a write has to wait until a part of its transaction is committed. If so, it does.
    pub(super) fn waits_for_part(&mut self, index: u32) -> bool {
        let Some(tx) = self.commands[index as usize].command.transaction() else {
            return false;
        };
        let is_splitting = self.transactions.get_mut(tx).splitter.is_some();
        if is_splitting {
            let now = self.now();
            self.wait_for(now, index, State::Part);
        }
        is_splitting
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
        if !open.has_written {
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
        let commands = &self.commands;
        let of_tx: Vec<u32> = self
            .waiting
            .iter()
            .copied()
            .filter(|index| commands[*index as usize].command.transaction() == Some(tx))
            .filter(|index| commands[*index as usize].state == State::Part)
            .collect();
        self.waiting.retain(|index| !of_tx.contains(index));
        for index in of_tx {
            self.host.queue.push(now, Word::of(Event::Resume(index)));
        }
        self.wake(now, |state| {
            state == State::Conflict(before) || state == State::Room
        });
    }

    /// A write under a transaction is over.
    pub(super) fn end_write(&mut self, now: Time, tx: TxId) {
        let open = self.transactions.get_mut(tx);
        open.writes -= 1;
        if open.writes == 0
            && let Some(closer) = open.closer.take()
        {
            self.commands[closer as usize].state = State::UnderWay;
            self.end_transaction(now, closer, tx);
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
            Command::Commit(_) => RequestOp::Commit { tx: name },
            _ => RequestOp::Abort { tx: name },
        };
        self.send_alone(now, index, op);
    }

    /// A transaction has ended: those that waited for it, or for room, go on.
    pub(super) fn forget_transaction(&mut self, now: Time, tx: TxId) {
        let open = self.transactions.close(tx);
        self.wake(now, |state| {
            state == State::Conflict(open.name) || state == State::Room
        });
    }
}
