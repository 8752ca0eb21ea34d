//! A new file system on a device.

use super::mount::check_device;
use super::{FileSystem, address};
use crate::journal::{self, contents};
use crate::layout::{
    self, BITS_PER_BLOCK, BLOCK, Geometry, Inode, LINE, Mode, Personality, Superblock, bit_place,
};
use crate::logs::Area;
use crate::segments::Segments;
use crate::{BlockNo, FileKind, Ino, MountError, Timestamp};
use port::{Acknowledge, Clock, Device};
use std::collections::BTreeMap;
use units::Bytes;

/// Bytes for which there is an inode, unless told.
const BYTES_PER_INODE: u64 = 16 << 10;
/// The journal's share of the device, and its most.
const JOURNAL_SHARE: u32 = 32;
const JOURNAL_MOST: u32 = (128 << 20) / BLOCK as u32;
const JOURNAL_LEAST: u32 = 256;
/// The least that may be asked for: the record of any operation fits. Blocks hold 160 of an
/// operation's (`tx::MOST_BLOCKS`) and what is around them; lines are a 64th of that.
const BLOCKS_LEAST: u32 = 256;
const LINES_LEAST: u32 = 64;
/// The share of the device that logs of inodes have: a page for each file of 32 KiB.
const LOGS_SHARE: u32 = 8;

/// Blocks of zeroes in one request.
const ZEROES_AT_A_TIME: u32 = 256;

/// What a new file system is to be like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FormatOptions {
    /// How changes are to survive.
    pub personality: Personality,
    /// How many inodes; unless told one for each 16 KiB.
    pub inodes: Option<u32>,
    /// The journal on the host's side; unless told a 32nd of the device, and at most 128 MiB, for
    /// personalities that have one.
    pub journal: Option<Bytes>,
    /// Its name for the world, and the seed of its hashes.
    pub uuid: [u8; 16],
    /// The time of day.
    pub now: Timestamp,
    /// Owner of the root directory.
    pub owner: (u32, u32),
    /// The device is told of blocks that hold nothing. If not, what must read as zeroes is written,
    /// and the rest stays.
    pub trims: bool,
}

impl FormatOptions {
    /// A usual one.
    pub const fn new(personality: Personality) -> Self {
        Self {
            personality,
            inodes: None,
            journal: None,
            uuid: *b"entresol-bytefs!",
            now: Timestamp(0),
            owner: (0, 0),
            trims: true,
        }
    }

    /// The fewest blocks that a journal may have; it may also be none at all with ByteFS, whose
    /// metadata needs none.
    fn journal_least(&self, inodes: u32) -> u32 {
        match self.personality {
            Personality::ByteFs | Personality::ByteFsLog => contents::BLOCKS_LEAST,
            Personality::ByteFsDual | Personality::PmfsLike => LINES_LEAST,
            Personality::Ext4Like => BLOCKS_LEAST,
            Personality::NovaLike => Area::least(inodes),
            Personality::F2fsLike => 0,
        }
    }

    /// Blocks of the journal that is asked for.
    fn journal_blocks(&self, size: Bytes, inodes: u32, blocks: u32) -> Result<u32, MountError> {
        let least = self.journal_least(inodes);
        let may_be_none = self.personality.needs_transactions() && size == Bytes::ZERO;
        let asked = u32::try_from(size.get() / BLOCK as u64).ok();
        match asked.filter(|asked| *asked < blocks && (*asked >= least || may_be_none)) {
            Some(asked) => Ok(asked),
            None => Err(MountError::Device(format!(
                "--journal is {size}; with {} and {inodes} inodes it must be at least {}{} and \
                 less than the device, \
                 which has {}",
                self.personality,
                Bytes::new(u64::from(least) * BLOCK as u64),
                match self.personality.needs_transactions() {
                    true => " (or 0B, for none)",
                    false => "",
                },
                Bytes::new(u64::from(blocks) * BLOCK as u64),
            ))),
        }
    }

    fn superblock(&self, blocks: u32) -> Result<Superblock, MountError> {
        let inodes = u64::from(blocks) * BLOCK as u64 / BYTES_PER_INODE;
        let inodes = self.inodes.unwrap_or(inodes.max(16) as u32);
        let journal = match (self.journal, self.personality) {
            (_, Personality::F2fsLike) => 0,
            (Some(size), _) => self.journal_blocks(size, inodes, blocks)?,
            (None, Personality::ByteFs | Personality::ByteFsLog) => 0,
            (None, Personality::NovaLike) => (blocks / LOGS_SHARE).max(JOURNAL_LEAST),
            (None, _) => (blocks / JOURNAL_SHARE).clamp(JOURNAL_LEAST, JOURNAL_MOST),
        };
        let superblock = Superblock {
            blocks,
            inodes,
            journal,
            personality: self.personality,
            is_clean: true,
            is_repairing: false,
            mounts: 0,
            uuid: self.uuid,
            created: self.now,
            // The one with which it is made.
            checkpoint: u64::from(self.personality == Personality::F2fsLike),
        };
        if superblock.geometry().is_none() {
            return Err(MountError::Device(format!(
                "a device of {} is too small for a file system with {} inodes and a journal of {}; \
                 ask for less of them or make a larger device",
                Bytes::new(u64::from(blocks) * BLOCK as u64),
                superblock.inodes,
                Bytes::new(u64::from(journal) * BLOCK as u64)
            )));
        }
        Ok(superblock)
    }
}

impl<D: Device, C: Clock> FileSystem<D, C> {
    /// Makes a file system on a device; what was there is gone.
    ///
    /// # Errors
    /// The device is too small, lacks what the personality needs, or fails.
    pub async fn format(device: &D, options: &FormatOptions) -> Result<(), MountError> {
        check_device(device)?;
        let shape = device.shape();
        if options.personality.needs_transactions() && shape.transactions.is_none() {
            return Err(MountError::Device(format!(
                "{} needs transactions of the device, and it has none; make the device with \
                 ssd.log.size=256MiB and ssd.log.tx_log=2MiB, or choose --personality bytefs-dual",
                options.personality
            )));
        }
        let blocks = u32::try_from(shape.capacity.get() / BLOCK as u64).unwrap_or(u32::MAX);
        let superblock = options.superblock(blocks)?;
        let Some(geometry) = superblock.geometry() else {
            unreachable!("looked at just now");
        };
        // An older superblock goes first: half of a new file system is none.
        // Metadata must read as zeroes. The rest need not, but the device should not keep what
        // nobody will read; one that has counted no writes has hardly anything.
        let stats = device.stats();
        let is_used = stats.block_port.writes + stats.byte_port.writes > 0;
        let end = match (is_used && options.trims, &geometry.segments) {
            (true, _) => blocks,
            (false, Some(segments)) => segments.main.start,
            (false, None) => geometry.files.start,
        };
        match options.trims {
            true => {
                let size = Bytes::new(u64::from(end) * BLOCK as u64);
                device.trim(address(BlockNo(0)), size).await?;
            }
            false => write_zeroes(device, end).await?,
        }
        write_root(device, &geometry, options).await?;
        for place in [geometry.superblock_copy, BlockNo(0)] {
            device.flush().await?;
            let bytes = superblock.encode();
            device
                .write_blocks(address(place), &bytes, Acknowledge::Durable)
                .await?;
        }
        device.flush().await?;
        Ok(())
    }
}

/// Writes zeroes to the first blocks of a device.
async fn write_zeroes<D: Device>(device: &D, end: u32) -> Result<(), MountError> {
    let zeroes = vec![0; ZEROES_AT_A_TIME as usize * BLOCK];
    for first in (0..end).step_by(ZEROES_AT_A_TIME as usize) {
        let count = ZEROES_AT_A_TIME.min(end - first);
        write(device, first, &zeroes[..count as usize * BLOCK]).await?;
    }
    Ok(())
}

/// Writes blocks to segments and a checkpoint that has them, on a device that nobody else uses.
/// Until that is whole the one before counts, of which nothing was changed but copies of its table
/// that are damaged: these lead to the new blocks from the moment on when those are durable.
pub(crate) async fn write_checkpoint<D: Device>(
    device: &D,
    segments: &mut Segments,
    blocks: &BTreeMap<BlockNo, Box<[u8; BLOCK]>>,
) -> Result<(), MountError> {
    let no_room = || MountError::Device("no segment is free for a checkpoint".into());
    let placed = journal::segments::place(segments, blocks).ok_or_else(no_room)?;
    for (number, place) in &placed {
        write(device, *place, &blocks[number][..]).await?;
    }
    device.flush().await?;
    journal::segments::settle(segments, blocks, &placed);
    let pack = segments.begin_checkpoint().ok_or_else(no_room)?;
    for (place, bytes) in &pack.tables {
        write(device, *place, bytes).await?;
    }
    write(device, pack.at, &pack.head).await?;
    device.flush().await?;
    write(device, pack.end_place(), &pack.end).await?;
    device.flush().await?;
    segments.end_checkpoint(&pack);
    Ok(())
}

/// Writes the twins of everything that has one, once the superblock says which checkpoint counts.
pub(crate) async fn write_twins<D: Device>(
    device: &D,
    segments: &mut Segments,
) -> Result<(), MountError> {
    for (place, bytes) in segments.twins() {
        write(device, place, &bytes).await?;
    }
    device.flush().await?;
    Ok(())
}

async fn write<D: Device>(device: &D, place: u32, bytes: &[u8]) -> Result<(), MountError> {
    let at = address(BlockNo(place));
    device
        .write_blocks(at, bytes, Acknowledge::Accepted)
        .await?;
    Ok(())
}

async fn write_root<D: Device>(
    device: &D,
    geometry: &Geometry,
    options: &FormatOptions,
) -> Result<(), MountError> {
    let mode = Mode {
        kind: FileKind::Directory,
        permissions: 0o755,
    };
    let mut root = Inode::new(mode, options.owner, 1, options.now);
    root.links = 2;
    root.parent = Ino::ROOT;
    let (place, at) = geometry.inode_place(Ino::ROOT);
    let mut table = vec![0; BLOCK];
    table[at..at + layout::INODE_BYTES].copy_from_slice(&root.encode());
    let (block, line, bit) = bit_place(Ino::ROOT.0);
    debug_assert!(block == 0 && BITS_PER_BLOCK > Ino::ROOT.0);
    let mut bitmap = vec![0; BLOCK];
    let bits = &mut bitmap[line * LINE..(line + 1) * LINE];
    layout::set(bits, bit, true);
    layout::seal_bits(bits);
    let bitmap_place = BlockNo(geometry.inode_bitmap.start);
    if let Some(layout) = &geometry.segments {
        let mut segments = Segments::new(geometry, layout);
        let blocks = [(place, &table), (bitmap_place, &bitmap)];
        let blocks = blocks.map(|(place, bytes)| {
            let mut copy = Box::new([0; BLOCK]);
            copy.copy_from_slice(bytes);
            (place, copy)
        });
        write_checkpoint(device, &mut segments, &blocks.into()).await?;
        return write_twins(device, &mut segments).await;
    }
    for (place, bytes) in [(place, &table), (bitmap_place, &bitmap)] {
        device
            .write_blocks(address(place), bytes, Acknowledge::Durable)
            .await?;
    }
    Ok(())
}
