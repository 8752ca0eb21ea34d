//! The NVMe/TCP target, from bytes to sockets. Numbers of the protocol are written out in `wire.rs`
//! and in the client of Python's tests, so that a wrong constant is not compared with itself.

#[path = "../common/probe.rs"]
mod device;
mod hostile;
mod limits;
mod model;
mod probe;
mod requests;
mod stopping;
mod transactions;
mod wire;
