//! Commit and abort: the log decides, the data cache takes what is committed.

use super::Controller;
use crate::log::Commit;
use crate::log_index::LogIndex;
use crate::platform::{
    Answer, Breakdown, Cell, PagePlace, Platform, Refusal, Request, Response, Served,
};
use units::address::LINE_BYTES;
use units::{Bytes, LineAddr, LineInPage, LineMask, Lpa, Time, TxId};

impl<I: LogIndex> Controller<I> {
    /// Whether an open transaction has written the line.
    #[inline]
    pub(super) fn is_open(&self, lpa: Lpa, line: LineInPage) -> bool {
        self.log.as_ref().is_some_and(|log| log.is_open(lpa, line))
    }

    /// Whether an open transaction has written a line of the page.
    #[inline]
    pub(super) fn has_open(&self, lpa: Lpa) -> bool {
        self.log.as_ref().is_some_and(|log| log.has_open(lpa))
    }

    /// Why a write may not be done: an open transaction has written a line of it.
    #[inline]
    pub(super) fn conflict(&self, request: Request, tx: TxId) -> Option<Refusal> {
        self.log.as_ref()?.conflict(request, tx)
    }

    /// A line of the page is open from now on: no frame at rest has it.
    pub(super) fn clear_frame(&mut self, lpa: Lpa) {
        if let Some(frame) = self.cache.find_resident(lpa) {
            self.cache.remove(frame);
        }
    }

    /// Lines of open transactions that the log keeps at most: as many may be reserved, and a
    /// transaction that is not split writes no more. 0: there are no transactions.
    pub fn most_open_lines(&self) -> u32 {
        self.log.as_ref().map_or(0, |log| log.most_open_lines())
    }

    /// The open transaction that has written a line.
    pub fn holder(&self, line: LineAddr) -> Option<TxId> {
        let (lpa, in_page) = self.split(line);
        self.log.as_ref()?.holder(lpa, in_page)
    }

    /// The host asks, before the first write of a transaction, for room for so many lines of it:
    /// its writes of as many lines will not be refused for want of room, and no more may be
    /// written. Commit or abort gives the room back, and so does a power cut.
    ///
    /// # Errors
    /// [`Refusal::TooLarge`]: there never is so much; [`Refusal::NoRoom`]: there is not now;
    /// [`Refusal::NameInUse`]: the transaction has begun, or its name is in the TxLog;
    /// [`Refusal::Unsupported`]: there are no transactions.
    pub fn reserve(&mut self, tx: TxId, lines: u32) -> Result<(), Refusal> {
        let log = self.log.as_mut().ok_or(Refusal::Unsupported)?;
        log.reserve(tx, lines)
    }

    /// COMMIT(TxID).
    pub(super) fn on_commit<P: Platform>(
        &mut self,
        now: Time,
        (request, tx): (Request, TxId),
        platform: &mut P,
    ) {
        self.stats.commits += 1;
        let commit = (request, tx, now);
        let begun = match self.log.as_mut() {
            None => Err(Refusal::Unsupported),
            Some(log) => log.begin_commit(commit),
        };
        match begun {
            Err(why) => self.refuse(now, request, why, platform),
            Ok(Commit::Ready(_)) => self.commit(now, now, (request, tx), platform),
            Ok(Commit::Unwritten) => self.answer_end(request, (now, now, now), platform),
            Ok(_) => {
                self.stats.commit_stalls += 1;
                self.turn_log(now, platform);
            }
        }
    }

    /// Goes on with the commit that has waited longest for the TxLog, or has the log compacted for
    /// it; says whether it did either.
    pub(super) fn resume_commit<P: Platform>(&mut self, now: Time, platform: &mut P) -> bool {
        match self
            .log
            .as_mut()
            .map_or(Commit::None, |log| log.next_commit())
        {
            Commit::Ready((request, tx, arrived)) => {
                self.commit(now, arrived, (request, tx), platform);
                true
            }
            Commit::Drains => true,
            Commit::Waits | Commit::Unwritten | Commit::None => false,
        }
    }

    fn commit<P: Platform>(
        &mut self,
        now: Time,
        arrived: Time,
        (request, tx): (Request, TxId),
        platform: &mut P,
    ) {
        let (log, cache) = (self.log.as_mut(), &mut self.cache);
        let log = log.expect("transactions are in a log");
        let at = log.commit(tx, platform, |(lpa, line), slot, platform| {
            // If the page is being fetched, its frame has the line that is committed now.
            if let Some((frame, mshr)) = cache.find_in_flight(lpa) {
                let to = Cell::Page(PagePlace::Frame(frame), line);
                platform.copy_line(Cell::Log(slot), to);
                cache.add_written(mshr, LineMask::from_iter([line]));
            }
        });
        let entry = self.constants.tx_log_base + Bytes::new(4) * u64::from(at);
        let done = platform.dram(now, entry, LINE_BYTES, true);
        self.answer_end(request, (arrived, now, done), platform);
    }

    /// The transaction's lines are taken out of the log.
    pub(super) fn on_abort<P: Platform>(
        &mut self,
        now: Time,
        (request, tx): (Request, TxId),
        platform: &mut P,
    ) {
        self.stats.aborts += 1;
        let aborted = match self.log.as_mut() {
            None => Err(Refusal::Unsupported),
            Some(log) => log.abort(tx, platform),
        };
        if let Err(why) = aborted {
            return self.refuse(now, request, why, platform);
        }
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
}
