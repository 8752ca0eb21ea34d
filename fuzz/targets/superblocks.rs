//! Images whose superblocks are right and whose configuration is not theirs
//! (`crates/device/tests/forged.rs`).
#![no_main]

use device::config::Layer;
use device::{DeviceConfig, DeviceEngine, Image, Pace};
use forge::{Choices, change_text};
use libfuzzer_sys::fuzz_target;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
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
        "ssd.write_log=32KiB",
        "ssd.tx_log=4KiB",
        "ssd.dram=100KiB",
    ];
    let layers = sets.map(|set| Layer::assignment(set).expect("a setting"));
    DeviceConfig::of_preset("bytefs", &layers).expect("a small device")
});

fn set_config(image: &Path, text: &str) {
    for name in ["media.bin", "dram.bin"] {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(image.join(name));
        let file = file.expect("it was just made");
        let mut bytes = vec![0; forge::image::SUPERBLOCK_BYTES];
        file.read_exact_at(&mut bytes, 0)
            .expect("an image has superblocks");
        forge::image::set_config(&mut bytes, text);
        file.write_all_at(&bytes, 0).expect("it can be written");
    }
}

fuzz_target!(|bytes: &[u8]| {
    let image = std::env::temp_dir().join(format!("entresol-fuzz-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&image);
    Image::create(&image, &GOOD).expect("an image is made");
    set_config(
        &image,
        &change_text(&GOOD.to_toml(), &mut Choices::new(bytes)),
    );
    if let Ok(engine) = DeviceEngine::open(&image, Pace::None) {
        engine.close().expect("what is opened can be closed");
    }
    let _ = std::fs::remove_dir_all(&image);
});
