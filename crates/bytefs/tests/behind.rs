//! What is written in order goes to the device before its sync.

use crate::common::{AnyClock, Fs};
use bytefs::{
    Caller, DataMode, FormatOptions, Ino, MountOptions, Personality, Timestamp, WriteOptions,
};
use device::config::Layer;
use device::{DeviceConfig, Pace, RealDevice};
use port::AnyDevice;
use std::future::Future;
use std::sync::Arc;
use units::Bytes;

const CALLER: Caller = Caller {
    uid: 0,
    gid: 0,
    core: 0,
    now: Timestamp(5),
};
const PAGE: usize = 4096;
/// What goes together.
const PIECE: usize = 256 * PAGE;

/// A file in a file system of this kind.
fn with_file<F: Future<Output = ()>>(
    personality: Personality,
    data: DataMode,
    test: impl FnOnce(Fs, Ino) -> F,
) {
    let sets = [
        "nand.channels=2",
        "nand.chips_per_channel=1",
        "nand.blocks_per_plane=72",
    ];
    let layers = sets.map(|set| Layer::assignment(set).unwrap());
    let preset = match personality {
        Personality::ByteFs | Personality::ByteFsLog => "bytefs",
        _ => "bytefs-cache",
    };
    let config = DeviceConfig::of_preset(preset, &layers).unwrap();
    let device = Arc::new(RealDevice::in_memory(&config, Pace::None).unwrap());
    let shared = AnyDevice::new(Arc::clone(&device));
    device.block_on(async {
        let format = FormatOptions {
            journal: (data == DataMode::Journal).then(|| Bytes::from_mib(4)),
            ..FormatOptions::new(personality)
        };
        Fs::format(&shared, &format).await.unwrap();
        let options = MountOptions {
            data,
            ..MountOptions::default()
        };
        let fs = Fs::mount(shared, AnyClock::Still, options).await.unwrap();
        let made = fs.create(&CALLER, Ino::ROOT, b"file", 0o600).await;
        let ino = made.unwrap().ino;
        test(fs, ino).await;
    });
}

async fn write(fs: &Fs, ino: Ino, at: usize, size: usize) {
    let bytes: Vec<u8> = (at..at + size).map(|at| (at / 7) as u8).collect();
    let done = fs.write(&CALLER, ino, at as u64, &bytes, WriteOptions::default());
    assert_eq!(done.await.unwrap(), size);
}

/// Whoever writes in order finds all pieces but the last one written when he syncs.
#[test]
fn pieces_that_are_written_in_order_go_and_the_last_one_stays() {
    with_file(Personality::ByteFs, DataMode::Ordered, async |fs, ino| {
        let size = 6 * PIECE + 100;
        let step = PIECE / 2 + 300;
        for at in (0..size).step_by(step) {
            write(&fs, ino, at, step.min(size - at)).await;
            if fs.can_write_behind(ino) {
                fs.write_behind(ino).await.unwrap();
                assert!(!fs.can_write_behind(ino), "once is enough");
            }
            let dirty = fs.cached_pages(ino).dirty as usize;
            let bound = dirty < 2 * PIECE / PAGE;
            assert!(bound, "{dirty} pages are dirty behind byte {at}");
        }
        let stats = fs.stats();
        let went = stats.pages_by_blocks;
        assert_eq!(
            went,
            5 * 256,
            "no page went twice, and the last piece stays"
        );
        fs.fsync(ino, true).await.unwrap();
        let all = fs.stats();
        assert_eq!(all.pages_by_blocks + all.pages_by_bytes, 6 * 256 + 1);
        let found = fs.read(ino, 0, size, false).await.unwrap();
        assert!(
            found
                .iter()
                .enumerate()
                .all(|(at, byte)| *byte == (at / 7) as u8)
        );
        assert_eq!(found.len(), size);
    });
}

/// What may change again before it is written back waits for that.
#[test]
fn who_writes_here_and_there_is_left_alone() {
    with_file(Personality::ByteFs, DataMode::Ordered, async |fs, ino| {
        write(&fs, ino, 0, PIECE).await;
        assert!(!fs.can_write_behind(ino), "one piece is the last one");
        for at in [7, 3, 5, 1] {
            write(&fs, ino, at * PIECE, PIECE).await;
            assert!(!fs.can_write_behind(ino), "it goes on nowhere");
        }
        fs.write_behind(ino).await.unwrap();
        assert_eq!(fs.stats().pages_by_blocks, 0);
    });
}

#[test]
fn others_than_bytefs_write_back_when_they_must() {
    let ordered = [Personality::Ext4Like, Personality::F2fsLike];
    let each = ordered.map(|personality| (personality, DataMode::Ordered));
    for (personality, data) in [each[0], each[1], (Personality::ByteFs, DataMode::Journal)] {
        with_file(personality, data, async |fs, ino| {
            for at in 0..4 {
                write(&fs, ino, at * PIECE, PIECE).await;
                assert!(!fs.can_write_behind(ino), "{personality}, {data:?}");
            }
        });
    }
}
