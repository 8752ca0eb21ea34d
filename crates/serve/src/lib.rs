//! A device for other programs, over one protocol each: [`nbd`] (its block port), [`nvme`] (both
//! ports and transactions, over NVMe/TCP), [`image`] (one file, over FUSE) and [`shm`] (as `nvme`,
//! through shared memory).
//!
//! A protocol has a folder with what is its own: its clients, and how they ask and are answered.
//! The loop that hears them, turns the device and answers is written once, in `server.rs`, over the
//! set of tasks in `tasks.rs`; `docs/serving.md` has a drawing, and `docs/howto/server.md` adds a
//! protocol step by step. Knows any [`port::Device`] that can be driven ([`port::Drive`]), and
//! neither images nor firmware. Protocols: `docs/nbd.md`, `docs/nvme.md`,
//! `docs/fuse-image.md` and `docs/shm.md`.
#![forbid(unsafe_code)]

mod address;
mod bell;
mod conflict;
pub mod image;
pub mod nbd;
pub mod nvme;
mod order;
mod output;
mod progress;
mod ranges;
mod server;
pub mod shm;
mod stream;
mod tasks;
#[cfg(test)]
mod testing;
mod waiting;

pub use address::{Address, AddressError, Listener};
pub use server::{Control, ServerError};
