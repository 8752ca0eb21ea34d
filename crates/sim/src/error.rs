//! What can go wrong before or during a run, as sentences.

use settings::Problems;
use thiserror::Error;

/// Why a run cannot start or cannot go on.
#[derive(Debug, Error)]
pub enum SimError {
    /// The configuration is wrong; each problem is one clause.
    #[error("configuration: {}", .0.join("; "))]
    Config(Vec<String>),
    /// The trace cannot be used.
    #[error("{0}")]
    Trace(String),
    /// The trace and the configuration do not fit each other.
    #[error("{0}")]
    Mismatch(String),
    /// Nothing can happen any more although threads have not ended.
    #[error("the run cannot go on at {at}: {explanation}")]
    Deadlock {
        /// The time of the last event.
        at: units::Time,
        /// Which threads wait for what.
        explanation: String,
    },
    /// The firmware process of a run in the loop, or what is recorded of one.
    #[error("{0}")]
    Loop(String),
    /// The observer asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl From<Problems> for SimError {
    fn from(problems: Problems) -> Self {
        Self::Config(problems.0)
    }
}
