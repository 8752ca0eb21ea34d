//! File systems in virtual time: loads that measure them, and power cuts that try them.
//!
//! Stands above file systems and devices, and beside the simulator: [`load`] has many simulated
//! threads use a file system on a timed device; [`crash`] cuts the power between any two of its
//! device operations and looks at what is left; [`app`] does so under a program of the user's,
//! which runs in real time, and [`recording`] writes down what it does. See docs/bytefs.md.
#![forbid(unsafe_code)]

pub mod app;
pub mod crash;
pub mod load;
pub mod recording;
