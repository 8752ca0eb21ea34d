//! Power cuts under a file system, and what may be left.
//!
//! A [`Sequence`] of operations (all of a length: [`ace`]) runs on a small device in virtual time.
//! A [`Recorder`] between file system and device notes every request and every answer. Behind each
//! of them the power is cut, in two ways:
//! - [`Power`] says which bytes survive by the contract of [`port::Device`], and which requests may
//!   have happened or not; of those every subset is tried (of many, samples), and lines and blocks
//!   of them torn apart. The bytes are mounted on a [`Disk`] in memory, which costs little;
//! - the device itself is snapshotted, loses its power and recovers
//!   (`DeviceEngine::power_cycled`); what it holds must be what [`Power`] allows.
//!
//! Then the file system is mounted, walked, unmounted, checked, mounted again and used, and what
//! was seen is compared with what a plain [`Model`] says of each prefix of the operations
//! ([`History::check`]). In some of the recoveries the power is cut again at each request.
//!
//! That the lab finds anything is shown by planted bugs ([`Bug`]; `scripts/planted-fs-bugs`).

pub mod ace;
mod bug;
mod campaign;
mod contents;
mod cut;
mod disk;
mod driver;
mod image;
mod journal;
mod judge;
mod lab;
mod life;
mod model;
pub mod op;
mod oracle;
mod power;
pub mod random;
mod script;
mod tasks;
mod tree;
mod tries;

pub use ace::{Beside, Sequence};
pub use bug::{Bug, Region};
pub use campaign::{Campaign, Outcome, Room, shrink};
pub use contents::Contents;
pub use disk::{Disk, run};
pub use driver::{Driver, Locks, lookup, walk};
pub use image::Image;
pub use journal::{Event, Journal, Recorder, RequestNo, SharedJournal};
pub use judge::Files;
pub use lab::{
    Finding, Lab, Moves, Options, Protection, Tally, device_of, small_cache, small_device,
    small_drive,
};
pub use model::{Answer, Model, errno};
pub use oracle::{Done, History, OpSet, Progress, histories};
pub use power::Power;
pub use script::{NoScript, Script};
pub use tree::{Entry, Meta, Tree};
pub use tries::{Try, tries};
