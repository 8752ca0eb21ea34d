//! What light syncs have answered for, where a power cut leaves a damaged or a full file system.

use super::drive::{
    CALLER, Drive, Fs, PLAIN, append, create, eager, engine, formatted, put, run, with,
};
use bytefs::layout::{BLOCK, INODE_BYTES, Inode, STATE_BLOCK, Superblock};
use bytefs::{
    BlockNo, Caller, CheckReport, Ino, MountError, MountOptions, Personality, SetAttr, SetXattr,
    Timestamp, check,
};
use dax::{PolicyKind, Settings};
use port::{Acknowledge, Device};
use units::ByteAddr;

const OF: Personality = Personality::Ext4Like;
/// 14 frames.
const SMALL: &str = "64KiB";

fn always() -> MountOptions {
    let kind = PolicyKind::Always;
    with(Some(Settings { kind, ..eager() }))
}

/// The same by hand: no test of recovery depends on the file system under test.
async fn block(device: &Drive, block: BlockNo) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK];
    let at = ByteAddr::new(u64::from(block.0) * BLOCK as u64);
    let read = device.any().read_blocks(at, &mut bytes).await;
    read.expect("a read");
    bytes
}

async fn change(device: &Drive, at: BlockNo, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = block(device, at).await;
    change(&mut bytes);
    let at = ByteAddr::new(u64::from(at.0) * BLOCK as u64);
    let device = device.any();
    let written = device.write_blocks(at, &bytes, Acknowledge::Durable);
    written.await.expect("a write");
}

async fn superblock(device: &Drive) -> Superblock {
    Superblock::decode(&block(device, BlockNo(0)).await).expect("a file system")
}

/// Tears an inode, or makes it whole again.
async fn tear(device: &Drive, ino: Ino) {
    let geometry = superblock(device).await.geometry().expect("one");
    let (place, at) = geometry.inode_place(ino);
    change(device, place, |bytes| bytes[at + INODE_BYTES / 2] ^= 0x11).await;
}

/// A file with a page that has a frame, which has what flash has not.
async fn light(fs: &Fs, name: &[u8], byte: u8) -> Ino {
    let ino = create(fs, name).await;
    assert!(!put(fs, ino, 0, 1).await, "its inode is not durable");
    fs.sync().await.expect("a sync");
    assert!(put(fs, ino, 0, byte).await, "it is a light one");
    ino
}

async fn mounted(device: &Drive, clock: &super::drive::Clock) -> Result<Fs, MountError> {
    Fs::mount(device.any(), clock.clone(), with(None)).await
}

/// The first byte of a page of a file.
async fn seen(fs: &Fs, name: &[u8], page: u64) -> Option<u8> {
    let found = fs.lookup(Ino::ROOT, name).await.expect("it has a name");
    let bytes = fs.read(found.ino, page * 4096, 4096, false).await;
    bytes.expect("a read").first().copied()
}

fn left(report: &CheckReport) -> Vec<&str> {
    let problems = report.problems.iter();
    let left = problems.filter(|problem| problem.repaired.is_none());
    left.map(|problem| &problem.what[..]).collect()
}

#[test]
fn a_repair_of_what_cannot_be_mounted_brings_what_was_synced() {
    let (ran, ()) = run(engine(OF, SMALL), async |device, clock| {
        let fs = formatted(&device, &clock, always(), OF).await;
        light(&fs, b"log", 7).await;
    });
    run(ran.power_cycled(|| false), async |device, clock| {
        change(&device, STATE_BLOCK, |bytes| bytes[5] ^= 0x11).await;
        let refused = mounted(&device, &clock).await.err().expect("it is damaged");
        assert!(refused.to_string().contains("without a name"), "{refused}");
        let report = check(&device.any(), true).await.expect("a device");
        assert_eq!(left(&report), [""; 0]);
        let fs = mounted(&device, &clock).await.expect("it is mended");
        assert_eq!(seen(&fs, b"log", 0).await, Some(7));
        fs.unmount().await.expect("an unmount");
        let again = check(&device.any(), false).await.expect("a device");
        assert!(again.is_clean(), "{again:?}");
    });
}

/// As an `fsck` has left them that did not look at the window.
#[test]
fn frames_of_before_a_clean_unmount_do_not_come_back() {
    let (ran, ()) = run(engine(OF, SMALL), async |device, clock| {
        let fs = formatted(&device, &clock, always(), OF).await;
        let log = light(&fs, b"log", 2).await;
        fs.release(log).await.expect("it was open");
        // Its journal is of no use behind that.
        fs.unmount().await.expect("an unmount");
        let fs = Fs::mount(device.any(), clock.clone(), always()).await;
        let fs = fs.expect("mounts");
        for byte in [3, 7] {
            put(&fs, log, 0, byte).await;
        }
        assert_eq!(fs.dax_report().expect("it is on").frames.0, 1);
    });
    let (ran, ()) = run(ran.power_cycled(|| false), async |device, clock| {
        let mut superblock = superblock(&device).await;
        superblock.is_clean = true;
        change(&device, BlockNo(0), |bytes| {
            *bytes = superblock.encode().to_vec()
        })
        .await;
        let fs = mounted(&device, &clock).await.expect("mounts");
        let log = fs.lookup(Ino::ROOT, b"log").await.expect("it is there").ino;
        append(&fs, log, 0, &[9; 4096]).await;
        fs.fsync(log, false).await.expect("a sync");
    });
    run(ran.power_cycled(|| false), async |device, clock| {
        let fs = mounted(&device, &clock).await.expect("mounts");
        assert_eq!(seen(&fs, b"log", 0).await, Some(9));
    });
}

#[test]
fn there_is_room_for_what_was_synced_when_a_removal_is_undone() {
    remove_and_cut(OF, async |fs, old| {
        fs.release(old).await.expect("it was open");
        fs.unlink(&CALLER, Ino::ROOT, b"old").await.expect("a name");
    });
}

#[test]
fn there_is_room_for_what_was_synced_when_the_removal_of_an_open_file_is_undone() {
    remove_and_cut(Personality::ByteFs, async |fs, old| {
        fs.unlink(&CALLER, Ino::ROOT, b"old").await.expect("a name");
        fs.release(old).await.expect("it was open");
    });
}

/// Room that a removal gives back is not another file's before the removal is durable: behind a
/// power cut both files are there.
fn remove_and_cut(of: Personality, remove: impl AsyncFnOnce(&super::drive::Fs, Ino) + 'static) {
    const PAGES: u64 = 90;
    let (ran, ()) = run(engine(of, "1MiB"), async move |device, clock| {
        let fs = formatted(&device, &clock, always(), of).await;
        let (old, new) = (create(&fs, b"old").await, light(&fs, b"new", 3).await);
        // The first sync of a file takes the usual way. This one has no block on flash.
        fs.fsync(old, true).await.expect("a sync");
        let filler = create(&fs, b"filler").await;
        let mut at = 0;
        while fs.usage().free_blocks > PAGES * 4 / 3 {
            append(&fs, filler, at, &[1; 4096]).await;
            at += 4096;
        }
        fs.sync().await.expect("a sync");
        append(&fs, old, 0, &vec![5; PAGES as usize * 4096]).await;
        fs.fsync(old, true).await.expect("a sync");
        let framed = fs.dax_report().expect("it is on").frames.0;
        assert_eq!(framed, PAGES + 1, "the sync is a light one");
        let free = fs.usage().free_blocks;
        remove(&fs, old).await;
        assert!(
            fs.usage().free_blocks > free + PAGES,
            "nobody sees that it is kept"
        );
        append(&fs, new, 4096, &vec![6; PAGES as usize * 4096]).await;
        fs.fsync(new, true).await.expect("a sync");
    });
    run(ran.power_cycled(|| false), async |device, clock| {
        let fs = mounted(&device, &clock).await.expect("mounts");
        assert_eq!(fs.failed(), None);
        assert_eq!(seen(&fs, b"new", PAGES).await, Some(6));
    });
}

#[test]
fn a_damaged_file_keeps_its_frames_and_others_get_theirs() {
    // No journal makes its inode whole again.
    let in_place = Personality::ByteFs;
    let (ran, ()) = run(engine(in_place, SMALL), async move |device, clock| {
        let fs = formatted(&device, &clock, always(), in_place).await;
        light(&fs, b"bad", 6).await;
        light(&fs, b"good", 7).await;
    });
    let bad = |device: Drive| async move {
        // Behind the root and `lost+found`.
        tear(&device, Ino(3)).await;
    };
    // It comes back whole: nothing is lost.
    let (mended, ()) = run(ran.power_cycled(|| false), async move |device, clock| {
        bad(device.clone()).await;
        let fs = mounted(&device, &clock)
            .await
            .expect("the others are whole");
        assert_eq!(seen(&fs, b"good", 0).await, Some(7));
        let why = fs.failed().expect("it may not be changed");
        assert!(why.contains("inode 3 is damaged"), "{why}");
        let log = fs.lookup(Ino::ROOT, b"good").await.expect("a name").ino;
        assert!(fs.write(&CALLER, log, 0, &[1], PLAIN).await.is_err());
        bad(device).await;
    });
    run(mended.power_cycled(|| false), async |device, clock| {
        let fs = mounted(&device, &clock).await.expect("mounts");
        assert_eq!(fs.failed(), None);
        assert_eq!(seen(&fs, b"bad", 0).await, Some(6));
        assert_eq!(seen(&fs, b"good", 0).await, Some(7));
        fs.unmount().await.expect("an unmount");
    });
    // It is given up: the others are as they were synced.
    run(ran.power_cycled(|| false), async move |device, clock| {
        bad(device.clone()).await;
        let told = check(&device.any(), false).await.expect("a device");
        let told = format!("{:?}", told.problems);
        assert!(told.contains("persistent memory"), "{told}");
        let report = check(&device.any(), true).await.expect("a device");
        assert_eq!(left(&report), [""; 0]);
        let fs = mounted(&device, &clock).await.expect("mounts");
        assert_eq!(fs.failed(), None);
        assert_eq!(seen(&fs, b"good", 0).await, Some(7));
        fs.lookup(Ino::ROOT, b"bad").await.expect_err("it is none");
    });
}

/// Times that a program has set, and that a sync has made durable, stay; a write behind that has
/// its own.
#[test]
fn a_frame_does_not_undo_times_that_were_set() {
    let at = |now: u64| Caller {
        now: Timestamp(now as i64),
        ..CALLER
    };
    let write = async move |fs: &Fs, ino: Ino, page: u64, now: u64| {
        let caller = at(now);
        let written = fs.write(&caller, ino, page * 4096, &[7; 4096], PLAIN);
        assert_eq!(written.await, Ok(4096));
        fs.fsync(ino, true).await.expect("a sync");
    };
    for (is_written, wanted) in [(false, 7), (true, 3000)] {
        let (ran, ()) = run(engine(OF, SMALL), async move |device, clock| {
            let fs = formatted(&device, &clock, always(), OF).await;
            let log = light(&fs, b"log", 7).await;
            write(&fs, log, 1, 1000).await;
            let set = SetAttr {
                mtime: Some(Timestamp(7)),
                ..SetAttr::default()
            };
            fs.setattr(&at(2000), log, set).await.expect("times");
            fs.fsync(log, false).await.expect("a sync");
            if is_written {
                write(&fs, log, 2, 3000).await;
            }
        });
        run(ran.power_cycled(|| false), async move |device, clock| {
            let fs = mounted(&device, &clock).await.expect("mounts");
            let found = fs.lookup(Ino::ROOT, b"log").await.expect("a name");
            assert_eq!(found.mtime, Timestamp(wanted), "{found:?}");
        });
    }
}

/// Attributes say what a program asks for, and a sync needs none of them.
#[test]
fn a_file_whose_attributes_are_damaged_is_synced() {
    let (ran, log) = run(engine(OF, SMALL), async |device, clock| {
        let fs = formatted(&device, &clock, with(None), OF).await;
        let log = create(&fs, b"log").await;
        let set = fs.set_xattr(&CALLER, log, b"user.x", b"y", SetXattr::Any);
        set.await.expect("it takes it");
        append(&fs, log, 0, &[1; 4096]).await;
        fs.unmount().await.expect("an unmount");
        log
    });
    run(ran.power_cycled(|| true), async move |device, clock| {
        let (place, at) = superblock(&device)
            .await
            .geometry()
            .expect("one")
            .inode_place(log);
        let bytes = block(&device, place).await;
        let inode = Inode::decode(&bytes[at..at + INODE_BYTES]).expect("it is whole");
        let attributes = inode.expect("it is one").xattrs;
        change(&device, attributes, |bytes| bytes[9] ^= 0x11).await;
        let fs = Fs::mount(device.any(), clock, with(Some(eager()))).await;
        let fs = fs.expect("mounts");
        fs.open(log).await.expect("it is there");
        for byte in 2..4 {
            assert!(!put(&fs, log, 0, byte).await, "it is not upgraded");
        }
        assert!(put(&fs, log, 0, 4).await, "it is upgraded as any other one");
        assert_eq!(fs.failed(), None);
    });
}
