//! Small devices in directories of their own.
#![allow(dead_code, reason = "not every test needs everything")]

use device::config::Layer;
use device::{DeviceConfig, DeviceEngine, Image, Pace, RealDevice};
use port::{Acknowledge, Device};
use std::path::{Path, PathBuf};
use units::ByteAddr;

/// A directory that goes when the test is over.
pub struct Place(PathBuf);

impl Place {
    /// Of this name; names are of one test each.
    pub fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("{}-{name}", env!("CARGO_PKG_NAME")));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
    /// A file or directory in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A preset made so small that a few thousand writes compact its log and collect garbage.
pub fn small(preset: &str, more: &[&str]) -> DeviceConfig {
    let sets = [
        "nand.channels=2",
        "nand.chips_per_channel=1",
        "nand.dies_per_chip=1",
        "nand.planes_per_die=1",
        "nand.blocks_per_plane=24",
        "nand.pages_per_block=8",
        "ftl.over_provisioning=40%",
        "ftl.gc_buffers=4",
        "ssd.buffers=8",
        "ssd.compaction.batch=4",
        "ssd.cache.mshr_count=4",
    ];
    let layers: Vec<Layer> = sets
        .iter()
        .chain(more)
        .map(|set| Layer::assignment(set).unwrap())
        .collect();
    DeviceConfig::of_preset(preset, &layers).unwrap()
}

/// With a log of a few pages.
#[allow(dead_code, reason = "not every test wants its TxLog")]
pub fn small_log() -> DeviceConfig {
    small(
        "bytefs",
        &[
            "ssd.log.size=32KiB",
            "ssd.log.tx_log=4KiB",
            "ssd.dram=100KiB",
        ],
    )
}

/// Makes an image with a page on flash, of which a read takes `t_r`, and closes it. A block is of
/// sevens; its path.
pub fn with_slow_flash(place: &Place, t_r: &str) -> PathBuf {
    let t_r = format!("nand.t_r={t_r}");
    let sets = [
        &t_r,
        "ssd.log.size=32KiB",
        "ssd.log.tx_log=4KiB",
        "ssd.dram=100KiB",
    ];
    let path = place.path("image");
    Image::create(&path, &small("bytefs", &sets)).unwrap();
    let device = RealDevice::open(&path, Pace::None).unwrap();
    let block = vec![7; 4096];
    let written = device.write_blocks(ByteAddr::new(0), &block, Acknowledge::Durable);
    device.block_on(written).unwrap();
    device.engine().settle();
    device.close().unwrap();
    path
}

/// Makes an image and opens it.
pub fn made(place: &Place, config: &DeviceConfig) -> DeviceEngine {
    let path = place.path("image");
    Image::create(&path, config).unwrap();
    DeviceEngine::open(&path, Pace::None).unwrap()
}
