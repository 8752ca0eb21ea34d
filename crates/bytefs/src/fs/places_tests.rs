//! Segments that are cleaned between two syncs, and segments that run short.

use super::*;
use crate::layout::Personality;
use crate::{Caller, FormatOptions, MountOptions, SetAttr, Timestamp, WriteOptions, check};
use device::Ram;
use port::{AnyClock, AnyDevice, block_on};
use units::{ByteAddr, Bytes, TxId};

const CALLER: Caller = Caller {
    uid: 0,
    gid: 0,
    core: 0,
    now: Timestamp(5),
};
const SIZE: Bytes = Bytes::from_mib(16);

/// The file system that `check` mounts too: each other is compiled once more.
type Fs = FileSystem<AnyDevice, AnyClock>;

fn new_device() -> AnyDevice {
    AnyDevice::new(Ram::new(SIZE, Bytes::from_kib(4)))
}

fn run<T>(future: impl Future<Output = T>) -> T {
    block_on(&Ram::new(Bytes::from_kib(4), Bytes::from_kib(4)), future)
}

async fn made() -> Fs {
    let device = new_device();
    let mut options = FormatOptions::new(Personality::F2fsLike);
    options.inodes = Some(100);
    Fs::format(&device, &options).await.unwrap();
    mounted(device).await
}

async fn mounted(device: AnyDevice) -> Fs {
    let options = MountOptions {
        cache: Bytes::from_kib(256),
        ..MountOptions::default()
    };
    Fs::mount(device, AnyClock::Still, options).await.unwrap()
}

/// The device as it is now: what a power cut leaves that loses nothing.
async fn left(fs: &Fs) -> AnyDevice {
    let mut bytes = vec![0; SIZE.get() as usize];
    fs.device()
        .read(ByteAddr::new(0), &mut bytes)
        .await
        .unwrap();
    let device = new_device();
    device
        .write(ByteAddr::new(0), &bytes, TxId::NONE)
        .await
        .unwrap();
    device
}

async fn write(fs: &Fs, ino: Ino, at: u64, bytes: &[u8]) -> Result<usize, FsError> {
    fs.write(&CALLER, ino, at, bytes, WriteOptions::default())
        .await
}

async fn create(fs: &Fs, name: &str, bytes: &[u8]) -> Ino {
    let made = fs.create(&CALLER, Ino::ROOT, name.as_bytes(), 0o600).await;
    let ino = made.unwrap().ino;
    write(fs, ino, 0, bytes).await.unwrap();
    fs.release(ino).await.unwrap();
    ino
}

async fn chmod(fs: &Fs, ino: Ino, permissions: u16) {
    let set = SetAttr {
        permissions: Some(permissions),
        ..SetAttr::default()
    };
    fs.setattr(&CALLER, ino, set).await.unwrap();
}

async fn permissions(fs: &Fs, name: &str) -> u16 {
    let found = fs.lookup(Ino::ROOT, name.as_bytes()).await;
    found.unwrap().permissions
}

fn of_segments<T>(fs: &Fs, look: impl FnOnce(&Segments) -> T) -> T {
    look(fs.state().segments.as_ref().unwrap())
}

fn version(fs: &Fs) -> u64 {
    of_segments(fs, |segments| segments.version)
}

/// Unmounted and checked.
async fn sound(fs: Fs) {
    fs.unmount().await.unwrap();
    let report = check(&fs.into_device(), false).await.unwrap();
    assert!(report.is_clean() && !report.was_recovered, "{report:?}");
}

/// The block of the root's first names.
async fn block_of_names(fs: &Fs) -> BlockNo {
    let found = fs.run(|tx| {
        let inode = tx.inode(Ino::ROOT)?;
        let extents = tx.extents(Ino::ROOT, &inode)?;
        Ok(extents.find(0).map(|extent| extent.block_of(0)))
    });
    found.await.unwrap().unwrap()
}

/// A first sync says that there is a name more; then the block of names is moved by cleaning, and
/// a second sync's record says that. Whichever of them the power cut leaves, the name is there.
#[test]
fn what_is_cleaned_between_two_syncs_is_what_the_first_one_has_said() {
    run(async {
        let fs = made().await;
        for number in 0..8 {
            create(&fs, &format!("file {number}"), &[number; 9000]).await;
        }
        fs.unmount().await.unwrap();
        // Segments of an earlier mount are closed, and may be cleaned.
        let fs = mounted(fs.into_device()).await;
        let first = fs.lookup(Ino::ROOT, b"file 0").await.unwrap().ino;
        let checkpoint = version(&fs);
        create(&fs, "later", &[99; 5000]).await;
        fs.fsync(first, false).await.unwrap();
        let names = block_of_names(&fs).await;
        let place = |fs: &Fs| of_segments(fs, |segments| segments.place(names)).unwrap();
        let old = place(&fs);
        while place(&fs) == old {
            assert!(fs.clean(Policy::Greedy).await.unwrap(), "nothing is moved");
        }
        assert!(of_segments(&fs, Segments::has_moved));
        let before = left(&fs).await;
        chmod(&fs, first, 0o640).await;
        fs.fsync(first, false).await.unwrap();
        assert!(!of_segments(&fs, Segments::has_moved), "a record says it");
        assert_eq!(version(&fs), checkpoint, "it is no checkpoint");
        let behind = left(&fs).await;
        // The record was written and the block was not: the flush was never answered.
        let torn = left(&fs).await;
        let at = address(BlockNo(place(&fs)));
        torn.write(at, &[0; BLOCK], TxId::NONE).await.unwrap();
        for (device, wanted) in [(before, 0o600), (behind, 0o640), (torn, 0o600)] {
            let fs = mounted(device).await;
            assert_eq!(permissions(&fs, "file 0").await, wanted);
            assert_eq!(permissions(&fs, "later").await, 0o600);
            for number in 0..8 {
                let name = format!("file {number}");
                let ino = fs.lookup(Ino::ROOT, name.as_bytes()).await.unwrap().ino;
                let read = fs.read(ino, 0, 1 << 20, false).await.unwrap();
                assert!(read == [number; 9000], "{name}");
            }
            sound(fs).await;
        }
    });
}

/// A file that fills the file system, and how many pages it has.
async fn filled(fs: &Fs) -> (Ino, u64) {
    let ino = create(fs, "full", &[]).await;
    let mut pages = 0;
    let error = loop {
        match write(fs, ino, pages * BLOCK as u64, &[1; BLOCK]).await {
            Ok(_) => pages += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error, FsError::NoSpace);
    fs.sync().await.unwrap();
    (ino, pages)
}

fn is_short(segments: &Segments) -> bool {
    segments.free_segments() < segments.layout.kept_free() || segments.wants_balance()
}

/// Records take blocks that only a checkpoint gives back: where segments are short, a sync is one,
/// or has some cleaned, which ends with one.
#[test]
fn where_segments_are_short_a_sync_is_a_checkpoint() {
    run(async {
        let fs = made().await;
        let (ino, _) = filled(&fs).await;
        let mut checkpoints = 0;
        for round in 0..1200 {
            let (before, short) = (version(&fs), of_segments(&fs, is_short));
            let wanted = 0o400 + round % 0o400;
            chmod(&fs, ino, wanted).await;
            fs.fsync(ino, false).await.unwrap();
            let is_checkpoint = version(&fs) != before;
            assert_eq!(is_checkpoint, short, "round {round}");
            checkpoints += u64::from(short);
            if short || round % 200 == 0 {
                let fs = mounted(left(&fs).await).await;
                assert_eq!(permissions(&fs, "full").await, wanted, "round {round}");
                sound(fs).await;
            }
        }
        assert!(checkpoints > 1, "{checkpoints}");
        sound(fs).await;
    });
}

/// Takes all segments that contents may have, as writes that are under way do.
fn hog(segments: &mut Segments, taken: &mut Vec<Range<u32>>) {
    while segments.room() > 0 {
        taken.extend(segments.take(Log::ColdData, segments.layout.blocks));
    }
}

/// Where no segment is free and none can be cleaned, contents are written where they are.
#[test]
fn where_segments_are_short_contents_are_written_where_they_are() {
    run(async {
        const PAGES: u64 = 20;
        let fs = made().await;
        let (ino, pages) = filled(&fs).await;
        let (mut in_place, mut elsewhere) = (0, 0);
        let mut wanted = vec![1; pages as usize];
        let mut taken = Vec::new();
        let places = async || {
            let mapped = fs.map(ino).await.unwrap();
            let each = |extent: &crate::MappedExtent| extent.block.0..extent.block.0 + extent.count;
            mapped.iter().flat_map(each).collect::<Vec<u32>>()
        };
        for round in 0..30_u8 {
            // At first as many segments are free as a full file system leaves.
            if round >= 10 {
                hog(fs.state().segments.as_mut().unwrap(), &mut taken);
            }
            let first = u64::from(round) * 37 % (pages - PAGES);
            let before = places().await;
            let byte = 2 + round;
            let bytes = vec![byte; PAGES as usize * BLOCK];
            write(&fs, ino, first * BLOCK as u64, &bytes).await.unwrap();
            fs.sync().await.unwrap();
            wanted[first as usize..][..PAGES as usize].fill(byte);
            let after = places().await;
            assert_eq!(before.len(), after.len());
            match before == after {
                true => in_place += 1,
                false => elsewhere += 1,
            }
        }
        assert!(in_place > 10 && elsewhere >= 10, "{in_place} {elsewhere}");
        let settle = |places: Range<u32>| {
            fs.state().segments.as_mut().unwrap().settle(places);
        };
        taken.into_iter().for_each(settle);
        let left = mounted(left(&fs).await).await;
        let read = left.read(ino, 0, 1 << 30, false).await.unwrap();
        assert_eq!(read.len(), wanted.len() * BLOCK);
        for (page, byte) in read.chunks(BLOCK).zip(wanted) {
            assert!(page.iter().all(|read| *read == byte));
        }
        sound(left).await;
        sound(fs).await;
    });
}

/// What makes a file longer goes elsewhere, where the record has a sum of it: the old page stays as
/// it was. Where no segment is free it is flushed before the record that says so.
#[test]
fn bytes_behind_the_known_length_are_not_overwritten_in_the_records_flush() {
    run(async {
        let fs = made().await;
        let tail = create(&fs, "tail", &[7; 5000]).await;
        filled(&fs).await;
        let place = async || fs.map(tail).await.unwrap().last().map(|last| last.block);
        let mut taken = Vec::new();
        // At first as many segments are free as a full file system leaves.
        for (length, flushes, stays) in [(5000, 0, false), (5600, 1, true)] {
            for _ in 0..100 {
                // Behind this no record has a sum of the page any more.
                fs.sync().await.unwrap();
                if !stays {
                    break;
                }
                hog(fs.state().segments.as_mut().unwrap(), &mut taken);
                if !fs.make_room(1).await.unwrap() {
                    break;
                }
            }
            let (before, counted) = (place().await, fs.stats().flushes);
            write(&fs, tail, length, &[8; 600]).await.unwrap();
            fs.write_back_synced(tail, true).await.unwrap();
            assert_eq!(place().await == before, stays, "{length}");
            assert_eq!(fs.stats().flushes - counted, flushes, "{length}");
            fs.fsync(tail, true).await.unwrap();
        }
        let settle = |places: Range<u32>| {
            fs.state().segments.as_mut().unwrap().settle(places);
        };
        taken.into_iter().for_each(settle);
        let read = fs.read(tail, 0, 1 << 20, false).await.unwrap();
        assert!(read[..5000] == [7; 5000] && read[5000..] == [8; 1200]);
        sound(fs).await;
    });
}
