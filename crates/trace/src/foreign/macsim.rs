//! MacSim's x86 traces (version 1.3), which SkyByte's artifact runs: a directory with `trace.txt`
//! and one gzip file of records for each thread.
//!
//! `trace.txt` says `x86 1.3`, the number of threads, and for each thread its number and how many
//! instructions the first one has executed when it starts. Threads only share memory: system calls
//! stand in the stream, but waits and wakes are lost.
//!
//! A thread of ours ends with a *tail* of instructions that do nothing ([`TAIL`]), which an import
//! leaves out: the simulator executes no thread's last record, and where it switches threads
//! because of one of a thread's last 256 operations it hangs or aborts.
//!
//! A source register may form an address or be data; the format does not say which, see
//! [`super::pin::operands`].

mod export;
mod import;
mod opcode;
mod record;

pub(super) use export::export;
pub(super) use import::{import, import_behind, recognise};

/// Where tails stand: beyond every user program's addresses.
const TAIL: u64 = 0xe577_7a11_0000;
/// Bytes of each of a tail's instructions, and of the line of code that they share.
const TAIL_INST: u8 = 4;
const TAIL_CODE: u64 = 64;

/// What `trace.txt` begins with.
const KIND: &str = "x86";
/// The version that this module reads and writes.
const VERSION: &str = "1.3";
/// The list of threads in a directory.
const LIST: &str = "trace.txt";
