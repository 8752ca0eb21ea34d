//! DRAM in virtual time: channels, banks with open rows, data buses. Used twice, for the host's
//! DDR5 and for the device's LPDDR4.
//!
//! Service is first come, first served, so an access returns the time of its completion at once
//! and needs no event (architecture B4). The crate keeps no clock, holds no data, and knows
//! nothing of what is stored where. See `docs/dram.md`.
#![forbid(unsafe_code)]

pub mod config;
mod memory;
pub mod stats;

pub use config::{DramSpec, HostDramConfig, Mapping, SsdDramConfig};
pub use memory::{Access, Dram, DramLine};
pub use stats::DramStats;
