//! How the cores of a run are simulated, and what the fast way cannot do.

use super::RunSpec;
use crate::error::SimError;
use std::str::FromStr;

/// How the cores are simulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// Instruction by instruction.
    #[default]
    Detailed,
    /// From a stream of what leaves L1, filtered once for all designs.
    Fast,
}

impl Mode {
    /// The name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Detailed => "detailed",
            Self::Fast => "fast",
        }
    }
}

impl FromStr for Mode {
    type Err = SimError;
    fn from_str(text: &str) -> Result<Self, SimError> {
        match text {
            "detailed" => Ok(Self::Detailed),
            "fast" => Ok(Self::Fast),
            _ => Err(SimError::Config(vec![format!(
                "mode {text} is neither detailed nor fast"
            )])),
        }
    }
}

/// Refuses what a mode cannot do.
///
/// # Errors
/// One clause for each obstacle.
pub(super) fn check(spec: &RunSpec) -> Result<(), SimError> {
    match spec.mode {
        Mode::Detailed => Ok(()),
        Mode::Fast => Err(SimError::Config(vec![
            "mode fast is not available yet; use detailed".to_string(),
        ])),
    }
}
