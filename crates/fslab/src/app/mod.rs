//! Power cuts under a program of the user's.
//!
//! A program works in a mounted file system ([`Running`]) whose device notes what it is asked and
//! when it answers ([`Noting`]), and how much the program had written to its output by then
//! ([`Notes`]). Behind each of these operations the power is cut ([`Cuts`]): [`crate::crash`] says
//! what may be left, and every state that a program can tell from the others is mounted
//! ([`Shown`]) for the user's own checker.
//!
//! The cuts are made when the program is over: it runs once, at its own speed, and the states are
//! those of the contract of [`port::Device`], not of one device.

mod cuts;
mod device;
mod keep;
mod notes;
mod noting;
mod running;
mod shown;

pub use cuts::{Cuts, Limits, Moment, State, Step, Tally};
pub use keep::keep;
pub use notes::{Notes, Trial};
pub use noting::Noting;
pub use running::{AppError, Running, on_copy, on_new};
pub use shown::{Shown, visible};
