//! Transactions of the host, and what a power cut does to them.

use super::Lab;
use crate::common::Token;
use firmware::log_index::LogIndex;
use firmware::{Refusal, RequestOp};
use std::collections::BTreeMap;
use units::TxId;

/// An open transaction.
#[derive(Default)]
pub struct Open {
    /// What its lines were before it.
    before: BTreeMap<usize, Token>,
    /// Its requests that are not answered.
    pub under_way: u32,
    is_committing: bool,
}

const MOST_OPEN: usize = 4;

impl<I: LogIndex> Lab<I> {
    /// A run, commit or abort of a transaction.
    pub(super) fn access_transaction(&mut self) -> bool {
        if self.open.len() < MOST_OPEN && self.random.below(4) == 0 {
            self.next_tx += 1;
            self.open.insert(self.next_tx, Open::default());
        }
        let count = self.open.len() as u64;
        if count == 0 {
            return false;
        }
        let nth = self.random.below(count) as usize;
        let (name, open) = self.open.iter().nth(nth).expect("there are that many");
        let (tx, is_idle) = (TxId::new(*name), open.under_way == 0 && !open.is_committing);
        match self.random.below(8) {
            0 if is_idle => self.end(RequestOp::Commit { tx }),
            1 if is_idle => self.end(RequestOp::Abort { tx }),
            2.. if !open.is_committing => self.write_in_transaction(tx),
            _ => false,
        }
    }

    fn end(&mut self, op: RequestOp) -> bool {
        if self.outstanding.iter().all(Option::is_some) {
            return false;
        }
        let open = self.open.get_mut(&op.tx().get()).expect("it is open");
        (open.under_way, open.is_committing) = (1, matches!(op, RequestOp::Commit { .. }));
        self.send(0, op, 0)
    }

    fn write_in_transaction(&mut self, tx: TxId) -> bool {
        let line = self.pick_line();
        let (_, in_page) = self.split(line);
        let most = (u64::from(self.page.line_count()) - in_page as u64).min(4);
        let count = (1 + self.random.below(most)) as u16;
        let token = self.tokens();
        let op = RequestOp::WriteRun { count, tx };
        let mut lines = self.lines_of(line, op);
        if lines.any(|index| !self.doubts[index].is_empty()) {
            return false;
        }
        let open = self.open.get_mut(&tx.get()).expect("it is open");
        open.under_way += 1;
        let is_sent = self.send(line, op, token);
        if !is_sent {
            let open = self.open.get_mut(&tx.get()).expect("as above");
            open.under_way -= 1;
        }
        is_sent
    }

    /// A line of a transaction is written.
    pub(super) fn note_write(&mut self, tx: TxId, index: usize) {
        let before = self.model[index];
        let open = self.open.get_mut(&tx.get()).expect("it is open");
        open.before.entry(index).or_insert(before);
    }

    /// A request of a transaction has been answered as done.
    pub(super) fn take_end(&mut self, op: RequestOp) {
        match op {
            RequestOp::Commit { tx } => {
                self.open.remove(&tx.get());
                self.commits += 1;
            }
            RequestOp::Abort { tx } => {
                let open = self.open.remove(&tx.get()).expect("it was open");
                for (index, token) in open.before {
                    self.model[index] = token;
                }
            }
            RequestOp::WriteRun { tx, .. } if tx != TxId::NONE => {
                self.open.get_mut(&tx.get()).expect("it is open").under_way -= 1;
            }
            _ => {}
        }
    }

    /// A request of a transaction was refused by a device that only reads.
    pub(super) fn end_refused(&mut self, op: RequestOp) {
        if let Some(open) = self.open.get_mut(&op.tx().get()) {
            open.under_way -= 1;
            open.is_committing = false;
        }
    }

    /// A request was refused: rightly, and nothing is changed.
    pub(super) fn take_refusal(&mut self, why: Refusal, line: u64, op: RequestOp) {
        let tx = op.tx();
        match why {
            Refusal::Conflict { with } => {
                let other = self.open.get(&with.get());
                let other = other.unwrap_or_else(|| panic!("{with} is not open"));
                assert_ne!(with, tx, "a transaction is in its own way");
                let mut lines = self.lines_of(line, op);
                // A run under way may have written its first lines.
                let has_one = lines.any(|index| other.before.contains_key(&index));
                assert!(
                    has_one || other.under_way > 0,
                    "{with} has no line of {op:?}"
                );
                self.conflicts += 1;
            }
            Refusal::TooLarge | Refusal::NoRoom => assert_ne!(tx, TxId::NONE),
            // It never wrote anything, or what it wrote was refused.
            Refusal::UnknownTransaction => {
                let open = self.open.remove(&tx.get()).expect("the host knows it");
                assert!(open.before.is_empty(), "{tx} is forgotten");
                return;
            }
            other => panic!("{op:?} is refused with {other:?}"),
        }
        if tx != TxId::NONE {
            self.open.get_mut(&tx.get()).expect("as above").under_way -= 1;
        }
        for index in self.lines_of(line, op) {
            self.has_writer[index] = false;
        }
    }

    /// Power was cut: what is open is gone, as a whole. Of what was being committed all is there or
    /// nothing.
    pub(super) fn cut_transactions(&mut self) -> Vec<BTreeMap<usize, Token>> {
        let mut in_doubt = Vec::new();
        for open in std::mem::take(&mut self.open).into_values() {
            if open.is_committing {
                in_doubt.push(open.before);
                continue;
            }
            for (index, token) in open.before {
                self.model[index] = token;
            }
        }
        in_doubt
    }

    /// What was being committed when power was cut is there as a whole or not at all.
    pub(super) fn check_atomic(&mut self, transactions: Vec<BTreeMap<usize, Token>>) {
        for before in transactions {
            let mut new = 0;
            for (index, token) in &before {
                let committed = self.model[*index];
                self.doubts[*index].insert(*token);
                let delay_allowed = false;
                assert!(self.send(*index as u64, RequestOp::Read { delay_allowed }, 0));
                self.drain();
                new += usize::from(self.model[*index] == committed);
            }
            assert!(
                new == 0 || new == before.len(),
                "{new} of {} lines of a transaction are there",
                before.len()
            );
        }
    }
}

trait Named {
    fn tx(self) -> TxId;
}

impl Named for RequestOp {
    fn tx(self) -> TxId {
        match self {
            Self::Commit { tx } | Self::Abort { tx } | Self::WriteRun { tx, .. } => tx,
            _ => TxId::NONE,
        }
    }
}
