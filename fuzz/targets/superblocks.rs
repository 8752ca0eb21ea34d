//! Images whose superblocks are right and whose configuration is not theirs
//! (`crates/device/tests/forged.rs`).
#![no_main]

use device::config::Layer;
use device::{DeviceConfig, DeviceEngine, Image, Pace};
use forge::{Choices, change_text};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static GOOD: LazyLock<DeviceConfig> = LazyLock::new(|| {
    let sets = [
        "nand.channels=2",
        "nand.chips_per_channel=1",
        "nand.dies_per_chip=1",
        "nand.planes_per_die=1",
        "nand.blocks_per_plane=24",
        "nand.pages_per_block=8",
        "ftl.over_provisioning=40%",
        "ssd.buffers=8",
        "ssd.log.size=32KiB",
        "ssd.log.tx_log=4KiB",
        "ssd.dram=100KiB",
    ];
    let layers = sets.map(|set| Layer::assignment(set).expect("a setting"));
    DeviceConfig::of_preset("bytefs", &layers).expect("a small device")
});

fuzz_target!(|bytes: &[u8]| {
    let image = std::env::temp_dir().join(format!("entresol-fuzz-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&image);
    Image::create(&image, &GOOD).expect("an image is made");
    forge::image::set_config_of(
        &image,
        &change_text(&GOOD.to_toml(), &mut Choices::new(bytes)),
    );
    if let Ok(engine) = DeviceEngine::open(&image, Pace::None) {
        engine.close().expect("what is opened can be closed");
    }
    let _ = std::fs::remove_dir_all(&image);
});
