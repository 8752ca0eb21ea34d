//! Renames that leave a whiteout: what has the old name then, and when there is no room for it.

use crate::common::{AnyClock, Fs, ram};
use bytefs::{
    Attr, Caller, FileKind, FormatOptions, FsError, Ino, MountOptions, Personality, Rename,
    Timestamp, WriteOptions, check,
};
use device::Ram;
use port::{AnyDevice, block_on};
use units::Bytes;

const CALLER: Caller = Caller {
    uid: 1000,
    gid: 100,
    core: 0,
    now: Timestamp(5),
};
const INODES: u64 = 64;

const PERSONALITIES: [Personality; 5] = [
    Personality::ByteFsDual,
    Personality::Ext4Like,
    Personality::PmfsLike,
    Personality::F2fsLike,
    Personality::NovaLike,
];

async fn mounted(device: AnyDevice) -> Fs {
    let fs = Fs::mount(device, AnyClock::Still, MountOptions::default());
    fs.await.unwrap()
}

/// Does something to a file system of few inodes, looks at it, and again behind a mount that ended
/// without an unmount, as behind a power cut.
fn on_each(test: impl AsyncFn(&Fs), look: impl AsyncFn(&Fs)) {
    let idle = Ram::new(Bytes::from_kib(4), Bytes::from_kib(4));
    for personality in PERSONALITIES {
        block_on(&idle, async {
            let device = ram(Bytes::from_mib(32));
            let options = FormatOptions {
                inodes: Some(INODES as u32),
                ..FormatOptions::new(personality)
            };
            Fs::format(&device, &options).await.unwrap();
            let fs = mounted(device).await;
            test(&fs).await;
            look(&fs).await;
            fs.sync().await.unwrap();
            let fs = mounted(fs.into_device()).await;
            look(&fs).await;
            fs.unmount().await.unwrap();
            let report = check(&fs.into_device(), false).await.unwrap();
            assert!(report.is_clean(), "{personality}: {report:?}");
        });
    }
}

async fn create(fs: &Fs, dir: Ino, name: &[u8]) -> Ino {
    let ino = fs.create(&CALLER, dir, name, 0o644).await.unwrap().ino;
    let options = WriteOptions::default();
    fs.write(&CALLER, ino, 0, name, options).await.unwrap();
    fs.release(ino).await.unwrap();
    ino
}

async fn rename(fs: &Fs, old: (Ino, &[u8]), new: (Ino, &[u8]), how: Rename) -> Result<(), FsError> {
    fs.rename(&CALLER, old.0, old.1, new.0, new.1, how).await
}

fn assert_is_whiteout(attr: &Attr, gid: u32) {
    assert_eq!((attr.kind, attr.rdev), (FileKind::CharDevice, 0));
    assert_eq!((attr.permissions, attr.links), (0, 1));
    assert_eq!((attr.uid, attr.gid), (CALLER.uid, gid));
}

#[test]
fn the_old_name_is_a_whiteouts_in_directories_of_every_kind() {
    let group = Caller { gid: 7, ..CALLER };
    let test = async |fs: &Fs| {
        let root = Ino::ROOT;
        let shared = fs.mkdir(&group, root, b"shared", 0o2775).await.unwrap().ino;
        fs.mkdir(&CALLER, root, b"dir", 0o755).await.unwrap();
        create(fs, root, b"file").await;
        create(fs, root, b"taken").await;
        create(fs, shared, b"inner").await;
        let how = Rename::WhiteoutNoReplace;
        let refused = rename(fs, (root, b"file"), (root, b"taken"), how).await;
        assert_eq!(refused, Err(FsError::Exists));
        for (old, new, how) in [
            (
                (root, &b"file"[..]),
                (root, &b"taken"[..]),
                Rename::Whiteout,
            ),
            ((shared, b"inner"), (root, b"out"), how),
            ((root, b"dir"), (shared, b"dir"), Rename::Whiteout),
        ] {
            rename(fs, old, new, how).await.unwrap();
        }
    };
    let look = async |fs: &Fs| {
        let find = async |dir, name: &[u8]| fs.lookup(dir, name).await.unwrap();
        let root = Ino::ROOT;
        let shared = find(root, b"shared").await;
        assert_is_whiteout(&find(root, b"file").await, CALLER.gid);
        assert_is_whiteout(&find(root, b"dir").await, CALLER.gid);
        assert_is_whiteout(&find(shared.ino, b"inner").await, 7);
        let moved = find(root, b"taken").await.ino;
        assert_eq!(fs.read(moved, 0, 10, false).await.unwrap(), b"file");
        assert_eq!((find(root, b"out").await.size, shared.links), (5, 3));
        assert_eq!(find(root, b".").await.links, 3, "of one directory in it");
        let dir = find(shared.ino, b"dir").await.ino;
        assert_eq!(find(dir, b"..").await.ino, shared.ino);
    };
    on_each(test, look);
}

/// A whiteout is a file like any other: it can be renamed over and removed.
#[test]
fn whiteouts_give_their_inodes_back() {
    let test = async |fs: &Fs| {
        let root = Ino::ROOT;
        let free = fs.usage().free_inodes;
        create(fs, root, b"a").await;
        for _ in 0..INODES {
            let there = rename(fs, (root, b"a"), (root, b"b"), Rename::Whiteout);
            there.await.unwrap();
            assert_eq!(fs.usage().free_inodes, free - 2);
            // What has the old name is replaced, and another one takes its place at the other end.
            let back = rename(fs, (root, b"b"), (root, b"a"), Rename::Whiteout);
            back.await.unwrap();
            fs.unlink(&CALLER, root, b"b").await.unwrap();
        }
        // Two names of one file: nothing is moved, and nothing left.
        let ino = fs.lookup(root, b"a").await.unwrap().ino;
        fs.link(&CALLER, ino, root, b"b").await.unwrap();
        let same = rename(fs, (root, b"a"), (root, b"b"), Rename::Whiteout);
        same.await.unwrap();
        fs.unlink(&CALLER, root, b"b").await.unwrap();
        // Freed inodes are free when their batch is durable.
        fs.sync().await.unwrap();
        assert_eq!(fs.usage().free_inodes, free - 1);
    };
    let look = async |fs: &Fs| {
        let attr = fs.lookup(Ino::ROOT, b"a").await.unwrap();
        assert_eq!((attr.kind, attr.links), (FileKind::Regular, 1));
    };
    on_each(test, look);
}

#[test]
fn without_an_inode_for_the_whiteout_nothing_is_moved() {
    let test = async |fs: &Fs| {
        let root = Ino::ROOT;
        create(fs, root, b"old").await;
        create(fs, root, b"taken").await;
        for number in 0.. {
            let name = format!("{number}");
            match fs.create(&CALLER, root, name.as_bytes(), 0o600).await {
                Ok(_) => {}
                Err(error) => {
                    assert_eq!(error, FsError::NoInodes);
                    break;
                }
            }
        }
        for new in [&b"taken"[..], b"new"] {
            let refused = rename(fs, (root, b"old"), (root, new), Rename::Whiteout).await;
            assert_eq!(refused, Err(FsError::NoInodes));
        }
    };
    let look = async |fs: &Fs| {
        let find = async |name: &[u8]| fs.lookup(Ino::ROOT, name).await;
        for name in [&b"old"[..], b"taken"] {
            let ino = find(name).await.unwrap().ino;
            assert_eq!(fs.read(ino, 0, 10, false).await.unwrap(), name);
        }
        assert_eq!(find(b"new").await, Err(FsError::NotFound));
    };
    on_each(test, look);
}
