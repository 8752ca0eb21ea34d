//! What a device says of itself. Counters only grow; rates are differences of two readings.

use units::{Bytes, Picos, Time};

/// What a device has done since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceStats {
    /// The device's clock: accounted time, which goes on while it has work (and, where it is told
    /// to wait, as the wall clock does).
    pub clock: Time,
    /// The byte port.
    pub byte_port: PortTraffic,
    /// The block port.
    pub block_port: PortTraffic,
    /// Persist barriers and flushes.
    pub barriers: u64,
    /// Transactions committed.
    pub commits: u64,
    /// Transactions aborted.
    pub aborts: u64,
    /// The flash.
    pub flash: FlashTraffic,
}

impl DeviceStats {
    /// Both, one after the other; the clock is that of the second, and the flash is the first's.
    #[must_use]
    pub fn plus(&self, later: &Self) -> Self {
        Self {
            clock: later.clock,
            byte_port: self.byte_port.plus(&later.byte_port),
            block_port: self.block_port.plus(&later.block_port),
            barriers: self.barriers + later.barriers,
            commits: self.commits + later.commits,
            aborts: self.aborts + later.aborts,
            flash: self.flash,
        }
    }
}

/// What went through a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortTraffic {
    /// Reads that were answered.
    pub reads: u64,
    /// Writes that were answered.
    pub writes: u64,
    /// Bytes from device to host: whole lines or blocks, those that the host reads in order to
    /// write a part of them included.
    pub to_host: Bytes,
    /// Bytes from host to device, likewise.
    pub to_device: Bytes,
    /// Time of reads from being asked to being answered, added up.
    pub read_time: Picos,
    /// Time of writes, added up.
    pub write_time: Picos,
}

impl PortTraffic {
    fn plus(&self, later: &Self) -> Self {
        Self {
            reads: self.reads + later.reads,
            writes: self.writes + later.writes,
            to_host: self.to_host + later.to_host,
            to_device: self.to_device + later.to_device,
            read_time: self.read_time.saturating_add(later.read_time),
            write_time: self.write_time.saturating_add(later.write_time),
        }
    }
}

/// What the flash did, of the host's and the firmware's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlashTraffic {
    /// Mapping units read.
    pub reads: u64,
    /// Flash pages programmed.
    pub programs: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Bytes of the units read.
    pub read_bytes: Bytes,
    /// Bytes of the flash pages programmed.
    pub programmed_bytes: Bytes,
}
