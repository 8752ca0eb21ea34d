//! Who looks on while programs use a mounted file system, and what is seen.

use crate::{Allocate, FileKind, Ino, Rename, Seek, SetAttr, WriteOptions};
use core::cell::Cell;

/// What a program asked for, as it reaches the file system: what the kernel's caches answered is
/// not among it.
#[derive(Clone, Copy, Debug)]
#[expect(
    missing_docs,
    reason = "fields are those of the operations of `FileSystem`"
)]
pub enum Asked<'a> {
    Lookup {
        parent: Ino,
        name: &'a [u8],
    },
    Getattr {
        ino: Ino,
    },
    Setattr {
        ino: Ino,
        set: &'a SetAttr,
    },
    /// A file or a directory.
    Make {
        parent: Ino,
        name: &'a [u8],
        kind: FileKind,
        permissions: u16,
        /// It is opened with that.
        is_opened: bool,
    },
    Symlink {
        parent: Ino,
        name: &'a [u8],
        target: &'a [u8],
    },
    Readlink {
        ino: Ino,
    },
    Link {
        ino: Ino,
        parent: Ino,
        name: &'a [u8],
    },
    Unlink {
        parent: Ino,
        name: &'a [u8],
    },
    Rmdir {
        parent: Ino,
        name: &'a [u8],
    },
    Rename {
        from: Ino,
        name: &'a [u8],
        to: Ino,
        new_name: &'a [u8],
        how: Rename,
    },
    Open {
        ino: Ino,
    },
    Release {
        ino: Ino,
    },
    Read {
        ino: Ino,
        at: u64,
        size: usize,
        direct: bool,
    },
    Write {
        ino: Ino,
        at: u64,
        data: &'a [u8],
        options: WriteOptions,
    },
    Allocate {
        ino: Ino,
        how: Allocate,
        at: u64,
        size: u64,
    },
    Seek {
        ino: Ino,
        at: u64,
        what: Seek,
    },
    /// One request of several that read a directory.
    Readdir {
        ino: Ino,
        from: u64,
        most: usize,
    },
    SetXattr {
        ino: Ino,
        name: &'a [u8],
        value: &'a [u8],
    },
    GetXattr {
        ino: Ino,
        name: &'a [u8],
    },
    RemoveXattr {
        ino: Ino,
        name: &'a [u8],
    },
    ListXattr {
        ino: Ino,
    },
    Fsync {
        ino: Ino,
        data_only: bool,
    },
    /// Of the whole file system, as a program asks for it.
    Sync,
}

impl Asked<'_> {
    /// Whether it changes something that others see.
    pub const fn is_change(&self) -> bool {
        matches!(
            self,
            Self::Setattr { .. }
                | Self::Make { .. }
                | Self::Symlink { .. }
                | Self::Link { .. }
                | Self::Unlink { .. }
                | Self::Rmdir { .. }
                | Self::Rename { .. }
                | Self::Write { .. }
                | Self::Allocate { .. }
                | Self::SetXattr { .. }
                | Self::RemoveXattr { .. }
        )
    }
}

/// Looks on. It is called on the thread that does the operation, with nothing locked.
pub trait Witness: Send + Sync {
    /// An operation begins. Gives what [`Witness::ended`] gets back.
    fn began(&self, asked: &Asked<'_>) -> u64;

    /// It has ended; with what inode, if it found or made one.
    fn ended(&self, number: u64, asked: &Asked<'_>, done: Result<Option<Ino>, i32>);
}

thread_local! {
    static ASKER: Cell<u32> = const { Cell::new(0) };
}

/// The thread whose request this one does, as the kernel numbers it; 0 if the request does not say.
pub fn asker() -> u32 {
    ASKER.get()
}

/// The request that this thread does from now on is that thread's.
pub(super) fn set_asker(thread: u32) {
    ASKER.set(thread);
}
