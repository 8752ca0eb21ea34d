//! How the kernel is answered, and how long it may keep what it is told.

use super::acl;
use super::convert::{Flags, attributes, generation};
use crate::{Attr, FileKind, Ino, SetXattr};
use core::time::Duration;
use fuser::{
    Errno, FileHandle, FopenFlags, INodeNo, OpenFlags, ReplyAttr, ReplyEmpty, ReplyEntry,
    ReplyWrite, ReplyXattr,
};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// The kernel is the only one that changes anything, and keeps what it changes.
pub(super) const FOR_EVER: Duration = Duration::from_hours(24);
/// Files of the server's own change by themselves.
pub(super) const NEVER: Duration = Duration::ZERO;
/// Bits of permissions that make a program run as somebody else.
pub(super) const SET_ID: u16 = 0o6000;

/// How long the kernel may keep what it is told of a file. A write past its cache takes set-ID bits
/// away here and not there: of files that have some it asks each time.
pub(super) fn kept(attr: &Attr) -> Duration {
    let may_change = attr.kind != FileKind::Directory && attr.permissions & SET_ID != 0;
    if may_change { NEVER } else { FOR_EVER }
}

/// The handle of a file that was opened past the page cache.
pub(super) const DIRECT: FileHandle = FileHandle(1);
/// The handle of every other one.
pub(super) const PLAIN: FileHandle = FileHandle(0);

pub(super) fn answer_written(reply: ReplyWrite, done: Result<u32, Errno>) {
    match done {
        Ok(size) => reply.written(size),
        Err(error) => reply.error(error),
    }
}

/// How an attribute is set, from the flags of setxattr(2).
pub(super) fn how_to_set(flags: i32) -> Result<SetXattr, Errno> {
    const CREATE: i32 = 1;
    const REPLACE: i32 = 2;
    match flags & (CREATE | REPLACE) {
        0 => Ok(SetXattr::Any),
        CREATE => Ok(SetXattr::Create),
        REPLACE => Ok(SetXattr::Replace),
        _ => Err(Errno::EINVAL),
    }
}

/// An inode of the file system's own; those of the server cannot be changed.
pub(super) fn real(node: INodeNo) -> Result<Ino, Errno> {
    u32::try_from(node.0).map(Ino).map_err(|_| Errno::EPERM)
}

pub(super) fn answer(reply: ReplyEmpty, done: Result<(), Errno>) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

pub(super) fn answer_entry(reply: ReplyEntry, found: Result<Attr, Errno>) {
    match found {
        Ok(attr) => reply.entry(&kept(&attr), &attributes(&attr), generation(&attr)),
        Err(error) => reply.error(error),
    }
}

pub(super) fn answer_attributes(reply: ReplyAttr, found: Result<Attr, Errno>) {
    match found {
        Ok(attr) => reply.attr(&kept(&attr), &attributes(&attr)),
        Err(error) => reply.error(error),
    }
}

/// Bytes of an attribute, or how many there are, or that they are too many.
pub(super) fn answer_xattr(reply: ReplyXattr, found: Result<Vec<u8>, Errno>, room: u32) {
    match found {
        Ok(bytes) if room == 0 => reply.size(bytes.len() as u32),
        Ok(bytes) if bytes.len() > room as usize => reply.error(Errno::ERANGE),
        Ok(bytes) => reply.data(&bytes),
        Err(error) => reply.error(error),
    }
}

/// A kind of attribute that there is. The kernel has checked who may.
pub(super) fn is_known(name: &OsStr) -> bool {
    let name = name.as_bytes();
    let spaces: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
    spaces.iter().any(|space| name.starts_with(space))
        || name == acl::ACCESS
        || name == acl::DEFAULT
}

/// The names of attributes that who asks may see, each with a zero behind it. Ext4 keeps `trusted.`
/// from everybody without CAP_SYS_ADMIN; FUSE tells no capabilities, so that root stands for it.
pub(super) fn seen_by(uid: u32, names: Vec<u8>) -> Vec<u8> {
    if uid == 0 {
        return names;
    }
    let each = names.split_inclusive(|byte| *byte == 0);
    let seen = each.filter(|name| !name.starts_with(b"trusted."));
    seen.flatten().copied().collect()
}

/// How the kernel treats an open file. Past the page cache if the program asked for it; nothing is
/// to be heard of its closing.
///
/// Where the kernel writes back, it alone knows how long a file is, and past its cache it would
/// read up to what the server takes for the end: there it decides itself what goes past the cache.
pub(super) fn manner(flags: OpenFlags, kernel_decides: bool) -> (FileHandle, FopenFlags) {
    if Flags::new(flags).is_direct() && !kernel_decides {
        let direct = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        (DIRECT, direct | FopenFlags::FOPEN_NOFLUSH)
    } else {
        let kept = FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH;
        (PLAIN, kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;

    #[test]
    fn root_alone_sees_names_of_trusted_attributes() {
        let names = b"user.a\0trusted.b\0security.c\0trusted.d\0user.trusted.e\0".to_vec();
        assert_eq!(seen_by(0, names.clone()), names);
        let seen = b"user.a\0security.c\0user.trusted.e\0";
        assert_eq!(seen_by(1000, names), seen);
        assert!(seen_by(1, b"trusted.only\0".to_vec()).is_empty());
        assert!(seen_by(1, Vec::new()).is_empty());
    }

    #[test]
    fn the_kernel_asks_again_for_files_that_lose_bits_by_a_write() {
        let of = |kind, permissions| {
            kept(&Attr {
                ino: Ino(7),
                generation: 1,
                kind,
                permissions,
                links: 1,
                uid: 0,
                gid: 0,
                rdev: 0,
                size: 0,
                blocks: 0,
                atime: Timestamp(0),
                mtime: Timestamp(0),
                ctime: Timestamp(0),
                btime: Timestamp(0),
            })
        };
        for permissions in [0o4755, 0o2755, 0o6777, 0o2644] {
            assert_eq!(of(FileKind::Regular, permissions), NEVER);
        }
        assert_eq!(of(FileKind::Regular, 0o1777), FOR_EVER);
        assert_eq!(of(FileKind::Directory, 0o2755), FOR_EVER);
    }
}
