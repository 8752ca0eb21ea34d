//! MacSim's x86 traces (version 1.3), which SkyByte's artifact runs: a directory with `trace.txt`
//! and one gzip file of records for each thread.
//!
//! `trace.txt` says `x86 1.3`, the number of threads, and for each thread its number and how many
//! instructions the first one has executed when it starts. Threads only share memory: system calls
//! stand in the stream, but waits and wakes are lost.
//!
//! A source register may form an address or be data; the format does not say which, see
//! [`super::pin::operands`].

mod export;
mod import;
mod opcode;
mod record;

pub(super) use export::export;
pub(super) use import::{import, recognise};

/// What `trace.txt` begins with.
const KIND: &str = "x86";
/// The version that this module reads and writes.
const VERSION: &str = "1.3";
/// The list of threads in a directory.
const LIST: &str = "trace.txt";
