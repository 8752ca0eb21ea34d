//! The programs of the SkyByte paper's Table I, written anew from their algorithms' definitions, to
//! be captured. Each builds its data, does a section of its work between the marks of the region of
//! interest with all threads at once, and checks what it did.
//!
//! Knows nothing of traces and simulation. A program is one module with one [`Workload`] and one
//! [`Program`]; adding one touches the module and [`program::PROGRAMS`].
#![warn(unsafe_op_in_unsafe_fn)]

pub mod setting;

pub mod program;

pub mod roi;

pub mod team;

pub mod memory;

pub mod random;

pub mod digest;

pub mod command;

pub mod graph;

pub mod bfs;

pub mod bc;

pub mod radix;

pub mod srad;

pub mod wide;

pub mod zipf;

pub mod text;

pub mod db;

pub mod ycsb;

pub mod tpcc;

pub mod dlrm;

pub use digest::Digest;
pub use program::{Checked, Failure, Program, Workload};
pub use setting::{Setting, Threads, Work};
pub use team::Member;
