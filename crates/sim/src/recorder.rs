//! What happened in a stretch of a run, and its slowest loads: for the timeline and for `why`.
//!
//! A run that records pays a branch per read that comes back from the device and per thread that
//! leaves a core; one that does not pays the same branch. Recording changes no event, so a run can
//! be repeated to look closer at what its first pass has found.

use crate::request::Pending;
use firmware::{Answer, Breakdown, RequestOp, Response, Served};
use host::Hop;
use nand::Completion;
use std::ops::Range;
use units::{CoreId, DieId, LineAddr, Picos, ThreadId, Time};

/// What is recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recording {
    /// Which instants of the measured part; what overlaps them is kept.
    pub span: Range<Time>,
    /// At most so many records of each kind; more are counted and left out.
    pub limit: usize,
    /// How many of the slowest loads are kept.
    pub slowest: usize,
}

/// A read that came back from the device, or was answered by SkyByte-Delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccessRecord {
    /// The line; of a whole page the first one.
    pub line: LineAddr,
    /// Whether it is a whole page.
    pub is_page: bool,
    /// The die its page was on when the answer came; `None` if it is not mapped.
    pub die: Option<DieId>,
    /// The core of the first that waited for it.
    pub core: Option<CoreId>,
    /// Data or SkyByte-Delay.
    pub answer: Answer,
    /// Where it was served.
    pub served: Served,
    /// When the line was first asked for by anyone who then got SkyByte-Delay; otherwise `issued`.
    pub first: Time,
    /// When this access missed L3.
    pub issued: Time,
    /// When it went onto the link.
    pub sent: Time,
    /// When it arrived at the device.
    pub arrived: Time,
    /// When its answer left the device.
    pub answered: Time,
    /// When the answer was at the host.
    pub done: Time,
    /// Where the time on the device went.
    pub breakdown: Breakdown,
    /// Ways between nodes: `there` before it was sent, `back` before it was done.
    pub hop: Hop,
}

impl AccessRecord {
    pub(crate) fn new(
        (first, done): (Time, Time),
        hop: Hop,
        pending: &Pending,
        response: &Response,
        core: Option<CoreId>,
        die: Option<DieId>,
    ) -> Self {
        Self {
            line: pending.line,
            is_page: pending.op == RequestOp::ReadPage,
            die,
            core,
            answer: response.answer,
            served: response.served,
            first,
            issued: pending.issued,
            sent: pending.sent,
            arrived: pending.arrived,
            answered: response.at,
            done,
            breakdown: response.breakdown,
            hop,
        }
    }

    /// From first issue to data.
    pub fn latency(&self) -> Picos {
        self.done - self.first
    }
}

/// Why a thread left its core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leave {
    /// A Long Delay Exception.
    LongDelay,
    /// The end of its time slice.
    Slice,
    /// It waits for another thread.
    Blocked,
    /// Its end.
    End,
}

/// A thread's turn on a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TurnRecord {
    /// The core.
    pub core: CoreId,
    /// The thread.
    pub thread: ThreadId,
    /// From its first cycle.
    pub from: Time,
    /// To its last.
    pub to: Time,
    /// How it ended.
    pub leave: Leave,
}

/// Records of one kind, bounded.
#[derive(Clone, Debug)]
pub struct Bounded<R> {
    /// What was kept, in order of their ends.
    pub records: Vec<R>,
    /// How many more there were.
    pub dropped: u64,
    limit: usize,
}

impl<R> Bounded<R> {
    /// Room for so many.
    pub fn new(limit: usize) -> Self {
        Self {
            records: Vec::new(),
            dropped: 0,
            limit,
        }
    }
    /// Keeps a record, or counts it.
    pub fn push(&mut self, record: R) {
        if self.records.len() < self.limit {
            self.records.push(record);
        } else {
            self.dropped += 1;
        }
    }
}

/// What is kept of a run.
#[derive(Clone, Debug)]
pub struct Recorder {
    recording: Recording,
    /// Reads.
    pub accesses: Bounded<AccessRecord>,
    /// Turns of threads on cores.
    pub turns: Bounded<TurnRecord>,
    /// Operations of the flash that have ended.
    pub operations: Bounded<Completion>,
    /// The slowest reads that came with data, slowest first; of equals the earlier one.
    pub slowest: Vec<AccessRecord>,
}

fn overlaps(span: &Range<Time>, from: Time, to: Time) -> bool {
    from < span.end && to >= span.start
}

impl Recorder {
    /// Nothing recorded yet.
    pub fn new(recording: Recording) -> Self {
        Self {
            accesses: Bounded::new(recording.limit),
            turns: Bounded::new(recording.limit),
            operations: Bounded::new(recording.limit),
            slowest: Vec::new(),
            recording,
        }
    }

    /// A read was answered.
    pub fn access(&mut self, record: AccessRecord) {
        if overlaps(&self.recording.span, record.issued, record.done) {
            self.accesses.push(record);
        }
        if record.answer == Answer::Data {
            self.rank(record);
        }
    }

    /// An operation of the flash has ended.
    pub fn flash_operation(&mut self, completion: Completion) {
        if overlaps(
            &self.recording.span,
            completion.submitted,
            completion.finished,
        ) {
            self.operations.push(completion);
        }
    }

    fn rank(&mut self, record: AccessRecord) {
        let is_full = self.slowest.len() == self.recording.slowest;
        if is_full
            && self
                .slowest
                .last()
                .is_none_or(|last| last.latency() >= record.latency())
        {
            return;
        }
        let place = self
            .slowest
            .partition_point(|kept| kept.latency() >= record.latency());
        self.slowest.insert(place, record);
        self.slowest.truncate(self.recording.slowest);
    }

    /// A thread has left its core.
    pub fn turn(&mut self, record: TurnRecord) {
        if overlaps(&self.recording.span, record.from, record.to) {
            self.turns.push(record);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(first: u64, done: u64) -> AccessRecord {
        let time = Time::from_picos;
        AccessRecord {
            line: LineAddr::new(first),
            is_page: false,
            die: None,
            core: None,
            answer: Answer::Data,
            served: Served::Flash,
            first: time(first),
            issued: time(first),
            sent: time(first),
            arrived: time(first),
            answered: time(done),
            done: time(done),
            breakdown: Breakdown::default(),
            hop: Hop::NONE,
        }
    }

    fn recorder(limit: usize, slowest: usize) -> Recorder {
        Recorder::new(Recording {
            span: Time::from_picos(100)..Time::from_picos(200),
            limit,
            slowest,
        })
    }

    #[test]
    fn the_slowest_are_kept_in_order_and_the_earlier_of_equals_first() {
        let mut recorder = recorder(0, 3);
        for (first, done) in [(0, 5), (10, 30), (40, 45), (50, 70), (80, 180), (190, 191)] {
            recorder.access(record(first, done));
        }
        let firsts: Vec<u64> = recorder
            .slowest
            .iter()
            .map(|r| r.first.as_picos())
            .collect();
        assert_eq!(firsts, [80, 10, 50]);
    }

    #[test]
    fn what_overlaps_the_span_is_kept_and_what_is_beyond_the_limit_counted() {
        let mut recorder = recorder(2, 0);
        for (first, done) in [(0, 99), (0, 100), (150, 160), (199, 300), (200, 210)] {
            recorder.access(record(first, done));
        }
        assert_eq!(recorder.accesses.records.len(), 2);
        assert_eq!(recorder.accesses.dropped, 1);
        assert!(recorder.slowest.is_empty());
    }
}
