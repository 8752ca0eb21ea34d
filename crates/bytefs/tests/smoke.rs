//! Every kind of operation once, on every personality, and again after a mount.

use crate::common::{AnyClock, Fs, ram};
use bytefs::{
    Allocate, Caller, FileKind, FormatOptions, FsError, Ino, MountOptions, Overlay, Personality,
    Rename, Seek, SetAttr, SetXattr, Timestamp, WriteOptions,
};
use device::config::Layer;
use device::{DeviceConfig, DeviceEngine, Pace, Ram};
use port::{AnyDevice, Device, block_on};
use std::future::Future;
use units::{ByteAddr, Bytes};
use vtime::Machine;

/// Bytes of the largest file.
const MOST: u64 = 1 << 60;

fn caller() -> Caller {
    Caller {
        uid: 1,
        gid: 2,
        core: 0,
        now: Timestamp(77),
    }
}

type Result<T> = std::result::Result<T, FsError>;

async fn names(fs: &Fs, dir: Ino) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    let mut from = 0;
    loop {
        let entries = fs.readdir(dir, from, 7).await.unwrap();
        let Some(last) = entries.last() else { break };
        from = last.next;
        names.extend(entries.into_iter().map(|entry| entry.name));
    }
    names.sort();
    names
}

async fn make(fs: &Fs) -> Result<()> {
    let me = caller();
    let root = Ino::ROOT;
    let dir = fs.mkdir(&me, root, b"dir", 0o755).await?.ino;
    assert_eq!(
        fs.mkdir(&me, root, b"dir", 0o755).await,
        Err(FsError::Exists)
    );
    let file = fs.create(&me, dir, b"file", 0o644).await?.ino;
    let bytes: Vec<u8> = (0..20_000_u32).map(|index| (index % 251) as u8).collect();
    assert_eq!(
        fs.write(&me, file, 100, &bytes, WriteOptions::default())
            .await?,
        20_000
    );
    fs.fsync(file, false).await?;
    fs.write(&me, file, 5_000, b"changed", WriteOptions::default())
        .await?;
    fs.fsync(file, true).await?;
    let direct = WriteOptions {
        direct: true,
        ..WriteOptions::default()
    };
    fs.write(&me, file, 9_000, b"direct", direct).await?;
    fs.write(&me, file, 12_288, &[9; 4096], direct).await?;
    fs.release(file).await?;
    for index in 0..300 {
        let name = format!("name {index} {}", "x".repeat(index % 200));
        fs.mknod(&me, dir, name.as_bytes(), FileKind::Fifo, 0o600, 0)
            .await?;
    }
    for index in 0..100 {
        let name = format!("name {index} {}", "x".repeat(index % 200));
        fs.unlink(&me, dir, name.as_bytes()).await?;
    }
    fs.symlink(&me, root, b"link", b"dir/file").await?;
    fs.link(&me, file, root, b"other").await?;
    fs.rename(&me, root, b"other", dir, b"moved", Rename::NoReplace)
        .await?;
    fs.set_xattr(&me, file, b"user.a", b"value", SetXattr::Any)
        .await?;
    let sparse = fs.create(&me, root, b"sparse", 0o644).await?.ino;
    fs.write(&me, sparse, 1 << 40, b"far", WriteOptions::default())
        .await?;
    fs.fallocate(&me, sparse, Allocate::KeepSize, 0, 1 << 16)
        .await?;
    let farthest = fs.create(&me, root, b"farthest", 0o644).await?.ino;
    fs.write(&me, farthest, MOST - 1, b"z", WriteOptions::default())
        .await?;
    for at in [MOST, i64::MAX as u64 - 1] {
        let beyond = fs
            .write(&me, farthest, at, b"z", WriteOptions::default())
            .await;
        assert_eq!(beyond, Err(FsError::TooLarge));
    }
    let open = fs.create(&me, root, b"open", 0o644).await?.ino;
    fs.write(&me, open, 0, &[1; 10_000], WriteOptions::default())
        .await?;
    fs.unlink(&me, root, b"open").await?;
    assert_eq!(fs.read(open, 9_990, 100, false).await?, vec![1; 10]);
    let cut = fs.create(&me, root, b"cut", 0o644).await?.ino;
    fs.write(&me, cut, 0, &[3; 50_000], WriteOptions::default())
        .await?;
    fs.sync().await?;
    let to = |size| SetAttr {
        size: Some(size),
        ..SetAttr::default()
    };
    fs.setattr(&me, cut, to(5_000)).await?;
    fs.setattr(&me, cut, to(9_000)).await?;
    fs.fallocate(&me, cut, Allocate::PunchHole, 0, 4_500)
        .await?;
    Ok(())
}

async fn look(fs: &Fs, is_after: bool) -> Result<()> {
    let root = Ino::ROOT;
    let dir = fs.lookup(root, b"dir").await?.ino;
    let attr = fs.lookup(dir, b"file").await?;
    assert_eq!(
        (attr.size, attr.links, attr.uid, attr.gid),
        (20_100, 2, 1, 2)
    );
    let mut bytes: Vec<u8> = (0..20_000_u32).map(|index| (index % 251) as u8).collect();
    bytes.splice(4_900..4_907, *b"changed");
    bytes.splice(8_900..8_906, *b"direct");
    bytes.splice(12_188..16_284, [9; 4096]);
    let read = fs.read(attr.ino, 0, 100_000, false).await?;
    assert_eq!(&read[..100], &[0; 100]);
    assert!(read[100..] == bytes[..]);
    assert_eq!(names(fs, dir).await.len(), 2 + 1 + 200 + 1);
    assert_eq!(names(fs, root).await.len(), 2 + 5);
    let link = fs.lookup(root, b"link").await?;
    assert_eq!(fs.readlink(link.ino).await?, b"dir/file");
    assert_eq!(fs.lookup(dir, b"moved").await?.ino, attr.ino);
    assert_eq!(fs.get_xattr(attr.ino, b"user.a").await?, b"value");
    let sparse = fs.lookup(root, b"sparse").await?;
    assert_eq!(sparse.size, (1 << 40) + 3);
    assert_eq!(fs.seek(sparse.ino, 0, Seek::Data).await?, 1 << 40);
    assert_eq!(fs.read(sparse.ino, 1 << 40, 10, false).await?, b"far");
    assert_eq!(fs.read(sparse.ino, 100, 10, false).await?, [0; 10]);
    let farthest = fs.lookup(root, b"farthest").await?;
    assert_eq!(farthest.size, MOST);
    assert_eq!(fs.read(farthest.ino, MOST - 1, 2, false).await?, b"z");
    let cut = fs.lookup(root, b"cut").await?;
    let mut expected = vec![0; 9_000];
    expected[4_500..5_000].fill(3);
    assert!(fs.read(cut.ino, 0, 10_000, false).await? == expected);
    if is_after {
        assert_eq!(fs.lookup(root, b"open").await, Err(FsError::NotFound));
    }
    Ok(())
}

/// All that a device holds.
async fn contents(device: &AnyDevice) -> Vec<u8> {
    let mut bytes = vec![0; device.shape().capacity.get() as usize];
    for (index, piece) in bytes.chunks_mut(1 << 20).enumerate() {
        let at = ByteAddr::new((index as u64) << 20);
        device.read_blocks(at, piece).await.unwrap();
    }
    bytes
}

/// A file system that was not unmounted, on a device that may not be written to.
async fn look_only(device: &AnyDevice, clock: AnyClock) {
    let before = contents(device).await;
    let read_only = MountOptions {
        read_only: true,
        ..MountOptions::default()
    };
    let refused = Fs::mount(device.clone(), AnyClock::Still, read_only.clone()).await;
    let refused = refused.err().unwrap().to_string();
    assert!(refused.contains("needs recovery"), "{refused}");
    let forgetful = MountOptions {
        is_forgotten: true,
        ..read_only
    };
    let over = AnyDevice::new(Overlay::keeping(device.clone()));
    let fs = Fs::mount(over.clone(), clock, forgetful).await.unwrap();
    look(&fs, true).await.unwrap();
    let made = fs.mkdir(&caller(), Ino::ROOT, b"new", 0o755).await;
    assert!(matches!(made, Err(FsError::ReadOnly(_))), "{made:?}");
    fs.unmount().await.unwrap();
    drop(fs);
    let report = bytefs::check(&over, false).await.unwrap();
    assert!(report.is_clean() && report.was_recovered, "{report:?}");
    assert!(contents(device).await == before);
}

async fn all(device: AnyDevice, clocks: [AnyClock; 4], personality: Personality) {
    let [first, second, third, fourth] = clocks;
    let options = FormatOptions::new(personality);
    Fs::format(&device, &options).await.unwrap();
    let small = MountOptions {
        cache: Bytes::from_kib(64),
        metadata_cache: Bytes::from_kib(256),
        ..MountOptions::default()
    };
    let fs = Fs::mount(device, first, small.clone()).await.unwrap();
    let before = fs.usage();
    make(&fs).await.unwrap();
    look(&fs, false).await.unwrap();
    fs.sync().await.unwrap();
    look(&fs, false).await.unwrap();
    // Without an unmount, as after a power cut of a device that loses nothing.
    let device = fs.into_device();
    look_only(&device, fourth).await;
    let fs = Fs::mount(device, second, small.clone()).await.unwrap();
    look(&fs, true).await.unwrap();
    fs.unmount().await.unwrap();
    let device = fs.into_device();
    let report = bytefs::check(&device, false).await.unwrap();
    assert!(report.is_clean() && !report.was_recovered, "{report:?}");
    assert_eq!((report.directories, report.files), (2, 1 + 200 + 1 + 3));
    let fs = Fs::mount(device, third, small).await.unwrap();
    look(&fs, true).await.unwrap();
    let me = caller();
    let dir = fs.lookup(Ino::ROOT, b"dir").await.unwrap().ino;
    for name in names(&fs, dir).await {
        if name != b"." && name != b".." {
            fs.unlink(&me, dir, &name).await.unwrap();
        }
    }
    fs.rmdir(&me, Ino::ROOT, b"dir").await.unwrap();
    for name in [&b"link"[..], b"sparse", b"farthest", b"cut"] {
        fs.unlink(&me, Ino::ROOT, name).await.unwrap();
    }
    fs.sync().await.unwrap();
    // The root directory keeps its bucket.
    let after = fs.usage();
    assert_eq!(after.free_blocks + 1, before.free_blocks);
    assert_eq!(after.free_inodes, before.free_inodes);
    fs.unmount().await.unwrap();
}

fn run<D: port::Drive>(drive: &D, future: impl Future<Output = ()>) {
    block_on(drive, future);
}

#[test]
fn everything_once_in_memory() {
    let idle = Ram::new(Bytes::from_kib(4), Bytes::from_kib(4));
    for personality in [
        Personality::ByteFsDual,
        Personality::Ext4Like,
        Personality::PmfsLike,
        Personality::F2fsLike,
        Personality::NovaLike,
    ] {
        let clocks = [(); 4].map(|()| AnyClock::Still);
        run(&idle, all(ram(Bytes::from_mib(32)), clocks, personality));
    }
}

#[test]
fn everything_once_in_virtual_time() {
    let sets = [
        "nand.channels=4",
        "nand.chips_per_channel=2",
        "nand.dies_per_chip=1",
        "nand.planes_per_die=1",
        "nand.blocks_per_plane=64",
        "nand.pages_per_block=32",
        "ftl.over_provisioning=40%",
        "ssd.log.size=1MiB",
        "ssd.log.tx_log=4KiB",
        "ssd.dram=2MiB",
    ];
    let layers: Vec<Layer> = sets
        .iter()
        .map(|set| Layer::assignment(set).unwrap())
        .collect();
    let config = DeviceConfig::of_preset("bytefs", &layers).unwrap();
    for personality in Personality::ALL {
        let engine = DeviceEngine::in_memory(&config, Pace::None).unwrap();
        let mut machine = Machine::new(engine, 2);
        let device = AnyDevice::new(machine.device());
        let clocks = [(); 4].map(|()| AnyClock::new(machine.clock()));
        machine.spawn("program", all(device, clocks, personality));
        machine.run().unwrap();
    }
}

/// A directory's blocks are few runs, buckets and what is behind them apart, though both grow by
/// turns: whoever looks for its first name reads all extents.
#[test]
fn a_large_directory_has_few_extents() {
    let idle = Ram::new(Bytes::from_kib(4), Bytes::from_kib(4));
    run(&idle, async {
        let ram = ram(Bytes::from_mib(128));
        let options = FormatOptions {
            inodes: Some(20_000),
            ..FormatOptions::new(Personality::ByteFsDual)
        };
        Fs::format(&ram, &options).await.unwrap();
        let fs = Fs::mount(ram, AnyClock::Still, MountOptions::default());
        let fs = fs.await.unwrap();
        let me = caller();
        let dir = fs.mkdir(&me, Ino::ROOT, b"large", 0o755).await.unwrap().ino;
        for number in 0..16_000 {
            // Long ones fill more blocks.
            let name = format!("{number:0250}");
            fs.create(&me, dir, name.as_bytes(), 0o644).await.unwrap();
        }
        let extents = fs.map(dir).await.unwrap();
        let blocks: u32 = extents.iter().map(|extent| extent.count).sum();
        assert!(blocks > 1_000, "{blocks}");
        assert!(
            extents.len() * 30 < blocks as usize,
            "{blocks} in {} runs",
            extents.len()
        );
        fs.unmount().await.unwrap();
    });
}
