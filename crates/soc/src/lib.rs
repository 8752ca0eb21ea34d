//! The controller's SoC: everything that surrounds the firmware in a device, in virtual time.
//!
//! The firmware decides; here its decisions take time. [`Soc`] is the firmware with its flash,
//! device DRAM, lookup pipelines and firmware cores ([`Resources`]). [`Harness`] is whoever runs
//! it: an event queue, and somebody who asks and is answered.
//! All of it is generic over the bytes ([`DataPlane`]): [`NoBytes`] for simulation, memory or files
//! for a device that keeps them. Times do not depend on which.
//!
//! Knows no host, file, thread, clock or server. See `docs/soc.md`.
#![forbid(unsafe_code)]

mod bytes;
mod forecast;
mod harness;
mod platform;
mod queue;
mod resources;

pub use bytes::{DataPlane, NoBytes, fault_of};
pub use harness::{DeviceEvent, Harness};
pub use platform::{Firmware, Soc, TimedPlatform};
pub use queue::EventQueue;
pub use resources::{ResourceConfig, Resources};
