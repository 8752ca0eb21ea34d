//! The NBD server, from bytes to sockets. Numbers are written out here, so that a wrong constant
//! of the server is not compared with itself.

mod client;
#[path = "../common/probe.rs"]
mod device;
mod handshake;
mod hostile;
mod limits;
mod probe;
mod requests;
mod serving;
mod stopping;
mod transactions;
