//! Users of a memory-semantic SSD, written over [`port::Device`] and nothing else: each runs on the
//! real-time device, through shared memory, and on whatever implements the trait next.
#![forbid(unsafe_code)]

pub mod journal;
