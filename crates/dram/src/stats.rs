//! What a memory did.

use units::address::LINE_BYTES;
use units::{Bytes, Picos};

/// Counters of a memory; the unit of access is a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DramStats {
    /// Lines read.
    pub reads: u64,
    /// Lines written.
    pub writes: u64,
    /// Lines whose row was open.
    pub row_hits: u64,
    /// Lines whose bank had no open row.
    pub row_misses: u64,
    /// Lines whose bank had another row open.
    pub row_conflicts: u64,
    /// Time that data buses carried lines, summed over channels.
    pub busy: Picos,
    /// Sum over lines of what bank and bus added to the unloaded time.
    pub wait: Picos,
}

impl DramStats {
    /// Counts what another memory did, too.
    pub fn add(&mut self, other: &Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.row_hits += other.row_hits;
        self.row_misses += other.row_misses;
        self.row_conflicts += other.row_conflicts;
        self.busy += other.busy;
        self.wait += other.wait;
    }
    /// Lines read or written.
    pub const fn accesses(&self) -> u64 {
        self.reads + self.writes
    }
    /// Bytes read or written.
    pub fn bytes(&self) -> Bytes {
        LINE_BYTES * self.accesses()
    }
}
