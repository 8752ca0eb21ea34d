//! Mends what the walk has found: nothing that can be reached is given up.

use super::rebuild::{self, Built};
use super::walk::{Seen, Walk};
use super::{CheckReport, LOST, NOT_UNMOUNTED, lost_name};
use crate::dir::Found;
use crate::fs::replay::{clear, headers};
use crate::fs::{FileSystem, MountOptions, address, write_checkpoint, write_twins};
use crate::layout::{
    self, BITS_PER_BLOCK, BITS_PER_LINE, BLOCK, Extent, INODE_BYTES, Inode, LINE, Mode,
    STATE_BLOCK, Superblock, free_span, seal,
};
use crate::state::pmem::Window;
use crate::tx::Tx;
use crate::{BlockNo, Caller, FileKind, FsError, Ino, MountError, Timestamp};
use core::ops::Range;
use port::{Acknowledge, AnyClock, Device};
use std::collections::BTreeMap;
use units::Bytes;

/// Mends, and says of each problem what was done about it.
///
/// Behind any write of it the power may be cut: names are in new blocks before their directory's
/// inode leaves the old ones, everything else is found again, and until the end the superblock says
/// that a repair has begun. With segments nothing is written before all of it, in free segments.
pub(super) async fn repair<D: Device + Clone>(
    walk: &mut Walk<'_, D>,
    report: &mut CheckReport,
) -> Result<(), MountError> {
    let mut superblock = walk.superblock;
    let is_in_window = frames_to_bring(walk).await?;
    superblock.is_clean = false;
    superblock.is_repairing = true;
    if walk.segments.is_none() {
        put_superblock(walk, &superblock).await?;
    }
    // What is mended below is changed where it is then.
    for block in core::mem::take(&mut walk.lost_blocks) {
        write(walk, block, &[0; BLOCK]).await?;
    }
    let (built, without) = rebuild::directories(walk).await?;
    if walk.segments.is_none() && !built.is_empty() {
        walk.device.flush().await?;
    }
    mend_names(walk).await?;
    mend_extents(walk, &built).await?;
    mend_inodes(walk, &built).await?;
    mend_bitmaps(walk).await?;
    if walk.has_orphans {
        let mut block = walk.read(STATE_BLOCK).await?;
        block[..LINE].fill(0);
        seal(&mut block[..LINE]);
        write(walk, STATE_BLOCK, &block).await?;
    }
    // A clean one is mounted without a look at the window.
    superblock.is_clean = !is_in_window;
    superblock.is_repairing = false;
    if let Some(segments) = &mut walk.segments {
        let changed = core::mem::take(&mut walk.changed);
        write_checkpoint(walk.device, segments, &changed).await?;
        superblock.checkpoint = segments.version;
    }
    if !walk.geometry.journal.is_empty() {
        // Journals and logs are of no use any more, whatever their numbers.
        let area = walk.geometry.journal.clone();
        let size = Bytes::new(area.len() as u64 * BLOCK as u64);
        let at = address(BlockNo(area.start));
        walk.device.trim(at, size).await?;
    }
    put_superblock(walk, &superblock).await?;
    if let Some(segments) = &mut walk.segments {
        write_twins(walk.device, segments).await?;
    }
    let left = match is_in_window {
        true => bring_frames(walk).await,
        false => None,
    };
    let stay = match left {
        None => adopt(walk).await?,
        Some(_) => None,
    };
    // What is still wrong is said by looking once more.
    let superblock = crate::fs::read_superblock(walk.device).await?;
    let mut again = Walk::new(walk.device, superblock).await?;
    again.run().await?;
    for problem in &mut report.problems {
        let is_unmounted = left.is_none() || !problem.what.starts_with(NOT_UNMOUNTED);
        let is_found = again.problems.iter().any(|left| left.what == problem.what);
        if problem.repaired.is_none() {
            problem.repaired = (is_unmounted && !is_found).then(|| "mended".into());
        }
    }
    let known = |what: &str| report.problems.iter().any(|problem| problem.what == what);
    let new = again
        .problems
        .into_iter()
        .filter(|problem| !known(&problem.what));
    let new: Vec<_> = new.collect();
    report.problems.extend(new);
    if let Some(why) = stay {
        report.tell(format!("files without a name stay: {why}"));
    }
    if let Some(why) = left {
        report.tell(format!("behind the repair it cannot be unmounted: {why}"));
    }
    for ino in without {
        report.tell(format!(
            "there is no room to build {ino} anew from its names; remove files and repair again"
        ));
    }
    Ok(())
}

/// Whether the window has pages that are to be brought to their files. Where the file system was
/// unmounted it has none; what an earlier repair has left there is nobody's.
async fn frames_to_bring<D: Device>(walk: &Walk<'_, D>) -> Result<bool, MountError> {
    let Some(window) = Window::of(&walk.device.shape()) else {
        return Ok(false);
    };
    let seed = walk.superblock.hash_seed();
    let found = headers(walk.device, &window, seed).await?;
    if walk.superblock.is_clean {
        let frames = found.iter().map(|(frame, _)| *frame);
        clear(walk.device, &window, frames).await?;
    }
    Ok(!walk.superblock.is_clean && !found.is_empty())
}

/// Brings pages from the window to their files, as a mount does; gives why some were not.
async fn bring_frames<D: Device + Clone>(walk: &Walk<'_, D>) -> Option<String> {
    let device = walk.device.clone();
    let fs = FileSystem::mount(device, AnyClock::Still, MountOptions::default()).await;
    let fs = match fs {
        Ok(fs) => fs,
        Err(error) => return Some(error.to_string()),
    };
    let done = match fs.failed().as_ref() {
        None => fs.unmount().await,
        Some(_) => match fs.failed_to_bring().await {
            Ok(error) => return Some(error.to_string()),
            Err(error) => Err(error),
        },
    };
    done.err().map(|error| error.to_string())
}

/// Writes the superblock behind everything that was written before.
async fn put_superblock<D: Device>(
    walk: &Walk<'_, D>,
    superblock: &Superblock,
) -> Result<(), MountError> {
    let bytes = superblock.encode();
    walk.device.flush().await?;
    for place in [BlockNo(0), walk.geometry.superblock_copy] {
        write_at(walk, place, &bytes).await?;
    }
    walk.device.flush().await?;
    Ok(())
}

/// Writes a block of a number; where numbers lead to places, together with all others at the end.
pub(super) async fn write<D: Device>(
    walk: &mut Walk<'_, D>,
    block: BlockNo,
    bytes: &[u8],
) -> Result<(), MountError> {
    if walk.segments.is_some() {
        let mut copy = Box::new([0; BLOCK]);
        copy.copy_from_slice(bytes);
        walk.changed.insert(block, copy);
        return Ok(());
    }
    write_at(walk, block, bytes).await
}

async fn write_at<D: Device>(
    walk: &Walk<'_, D>,
    block: BlockNo,
    bytes: &[u8],
) -> Result<(), MountError> {
    let durable = Acknowledge::Durable;
    walk.device
        .write_blocks(address(block), bytes, durable)
        .await?;
    Ok(())
}

/// Names that lead nowhere go.
async fn mend_names<D: Device>(walk: &mut Walk<'_, D>) -> Result<(), MountError> {
    for bad in core::mem::take(&mut walk.bad_names) {
        let mut block = walk.read(bad.block).await?;
        for line in bad.line..bad.line + bad.span {
            block[line * LINE..(line + 1) * LINE].copy_from_slice(&free_span(1));
        }
        write(walk, bad.block, &block).await?;
    }
    Ok(())
}

/// Extents that are not whole go: their pages read as zeroes, which the report says.
async fn mend_extents<D: Device>(
    walk: &mut Walk<'_, D>,
    built: &BTreeMap<Ino, Built>,
) -> Result<(), MountError> {
    for (block, at) in walk.bad_slots.clone() {
        let mut bytes = walk.read(block).await?;
        bytes[at..at + Extent::BYTES].fill(0);
        write(walk, block, &bytes).await?;
    }
    for block in walk.bad_heads.clone() {
        let mut bytes = walk.read(block).await?;
        bytes[..LINE].fill(0);
        write(walk, block, &bytes).await?;
    }
    // Whoever loses blocks has them no more in the bitmap either.
    for (ino, built) in built {
        let kept = walk.inodes[ino].inode.xattrs.0;
        walk.owners
            .retain(|block, owner| owner != ino || *block == kept);
        walk.owners
            .extend(built.blocks.iter().map(|block| (block.0, *ino)));
    }
    for seen in walk.inodes.values().filter(|seen| seen.has_bad_xattrs) {
        walk.owners.remove(&seen.inode.xattrs.0);
    }
    walk.bitmaps_differ = true;
    Ok(())
}

/// Counts of inodes become what was found; inodes that are not whole are given up, for nobody knows
/// what they were.
async fn mend_inodes<D: Device>(
    walk: &mut Walk<'_, D>,
    built: &BTreeMap<Ino, Built>,
) -> Result<(), MountError> {
    for ino in walk.torn.clone() {
        let (block, at) = walk.geometry.inode_place(ino);
        let mut bytes = walk.read(block).await?;
        let free = match walk.segments {
            Some(_) => [0; INODE_BYTES],
            None => Inode::free(1),
        };
        bytes[at..at + INODE_BYTES].copy_from_slice(&free);
        write(walk, block, &bytes).await?;
    }
    if !walk.inodes.contains_key(&Ino::ROOT) {
        mend_root(walk).await?;
    }
    let mut changed = Vec::new();
    for (ino, seen) in &walk.inodes {
        let mut inode = seen.inode;
        let is_lost = walk.lost.contains(ino);
        inode.blocks = seen.blocks;
        if let Some(built) = built.get(ino) {
            built.put(&mut inode);
            inode.blocks = u32::from(inode.xattrs.0 != 0) + built.blocks.len() as u32;
        }
        if seen.has_bad_xattrs {
            inode.xattrs = BlockNo(0);
            inode.blocks = inode.blocks.saturating_sub(1);
        }
        inode.next_orphan = Ino::NONE;
        match inode.mode.kind {
            FileKind::Directory => {
                inode.links = 2 + seen.children;
                inode.size = seen.entries;
                if !is_lost {
                    inode.parent = seen.parent;
                }
            }
            _ => inode.links = seen.names,
        }
        if inode != seen.inode {
            changed.push((*ino, inode));
        }
    }
    for (ino, inode) in changed {
        let (block, at) = walk.geometry.inode_place(ino);
        let mut bytes = walk.read(block).await?;
        bytes[at..at + INODE_BYTES].copy_from_slice(&inode.encode());
        write(walk, block, &bytes).await?;
    }
    Ok(())
}

/// An empty root directory; what was in the old one has no name and comes to `lost+found`.
async fn mend_root<D: Device>(walk: &mut Walk<'_, D>) -> Result<(), MountError> {
    let mode = Mode {
        kind: FileKind::Directory,
        permissions: 0o755,
    };
    let mut inode = Inode::new(mode, (0, 0), 1, Timestamp(0));
    inode.links = 2;
    inode.parent = Ino::ROOT;
    let (block, at) = walk.geometry.inode_place(Ino::ROOT);
    let mut bytes = walk.read(block).await?;
    bytes[at..at + INODE_BYTES].copy_from_slice(&inode.encode());
    write(walk, block, &bytes).await?;
    let seen = Seen {
        inode,
        names: 0,
        children: 0,
        entries: 0,
        blocks: 0,
        has_bad_xattrs: false,
        is_reached: true,
        parent: Ino::ROOT,
    };
    walk.inodes.insert(Ino::ROOT, seen);
    walk.bitmaps_differ = true;
    Ok(())
}

/// Bitmaps are made anew from what is in use.
async fn mend_bitmaps<D: Device>(walk: &mut Walk<'_, D>) -> Result<(), MountError> {
    if !walk.bitmaps_differ {
        return Ok(());
    }
    for (block, bytes) in bitmaps(walk) {
        write(walk, block, &bytes).await?;
    }
    Ok(())
}

/// Bitmaps of what was found to be in use, block by block.
pub(super) fn bitmaps<D: Device>(walk: &Walk<'_, D>) -> Vec<(BlockNo, Vec<u8>)> {
    let blocks: Vec<u32> = walk.owners.keys().copied().collect();
    let inodes: Vec<u32> = walk.inodes.keys().map(|ino| ino.0).collect();
    let areas = [
        (walk.geometry.block_bitmap.clone(), blocks),
        (walk.geometry.inode_bitmap.clone(), inodes),
    ];
    let areas = areas.into_iter();
    let all = areas.flat_map(|(area, used)| (area.start..).zip(bitmap(&area, used)));
    all.map(|(block, bytes)| (BlockNo(block), bytes)).collect()
}

fn bitmap(area: &Range<u32>, used: Vec<u32>) -> Vec<Vec<u8>> {
    let mut blocks = vec![vec![0; BLOCK]; area.len()];
    for number in used {
        let (block, line, bit) = layout::bit_place(number);
        debug_assert!(bit < BITS_PER_LINE && number / BITS_PER_BLOCK == block);
        if let Some(bytes) = blocks.get_mut(block as usize) {
            layout::set(&mut bytes[line * LINE..(line + 1) * LINE], bit, true);
        }
    }
    for bytes in &mut blocks {
        bytes.chunks_exact_mut(LINE).for_each(layout::seal_bits);
    }
    blocks
}

/// Files without a name come to a directory for them. Says why not, if they do not.
async fn adopt<D: Device + Clone>(walk: &Walk<'_, D>) -> Result<Option<String>, MountError> {
    if walk.lost.is_empty() || !walk.inodes.contains_key(&Ino::ROOT) {
        return Ok(None);
    }
    let device = walk.device.clone();
    let fs = FileSystem::mount(device, AnyClock::Still, MountOptions::default()).await?;
    let done = async {
        let lost = place_for_lost(&fs).await?;
        for ino in &walk.lost {
            let name = lost_name(*ino);
            fs.change(256, |tx| adopt_one(tx, *ino, lost, name.as_bytes()))
                .await?;
        }
        Ok::<_, FsError>(())
    };
    let done = done.await;
    let unmounted = fs.unmount().await;
    match done.and(unmounted) {
        Ok(()) => Ok(None),
        // The rest is mended all the same.
        Err(error @ (FsError::NoSpace | FsError::NoInodes)) => Ok(Some(error.to_string())),
        Err(error) => Err(MountError::Device(format!(
            "files without a name stay: {error}"
        ))),
    }
}

/// The directory for files without a name. Whoever may write to the root may have taken its name
/// for something else: then it has a number behind it.
async fn place_for_lost<D: Device + Clone>(fs: &FileSystem<D, AnyClock>) -> Result<Ino, FsError> {
    let caller = Caller {
        uid: 0,
        gid: 0,
        core: 0,
        now: Timestamp(0),
    };
    let mut name = LOST.to_vec();
    for number in 1.. {
        match fs.lookup(Ino::ROOT, &name).await {
            Ok(found) if found.kind == FileKind::Directory => return Ok(found.ino),
            Ok(_) => name = [LOST, format!(".{number}").as_bytes()].concat(),
            Err(FsError::NotFound) => {
                let made = fs.mkdir(&caller, Ino::ROOT, &name, 0o700).await?;
                return Ok(made.ino);
            }
            Err(error) => return Err(error),
        }
    }
    unreachable!("a directory has not so many names")
}

fn adopt_one(tx: &mut Tx<'_>, ino: Ino, lost: Ino, name: &[u8]) -> crate::tx::Done<()> {
    let mut dir = tx.directory(lost)?;
    let known: Option<Found> = tx.find_name(lost, &dir, name)?;
    if known.is_some() {
        return Ok(());
    }
    let mut inode = tx.inode(ino)?;
    tx.add_name(lost, &mut dir, name, (ino, inode.mode.kind))?;
    if inode.mode.kind == FileKind::Directory {
        dir.links += 1;
        inode.parent = lost;
    } else {
        inode.links += 1;
    }
    tx.put_inode(ino, &inode)?;
    tx.put_inode(lost, &dir)
}
