//! Metadata of every structure and personality, changed through the port of the device: mounted,
//! walked, used and checked. Nothing panics or hangs, and nothing is wrong without a word.

use crate::common::{AnyClock, Fs, ram};
use crate::worn::{CALLER, PLAIN};
use bytefs::layout::{
    BLOCK, Geometry, INODE_BYTES, Inode, LINE, STATE_BLOCK, Segmentation, Superblock,
};
use bytefs::{
    Attr, FileKind, FormatOptions, FsError, Ino, MountOptions, Personality, Rename, SetAttr,
    SetXattr, check,
};
use device::config::Layer;
use device::{DeviceConfig, Pace, RealDevice};
use port::{Acknowledge, AnyDevice, Device, block_on};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use units::{ByteAddr, Bytes, Stream};

/// Changes of a structure; `CHANGES=N` for more.
const CHANGES: usize = 3;
const NAMES: usize = 30;

/// A device, and who moves it.
struct Bench {
    device: AnyDevice,
    real: Option<Arc<RealDevice>>,
}

impl Bench {
    fn new(personality: Personality) -> Self {
        if !personality.needs_transactions() {
            let mib = if personality.writes_bytes() { 4 } else { 8 };
            let device = ram(Bytes::from_mib(mib));
            return Self { device, real: None };
        }
        let sets = [
            "nand.channels=1",
            "nand.chips_per_channel=1",
            "nand.dies_per_chip=1",
            "nand.blocks_per_plane=64",
            "nand.pages_per_block=64",
            "ftl.over_provisioning=1/2",
            "ssd.dram=2MiB",
            "ssd.log.size=1MiB",
            "ssd.log.tx_log=64KiB",
        ];
        let layers: Vec<Layer> = sets
            .iter()
            .map(|set| Layer::assignment(set).unwrap())
            .collect();
        let config = DeviceConfig::of_preset("bytefs", &layers).unwrap();
        let real = Arc::new(RealDevice::in_memory(&config, Pace::None).unwrap());
        Self {
            device: AnyDevice::new(Arc::clone(&real)),
            real: Some(real),
        }
    }

    fn run<T>(&self, future: impl Future<Output = T>) -> T {
        match &self.real {
            Some(real) => real.block_on(future),
            None => block_on(
                &device::Ram::new(Bytes::from_kib(4), Bytes::from_kib(4)),
                future,
            ),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.device.shape().capacity.get() as usize];
        let read = self.device.read_blocks(ByteAddr::new(0), &mut bytes);
        self.run(read).unwrap();
        bytes
    }

    /// Has the device hold these bytes.
    fn hold(&self, bytes: &[u8]) {
        let done = Acknowledge::Accepted;
        let now = self.bytes();
        for (block, bytes) in bytes.chunks(BLOCK).enumerate() {
            if bytes == &now[block * BLOCK..][..BLOCK] {
                continue;
            }
            let at = ByteAddr::new((block * BLOCK) as u64);
            self.run(self.device.write_blocks(at, bytes, done)).unwrap();
        }
    }

    fn mount(&self) -> Result<Fs, String> {
        let mounting = Fs::mount(
            self.device.clone(),
            AnyClock::Still,
            MountOptions::default(),
        );
        self.run(mounting).map_err(|error| error.to_string())
    }
}

/// What can be seen of a file: what it is, contents, extended attributes.
type Seen = (Attr, Vec<u8>, Vec<Vec<u8>>);
type Tree = BTreeMap<Vec<u8>, Seen>;

/// Everything that can be seen, or what is told.
async fn walk(fs: &Fs) -> Result<Tree, FsError> {
    let mut found = Tree::new();
    let mut queue = vec![(Ino::ROOT, Vec::new())];
    let mut walked = BTreeSet::new();
    while let Some((dir, path)) = queue.pop() {
        assert!(walked.insert(dir), "a directory is in two places");
        let mut from = 0;
        loop {
            let entries = fs.readdir(dir, from, 1000).await?;
            let Some(last) = entries.last() else { break };
            from = last.next;
            for entry in entries {
                if entry.name == b"." || entry.name == b".." {
                    continue;
                }
                let path = [&path[..], b"/", &entry.name].concat();
                let attr = fs.lookup(dir, &entry.name).await?;
                let mut data = Vec::new();
                match entry.kind {
                    FileKind::Directory => queue.push((entry.ino, path.clone())),
                    FileKind::Symlink => data = fs.readlink(entry.ino).await?,
                    FileKind::Regular => data = fs.read(entry.ino, 0, 1 << 20, false).await?,
                    _ => {}
                }
                let names = fs.list_xattr(entry.ino).await?;
                let mut values = Vec::new();
                for name in names
                    .split(|byte| *byte == 0)
                    .filter(|name| !name.is_empty())
                {
                    values.push(name.to_vec());
                    values.push(fs.get_xattr(entry.ino, name).await?);
                }
                found.insert(path, (attr, data, values));
            }
        }
    }
    Ok(found)
}

/// A file system with a bit of everything, and what it has been since its last checkpoint.
struct Made {
    image: Vec<u8>,
    states: Vec<Tree>,
}

async fn create(fs: &Fs, dir: Ino, name: &str, size: usize) -> Ino {
    let ino = fs.create(&CALLER, dir, name.as_bytes(), 0o640).await;
    let ino = ino.unwrap().ino;
    let data = vec![name.len() as u8; size];
    fs.write(&CALLER, ino, 0, &data, PLAIN).await.unwrap();
    fs.release(ino).await.unwrap();
    ino
}

async fn fill(fs: &Fs) {
    for dir in 0..3 {
        let name = format!("dir {dir}");
        let dir = fs.mkdir(&CALLER, Ino::ROOT, name.as_bytes(), 0o755).await;
        let dir = dir.unwrap().ino;
        for file in 0..NAMES {
            let name = format!("file {file} {}", "y".repeat(3 * file));
            let ino = create(fs, dir, &name, file * 100).await;
            if file % 10 == 7 {
                let set = SetXattr::Any;
                fs.set_xattr(&CALLER, ino, b"user.x", b"yes", set)
                    .await
                    .unwrap();
            }
        }
    }
    let many = create(fs, Ino::ROOT, "many extents", 0).await;
    for page in (0..60).step_by(2) {
        let data = [page as u8 + 1; BLOCK];
        let at = page * BLOCK as u64;
        fs.write(&CALLER, many, at, &data, PLAIN).await.unwrap();
    }
    fs.link(&CALLER, many, Ino::ROOT, b"another name")
        .await
        .unwrap();
    fs.symlink(&CALLER, Ino::ROOT, b"link", b"dir 1/file 3")
        .await
        .unwrap();
    let kind = FileKind::CharDevice;
    fs.mknod(&CALLER, Ino::ROOT, b"null", kind, 0o666, 0x103)
        .await
        .unwrap();
}

/// Operations behind the last checkpoint; each is synced, and has a state of its own.
async fn go_on(fs: &Fs) -> Vec<Tree> {
    let mut states = vec![walk(fs).await.unwrap()];
    let dir = fs.lookup(Ino::ROOT, b"dir 1").await.unwrap().ino;
    for number in 0..6 {
        let name = format!("late {number}");
        match number {
            3 => {
                let (old, new) = (b"late 0", b"later");
                let done = fs.rename(&CALLER, dir, old, Ino::ROOT, new, Rename::Replace);
                done.await.unwrap();
            }
            4 => fs.unlink(&CALLER, dir, b"late 1").await.unwrap(),
            _ => {
                let ino = fs.create(&CALLER, dir, name.as_bytes(), 0o600).await;
                fs.release(ino.unwrap().ino).await.unwrap();
            }
        }
        states.push(walk(fs).await.unwrap());
        fs.fsync(dir, false).await.unwrap();
    }
    states
}

fn made(bench: &Bench, personality: Personality, is_unmounted: bool) -> Made {
    let mut options = FormatOptions::new(personality);
    options.inodes = Some(500);
    if ![Personality::F2fsLike, Personality::Ext4Like].contains(&personality) {
        options.journal = Some(Bytes::from_kib(256));
    }
    bench
        .run(Fs::format(&bench.device, &options))
        .unwrap_or_else(|error| panic!("{personality}: {error}"));
    let fs = bench.mount().unwrap();
    bench.run(fill(&fs));
    bench.run(fs.unmount()).unwrap();
    let fs = bench.mount().unwrap();
    let mut states = bench.run(go_on(&fs));
    if is_unmounted {
        bench.run(fs.unmount()).unwrap();
        states = states.split_off(states.len() - 1);
    }
    drop(fs);
    Made {
        image: bench.bytes(),
        states,
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Where each block is, as the newest checkpoint says.
fn places_of(image: &[u8], segments: &Segmentation) -> Vec<u32> {
    let block = |number: u32| &image[number as usize * BLOCK..][..BLOCK];
    let end = |pack: &&u32| block(**pack + segments.pack - 1);
    let newest = segments.packs.iter().max_by_key(|pack| word(end(pack), 8));
    let newest = newest.unwrap();
    let mut places = Vec::new();
    for table in 0..segments.tables {
        let copies = block(*newest)[64 + table as usize / 8];
        let table = block(segments.table_place(table, copies >> (table % 8) & 1 == 1));
        places.extend((24..BLOCK - 8).step_by(4).map(|at| word(table, at)));
    }
    let journal = end(&newest);
    for entry in 0..word(journal, 4) as usize {
        places[word(journal, 32 + 8 * entry) as usize] = word(journal, 36 + 8 * entry);
    }
    places
}

/// Blocks of each structure, by name.
type Structures = BTreeMap<&'static str, Vec<u32>>;

/// Which blocks of an image are whose. Contents are not metadata.
fn structures(image: &[u8], geometry: &Geometry) -> Structures {
    let mut found = Structures::new();
    let block = |number: u32| &image[number as usize * BLOCK..][..BLOCK];
    let is_used = |number: &u32| block(*number).iter().any(|byte| *byte != 0);
    found.insert("superblock", vec![0]);
    found.insert("copy", vec![geometry.superblock_copy.0]);
    // Where a block is: with segments the table says so.
    let places: Vec<u32>;
    if let Some(segments) = &geometry.segments {
        let packs = segments.packs.iter().flat_map(|at| *at..at + segments.pack);
        found.insert("checkpoint", packs.collect());
        let tables = segments.table..segments.table + 2 * segments.tables;
        found.insert("table", tables.filter(is_used).collect());
        places = places_of(image, segments);
    } else {
        places = (0..geometry.blocks).collect();
        found.insert(
            "journal",
            geometry.journal.clone().filter(is_used).collect(),
        );
    }
    let place = |number: u32| {
        let place = places.get(number as usize).copied().unwrap_or(0);
        (place != 0).then_some(place)
    };
    let mut add = |name, numbers: &mut dyn Iterator<Item = u32>| {
        let blocks = numbers.filter_map(place);
        found.entry(name).or_default().extend(blocks);
    };
    add("state", &mut std::iter::once(STATE_BLOCK.0));
    add("blocks in use", &mut geometry.block_bitmap.clone());
    add("inodes in use", &mut geometry.inode_bitmap.clone());
    let is_there = |number: &u32| place(*number).is_some_and(|place| is_used(&place));
    add("inodes", &mut geometry.inode_table.clone().filter(is_there));
    for ino in 1..=geometry.inodes {
        let (number, at) = geometry.inode_place(Ino(ino));
        let Some(place) = place(number.0) else {
            continue;
        };
        let Ok(Some(inode)) = Inode::decode(&block(place)[at..at + INODE_BYTES]) else {
            continue;
        };
        if inode.mode.kind == FileKind::Directory {
            let extents = inode.slots.iter().flatten();
            let mut blocks = extents.flat_map(|extent| {
                let first = extent.block.0;
                first..first + extent.count
            });
            add("names", &mut blocks);
        }
        if inode.xattrs.0 != 0 {
            add("attributes", &mut std::iter::once(inode.xattrs.0));
        }
        add(
            "extents",
            &mut inode.extent_block().map(|block| block.0).into_iter(),
        );
    }
    found
}

/// Changes bytes of a block as no program does; whether sums see it for certain.
fn change(block: &mut [u8], random: &mut Stream) -> bool {
    let used: Vec<usize> = (0..BLOCK).filter(|at| block[*at] != 0).collect();
    let any = |random: &mut Stream, most: usize| random.below(most as u64) as usize;
    // Half of the time where something is.
    let at = match random.below(2) == 0 && !used.is_empty() {
        true => used[any(random, used.len())],
        false => any(random, BLOCK),
    };
    let line = at / LINE * LINE..(at / LINE + 1) * LINE;
    match random.below(6) {
        0 | 1 => block[at] ^= 1 << random.below(8),
        2 => {
            let bits = 1 + random.below(255) as u8;
            let end = line.end.min(at + 1 + any(random, 8));
            block[at..end].iter_mut().for_each(|byte| *byte ^= bits);
        }
        3 => block[line].fill_with(|| random.bits() as u8),
        4 => {
            block[line].fill(0);
            return false;
        }
        _ => {
            block.fill(0);
            return false;
        }
    }
    true
}

/// Uses a file system that may be damaged; answers do not matter.
async fn try_everything(fs: &Fs) {
    for dir in [&b"dir 0"[..], b"dir 1", b"dir 2"] {
        let Ok(dir) = fs.lookup(Ino::ROOT, dir).await.map(|attr| attr.ino) else {
            continue;
        };
        for number in 0..12 {
            let name = format!("new {number} {}", "z".repeat(20 * number));
            let Ok(made) = fs.create(&CALLER, dir, name.as_bytes(), 0o600).await else {
                break;
            };
            let _ = fs.write(&CALLER, made.ino, 0, &[9; 9000], PLAIN).await;
            let _ = fs.fsync(made.ino, false).await;
            let set = SetXattr::Any;
            let _ = fs.set_xattr(&CALLER, made.ino, b"user.n", b"n", set).await;
            let _ = fs.release(made.ino).await;
        }
        let (old, new) = (b"file 4 yyyyyyyyyyyy", b"new name");
        let _ = fs
            .rename(&CALLER, dir, old, Ino::ROOT, new, Rename::Replace)
            .await;
        let _ = fs.unlink(&CALLER, dir, b"file 2 yyyyyy").await;
        let _ = fs.mkdir(&CALLER, dir, b"new dir", 0o700).await;
    }
    if let Ok(many) = fs.lookup(Ino::ROOT, b"another name").await {
        let shorter = SetAttr {
            size: Some(5 * BLOCK as u64),
            ..SetAttr::default()
        };
        let _ = fs.setattr(&CALLER, many.ino, shorter).await;
    }
    let _ = fs.sync().await;
    let _ = fs.unmount().await;
}

/// Files that [`try_everything`] changes, or that are made by it.
fn is_touched(path: &[u8]) -> bool {
    let path = String::from_utf8_lossy(path);
    let parts = [
        "/new",
        "/file 4 ",
        "/file 2 ",
        "/another name",
        "/many extents",
    ];
    parts.iter().any(|part| path.contains(part))
}

/// What is still there of a file that was repaired is its own, but for blocks that were lost.
fn is_left_of(found: &[u8], whole: &[u8]) -> bool {
    let mut bytes = found.iter().zip(whole);
    found.len() == whole.len() && bytes.all(|(byte, whole)| byte == whole || *byte == 0)
}

#[derive(Default, Debug)]
struct Tally {
    told_by_mount: usize,
    told_by_walk: usize,
    nothing: usize,
    told_by_fsck: usize,
    left_alone: usize,
}

fn fuzz(personality: Personality, is_unmounted: bool) {
    let bench = Bench::new(personality);
    let made = made(&bench, personality, is_unmounted);
    let superblock = Superblock::decode(&made.image[..BLOCK]).unwrap();
    assert_eq!(superblock.is_clean, is_unmounted);
    let geometry = superblock.geometry().unwrap();
    let structures = structures(&made.image, &geometry);
    for (name, blocks) in &structures {
        // Transactions need no journal; a state that says nothing is nowhere in segments.
        let may_be_none = match *name {
            "journal" => personality.needs_transactions(),
            "state" => geometry.segments.is_some(),
            _ => false,
        };
        assert!(!blocks.is_empty() || may_be_none, "{personality}: {name}");
    }
    for name in ["names", "attributes", "extents", "inodes"] {
        assert!(structures.contains_key(name), "{personality}: no {name}");
    }
    let mut random = Stream::new(7, personality.name());
    let changes = std::env::var("CHANGES").map_or(CHANGES, |count| count.parse().unwrap());
    let mut tally = Tally::default();
    for (name, blocks) in structures {
        for _ in 0..if blocks.is_empty() { 0 } else { changes } {
            let number = blocks[random.below(blocks.len() as u64) as usize];
            let mut broken = made.image.clone();
            let block = &mut broken[number as usize * BLOCK..][..BLOCK];
            let is_seen = change(block, &mut random);
            let first =
                (0..BLOCK).find(|at| block[*at] != made.image[number as usize * BLOCK + at]);
            let what = format!(
                "{personality}, unmounted {is_unmounted}: {name}, block {number} from byte \
                 {first:?} on, seen {is_seen}"
            );
            bench.hold(&broken);
            one(&bench, &made, is_seen, &what, &mut tally);
        }
    }
    eprintln!("{personality}, unmounted {is_unmounted}: {tally:?}");
}

fn one(bench: &Bench, made: &Made, is_seen: bool, what: &str, tally: &mut Tally) {
    let broken = bench.bytes();
    // What programs see is what was there, or something is told.
    match bench.mount() {
        Err(_) => tally.told_by_mount += 1,
        Ok(fs) => {
            match bench.run(walk(&fs)) {
                Err(_) => tally.told_by_walk += 1,
                Ok(found) if is_seen => {
                    tally.nothing += 1;
                    assert!(
                        made.states.contains(&found),
                        "{what}: {}",
                        differs(made, &found)
                    );
                }
                Ok(_) => {}
            }
            bench.run(try_everything(&fs));
        }
    }
    // fsck of what was used, and of what was not. Zeroes in bitmaps have blocks given out twice,
    // which no sum can see: nothing is said of what was used then.
    for is_used in [is_seen, false] {
        if !is_used {
            bench.hold(&broken);
        }
        let what = format!("{what}, used {is_used}");
        let report = bench.run(check(&bench.device, true));
        let report = report.unwrap_or_else(|error| panic!("{what}: {error}"));
        if report.problems.iter().any(|one| one.repaired.is_none()) {
            // A journal that is damaged.
            let is_left = report.problems.len() == 1
                && report.problems[0].what.contains("nothing is repaired");
            assert!(is_left, "{what}: {report:?}");
            tally.left_alone += 1;
            continue;
        }
        tally.told_by_fsck += usize::from(!report.is_clean());
        let again = bench.run(check(&bench.device, false)).unwrap();
        assert!(again.is_clean(), "{what}: {report:?} then {again:?}");
        let fs = bench
            .mount()
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        let found = bench.run(walk(&fs));
        let found = found.unwrap_or_else(|error| panic!("{what}: {report:?} then {error}"));
        if report.is_clean() && !is_used {
            let is_known = match is_seen {
                true => made.states.contains(&found),
                // Zeroes may take the half of an inode in which only its birth is.
                false => made
                    .states
                    .iter()
                    .any(|state| contents(state) == contents(&found)),
            };
            assert!(is_known, "{what}: {}", differs(made, &found));
        }
        let last = made.states.last().unwrap();
        for (path, (_, data, _)) in found {
            let Some((_, whole, _)) = last.get(&path) else {
                continue;
            };
            let is_kept = is_touched(&path) || is_left_of(&data, whole);
            let path = String::from_utf8_lossy(&path);
            assert!(is_kept, "{what}: {path}, {report:?}");
        }
    }
}

/// What is in the files, and their extended attributes.
fn contents(tree: &Tree) -> Vec<&[u8]> {
    let seen = tree.iter().map(|(path, (_, data, more))| {
        let more = more.iter().map(Vec::as_slice);
        [path, data].map(Vec::as_slice).into_iter().chain(more)
    });
    seen.flatten().collect()
}

/// The first difference from the last state, for a failure.
fn differs(made: &Made, found: &Tree) -> String {
    let last = made.states.last().unwrap();
    let paths: BTreeSet<&Vec<u8>> = last.keys().chain(found.keys()).collect();
    let path = paths
        .into_iter()
        .find(|path| last.get(*path) != found.get(*path));
    path.map_or(String::new(), |path| {
        let seen = |tree: &Tree| {
            tree.get(path)
                .map(|(attr, data, more)| format!("{attr:?} {} bytes {more:?}", data.len()))
        };
        let path = String::from_utf8_lossy(path);
        format!("{path}: {:?} was {:?}", seen(found), seen(last))
    })
}

macro_rules! personalities {
    ($($name:ident: $personality:ident,)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn metadata_that_was_unmounted() {
                fuzz(Personality::$personality, true);
            }

            #[test]
            fn metadata_that_was_not_unmounted() {
                fuzz(Personality::$personality, false);
            }
        }
    )*};
}

personalities! {
    of_bytefs: ByteFs,
    of_bytefs_log: ByteFsLog,
    of_bytefs_dual: ByteFsDual,
    of_ext4_like: Ext4Like,
    of_pmfs_like: PmfsLike,
    of_f2fs_like: F2fsLike,
    of_nova_like: NovaLike,
}
