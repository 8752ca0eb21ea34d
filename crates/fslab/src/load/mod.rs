//! Loads of file systems: simulated threads that use one in virtual time.
mod aging;
mod clients;
mod draw;
mod error;
mod files;
mod flow;
mod hardware;
mod measure;
mod memory;
mod options;
mod part;
#[cfg(test)]
mod plain;
mod replay;
mod result;
mod runner;
mod serving;
mod sets;
mod spec;
mod stage;
mod store;
pub(crate) mod sync;
mod vfs;
mod ycsb;

pub use clients::Clients;
pub use error::LoadError;
pub use hardware::{Scale, scaled};
pub use measure::Latency;
pub use memory::memory;
pub use options::{
    BatchesAs, ContentsAt, DaxAs, DaxPolicyAs, Does, FsConfig, FsOptions, MetadataAt,
};
pub use part::Playing;
pub use replay::replay;
pub use result::{Conditions, Decided, Decisions, LoadResult, Part};
pub use runner::{Setup, run};
pub use spec::{
    Distribution, FilesSpec, LOADS, Load, Shipped, Step, StoreSpec, ThreadsSpec, shipped,
};
