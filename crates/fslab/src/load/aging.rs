//! A drive that has been in use: what the host has written and forgotten, the flash still holds.
//!
//! No file system here tells the device of freed blocks while it is mounted (Ext4 does not without
//! `discard`), so a file that comes and goes leaves its pages mapped, and the flash has to be
//! cleaned from the first write of a load.

use super::error::LoadError;
use super::vfs::caller;
use bytefs::{Caller, FileSystem, FsError, Ino, WriteOptions};
use port::{Clock, Device};
use units::filling::fill;
use units::{Ratio, Stream};

const PAGE: usize = 4096;
/// Pages of a write in order.
const RUN: usize = 256;
const NAME: &[u8] = b"aged";

/// Of the free blocks, in percent: what is left lets personalities that write elsewhere do so.
/// What a file system keeps for itself is mapped as well when it has used it, so that the flash is
/// as full whatever that is.
const FILLED: u64 = 97;

/// One small file for so many pages, each synced: a journal of a 32nd of the device comes round.
const SMALL: u64 = 32;

/// Fills the file system with a file, overwrites a share of its pages at random places, and removes
/// it; then makes, syncs and removes small files.
pub(super) async fn age<D: Device, C: Clock>(
    files: &FileSystem<D, C>,
    share: Ratio,
    seed: u64,
    clock: &C,
) -> Result<(), LoadError> {
    let failed = |error: FsError| LoadError::of("aging the flash", error);
    let pages = files.usage().free_blocks * FILLED / 100;
    let by = || caller(0, clock.now());
    let attr = FileSystem::create(files, &by(), Ino::ROOT, NAME, 0o600).await;
    let ino = attr.map_err(failed)?.ino;
    let mut stream = Stream::new(seed, "load/aged");
    let mut content = vec![0; RUN * PAGE];
    let mut page = 0;
    while page < pages {
        let run = (RUN as u64).min(pages - page) as usize;
        let part = &mut content[..run * PAGE];
        fill(page, part);
        put(files, ino, page, part, clock).await.map_err(failed)?;
        page += run as u64;
    }
    for number in pages..pages + share.of(pages) {
        let part = &mut content[..PAGE];
        fill(number, part);
        let at = stream.below(pages);
        put(files, ino, at, part, clock).await.map_err(failed)?;
    }
    remove(files, &by(), ino).await.map_err(failed)?;
    files.sync().await.map_err(failed)?;
    for _ in 0..pages / SMALL {
        let made = FileSystem::create(files, &by(), Ino::ROOT, NAME, 0o600).await;
        let ino = made.map_err(failed)?.ino;
        files.fsync(ino, false).await.map_err(failed)?;
        remove(files, &by(), ino).await.map_err(failed)?;
    }
    files.sync().await.map_err(failed)
}

/// Closes the file and removes it.
async fn remove<D: Device, C: Clock>(
    files: &FileSystem<D, C>,
    by: &Caller,
    ino: Ino,
) -> Result<(), FsError> {
    files.release(ino).await?;
    FileSystem::unlink(files, by, Ino::ROOT, NAME).await
}

/// Writes pages past the host's cache.
async fn put<D: Device, C: Clock>(
    files: &FileSystem<D, C>,
    ino: Ino,
    page: u64,
    content: &[u8],
    clock: &C,
) -> Result<(), FsError> {
    let options = WriteOptions {
        direct: true,
        ..WriteOptions::default()
    };
    let (from, mut done) = (page * PAGE as u64, 0);
    while done < content.len() {
        let (by, rest) = (caller(0, clock.now()), &content[done..]);
        match FileSystem::write(files, &by, ino, from + done as u64, rest, options).await? {
            0 => return Err(FsError::NoSpace),
            written => done += written,
        }
    }
    Ok(())
}
