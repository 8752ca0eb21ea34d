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

use super::slot_address;
use super::tx_log::TxLog;
use crate::durable::{LoggedLine, Record, WriteOrder};
use crate::log_index::LogIndex;
use crate::platform::{Cell, Platform, Refusal, Request};
use crate::stats::ControllerStats;
use crate::write_log::WriteLog;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use units::address::LINE_BYTES;
use units::{LineInPage, LineMask, LogSlot, Lpa, Time, TxId};

/// A line that an open transaction has written.
#[derive(Clone, Copy)]
struct OpenLine {
    tx: TxId,
    slot: LogSlot,
    /// The newest committed copy in the same half.
    fallback: Option<LogSlot>,
}

/// A line of a page.
pub(super) type Line = (Lpa, LineInPage);

/// A commit that waits for an entry of the TxLog.
pub(super) type WaitingCommit = (Request, TxId, Time);

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
    /// Lines for which a transaction has reserved room, its open ones included.
    reserved: BTreeMap<TxId, u32>,
    /// Of these, lines that are neither open nor promised.
    unused: u32,
    /// Open lines at most.
    most: u32,
    tx_log: TxLog,
    /// Commits that wait for an entry of the TxLog, in order of arrival.
    waiting: VecDeque<WaitingCommit>,
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
            reserved: BTreeMap::new(),
            unused: 0,
            most: seal_slots / 2,
            tx_log: TxLog::new(entries),
            waiting: VecDeque::new(),
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
    pub(super) fn has_line(&self, lpa: Lpa, line: LineInPage) -> bool {
        !self.lines.is_empty() && self.lines.contains_key(&(lpa, line))
    }

    pub(super) fn holder(&self, lpa: Lpa, line: LineInPage) -> Option<TxId> {
        if !self.has_page(lpa) {
            return None;
        }
        self.lines.get(&(lpa, line)).map(|open| open.tx)
    }

    /// Another open transaction that has written one of these lines.
    pub(super) fn conflict(
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

    /// Lines that may be open together.
    pub(super) fn most(&self) -> u32 {
        self.most
    }

    /// Lines that are taken: open, promised or reserved.
    fn taken(&self) -> usize {
        self.lines.len() + (self.promised + self.unused) as usize
    }

    /// Keeps room for so many lines of a transaction that has none yet, or says why there is none.
    pub(super) fn reserve(&mut self, tx: TxId, lines: u32) -> Result<(), Refusal> {
        let is_open = self.open.contains_key(&tx) || self.reserved.contains_key(&tx);
        if is_open || self.tx_log.has(tx) {
            return Err(Refusal::NameInUse);
        }
        if lines > self.most {
            return Err(Refusal::TooLarge);
        }
        if self.taken() + lines as usize > self.most as usize {
            return Err(Refusal::NoRoom);
        }
        self.reserved.insert(tx, lines);
        self.unused += lines;
        Ok(())
    }

    /// The reservation of a transaction ends with it. None of its runs waits for room.
    fn end_reservation(&mut self, tx: TxId, written: usize) {
        if let Some(lines) = self.reserved.remove(&tx) {
            self.unused -= lines - written as u32;
        }
    }

    /// Makes room for a run, or says why there is none. `waiting` lines of the transaction are
    /// promised and not written yet.
    pub(super) fn promise(
        &mut self,
        run: (Lpa, LineMask),
        tx: TxId,
        waiting: usize,
    ) -> Result<(), Refusal> {
        let (lpa, lines) = run;
        if !self.open.contains_key(&tx) && self.tx_log.has(tx) {
            return Err(Refusal::NameInUse);
        }
        let of_tx = self.open.get(&tx).map_or(0, Vec::len);
        let is_new = |line: &LineInPage| !self.lines.contains_key(&(lpa, *line));
        let count = lines.iter().filter(is_new).count();
        let with_run = of_tx + waiting + count;
        if let Some(reserved) = self.reserved.get(&tx) {
            if with_run > *reserved as usize {
                return Err(Refusal::BeyondReservation);
            }
            self.unused -= count as u32;
        } else if with_run > self.most as usize {
            return Err(Refusal::TooLarge);
        } else if self.taken() + count > self.most as usize {
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
    pub(super) fn may_end(&self, tx: TxId) -> bool {
        let waits = |(_, waiting, _): &WaitingCommit| *waiting == tx;
        let is_known = self.open.contains_key(&tx) || self.reserved.contains_key(&tx);
        is_known && !self.waiting.iter().any(waits)
    }

    /// Ends a transaction that has reserved room and written nothing; says whether it was one.
    pub(super) fn end_unwritten(&mut self, tx: TxId) -> bool {
        let is_unwritten = !self.open.contains_key(&tx);
        if is_unwritten {
            self.end_reservation(tx, 0);
        }
        is_unwritten
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

    /// Whether a commit finds no entry of the TxLog.
    pub(super) fn is_full(&self) -> bool {
        self.tx_log.is_full()
    }

    /// The slot of an open line's newest committed copy in the same half, if it has one; None: the
    /// line is not open.
    pub(super) fn fallback_of(&self, lpa: Lpa, line: LineInPage) -> Option<Option<LogSlot>> {
        self.lines.get(&(lpa, line)).map(|open| open.fallback)
    }

    /// Lets a commit wait for the TxLog behind those that already wait.
    pub(super) fn wait(&mut self, commit: WaitingCommit) {
        self.waiting.push_back(commit);
    }

    /// The commit that has waited longest.
    pub(super) fn first_waiting(&self) -> Option<WaitingCommit> {
        self.waiting.front().copied()
    }

    /// It waits no longer.
    pub(super) fn end_wait(&mut self) {
        self.waiting.pop_front();
    }

    /// Commits that wait.
    pub(super) fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    /// No commit waits any more, and no run for room.
    pub(super) fn give_up_waiting(&mut self) -> VecDeque<WaitingCommit> {
        self.promised = 0;
        let written = |tx: &TxId| self.open.get(tx).map_or(0, Vec::len) as u32;
        let unused = self.reserved.iter().map(|(tx, lines)| lines - written(tx));
        self.unused = unused.sum();
        core::mem::take(&mut self.waiting)
    }

    /// All lines of a transaction count; `each` is told of every one with its slot. Returns the
    /// entry of the TxLog.
    pub(super) fn commit<P: Platform>(
        &mut self,
        tx: TxId,
        platform: &mut P,
        mut each: impl FnMut(Line, LogSlot, &mut P),
    ) -> u32 {
        let list = self.open.remove(&tx).expect("it is open");
        self.end_reservation(tx, list.len());
        // All lines count with this record; what they replace goes behind it.
        let at = self.tx_log.commit(tx, platform);
        for line in list.iter().copied() {
            let open = self.take_line(line);
            if let Some(fallback) = open.fallback {
                platform.record(Record::Dropped(fallback));
            }
            each(line, open.slot, platform);
        }
        self.keep_list(list);
        at
    }

    /// The lines of a transaction are taken out of the log.
    pub(super) fn abort<I: LogIndex, P: Platform>(
        &mut self,
        tx: TxId,
        log: &mut WriteLog<I>,
        platform: &mut P,
    ) {
        let list = self.open.remove(&tx).expect("it is open");
        self.end_reservation(tx, list.len());
        for (lpa, line) in list.iter().copied() {
            let open = self.take_line((lpa, line));
            platform.record(Record::Dropped(open.slot));
            log.retract(lpa, line, open.fallback);
        }
        self.keep_list(list);
    }

    /// A half has been sealed: what is open moves to the active one, which is empty.
    pub(super) fn migrate<I: LogIndex, P: Platform>(
        &mut self,
        now: Time,
        (log, order): (&mut WriteLog<I>, &mut WriteOrder),
        stats: &mut ControllerStats,
        platform: &mut P,
    ) {
        self.tx_log.seal();
        for (tx, (lpa, line)) in self
            .open
            .iter()
            .flat_map(|(tx, lines)| lines.iter().map(move |line| (*tx, *line)))
        {
            let open = self.lines.get_mut(&(lpa, line)).expect("it is open");
            let (slot, _) = log.append(lpa, line);
            platform.copy_line(Cell::Log(open.slot), Cell::Log(slot));
            let read = platform.dram(now, slot_address(open.slot), LINE_BYTES, false);
            platform.dram(read, slot_address(slot), LINE_BYTES, true);
            *order = order.next();
            let logged = LoggedLine {
                lpa,
                line,
                tx,
                order: *order,
            };
            platform.record(Record::Logged(slot, logged));
            platform.record(Record::Dropped(open.slot));
            log.retract_sealed(lpa, line, open.fallback);
            (open.slot, open.fallback) = (slot, None);
            stats.migrated_lines += 1;
        }
    }

    /// The sealed half is free, and so are the entries of transactions whose lines were in it.
    pub(super) fn release<P: Platform>(&mut self, platform: &mut P) {
        self.tx_log.release(platform);
    }

    /// Pages of which a line is open; some more than once.
    pub(super) fn open_pages(&self) -> impl Iterator<Item = Lpa> + '_ {
        let lines = self.open.values().flatten();
        lines.map(|(lpa, _)| *lpa)
    }

    /// Checks the invariants of the module, as far as they are of the log.
    pub(super) fn audit<I: LogIndex>(&self, log: &WriteLog<I>) {
        let mut count = 0;
        for (tx, (lpa, line)) in self
            .open
            .iter()
            .flat_map(|(tx, lines)| lines.iter().map(move |line| (tx, line)))
        {
            let open = self.lines.get(&(*lpa, *line));
            let open = open.unwrap_or_else(|| panic!("{lpa} {line:?} of {tx} is not open"));
            assert_eq!(open.tx, *tx, "a line is open under two transactions");
            let newest = log.find(*lpa, *line);
            assert_eq!(newest, Some(open.slot), "an open line is not the newest");
            count += 1;
        }
        assert_eq!(count, self.lines.len(), "an open line is of nobody");
        assert!(
            self.taken() <= self.most as usize,
            "more lines are open or reserved than there is room for"
        );
        let written = |tx: &TxId| self.open.get(tx).map_or(0, Vec::len) as u32;
        let unwritten: u32 = self
            .reserved
            .iter()
            .map(|(tx, lines)| lines.checked_sub(written(tx)))
            .map(|left| left.expect("no transaction writes more than it has reserved"))
            .sum();
        assert!(
            self.unused <= unwritten && unwritten <= self.unused + self.promised,
            "reserved lines are lost"
        );
    }
}
