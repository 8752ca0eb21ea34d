//! Layers of configuration over the presets of devices (`crates/device/tests/forged.rs`).
#![no_main]

use device::DeviceConfig;
use device::config::{Layer, PRESETS};
use forge::{Choices, change_text};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static GOOD: LazyLock<Vec<String>> = LazyLock::new(|| {
    let config = |name| DeviceConfig::of_preset(name, &[]).expect("a preset is valid");
    PRESETS
        .iter()
        .map(|preset| config(preset.name).to_toml())
        .collect()
});

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices::new(bytes);
    let which = usize::from(choices.byte()) % GOOD.len();
    let text = change_text(&GOOD[which], &mut choices);
    if let Err(error) = DeviceConfig::of_preset(PRESETS[which].name, &[Layer::new("given", text)]) {
        assert!(!error.to_string().trim().is_empty());
    }
});
