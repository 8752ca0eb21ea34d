//! A device's block port for the programs that exist: fio, qemu, the kernel's `nbd` driver.
//!
//! NBD (network block device), fixed newstyle, with simple and structured replies. The protocol is
//! a function from bytes to events ([`Session`]) that knows no socket and no device, so that any
//! bytes can be tried on it. A server ([`serve`]) has one thread, which owns device and sockets:
//! the device is single-threaded, and a thread that hands requests over to it costs more than the
//! requests (`docs/nbd.md`). All requests that have arrived are with the device at the same time.
//!
//! What a client claims is never believed: bytes are kept as they arrive, a request has at most
//! [`MOST_PAYLOAD`], and a connection whose answers nobody reads is not read from.

mod connection;
mod export;
mod handshake;
mod perform;
mod reply;
mod request;
mod server;
mod session;
mod wire;

pub use export::{Export, ExportError};
pub use request::{Command, Cookie, Refusal, Request};
pub use server::{Limits, Served, serve};
pub use session::{End, Event, Session};
pub use wire::{Errno, MOST_PAYLOAD};
