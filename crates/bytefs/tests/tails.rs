//! Where the ends of files go.

use crate::common::{AnyClock, Fs};
use bytefs::{Caller, FormatOptions, Ino, MountOptions, Personality, Timestamp};
use bytefs::{MappedExtent, WriteOptions};
use device::config::Layer;
use device::{DeviceConfig, Pace, RealDevice};
use port::AnyDevice;
use std::sync::Arc;

const CALLER: Caller = Caller {
    uid: 0,
    gid: 0,
    core: 0,
    now: Timestamp(5),
};
const PAGE: usize = 4096;

/// A file of so many bytes, synced: its extents, and pages that went by bytes.
fn synced(size: usize) -> (Vec<MappedExtent>, u64) {
    let sets = [
        "nand.channels=2",
        "nand.chips_per_channel=1",
        "nand.blocks_per_plane=72",
    ];
    let layers = sets.map(|set| Layer::assignment(set).unwrap());
    let config = DeviceConfig::of_preset("bytefs", &layers).unwrap();
    let device = Arc::new(RealDevice::in_memory(&config, Pace::None).unwrap());
    let shared = AnyDevice::new(Arc::clone(&device));
    device.block_on(async {
        let format = FormatOptions::new(Personality::ByteFs);
        Fs::format(&shared, &format).await.unwrap();
        let mounting = Fs::mount(shared, AnyClock::Still, MountOptions::default());
        let fs = mounting.await.unwrap();
        let made = fs.create(&CALLER, Ino::ROOT, b"file", 0o600).await;
        let ino = made.unwrap().ino;
        let bytes = vec![1; size];
        let done = fs.write(&CALLER, ino, 0, &bytes, WriteOptions::default());
        assert_eq!(done.await.unwrap(), size);
        let before = fs.stats().pages_by_bytes;
        fs.fsync(ino, false).await.unwrap();
        (
            fs.map(ino).await.unwrap(),
            fs.stats().pages_by_bytes - before,
        )
    })
}

/// A tail of few lines goes with the blocks before it, to the block behind them.
#[test]
fn a_file_with_a_short_tail_is_one_piece() {
    let (extents, by_bytes) = synced(4 * PAGE + 100);
    assert_eq!((extents.len(), extents[0].count, by_bytes), (1, 5, 0));
}

/// What is nothing but a tail goes by bytes.
#[test]
fn a_file_of_few_lines_goes_by_bytes() {
    let (extents, by_bytes) = synced(100);
    assert_eq!((extents.len(), extents[0].count, by_bytes), (1, 1, 1));
}
