//! What a device is: sizes, limits, what its ports cost, and what survives a power cut when.

use units::{Bytes, BytesPerSec, Picos};

/// What a device is. It does not change while the device is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Bytes of the logical space.
    pub capacity: Bytes,
    /// Unit of the block port, of [`Device::trim`](crate::Device::trim), and of atomic block
    /// writes.
    pub block: Bytes,
    /// Unit of the byte port's stores and of conflicts between transactions: a write of a part of
    /// it reads the rest first.
    pub line: Bytes,
    /// Where a write of the byte port must have come to survive a power cut. Where that is the
    /// device, so must a trim: what says that lines of a block are no more is beside the lines.
    pub byte_domain: PersistenceDomain,
    /// Where a write of the block port must have come to survive a power cut. It may be the flash
    /// although that of the byte port is the device, of which then the log alone has a battery:
    /// a persist flushes no blocks there.
    pub block_domain: PersistenceDomain,
    /// What transactions may be; None: there are none, for only a device with a write log has
    /// them.
    pub transactions: Option<TxLimits>,
    /// What the ports cost beside the device's own work.
    pub costs: PortCosts,
    /// The window: battery-backed memory beside the log, which the byte port addresses behind
    /// [`Shape::capacity`], under no transaction (D27). What is in it survives a power cut once it
    /// is persisted ([`Device::persist_pmem`](crate::Device::persist_pmem)), whatever
    /// [`Shape::byte_domain`] is; the host brings it to flash. Zero: there is none.
    pub pmem: Bytes,
}

impl Shape {
    /// A device of blocks and lines without log, battery and link.
    pub const fn plain(capacity: Bytes, block: Bytes) -> Self {
        Self {
            capacity,
            block,
            line: units::address::LINE_BYTES,
            byte_domain: PersistenceDomain::Flash,
            block_domain: PersistenceDomain::Flash,
            transactions: None,
            costs: PortCosts::DIRECT,
            pmem: Bytes::ZERO,
        }
    }
}

/// How far a write must have come to survive a power cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PersistenceDomain {
    /// The device: what it has accepted survives. It has accepted a block that it has answered for,
    /// and a posted store once it is pushed in by [`persist`](crate::Device::persist) or a commit.
    Device,
    /// The flash: nothing survives for certain that was not flushed, or written with
    /// [`Acknowledge::Durable`](crate::Acknowledge::Durable). A persist flushes too.
    Flash,
}

/// What transactions may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TxLimits {
    /// How many may be open at a time, of all hosts together.
    pub open: u32,
    /// Lines of all open transactions that the log keeps: most of one that is all or nothing, and
    /// most that may be reserved.
    pub lines: u32,
}

/// What the ports cost, beside the device's own work. A file system chooses between them by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortCosts {
    /// A load of a line, there and back.
    pub line_read: Picos,
    /// What a posted store of a line takes until the device has it.
    pub line_write: Picos,
    /// Loads that one command has under way at a time.
    pub line_reads: u32,
    /// Stores that one command has under way at a time.
    pub line_writes: u32,
    /// A block command without its data, there and back; commit, abort and reservation too.
    pub block_command: Picos,
    /// From device to host.
    pub read_bandwidth: BytesPerSec,
    /// From host to device.
    pub write_bandwidth: BytesPerSec,
}

impl PortCosts {
    /// No link: whoever asks sits in the device.
    pub const DIRECT: Self = Self {
        line_read: Picos::ZERO,
        line_write: Picos::ZERO,
        line_reads: 1,
        line_writes: 1,
        block_command: Picos::ZERO,
        read_bandwidth: BytesPerSec::UNLIMITED,
        write_bandwidth: BytesPerSec::UNLIMITED,
    };
}
