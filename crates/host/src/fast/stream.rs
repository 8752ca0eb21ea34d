//! What is left of a thread: the stream that the filter writes and the fast core reads.

use super::replay::FastCore;
use crate::core::CoreStats;
use crate::model::SimulatedThread;
use crate::port::{Access, HostLine, InstructionSource, Step};
use crate::program::Program;
use std::sync::Arc;
use trace::SyncEvent;
use units::CoreId;
use units::address::LINE_BYTES;

/// Records that one record can depend on.
pub(crate) const MOST_DEPENDENCES: usize = 3;

/// What a record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Instructions that need nothing beyond L1: keeps counts small.
    Pad,
    /// A load that L1D does not have.
    Load,
    /// A load of a line that L1D has unless another thread has been on the core meanwhile.
    Touch,
    /// A load of a line that L1D has or that is on its way, but that this one may ask for first.
    Again,
    /// A store whose line L1D does not have.
    Store,
    /// A line of code that L1I does not have.
    Fetch,
    /// A store to a line that L1D has unless another thread has been on the core meanwhile.
    Renewal,
    /// L1D writes a dirty line to L2.
    WriteBack,
    /// Dispatch waits for what this depends on: a mispredicted branch, or a serialising
    /// instruction.
    Branch,
    /// Dispatch waits until everything older has retired and is written.
    Drain,
    /// A sync event, whose number stands in place of the line.
    Sync,
    /// The thread has no more instructions.
    End,
}

/// What a record waits for: a record so many before it (none: 0), and so many cycles more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Dependence {
    pub(crate) back: u16,
    pub(crate) after: u16,
}

impl Dependence {
    pub(crate) const NONE: Self = Self { back: 0, after: 0 };
}

/// Something that the fast core looks at; 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    /// The line, as a raw [`HostLine`], or the number of a sync event.
    pub(crate) line: u32,
    /// Dispatch slots since the record before, if every miss of L1 is found in L2.
    pub(crate) gap: u16,
    /// Of a touch: sixteenths of the pieces since the thread's last record of the line.
    pub(crate) age: u16,
    pub(crate) depends: [Dependence; MOST_DEPENDENCES],
    /// What the pieces since the record before wait for, as far as that keeps this one from
    /// retiring; `after` in slots.
    pub(crate) held: Dependence,
    /// Pieces since the record before, this one's included.
    pub(crate) pieces: u8,
    /// Instructions that are complete with them.
    pub(crate) instructions: u8,
    pub(crate) loads: u8,
    pub(crate) stores: u8,
    /// Cycles from dispatch to issue, if every miss of L1 is found in L2.
    pub(crate) late: u16,
    pub(crate) kind: Kind,
}

impl Record {
    /// The end of a thread without instructions.
    pub(crate) const END: Self = Self {
        line: 0,
        gap: 0,
        age: 0,
        depends: [Dependence::NONE; MOST_DEPENDENCES],
        held: Dependence::NONE,
        pieces: 0,
        instructions: 0,
        loads: 0,
        stores: 0,
        late: 0,
        kind: Kind::End,
    };
}

/// Counts of the filter, over a whole thread up to some record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct FilterCounts {
    pub(crate) branches: u64,
    pub(crate) mispredicts: u64,
    pub(crate) l1i_hits: u64,
    pub(crate) l1d_hits: u64,
    pub(crate) l1_tlb_misses: u64,
}

/// A filtered thread: the same for every device.
#[derive(Debug)]
pub struct Stream {
    pub(crate) records: Vec<Record>,
    pub(crate) syncs: Vec<SyncEvent>,
    /// The counts before every [`Stream::MARK`]th record.
    pub(crate) marks: Vec<FilterCounts>,
}

impl Default for Stream {
    /// A thread without instructions.
    fn default() -> Self {
        Self {
            records: vec![Record::END],
            syncs: Vec::new(),
            marks: vec![FilterCounts::default(); 2],
        }
    }
}

impl Stream {
    /// Records between two marks of the counts.
    pub(crate) const MARK: usize = 64;

    /// Memory that the stream takes, in bytes.
    pub fn bytes(&self) -> usize {
        self.records.len() * size_of::<Record>()
    }
    /// Records of the stream.
    pub fn len(&self) -> usize {
        self.records.len()
    }
    /// Whether the thread has no instructions.
    pub fn is_empty(&self) -> bool {
        self.records.len() <= 1
    }
}

/// A thread as the fast core's source: a stream and how far it has been read.
#[derive(Clone)]
pub struct FilteredThread {
    stream: Arc<Stream>,
    program: Arc<Program>,
    /// The record that comes next.
    pub(crate) at: u64,
    /// Pieces before that record's.
    pub(crate) pieces: u64,
    /// Slots of that record's gap that have passed already.
    pub(crate) taken: u16,
    /// The core that it was on last, and how many lines had been filled into L1D there.
    pub(crate) left: Option<(CoreId, u64)>,
    /// Pieces before its first one since L1D was another thread's.
    pub(crate) resumed: u64,
    /// Instructions and pieces before that record that have been executed already.
    pub(crate) taken_instructions: u8,
    /// The record from which on counts are asked for.
    counted_from: u64,
}

impl FilteredThread {
    /// The thread of `stream`, at its start. `program` is the capture's.
    pub fn new(stream: Arc<Stream>, program: Arc<Program>) -> Self {
        Self {
            stream,
            program,
            at: 0,
            pieces: 0,
            taken: 0,
            left: None,
            resumed: 0,
            taken_instructions: 0,
            counted_from: 0,
        }
    }
    #[inline]
    pub(crate) fn record(&self, number: u64) -> Record {
        self.stream.records[number as usize]
    }
    /// Passes the next record.
    pub(crate) fn pass(&mut self) {
        self.pieces += u64::from(self.record(self.at).pieces);
        self.at += 1;
        self.taken = 0;
        self.taken_instructions = 0;
    }
}

impl SimulatedThread for FilteredThread {
    type Core = FastCore;

    fn start_counting(&mut self) {
        self.counted_from = self.at;
    }

    /// What the filter has counted from there on, to a few records.
    fn counted_before(&self) -> CoreStats {
        let mark = |record: u64| self.stream.marks[record as usize / Stream::MARK];
        let (from, to) = (mark(self.counted_from), mark(self.at));
        CoreStats {
            branches: to.branches - from.branches,
            mispredicts: to.mispredicts - from.mispredicts,
            l1i_hits: to.l1i_hits - from.l1i_hits,
            l1d_hits: to.l1d_hits - from.l1d_hits,
            l1_tlb_misses: to.l1_tlb_misses - from.l1_tlb_misses,
            ..CoreStats::default()
        }
    }
}

impl InstructionSource for FilteredThread {
    fn program(&self) -> &Program {
        &self.program
    }
    /// The next record as an instruction: its line is accessed as a whole.
    fn peek(&mut self) -> Option<Step> {
        let record = self.record(self.at);
        let line = HostLine::from_raw(record.line);
        let byte = u64::from(record.line) * LINE_BYTES.get();
        let access = Access::new(byte, LINE_BYTES.get() as u8).filter(|_| line.is_data());
        (record.kind != Kind::End || record.instructions > self.taken_instructions).then_some(
            Step {
                inst: 0,
                load: access
                    .filter(|_| matches!(record.kind, Kind::Load | Kind::Touch | Kind::Again)),
                store: access.filter(|_| record.kind == Kind::Store),
                taken: false,
                counts: false,
                has_sync: record.kind == Kind::Sync,
            },
        )
    }
    fn sync(&mut self) -> Option<SyncEvent> {
        let record = self.record(self.at);
        (record.kind == Kind::Sync).then(|| self.stream.syncs[record.line as usize])
    }
    fn advance(&mut self) {
        self.pass();
    }
    fn position(&self) -> u64 {
        self.pieces + u64::from(self.taken_instructions)
    }
    /// A fast core goes back by records itself.
    fn rewind_to(&mut self, position: u64) {
        assert_eq!(position, self.position(), "a stream is rewound by its core");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_half_a_line_of_the_host() {
        assert_eq!(size_of::<Record>(), 32);
    }
}
