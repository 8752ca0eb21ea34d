//! The device as a program: the same firmware as in the simulator, with real bytes.
//!
//! An image on the disk holds the flash (media file) and the battery-backed DRAM (DRAM file); a
//! killed process is a power cut. [`DeviceEngine`] moves firmware, flash and link in virtual time
//! and says when each request is done on the device's clock; [`RealDevice`] is the same behind
//! [`port::Device`]. Nothing here waits for device time unless it is told to ([`Pace::Real`]).
//!
//! [`nbd`] serves any [`port::Device`] to other programs, [`shm`] to other processes through shared
//! memory, and [`fuse`] shows it as one file. Knows no file system. See `docs/device.md`,
//! `docs/nbd.md`, `docs/shm.md` and `docs/fuse-image.md`; the files are specified in
//! `docs/formats/image.md`.
#![deny(unsafe_code)]

pub mod activity;
mod answers;
mod command;
pub mod config;
mod counters;
mod data;
mod engine;
mod error;
mod failing;
pub mod fsck;
pub mod fuse;
mod image;
pub mod latency;
mod layout;
mod mapped;
mod media;
pub mod metrics;
pub mod nbd;
mod pace;
mod pieces;
mod ram;
mod real;
mod recovery;
pub mod recovery_time;
mod serving;
pub mod shm;
mod splitting;
mod statistics;
mod superblock;
mod tables;
mod transactions;
mod unbegun;
mod watchers;
mod wire;
mod world;

pub use command::Ask;
pub use config::DeviceConfig;
pub use counters::Counters;
pub use engine::{DeviceEngine, Step, Ticket};
pub use error::DeviceFileError;
pub use image::{Description, Image, Purpose};
pub use pace::Pace;
pub use ram::Ram;
pub use real::RealDevice;
pub use recovery::Recovered;
pub use serving::{ServerError, Turn};
pub use superblock::ImageId;
