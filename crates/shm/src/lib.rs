//! A device of another process, through memory that both share.
//!
//! A server hands each client a region of memory over a unix socket: two rings and an area for
//! bytes. The client writes a request into one ring and finds its answer in the other; as long as
//! both look often, no system call is made. The socket stays open: a byte on it is a bell for who
//! sleeps, and its end says that the other process has gone.
//!
//! [`Client`] is a [`port::Device`]. The server is in crate `serve`; what both agree on is here:
//! [`Layout`] of a [`Region`], [`ring`]s, [`Submission`]s and answers as words ([`answer`]), and
//! the [`handshake`]. Knows no image, no firmware and no flash. See `docs/shm.md`; the bytes are
//! specified in `docs/formats/shm.md`.
#![deny(unsafe_code)]

/// The documentation's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/shm.md")]
struct Documentation;

pub mod answer;
mod breach;
mod client;
pub mod handshake;
mod layout;
mod region;
pub mod ring;
mod statistics;
mod submission;

pub use breach::Breach;
pub use client::{Client, Connect, ConnectError, Transfer};
pub use layout::{ENTRIES, Layout, LayoutError, MOST_DATA, MOST_REQUEST, Note, Side};
pub use region::Region;
pub use statistics::{STATISTICS_BYTES, statistics_from_bytes, statistics_to_bytes};
pub use submission::{DataRange, Request, Submission};
