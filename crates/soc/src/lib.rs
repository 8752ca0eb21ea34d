//! The controller's SoC: everything that surrounds the firmware in a device, in virtual time.
//!
//! The firmware decides; here its decisions take time. [`Soc`] is the firmware with its flash,
//! device DRAM, lookup pipelines and firmware cores ([`Resources`]). [`Harness`] is whoever runs
//! it: an event queue, and somebody who asks and is answered. Above it stands one command layer,
//! [`Engine`]: requests of any length in, in the order that the firmware asks for, their times and
//! bytes out. Its owner hands in the time and asks for deadlines; nothing moves by itself.
//!
//! All of it is generic over the bytes ([`DataPlane`]): [`NoBytes`] for simulation, memory or files
//! for a device that keeps them. Times do not depend on which.
//!
//! Knows no host, file, thread, clock or server. See `docs/soc.md`.
#![forbid(unsafe_code)]

mod any_controller;
mod bytes;
mod engine;
mod forecast;
mod harness;
mod lockstep;
mod platform;
mod queue;
mod resources;
mod work_times;

pub use any_controller::AnyController;
pub use bytes::{Begun, DataPlane, NoBytes, fault_of};
pub use engine::{Engine, EngineConfig, LinkConfig, Parts};
pub use harness::{DeviceEvent, Harness};
pub use lockstep::Lockstep;
pub use platform::{Firmware, Soc, TimedPlatform};
pub use queue::EventQueue;
pub use resources::{ResourceConfig, Resources};
pub use work_times::{DeviceTime, GivenTimes, Timed};
