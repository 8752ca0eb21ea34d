//! The simulator: the event loop that joins host, CXL link, firmware and NAND in virtual time.
//!
//! Knows every crate below it and owns what they do not: the order of events, the path of a
//! request, the composition of a design, statistics and audits. Reads no clock and no global
//! random numbers: the same capture, configuration and seed give the same result, bit for bit.
//!
//! Entry point: [`run::Prepared`].
#![forbid(unsafe_code)]

pub mod error;
pub mod config;
pub mod queue;
pub mod histogram;
pub mod event;
pub mod request;
pub mod amat;
pub mod device;
pub mod fabric;
pub mod simulation;
mod migration;
mod retry;
mod warm;

pub use config::Config;
pub use error::SimError;
pub mod run;
pub mod result;
