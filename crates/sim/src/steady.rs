//! The steady state: a program's long stream of misses brings device and host placement to where
//! they stay, and windows in detail begin there (`docs/steady.md`).
//!
//! What a program's caches let through does not depend on the device. So it is kept once
//! ([`caches`], [`trace::misses`]), and each design's firmware and placement live through it
//! without time ([`pass`]).

pub(crate) mod caches;
pub(crate) mod debt;
pub(crate) mod pass;

use units::Ratio;

/// Parts of a file of misses. In each, every thread does the same share of all it has to do.
pub const PARTS: u32 = 1024;

/// Version of the model of the cores' caches, as far as a file of misses shows it: it goes up with
/// every change after which some program misses otherwise, so that files of before are made anew.
pub const MODEL: u32 = 1;

/// The share of each thread's instructions that lies before a part.
pub(crate) fn share_before(part: u32) -> Ratio {
    Ratio::new(u64::from(part), u64::from(PARTS))
}
