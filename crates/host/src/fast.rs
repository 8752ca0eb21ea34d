//! The fast mode: a thread is filtered once, and its stream is replayed on many devices.
//!
//! What happens above L2 hardly depends on the device. So [`filter::filter`] walks a thread once
//! through its own L1, TLB and branch predictor with every L1 miss found in L2, and keeps a
//! [`stream::Record`] of whatever must be looked at again: misses of L1, mispredicted branches and
//! serialising instructions that wait for misses, system calls. [`replay::FastCore`] executes such
//! a stream over the real L2, L3 and device. docs/fast-mode.md describes both.

pub mod filter;
mod origin;
pub mod replay;
pub mod stream;

pub use filter::filter;
pub use replay::FastCore;
pub use stream::{FilteredThread, Stream};
