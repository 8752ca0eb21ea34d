//! The superblock, and where it puts the others.

use super::{
    BITS_PER_BLOCK, BLOCK, INODES_PER_BLOCK, Segmentation, get_u32, get_u64, put_u32, put_u64, sum,
};
use crate::logs::Area;
use crate::{BlockNo, MountError, Timestamp};
use core::fmt;
use core::ops::Range;
use core::str::FromStr;

/// How a superblock begins.
pub const MAGIC: [u8; 8] = *b"ENTRBYFS";
/// Version of everything that stays.
pub const VERSION: u32 = 1;

/// Which file system it is: how it makes changes survive. They share structures and operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Personality {
    /// Bytes and blocks for metadata and data, transactions of the firmware (§4).
    ByteFs,
    /// As ByteFS, but data by blocks alone (§5.4).
    ByteFsLog,
    /// As ByteFS-Log on a device without a log: it journals on the host (§5.4).
    ByteFsDual,
    /// Blocks alone, a journal of blocks on the host, in place afterwards: as Ext4 with JBD2.
    Ext4Like,
    /// Bytes in place with an undo journal of lines on the host: as PMFS.
    PmfsLike,
    /// Blocks alone, appended to logs of segments: as F2FS.
    F2fsLike,
    /// Bytes appended to a log for each inode, pages of contents written elsewhere: as NOVA.
    NovaLike,
}

impl Personality {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::ByteFs,
        Self::ByteFsLog,
        Self::ByteFsDual,
        Self::Ext4Like,
        Self::PmfsLike,
        Self::F2fsLike,
        Self::NovaLike,
    ];

    /// As users say it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ByteFs => "bytefs",
            Self::ByteFsLog => "bytefs-log",
            Self::ByteFsDual => "bytefs-dual",
            Self::Ext4Like => "ext4-like",
            Self::PmfsLike => "pmfs-like",
            Self::F2fsLike => "f2fs-like",
            Self::NovaLike => "nova-like",
        }
    }

    /// Whether the firmware's transactions make its changes atomic.
    pub const fn needs_transactions(self) -> bool {
        matches!(self, Self::ByteFs | Self::ByteFsLog)
    }

    /// Whether blocks of metadata are read before anybody needs them, as Ext4 does with inodes
    /// (`inode_readahead_blks`). Where an inode has a block for itself, as in F2FS, neighbours are
    /// nobody's business.
    pub const fn reads_ahead(self) -> bool {
        !matches!(self, Self::F2fsLike)
    }

    /// Whether a new directory has a block of its own at once, as in Ext4.
    pub const fn has_first_blocks(self) -> bool {
        matches!(self, Self::Ext4Like)
    }

    /// Whether a thread of its own makes batches durable, as JBD2's does.
    pub const fn commits_by_thread(self) -> bool {
        matches!(self, Self::Ext4Like)
    }

    /// Whether metadata goes by bytes.
    pub const fn writes_bytes(self) -> bool {
        !matches!(self, Self::Ext4Like | Self::F2fsLike)
    }

    /// Whether an operation is durable when it is answered, and pages of contents are written
    /// elsewhere, by bytes.
    pub const fn is_synchronous(self) -> bool {
        matches!(self, Self::NovaLike)
    }

    /// Whether what is written in order goes to the device before it must. The competitors leave
    /// it to the clock, as the kernel does while little of its memory is dirty.
    pub const fn writes_behind(self) -> bool {
        matches!(self, Self::ByteFs | Self::ByteFsLog | Self::ByteFsDual)
    }

    /// Whether lines of contents may go with a batch.
    pub const fn writes_data_bytes(self) -> bool {
        matches!(self, Self::ByteFs | Self::PmfsLike)
    }
}

impl fmt::Display for Personality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Personality {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|one| one.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("{text} is no personality of the file system; choose one of {names}")
        })
    }
}

/// What a superblock says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Blocks of the whole.
    pub blocks: u32,
    /// Inodes that there may be; numbers run from 1.
    pub inodes: u32,
    /// Blocks of the journal on the host's side.
    pub journal: u32,
    /// How changes survive.
    pub personality: Personality,
    /// It was unmounted, and nothing was written since.
    pub is_clean: bool,
    /// A repair has begun to change it and has not ended: no journal holds anything of it, and
    /// nobody may mount it before it is repaired.
    pub is_repairing: bool,
    /// How often it was mounted.
    pub mounts: u32,
    /// Its name for the world.
    pub uuid: [u8; 16],
    /// When it was made.
    pub created: Timestamp,
    /// With segments: the checkpoint with which it was unmounted; with logs of inodes: the number
    /// of those that count.
    pub checkpoint: u64,
}

impl Superblock {
    /// As it is written.
    pub fn encode(&self) -> Vec<u8> {
        let mut block = vec![0; BLOCK];
        block[..8].copy_from_slice(&MAGIC);
        put_u32(&mut block, 8, VERSION);
        put_u32(&mut block, 12, BLOCK as u32);
        put_u32(&mut block, 16, self.blocks);
        put_u32(&mut block, 20, self.inodes);
        put_u32(&mut block, 24, self.journal);
        let place = Personality::ALL
            .iter()
            .position(|one| *one == self.personality);
        put_u32(&mut block, 28, place.unwrap_or_default() as u32);
        put_u32(&mut block, 32, u32::from(self.is_clean));
        put_u32(&mut block, 36, self.mounts);
        block[40..56].copy_from_slice(&self.uuid);
        put_u64(&mut block, 56, self.created.0 as u64);
        put_u64(&mut block, 64, self.checkpoint);
        put_u32(&mut block, 72, u32::from(self.is_repairing));
        let sum = sum(&block[..BLOCK - 4]);
        put_u32(&mut block, BLOCK - 4, sum);
        block
    }

    /// What a block says.
    ///
    /// # Errors
    /// It is none of ours, of a later version, or damaged.
    pub fn decode(block: &[u8]) -> Result<Self, MountError> {
        if block[..8] != MAGIC {
            return Err(MountError::NoFileSystem);
        }
        let damaged = || MountError::Damaged {
            what: "the superblock".into(),
        };
        let is_whole = get_u32(block, BLOCK - 4) == sum(&block[..BLOCK - 4]);
        let version = get_u32(block, 8);
        if version > VERSION && is_whole {
            return Err(MountError::Newer { found: version });
        }
        let personality = Personality::ALL.get(get_u32(block, 28) as usize).copied();
        let (true, Some(personality)) = (is_whole && version == VERSION, personality) else {
            return Err(damaged());
        };
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&block[40..56]);
        let found = Self {
            blocks: get_u32(block, 16),
            inodes: get_u32(block, 20),
            journal: get_u32(block, 24),
            personality,
            is_clean: get_u32(block, 32) != 0,
            is_repairing: get_u32(block, 72) != 0,
            mounts: get_u32(block, 36),
            uuid,
            created: Timestamp(get_u64(block, 56) as i64),
            checkpoint: get_u64(block, 64),
        };
        found.geometry().map(|_| found).ok_or_else(damaged)
    }

    /// Where everything is; none if the parts do not fit into the whole.
    pub fn geometry(&self) -> Option<Geometry> {
        match self.personality {
            Personality::F2fsLike => Geometry::of_segments(self.blocks, self.inodes),
            Personality::NovaLike => Geometry::of(self.blocks, self.inodes, self.journal)
                .filter(|geometry| Area::of(geometry).is_some()),
            _ => Geometry::of(self.blocks, self.inodes, self.journal),
        }
    }

    /// The seed of hashes of names.
    pub fn hash_seed(&self) -> u64 {
        get_u64(&self.uuid, 0) ^ get_u64(&self.uuid, 8).rotate_left(32)
    }
}

/// Where everything is: ranges of blocks, one behind the other. With segments these are numbers
/// that a table leads to places, and have nothing to do with where a block is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// The whole.
    pub blocks: u32,
    /// Inodes.
    pub inodes: u32,
    /// The journal on the host's side.
    pub journal: Range<u32>,
    /// Which blocks are in use.
    pub block_bitmap: Range<u32>,
    /// Which inodes are in use; bit 0 is of no inode.
    pub inode_bitmap: Range<u32>,
    /// Inodes.
    pub inode_table: Range<u32>,
    /// Files and their metadata; behind it lies the copy of the superblock.
    pub files: Range<u32>,
    /// Inodes of a block of the table.
    pub inodes_per_block: u32,
    /// Where the copy of the superblock is on the device.
    pub superblock_copy: BlockNo,
    /// Segments, if there are any.
    pub segments: Option<Segmentation>,
}

impl Geometry {
    fn of(blocks: u32, inodes: u32, journal: u32) -> Option<Self> {
        Self::with(blocks, inodes, journal, INODES_PER_BLOCK)
    }

    fn with(blocks: u32, inodes: u32, journal: u32, inodes_per_block: u32) -> Option<Self> {
        let mut next = super::STATE_BLOCK.0 + 1;
        let mut take = |count: u32| {
            let begin = next;
            next = next.checked_add(count)?;
            Some(begin..next)
        };
        let numbers = inodes.checked_add(1)?;
        let journal = take(journal)?;
        let block_bitmap = take(blocks.div_ceil(BITS_PER_BLOCK))?;
        let inode_bitmap = take(numbers.div_ceil(BITS_PER_BLOCK))?;
        let inode_table = take(numbers.div_ceil(inodes_per_block))?;
        let last = blocks.checked_sub(1)?;
        let files = inode_table.end..last;
        (files.start < files.end && inodes > 0).then_some(Self {
            blocks,
            inodes,
            journal,
            block_bitmap,
            inode_bitmap,
            inode_table,
            files,
            inodes_per_block,
            superblock_copy: BlockNo(last),
            segments: None,
        })
    }

    /// An inode has a block for itself, as in F2FS, and the files have as many numbers as the
    /// segments have room.
    fn of_segments(blocks: u32, inodes: u32) -> Option<Self> {
        let numbers = inodes.checked_add(1)?.checked_add(blocks)?;
        let segments = Segmentation::of(blocks, numbers.checked_add(3)?)?;
        let bitmaps = numbers.div_ceil(BITS_PER_BLOCK) + (inodes + 1).div_ceil(BITS_PER_BLOCK);
        let files = segments.usable().checked_sub(bitmaps + 2)?;
        // What lies before the files, and a last number that is nothing.
        let before = bitmaps.checked_add(inodes)?.checked_add(4)?;
        let geometry = Self::with(before.checked_add(files)?, inodes, 0, 1)?;
        Some(Self {
            superblock_copy: BlockNo(blocks.checked_sub(1)?),
            segments: Some(segments),
            ..geometry
        })
    }

    /// The block of an inode in the table, and its first byte there.
    pub fn inode_place(&self, ino: crate::Ino) -> (BlockNo, usize) {
        let block = self.inode_table.start + ino.0 / self.inodes_per_block;
        let at = (ino.0 % self.inodes_per_block) as usize * super::INODE_BYTES;
        (BlockNo(block), at)
    }

    /// Blocks of the device in which nothing is when a file system is new.
    pub fn unused_when_new(&self) -> Range<u32> {
        match &self.segments {
            Some(segments) => segments.main.start + segments.blocks..segments.main.end,
            None => self.files.clone(),
        }
    }
}
