//! The write log as a whole: two halves of lines, the transactions in them, the writes and commits
//! that wait for room, and what compaction has still to bring to flash.
//!
//! It moves lines of its own and records what survives; it knows neither data cache nor flash. The
//! controller tells it when to turn (seal a full half, free one that is done) and fetches from it
//! what is to be compacted.
//!
//! Sources: SkyByte §III-B; ByteFS §4.3 (transactions, TxLog).

mod compaction;
mod covered;
mod transactions;
mod tx_log;
mod waiting;

use crate::config::{CompactionConfig, CompactionTakes, LogConfig};
use crate::durable::{LoggedLine, Record};
use crate::log_index::LogIndex;
use crate::platform::{Cell, Platform, Refusal, Request};
use crate::policies::at_hand::AtHand;
use crate::stats::ControllerStats;
use crate::write_log::WriteLog;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use compaction::Compaction;
use covered::Covered;
use transactions::{Line, Transactions, WaitingCommit};
use units::address::LINE_BYTES;
use units::{Bytes, LineInPage, LogSlot, Lpa, PageSize, Time, TxId};
pub(crate) use waiting::LogWrite;
use waiting::WaitingWrites;

/// ByteFS §4.3: a commit takes 4 B of the TxLog.
pub(crate) const TX_LOG_ENTRY: Bytes = Bytes::new(4);

/// The first byte of a slot in device DRAM.
#[inline]
pub(crate) fn slot_address(slot: LogSlot) -> Bytes {
    LINE_BYTES * u64::from(slot.get())
}

/// What becomes of a commit that has come, or of the one that has waited longest.
pub(crate) enum Commit {
    /// It can be done.
    Ready(WaitingCommit),
    /// It waits for an entry of the TxLog.
    Waits,
    /// It waits, and what is logged is to be compacted for it from now on.
    Drains,
    /// The transaction has reserved room and written nothing: it has ended.
    Unwritten,
    /// There is none.
    None,
}

/// The write log.
#[derive(Clone)]
pub(crate) struct Log<I> {
    lines: WriteLog<I>,
    /// None: there are none, and nothing is paid for them.
    transactions: Option<Box<Transactions>>,
    compaction: Compaction,
    covered: Covered,
    waiting: WaitingWrites,
    at_hand: AtHand,
    /// Sealed halves that were freed.
    released: u64,
    page: PageSize,
}

impl<I: LogIndex> Log<I> {
    /// An empty log; None if there is to be none. The configuration is valid.
    pub(crate) fn new(
        log: &LogConfig,
        compaction: &CompactionConfig,
        page: PageSize,
    ) -> Option<Self> {
        let in_32_bits = |count: u64| u32::try_from(count).expect("validated");
        let half_slots = in_32_bits(log.half_slot_count());
        if half_slots == 0 {
            return None;
        }
        let seal_slots = in_32_bits(log.seal_slot_count());
        let commits = in_32_bits(log.tx_log / TX_LOG_ENTRY);
        Some(Self {
            lines: WriteLog::new(half_slots, page, log.mode)
                .sealed_at(seal_slots)
                .merging_always(compaction.takes == CompactionTakes::BothHalves),
            transactions: (commits > 0).then(|| Box::new(Transactions::new(commits, seal_slots))),
            compaction: Compaction::new(compaction.batch),
            covered: Covered::default(),
            waiting: WaitingWrites::default(),
            at_hand: AtHand::default(),
            released: 0,
            page,
        })
    }

    // ---- Room ----

    /// From now on a half takes `most` lines and is sealed after `seal`.
    pub(crate) fn resize(&mut self, most: u32, seal: u32) {
        self.lines.resize(most, seal);
    }

    /// Slots that are taken of the half of which more are.
    pub(crate) fn most_used(&self) -> u32 {
        self.lines.most_used()
    }

    // ---- Lines ----

    /// Whether the active half takes another line.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.lines.has_room()
    }

    /// How many lines the active half takes.
    pub(crate) fn room(&self) -> u32 {
        self.lines.room()
    }

    /// The slot with the newest copy of a line.
    #[inline]
    pub(crate) fn find(&self, lpa: Lpa, line: LineInPage) -> Option<LogSlot> {
        self.lines.find(lpa, line)
    }

    /// Somebody looks for lines of the page soon.
    #[inline]
    pub(crate) fn foresee(&self, lpa: Lpa) {
        self.lines.foresee(lpa);
    }

    /// The newest committed copy of a line.
    pub(crate) fn find_committed(&self, lpa: Lpa, line: LineInPage) -> Option<LogSlot> {
        let transactions = self.transactions.as_ref();
        match transactions.and_then(|transactions| transactions.fallback_of(lpa, line)) {
            None => self.lines.find(lpa, line),
            Some(fallback) => fallback.or_else(|| self.lines.find_sealed(lpa, line)),
        }
    }

    /// The newest copy of every logged line of a page, each line once.
    pub(crate) fn newest_lines(
        &self,
        lpa: Lpa,
    ) -> impl Iterator<Item = (LineInPage, LogSlot)> + '_ {
        self.lines.newest_lines(lpa)
    }

    /// Whether any line of the page is logged.
    pub(crate) fn has_page(&self, lpa: Lpa) -> bool {
        self.lines.has_page(lpa)
    }

    /// Every line that is logged and not on flash, each once.
    pub(crate) fn lines(&self) -> Vec<Line> {
        self.lines.lines()
    }

    /// Slots that both halves take.
    pub(crate) fn slot_count(&self) -> u32 {
        self.lines.slot_count()
    }

    /// Slots that have been taken since their half was free.
    pub(crate) fn used_slots(&self) -> u32 {
        self.lines.used_slots()
    }

    /// Appends a line, for which there is room, and vouches for it; `payload` is what it holds.
    /// Returns its slot.
    #[inline]
    pub(crate) fn append<P: Platform>(
        &mut self,
        logged: LoggedLine,
        payload: Cell,
        stats: &mut ControllerStats,
        platform: &mut P,
    ) -> LogSlot {
        let LoggedLine { lpa, line, tx, .. } = logged;
        let (slot, replaced) = self.lines.append(lpa, line);
        stats.log_appends += 1;
        stats.index_bytes_peak = stats.index_bytes_peak.max(self.lines.index_memory());
        platform.copy_line(payload, Cell::Log(slot));
        // The old copy goes when the new one counts: between the two, the order decides.
        platform.record(Record::Logged(slot, logged));
        let outdated = match self.transactions.as_mut() {
            Some(transactions) if tx != TxId::NONE => {
                transactions.add((lpa, line), tx, slot, replaced)
            }
            _ => replaced,
        };
        if let Some(outdated) = outdated {
            platform.record(Record::Dropped(outdated));
        }
        slot
    }

    /// A page leaves the log. What is older of a line goes first, so that no cut brings it back.
    pub(crate) fn drop_page<P: Platform>(&mut self, lpa: Lpa, platform: &mut P) {
        self.uncover(lpa, u64::MAX, platform);
        // As mostly where whole pages are written.
        if !self.lines.has_page(lpa) {
            return;
        }
        for slot in self.lines.slots(lpa) {
            platform.record(Record::Dropped(slot));
        }
        self.lines.drop_page(lpa);
    }

    /// A page in a buffer that is lost with the power takes the place of the page's lines: nobody
    /// finds them any more, and they count until the page is on flash. `age`: of the buffer, in the
    /// order of taking.
    pub(crate) fn cover_page(&mut self, lpa: Lpa, age: u64) {
        self.covered.add(lpa, age, self.lines.slots(lpa));
        self.lines.drop_page(lpa);
    }

    /// A page is on flash, from a buffer of that age: what it and earlier ones have replaced is no
    /// more.
    pub(crate) fn uncover<P: Platform>(&mut self, lpa: Lpa, until: u64, platform: &mut P) {
        let gone = |slot| platform.record(Record::Dropped(slot));
        self.covered.take(lpa, until, gone);
    }

    /// Puts lines back that survived a power cut, in the order of writes. Of a line that a half
    /// has twice the older copy is dropped.
    pub(crate) fn restore<P: Platform>(
        &mut self,
        lines: &[(LogSlot, LoggedLine)],
        now: Time,
        platform: &mut P,
    ) {
        let lines = lines.iter();
        let lines = lines.map(|(slot, logged)| (*slot, logged.lpa, logged.line));
        let drop = |replaced| platform.record(Record::Dropped(replaced));
        self.lines.restore(lines, drop);
        if self.lines.is_compacting() {
            self.compaction.begin(now);
        }
    }

    // ---- Writes that wait for room ----

    /// Whether no write waits.
    pub(crate) fn has_no_waiting_write(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Lets a write wait for room behind those that already wait.
    pub(crate) fn wait(&mut self, write: LogWrite, stats: &mut ControllerStats) {
        self.waiting.push(write, stats);
    }

    /// Lets a run that there was not room enough for wait before all others.
    pub(crate) fn wait_with_rest(&mut self, run: LogWrite, stats: &mut ControllerStats) {
        self.waiting.push_rest(run, stats);
    }

    /// The write that has waited longest, if there is room for a line.
    pub(crate) fn next_write(
        &mut self,
        now: Time,
        stats: &mut ControllerStats,
    ) -> Option<LogWrite> {
        match self.has_room() {
            true => self.waiting.pop(now, stats),
            false => None,
        }
    }

    /// What waits for room waits no longer.
    pub(crate) fn give_up_writes(&mut self) -> VecDeque<LogWrite> {
        self.waiting.take_all()
    }

    /// Requests that wait for room or for the TxLog.
    pub(crate) fn waiting_count(&self) -> usize {
        let commits = self.transactions.as_ref();
        self.waiting.count() + commits.map_or(0, |it| it.waiting_count())
    }

    // ---- Transactions ----

    /// Whether an open transaction has written the line.
    #[inline]
    pub(crate) fn is_open(&self, lpa: Lpa, line: LineInPage) -> bool {
        let transactions = self.transactions.as_ref();
        transactions.is_some_and(|transactions| transactions.has_line(lpa, line))
    }

    /// The open transaction that has written the line.
    pub(crate) fn holder(&self, lpa: Lpa, line: LineInPage) -> Option<TxId> {
        self.transactions.as_ref()?.holder(lpa, line)
    }

    /// Whether an open transaction has written a line of the page.
    #[inline]
    pub(crate) fn has_open(&self, lpa: Lpa) -> bool {
        let transactions = self.transactions.as_ref();
        transactions.is_some_and(|transactions| transactions.has_page(lpa))
    }

    /// Pages of which a line is open; some more than once.
    pub(crate) fn open_pages(&self) -> impl Iterator<Item = Lpa> + '_ {
        let transactions = self.transactions.iter();
        transactions.flat_map(|transactions| transactions.open_pages())
    }

    /// Why a write may not be done: an open transaction, which it is not of, has written a line.
    #[inline]
    pub(crate) fn conflict(&self, request: Request, tx: TxId) -> Option<Refusal> {
        let transactions = self.transactions.as_ref()?;
        let lines = request.lines(self.page);
        let with = transactions.conflict(request.line.lpa(self.page), lines, tx)?;
        Some(Refusal::Conflict { with })
    }

    /// Lines of open transactions that the log keeps at most; 0 without transactions.
    pub(crate) fn most_open_lines(&self) -> u32 {
        self.transactions.as_ref().map_or(0, |it| it.most())
    }

    /// Keeps room for so many lines of a transaction.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn reserve(&mut self, tx: TxId, lines: u32) -> Result<(), Refusal> {
        let transactions = self.transactions.as_mut().ok_or(Refusal::Unsupported)?;
        transactions.reserve(tx, lines)
    }

    /// Why a run may not be written under a transaction; if it may, there will be room.
    pub(crate) fn admit(&mut self, request: Request, tx: TxId) -> Result<(), Refusal> {
        let run = (
            request.line.lpa(self.page),
            request.lines(self.page).collect(),
        );
        let waiting = self.waiting_lines(tx);
        let transactions = self.transactions.as_mut().ok_or(Refusal::Unsupported)?;
        transactions.promise(run, tx, waiting)
    }

    /// Lines of a transaction that wait for room and will be open then.
    fn waiting_lines(&self, tx: TxId) -> usize {
        let of_tx = self
            .waiting
            .iter()
            .filter(|write| write.request.op.transaction() == tx);
        let lines = of_tx.flat_map(|write| {
            let lpa = write.request.line.lpa(self.page);
            let rest = write.request.lines(self.page).skip(write.appended.into());
            rest.map(move |line| (lpa, line))
        });
        lines
            .filter(|(lpa, line)| !self.is_open(*lpa, *line))
            .count()
    }

    /// A commit has come: it can be done or waits.
    ///
    /// # Errors
    /// Why it is refused.
    pub(crate) fn begin_commit(&mut self, commit: WaitingCommit) -> Result<Commit, Refusal> {
        let transactions = self.transactions.as_mut().ok_or(Refusal::Unsupported)?;
        if !transactions.may_end(commit.1) {
            return Err(Refusal::UnknownTransaction);
        }
        if transactions.end_unwritten(commit.1) {
            return Ok(Commit::Unwritten);
        }
        if transactions.is_full() || transactions.waiting_count() > 0 {
            transactions.wait(commit);
            return Ok(Commit::Waits);
        }
        Ok(Commit::Ready(commit))
    }

    /// The commit that has waited longest, if there is an entry of the TxLog for it; otherwise the
    /// log is compacted for it.
    pub(crate) fn next_commit(&mut self) -> Commit {
        let Some(transactions) = self.transactions.as_mut() else {
            return Commit::None;
        };
        let Some(first) = transactions.first_waiting() else {
            return Commit::None;
        };
        if !transactions.is_full() {
            transactions.end_wait();
            return Commit::Ready(first);
        }
        // Entries become free with the half that is being compacted, or else with this one.
        if self.lines.is_compacting() {
            return Commit::Waits;
        }
        self.lines.drain();
        match self.lines.is_draining() {
            true => Commit::Drains,
            false => Commit::Waits,
        }
    }

    /// All lines of a transaction count; `each` is told of every one with its slot. Returns the
    /// entry of the TxLog.
    pub(crate) fn commit<P: Platform>(
        &mut self,
        tx: TxId,
        platform: &mut P,
        each: impl FnMut(Line, LogSlot, &mut P),
    ) -> u32 {
        let transactions = self.transactions.as_mut().expect("one is open");
        transactions.commit(tx, platform, each)
    }

    /// The lines of a transaction are taken out.
    ///
    /// # Errors
    /// Why it is refused.
    pub(crate) fn abort<P: Platform>(&mut self, tx: TxId, platform: &mut P) -> Result<(), Refusal> {
        let transactions = self.transactions.as_mut().ok_or(Refusal::Unsupported)?;
        if !transactions.may_end(tx) {
            return Err(Refusal::UnknownTransaction);
        }
        if !transactions.end_unwritten(tx) {
            transactions.abort(tx, &mut self.lines, platform);
        }
        Ok(())
    }

    /// Commits wait no longer, and neither do runs for room.
    pub(crate) fn give_up_commits(&mut self) -> VecDeque<WaitingCommit> {
        let transactions = self.transactions.as_mut();
        transactions.map_or_else(VecDeque::new, |it| it.give_up_waiting())
    }

    /// Takes over what is committed after a power cut; without lines it is forgotten.
    pub(crate) fn restore_commits<P: Platform>(
        &mut self,
        committed: Vec<(u32, TxId)>,
        is_log_empty: bool,
        platform: &mut P,
    ) {
        let Some(transactions) = self.transactions.as_mut() else {
            return;
        };
        let has_room = transactions.restore(committed);
        assert!(has_room, "the TxLog has been checked");
        if is_log_empty {
            transactions.forget(platform);
        }
    }

    /// Checks the invariants of the log.
    pub(crate) fn audit(&self) {
        self.lines.audit();
        if let Some(transactions) = &self.transactions {
            transactions.audit(&self.lines);
        }
    }
}
