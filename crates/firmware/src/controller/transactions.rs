//! Transactions of the host (ByteFS §4.3): lines that count together or not at all.
//!
//! The lines of an open transaction are in the log like others, and reads see them; beside them the
//! log keeps the newest committed copy, which is what compaction takes. Commit is one entry of the
//! TxLog. Abort takes the lines out. When a half is sealed, the lines of open transactions move to
//! the other one at once, so a sealed half holds nothing but committed lines.
//!
//! Invariants: the slot of an open line is in the active half and is what the index has; no frame
//! at rest has a page with open lines, and a frame in flight has only committed lines marked as
//! written; no two transactions have the same line open, so that per line the order of writes is
//! the order of commits; open lines are at most half of what a half holds when it is sealed.

use super::Controller;
use crate::durable::{LoggedLine, Record};
use crate::log_index::LogIndex;
use crate::platform::{
    Answer, Breakdown, Cell, PagePlace, Platform, Refusal, Request, Response, Served,
};
use crate::tx_log::TxLog;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use units::address::LINE_BYTES;
use units::{Bytes, LineInPage, LineMask, LogSlot, Lpa, Time, TxId};

/// A line that an open transaction has written.
#[derive(Clone, Copy)]
struct OpenLine {
    tx: TxId,
    slot: LogSlot,
    /// The newest committed copy in the same half.
    fallback: Option<LogSlot>,
}

type Line = (Lpa, LineInPage);

/// What is open, and what is committed and still in the log.
#[derive(Clone)]
pub(super) struct Transactions {
    /// Never iterated.
    lines: HashMap<Line, OpenLine, FxBuildHasher>,
    /// Open lines by page; never iterated.
    pages: HashMap<Lpa, u32, FxBuildHasher>,
    /// The lines of each open transaction, in the order of their first writes.
    open: BTreeMap<TxId, Vec<Line>>,
    /// Lists of transactions that have ended, for the next ones.
    spare: Vec<Vec<Line>>,
    /// Lines of runs that wait for room, which will be open.
    promised: u32,
    /// Open lines at most.
    most: u32,
    tx_log: TxLog,
    /// Commits that wait for an entry of the TxLog, in order of arrival.
    pub(super) stalled: VecDeque<(Request, TxId, Time)>,
}

impl Transactions {
    /// With `entries` of the TxLog, on a log whose halves are sealed after `seal_slots` lines.
    pub(super) fn new(entries: u32, seal_slots: u32) -> Self {
        Self {
            lines: HashMap::with_hasher(FxBuildHasher),
            pages: HashMap::with_hasher(FxBuildHasher),
            open: BTreeMap::new(),
            spare: Vec::new(),
            promised: 0,
            most: seal_slots / 2,
            tx_log: TxLog::new(entries),
            stalled: VecDeque::new(),
        }
    }

    /// Takes over what is committed.
    pub(super) fn restore(&mut self, committed: Vec<(u32, TxId)>) -> bool {
        self.tx_log.restore(committed)
    }

    /// Forgets what is committed: nothing of it is in the log.
    pub(super) fn forget<P: Platform>(&mut self, platform: &mut P) {
        self.tx_log.seal();
        self.tx_log.release(platform);
    }

    #[inline]
    pub(super) fn has_page(&self, lpa: Lpa) -> bool {
        !self.pages.is_empty() && self.pages.contains_key(&lpa)
    }

    #[inline]
    fn has_line(&self, lpa: Lpa, line: LineInPage) -> bool {
        !self.lines.is_empty() && self.lines.contains_key(&(lpa, line))
    }

    /// Another open transaction that has written one of these lines.
    fn conflict(
        &self,
        lpa: Lpa,
        mut lines: impl Iterator<Item = LineInPage>,
        tx: TxId,
    ) -> Option<TxId> {
        if !self.has_page(lpa) {
            return None;
        }
        lines.find_map(|line| {
            let open = self.lines.get(&(lpa, line))?;
            (open.tx != tx).then_some(open.tx)
        })
    }

    /// Makes room for a run, or says why there is none. `waiting` lines of the transaction are
    /// promised and not written yet.
    fn promise(&mut self, run: (Lpa, LineMask), tx: TxId, waiting: usize) -> Result<(), Refusal> {
        let (lpa, lines) = run;
        if !self.open.contains_key(&tx) && self.tx_log.has(tx) {
            return Err(Refusal::NameInUse);
        }
        let of_tx = self.open.get(&tx).map_or(0, Vec::len);
        let is_new = |line: &LineInPage| !self.lines.contains_key(&(lpa, *line));
        let count = lines.iter().filter(is_new).count();
        if of_tx + waiting + count > self.most as usize {
            return Err(Refusal::TooLarge);
        }
        if self.lines.len() + self.promised as usize + count > self.most as usize {
            return Err(Refusal::NoRoom);
        }
        self.promised += count as u32;
        Ok(())
    }

    /// A line of a transaction is in the log in the place of `replaced`. Returns the slot that
    /// counts for nothing now: an earlier one of the same transaction.
    pub(super) fn add(
        &mut self,
        (lpa, line): Line,
        tx: TxId,
        slot: LogSlot,
        replaced: Option<LogSlot>,
    ) -> Option<LogSlot> {
        if let Some(open) = self.lines.get_mut(&(lpa, line)) {
            return Some(core::mem::replace(&mut open.slot, slot));
        }
        let fallback = replaced;
        self.lines
            .insert((lpa, line), OpenLine { tx, slot, fallback });
        *self.pages.entry(lpa).or_insert(0) += 1;
        self.promised = self.promised.saturating_sub(1);
        let lines = self.open.entry(tx);
        lines
            .or_insert_with(|| self.spare.pop().unwrap_or_default())
            .push((lpa, line));
        None
    }

    /// Whether there is anything to commit or abort under the name: not if a commit of it waits.
    fn may_end(&self, tx: TxId) -> bool {
        let waits = |(_, waiting, _): &(Request, TxId, Time)| *waiting == tx;
        self.open.contains_key(&tx) && !self.stalled.iter().any(waits)
    }

    fn take_line(&mut self, (lpa, line): Line) -> OpenLine {
        let open = self.lines.remove(&(lpa, line));
        let of_page = self.pages.get_mut(&lpa).expect("its page is counted");
        *of_page -= 1;
        if *of_page == 0 {
            self.pages.remove(&lpa);
        }
        open.expect("a line in a list is open")
    }

    fn keep_list(&mut self, mut list: Vec<Line>) {
        list.clear();
        self.spare.push(list);
    }
}

impl<I: LogIndex> Controller<I> {
    /// Whether an open transaction has written the line.
    #[inline]
    pub(super) fn is_open(&self, lpa: Lpa, line: LineInPage) -> bool {
        let transactions = self.transactions.as_ref();
        transactions.is_some_and(|transactions| transactions.has_line(lpa, line))
    }

    /// Whether an open transaction has written a line of the page.
    #[inline]
    pub(super) fn has_open(&self, lpa: Lpa) -> bool {
        let transactions = self.transactions.as_ref();
        transactions.is_some_and(|transactions| transactions.has_page(lpa))
    }

    /// The newest committed copy of a line in the log.
    pub(super) fn find_committed(&self, lpa: Lpa, line: LineInPage) -> Option<LogSlot> {
        let log = self.log.as_ref()?;
        let transactions = self.transactions.as_ref();
        match transactions.and_then(|transactions| transactions.lines.get(&(lpa, line))) {
            None => log.find(lpa, line),
            Some(open) => open.fallback.or_else(|| log.find_sealed(lpa, line)),
        }
    }

    /// Why a write may not be done: an open transaction has written a line of it.
    #[inline]
    pub(super) fn conflict(&self, request: Request, tx: TxId) -> Option<Refusal> {
        let transactions = self.transactions.as_ref()?;
        let (lpa, _) = self.split(request.line);
        let with = transactions.conflict(lpa, self.lines_of(request), tx)?;
        Some(Refusal::Conflict { with })
    }

    /// Why a run may not be written under a transaction; if it may, there will be room.
    pub(super) fn admit(&mut self, request: Request, tx: TxId) -> Result<(), Refusal> {
        let (lpa, _) = self.split(request.line);
        let lines = self.lines_of(request).collect();
        let waiting = self.waiting_lines(tx);
        let transactions = self.transactions.as_mut().ok_or(Refusal::Unsupported)?;
        transactions.promise((lpa, lines), tx, waiting)
    }

    /// Lines of a transaction that wait for room in the log and will be open then.
    fn waiting_lines(&self, tx: TxId) -> usize {
        let waiting = self.stalled_writes.iter();
        let of_tx = waiting.filter(|write| write.request.op.transaction() == tx);
        let lines = of_tx.flat_map(|write| {
            let (lpa, _) = self.split(write.request.line);
            let rest = self.lines_of(write.request).skip(write.appended.into());
            rest.map(move |line| (lpa, line))
        });
        lines
            .filter(|(lpa, line)| !self.is_open(*lpa, *line))
            .count()
    }

    /// A line of the page is open from now on: no frame at rest has it.
    pub(super) fn clear_frame(&mut self, lpa: Lpa) {
        let frame = self.cache.find(lpa);
        if let Some(frame) = frame.filter(|frame| self.cache.mshr_of(*frame).is_none()) {
            self.cache.remove(frame);
        }
    }

    /// COMMIT(TxID).
    pub(super) fn on_commit<P: Platform>(
        &mut self,
        now: Time,
        (request, tx): (Request, TxId),
        platform: &mut P,
    ) {
        self.stats.commits += 1;
        let Some(transactions) = self.transactions.as_mut() else {
            return self.refuse(now, request, Refusal::Unsupported, platform);
        };
        if !transactions.may_end(tx) {
            return self.refuse(now, request, Refusal::UnknownTransaction, platform);
        }
        if transactions.tx_log.is_full() || !transactions.stalled.is_empty() {
            self.stats.commit_stalls += 1;
            transactions.stalled.push_back((request, tx, now));
            return self.turn_log(now, platform);
        }
        self.commit(now, now, (request, tx), platform);
    }

    /// Goes on with the commit that has waited longest for the TxLog, or has the log compacted for
    /// it; says whether it did either.
    pub(super) fn resume_commit<P: Platform>(&mut self, now: Time, platform: &mut P) -> bool {
        let Some(transactions) = self.transactions.as_mut() else {
            return false;
        };
        let Some((request, tx, arrived)) = transactions.stalled.front().copied() else {
            return false;
        };
        if transactions.tx_log.is_full() {
            let log = self.log.as_mut().expect("transactions are in a log");
            // Entries become free with the half that is being compacted, or else with this one.
            let is_to_seal = !log.is_compacting();
            if is_to_seal {
                log.drain();
            }
            return is_to_seal && log.is_draining();
        }
        transactions.stalled.pop_front();
        self.commit(now, arrived, (request, tx), platform);
        true
    }

    fn commit<P: Platform>(
        &mut self,
        now: Time,
        arrived: Time,
        (request, tx): (Request, TxId),
        platform: &mut P,
    ) {
        let transactions = self.transactions.as_mut().expect("one is open");
        let list = transactions.open.remove(&tx).expect("it is open");
        // All lines count with this record; what they replace goes behind it.
        let at = transactions.tx_log.commit(tx, platform);
        for (lpa, line) in list.iter().copied() {
            let transactions = self.transactions.as_mut().expect("as above");
            let open = transactions.take_line((lpa, line));
            if let Some(fallback) = open.fallback {
                platform.record(Record::Dropped(fallback));
            }
            self.give_to_fetch((lpa, line), open.slot, platform);
        }
        self.transactions
            .as_mut()
            .expect("as above")
            .keep_list(list);
        let entry = self.constants.tx_log_base + Bytes::new(4) * u64::from(at);
        let done = platform.dram(now, entry, LINE_BYTES, true);
        self.answer_end(request, (arrived, now, done), platform);
    }

    /// If the page is being fetched, its frame has the line that is committed now.
    fn give_to_fetch<P: Platform>(&mut self, (lpa, line): Line, slot: LogSlot, platform: &mut P) {
        let frame = self.cache.find(lpa);
        let Some((frame, mshr)) = frame.and_then(|it| Some((it, self.cache.mshr_of(it)?))) else {
            return;
        };
        let to = Cell::Page(PagePlace::Frame(frame), line);
        platform.copy_line(Cell::Log(slot), to);
        self.mshrs.get_mut(mshr).written.insert(line);
    }

    /// The transaction's lines are taken out of the log.
    pub(super) fn on_abort<P: Platform>(
        &mut self,
        now: Time,
        (request, tx): (Request, TxId),
        platform: &mut P,
    ) {
        self.stats.aborts += 1;
        let Some(transactions) = self.transactions.as_mut() else {
            return self.refuse(now, request, Refusal::Unsupported, platform);
        };
        if !transactions.may_end(tx) {
            return self.refuse(now, request, Refusal::UnknownTransaction, platform);
        }
        let list = transactions.open.remove(&tx).expect("as was just seen");
        let log = self.log.as_mut().expect("transactions are in a log");
        for (lpa, line) in list.iter().copied() {
            let open = transactions.take_line((lpa, line));
            platform.record(Record::Dropped(open.slot));
            log.retract(lpa, line, open.fallback);
        }
        transactions.keep_list(list);
        self.answer_end(request, (now, now, now), platform);
        self.pump_log(now, platform);
    }

    fn answer_end<P: Platform>(
        &mut self,
        request: Request,
        (arrived, begun, done): (Time, Time, Time),
        platform: &mut P,
    ) {
        self.stats.served.count(Served::Write);
        let breakdown = Breakdown {
            stall: begun - arrived,
            dram: done - begun,
            ..Breakdown::default()
        };
        let response = Response {
            request: request.id,
            answer: Answer::Written,
            at: done,
            served: Served::Write,
            breakdown,
        };
        self.answer(response, platform);
    }

    /// A half has been sealed: what is open moves to the active one, which is empty.
    pub(super) fn migrate_open_lines<P: Platform>(&mut self, now: Time, platform: &mut P) {
        let Some(transactions) = self.transactions.as_mut() else {
            return;
        };
        transactions.tx_log.seal();
        let log = self.log.as_mut().expect("it was sealed");
        for (tx, (lpa, line)) in transactions
            .open
            .iter()
            .flat_map(|(tx, lines)| lines.iter().map(move |line| (*tx, *line)))
        {
            let open = transactions
                .lines
                .get_mut(&(lpa, line))
                .expect("it is open");
            let (slot, _) = log.append(lpa, line);
            platform.copy_line(Cell::Log(open.slot), Cell::Log(slot));
            let read = platform.dram(now, Self::slot_address(open.slot), LINE_BYTES, false);
            platform.dram(read, Self::slot_address(slot), LINE_BYTES, true);
            self.write_order = self.write_order.next();
            let order = self.write_order;
            let logged = LoggedLine {
                lpa,
                line,
                tx,
                order,
            };
            platform.record(Record::Logged(slot, logged));
            platform.record(Record::Dropped(open.slot));
            log.retract_sealed(lpa, line, open.fallback);
            (open.slot, open.fallback) = (slot, None);
            self.stats.migrated_lines += 1;
        }
    }

    /// The sealed half is free, and so are the entries of transactions whose lines were in it.
    pub(super) fn release_commits<P: Platform>(&mut self, platform: &mut P) {
        if let Some(transactions) = self.transactions.as_mut() {
            transactions.tx_log.release(platform);
        }
    }

    /// Checks the invariants of the module.
    pub(super) fn audit_transactions(&self) {
        let (Some(transactions), Some(log)) = (&self.transactions, &self.log) else {
            return;
        };
        let mut count = 0;
        for (tx, (lpa, line)) in transactions
            .open
            .iter()
            .flat_map(|(tx, lines)| lines.iter().map(move |line| (tx, line)))
        {
            let open = transactions.lines.get(&(*lpa, *line));
            let open = open.unwrap_or_else(|| panic!("{lpa} {line:?} of {tx} is not open"));
            assert_eq!(open.tx, *tx, "a line is open under two transactions");
            assert_eq!(
                log.find(*lpa, *line),
                Some(open.slot),
                "an open line is not the newest"
            );
            count += 1;
            let resident = self.cache.find(*lpa);
            let resident = resident.filter(|frame| self.cache.mshr_of(*frame).is_none());
            assert_eq!(resident, None, "a page with open lines rests in a frame");
        }
        assert_eq!(count, transactions.lines.len(), "an open line is of nobody");
        assert!(
            count <= transactions.most as usize,
            "too many lines are open"
        );
    }

    /// What waits for the log of transactions waits no longer, and neither do runs for room.
    pub(super) fn forget_stalled_commits(&mut self) -> Vec<(Request, Time)> {
        let Some(transactions) = self.transactions.as_mut() else {
            return Vec::new();
        };
        transactions.promised = 0;
        let stalled = core::mem::take(&mut transactions.stalled).into_iter();
        stalled
            .map(|(request, _, since)| (request, since))
            .collect()
    }

    /// Waiting commits, for the audit.
    pub(super) fn stalled_commits(&self) -> usize {
        let transactions = self.transactions.as_ref();
        transactions.map_or(0, |transactions| transactions.stalled.len())
    }
}
