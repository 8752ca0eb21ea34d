//! What crosses the border by value, as `entresol.h` has it.

use port::{
    Atomicity, Completion, DeviceError, DeviceStats, PersistenceDomain, PortTraffic, Shape,
};
use std::ffi::{c_int, c_void};

/// The device cannot be reached.
pub const UNREACHABLE: c_int = 100;
/// A device of the process of which this one is a fork.
pub const FORKED: c_int = 102;
/// A null pointer, a path that is no text.
pub const MISUSE: c_int = 101;

/// A transaction is not committed in parts.
pub const WHOLE: u32 = 1;
/// A reservation is refused if there is no room.
pub const NO_WAIT: u32 = 2;

/// Number of a refusal: those of `docs/formats/shm.md`.
pub fn status(error: &DeviceError) -> c_int {
    match error {
        DeviceError::OutOfRange { .. } => 1,
        DeviceError::NotBlocks { .. } => 2,
        DeviceError::Locked { .. } => 3,
        DeviceError::UnknownTransaction { .. } => 4,
        DeviceError::TooManyTransactions { .. } => 5,
        DeviceError::NoTransactions { .. } => 6,
        DeviceError::LogFull => 7,
        DeviceError::ReadOnly => 8,
        DeviceError::Lost { .. } => 9,
        DeviceError::Stopped { .. } => 10,
        DeviceError::Forked => FORKED,
        DeviceError::Deadlock { .. } => 11,
        DeviceError::TooLarge { .. } => 12,
        DeviceError::BeyondReservation { .. } => 13,
        DeviceError::LateReservation { .. } => 14,
    }
}

/// `entresol_shape`.
#[repr(C)]
pub struct CShape {
    capacity: u64,
    block: u64,
    line: u64,
    has_transactions: c_int,
    bytes_survive: c_int,
    blocks_survive: c_int,
    most_open_transactions: u32,
    most_open_lines: u32,
    line_reads: u32,
    line_writes: u32,
    line_read_ps: u64,
    line_write_ps: u64,
    block_command_ps: u64,
    read_bandwidth: u64,
    write_bandwidth: u64,
    pmem: u64,
}

impl From<Shape> for CShape {
    fn from(shape: Shape) -> Self {
        let survives = |domain| c_int::from(domain == PersistenceDomain::Device);
        let limits = shape.transactions;
        let costs = shape.costs;
        Self {
            capacity: shape.capacity.get(),
            block: shape.block.get(),
            line: shape.line.get(),
            has_transactions: c_int::from(limits.is_some()),
            bytes_survive: survives(shape.byte_domain),
            blocks_survive: survives(shape.block_domain),
            most_open_transactions: limits.map_or(0, |limits| limits.open),
            most_open_lines: limits.map_or(0, |limits| limits.lines),
            line_reads: costs.line_reads,
            line_writes: costs.line_writes,
            line_read_ps: costs.line_read.get(),
            line_write_ps: costs.line_write.get(),
            block_command_ps: costs.block_command.get(),
            read_bandwidth: costs.read_bandwidth.get(),
            write_bandwidth: costs.write_bandwidth.get(),
            pmem: shape.pmem.get(),
        }
    }
}

/// `entresol_part`.
#[repr(C)]
pub struct CPart {
    /// First byte on the device.
    pub at: u64,
    /// What is written there.
    pub from: *const c_void,
    /// How many bytes.
    pub size: usize,
}

/// `entresol_times`.
#[repr(C)]
pub struct CTimes {
    submitted_ps: u64,
    finished_ps: u64,
}

impl From<Completion> for CTimes {
    fn from(completion: Completion) -> Self {
        Self {
            submitted_ps: completion.submitted.as_picos(),
            finished_ps: completion.finished.as_picos(),
        }
    }
}

/// Parts in which a transaction ended.
pub fn parts(atomicity: Atomicity) -> u32 {
    match atomicity {
        Atomicity::Whole => 1,
        Atomicity::Parts { count } => count,
    }
}

/// `entresol_traffic`.
#[repr(C)]
pub struct CTraffic {
    reads: u64,
    writes: u64,
    to_host_bytes: u64,
    to_device_bytes: u64,
    read_time_ps: u64,
    write_time_ps: u64,
}

impl From<PortTraffic> for CTraffic {
    fn from(port: PortTraffic) -> Self {
        Self {
            reads: port.reads,
            writes: port.writes,
            to_host_bytes: port.to_host.get(),
            to_device_bytes: port.to_device.get(),
            read_time_ps: port.read_time.get(),
            write_time_ps: port.write_time.get(),
        }
    }
}

/// `entresol_stats`.
#[repr(C)]
pub struct CStats {
    clock_ps: u64,
    byte_port: CTraffic,
    block_port: CTraffic,
    barriers: u64,
    commits: u64,
    aborts: u64,
    flash_reads: u64,
    flash_programs: u64,
    flash_erases: u64,
    flash_read_bytes: u64,
    flash_programmed_bytes: u64,
}

impl From<DeviceStats> for CStats {
    fn from(stats: DeviceStats) -> Self {
        let flash = stats.flash;
        Self {
            clock_ps: stats.clock.as_picos(),
            byte_port: stats.byte_port.into(),
            block_port: stats.block_port.into(),
            barriers: stats.barriers,
            commits: stats.commits,
            aborts: stats.aborts,
            flash_reads: flash.reads,
            flash_programs: flash.programs,
            flash_erases: flash.erases,
            flash_read_bytes: flash.read_bytes.get(),
            flash_programmed_bytes: flash.programmed_bytes.get(),
        }
    }
}
