//! The capture plugin for QEMU user mode: records every instruction of a program.
//!
//! Each block is decoded once, when it is translated. While it runs, the callbacks only append
//! one word per block and per memory access to a buffer of their virtual processor ([`slot`]);
//! when that is full, [`stream`] turns the words into chunks. [`sync`] matches threads' waits with
//! wakes, [`recorder`] brings a capture to its end: at exit, at the limit, before an exec.
//!
//! Knows nothing of simulation. A fork of the program runs on unrecorded. A program that
//! crashes or is killed by SIGKILL leaves only the unfinished file under its temporary name.
#![warn(unsafe_op_in_unsafe_fn)]

pub mod api;
pub mod decode;
pub mod frame;
pub mod options;
pub mod output;
pub mod plugin;
pub mod quiet;
pub mod recorder;
pub mod signals;
pub mod slot;
pub mod stream;
pub mod sync;
pub mod tables;
pub mod word;
