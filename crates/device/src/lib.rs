//! The device as a program: the same firmware as in the simulator, with real bytes.
//!
//! An image on the disk holds the flash (media file) and the battery-backed DRAM (DRAM file); a
//! killed process is a power cut. [`DeviceEngine`] moves firmware, flash and link in virtual time
//! and says when each request is done on the device's clock; [`RealDevice`] is the same behind
//! [`port::Device`]. Nothing here waits for device time unless it is told to ([`Pace::Real`]).
//!
//! Knows no file system and no protocol: crate `serve` serves it to other programs. See
//! `docs/device.md`; the files are specified in `docs/formats/image.md`.
#![deny(unsafe_code)]

pub mod activity;
mod ahead;
pub mod config;
mod counters;
mod data;
mod engine;
mod error;
mod failing;
pub mod fsck;
mod image;
mod lag;
pub mod latency;
mod layout;
mod mapped;
mod media;
pub mod metrics;
mod pace;
mod packed;
mod places;
mod power_cycle;
mod ram;
mod real;
mod recovery;
pub mod recovery_time;
mod room;
mod statistics;
mod superblock;
mod tables;
mod unbegun;
mod watchers;

pub use config::DeviceConfig;
pub use counters::Counters;
pub use engine::{DeviceEngine, Step};
pub use error::DeviceFileError;
pub use image::{Description, Image, Purpose};
pub use lag::Lag;
pub use pace::Pace;
pub use places::{Places, Spent};
pub use ram::Ram;
pub use real::RealDevice;
pub use recovery::Recovered;
pub use superblock::ImageId;
