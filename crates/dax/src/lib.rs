//! Transparent DAX: which ranges of files belong into the device's persistent memory.
//!
//! A file system tells what is written and what syncs write back ([`Dax::wrote`],
//! [`Dax::wrote_back`]). The [tracker](Counts) keeps both counts of each range of 2^G pages, each
//! count for its own time; a [`Policy`] judges them; and a range that is judged goes through the
//! [stages](Stage) of the thesis (§5.1.1). Who moves pages asks for a [`Job`] and says how it has
//! ended.
//!
//! Knows no clock, thread, file, page or device: time and events are handed in, and what is to be
//! moved is handed out. See `docs/dax.md`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod job;
mod life;
mod policy;
mod radix;
mod settings;
mod spans;
mod stage;
mod trace;
mod tracker;
mod wheel;

pub use job::{DaxStats, Ended, Job, Move, RangeView};
pub use life::Dax;
pub use policy::{
    Adaptive, AnyPolicy, Appends, Lesson, Policy, PolicyKind, Predict, Ratio, Verdict,
};
pub use settings::{BadSetting, Settings};
pub use spans::{By, Span, Spans};
pub use stage::Stage;
pub use trace::{Decision, What};
pub use tracker::{Counts, FileId, Footprint};
