//! Where a capture comes from. No host name, no time, no path but those in the command as typed.

use serde::{Deserialize, Serialize};

/// How a capture was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// The command as typed.
    pub command: Vec<String>,
    /// BLAKE3 of the program's file, in hexadecimal; empty if there is none.
    pub program_digest: String,
    /// The emulator and its version.
    pub emulator: String,
    /// The recorder and its version.
    pub recorder: String,
    /// Whether the region of interest was marked in the program (D2).
    pub roi: bool,
    /// Instructions left out at the start.
    pub skip: u64,
    /// Instructions after which recording stopped, if there was a limit.
    pub limit: Option<u64>,
    /// Instructions of each thread, from its start, that are there to warm caches and device and
    /// are never measured; empty if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warms: Vec<u64>,
    /// What was assumed where the source did not say; empty for a recorded capture.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}
