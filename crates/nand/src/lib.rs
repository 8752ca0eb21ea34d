//! The flash of the device in virtual time: dies and channels as resources that queue.
//!
//! A command is submitted with [`Nand::submit`]; the caller schedules the events it is given and
//! brings each back to [`Nand::on_event`] at its time; completions come out there. The crate keeps
//! no clock and no event queue, holds no data, and knows nothing of mapping, firmware or host.
//!
//! Cost: two events per read or program, one per erase, no allocation once the slab has grown to
//! the largest number of commands in flight. See `docs/nand.md`.
#![forbid(unsafe_code)]

mod arbiter;
mod audit;
pub mod command;
pub mod config;
mod die;
mod empirical;
pub mod faults;
mod flash;
mod list;
pub mod measure;
mod split;

pub mod stats;

pub use arbiter::Part;
pub use command::{Command, Completion, NandEvent, Operation};
pub use config::{NandConfig, Parallelism, Scheduling, Transfer};
pub use empirical::{EmpiricalConfig, TimeTable, WrongTable};
pub use faults::{Calendar, Condition, Day, Fault, FaultConfig, Faults, ReadOutcome};
pub use flash::{Nand, PhaseEnd, Schedule};
pub use stats::{KindStats, NandStats};
pub use units::FlashOp as Kind;
