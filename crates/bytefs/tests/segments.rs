//! Logs of segments: cleaned while they are full, and recovered to the last sync.

use crate::common::{AnyClock, Fs, ram};
use bytefs::{
    Caller, FormatOptions, FsError, Ino, MountOptions, Personality, Timestamp, WriteOptions, check,
};
use device::Ram;
use port::{AnyDevice, block_on};
use units::{Bytes, Stream};

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

fn run<T>(future: impl Future<Output = T>) -> T {
    block_on(&Ram::new(Bytes::from_kib(4), Bytes::from_kib(4)), future)
}

async fn made() -> Fs {
    let ram = ram(Bytes::from_mib(16));
    let mut options = FormatOptions::new(Personality::F2fsLike);
    options.inodes = Some(100);
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

/// Writes a file until there is no room; gives its number and pages.
async fn fill(fs: &Fs) -> (Ino, usize) {
    let ino = fs
        .create(&CALLER, Ino::ROOT, b"large", 0o600)
        .await
        .unwrap()
        .ino;
    let mut pages = 0;
    loop {
        let data = [1; PAGE];
        match fs
            .write(&CALLER, ino, (pages * PAGE) as u64, &data, PLAIN)
            .await
        {
            Ok(_) => pages += 1,
            Err(FsError::NoSpace) => break,
            Err(error) => panic!("{error}"),
        }
    }
    fs.sync().await.unwrap();
    (ino, pages)
}

/// Pages are overwritten by chance on a full file system, many times over what it holds: segments
/// are cleaned, and every page is what was last written, also behind a mount that recovers.
#[test]
fn a_full_file_system_is_cleaned_and_loses_nothing() {
    run(async {
        let fs = made().await;
        let (ino, pages) = fill(&fs).await;
        assert!(pages > 1_000, "{pages}");
        let mut wanted = vec![1; pages];
        let mut random = Stream::new(3, "segments");
        for round in 0..4 * pages {
            let page = random.below(pages as u64) as usize;
            wanted[page] = 2 + (round % 250) as u8;
            let data = [wanted[page]; PAGE];
            fs.write(&CALLER, ino, (page * PAGE) as u64, &data, PLAIN)
                .await
                .unwrap();
            match random.below(200) {
                0 => fs.fsync(ino, false).await.unwrap(),
                1 => fs.flush_old(CALLER.now).await.unwrap(),
                _ => {}
            }
        }
        fs.fsync(ino, false).await.unwrap();
        let stats = fs.stats();
        assert!(
            stats.cleaned_segments > 20 && stats.moved_blocks > 0,
            "{stats:?}"
        );
        assert_eq!(fs.failed(), None);
        let fs = mounted(fs.into_device()).await;
        for (page, wanted) in wanted.iter().enumerate() {
            let read = fs
                .read(ino, (page * PAGE) as u64, PAGE, false)
                .await
                .unwrap();
            assert!(read.iter().all(|byte| byte == wanted), "page {page}");
        }
        fs.unmount().await.unwrap();
        let report = check(&fs.into_device(), false).await.unwrap();
        assert!(report.is_clean(), "{report:?}");
    });
}

/// A sync of a file writes its contents and its node, not the blocks of metadata that changed.
#[test]
fn a_sync_of_a_file_writes_its_node_and_a_sync_of_a_directory_makes_a_checkpoint() {
    run(async {
        let fs = made().await;
        let moved = |fs: &Fs| {
            let stats = fs.stats();
            let blocks = |traffic: bytefs::Traffic| traffic.blocks_written / PAGE as u64;
            let counted = [stats.data, stats.metadata, stats.journal].map(blocks);
            (counted, stats.flushes)
        };
        let change = |before: ([u64; 3], u64), after: ([u64; 3], u64)| {
            let blocks = [0, 1, 2].map(|class| after.0[class] - before.0[class]);
            (blocks, after.1 - before.1)
        };
        let ino = fs
            .create(&CALLER, Ino::ROOT, b"file", 0o600)
            .await
            .unwrap()
            .ino;
        fs.sync().await.unwrap();
        let before = moved(&fs);
        fs.write(&CALLER, ino, 0, &[7; 2 * PAGE], PLAIN)
            .await
            .unwrap();
        fs.fsync(ino, false).await.unwrap();
        assert_eq!(change(before, moved(&fs)), ([2, 1, 0], 1));
        fs.sync().await.unwrap();
        // In place, with nothing to say of it.
        let before = moved(&fs);
        fs.write(&CALLER, ino, 0, &[8; PAGE], PLAIN).await.unwrap();
        fs.fsync(ino, true).await.unwrap();
        assert_eq!(change(before, moved(&fs)), ([1, 0, 0], 1));
        // Elsewhere, if it is no sync that writes it.
        let before = moved(&fs);
        fs.write(&CALLER, ino, 0, &[9; PAGE], PLAIN).await.unwrap();
        fs.sync().await.unwrap();
        let (blocks, _) = change(before, moved(&fs));
        assert_eq!((blocks[0], blocks[2]), (1, 2), "a pack of two blocks");
        let before = moved(&fs);
        fs.create(&CALLER, Ino::ROOT, b"other", 0o600)
            .await
            .unwrap();
        fs.fsync(Ino::ROOT, false).await.unwrap();
        let (blocks, _) = change(before, moved(&fs));
        assert_eq!(blocks[2], 2, "a pack");
        assert!(blocks[1] >= 4, "two nodes, names, a bitmap: {blocks:?}");
    });
}

/// Changes of metadata alone: nodes are written anew until no segment is free, and have holes all
/// over.
#[test]
fn changes_of_metadata_have_segments_cleaned() {
    run(async {
        let ram = ram(Bytes::from_mib(64));
        let mut options = FormatOptions::new(Personality::F2fsLike);
        options.inodes = Some(4050);
        Fs::format(&ram, &options).await.unwrap();
        let fs = mounted(ram).await;
        let mut files = Vec::new();
        for number in 0..4000 {
            let name = format!("file{number}");
            let made = fs.create(&CALLER, Ino::ROOT, name.as_bytes(), 0o600).await;
            files.push(made.unwrap().ino);
        }
        fs.sync().await.unwrap();
        let mut random = Stream::new(4, "nodes");
        for round in 0..15_000 {
            let ino = files[random.below(files.len() as u64) as usize];
            let set = bytefs::SetAttr {
                permissions: Some(0o600 + round % 8),
                ..bytefs::SetAttr::default()
            };
            fs.setattr(&CALLER, ino, set).await.unwrap();
            if round % 5 == 0 {
                fs.fsync(ino, false).await.unwrap();
            }
        }
        fs.unmount().await.unwrap();
        let report = check(&fs.into_device(), false).await.unwrap();
        assert!(report.is_clean(), "{report:?}");
    });
}
