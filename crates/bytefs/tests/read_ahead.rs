//! Blocks of metadata that come before anybody needs them.

use crate::common::{AnyClock, Fs};
use bytefs::{
    Caller, FormatOptions, Ino, MappedExtent, MountOptions, Personality, Structure, Timestamp,
    WriteOptions, check,
};
use core::cell::Cell;
use core::future::{Future, ready};
use core::pin::Pin;
use device::Ram;
use port::{
    AnyDevice, Command, Conflict, Device, DeviceError, DeviceStats, Outcome, Payload, Shape,
    block_on,
};
use std::collections::BTreeSet;
use std::rc::Rc;
use units::{ByteAddr, Bytes, Stream, TxId};

const CALLER: Caller = Caller {
    uid: 0,
    gid: 0,
    core: 0,
    now: Timestamp(5),
};
const BLOCK: u64 = 4096;
/// Inodes of a block of the table.
const INODES: u32 = 32;
/// Blocks that come together.
const WINDOW: u32 = 32;

/// A device that has lost a block.
struct Lossy {
    ram: Ram,
    state: Rc<State>,
}

#[derive(Default)]
struct State {
    lost: Cell<Option<u64>>,
    /// Where it was read last.
    read: Cell<u64>,
}

impl Device for Lossy {
    type Pending<'a> = Pin<Box<dyn Future<Output = Outcome> + 'a>>;

    fn shape(&self) -> Shape {
        self.ram.shape()
    }

    fn request<'a>(
        &'a self,
        command: Command,
        at: ByteAddr,
        payload: Payload<'a>,
        conflict: Conflict,
    ) -> Self::Pending<'a> {
        if command == Command::ReadBlocks {
            let range = at.get()..at.get() + payload.size().get();
            self.state.read.set(at.get());
            if self
                .state
                .lost
                .get()
                .is_some_and(|lost| range.contains(&lost))
            {
                let reason = "a block is lost".to_owned();
                return Box::pin(ready(Err(DeviceError::Stopped { reason })));
            }
        }
        Box::pin(self.ram.request(command, at, payload, conflict))
    }

    fn open(&self, may_split: bool) -> Result<TxId, DeviceError> {
        self.ram.open(may_split)
    }

    fn abandon(&self, tx: TxId) {
        self.ram.abandon(tx);
    }

    fn stats(&self) -> DeviceStats {
        self.ram.stats()
    }
}

/// A file system with 2,500 files, mounted anew: nothing is on the host but bitmaps.
fn run(personality: Personality, reads_ahead: Option<bool>, test: impl AsyncFnOnce(Fs, Rc<State>)) {
    run_with(2500, personality, reads_ahead, test);
}

/// As [`run`], with so many files.
fn run_with(
    files: u32,
    personality: Personality,
    reads_ahead: Option<bool>,
    test: impl AsyncFnOnce(Fs, Rc<State>),
) {
    let state = Rc::new(State::default());
    let ram = AnyDevice::new(Lossy {
        ram: Ram::new(Bytes::from_mib(64), Bytes::from_kib(4)),
        state: Rc::clone(&state),
    });
    let drive = Ram::new(Bytes::from_kib(4), Bytes::from_kib(4));
    block_on(&drive, async {
        let mut options = FormatOptions::new(personality);
        options.inodes = Some(files.next_multiple_of(WINDOW * INODES) + WINDOW * INODES);
        Fs::format(&ram, &options).await.unwrap();
        let options = MountOptions {
            cores: 1,
            reads_ahead,
            ..MountOptions::default()
        };
        let fs = Fs::mount(ram, AnyClock::Still, options.clone())
            .await
            .unwrap();
        for number in 0..files {
            let name = format!("{number}");
            let made = fs.create(&CALLER, Ino::ROOT, name.as_bytes(), 0o600).await;
            fs.release(made.unwrap().ino).await.unwrap();
        }
        fs.unmount().await.unwrap();
        let fs = Fs::mount(fs.into_device(), AnyClock::Still, options).await;
        test(fs.unwrap(), state).await;
    });
}

/// Blocks of the table of inodes that were read until the inode with a number was looked at.
async fn read_for(fs: &Fs, ino: u32) -> u64 {
    fs.getattr(Ino(ino)).await.unwrap();
    fs.stats().of_structure(Structure::Inodes).read / BLOCK
}

#[test]
fn a_window_comes_once_two_of_its_blocks_were_wanted() {
    run(Personality::Ext4Like, None, async |fs, _| {
        assert_eq!(read_for(&fs, 10 * INODES).await, 1);
        // One here and one there.
        assert_eq!(read_for(&fs, 50 * INODES).await, 2);
        assert_eq!(read_for(&fs, 12 * INODES).await, 3);
        let whole = read_for(&fs, 20 * INODES).await;
        assert!(whole > 10, "{whole} blocks");
        assert_eq!(read_for(&fs, 21 * INODES).await, whole);
        assert_eq!(read_for(&fs, 70 * INODES).await, whole + 1);
        let found = fs.lookup(Ino::ROOT, b"1234").await.unwrap();
        assert!(found.ino.0 > 1);
        assert!(fs.stats().of_structure(Structure::Entries).read > 0);
    });
}

#[test]
fn nothing_comes_where_the_mount_does_not_want_it() {
    run(Personality::Ext4Like, Some(false), async |fs, _| {
        for (count, block) in (1..).zip([10, 12, 14, 20, 21, 50, 70]) {
            // At a block's edge an inode may be skipped: its number was given while it was read.
            assert_eq!(read_for(&fs, block * INODES + 5).await, count);
        }
    });
}

#[test]
fn a_block_that_comes_along_and_is_lost_takes_nothing_with_it() {
    run(Personality::Ext4Like, None, async |fs, state| {
        assert_eq!(read_for(&fs, 10 * INODES).await, 1);
        let place = state.read.get();
        assert_eq!(read_for(&fs, 12 * INODES).await, 2);
        state.lost.set(Some(place + 4 * BLOCK));
        assert_eq!(read_for(&fs, 20 * INODES).await, 3, "it alone");
        let lost = fs.getattr(Ino(14 * INODES)).await.unwrap_err().to_string();
        assert!(lost.contains("a block is lost"), "{lost}");
        state.lost.set(None);
        assert!(read_for(&fs, 14 * INODES).await > 3);
    });
}

#[test]
fn a_page_of_a_file_that_comes_along_and_is_lost_takes_nothing_with_it() {
    run_with(1, Personality::Ext4Like, None, async |fs, state| {
        let made = fs.create(&CALLER, Ino::ROOT, b"contents", 0o600).await;
        let ino = made.unwrap().ino;
        let bytes = vec![7; 64 * BLOCK as usize];
        let written = fs.write(&CALLER, ino, 0, &bytes, WriteOptions::default());
        written.await.unwrap();
        let block = {
            fs.sync().await.unwrap();
            u64::from(fs.map(ino).await.unwrap()[0].block.0)
        };
        fs.unmount().await.unwrap();
        let options = MountOptions::default();
        let fs = Fs::mount(fs.into_device(), AnyClock::Still, options).await;
        let fs = fs.unwrap();
        state.lost.set(Some((block + 10) * BLOCK));
        for page in 0..20 {
            let read = fs.read(ino, page * BLOCK, BLOCK as usize, false).await;
            assert_eq!(read.is_err(), page == 10, "page {page}: {read:?}");
        }
    });
}

/// Names of all lengths come into a directory of many buckets with holes, so that buckets are split
/// whose names lie in several blocks: none is lost and none is there twice.
#[test]
fn buckets_with_holes_are_split_and_keep_their_names() {
    const FILES: u32 = 5_000;
    run_with(FILES, Personality::ByteFsDual, None, async |fs, _| {
        let mut wanted = BTreeSet::new();
        for number in 0..FILES {
            let name = format!("{number}");
            match number % 3 {
                0 => fs
                    .unlink(&CALLER, Ino::ROOT, name.as_bytes())
                    .await
                    .unwrap(),
                _ => assert!(wanted.insert(name.into_bytes())),
            }
        }
        for number in 0..FILES / 3 {
            let length = 6 + (number * 37 % 250) as usize;
            let name = format!("{number:0length$}");
            let made = fs.create(&CALLER, Ino::ROOT, name.as_bytes(), 0o600).await;
            fs.release(made.unwrap().ino).await.unwrap();
            assert!(wanted.insert(name.into_bytes()));
        }
        fs.unmount().await.unwrap();
        let device = fs.into_device();
        assert_eq!(check(&device, false).await.unwrap().problems, []);
        let fs = Fs::mount(device, AnyClock::Still, MountOptions::default());
        let fs = fs.await.unwrap();
        let (mut found, mut from) = (BTreeSet::new(), 0);
        loop {
            let entries = fs.readdir(Ino::ROOT, from, 100).await.unwrap();
            let Some(last) = entries.last() else { break };
            from = last.next;
            for entry in entries {
                let is_dot = entry.name.starts_with(b".");
                assert!(is_dot || found.insert(entry.name), "a name is there twice");
            }
        }
        assert_eq!(found, wanted);
        for name in &wanted {
            fs.lookup(Ino::ROOT, name).await.unwrap();
        }
    });
}

/// What a lookup reads in directories of several sizes, each the first one behind a mount. In a
/// directory of many buckets it is a block of extents, one of names and one of inodes. The million
/// of the bench log: `BYTEFS_NAMES=1000000 cargo test -p entresol-bytefs --test all -- --nocapture
/// lookups_by_size`.
#[test]
fn lookups_by_size_read_one_block_of_names() {
    const LOOKUPS: u32 = 64;
    let more = std::env::var("BYTEFS_NAMES").ok();
    let more = more.map(|names| names.parse::<u32>().expect("BYTEFS_NAMES is a number"));
    println!(
        "names, buckets, blocks behind, runs; reads and blocks of a lookup, most reads; absent"
    );
    for names in [1_000, 13_000].into_iter().chain(more) {
        let size = Bytes::from_mib(64 + u64::from(names) / 1_000);
        let ram = AnyDevice::new(Ram::new(size, Bytes::from_kib(4)));
        let drive = Ram::new(Bytes::from_kib(4), Bytes::from_kib(4));
        block_on(&drive, async {
            let mut options = FormatOptions::new(Personality::ByteFsDual);
            options.inodes = Some(names + 1_000);
            Fs::format(&ram, &options).await.unwrap();
            let mounted = |ram| Fs::mount(ram, AnyClock::Still, MountOptions::default());
            let fs = mounted(ram).await.unwrap();
            let dir = fs.mkdir(&CALLER, Ino::ROOT, b"dir", 0o700).await.unwrap();
            for number in 0..names {
                let name = format!("{number:07}");
                let made = fs.create(&CALLER, dir.ino, name.as_bytes(), 0o600).await;
                fs.release(made.unwrap().ino).await.unwrap();
            }
            let map = fs.map(dir.ino).await.unwrap();
            let (buckets, behind): (Vec<_>, Vec<_>) =
                map.iter().partition(|extent| extent.page < 1 << 32);
            let count = |of: &[&MappedExtent]| of.iter().map(|extent| extent.count).sum::<u32>();
            let mut line = format!(
                "{names}, {}, {}, {}",
                count(&buckets),
                count(&behind),
                map.len()
            );
            fs.unmount().await.unwrap();
            let mut device = fs.into_device();
            for first in [0, names] {
                let mut stream = Stream::new(1, "lookups by size");
                let (mut reads, mut blocks, mut most) = (0, 0, 0);
                for _ in 0..LOOKUPS {
                    let fs = mounted(device).await.unwrap();
                    fs.getattr(dir.ino).await.unwrap();
                    let before = fs.device().stats().block_port;
                    let number = u64::from(first) + stream.below(u64::from(names));
                    let found = fs.lookup(dir.ino, format!("{number:07}").as_bytes()).await;
                    assert_eq!(found.is_ok(), first == 0);
                    let after = fs.device().stats().block_port;
                    let asked = after.reads - before.reads;
                    most = most.max(asked);
                    reads += asked;
                    blocks += (after.to_host.get() - before.to_host.get()) / BLOCK;
                    fs.unmount().await.unwrap();
                    device = fs.into_device();
                }
                if names > 5_000 {
                    // Whose name is not there has no inode to be read; an empty block may be
                    // behind.
                    let tenths = if first == 0 { 31 } else { 25 };
                    assert!(reads * 10 <= u64::from(LOOKUPS) * tenths, "{reads} reads");
                }
                let each = |all: u64| all as f64 / f64::from(LOOKUPS);
                line += &format!("; {:.2} {:.2} {most}", each(reads), each(blocks));
            }
            println!("{line}");
        });
    }
}
