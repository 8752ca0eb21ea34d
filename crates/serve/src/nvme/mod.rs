//! A device as an NVMe subsystem over TCP: `nvme connect -t tcp` of any Linux makes it a disk.
//!
//! NVMe/TCP as NVM Express Base 1.4, over Fabrics 1.1 and TCP Transport 1.0 have it. A connection's
//! bytes become commands in a function that knows no socket and no device ([`Session`]), so that
//! any bytes can be tried on it. A server ([`serve`]) has one thread, which owns device and
//! sockets. Each queue of a host is a connection; the host's controller ends with that of its admin
//! queue. See `docs/nvme.md`.
//!
//! What a host claims is never believed: data are kept as they come, a command moves at most
//! [`MOST_DATA`], a queue has as many commands as entries, and a connection whose answers nobody
//! takes is not read from.

pub mod client;
mod connection;
mod controller;
mod ending;
mod entry;
mod fabrics;
mod identify;
mod io;
mod logs;
mod perform;
mod server;
mod session;
mod status;
mod subsystem;
mod wire;

pub use entry::MOST_DATA;
pub use io::Operation;
pub use server::{Limits, Served, serve};
pub use session::{Capsule, End, Event, MOST_HOST_DATA, MOST_IN_CAPSULE, Session};
pub use status::{Completion, Status};
pub use subsystem::{DISCOVERY, Subsystem, SubsystemError};
pub use wire::{
    Breach, COMMON_BYTES, COMPLETION_BYTES, CommandId, Digests, ENTRY_BYTES, Fatal, Framing, Head,
    Layout, MOST_PREFIX, Pdu, TransferTag,
};
