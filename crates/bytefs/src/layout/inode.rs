//! Inodes: 128 bytes, a half that changes often and one that does not (§4.5).

use super::{
    Extent, LINE, SLOTS_OF_INODE, Torn, get_u16, get_u32, get_u64, is_sealed, put_u16, put_u32,
    put_u64, sum,
};
use crate::{Attr, BlockNo, FileKind, Ino, Timestamp};

/// Bytes of an inode.
pub const INODE_BYTES: usize = 2 * LINE;
/// Inodes of a block of their table.
pub const INODES_PER_BLOCK: u32 = (super::BLOCK / INODE_BYTES) as u32;

/// Kind and permissions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mode {
    /// Kind.
    pub kind: FileKind,
    /// The low 12 bits.
    pub permissions: u16,
}

impl Mode {
    fn bits(self) -> u16 {
        self.kind.mode() | self.permissions & 0o7777
    }
}

/// What an inode holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inode {
    /// Bytes of the file.
    pub size: u64,
    /// Last change of contents.
    pub mtime: Timestamp,
    /// Last change of anything.
    pub ctime: Timestamp,
    /// Last read.
    pub atime: Timestamp,
    /// Kind and permissions.
    pub mode: Mode,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names; 0: it goes when it is closed.
    pub links: u32,
    /// Blocks of the file and of its metadata.
    pub blocks: u32,
    /// How often the number was given before.
    pub generation: u32,
    /// Block of extended attributes, or none.
    pub xattrs: BlockNo,
    /// When it was made.
    pub btime: Timestamp,
    /// First block of extents, or none; of a device its numbers.
    pub extents_or_rdev: u32,
    /// The next of those that were unlinked while open.
    pub next_orphan: Ino,
    /// Of a directory, the one above.
    pub parent: Ino,
    /// Of a directory: buckets of names.
    pub buckets: u32,
    /// Of a directory: blocks behind full buckets.
    pub overflows: u32,
    /// The first extents.
    pub slots: [Option<Extent>; SLOTS_OF_INODE],
}

impl Inode {
    /// A new one with one name.
    pub fn new(mode: Mode, owner: (u32, u32), generation: u32, now: Timestamp) -> Self {
        Self {
            size: 0,
            mtime: now,
            ctime: now,
            atime: now,
            mode,
            uid: owner.0,
            gid: owner.1,
            links: 1,
            blocks: 0,
            generation,
            xattrs: BlockNo(0),
            btime: now,
            extents_or_rdev: 0,
            next_orphan: Ino::NONE,
            parent: Ino::NONE,
            buckets: 0,
            overflows: 0,
            slots: [None; SLOTS_OF_INODE],
        }
    }

    /// The first block of extents, if there is one.
    pub fn extent_block(&self) -> Option<BlockNo> {
        let block = match self.mode.kind {
            FileKind::CharDevice | FileKind::BlockDevice => 0,
            _ => self.extents_or_rdev,
        };
        (block != 0).then_some(BlockNo(block))
    }

    /// As it is written.
    pub fn encode(&self) -> [u8; INODE_BYTES] {
        let mut out = [0; INODE_BYTES];
        let (hot, cold) = out.split_at_mut(LINE);
        put_u64(hot, 0, self.size);
        put_u64(hot, 8, self.mtime.0 as u64);
        put_u64(hot, 16, self.ctime.0 as u64);
        put_u64(hot, 24, self.atime.0 as u64);
        put_u16(hot, 32, self.mode.bits());
        put_u32(hot, 36, self.uid);
        put_u32(hot, 40, self.gid);
        put_u32(hot, 44, self.links);
        put_u32(hot, 48, self.blocks);
        put_u32(hot, 52, self.generation);
        put_u32(hot, 56, self.xattrs.0);
        super::seal(hot);
        put_u64(cold, 0, self.btime.0 as u64);
        put_u32(cold, 8, self.extents_or_rdev);
        put_u32(cold, 12, self.next_orphan.0);
        put_u32(cold, 16, self.parent.0);
        put_u32(cold, 20, self.buckets);
        put_u32(cold, 24, self.overflows);
        for (slot, place) in self.slots.iter().zip(cold[32..].chunks_mut(Extent::BYTES)) {
            if let Some(extent) = slot {
                place.copy_from_slice(&extent.encode());
            }
        }
        let sum = cold_sum(cold);
        put_u32(cold, 28, sum);
        out
    }

    /// What an inode's bytes say: nothing if it is free, and an error if they are not whole.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>, Torn> {
        let (hot, cold) = bytes[..INODE_BYTES].split_at(LINE);
        if !is_sealed(hot) || get_u32(cold, 28) != cold_sum(cold) {
            return Err(Torn);
        }
        let mode = get_u16(hot, 32);
        if mode == 0 {
            return Ok(None);
        }
        let kind = FileKind::of_mode(mode).ok_or(Torn)?;
        let time = |half: &[u8], at| Timestamp(get_u64(half, at) as i64);
        let mut slots = [None; SLOTS_OF_INODE];
        for (slot, place) in slots.iter_mut().zip(cold[32..].chunks(Extent::BYTES)) {
            *slot = Extent::decode(place)?;
        }
        Ok(Some(Self {
            size: get_u64(hot, 0),
            mtime: time(hot, 8),
            ctime: time(hot, 16),
            atime: time(hot, 24),
            mode: Mode {
                kind,
                permissions: mode & 0o7777,
            },
            uid: get_u32(hot, 36),
            gid: get_u32(hot, 40),
            links: get_u32(hot, 44),
            blocks: get_u32(hot, 48),
            generation: get_u32(hot, 52),
            xattrs: BlockNo(get_u32(hot, 56)),
            btime: time(cold, 0),
            extents_or_rdev: get_u32(cold, 8),
            next_orphan: Ino(get_u32(cold, 12)),
            parent: Ino(get_u32(cold, 16)),
            buckets: get_u32(cold, 20),
            overflows: get_u32(cold, 24),
            slots,
        }))
    }

    /// A free inode, which remembers how often its number was given.
    pub fn free(generation: u32) -> [u8; INODE_BYTES] {
        let mut out = [0; INODE_BYTES];
        put_u32(&mut out, 52, generation);
        super::seal(&mut out[..LINE]);
        out
    }

    /// How often a number was given, of an inode in use or free.
    pub fn generation_of(bytes: &[u8]) -> u32 {
        get_u32(bytes, 52)
    }

    /// What is known of the file.
    pub fn attr(&self, ino: Ino) -> Attr {
        let is_device = matches!(self.mode.kind, FileKind::CharDevice | FileKind::BlockDevice);
        Attr {
            ino,
            generation: self.generation,
            kind: self.mode.kind,
            permissions: self.mode.permissions,
            links: self.links,
            uid: self.uid,
            gid: self.gid,
            rdev: if is_device { self.extents_or_rdev } else { 0 },
            size: self.size,
            blocks: u64::from(self.blocks),
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            btime: self.btime,
        }
    }
}

/// The kind of an inode's file, by its bytes; none if it is free.
pub(crate) fn kind_of(bytes: &[u8]) -> Option<FileKind> {
    FileKind::of_mode(get_u16(bytes, 32))
}

/// The sum of the half that changes seldom; its place lies in the middle.
fn cold_sum(cold: &[u8]) -> u32 {
    let mut plain = [0; LINE];
    plain.copy_from_slice(&cold[..LINE]);
    put_u32(&mut plain, 28, 0);
    sum(&plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inode_is_read_as_it_was_written() {
        let mode = Mode {
            kind: FileKind::Regular,
            permissions: 0o4755,
        };
        let mut inode = Inode::new(mode, (7, 8), 9, Timestamp(-5));
        inode.size = 1 << 40;
        inode.slots[1] = Some(Extent {
            page: (1 << 36) + 3,
            block: BlockNo(77),
            count: 12,
            is_written: false,
        });
        let bytes = inode.encode();
        assert_eq!(Inode::decode(&bytes), Ok(Some(inode)));
        for bit in 0..bytes.len() * 8 {
            let mut broken = bytes;
            broken[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Inode::decode(&broken), Err(Torn), "bit {bit}");
        }
        assert_eq!(Inode::decode(&[0; INODE_BYTES]), Ok(None));
        let free = Inode::free(9);
        assert_eq!(Inode::decode(&free), Ok(None));
        assert_eq!(Inode::generation_of(&free), 9);
    }
}
