//! `.entresol` in the root: files of the server's, which are on no device.
//!
//! A directory that is found by its name and not listed, so that whoever copies or removes a whole
//! tree does not meet it. `stats`: what file system and device have done. `sync`: its fsync is that
//! of the whole file system, for syncfs does not come through FUSE. `map/N`: where inode N is.
//! `fsync/N`: its fsync is that of inode N, and it says then where the time went. `dax`: what is in
//! persistent memory, and why; `key=value` that is written to it changes a setting.

use crate::{FileKind, Ino};
use fuser::INodeNo;

/// The name in the root.
pub const FOLDER: &str = ".entresol";
const MAP: &str = "map";
const STATS: &str = "stats";
const SYNC: &str = "sync";
const FSYNC: &str = "fsync";
const DAX: &str = "dax";

/// Inodes of the file system are below it.
const FIRST: u64 = 1 << 32;
/// Maps are from here on.
const FIRST_MAP: u64 = 2 << 32;
/// Syncs of one file are from here on.
const FIRST_FSYNC: u64 = 3 << 32;

/// One of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Special {
    Folder,
    Stats,
    Sync,
    Maps,
    Map(Ino),
    Fsyncs,
    Fsync(Ino),
    Dax,
}

impl Special {
    /// The one that a number stands for.
    pub fn of(node: INodeNo) -> Option<Self> {
        Some(match node.0.checked_sub(FIRST)? {
            0 => Self::Folder,
            1 => Self::Stats,
            2 => Self::Sync,
            3 => Self::Maps,
            4 => Self::Fsyncs,
            5 => Self::Dax,
            _ if node.0 >= FIRST_FSYNC => {
                Self::Fsync(Ino(u32::try_from(node.0 - FIRST_FSYNC).ok()?))
            }
            _ => Self::Map(Ino(u32::try_from(node.0.checked_sub(FIRST_MAP)?).ok()?)),
        })
    }

    /// Its number.
    pub fn node(self) -> INodeNo {
        INodeNo(match self {
            Self::Folder => FIRST,
            Self::Stats => FIRST + 1,
            Self::Sync => FIRST + 2,
            Self::Maps => FIRST + 3,
            Self::Map(ino) => FIRST_MAP + u64::from(ino.0),
            Self::Fsyncs => FIRST + 4,
            Self::Dax => FIRST + 5,
            Self::Fsync(ino) => FIRST_FSYNC + u64::from(ino.0),
        })
    }

    /// What has this name in this directory, if that is one of ours.
    pub fn find(parent: INodeNo, name: &[u8]) -> Option<Self> {
        if parent == INodeNo::ROOT {
            return (name == FOLDER.as_bytes()).then_some(Self::Folder);
        }
        let text = core::str::from_utf8(name).ok()?;
        match (Self::of(parent)?, text) {
            (Self::Folder, STATS) => Some(Self::Stats),
            (Self::Folder, SYNC) => Some(Self::Sync),
            (Self::Folder, MAP) => Some(Self::Maps),
            (Self::Folder, FSYNC) => Some(Self::Fsyncs),
            (Self::Folder, DAX) => Some(Self::Dax),
            (folder @ (Self::Maps | Self::Fsyncs), number) => {
                let ino = Ino(number.parse().ok()?);
                // One name for each: 007 is none.
                let of = match folder {
                    Self::Maps => Self::Map(ino),
                    _ => Self::Fsync(ino),
                };
                (ino != Ino::NONE && ino.0.to_string() == number).then_some(of)
            }
            _ => None,
        }
    }

    /// A directory or a file.
    pub fn kind(self) -> FileKind {
        match self {
            Self::Folder | Self::Maps | Self::Fsyncs => FileKind::Directory,
            _ => FileKind::Regular,
        }
    }

    /// What is listed in it beside itself and its parent. Maps are found by their numbers only:
    /// there is one for each file.
    pub fn entries(self) -> Vec<(Self, &'static str)> {
        match self {
            Self::Folder => vec![
                (Self::Dax, DAX),
                (Self::Fsyncs, FSYNC),
                (Self::Maps, MAP),
                (Self::Stats, STATS),
                (Self::Sync, SYNC),
            ],
            _ => Vec::new(),
        }
    }

    /// The directory that it is in.
    pub fn parent(self) -> INodeNo {
        match self {
            Self::Folder => INodeNo::ROOT,
            Self::Map(_) => Self::Maps.node(),
            Self::Fsync(_) => Self::Fsyncs.node(),
            _ => Self::Folder.node(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_lead_to_the_same() {
        let folder = Special::find(INodeNo::ROOT, b".entresol").expect("it is there");
        assert_eq!(folder, Special::Folder);
        for (special, name) in folder.entries() {
            assert_eq!(Special::find(folder.node(), name.as_bytes()), Some(special));
            assert_eq!(Special::of(special.node()), Some(special));
            assert_eq!(special.parent(), folder.node());
        }
        let maps = Special::Maps.node();
        for ino in [1, 77, u32::MAX] {
            let map = Special::Map(Ino(ino));
            assert_eq!(Special::find(maps, ino.to_string().as_bytes()), Some(map));
            assert_eq!(Special::of(map.node()), Some(map));
            let fsync = Special::Fsync(Ino(ino));
            let found = Special::find(Special::Fsyncs.node(), ino.to_string().as_bytes());
            assert_eq!(found, Some(fsync));
            assert_eq!(Special::of(fsync.node()), Some(fsync));
            assert_eq!(fsync.parent(), Special::Fsyncs.node());
        }
    }

    #[test]
    fn nothing_else_is_one() {
        assert_eq!(Special::find(INodeNo(5), b".entresol"), None);
        assert_eq!(Special::find(INodeNo::ROOT, b"stats"), None);
        let maps = Special::Maps.node();
        for name in ["0", "007", "-1", "4294967296", "x", ""] {
            assert_eq!(Special::find(maps, name.as_bytes()), None, "{name}");
        }
        for node in [0, 1, FIRST - 1, FIRST + 6, FIRST_MAP - 1, 4 << 32] {
            assert_eq!(Special::of(INodeNo(node)), None, "{node}");
        }
    }
}
