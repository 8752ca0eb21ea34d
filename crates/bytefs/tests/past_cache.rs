//! As on persistent memory: contents without a page cache, where what is read comes from the device
//! each time and what is written goes there at once, by bytes; and devices that nobody tells of
//! blocks that hold nothing.

use crate::common::{AnyClock, Fs, ram};
use bytefs::{
    Caller, FormatOptions, Ino, MountOptions, Personality, SetAttr, Timestamp, WriteOptions, check,
};
use device::config::Layer;
use device::{DeviceConfig, Pace, Ram, RealDevice};
use port::{Acknowledge, AnyDevice, Device, block_on};
use std::sync::Arc;
use units::{ByteAddr, Bytes, Stream};

const CALLER: Caller = Caller {
    uid: 0,
    gid: 0,
    core: 0,
    now: Timestamp(5),
};
const PAGE: usize = 4096;

fn run<T>(future: impl Future<Output = T>) -> T {
    block_on(&Ram::new(Bytes::from_kib(4), Bytes::from_kib(4)), future)
}

async fn formatted(personality: Personality) -> AnyDevice {
    let device = ram(Bytes::from_mib(16));
    let mut options = FormatOptions::new(personality);
    options.inodes = Some(250);
    Fs::format(&device, &options).await.unwrap();
    device
}

async fn mounted(device: AnyDevice) -> Fs {
    let options = MountOptions {
        page_cache: false,
        ..MountOptions::default()
    };
    Fs::mount(device, AnyClock::Still, options).await.unwrap()
}

async fn made(personality: Personality) -> (Fs, Ino) {
    let fs = mounted(formatted(personality).await).await;
    let made = fs.create(&CALLER, Ino::ROOT, b"file", 0o600).await;
    let ino = made.unwrap().ino;
    (fs, ino)
}

async fn write(fs: &Fs, ino: Ino, at: u64, bytes: &[u8]) {
    let done = fs.write(&CALLER, ino, at, bytes, WriteOptions::default());
    assert_eq!(done.await.unwrap(), bytes.len());
}

#[test]
fn a_read_loads_what_it_asks_for_each_time() {
    for personality in [Personality::PmfsLike, Personality::NovaLike] {
        run(async {
            let (fs, ino) = made(personality).await;
            write(&fs, ino, 0, &[7; 3 * PAGE]).await;
            assert_eq!(fs.cached_pages(ino).pages, 0, "{personality}");
            for _ in 0..2 {
                let before = fs.stats().data;
                let read = fs.read(ino, 100, 200, false).await.unwrap();
                assert_eq!(read, [7; 200], "{personality}");
                let now = fs.stats().data;
                // Bytes 100 to 300 are in lines 1 to 4.
                let bytes = now.bytes_read - before.bytes_read;
                assert_eq!(bytes, 4 * 64, "{personality}");
                assert_eq!(now.blocks_read, before.blocks_read, "{personality}");
            }
            assert_eq!(fs.cached_pages(ino).pages, 0, "{personality}");
        });
    }
}

#[test]
fn a_write_stores_the_lines_it_brings_and_asks_for_no_block() {
    run(async {
        let (fs, ino) = made(Personality::PmfsLike).await;
        write(&fs, ino, 0, &[7; PAGE + 1000]).await;
        let before = fs.stats().data;
        assert_eq!(before.bytes_written, 2 * PAGE as u64);
        // Within the file, and behind its end in the page that is there.
        write(&fs, ino, 128, &[8; 64]).await;
        write(&fs, ino, PAGE as u64 + 1000, &[9; 24]).await;
        let now = fs.stats().data;
        assert_eq!(now.bytes_written - before.bytes_written, 2 * 64);
        assert_eq!((now.blocks_written, now.blocks_read), (0, 0));
        fs.unmount().await.unwrap();
        let fs = mounted(fs.into_device()).await;
        let read = fs.read(ino, 0, 4 * PAGE, false).await.unwrap();
        assert_eq!(read.len(), PAGE + 1024);
        assert_eq!((read[127], read[128], read[192]), (7, 8, 7));
        assert_eq!((read[PAGE + 999], read[PAGE + 1000]), (7, 9));
    });
}

#[test]
fn a_file_holds_what_it_would_with_a_cache() {
    for personality in [Personality::PmfsLike, Personality::NovaLike] {
        for seed in 0..20 {
            run(async {
                let (mut fs, ino) = made(personality).await;
                let mut stream = Stream::new(seed, "past_cache");
                let mut model: Vec<u8> = Vec::new();
                for step in 0..60 {
                    let at = stream.below(6 * PAGE as u64) as usize;
                    let size = 1 + stream.below(2 * PAGE as u64) as usize;
                    match stream.below(8) {
                        0 => {
                            let set = SetAttr {
                                size: Some(at as u64),
                                ..SetAttr::default()
                            };
                            fs.setattr(&CALLER, ino, set).await.unwrap();
                            model.resize(at, 0);
                        }
                        1 => fs.fsync(ino, false).await.unwrap(),
                        2 => {
                            fs.unmount().await.unwrap();
                            fs = mounted(fs.into_device()).await;
                        }
                        which => {
                            // Half of them go on where the file ends.
                            let at = if which < 5 { model.len() } else { at };
                            let bytes = vec![step as u8 + 1; size];
                            write(&fs, ino, at as u64, &bytes).await;
                            model.resize(model.len().max(at + size), 0);
                            model[at..at + size].copy_from_slice(&bytes);
                        }
                    }
                    let read = fs.read(ino, 0, 1 << 20, false).await.unwrap();
                    assert!(read == model, "{personality}, seed {seed}, step {step}");
                }
                fs.unmount().await.unwrap();
                let report = check(&fs.into_device(), false).await.unwrap();
                assert!(report.is_clean(), "{personality}, seed {seed}: {report:?}");
            });
        }
    }
}

#[test]
fn who_writes_by_blocks_needs_the_cache() {
    run(async {
        let device = formatted(Personality::Ext4Like).await;
        let options = MountOptions {
            page_cache: false,
            ..MountOptions::default()
        };
        let mounted = Fs::mount(device, AnyClock::Still, options).await;
        let error = mounted.err().unwrap().to_string();
        assert!(error.contains("fs.page_cache is off"), "{error}");
    });
}

#[test]
fn without_trims_nothing_that_was_there_is_seen() {
    let stores = [
        Personality::PmfsLike,
        Personality::NovaLike,
        Personality::ByteFsDual,
    ];
    for personality in stores {
        run(async {
            let device = ram(Bytes::from_mib(16));
            let used = vec![0xa5; 1 << 20];
            for at in (0..16 << 20).step_by(used.len()) {
                let at = ByteAddr::new(at);
                let done = device.write_blocks(at, &used, Acknowledge::Durable);
                done.await.unwrap();
            }
            let format = FormatOptions {
                inodes: Some(250),
                trims: false,
                ..FormatOptions::new(personality)
            };
            Fs::format(&device, &format).await.unwrap();
            let options = MountOptions {
                trims: false,
                ..MountOptions::default()
            };
            let fs = Fs::mount(device, AnyClock::Still, options).await.unwrap();
            for number in 0..100 {
                let name = format!("directory {number}");
                let made = fs.mkdir(&CALLER, Ino::ROOT, name.as_bytes(), 0o700);
                let parent = made.await.unwrap().ino;
                let made = fs.create(&CALLER, parent, b"file", 0o600).await;
                write(&fs, made.unwrap().ino, 0, &[1; 100]).await;
            }
            assert_eq!(fs.stats().trims, 0, "{personality}");
            fs.unmount().await.unwrap();
            let device = fs.into_device();
            let report = check(&device, false).await.unwrap();
            assert!(report.is_clean(), "{personality}: {report:?}");
            let fs = mounted_usually(device).await;
            let found = fs.lookup(Ino::ROOT, b"directory 99").await.unwrap();
            let found = fs.lookup(found.ino, b"file").await.unwrap();
            let read = fs.read(found.ino, 0, PAGE, false).await.unwrap();
            assert_eq!(read, [1; 100], "{personality}");
        });
    }
}

async fn mounted_usually(device: AnyDevice) -> Fs {
    let mounted = Fs::mount(device, AnyClock::Still, MountOptions::default());
    mounted.await.unwrap()
}

#[test]
fn without_trims_lines_of_transactions_come_behind_zeroes_by_blocks() {
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
        let format = FormatOptions {
            inodes: Some(250),
            trims: false,
            ..FormatOptions::new(Personality::ByteFs)
        };
        Fs::format(&shared, &format).await.unwrap();
        let options = MountOptions {
            trims: false,
            ..MountOptions::default()
        };
        let mounting = Fs::mount(shared, AnyClock::Still, options);
        let fs = mounting.await.unwrap();
        let before = fs.stats().metadata.blocks_written;
        let made = fs.mkdir(&CALLER, Ino::ROOT, b"directory", 0o700).await;
        made.unwrap();
        fs.sync().await.unwrap();
        assert_eq!(fs.stats().trims, 0);
        assert!(fs.stats().metadata.blocks_written > before);
        fs.unmount().await.unwrap();
        let report = check(&fs.into_device(), false).await.unwrap();
        assert!(report.is_clean(), "{report:?}");
    });
}
