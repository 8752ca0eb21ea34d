//! A device's ports for other processes, through shared memory.
//!
//! What client and server agree on is crate `shm`; here is the server ([`serve`]). One thread looks
//! at the rings of all clients between any two turns of the device. While it has something to do it
//! makes no system call but one look at the sockets in some hundred rounds; then it spins for a
//! while and sleeps until a client rings.
//!
//! Nothing in shared memory is believed: an entry is copied, each word read once, and then checked
//! ([`::shm::Submission::decode`]); bytes of writes are copied before the device sees them. Who
//! breaks the protocol is told so and loses the connection, and nobody else notices.

mod client;
mod perform;
mod server;

pub use server::{MOST_CLIENTS, Served, serve};
