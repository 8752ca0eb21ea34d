//! Logs of inodes: operations are durable when they are answered, at a known price, and logs that
//! are full of what counts no more are written anew or emptied.

use crate::common::{AnyClock, Fs, ram};
use bytefs::{
    Caller, FormatOptions, FsError, FsStats, Ino, MountError, MountOptions, Personality, Rename,
    SetAttr, SetXattr, Timestamp, WriteOptions, check,
};
use device::Ram;
use port::{AnyDevice, Device, block_on};
use std::collections::BTreeMap;
use units::{ByteAddr, Bytes, Stream, TxId};

const CALLER: Caller = Caller {
    uid: 0,
    gid: 0,
    core: 0,
    now: Timestamp(5),
};
const PAGE: usize = 4096;
const PLAIN: WriteOptions = WriteOptions {
    direct: false,
    sync: false,
    kill_privileges: false,
};
/// Of few pages: 16 KiB for what lies before them, and 40 pages.
const SMALL: Bytes = Bytes::from_kib(176);

fn run<T>(future: impl Future<Output = T>) -> T {
    block_on(&Ram::new(Bytes::from_kib(4), Bytes::from_kib(4)), future)
}

async fn made(journal: Option<Bytes>) -> Fs {
    let ram = ram(Bytes::from_mib(16));
    let mut options = FormatOptions::new(Personality::NovaLike);
    options.inodes = Some(250);
    options.journal = journal;
    Fs::format(&ram, &options).await.unwrap();
    mounted(ram).await
}

async fn mounted(ram: AnyDevice) -> Fs {
    let options = MountOptions {
        cache: Bytes::from_kib(256),
        ..MountOptions::default()
    };
    Fs::mount(ram, AnyClock::Still, options).await.unwrap()
}

/// As behind a power cut of a device that loses nothing.
async fn cut(fs: Fs) -> Fs {
    mounted(fs.into_device()).await
}

async fn sound(fs: Fs) -> AnyDevice {
    fs.unmount().await.unwrap();
    let ram = fs.into_device();
    let report = check(&ram, false).await.unwrap();
    assert!(report.is_clean() && !report.was_recovered, "{report:?}");
    ram
}

async fn create(fs: &Fs, name: &str) -> Ino {
    let made = fs.create(&CALLER, Ino::ROOT, name.as_bytes(), 0o600).await;
    let ino = made.unwrap().ino;
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

#[test]
fn every_operation_is_durable_when_it_is_answered() {
    run(async {
        let fs = made(None).await;
        let ino = create(&fs, "file").await;
        let fs = cut(fs).await;
        assert_eq!(fs.lookup(Ino::ROOT, b"file").await.unwrap().ino, ino);
        fs.write(&CALLER, ino, 100, &[7; 9000], PLAIN)
            .await
            .unwrap();
        let fs = cut(fs).await;
        assert_eq!(fs.read(ino, 100, 9000, false).await.unwrap(), [7; 9000]);
        fs.write(&CALLER, ino, 4000, &[8; 200], PLAIN)
            .await
            .unwrap();
        let fs = cut(fs).await;
        let read = fs.read(ino, 3999, 202, false).await.unwrap();
        assert_eq!((read[0], read[1], read[200], read[201]), (7, 8, 8, 7));
        let (dir, how) = (Ino::ROOT, Rename::Replace);
        fs.rename(&CALLER, dir, b"file", dir, b"other", how)
            .await
            .unwrap();
        let fs = cut(fs).await;
        assert_eq!(fs.lookup(dir, b"file").await, Err(FsError::NotFound));
        chmod(&fs, ino, 0o640).await;
        fs.set_xattr(&CALLER, ino, b"user.a", b"yes", SetXattr::Any)
            .await
            .unwrap();
        let fs = cut(fs).await;
        assert_eq!(fs.lookup(dir, b"other").await.unwrap().permissions, 0o640);
        assert_eq!(fs.get_xattr(ino, b"user.a").await.unwrap(), b"yes");
        fs.remove_xattr(&CALLER, ino, b"user.a").await.unwrap();
        fs.unlink(&CALLER, dir, b"other").await.unwrap();
        let fs = cut(fs).await;
        assert_eq!(fs.lookup(dir, b"other").await, Err(FsError::NotFound));
        create(&fs, "again").await;
        let fs = cut(fs).await;
        let attr = fs.lookup(dir, b"again").await.unwrap();
        assert_eq!((attr.size, attr.blocks, attr.permissions), (0, 0, 0o600));
        sound(fs).await;
    });
}

/// Persists, and bytes that were written of metadata, tails' record and contents.
fn moved(stats: &FsStats) -> [u64; 4] {
    let bytes = [stats.metadata, stats.journal, stats.data].map(|traffic| {
        assert_eq!(stats.data.blocks_written, 0, "contents go by bytes");
        traffic.bytes_written
    });
    [stats.flushes, bytes[0], bytes[1], bytes[2]]
}

#[test]
fn an_operation_on_one_file_moves_one_tail_and_one_on_several_has_a_record() {
    run(async {
        let fs = made(None).await;
        let ino = create(&fs, "file").await;
        fs.write(&CALLER, ino, 0, &[7; 2 * PAGE], PLAIN)
            .await
            .unwrap();
        let change = |before: [u64; 4], fs: &Fs| {
            let after = moved(&fs.stats());
            [0, 1, 2, 3].map(|at| after[at] - before[at])
        };
        let before = moved(&fs.stats());
        chmod(&fs, ino, 0o640).await;
        let [persists, metadata, record, data] = change(before, &fs);
        assert_eq!((persists, record, data), (2, 0, 0));
        assert!(metadata <= 3 * 64, "{metadata}");
        // Behind it nothing is left to be synced.
        let before = moved(&fs.stats());
        fs.fsync(ino, false).await.unwrap();
        fs.sync().await.unwrap();
        assert_eq!(change(before, &fs), [0; 4]);
        // A page goes elsewhere, whole, however little of it is written.
        let old = fs.map(ino).await.unwrap();
        let before = moved(&fs.stats());
        fs.write(&CALLER, ino, 10, &[8; 100], PLAIN).await.unwrap();
        let [persists, metadata, record, data] = change(before, &fs);
        assert_eq!((persists, record, data), (2, 0, PAGE as u64));
        assert!(metadata <= 5 * 64, "{metadata}");
        let new = fs.map(ino).await.unwrap();
        assert_ne!(new[0].block, old[0].block);
        assert_eq!(new[1].block.0, old[0].block.0 + 1);
        // A name and a file: two logs.
        let before = moved(&fs.stats());
        for name in ["one", "two", "three", "four"] {
            create(&fs, name).await;
        }
        let [persists, metadata, record, data] = change(before, &fs);
        assert_eq!((persists % 3, data), (0, 0));
        assert!(record > 0 && metadata < 4 * 12 * 64, "{record} {metadata}");
        sound(fs).await;
    });
}

/// The logs have few pages and every file takes one: they are emptied, and those that say the same
/// again and again are written anew. What was done is there whenever the power is cut.
#[test]
fn logs_are_cleaned_and_emptied_and_say_what_was_done() {
    run(async {
        let mut fs = made(Some(SMALL)).await;
        let mut random = Stream::new(4, "logs");
        let mut wanted = vec![None; 100];
        let (mut cleaned, mut emptied) = (0, 0);
        for round in 0..6000_u32 {
            let number = random.below(100) as usize;
            let name = format!("file {number}");
            let name = name.as_bytes();
            match (random.below(8), wanted[number]) {
                (_, None) => {
                    let ino = create(&fs, &format!("file {number}")).await;
                    wanted[number] = Some((ino, 0, 0));
                }
                (0, Some(_)) => {
                    fs.unlink(&CALLER, Ino::ROOT, name).await.unwrap();
                    wanted[number] = None;
                }
                (1, Some((ino, _, value))) => {
                    let byte = round as u8;
                    fs.write(&CALLER, ino, 0, &[byte; 3000], PLAIN)
                        .await
                        .unwrap();
                    wanted[number] = Some((ino, byte, value));
                }
                (_, Some(_)) => {
                    // One is changed more than others.
                    let Some((ino, byte, _)) = wanted[7] else {
                        continue;
                    };
                    let value = round as u8;
                    let bytes = [value; 1000];
                    fs.set_xattr(&CALLER, ino, b"user.a", &bytes, SetXattr::Any)
                        .await
                        .unwrap();
                    wanted[7] = Some((ino, byte, value));
                }
            }
            if round % 700 == 699 {
                cleaned += fs.stats().cleaned_logs;
                emptied += fs.stats().emptied_logs;
                fs = cut(fs).await;
                for (number, wanted) in wanted.iter().enumerate() {
                    let name = format!("file {number}");
                    let found = fs.lookup(Ino::ROOT, name.as_bytes()).await;
                    let Some((ino, byte, value)) = *wanted else {
                        assert_eq!(found, Err(FsError::NotFound), "{name}");
                        continue;
                    };
                    let found = found.unwrap();
                    assert_eq!(found.ino, ino, "{name}");
                    let read = fs.read(ino, 0, PAGE, false).await.unwrap();
                    let size = if byte == 0 { found.size as usize } else { 3000 };
                    assert_eq!(read.len(), size, "{name}");
                    assert!(read.iter().all(|read| *read == byte), "{name}");
                    if value != 0 {
                        let read = fs.get_xattr(ino, b"user.a").await.unwrap();
                        assert_eq!(read, [value; 1000]);
                    }
                }
            }
        }
        assert!(cleaned > 20 && emptied > 20, "{cleaned} {emptied}");
        assert_eq!(fs.failed(), None);
        sound(fs).await;
    });
}

/// A file as programs see it: number, permissions, contents, attribute.
type Seen = (Ino, u16, Vec<u8>, Option<Vec<u8>>);

/// Everything in the root, by name.
async fn everything(fs: &Fs) -> BTreeMap<Vec<u8>, Seen> {
    let mut all = BTreeMap::new();
    let entries = fs.readdir(Ino::ROOT, 0, 1000).await.unwrap();
    for entry in entries.iter().filter(|entry| !entry.name.starts_with(b".")) {
        let attr = fs.lookup(Ino::ROOT, &entry.name).await.unwrap();
        let contents = fs.read(attr.ino, 0, 1 << 20, false).await.unwrap();
        assert_eq!(contents.len() as u64, attr.size);
        let xattr = fs.get_xattr(attr.ino, b"user.a").await.ok();
        let seen = (attr.ino, attr.permissions, contents, xattr);
        all.insert(entry.name.clone(), seen);
    }
    all
}

/// Behind a mount everything is as it was; gives what is mounted.
async fn as_it_was(fs: Fs, what: &str) -> Fs {
    let before = everything(&fs).await;
    let fs = cut(fs).await;
    assert!(everything(&fs).await == before, "{what}");
    fs
}

/// Directly behind the operation for which a log was written anew, and behind one more.
#[test]
fn a_log_that_was_cleaned_is_behind_a_mount_as_it_was() {
    run(async {
        let mut fs = made(None).await;
        for number in 0..4 {
            let ino = create(&fs, &format!("file {number}")).await;
            fs.write(&CALLER, ino, 0, &[number; 9000], PLAIN)
                .await
                .unwrap();
        }
        for round in 0..6_u8 {
            let name = format!("file {}", round % 3);
            let ino = fs.lookup(Ino::ROOT, name.as_bytes()).await.unwrap().ino;
            chmod(&fs, ino, 0o600 + u16::from(round)).await;
            let mut times = 0_u8;
            while fs.stats().cleaned_logs == 0 {
                times += 1;
                assert!(times < 100, "a log grows and is not cleaned");
                fs.set_xattr(&CALLER, ino, b"user.a", &[times; 1000], SetXattr::Any)
                    .await
                    .unwrap();
            }
            assert_eq!((fs.stats().cleaned_logs, fs.stats().emptied_logs), (1, 0));
            if round % 2 == 1 {
                fs.write(&CALLER, ino, 4000, &[round; 5100], PLAIN)
                    .await
                    .unwrap();
            }
            fs = as_it_was(fs, &format!("round {round}")).await;
            let found = fs.get_xattr(ino, b"user.a").await.unwrap();
            assert_eq!(found, [times; 1000]);
        }
        sound(fs).await;
    });
}

/// Directly behind the operation for which all logs were emptied, and behind some more: names,
/// contents and attributes that were said before and behind it, and files that went.
#[test]
fn logs_that_were_emptied_are_behind_a_mount_as_they_were() {
    run(async {
        let mut fs = made(Some(SMALL)).await;
        for round in 0..5_u8 {
            let mut number = 0_u32;
            while fs.stats().emptied_logs == 0 {
                assert!(number < 200, "every file takes a page and none are emptied");
                let name = format!("round {round} file {number}");
                let ino = create(&fs, &name).await;
                let bytes = vec![number as u8 + 1; 100 * number as usize];
                fs.write(&CALLER, ino, 0, &bytes, PLAIN).await.unwrap();
                if number.is_multiple_of(5) {
                    fs.set_xattr(&CALLER, ino, b"user.a", &[round; 70], SetXattr::Any)
                        .await
                        .unwrap();
                }
                if number % 4 == 3 {
                    let gone = format!("round {round} file {}", number - 1);
                    fs.unlink(&CALLER, Ino::ROOT, gone.as_bytes())
                        .await
                        .unwrap();
                }
                number += 1;
            }
            if round % 2 == 1 {
                let name = format!("round {round} file 0");
                let ino = fs.lookup(Ino::ROOT, name.as_bytes()).await.unwrap().ino;
                fs.write(&CALLER, ino, 3000, &[round; 3000], PLAIN)
                    .await
                    .unwrap();
                let gone = format!("round {round} file 1");
                fs.unlink(&CALLER, Ino::ROOT, gone.as_bytes())
                    .await
                    .unwrap();
                create(&fs, "behind").await;
            }
            assert_eq!(fs.stats().emptied_logs, 1);
            fs = as_it_was(fs, &format!("round {round}")).await;
            let all = everything(&fs).await;
            for name in all.keys() {
                fs.unlink(&CALLER, Ino::ROOT, name).await.unwrap();
            }
        }
        sound(fs).await;
    });
}

/// Where no block is free pages are overwritten, so a full file system can be used.
#[test]
fn a_full_file_system_can_be_overwritten_and_emptied() {
    run(async {
        let fs = made(None).await;
        let ino = create(&fs, "large").await;
        let mut pages = 0;
        loop {
            let at = (pages * PAGE) as u64;
            match fs.write(&CALLER, ino, at, &[1; PAGE], PLAIN).await {
                Ok(_) => pages += 1,
                Err(FsError::NoSpace) => break,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(pages > 3_000, "{pages}");
        let mut random = Stream::new(3, "full");
        for _ in 0..500 {
            let at = random.below(pages as u64) * PAGE as u64;
            fs.write(&CALLER, ino, at + 5, &[2; 50], PLAIN)
                .await
                .unwrap();
        }
        let fs = cut(fs).await;
        assert_eq!(
            fs.read(ino, 0, 1 << 30, false).await.unwrap().len(),
            pages * PAGE
        );
        fs.unlink(&CALLER, Ino::ROOT, b"large").await.unwrap();
        let ino = create(&fs, "again").await;
        fs.write(&CALLER, ino, 0, &vec![3; (pages - 30) * PAGE], PLAIN)
            .await
            .unwrap();
        sound(fs).await;
    });
}

/// Any damage of logs that count is told when they are recovered; fsck keeps what is whole.
#[test]
fn damage_of_logs_is_told_and_mended() {
    run(async {
        let fs = made(Some(SMALL)).await;
        for number in 0..12 {
            let ino = create(&fs, &format!("file {number}")).await;
            fs.write(&CALLER, ino, 0, &[number; 5000], PLAIN)
                .await
                .unwrap();
        }
        let ram = fs.into_device();
        let mut image = vec![0; ram.shape().capacity.get() as usize];
        ram.read(ByteAddr::new(0), &mut image).await.unwrap();
        let superblock = bytefs::layout::Superblock::decode(&image[..PAGE]).unwrap();
        let area = superblock.geometry().unwrap().journal;
        let area = area.start as usize * PAGE..area.end as usize * PAGE;
        let used: Vec<usize> = area.filter(|at| image[*at] != 0).collect();
        assert!(used.len() > 1_000, "{}", used.len());
        let mut random = Stream::new(5, "logs");
        let (mut told, mut clean) = (0, 0);
        let wanted =
            (0..12).map(|number| (format!("file {number}").into_bytes(), vec![number; 5000]));
        let wanted: BTreeMap<Vec<u8>, Vec<u8>> = wanted.collect();
        for _ in 0..60 {
            let at = used[random.below(used.len() as u64) as usize];
            let mut broken = image.clone();
            broken[at] ^= 1 + random.below(255) as u8;
            let ram = self::ram(Bytes::new(image.len() as u64));
            ram.write(ByteAddr::new(0), &broken, TxId::NONE)
                .await
                .unwrap();
            let report = check(&ram, false).await.unwrap();
            if report.is_clean() {
                // Of what does not count: it was recovered, and all of it is there.
                assert_eq!(report.files, 12, "byte {at}");
                let fs = mounted(ram).await;
                let all = everything(&fs).await;
                let all = all
                    .into_iter()
                    .map(|(name, (.., contents, _))| (name, contents));
                assert!(all.eq(wanted.clone()), "byte {at}");
                clean += 1;
                continue;
            }
            told += 1;
            let refused = Fs::mount(ram, AnyClock::Still, MountOptions::default()).await;
            let error = refused.map(|_| ()).unwrap_err();
            assert!(matches!(error, MountError::Damaged { .. }), "{error}");
            let ram = self::ram(Bytes::new(image.len() as u64));
            ram.write(ByteAddr::new(0), &broken, TxId::NONE)
                .await
                .unwrap();
            let first = check(&ram, true).await.unwrap();
            let again = check(&ram, false).await.unwrap();
            assert!(again.is_clean(), "byte {at}: {first:?} then {again:?}");
            let fs = mounted(ram).await;
            create(&fs, "new").await;
            sound(fs).await;
        }
        assert!(told > 40 && clean > 0, "{told} {clean}");
    });
}
