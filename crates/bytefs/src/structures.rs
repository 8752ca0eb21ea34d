//! Which structure of the file system a block of metadata belongs to.

use crate::BlockNo;
use crate::dir::is_names;
use crate::layout::{BLOCK, Geometry, STATE_BLOCK};

/// A structure of metadata, as the study in §3 tells them apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Structure {
    /// Superblock, its copy, and the list of files without a name.
    Superblock,
    /// Bitmaps of blocks and of inodes; with segments the table of places, too (F2FS's SIT, NAT).
    Bitmaps,
    /// Inodes.
    Inodes,
    /// Where contents are, beyond the inode: blocks of extents. Attributes that have a block are
    /// counted here, too.
    Pointers,
    /// Entries of directories.
    Entries,
}

impl Structure {
    /// How many there are.
    pub const COUNT: usize = 5;

    /// All of them.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Superblock,
        Self::Bitmaps,
        Self::Inodes,
        Self::Pointers,
        Self::Entries,
    ];

    /// As results say it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Superblock => "superblock",
            Self::Bitmaps => "bitmaps",
            Self::Inodes => "inodes",
            Self::Pointers => "pointers",
            Self::Entries => "entries",
        }
    }

    /// That of a block by its number, and by what it holds where that tells.
    pub(crate) fn of(geometry: &Geometry, block: BlockNo, data: Option<&[u8; BLOCK]>) -> Self {
        let is_in = |range: &core::ops::Range<u32>| range.contains(&block.0);
        if block == BlockNo(0) || block == STATE_BLOCK || block == geometry.superblock_copy {
            Self::Superblock
        } else if is_in(&geometry.block_bitmap) || is_in(&geometry.inode_bitmap) {
            Self::Bitmaps
        } else if is_in(&geometry.inode_table) {
            Self::Inodes
        } else if data.is_some_and(is_names) {
            Self::Entries
        } else {
            Self::Pointers
        }
    }
}
