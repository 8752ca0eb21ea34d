//! Bugs of transactions.

use super::{Action, Bug, Sabotage, is_buffer};
use crate::tables::Tables;
use firmware::{Cell, Durable, Platform, Record};
use std::collections::BTreeMap;
use units::{LogSlot, TxId};

/// What a firmware with a bug knows of commits.
#[derive(Debug, Default)]
pub(super) struct Commits {
    entries: BTreeMap<u32, TxId>,
    /// The entry that the firmware takes next, once that can be known.
    next: Option<u32>,
    /// Entries of the TxLog.
    capacity: u32,
    /// A commit that was recorded too early.
    early: Option<(u32, TxId)>,
    /// A commit that is about to be forgotten.
    lost: Option<u32>,
    /// The slot that a line was moved to last.
    moved_to: Option<LogSlot>,
}

impl Commits {
    pub(super) fn of_capacity(capacity: u32) -> Self {
        Self {
            capacity,
            ..Self::default()
        }
    }

    pub(super) fn remember(&mut self, tables: &Tables) {
        self.entries = tables.committed().collect();
    }

    pub(super) fn learn(&mut self, action: Action) {
        match action {
            Action::Record(Record::Committed { at, tx }) => {
                self.entries.insert(at, tx);
                self.next = Some((at + 1) % self.capacity);
            }
            Action::Record(Record::Forgotten { at }) => {
                self.entries.remove(&at);
            }
            Action::CopyLine(Cell::Log(_), Cell::Log(to)) => self.moved_to = Some(to),
            Action::CopyLine(_, Cell::Log(_)) => self.moved_to = None,
            _ => {}
        }
    }

    fn entry_of(&self, tx: TxId) -> Option<u32> {
        let entry = self.entries.iter().find(|(_, other)| **other == tx);
        entry.map(|(at, _)| *at)
    }

    fn is_open(&self, tx: TxId) -> bool {
        tx != TxId::NONE && self.entry_of(tx).is_none()
    }
}

impl<P: Platform> Sabotage<P> {
    pub(super) fn spoil_transactions(&mut self, bug: Bug, action: Action) {
        match (bug, action) {
            (Bug::CommitForgotten, Action::Record(Record::Committed { .. }))
            | (Bug::CommitKept, Action::Record(Record::Forgotten { .. })) => {}
            (Bug::CommitBeforeData, Action::Record(record)) => self.commit_early(record),
            (
                Bug::AnsweredBeforeCommit | Bug::FallbackBeforeCommit,
                Action::Record(Record::Committed { .. }),
            ) => self.held.push(action),
            (Bug::AnsweredBeforeCommit, Action::Respond(_)) => {
                self.pass(action);
                self.release();
            }
            (Bug::FallbackBeforeCommit, Action::Respond(_)) => {
                self.release();
                self.pass(action);
            }
            (Bug::CommitLostEarly, Action::Record(record)) => {
                self.pass(action);
                if let Record::Committed { at, .. } = record {
                    self.commits.lost = Some(at);
                } else if let Some(at) = self.commits.lost.take() {
                    self.pass(Action::Record(Record::Forgotten { at }));
                }
            }
            (Bug::MigratedWithoutName, Action::Record(Record::Logged(slot, mut line)))
                if self.commits.moved_to == Some(slot) =>
            {
                line.tx = TxId::NONE;
                self.pass(Action::Record(Record::Logged(slot, line)));
            }
            (
                Bug::OpenCompacted | Bug::CommitLostInCompaction,
                Action::CopyLine(Cell::Log(slot), to),
            ) if is_buffer(to) => self.spoil_copy(bug, slot, to),
            (Bug::FallbackKept, Action::Record(Record::Dropped(_)))
                if self.copies.is_committing() => {}
            (Bug::AbortKeptLines, Action::Record(Record::Dropped(slot)))
                if self.is_aborted(slot) => {}
            _ => self.pass(action),
        }
    }

    /// The commit of the first transaction that can have one is recorded with its first line.
    fn commit_early(&mut self, record: Record) {
        match (record, self.commits.early) {
            (Record::Logged(_, line), None) if self.commits.is_open(line.tx) => {
                self.pass(Action::Record(record));
                let free = self.commits.next;
                let free = free.filter(|at| !self.commits.entries.contains_key(at));
                if let Some(at) = free {
                    let tx = line.tx;
                    self.commits.early = Some((at, tx));
                    self.pass(Action::Record(Record::Committed { at, tx }));
                }
            }
            (Record::Committed { .. }, Some((at, tx))) => {
                self.commits.early = None;
                if record != (Record::Committed { at, tx }) {
                    self.pass(Action::Record(Record::Forgotten { at }));
                    self.pass(Action::Record(record));
                }
            }
            _ => self.pass(Action::Record(record)),
        }
    }

    /// A slot of an open transaction is given up, and there is no newer copy.
    fn is_aborted(&self, slot: LogSlot) -> bool {
        let line = self.logged.get(&slot);
        let open = line.filter(|line| self.commits.is_open(line.tx));
        open.is_some_and(|line| self.newest.get(&(line.lpa, line.line)) == Some(&slot))
    }

    /// Compaction takes a line up.
    fn spoil_copy(&mut self, bug: Bug, slot: LogSlot, to: Cell) {
        let taken = self.logged.get(&slot).copied();
        let mut from = slot;
        if bug == Bug::OpenCompacted {
            let of = |slot: &LogSlot| self.logged.get(slot).map(|line| (line.lpa, line.line));
            let newest = of(&slot).and_then(|place| self.newest.get(&place));
            let newest = newest.filter(|newest| of(newest) == of(&slot));
            from = newest.copied().unwrap_or(slot);
        }
        self.pass(Action::CopyLine(Cell::Log(from), to));
        let entry = taken.and_then(|line| self.commits.entry_of(line.tx));
        if let (Bug::CommitLostInCompaction, Some(at)) = (bug, entry) {
            self.pass(Action::Record(Record::Forgotten { at }));
        }
    }
}
