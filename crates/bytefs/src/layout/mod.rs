//! What is where on the device, and how it is written: everything that stays.
//!
//! Blocks of 4 KiB in this order: superblock, state, journal, bitmap of blocks, bitmap of inodes,
//! table of inodes, blocks of files and their metadata, copy of the superblock. Everything but the
//! superblock is changed by lines of 64 bytes, each of which tells by a sum of its own whether it
//! is whole; a line of zeroes is whole and says "nothing". docs/bytefs.md has the tables.

mod bitmap;
mod dentry;
mod extent;
mod inode;
mod line;
mod segmentation;
mod superblock;
pub mod xattr;

pub use bitmap::{BITS_PER_BLOCK, BITS_PER_LINE, bit_place};
pub(crate) use bitmap::{are_sealed_bits, is_set, seal_bits, set};
pub use dentry::{Entry, NAME_MOST, Span, bucket_of, cookie_of, hash, next_cookie, span_of};
pub(crate) use dentry::{free_span, span_at};
pub use extent::{Extent, MOST_PAGES, SLOTS_OF_BLOCK, SLOTS_OF_INODE};
pub(crate) use inode::kind_of;
pub use inode::{INODE_BYTES, INODES_PER_BLOCK, Inode, Mode};
pub use line::{LINE, LINES, Torn, is_sealed, seal, sum};
pub(crate) use line::{get_u16, get_u32, get_u64, put_u16, put_u32, put_u64};
pub use segmentation::Segmentation;
pub(crate) use segmentation::{COPY_BITS, LOGS, PLACES};
pub use superblock::{Geometry, MAGIC, Personality, Superblock, VERSION};

/// Bytes of a block of the file system.
pub const BLOCK: usize = 4096;
/// Where the inodes begin that were unlinked while open: the first line of this block.
pub const STATE_BLOCK: crate::BlockNo = crate::BlockNo(1);
