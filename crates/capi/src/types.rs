//! What crosses the border by value, as `entresol.h` has it.

use port::{Atomicity, Completion, DeviceError, DeviceStats, PortTraffic, Shape};
use std::ffi::c_int;

/// The device cannot be reached.
pub const UNREACHABLE: c_int = 100;
/// A device of the process of which this one is a fork.
pub const FORKED: c_int = 102;
/// A null pointer, a path that is no text.
pub const MISUSE: c_int = 101;

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
    }
}

/// `entresol_shape`.
#[repr(C)]
pub struct CShape {
    capacity: u64,
    block: u64,
    has_transactions: c_int,
}

impl From<Shape> for CShape {
    fn from(shape: Shape) -> Self {
        Self {
            capacity: shape.capacity.get(),
            block: shape.block.get(),
            has_transactions: c_int::from(shape.has_transactions),
        }
    }
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
