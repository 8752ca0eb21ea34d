//! The simulator: the event loop that joins host, CXL link, firmware and NAND in virtual time.
//!
//! Knows every crate below it and owns what they do not: the order of events, the path of a
//! request, the composition of a design, statistics and audits. Reads no clock and no global
//! random numbers: the same capture, configuration and seed give the same result, bit for bit.
//!
//! Entry point: [`run::Prepared`].
#![forbid(unsafe_code)]

pub mod amat;
pub mod config;
pub mod device;
pub mod error;
pub mod event;
pub mod fabric;
pub mod histogram;
pub mod in_loop;
pub mod line_order;
pub mod locality;
mod migration;
pub mod recorder;
pub mod request;
mod retry;
pub mod simulation;
pub mod steady;
mod warm;

pub use config::Config;
pub use error::SimError;
pub mod replay;
pub mod result;
pub mod run;
