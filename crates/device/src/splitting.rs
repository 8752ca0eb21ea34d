//! Transactions that are larger than the log has room for (ByteFS §4.3, D21): what is written so
//! far is committed, and the rest goes on under another name.
//!
//! The firmware wants to hear of a commit when the writes of the transaction are answered, and of
//! no writes behind it. So the command that was refused for want of room waits, and every other
//! write of the transaction before its next piece, until no piece is under way; then the part is
//! committed, and all of them go on.

use crate::command::{Ask, State};
use crate::engine::DeviceEngine;
use crate::world::Event;
use firmware::RequestOp;
use units::TxId;

impl DeviceEngine {
    /// Whether a write has to wait until a part of its transaction is committed. If so, it does.
    pub(crate) fn waits_for_part(&mut self, index: usize) -> bool {
        let Ask::Write(tx) = self.commands[index].ask else {
            return false;
        };
        let is_splitting = self.transactions.splitter(tx).is_some();
        let command = &mut self.commands[index];
        command.is_parked = is_splitting && command.error.is_none() && !command.is_handed_out();
        command.is_parked
    }

    /// A piece of a transaction found no room behind what it has written already.
    pub(crate) fn split(&mut self, index: usize, tx: TxId) {
        self.commands[index].is_parked = true;
        let open = self.transactions.get_mut(tx);
        open.splitter.get_or_insert(index);
    }

    /// Whether anything was written under the name that a transaction has now, or is about to be.
    pub(crate) fn has_part(&mut self, tx: TxId) -> bool {
        self.transactions.get_mut(tx).has_written || self.has_piece_under_way(tx)
    }

    fn has_piece_under_way(&self, tx: TxId) -> bool {
        let mut running = self.running.iter().map(|index| &self.commands[*index]);
        running.any(|command| command.ask == Ask::Write(tx) && command.left > 0)
    }

    /// Has the part committed, if one is to be and no piece of the transaction is under way.
    pub(crate) fn commit_part(&mut self, tx: TxId) {
        let Some(splitter) = self.transactions.splitter(tx) else {
            return;
        };
        if self.has_piece_under_way(tx) {
            return;
        }
        if !self.transactions.get_mut(tx).has_written {
            return self.end_part(tx);
        }
        self.commands[splitter].is_parked = false;
        let tx = self.transactions.name(tx);
        self.send_alone(splitter, RequestOp::Commit { tx });
    }

    /// The part is committed, or cannot be: the writes that wait go on.
    pub(crate) fn end_part(&mut self, tx: TxId) {
        self.transactions.get_mut(tx).splitter = None;
        let now = self.world.now();
        for index in self.running.iter().copied() {
            let command = &mut self.commands[index];
            if command.ask == Ask::Write(tx) && command.is_parked {
                debug_assert_eq!(command.state, State::UnderWay, "what is held has not begun");
                command.is_parked = false;
                self.world.schedule(now, Event::Next(index));
            }
        }
    }
}
