//! Operations as a recording has them.

use super::contents::sums_of;
use bytefs::fuse::Asked;
use bytefs::{Allocate, FileKind, Rename, Seek};
use serde::{Deserialize, Serialize};

/// An operation, when it was asked for and what came of it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The thread of the program, from 0 in the order of their first operations.
    pub thread: u32,
    /// When it began and ended, in nanoseconds of the wall clock.
    pub begin_ns: u64,
    /// See there.
    pub end_ns: u64,
    /// What.
    pub op: Op,
    /// The inode that it found or made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<u32>,
    /// The number of its error, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<i32>,
}

/// An operation. Inodes are the numbers that they had then.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[expect(
    missing_docs,
    reason = "fields are those of the operations of `FileSystem`"
)]
pub enum Op {
    Lookup {
        parent: u32,
        name: String,
    },
    Getattr {
        ino: u32,
    },
    /// A change of attributes: of the size, or of others.
    Setattr {
        ino: u32,
        size: Option<u64>,
    },
    Make {
        parent: u32,
        name: String,
        kind: Kind,
        permissions: u16,
        is_opened: bool,
    },
    Symlink {
        parent: u32,
        name: String,
        target: String,
    },
    Readlink {
        ino: u32,
    },
    Link {
        ino: u32,
        parent: u32,
        name: String,
    },
    Unlink {
        parent: u32,
        name: String,
    },
    Rmdir {
        parent: u32,
        name: String,
    },
    Rename {
        from: u32,
        name: String,
        to: u32,
        new_name: String,
        how: How,
    },
    Open {
        ino: u32,
    },
    Release {
        ino: u32,
    },
    Read {
        ino: u32,
        at: u64,
        size: usize,
        direct: bool,
    },
    /// A write; `sums` has eight hexadecimal digits for each line of 64 bytes that it covers.
    Write {
        ino: u32,
        at: u64,
        size: usize,
        direct: bool,
        sync: bool,
        sums: String,
    },
    Allocate {
        ino: u32,
        how: Room,
        at: u64,
        size: u64,
    },
    Seek {
        ino: u32,
        at: u64,
        is_data: bool,
    },
    /// Some names of a directory: its first, or those behind the thread's last ones.
    Readdir {
        ino: u32,
        is_first: bool,
        most: usize,
    },
    /// The value is there where the file system understands it.
    SetXattr {
        ino: u32,
        name: String,
        size: usize,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<String>,
    },
    GetXattr {
        ino: u32,
        name: String,
    },
    RemoveXattr {
        ino: u32,
        name: String,
    },
    ListXattr {
        ino: u32,
    },
    Fsync {
        ino: u32,
        data_only: bool,
    },
    Sync {},
}

/// What kind of file is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// With contents.
    File,
    /// With names.
    Directory,
    /// Anything else: pipes, sockets and devices, which cost the same.
    Other,
}

/// What a rename does with a name that is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "as those of `bytefs::Rename`")]
pub enum How {
    Replace,
    NoReplace,
    Exchange,
    Whiteout,
    WhiteoutNoReplace,
}

/// What becomes of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "as those of `bytefs::Allocate`")]
pub enum Room {
    Grow,
    KeepSize,
    PunchHole,
    ZeroRange,
    ZeroRangeKeepSize,
}

impl Kind {
    /// The kind that is made again.
    pub fn file_kind(self) -> FileKind {
        match self {
            Self::File => FileKind::Regular,
            Self::Directory => FileKind::Directory,
            Self::Other => FileKind::Fifo,
        }
    }

    pub(super) fn of(kind: FileKind) -> Self {
        match kind {
            FileKind::Regular => Self::File,
            FileKind::Directory => Self::Directory,
            _ => Self::Other,
        }
    }
}

impl From<How> for Rename {
    fn from(how: How) -> Self {
        match how {
            How::Replace => Self::Replace,
            How::NoReplace => Self::NoReplace,
            How::Exchange => Self::Exchange,
            How::Whiteout => Self::Whiteout,
            How::WhiteoutNoReplace => Self::WhiteoutNoReplace,
        }
    }
}

impl From<Room> for Allocate {
    fn from(how: Room) -> Self {
        match how {
            Room::Grow => Self::Grow,
            Room::KeepSize => Self::KeepSize,
            Room::PunchHole => Self::PunchHole,
            Room::ZeroRange => Self::ZeroRange,
            Room::ZeroRangeKeepSize => Self::ZeroRangeKeepSize,
        }
    }
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// Sums as a recording has them.
pub(super) fn digits(at: u64, data: &[u8]) -> String {
    let sums = sums_of(at, data);
    sums.iter().map(|sum| format!("{sum:08x}")).collect()
}

/// Sums of digits; none if they are no such.
pub fn sums(digits: &str) -> Option<Vec<u32>> {
    let mut all = Vec::with_capacity(digits.len() / 8);
    for at in (0..digits.len()).step_by(8) {
        let word = digits.get(at..at + 8)?;
        all.push(u32::from_str_radix(word, 16).ok()?);
    }
    Some(all)
}

impl Op {
    /// What was asked for.
    pub fn of(asked: &Asked<'_>) -> Self {
        match *asked {
            Asked::Lookup { parent, name } => Self::Lookup {
                parent: parent.0,
                name: text(name),
            },
            Asked::Getattr { ino } => Self::Getattr { ino: ino.0 },
            Asked::Setattr { ino, set } => Self::Setattr {
                ino: ino.0,
                size: set.size,
            },
            Asked::Make {
                parent,
                name,
                kind,
                permissions,
                is_opened,
            } => Self::Make {
                parent: parent.0,
                name: text(name),
                kind: Kind::of(kind),
                permissions,
                is_opened,
            },
            Asked::Symlink {
                parent,
                name,
                target,
            } => Self::Symlink {
                parent: parent.0,
                name: text(name),
                target: text(target),
            },
            Asked::Readlink { ino } => Self::Readlink { ino: ino.0 },
            Asked::Link { ino, parent, name } => Self::Link {
                ino: ino.0,
                parent: parent.0,
                name: text(name),
            },
            Asked::Unlink { parent, name } => Self::Unlink {
                parent: parent.0,
                name: text(name),
            },
            Asked::Rmdir { parent, name } => Self::Rmdir {
                parent: parent.0,
                name: text(name),
            },
            Asked::Rename {
                from,
                name,
                to,
                new_name,
                how,
            } => Self::Rename {
                from: from.0,
                name: text(name),
                to: to.0,
                new_name: text(new_name),
                how: match how {
                    Rename::Replace => How::Replace,
                    Rename::NoReplace => How::NoReplace,
                    Rename::Exchange => How::Exchange,
                    Rename::Whiteout => How::Whiteout,
                    Rename::WhiteoutNoReplace => How::WhiteoutNoReplace,
                },
            },
            Asked::Open { ino } => Self::Open { ino: ino.0 },
            Asked::Release { ino } => Self::Release { ino: ino.0 },
            Asked::Read {
                ino,
                at,
                size,
                direct,
            } => Self::Read {
                ino: ino.0,
                at,
                size,
                direct,
            },
            Asked::Write {
                ino,
                at,
                data,
                options,
            } => Self::Write {
                ino: ino.0,
                at,
                size: data.len(),
                direct: options.direct,
                sync: options.sync,
                sums: digits(at, data),
            },
            _ => Self::of_others(asked),
        }
    }

    fn of_others(asked: &Asked<'_>) -> Self {
        match *asked {
            Asked::Allocate { ino, how, at, size } => Self::Allocate {
                ino: ino.0,
                how: match how {
                    Allocate::Grow => Room::Grow,
                    Allocate::KeepSize => Room::KeepSize,
                    Allocate::PunchHole => Room::PunchHole,
                    Allocate::ZeroRange => Room::ZeroRange,
                    Allocate::ZeroRangeKeepSize => Room::ZeroRangeKeepSize,
                },
                at,
                size,
            },
            Asked::Seek { ino, at, what } => Self::Seek {
                ino: ino.0,
                at,
                is_data: matches!(what, Seek::Data),
            },
            Asked::Readdir { ino, from, most } => Self::Readdir {
                ino: ino.0,
                is_first: from == 0,
                most,
            },
            Asked::SetXattr { ino, name, value } => Self::SetXattr {
                ino: ino.0,
                name: text(name),
                size: value.len(),
                value: (name == bytefs::DAX_ATTRIBUTE).then(|| text(value)),
            },
            Asked::GetXattr { ino, name } => Self::GetXattr {
                ino: ino.0,
                name: text(name),
            },
            Asked::RemoveXattr { ino, name } => Self::RemoveXattr {
                ino: ino.0,
                name: text(name),
            },
            Asked::ListXattr { ino } => Self::ListXattr { ino: ino.0 },
            Asked::Fsync { ino, data_only } => Self::Fsync {
                ino: ino.0,
                data_only,
            },
            _ => Self::Sync {},
        }
    }

    /// Its name in tables.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Lookup { .. } => "lookup",
            Self::Getattr { .. } => "getattr",
            Self::Setattr { size: Some(_), .. } => "truncate",
            Self::Setattr { .. } => "setattr",
            Self::Make {
                kind: Kind::Directory,
                ..
            } => "mkdir",
            Self::Make { .. } => "create",
            Self::Symlink { .. } => "symlink",
            Self::Readlink { .. } => "readlink",
            Self::Link { .. } => "link",
            Self::Unlink { .. } => "unlink",
            Self::Rmdir { .. } => "rmdir",
            Self::Rename { .. } => "rename",
            Self::Open { .. } => "open",
            Self::Release { .. } => "release",
            Self::Read { .. } => "read",
            Self::Write { .. } => "write",
            Self::Allocate { .. } => "fallocate",
            Self::Seek { .. } => "lseek",
            Self::Readdir { .. } => "readdir",
            Self::SetXattr { .. } => "setxattr",
            Self::GetXattr { .. } => "getxattr",
            Self::RemoveXattr { .. } => "removexattr",
            Self::ListXattr { .. } => "listxattr",
            Self::Fsync { .. } => "fsync",
            Self::Sync {} => "sync",
        }
    }
}
