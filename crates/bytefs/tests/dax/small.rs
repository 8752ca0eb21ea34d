//! The small drive of the tests of persistent memory: of those here, and of those beside the
//! sources.

use device::DeviceConfig;
use device::config::Layer;

/// A preset with so little of everything, and a window of this size.
pub fn config(preset: &str, pmem: &str, sets: &[&str]) -> DeviceConfig {
    let pmem = format!("device.pmem={pmem}");
    let small = [
        &pmem,
        "nand.channels=2",
        "nand.chips_per_channel=1",
        "nand.dies_per_chip=1",
        "nand.planes_per_die=1",
        "nand.blocks_per_plane=96",
        "nand.pages_per_block=32",
        "ftl.over_provisioning=50%",
        "ssd.dram=4MiB",
    ];
    let sets = small.iter().chain(sets);
    let layers: Vec<Layer> = sets
        .map(|set| Layer::assignment(set).expect("an assignment"))
        .collect();
    DeviceConfig::of_preset(preset, &layers).expect("a good device")
}
