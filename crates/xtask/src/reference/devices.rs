//! The part of the page of parameters on devices of real bytes.

use super::row;
use device::DeviceConfig;
use device::config::{PRESETS, SECTIONS};
use sim::config::SECTIONS as SIMULATED;
use std::collections::BTreeMap;
use std::fmt::Write;

const HEAD: &str = "
## Devices

Parameters of [devices of real bytes](../device.md), which `entresol device create --set` takes and
`entresol device presets --keys` lists: the sections `ssd`, `ftl` and `nand` of above, and those
here. Defaults are those of the preset `bytefs`.

";

/// Adds the part.
///
/// # Panics
/// When a preset that ships with Entresol is not a device.
pub fn section(page: &mut String) {
    page.push_str(HEAD);
    let presets: Vec<(&str, BTreeMap<String, String>)> = PRESETS
        .iter()
        .map(|preset| (preset.name, values(preset.name)))
        .collect();
    let (_, defaults) = &presets[0];
    for (section, parameters) in SECTIONS {
        if SIMULATED.iter().any(|(name, _)| name == section) {
            continue;
        }
        writeln!(page, "### `{section}`\n").expect("text grows");
        page.push_str(
            "| key | kind | default | range | what | source |\n|---|---|---|---|---|---|\n",
        );
        for parameter in *parameters {
            row(page, parameter, &defaults[parameter.key]);
        }
        page.push('\n');
    }
    differences(page, &presets);
}

/// What differs among the presets, a column for each.
fn differences(page: &mut String, presets: &[(&str, BTreeMap<String, String>)]) {
    page.push_str("### Device presets\n\nWhere they differ.\n\n| key |");
    for (name, _) in presets {
        write!(page, " `{name}` |").expect("text grows");
    }
    page.push_str("\n|---|");
    page.push_str(&"---|".repeat(presets.len()));
    page.push('\n');
    let (_, first) = &presets[0];
    for (key, value) in first {
        if presets.iter().all(|(_, values)| &values[key] == value) {
            continue;
        }
        write!(page, "| `{key}` |").expect("text grows");
        for (_, values) in presets {
            write!(page, " {} |", values[key]).expect("text grows");
        }
        page.push('\n');
    }
}

/// The effective values of a preset, by key.
fn values(name: &str) -> BTreeMap<String, String> {
    let config = DeviceConfig::of_preset(name, &[]).expect("a preset is a device");
    let sections = config.texts().into_iter();
    sections
        .flat_map(|(section, values)| {
            let values = values.into_iter();
            values.map(move |(key, text)| (format!("{section}.{key}"), text))
        })
        .collect()
}
