//! The host: cores, caches, the operating system's scheduler, and where pages live.
//!
//! Knows the capture's instructions and its canonical pages. Does not know the event queue, the
//! CXL link, the device or host DRAM: a core hands its misses to an [`port::Uncore`] and is told
//! when they are filled; the caller owns time and order.
//!
//! Entry points: [`core::Core`], [`llc::SharedCache`], [`os`], [`placement`].
#![forbid(unsafe_code)]

pub mod config;
pub mod port;
pub mod program;
pub mod thread;

pub mod branch;
pub mod cache;
pub mod core;
pub mod fast;
pub mod llc;
mod miss_path;
pub mod model;
mod mshr;
pub mod numa;
pub mod os;
pub mod page_numbers;
pub mod pages;
pub mod placement;
pub mod tlb;

pub use crate::core::{Core, CoreStats};
pub use config::CpuConfig;
pub use fast::{FastCore, FilteredThread};
pub use model::{CoreModel, SimulatedThread};
pub use numa::{Balancing, Hop, NodeId, Nodes, NumaConfig};
pub use page_numbers::{PageNumbering, PageNumbers};
pub use pages::MappedPage;
pub use port::{
    Access, Delayed, HostLine, InstructionSource, MissKind, MissSlot, Pause, Region, Squash,
    Squashed, Step, Uncore, WarmUncore,
};
pub use program::Program;
pub use thread::TracedThread;
