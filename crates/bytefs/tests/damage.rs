//! Damaged metadata: told, never a panic, and mended by fsck such that what is whole stays.

use crate::common::{AnyClock, Fs, ram};
use bytefs::layout::{BLOCK, LINE, Superblock};
use bytefs::{
    Caller, FileKind, FormatOptions, FsError, Ino, MountError, MountOptions, Personality, SetXattr,
    Timestamp, WriteOptions, check,
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
const SIZE: Bytes = Bytes::from_mib(4);

/// A file system to be damaged.
#[derive(Clone, Copy)]
struct Made {
    personality: Personality,
    size: Bytes,
    /// In each of three directories.
    files: usize,
    /// Places in each block that are damaged, one at a time.
    places: usize,
}

const IN_PLACE: Made = Made {
    personality: Personality::ByteFsDual,
    size: SIZE,
    files: 70,
    places: 6,
};
/// An inode has a block for itself here.
const IN_SEGMENTS: Made = Made {
    personality: Personality::F2fsLike,
    size: Bytes::from_mib(8),
    files: 12,
    places: 1,
};

/// As in place: logs of inodes are empty behind an unmount.
const IN_LOGS: Made = Made {
    personality: Personality::NovaLike,
    places: 2,
    ..IN_PLACE
};

fn run<T>(future: impl Future<Output = T>) -> T {
    let idle = Ram::new(Bytes::from_kib(4), Bytes::from_kib(4));
    block_on(&idle, future)
}

fn bytes_of(ram: &AnyDevice) -> Vec<u8> {
    let mut bytes = vec![0; ram.shape().capacity.get() as usize];
    run(ram.read(ByteAddr::new(0), &mut bytes)).unwrap();
    bytes
}

fn ram_of(bytes: &[u8]) -> AnyDevice {
    let ram = ram(Bytes::new(bytes.len() as u64));
    run(ram.write(ByteAddr::new(0), bytes, TxId::NONE)).unwrap();
    ram
}

/// A file system with a bit of everything, unmounted.
fn image(made: Made) -> Vec<u8> {
    let ram = ram(made.size);
    let mut options = FormatOptions::new(made.personality);
    options.journal = Some(Bytes::from_kib(256));
    options.inodes = Some(500);
    let fs = run(async {
        Fs::format(&ram, &options).await.unwrap();
        let fs = Fs::mount(ram, AnyClock::Still, MountOptions::default())
            .await
            .unwrap();
        for dir in 0..3 {
            let name = format!("dir {dir}");
            let dir = fs
                .mkdir(&CALLER, Ino::ROOT, name.as_bytes(), 0o755)
                .await
                .unwrap()
                .ino;
            for file in 0..made.files {
                let name = format!("file {file} {}", "y".repeat(file));
                let file_ino = fs
                    .create(&CALLER, dir, name.as_bytes(), 0o644)
                    .await
                    .unwrap()
                    .ino;
                let data = vec![file as u8; file * 100];
                fs.write(&CALLER, file_ino, 0, &data, WriteOptions::default())
                    .await
                    .unwrap();
                if file == 7 {
                    fs.set_xattr(&CALLER, file_ino, b"user.x", b"yes", SetXattr::Any)
                        .await
                        .unwrap();
                }
                if file % 5 == 0 {
                    fs.fsync(file_ino, false).await.unwrap();
                }
                fs.release(file_ino).await.unwrap();
            }
        }
        let many = fs
            .create(&CALLER, Ino::ROOT, b"many extents", 0o644)
            .await
            .unwrap()
            .ino;
        for page in (0..40).step_by(2) {
            let at = page * BLOCK as u64;
            fs.write(
                &CALLER,
                many,
                at,
                &[page as u8 + 1; BLOCK],
                WriteOptions::default(),
            )
            .await
            .unwrap();
        }
        fs.symlink(&CALLER, Ino::ROOT, b"link", b"dir 1/file 3")
            .await
            .unwrap();
        fs.unmount().await.unwrap();
        fs
    });
    bytes_of(&fs.into_device())
}

/// Everything that can be read: path to contents. Damage may end it, with an error.
async fn walk(fs: &Fs) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, FsError> {
    let mut found = BTreeMap::new();
    let mut queue = vec![(Ino::ROOT, Vec::new())];
    while let Some((dir, path)) = queue.pop() {
        let mut from = 0;
        loop {
            let entries = fs.readdir(dir, from, 1000).await?;
            let Some(last) = entries.last() else { break };
            from = last.next;
            for entry in entries {
                if entry.name == b"." || entry.name == b".." {
                    continue;
                }
                let mut path = path.clone();
                path.push(b'/');
                path.extend_from_slice(&entry.name);
                let data = match entry.kind {
                    FileKind::Directory => {
                        queue.push((entry.ino, path.clone()));
                        Vec::new()
                    }
                    FileKind::Symlink => fs.readlink(entry.ino).await?,
                    _ => fs.read(entry.ino, 0, 1 << 20, false).await?,
                };
                let _ = fs.list_xattr(entry.ino).await?;
                found.insert(path, data);
            }
        }
    }
    Ok(found)
}

fn walk_image(bytes: &[u8]) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, String> {
    run(async {
        let fs = Fs::mount(ram_of(bytes), AnyClock::Still, MountOptions::default()).await;
        let fs = fs.map_err(|error| error.to_string())?;
        walk(&fs).await.map_err(|error| error.to_string())
    })
}

#[test]
fn damage_of_any_block_of_metadata_is_told_or_mended_and_never_wrong_data() {
    damage(IN_PLACE);
}

#[test]
fn damage_of_any_block_behind_an_unmount_of_logs_is_told_or_mended_and_never_wrong_data() {
    damage(IN_LOGS);
}

#[test]
fn damage_of_any_block_of_a_log_is_told_or_mended_and_never_wrong_data() {
    damage(IN_SEGMENTS);
}

fn damage(made: Made) {
    let image = image(made);
    let whole = walk_image(&image).unwrap();
    assert_eq!(whole.len(), 3 + 3 * made.files + 2);
    let superblock = Superblock::decode(&image[..BLOCK]).unwrap();
    let geometry = superblock.geometry().unwrap();
    let has_segments = geometry.segments.is_some();
    let contents: Vec<&[u8]> = whole.values().map(Vec::as_slice).collect();
    let mut random = Stream::new(1, "damage");
    let mut blocks = 0;
    for block in (0..superblock.blocks).filter(|block| !geometry.journal.contains(block)) {
        let at = block as usize * BLOCK;
        let bytes = &image[at..at + BLOCK];
        let is_data = contents
            .iter()
            .any(|data| data.chunks(BLOCK).any(|page| bytes.starts_with(page)));
        let may_be_data = has_segments || geometry.files.contains(&block);
        if bytes.iter().all(|byte| *byte == 0) || (is_data && may_be_data) {
            continue;
        }
        blocks += 1;
        for _ in 0..made.places {
            let mut broken = image.clone();
            // Where something is written, and the head, of which zeroes say something too: damage
            // elsewhere says nothing.
            let is_used = |byte: &usize| bytes[*byte] != 0 || *byte < LINE;
            let used: Vec<usize> = (0..BLOCK).filter(is_used).collect();
            let byte = at + used[random.below(used.len() as u64) as usize];
            let bits = 1 + random.below(255) as u8;
            let count = 1 + random.below(8) as usize;
            for offset in 0..count {
                let byte = (byte + offset).min(at + BLOCK - 1);
                broken[byte] ^= bits;
            }
            let found = walk_image(&broken);
            if let Ok(found) = &found {
                for (path, data) in found {
                    let name = String::from_utf8_lossy(path);
                    assert_eq!(whole.get(path), Some(data), "{name}, block {block}");
                }
            }
            let ram = ram_of(&broken);
            let first = run(check(&ram, true));
            let first = match first {
                Ok(first) => first,
                // Superblock and copy are two: one of them is always whole here.
                Err(error) => panic!("block {block}, byte {}: {error}", byte - at),
            };
            let again = run(check(&ram, false)).unwrap();
            assert!(
                again.is_clean(),
                "block {block}, byte {}: {first:?} then {again:?}",
                byte - at
            );
            let mended = walk_image(&bytes_of(&ram)).unwrap();
            let told = |problem: &bytefs::Problem| problem.what.contains("no root directory");
            if first.problems.iter().any(told) {
                // Everything is there, below another name.
                assert!(mended.len() > whole.len(), "block {block}");
                continue;
            }
            let lost = whole
                .keys()
                .filter(|path| !mended.contains_key(*path))
                .count();
            assert!(lost <= 71, "block {block}: {lost} files are lost");
        }
    }
    assert!(blocks > 15, "{blocks}");
}

#[test]
fn foreign_and_newer_images_are_refused_with_a_sentence() {
    let told = |bytes: &[u8]| {
        run(Fs::mount(
            ram_of(bytes),
            AnyClock::Still,
            MountOptions::default(),
        ))
        .map(|_| ())
        .unwrap_err()
    };
    let mut bytes = vec![7; SIZE.get() as usize];
    assert_eq!(told(&bytes), MountError::NoFileSystem);
    assert_eq!(
        run(check(&ram_of(&bytes), true)),
        Err(MountError::NoFileSystem)
    );
    bytes.copy_from_slice(&image(IN_PLACE));
    bytes[9] = 1;
    assert!(matches!(told(&bytes), MountError::Damaged { .. }));
    let sum = bytefs::layout::sum(&bytes[..BLOCK - 4]);
    bytes[BLOCK - 4..BLOCK].copy_from_slice(&sum.to_le_bytes());
    assert_eq!(told(&bytes), MountError::Newer { found: 257 });
    let half = ram(Bytes::from_mib(2));
    let image = image(IN_PLACE);
    run(half.write(ByteAddr::new(0), &image[..2 << 20], TxId::NONE)).unwrap();
    let error = run(Fs::mount(half, AnyClock::Still, MountOptions::default())).map(|_| ());
    let error = error.unwrap_err().to_string();
    assert!(error.contains("has room for 512"), "{error}");
}
