//! What the rooms of all papers have: designs and fidelity switches, in the order of `papers.toml`
//! and of each room's `paper.toml`. The build script writes the lists from these files.

use super::fidelity::Switch;
use super::presets::Preset;

include!(concat!(env!("OUT_DIR"), "/papers.rs"));
