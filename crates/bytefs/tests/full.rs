//! File systems without room: what was taken can be written, and what cannot is refused.

use crate::common::{AnyClock, Fs, ram};
use bytefs::{
    Allocate, Caller, FormatOptions, FsError, Ino, MountOptions, Personality, SetAttr, SetXattr,
    Timestamp, WriteOptions, check,
};
use device::config::Layer;
use device::{DeviceConfig, Pace, Ram, RealDevice};
use port::{AnyDevice, block_on};
use std::sync::Arc;
use units::Bytes;

const CALLER: Caller = Caller {
    uid: 0,
    gid: 0,
    core: 0,
    now: Timestamp(5),
};
const PAGE: u64 = 4096;

const PERSONALITIES: [Personality; 4] = [
    Personality::ByteFsDual,
    Personality::Ext4Like,
    Personality::F2fsLike,
    Personality::NovaLike,
];

/// Does something to a file system of few blocks, and looks whether it is whole afterwards.
fn on_a_small_one(personality: Personality, test: impl AsyncFnOnce(&Fs)) {
    let idle = Ram::new(Bytes::from_kib(4), Bytes::from_kib(4));
    block_on(&idle, async {
        let size = Bytes::from_mib(40);
        let device = ram(size);
        let options = FormatOptions {
            inodes: Some(512),
            ..FormatOptions::new(personality)
        };
        Fs::format(&device, &options).await.unwrap();
        let fs = mount(device).await;
        test(&fs).await;
        fs.unmount().await.unwrap();
        let report = check(&fs.into_device(), false).await.unwrap();
        assert!(report.is_clean(), "{personality}: {report:?}");
    });
}

async fn mount(device: AnyDevice) -> Fs {
    let fs = Fs::mount(device, AnyClock::Still, MountOptions::default());
    fs.await.unwrap()
}

async fn create(fs: &Fs, name: &str) -> Ino {
    let file = fs.create(&CALLER, Ino::ROOT, name.as_bytes(), 0o644);
    file.await.unwrap().ino
}

async fn write(fs: &Fs, ino: Ino, page: u64, byte: u8) -> Result<(), FsError> {
    let bytes = [byte; PAGE as usize];
    let done = fs.write(&CALLER, ino, page * PAGE, &bytes, WriteOptions::default());
    done.await.map(|_| ())
}

/// Leaves so many blocks, or a few less.
async fn leave(fs: &Fs, blocks: u64) {
    let rest = create(fs, "rest").await;
    let mut at = 0;
    loop {
        let more = fs.usage().free_blocks.saturating_sub(blocks);
        if more == 0 {
            return;
        }
        let mode = Allocate::Grow;
        let done = fs.fallocate(&CALLER, rest, mode, at * PAGE, more.min(64) * PAGE);
        if done.await.is_err() {
            return;
        }
        at += more.min(64);
    }
}

/// The last free blocks are those that were made ready for metadata, more of them than a
/// transaction has lines for. They take whole pages all the same.
#[test]
fn the_last_blocks_are_more_than_a_transaction_takes_by_lines() {
    let sets = [
        "nand.channels=2",
        "nand.chips_per_channel=1",
        "nand.blocks_per_plane=128",
        "nand.pages_per_block=128",
        "ssd.log.size=512KiB",
        "ssd.log.tx_log=16KiB",
        "ssd.dram=4MiB",
    ];
    let layers = sets.map(|set| Layer::assignment(set).unwrap());
    let config = DeviceConfig::of_preset("bytefs", &layers).unwrap();
    let device = Arc::new(RealDevice::in_memory(&config, Pace::None).unwrap());
    device.block_on(async {
        let options = FormatOptions {
            inodes: Some(512),
            ..FormatOptions::new(Personality::ByteFs)
        };
        let shared = AnyDevice::new(Arc::clone(&device));
        Fs::format(&shared, &options).await.unwrap();
        let fs = mount(shared).await;
        // Has as many blocks made ready as there are at a time.
        fs.mkdir(&CALLER, Ino::ROOT, b"first", 0o755).await.unwrap();
        leave(&fs, 120).await;
        let last = create(&fs, "last").await;
        let mut pages = 0;
        while write(&fs, last, pages, 1).await.is_ok() {
            pages += 1;
        }
        assert!(pages > 64, "{pages}");
        fs.fsync(last, false).await.unwrap();
        let seen = fs.read(last, 0, (pages * PAGE) as usize, false).await;
        assert!(seen.unwrap().iter().all(|byte| *byte == 1));
        fs.unmount().await.unwrap();
        let report = check(&fs.into_device(), false).await.unwrap();
        assert!(report.is_clean(), "{report:?}");
    });
}

/// Each page that is written splits an extent.
#[test]
fn pages_all_over_a_file_that_has_its_blocks() {
    for personality in PERSONALITIES {
        on_a_small_one(personality, async |fs| {
            let file = create(fs, "file").await;
            let pages = fs.usage().free_blocks.saturating_sub(30);
            let mut at = 0;
            while at < pages {
                let done = fs.fallocate(&CALLER, file, Allocate::Grow, at * PAGE, 16 * PAGE);
                if done.await.is_err() {
                    break;
                }
                at += 16;
            }
            let mut written = 0;
            for page in (0..at).step_by(2) {
                match write(fs, file, page, 7).await {
                    Ok(()) => written += 1,
                    Err(error) => assert_eq!(error, FsError::NoSpace),
                }
            }
            assert!(written > 100, "{written}");
            fs.fsync(file, false).await.unwrap();
        });
    }
}

/// A punch that finds no room for what it splits changes nothing: what was written last is there.
#[test]
fn a_punch_without_room_loses_nothing_that_was_written() {
    let refused = std::cell::Cell::new(0);
    // Of some number of pieces, one more needs a block.
    let each = |personality| (1..6).map(move |pieces| (personality, pieces));
    for (personality, pieces) in PERSONALITIES.into_iter().flat_map(each) {
        on_a_small_one(personality, async |fs| {
            let file = create(fs, "file").await;
            for page in 0..200 {
                write(fs, file, page, 0xaa).await.unwrap();
            }
            fs.fsync(file, false).await.unwrap();
            let punch = async |first: u64, pages: u64| {
                let range = (first * PAGE, pages * PAGE);
                let how = Allocate::PunchHole;
                fs.fallocate(&CALLER, file, how, range.0, range.1).await
            };
            for piece in 1..pieces {
                punch(10 * piece, 1).await.unwrap();
            }
            fs.fsync(file, false).await.unwrap();
            leave(fs, 0).await;
            let last = create(fs, "last").await;
            let mut page = 0;
            while write(fs, last, page, 1).await.is_ok() {
                page += 1;
            }
            fs.sync().await.unwrap();
            for number in 0.. {
                let name = format!("{number}");
                let made = fs.mkdir(&CALLER, Ino::ROOT, name.as_bytes(), 0o755).await;
                if made.is_err() {
                    break;
                }
            }
            fs.sync().await.unwrap();
            write(fs, file, 100, 0xbb).await.unwrap();
            let result = punch(99, 3).await;
            let byte = match result {
                Ok(()) => 0,
                Err(FsError::NoSpace) => {
                    refused.set(refused.get() + 1);
                    0xbb
                }
                Err(other) => panic!("{personality}: {other}"),
            };
            let seen = fs.read(file, 100 * PAGE, PAGE as usize, false).await;
            assert!(
                seen.unwrap().iter().all(|each| *each == byte),
                "{personality}"
            );
        });
    }
    assert!(refused.get() > 0, "one at least has no room");
}

/// Each of these files needs a block for its extents beside those of its pages.
#[test]
fn files_of_pages_that_do_not_follow_each_other() {
    for personality in PERSONALITIES {
        on_a_small_one(personality, async |fs| {
            let mut files = Vec::new();
            for number in 0..40 {
                files.push(create(fs, &format!("{number}")).await);
            }
            leave(fs, 110).await;
            let mut written = 0;
            for file in &files {
                for page in [0, 10, 20] {
                    match write(fs, *file, page, 9).await {
                        Ok(()) => written += 1,
                        Err(error) => assert_eq!(error, FsError::NoSpace),
                    }
                }
            }
            assert!(written > 20, "{written}");
            fs.sync().await.unwrap();
        });
    }
}

/// Names, attributes and links take no block that is kept for contents.
#[test]
fn names_leave_what_was_promised() {
    for personality in PERSONALITIES {
        on_a_small_one(personality, async |fs| {
            let file = create(fs, "file").await;
            // Blocks for names are ready.
            fs.mkdir(&CALLER, Ino::ROOT, b"first", 0o755).await.unwrap();
            leave(fs, 150).await;
            let mut page = 0;
            while write(fs, file, page, 3).await.is_ok() {
                page += 3;
            }
            for number in 0..200 {
                let name = format!("directory {number}");
                let made = fs.mkdir(&CALLER, Ino::ROOT, name.as_bytes(), 0o755).await;
                if let Ok(made) = made {
                    let value = [1; 2000];
                    let set = fs.set_xattr(&CALLER, made.ino, b"user.a", &value, SetXattr::Any);
                    let _ = set.await;
                }
            }
            fs.fsync(file, false).await.unwrap();
        });
    }
}

/// As Ext4 does: a larger size takes nothing of what was allocated behind it.
#[test]
fn a_file_that_grows_keeps_what_was_allocated_behind_its_end() {
    for personality in PERSONALITIES {
        on_a_small_one(personality, async |fs| {
            let ino = create(fs, "allocated").await;
            let mode = Allocate::KeepSize;
            let done = fs.fallocate(&CALLER, ino, mode, 0, 100 * PAGE);
            done.await.unwrap();
            leave(fs, 30).await;
            let mode = Allocate::Grow;
            let done = fs.fallocate(&CALLER, ino, mode, 0, 3 * PAGE);
            done.await.unwrap();
            let set = SetAttr {
                size: Some(5 * PAGE + 1),
                ..SetAttr::default()
            };
            fs.setattr(&CALLER, ino, set).await.unwrap();
            assert!(
                fs.getattr(ino).await.unwrap().blocks >= 100,
                "{personality}"
            );
            for page in 0..100 {
                write(fs, ino, page, 7).await.unwrap();
            }
            fs.sync().await.unwrap();
            let read = fs.read(ino, 99 * PAGE, PAGE as usize, false);
            assert_eq!(read.await.unwrap(), [7; PAGE as usize]);
        });
    }
}

/// What waits to be written back has its blocks: they are not asked for a second time.
#[test]
fn blocks_for_a_range_that_waits_are_counted_once() {
    for personality in PERSONALITIES {
        on_a_small_one(personality, async |fs| {
            let ino = create(fs, "file").await;
            leave(fs, 200).await;
            for page in 0..100 {
                write(fs, ino, page, 7).await.unwrap();
            }
            let mode = Allocate::Grow;
            let done = fs.fallocate(&CALLER, ino, mode, 0, 120 * PAGE);
            done.await
                .unwrap_or_else(|error| panic!("{personality}: {error}"));
            fs.sync().await.unwrap();
            let read = fs.read(ino, 99 * PAGE, PAGE as usize, false);
            assert_eq!(read.await.unwrap(), [7; PAGE as usize]);
        });
    }
}

/// As other file systems do: of a write that does not fit, what fits is written.
#[test]
fn a_write_is_as_long_as_there_is_room() {
    for personality in PERSONALITIES {
        on_a_small_one(personality, async |fs| {
            let ino = create(fs, "file").await;
            leave(fs, 100).await;
            let (at, bytes) = (7 * PAGE + 5, vec![9; 1 << 20]);
            let write = async |at| {
                let how = WriteOptions::default();
                fs.write(&CALLER, ino, at, &bytes, how).await
            };
            let written = write(at).await.unwrap();
            let pages = written as u64 / PAGE;
            assert!((16..256).contains(&pages), "{personality}: {pages} pages");
            assert_eq!(fs.getattr(ino).await.unwrap().size, at + written as u64);
            let error = write(at + written as u64).await;
            assert_eq!(error, Err(FsError::NoSpace), "{personality}");
            fs.sync().await.unwrap();
            let read = fs.read(ino, at, written + 1, false).await.unwrap();
            assert!(read.len() == written && read.iter().all(|byte| *byte == 9));
        });
    }
}
