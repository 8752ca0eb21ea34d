//! What Ext4 asks of a device and the Ext4-like asks too, as `make e2e` has counted it.

use crate::common::{AnyClock, Fs, ram};
use bytefs::{
    Caller, FormatOptions, FsStats, Ino, MountOptions, Personality, Timestamp, WriteOptions,
};
use device::Ram;
use port::block_on;
use units::Bytes;

const CALLER: Caller = Caller {
    uid: 0,
    gid: 0,
    core: 0,
    now: Timestamp(5),
};
const PLAIN: WriteOptions = WriteOptions {
    direct: false,
    sync: false,
    kill_privileges: false,
};
const PAGE: u64 = 4096;

fn run<T>(test: impl AsyncFnOnce(Fs) -> T) -> T {
    let ram = ram(Bytes::from_mib(16));
    let drive = Ram::new(Bytes::from_kib(4), Bytes::from_kib(4));
    block_on(&drive, async {
        let options = FormatOptions::new(Personality::Ext4Like);
        Fs::format(&ram, &options).await.unwrap();
        let fs = Fs::mount(ram, AnyClock::Still, MountOptions::default());
        test(fs.await.unwrap()).await
    })
}

async fn file(fs: &Fs) -> Ino {
    let made = fs.create(&CALLER, Ino::ROOT, b"file", 0o600).await;
    let ino = made.unwrap().ino;
    fs.write(&CALLER, ino, 0, &[1; PAGE as usize], PLAIN)
        .await
        .unwrap();
    ino
}

fn counted(fs: &Fs, before: &FsStats) -> (u64, u64, u64) {
    let now = fs.stats();
    (
        now.flushes - before.flushes,
        (now.journal.blocks_written - before.journal.blocks_written) / PAGE,
        (now.metadata.blocks_written - before.metadata.blocks_written) / PAGE,
    )
}

/// One flush for the record and the data, and one for the block that makes it count.
#[test]
fn an_fsync_with_a_commit_asks_for_two_flushes_and_an_fdatasync_without_one_for_one() {
    run(async |fs| {
        let ino = file(&fs).await;
        let before = fs.stats();
        fs.fsync(ino, false).await.unwrap();
        let (flushes, journal, metadata) = counted(&fs, &before);
        assert_eq!((flushes, metadata), (2, 0));
        assert!(journal >= 4, "{journal}");
        fs.write(&CALLER, ino, 0, &[2; PAGE as usize], PLAIN)
            .await
            .unwrap();
        let before = fs.stats();
        fs.fsync(ino, true).await.unwrap();
        assert_eq!(counted(&fs, &before), (1, 0, 0));
    });
}

#[test]
fn a_sync_of_everything_brings_metadata_to_its_place_once() {
    run(async |fs| {
        let ino = file(&fs).await;
        fs.fsync(ino, false).await.unwrap();
        let before = fs.stats();
        fs.sync().await.unwrap();
        let (_, journal, metadata) = counted(&fs, &before);
        assert_eq!(journal, 0, "the fsync has committed all");
        assert!(metadata >= 3, "{metadata}");
        let before = fs.stats();
        fs.sync().await.unwrap();
        assert_eq!(counted(&fs, &before).2, 0);
    });
}

#[test]
fn a_new_directory_has_a_block_in_the_journal_and_gives_it_back() {
    run(async |fs| {
        fs.sync().await.unwrap();
        let free = fs.usage().free_blocks;
        let before = fs.stats();
        for name in 0..8_u8 {
            let name = [b'a' + name];
            fs.mkdir(&CALLER, Ino::ROOT, &name, 0o700).await.unwrap();
        }
        fs.sync().await.unwrap();
        let (_, journal, metadata) = counted(&fs, &before);
        assert!(journal >= 8 + 2 && metadata >= 8, "{journal} {metadata}");
        assert!(fs.usage().free_blocks + 8 <= free);
        for name in 0..8_u8 {
            let name = [b'a' + name];
            fs.rmdir(&CALLER, Ino::ROOT, &name).await.unwrap();
        }
        fs.sync().await.unwrap();
        // The root keeps its first block.
        assert!(fs.usage().free_blocks + 1 >= free);
    });
}

/// Ext4 gives files of a directory neighbouring inodes and blocks, whoever makes them: a commit of
/// many processors' files has no more blocks than one of a single processor's.
#[test]
fn files_of_several_processors_are_neighbours() {
    let journaled = |cores: u32| {
        run(async |fs| {
            for nth in 0..8 {
                let caller = Caller {
                    core: nth % cores,
                    ..CALLER
                };
                let name = format!("file{nth}");
                let made = fs.create(&caller, Ino::ROOT, name.as_bytes(), 0o600).await;
                let ino = made.unwrap().ino;
                fs.write(&caller, ino, 0, &[1; PAGE as usize], PLAIN)
                    .await
                    .unwrap();
            }
            let before = fs.stats();
            fs.sync().await.unwrap();
            counted(&fs, &before).1
        })
    };
    assert_eq!(journaled(4), journaled(1));
}

/// Records of a mount go on where those of the one before have ended, for recovery looks there.
#[test]
fn what_is_synced_behind_a_second_mount_is_recovered() {
    run(async |fs| {
        file(&fs).await;
        fs.unmount().await.unwrap();
        let mount = |device| Fs::mount(device, AnyClock::Still, MountOptions::default());
        let fs = mount(fs.into_device()).await.unwrap();
        let made = fs.create(&CALLER, Ino::ROOT, b"second", 0o600).await;
        fs.fsync(made.unwrap().ino, false).await.unwrap();
        // As behind a power cut.
        let fs = mount(fs.into_device()).await.unwrap();
        fs.lookup(Ino::ROOT, b"second").await.unwrap();
    });
}
