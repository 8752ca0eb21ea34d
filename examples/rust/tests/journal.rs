//! What the journal promises, on a device of real bytes whose power goes.

use device::config::Layer;
use device::{DeviceConfig, Image, Pace, RealDevice};
use examples::journal::Journal;
use port::{Device, TxOptions};
use std::path::PathBuf;
use units::ByteAddr;

/// A small device of ByteFS's kind in a new image of this name.
fn image(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    let sets = [
        "nand.channels=2",
        "nand.blocks_per_plane=24",
        "nand.pages_per_block=8",
        "ftl.over_provisioning=40%",
        "ssd.log.size=32KiB",
        "ssd.dram=96KiB",
        "ssd.log.tx_log=4KiB",
    ];
    let layers: Vec<Layer> = sets
        .iter()
        .map(|set| Layer::assignment(set).unwrap())
        .collect();
    let config = DeviceConfig::of_preset("bytefs", &layers).unwrap();
    Image::create(&path, &config).unwrap();
    path
}

fn records(device: &RealDevice) -> Vec<Vec<u8>> {
    device
        .block_on(async { Journal::open(device).await?.records().await })
        .unwrap()
}

#[test]
fn appended_records_survive_a_power_cut_and_an_open_one_is_absent() {
    let path = image("example-journal");
    let device = RealDevice::open(&path, Pace::None).unwrap();
    assert_eq!(records(&device), Vec::<Vec<u8>>::new());
    let long = vec![7; 5_000];
    device
        .block_on(async {
            let mut journal = Journal::open(&device).await?;
            journal.append(b"one").await?;
            journal.append(&long).await?;
            // A third record that is written and not committed when the power goes.
            let tx = device.begin(TxOptions::default()).await?;
            device.write(ByteAddr::new(0), &[255; 8], tx).await
        })
        .unwrap();
    // Dropped and not closed: a power cut.
    drop(device);
    let device = RealDevice::open(&path, Pace::None).unwrap();
    assert_eq!(records(&device), [b"one".to_vec(), long]);
}
