//! What a memory-semantic SSD offers to those above it: one trait, [`Device`].
//!
//! Knows no device: the same file system runs over the real-time device below FUSE and over the
//! simulated one in virtual time (architecture B9). Knows no runtime either: a method gives a
//! future that submits when it is first polled and is woken when it is done. Who moves the device
//! meanwhile has [`Drive`], which those who ask do not see (architecture B11); the shortest driver
//! is [`block_on`].
//!
//! Two ports lead to one logical space of bytes. The *byte port* reads and writes any range;
//! writes are posted, and [`Device::persist`] waits for them (ByteFS §4.2). The *block port* reads
//! and writes whole blocks. Transactions belong to the byte port (ByteFS §4.3, D21).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

/// The documentation's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/port.md")]
struct Documentation;

mod any;
mod clock;
mod device;
mod drive;
mod engine;
mod error;
mod pending;
mod shape;
mod shared;
mod stats;
mod transaction;

pub use any::{AnyClock, AnyDevice, AnyLent, GoingClock};
pub use clock::Clock;
pub use device::{
    Acknowledge, Atomicity, Completion, Device, Opening, Outcome, Payload, SharedBlock,
};
pub use drive::{Drive, Turned, block_on, block_on_with};
pub use engine::{Command, Conflict, Door, Engine, Finished, Ticket};
pub use error::DeviceError;
pub use pending::{Plain, Vectored};
pub use shape::{PersistenceDomain, PortCosts, Shape, TxLimits};
pub use stats::{DeviceStats, FlashTraffic, PortTraffic};
pub use transaction::{Begin, Transaction, TxOptions};
