//! ByteFS: a file system for memory-semantic SSDs, over any [`port::Device`].
//!
//! Asynchronous code that knows no runtime, no FUSE and no simulator (architecture B9): the same
//! code runs below FUSE in real time and in virtual time. Reading order: [`layout`], what stays;
//! `state`, what the host knows; `segments` and `logs`, where changes go that overwrite nothing;
//! `tx`, an operation on it; `fs`, the operations; `journal`, how they become durable. See
//! docs/bytefs.md.
#![forbid(unsafe_code)]

mod check;
mod costs;
mod dir;
mod error;
mod fs;
pub mod fuse;
mod gate;
mod journal;
pub mod layout;
mod logs;
mod overlay;
mod segments;
mod shortcuts;
mod state;
mod stats;
mod structures;
mod tx;
mod types;

pub use check::{CheckReport, Problem, check};
pub use costs::CpuCosts;
pub use error::{FsError, MountError};
pub use fs::{
    CachedPages, DataMode, DaxReport, FileSystem, FormatOptions, MappedExtent, MountOptions,
};
pub use layout::Personality;
pub use overlay::Overlay;
pub use shortcuts::{Batches, Contents, HostBlocks, Metadata, Shortcuts};
pub use state::pmem::{DAX_ATTRIBUTE, DaxAt, DaxFile, DaxView, Lacked, PmemStats, Refused};
pub use stats::{Class, FsStats, Moved, Traffic};
pub use structures::Structure;
pub use types::{
    Allocate, Attr, BlockNo, Caller, DirEntry, FileKind, Ino, Rename, Seek, SetAttr, SetXattr,
    Timestamp, Usage, WriteOptions,
};
