//! The crash lab: cuts the power of the firmware at every step and looks at what is left.
//!
//! A small device runs a workload. At every action of the firmware (a copy, a record, the start of
//! a NAND operation, an answer), before it and in the middle of it, the lab takes what a power cut
//! would leave, recovers from it and compares what is read with an oracle that knows nothing of
//! firmware. During recovery it cuts again. What fails is shrunk to a short script.
//!
//! It knows the firmware by its public interface only: bytes, tables and NAND are on this side of
//! [`firmware::Platform`] and [`firmware::Durable`]. Reading order: [`media`], [`machine`],
//! [`power_cutter`], [`oracle`], [`step`], [`lab`], then [`sabotage`]. See docs/crash-lab.md.
#![forbid(unsafe_code)]

pub mod campaign;
mod catch;
pub mod device;
pub mod flash;
pub mod lab;
pub mod machine;
pub mod media;
pub mod oracle;
pub mod power_cutter;
pub mod powered_device;
mod recovery;
pub mod sabotage;
pub mod script;
pub mod shrink;
pub mod step;
pub mod tables;
pub mod tally;
pub mod token;
pub mod workload;

pub use campaign::{Campaign, Failure};
pub use device::Device;
pub use lab::{CutName, Finding, Lab, Options, run};
pub use sabotage::Bug;
pub use script::Script;
pub use step::Step;
pub use tally::{Activity, Tally};
pub use workload::Workload;
