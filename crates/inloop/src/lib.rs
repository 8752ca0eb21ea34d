//! A simulated host and a firmware in a process of its own: what they say to each other, how the
//! firmware's work is timed, and how its times are kept.
//!
//! The host sends what its device model would have got ([`Command`]); the firmware answers with
//! outcomes, latencies and the times that its own work took ([`Reply`]). Both go through rings in
//! shared memory ([`Host`], [`Board`]). [`Metered`] runs firmware and takes its times with the
//! cycle counter ([`Meter`]); [`Tape`] keeps them. A [`Drive`] is a file or a block device whose
//! reads and writes are timed as the flash's. [`opencxd`] is the command layout of OpenCXD.
//!
//! Knows no host model, trace, flash timing or configuration file. See `docs/loop.md`; the bytes
//! are specified in `docs/formats/device-protocol.md`.
#![deny(unsafe_code)]

mod board;
mod command;
mod cycles;
mod drive;
mod error;
mod hello;
mod host;
mod meter;
mod metered;
pub mod nvme;
pub mod opencxd;
mod processor;
mod reply;
mod tape;

pub use board::{Board, Listener, Unwelcome};
pub use command::{Asked, Command, What};
pub use cycles::{cycles, has_counter};
pub use drive::{Drive, DriveError, DriveOptions, GRAIN, Transfer};
pub use error::LoopError;
pub use hello::Hello;
pub use host::{Host, Reaction};
pub use meter::{Meter, WorkTimes};
pub use metered::{Metered, MeteredPlatform};
pub use processor::{KNOWN, PROCESSORS, Processor};
pub use reply::{Answered, Outcome, Reply};
pub use shm::ring::Words;
pub use tape::{Tape, TapeError};

/// Version of the messages.
pub const VERSION: u8 = 2;
