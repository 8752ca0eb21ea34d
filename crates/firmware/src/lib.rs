//! The firmware of a memory-semantic SSD: everything it decides, and nothing of how it is run.
//!
//! Sans-IO (architecture B1): the harness hands in events (a host request arrived, a NAND operation
//! finished, a timer rang, the host answered a promotion) together with the current time, and the
//! firmware calls a [`Platform`] (start a NAND operation, answer the host, set a timer, charge a
//! cost, copy bytes). It knows no clock, thread, file, allocator trick or simulator, and builds
//! with `no_std` + `alloc`.
//!
//! Control plane and data plane are apart (B2): the firmware decides *where* bytes go and issues
//! copies between [`Cell`]s; whether bytes exist is the platform's business.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod back_end;
mod cache;
pub mod config;
pub mod controller;
pub mod data_cache;
pub mod durable;
mod fill_buffers;
mod flight_map;
pub mod ftl;
pub mod health;
mod log;
pub mod log_index;
pub mod platform;
pub mod poison;
mod policies;
pub mod prefetch;
pub mod stats;
mod work;
pub mod write_log;

pub use config::{
    BlockWriteAck, CacheConfig, CachePolicy, CleanVictims, CompactionConfig, CompactionLaunch,
    CompactionTakes, ControllerConfig, Cost, DramAccess, DramOrder, Fill, LogConfig, LogIndexKind,
    LogMode, LogTakes, MissAnswer, PowerLossProtection, PrefetchConfig, PrefetcherKind,
    PromotionConfig, PromotionCounts, RENAMED, SsdConfig, Throttle, VictimOrder,
};
pub use controller::{Controller, Copies, Drain, Fullness, Owed, UnsoundState, check_tables};
pub use durable::{BlockRecord, BufferedPage, Durable, KeptFrame, LoggedLine, Record, WriteOrder};
pub use ftl::{
    EstimatorKind, Failures, FirstWrite, Ftl, FtlConfig, FtlStats, GcKind, ProgramTo, UnsoundTables,
};
pub use health::Health;
pub use platform::{
    Answer, Breakdown, BufferId, Cell, NandCommand, NandFault, NandOp, NandTag, PagePlace,
    Platform, Refusal, Request, RequestOp, Response, Served, Timer,
};
pub use poison::PoisonMarks;
pub use stats::{ControllerStats, ServedCounts};
pub use work::{Charge, Unit, Work, WorkCosts};
