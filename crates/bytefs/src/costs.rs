//! What the file system's own code costs, for who simulates it.

use units::Picos;

/// Time of a processor for each piece of work; none of it in real time, where the work takes what
/// it takes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CpuCosts {
    /// Every operation: entry, checks, lookup of one name.
    pub operation: Picos,
    /// Each operation that changes metadata, beside that.
    pub change: Picos,
    /// Each page copied between a program and the page cache.
    pub page: Picos,
    /// Each page compared with its duplicate (§4.6: 936 cycles).
    pub compare: Picos,
    /// Each batch made durable: beside what the device takes.
    pub commit: Picos,
    /// Each request of the block port, from the file system down to the device: what the kernel's
    /// block layer and the driver do.
    pub request: Picos,
    /// Each time that a thread gives its processor away and gets it back: it waits for blocks, or
    /// for another thread. Stores and loads keep the processor.
    pub switch: Picos,
}
