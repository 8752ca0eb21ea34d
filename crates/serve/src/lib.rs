//! A device for other programs, over one protocol each: [`nbd`] (its block port), [`image`] (one
//! file, over FUSE) and [`shm`] (both ports and transactions, through shared memory).
//!
//! A protocol has a folder; what they share is beside the folders. Knows any [`port::Device`] that
//! can be driven ([`port::Drive`]), and neither images nor firmware. See `docs/nbd.md`,
//! `docs/fuse-image.md` and `docs/shm.md`.
#![forbid(unsafe_code)]

mod address;
pub mod image;
pub mod nbd;
mod pieces;
mod serving;
pub mod shm;
mod stream;
mod waiting;

pub use address::{Address, AddressError, Listener};
pub use serving::{ServerError, Turn};
