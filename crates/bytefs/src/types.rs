//! What goes in and out of a file system: inodes, times, attributes, requests.

use core::fmt;

/// An inode's number; 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ino(pub u32);

impl Ino {
    /// The root directory.
    pub const ROOT: Self = Self(1);
    /// None.
    pub const NONE: Self = Self(0);
}

impl fmt::Display for Ino {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "inode {}", self.0)
    }
}

/// A block of 4 KiB of the file system; 0 is that of the superblock, and none of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockNo(pub u32);

impl fmt::Display for BlockNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {}", self.0)
    }
}

/// Nanoseconds since the beginning of 1970, negative before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Timestamp(pub i64);

/// What kind of file an inode is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileKind {
    /// A file with contents.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A device of characters.
    CharDevice,
    /// A device of blocks.
    BlockDevice,
}

impl FileKind {
    /// The bits of a mode that say it.
    pub const fn mode(self) -> u16 {
        match self {
            Self::Fifo => 0o010_000,
            Self::CharDevice => 0o020_000,
            Self::Directory => 0o040_000,
            Self::BlockDevice => 0o060_000,
            Self::Regular => 0o100_000,
            Self::Symlink => 0o120_000,
            Self::Socket => 0o140_000,
        }
    }

    /// What a mode says; None if it says nothing known.
    pub const fn of_mode(mode: u16) -> Option<Self> {
        Some(match mode & 0o170_000 {
            0o010_000 => Self::Fifo,
            0o020_000 => Self::CharDevice,
            0o040_000 => Self::Directory,
            0o060_000 => Self::BlockDevice,
            0o100_000 => Self::Regular,
            0o120_000 => Self::Symlink,
            0o140_000 => Self::Socket,
            _ => return None,
        })
    }
}

/// Who asks, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// Owner of what it makes.
    pub uid: u32,
    /// Group of what it makes, unless the directory says otherwise.
    pub gid: u32,
    /// On which core it runs: tasks of different cores take blocks and inodes from different
    /// groups.
    pub core: u32,
    /// The time of day.
    pub now: Timestamp,
}

/// What is known of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attr {
    /// Its number.
    pub ino: Ino,
    /// How often that number was given to a file before.
    pub generation: u32,
    /// Kind, and permissions in the low 12 bits.
    pub kind: FileKind,
    /// Permissions, set-ID and sticky bits.
    pub permissions: u16,
    /// Names of it.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Numbers of a device, as Linux encodes them in 32 bits.
    pub rdev: u32,
    /// Bytes.
    pub size: u64,
    /// Blocks of 4 KiB that it has.
    pub blocks: u64,
    /// Last read.
    pub atime: Timestamp,
    /// Last change of contents.
    pub mtime: Timestamp,
    /// Last change of anything.
    pub ctime: Timestamp,
    /// When it was made.
    pub btime: Timestamp,
}

/// What is to be changed of a file. Who changes permissions or owner has been checked.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SetAttr {
    /// New permissions (low 12 bits).
    pub permissions: Option<u16>,
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// New size.
    pub size: Option<u64>,
    /// New time of the last read.
    pub atime: Option<Timestamp>,
    /// New time of the last change of contents.
    pub mtime: Option<Timestamp>,
    /// Set-user-ID, and set-group-ID of what is executable, go.
    pub kill_privileges: bool,
}

/// What `rename` does beyond its usual.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rename {
    /// Replaces what has the name.
    Replace,
    /// Refuses if the name is taken.
    NoReplace,
    /// Exchanges both.
    Exchange,
    /// Replaces what has the name, and leaves a whiteout: a device of characters with the number 0
    /// has the old name then. With it a file system that lies over another one hides names of that.
    Whiteout,
    /// Leaves a whiteout, and refuses if the name is taken.
    WhiteoutNoReplace,
}

impl Rename {
    /// Whether a name that is taken is refused.
    pub(crate) fn refuses_taken(self) -> bool {
        matches!(self, Self::NoReplace | Self::WhiteoutNoReplace)
    }

    /// Whether the old name stays, as one of a whiteout.
    pub(crate) fn leaves_whiteout(self) -> bool {
        matches!(self, Self::Whiteout | Self::WhiteoutNoReplace)
    }
}

/// What `fallocate` does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allocate {
    /// Gives blocks; the file may grow.
    Grow,
    /// Gives blocks; the size stays.
    KeepSize,
    /// Takes blocks: the range reads as zeroes.
    PunchHole,
    /// The range reads as zeroes and has blocks; the file may grow.
    ZeroRange,
    /// The range reads as zeroes and has blocks; the size stays.
    ZeroRangeKeepSize,
}

/// What `lseek` looks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seek {
    /// The next byte that a block holds.
    Data,
    /// The next byte that none holds; the end is one.
    Hole,
}

/// What `setxattr` does about a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetXattr {
    /// Makes or replaces it.
    Any,
    /// It must be new.
    Create,
    /// It must be there.
    Replace,
}

/// How much is written, and through what.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct WriteOptions {
    /// Past the page cache (`O_DIRECT`).
    pub direct: bool,
    /// Answered when it survives a power cut (`O_DSYNC`, `O_SYNC`).
    pub sync: bool,
    /// Set-user-ID, and set-group-ID of what is executable, go.
    pub kill_privileges: bool,
}

/// A name in a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirEntry {
    /// Which file.
    pub ino: Ino,
    /// Its kind.
    pub kind: FileKind,
    /// Where to go on behind it.
    pub next: u64,
    /// The name.
    pub name: Vec<u8>,
}

/// How full a file system is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Blocks for files and their metadata.
    pub blocks: u64,
    /// Of them free.
    pub free_blocks: u64,
    /// Inodes.
    pub inodes: u64,
    /// Of them free.
    pub free_inodes: u64,
}
