//! An executor in virtual time: tasks of simulated threads over one device.
//!
//! A task is a future. It asks the device ([`VirtualDevice`] is a [`port::Device`]) and the clock
//! ([`VirtualClock`] is a [`port::Clock`], with processors that are shared first come first
//! served), and is polled only when something that it waits for is done. Time advances when no task
//! can run, to the next deadline and no further.
//!
//! What tasks ask for at one instant is put in order (task, sequence of the task) before device and
//! processors see it, and transactions are numbered in that order. So neither the order in which
//! tasks are polled nor a poll too many changes a time or a number: the same tasks give the same
//! times, bit for bit.
//!
//! If every task waits and nothing is to come, the run ends with an error that says who waits for
//! what ([`Blocked`]).
//!
//! Knows a device by [`port::Engine`] only: no firmware, no image, no wall clock. See
//! `docs/vtime.md`.
#![forbid(unsafe_code)]

mod machine;
mod requests;
mod tasks;
mod virtual_clock;
mod virtual_device;

pub use machine::{Blocked, Machine};
pub use tasks::TaskId;
pub use virtual_clock::VirtualClock;
pub use virtual_device::VirtualDevice;
