//! What goes in and out, in the kernel's words and in ours.

use super::clock::{now, system_time};
use super::witness::set_asker;
use crate::{Allocate, Attr, Caller, FileKind, FsError, Rename, Seek, WriteOptions};
use core::cell::Cell;
use fuser::{
    Errno, FileAttr, FileType, Generation, INodeNo, OpenFlags, RenameFlags, Request, WriteFlags,
};
use nix::fcntl::{FallocateFlags, OFlag};
use nix::unistd::Whence;
use std::sync::atomic::{AtomicU32, Ordering};

/// What `st_blocks` counts.
const SECTOR: u64 = 512;
/// A block of the file system.
pub(super) const BLOCK: u32 = 4096;

/// The number that stands for an error. The kernel has no room for its sentence.
pub(super) fn errno(error: &FsError) -> Errno {
    Errno::from_i32(error.errno())
}

pub(super) fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
        FileKind::CharDevice => FileType::CharDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
    }
}

pub(super) fn attributes(attr: &Attr) -> FileAttr {
    FileAttr {
        ino: INodeNo(attr.ino.0.into()),
        size: attr.size,
        blocks: attr.blocks * (u64::from(BLOCK) / SECTOR),
        atime: system_time(attr.atime),
        mtime: system_time(attr.mtime),
        ctime: system_time(attr.ctime),
        crtime: system_time(attr.btime),
        kind: file_type(attr.kind),
        perm: attr.permissions,
        nlink: attr.links,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: BLOCK,
        flags: 0,
    }
}

pub(super) fn generation(attr: &Attr) -> Generation {
    Generation(attr.generation.into())
}

/// Who asks. Threads that hear the kernel stand for cores: two that make files at once take inodes
/// from different groups.
pub(super) fn caller(request: &Request) -> Caller {
    thread_local! {
        static CORE: Cell<Option<u32>> = const { Cell::new(None) };
    }
    static CORES: AtomicU32 = AtomicU32::new(0);
    let core = CORE.get().unwrap_or_else(|| {
        let core = CORES.fetch_add(1, Ordering::Relaxed);
        CORE.set(Some(core));
        core
    });
    asked_by(request);
    Caller {
        uid: request.uid(),
        gid: request.gid(),
        core,
        now: now(),
    }
}

/// Whether who asks is of a group: of its own, or of one of the others that FUSE does not tell and
/// the process says.
pub(super) fn is_of_group(request: &Request, group: u32) -> bool {
    request.gid() == group || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", request.pid()));
        status.is_ok_and(|status| groups_of(&status).any(|of| of == group))
    }
}

/// The groups of a process, as its status lists them.
fn groups_of(status: &str) -> impl Iterator<Item = u32> {
    let lines = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    let numbers = lines.unwrap_or_default().split_whitespace();
    numbers.filter_map(|number| number.parse().ok())
}

/// Notes for a witness whose request this thread does.
pub(super) fn asked_by(request: &Request) {
    set_asker(request.pid());
}

/// Flags of an open file, as each request of it has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Flags(OFlag);

impl Flags {
    pub fn new(flags: OpenFlags) -> Self {
        Self(OFlag::from_bits_retain(flags.0))
    }

    /// Past the page cache.
    pub fn is_direct(self) -> bool {
        self.0.contains(OFlag::O_DIRECT)
    }

    /// Answered when it survives a power cut. `O_SYNC` has the bit of `O_DSYNC`.
    pub fn is_synced(self) -> bool {
        self.0.contains(OFlag::O_DSYNC)
    }

    /// Answered when its times survive, too, as behind an fsync.
    pub fn is_synced_whole(self) -> bool {
        self.0.contains(OFlag::O_SYNC)
    }
}

/// How a write is done, and whether the file is synced behind it. With pages of the kernel, which
/// all files but those that `is_direct` have, the kernel asks for that sync.
pub(super) fn how_to_write(
    flags: OpenFlags,
    written: WriteFlags,
    is_direct: bool,
) -> (WriteOptions, bool) {
    let flags = Flags::new(flags);
    let is_cached = written.contains(WriteFlags::FUSE_WRITE_CACHE);
    let is_synced = flags.is_synced() && is_direct && !is_cached;
    let options = WriteOptions {
        direct: flags.is_direct() && !is_cached,
        sync: is_synced && !flags.is_synced_whole(),
        kill_privileges: written.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID),
    };
    (options, is_synced && flags.is_synced_whole())
}

/// What `lseek` looks for, and from where.
pub(super) fn seek(whence: i32, offset: i64) -> Result<(Seek, u64), Errno> {
    let what = match whence {
        _ if whence == Whence::SeekData as i32 => Seek::Data,
        _ if whence == Whence::SeekHole as i32 => Seek::Hole,
        _ => return Err(Errno::EINVAL),
    };
    let at = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
    Ok((what, at))
}

/// What `rename` is to do. Whether the caller may make a whiteout the kernel has judged: since 5.8
/// everybody may, before it who may make devices.
pub(super) fn rename(flags: RenameFlags) -> Result<Rename, Errno> {
    let (none, kept) = (RenameFlags::empty(), RenameFlags::RENAME_NOREPLACE);
    let whiteout = RenameFlags::RENAME_WHITEOUT;
    [
        (none, Rename::Replace),
        (kept, Rename::NoReplace),
        (RenameFlags::RENAME_EXCHANGE, Rename::Exchange),
        (whiteout, Rename::Whiteout),
        (whiteout | kept, Rename::WhiteoutNoReplace),
    ]
    .iter()
    .find_map(|(known, how)| (*known == flags).then_some(*how))
    .ok_or(Errno::EINVAL)
}

/// What `fallocate` is to do.
pub(super) fn allocate(mode: i32) -> Result<Allocate, Errno> {
    let keep = FallocateFlags::FALLOC_FL_KEEP_SIZE;
    let punch = FallocateFlags::FALLOC_FL_PUNCH_HOLE;
    let zero = FallocateFlags::FALLOC_FL_ZERO_RANGE;
    let mode = FallocateFlags::from_bits_retain(mode);
    [
        (FallocateFlags::empty(), Allocate::Grow),
        (keep, Allocate::KeepSize),
        (punch | keep, Allocate::PunchHole),
        (zero, Allocate::ZeroRange),
        (zero | keep, Allocate::ZeroRangeKeepSize),
    ]
    .iter()
    .find_map(|(known, how)| (*known == mode).then_some(*how))
    .ok_or(Errno::EOPNOTSUPP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_those_that_a_status_lists() {
        let status = "Name:\tcat\nGid:\t5\t5\t5\t5\nGroups:\t4 24 1000 \nNStgid:\t7\n";
        assert_eq!(groups_of(status).collect::<Vec<_>>(), [4, 24, 1000]);
        assert_eq!(groups_of("Name:\tcat\n").count(), 0);
    }

    #[test]
    fn each_mode_of_fallocate_and_rename_is_known_or_refused() {
        let known = [
            (0, Allocate::Grow),
            (1, Allocate::KeepSize),
            (3, Allocate::PunchHole),
            (16, Allocate::ZeroRange),
            (17, Allocate::ZeroRangeKeepSize),
        ];
        for (mode, how) in known {
            assert_eq!(allocate(mode).ok(), Some(how));
        }
        for mode in [2, 8, 18, 32, 64, -1] {
            assert!(allocate(mode).is_err(), "{mode}");
        }
        assert_eq!(rename(RenameFlags::empty()).ok(), Some(Rename::Replace));
        let (kept, exchange) = (RenameFlags::RENAME_NOREPLACE, RenameFlags::RENAME_EXCHANGE);
        let whiteout = RenameFlags::RENAME_WHITEOUT;
        assert_eq!(rename(whiteout).ok(), Some(Rename::Whiteout));
        assert_eq!(
            rename(whiteout | kept).ok(),
            Some(Rename::WhiteoutNoReplace)
        );
        for flags in [exchange | kept, exchange | whiteout, RenameFlags::all()] {
            assert!(rename(flags).is_err(), "{flags:?}");
        }
    }

    #[test]
    fn a_synchronous_write_syncs_all_and_one_of_data_its_data() {
        let how = |flags: OFlag, is_direct| {
            let none = WriteFlags::empty();
            let (options, syncs) = how_to_write(OpenFlags(flags.bits()), none, is_direct);
            (options.sync, syncs)
        };
        let direct = OFlag::O_DIRECT;
        assert_eq!(how(direct | OFlag::O_DSYNC, true), (true, false));
        assert_eq!(how(direct | OFlag::O_SYNC, true), (false, true));
        assert_eq!(how(OFlag::O_SYNC, false), (false, false));
    }

    #[test]
    fn the_flag_of_synchronous_files_has_that_of_their_data() {
        let flags = |flags: OFlag| Flags::new(OpenFlags(flags.bits()));
        assert!(flags(OFlag::O_SYNC).is_synced() && flags(OFlag::O_DSYNC).is_synced());
        assert!(flags(OFlag::O_SYNC).is_synced_whole());
        assert!(!flags(OFlag::O_DSYNC).is_synced_whole());
        assert!(!flags(OFlag::O_DIRECT | OFlag::O_APPEND).is_synced());
        assert!(flags(OFlag::O_DIRECT).is_direct() && !flags(OFlag::O_SYNC).is_direct());
    }
}
