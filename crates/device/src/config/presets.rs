//! The presets that ship with Entresol.

use super::{Layer, SECTIONS};
use crate::error::DeviceFileError;

/// A preset file, compiled in.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Name on the command line.
    pub name: &'static str,
    /// TOML, whose comment at the top says what the device is and where each value is from.
    text: &'static str,
}

macro_rules! preset {
    ($name:literal, $file:literal) => {
        Preset {
            name: $name,
            text: include_str!(concat!("../../../../configs/devices/", $file, ".toml")),
        }
    };
}

/// All of them.
pub const PRESETS: &[Preset] = &[
    preset!("bytefs", "bytefs"),
    preset!("bytefs-cache", "bytefs_cache"),
    preset!("skybyte", "skybyte"),
    preset!("cxl", "cxl"),
    preset!("consumer-tlc", "consumer_tlc"),
    preset!("opencxd", "opencxd"),
];

impl Preset {
    /// What the device is: the first sentence of its file's comment.
    pub fn summary(&self) -> String {
        let about = self.about();
        let end = about.find(": ").unwrap_or(about.len());
        about[..end].to_owned()
    }

    /// The comment at the top of its file, which says where each value is from.
    pub fn about(&self) -> String {
        let lines = self.text.lines().take_while(|line| line.starts_with('#'));
        let words: Vec<&str> = lines
            .map(|line| line.trim_start_matches(['#', ' ']))
            .collect();
        words.join(" ")
    }

    /// Its values.
    pub(super) fn layer(&self) -> Layer {
        Layer::new(format!("preset {}", self.name), self.text)
    }
}

/// The preset with this name.
///
/// # Errors
/// If there is none.
pub fn preset(name: &str) -> Result<&'static Preset, DeviceFileError> {
    let found = PRESETS.iter().find(|preset| preset.name == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        DeviceFileError::config(format!(
            "there is no device preset {name}; there are {}",
            names.join(", ")
        ))
    })
}

/// What all presets stand on.
pub(super) fn base_layers() -> Vec<Layer> {
    let machine = include_str!("../../../../configs/machines/table2.toml");
    let base = include_str!("../../../../configs/devices/base.toml");
    vec![
        // Of a machine, only its device counts.
        Layer::new("machine table2", machine)
            .only(SECTIONS)
            .expect("what ships with Entresol is TOML, as a test shows"),
        Layer::new("configs/devices/base.toml", base),
    ]
}
