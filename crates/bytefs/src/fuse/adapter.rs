//! The file system as the kernel asks for it, request by request.
#![allow(
    clippy::disallowed_types,
    reason = "times of files are the wall clock's; nothing of the device depends on them"
)]

use super::answers::{
    DIRECT, FOR_EVER, NEVER, PLAIN, answer, answer_attributes, answer_entry, answer_written,
    answer_xattr, how_to_set, is_known, kept, manner, real, seen_by,
};
use super::below::Below;
use super::convert::{
    BLOCK, Flags, allocate, asked_by, attributes, caller, file_type, generation, how_to_write,
    is_of_group, rename, seek,
};
use super::operations::{self, New, Place, Wanted, set_attributes};
use super::server::Adapter;
use super::special::Special;
use crate::{Attr, DirEntry, FileKind, FsError};
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl,
    ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use port::{Device, Drive};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

/// Bytes of a request.
const MOST_BYTES: u32 = 1 << 20;
/// Requests that the kernel lets wait of those that no program waits for.
const MOST_WAITING: u16 = 64;
const NAME_MOST: u32 = 255;

impl<D: Device + Drive + Send + Sync + 'static> Filesystem for Adapter<D> {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Each is a gain and none is needed: an older kernel goes without.
        let mut gains = vec![
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_DO_READDIRPLUS | InitFlags::FUSE_READDIRPLUS_AUTO,
            // Without it each write asks for `security.capability` first.
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
            // What a directory gives to new files counts instead of the umask, so that is ours.
            InitFlags::FUSE_POSIX_ACL | InitFlags::FUSE_DONT_MASK,
            // Handles of files (`open_by_handle_at`, NFS) are good after the kernel has forgotten
            // what they stand for: it looks `.` up in it.
            InitFlags::FUSE_EXPORT_SUPPORT,
        ];
        if self.writes_back {
            gains.push(InitFlags::FUSE_WRITEBACK_CACHE);
        }
        for gain in gains {
            let _ = config.add_capabilities(gain);
        }
        // Kernels that do not offer it (before 6.6) keep their pages of a file that is written past
        // them, and would read old bytes: there they decide what goes past the cache.
        let mmap = InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP;
        self.kernel_decides = self.writes_back || config.add_capabilities(mmap).is_err();
        let _ = config.set_max_write(MOST_BYTES);
        let _ = config.set_max_background(MOST_WAITING);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        asked_by(request);
        if let Some(special) = Special::find(parent, name.as_bytes()) {
            let attributes = self.special_attributes(special);
            return reply.entry(&NEVER, &attributes, Generation(0));
        }
        let Ok(ino) = real(parent) else {
            return reply.error(Errno::ENOENT);
        };
        let name = name.as_bytes();
        if name == b"." {
            return answer_entry(reply, self.share.run(async |fs| fs.getattr(ino).await));
        }
        let found = self.share.run(async |fs| match fs.lookup(ino, name).await {
            Ok(attr) => Ok(Some(attr)),
            Err(FsError::NotFound) => Ok(None),
            Err(error) => Err(error),
        });
        match found {
            Ok(Some(attr)) => answer_entry(reply, Ok(attr)),
            // Inode 0: there is no such name, and the kernel remembers it.
            Ok(None) => {
                let mut nothing = self.special_attributes(Special::Sync);
                nothing.ino = INodeNo(0);
                reply.entry(&FOR_EVER, &nothing, Generation(0));
            }
            Err(error) => reply.error(error),
        }
    }

    fn getattr(&self, request: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        asked_by(request);
        if let Some(special) = Special::of(node) {
            return reply.attr(&NEVER, &self.special_attributes(special));
        }
        let found = real(node).and_then(|ino| self.share.run(async |fs| fs.getattr(ino).await));
        answer_attributes(reply, found);
    }

    fn setattr(
        &self,
        request: &Request,
        node: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        ctime: Option<SystemTime>,
        _: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        // Who opens it to write what it is to be cuts it first.
        if Special::of(node) == Some(Special::Dax) && size.is_some() {
            return reply.attr(&NEVER, &self.special_attributes(Special::Dax));
        }
        let wanted = Wanted {
            mode,
            uid,
            gid,
            size,
            atime,
            mtime,
            has_ctime: ctime.is_some(),
        };
        let caller = caller(request);
        let found = real(node).and_then(|ino| {
            let set = async |fs: &Below<D>| set_attributes(fs, &caller, ino, wanted).await;
            self.share.run(set)
        });
        answer_attributes(reply, found);
    }

    fn readlink(&self, request: &Request, node: INodeNo, reply: ReplyData) {
        asked_by(request);
        match real(node).and_then(|ino| self.share.run(async |fs| fs.readlink(ino).await)) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(error),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let Some(kind) = FileKind::of_mode(mode as u16) else {
            return reply.error(Errno::EINVAL);
        };
        let made = self.make(request, (parent, name), |parent| New {
            parent,
            name: b"",
            kind,
            permissions: mode as u16 & 0o7777,
            umask,
            rdev,
            is_opened: false,
        });
        answer_entry(reply, made);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let made = self.make(request, (parent, name), |parent| New {
            parent,
            name: b"",
            kind: FileKind::Directory,
            permissions: mode as u16 & 0o7777,
            umask,
            rdev: 0,
            is_opened: false,
        });
        answer_entry(reply, made);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let made = self.make(request, (parent, name), |parent| New {
            parent,
            name: b"",
            kind: FileKind::Regular,
            permissions: mode as u16 & 0o7777,
            umask,
            rdev: 0,
            is_opened: true,
        });
        match made {
            Ok(attr) => {
                let (handle, opened) = manner(OpenFlags(flags), self.kernel_decides);
                let (attributes, generation) = (attributes(&attr), generation(&attr));
                reply.created(&kept(&attr), &attributes, generation, handle, opened);
            }
            Err(error) => reply.error(error),
        }
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let (caller, target) = (caller(request), target.as_os_str().as_bytes());
        let made = Self::place(parent, name).and_then(|(parent, name)| {
            self.share
                .run(async |fs| fs.symlink(&caller, parent, name, target).await)
        });
        answer_entry(reply, made);
    }

    fn link(
        &self,
        request: &Request,
        node: INodeNo,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        let caller = caller(request);
        let made = Self::place(parent, name).and_then(|(parent, name)| {
            let ino = real(node)?;
            self.share
                .run(async |fs| fs.link(&caller, ino, parent, name).await)
        });
        answer_entry(reply, made);
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let caller = caller(request);
        let done = Self::place(parent, name).and_then(|(parent, name)| {
            self.share
                .run(async |fs| fs.unlink(&caller, parent, name).await)
        });
        answer(reply, done);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let caller = caller(request);
        let done = Self::place(parent, name).and_then(|(parent, name)| {
            self.share
                .run(async |fs| fs.rmdir(&caller, parent, name).await)
        });
        answer(reply, done);
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let caller = caller(request);
        let done = rename(flags).and_then(|how| {
            let (from, name) = Self::place(parent, name)?;
            let (to, new_name) = Self::place(new_parent, new_name)?;
            self.share
                .run(async |fs| fs.rename(&caller, from, name, to, new_name, how).await)
        });
        answer(reply, done);
    }

    fn open(&self, request: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        asked_by(request);
        if let Some(special) = Special::of(node) {
            return match self.open_special(special, flags) {
                Ok(handle) => reply.opened(handle, FopenFlags::FOPEN_DIRECT_IO),
                Err(error) => reply.error(error),
            };
        }
        match real(node).and_then(|ino| self.share.run(async |fs| fs.open(ino).await)) {
            Ok(_) => {
                let (handle, opened) = manner(flags, self.kernel_decides);
                reply.opened(handle, opened);
            }
            Err(error) => reply.error(error),
        }
    }

    fn release(
        &self,
        request: &Request,
        node: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        asked_by(request);
        if Special::of(node).is_some() {
            self.specials.remove(handle);
            return reply.ok();
        }
        let done = real(node).and_then(|ino| self.share.run(async |fs| fs.release(ino).await));
        answer(reply, done);
    }

    fn read(
        &self,
        request: &Request,
        node: INodeNo,
        handle: FileHandle,
        at: u64,
        size: u32,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        asked_by(request);
        if Special::of(node).is_some() {
            return reply.data(&self.specials.read(handle, at, size as usize));
        }
        let direct = Flags::new(flags).is_direct();
        let found = real(node).and_then(|ino| {
            self.share
                .run(async |fs| fs.read(ino, at, size as usize, direct).await)
        });
        match found {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        request: &Request,
        node: INodeNo,
        handle: FileHandle,
        at: u64,
        data: &[u8],
        written: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        if Special::of(node) == Some(Special::Dax) {
            asked_by(request);
            return answer_written(reply, self.change_dax(handle, data));
        }
        let how = how_to_write(flags, written, handle == DIRECT);
        let caller = caller(request);
        let done = real(node).and_then(|ino| {
            let write = async |fs: &Below<D>| {
                operations::write_synced(fs, &caller, ino, at, data, how).await
            };
            self.share.run(write)
        });
        answer_written(reply, done.map(|count| count as u32));
        self.write_behind(node);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // Closing promises nothing.
        reply.ok();
    }

    fn fsync(
        &self,
        request: &Request,
        node: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        asked_by(request);
        answer(reply, self.sync(node, handle, data_only));
    }

    fn opendir(&self, request: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        asked_by(request);
        if Special::of(node).is_some() {
            return reply.opened(PLAIN, FopenFlags::empty());
        }
        match real(node).and_then(|ino| self.share.run(async |fs| fs.open(ino).await)) {
            Ok(_) => {
                let kept = FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE;
                reply.opened(PLAIN, kept);
            }
            Err(error) => reply.error(error),
        }
    }

    fn releasedir(
        &self,
        request: &Request,
        node: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        asked_by(request);
        if Special::of(node).is_some() {
            return reply.ok();
        }
        let done = real(node).and_then(|ino| self.share.run(async |fs| fs.release(ino).await));
        answer(reply, done);
    }

    fn fsyncdir(
        &self,
        request: &Request,
        node: INodeNo,
        _: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        asked_by(request);
        answer(reply, self.sync(node, PLAIN, data_only));
    }

    fn readdir(
        &self,
        request: &Request,
        node: INodeNo,
        _: FileHandle,
        from: u64,
        mut reply: ReplyDirectory,
    ) {
        asked_by(request);
        if let Some(special) = Special::of(node) {
            for (node, next, kind, name) in Self::list_special(special, from) {
                if reply.add(node, next, file_type(kind), name) {
                    break;
                }
            }
            return reply.ok();
        }
        let mut add = |entry: &DirEntry| {
            let node = INodeNo(entry.ino.0.into());
            let (kind, name) = (file_type(entry.kind), OsStr::from_bytes(&entry.name));
            reply.add(node, entry.next, kind, name)
        };
        let done = real(node).and_then(|ino| {
            self.share
                .run(async |fs| operations::list(fs, ino, from, &mut add).await)
        });
        match done {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn readdirplus(
        &self,
        request: &Request,
        node: INodeNo,
        _: FileHandle,
        from: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        asked_by(request);
        if let Some(special) = Special::of(node) {
            for (node, next, _, name) in Self::list_special(special, from) {
                let mut attributes =
                    self.special_attributes(Special::of(node).unwrap_or(Special::Folder));
                attributes.ino = node;
                if reply.add(node, next, name, &NEVER, &attributes, Generation(0)) {
                    break;
                }
            }
            return reply.ok();
        }
        let mut add = |entry: &DirEntry, attr: &Attr| {
            let (found, generation) = (attributes(attr), generation(attr));
            let name = OsStr::from_bytes(&entry.name);
            reply.add(found.ino, entry.next, name, &kept(attr), &found, generation)
        };
        let done = real(node).and_then(|ino| {
            let list = async |fs: &Below<D>| {
                operations::list_with_attributes(fs, ino, from, &mut add).await
            };
            self.share.run(list)
        });
        match done {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.share.look(|fs| fs.usage()) {
            Some(usage) => reply.statfs(
                usage.blocks,
                usage.free_blocks,
                usage.free_blocks,
                usage.inodes,
                usage.free_inodes,
                BLOCK,
                NAME_MOST,
                BLOCK,
            ),
            None => reply.error(Errno::ENOTCONN),
        }
    }

    fn setxattr(
        &self,
        request: &Request,
        node: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        if !is_known(name) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let (caller, name) = (caller(request), name.as_bytes());
        let done = real(node).and_then(|ino| {
            let how = how_to_set(flags)?;
            let set = async |fs: &Below<D>| {
                let is_of = |group| is_of_group(request, group);
                operations::set_xattr(fs, &caller, is_of, ino, name, (value, how)).await
            };
            self.share.run(set)
        });
        answer(reply, done);
    }

    fn getxattr(
        &self,
        request: &Request,
        node: INodeNo,
        name: &OsStr,
        room: u32,
        reply: ReplyXattr,
    ) {
        asked_by(request);
        if !is_known(name) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let Ok(ino) = real(node) else {
            return reply.error(Errno::ENODATA);
        };
        let name = name.as_bytes();
        let found = self.share.run(async |fs| fs.get_xattr(ino, name).await);
        answer_xattr(reply, found, room);
    }

    fn listxattr(&self, request: &Request, node: INodeNo, room: u32, reply: ReplyXattr) {
        asked_by(request);
        let found = match real(node) {
            Ok(ino) => self.share.run(async |fs| fs.list_xattr(ino).await),
            Err(_) => Ok(Vec::new()),
        };
        let seen = found.map(|names| seen_by(request.uid(), names));
        answer_xattr(reply, seen, room);
    }

    fn removexattr(&self, request: &Request, node: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        if !is_known(name) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let (caller, name) = (caller(request), name.as_bytes());
        let done = real(node).and_then(|ino| {
            self.share
                .run(async |fs| fs.remove_xattr(&caller, ino, name).await)
        });
        answer(reply, done);
    }

    fn ioctl(
        &self,
        request: &Request,
        node: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        command: u32,
        data: &[u8],
        _room: u32,
        reply: ReplyIoctl,
    ) {
        match self.flags(&caller(request), node, command, data) {
            Ok(told) => reply.ioctl(0, &told),
            Err(error) => reply.error(error),
        }
    }

    fn fallocate(
        &self,
        request: &Request,
        node: INodeNo,
        _: FileHandle,
        at: u64,
        size: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let caller = caller(request);
        let done = allocate(mode).and_then(|how| {
            let ino = real(node)?;
            let work = async |fs: &Below<D>| {
                let is_of = |group| is_of_group(request, group);
                operations::allocate(fs, &caller, is_of, ino, (how, at, size)).await
            };
            self.share.run(work)
        });
        answer(reply, done);
    }

    fn lseek(
        &self,
        request: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        asked_by(request);
        if self.writes_back {
            // The kernel asks without writing back what it holds, which would be told as a hole.
            // It takes the whole file for data from then on.
            return reply.error(Errno::ENOSYS);
        }
        let found = seek(whence, offset).and_then(|(what, at)| {
            let ino = real(node)?;
            self.share.run(async |fs| fs.seek(ino, at, what).await)
        });
        match found {
            Ok(found) => reply.offset(found as i64),
            Err(error) => reply.error(error),
        }
    }

    fn copy_file_range(
        &self,
        request: &Request,
        from: INodeNo,
        _: FileHandle,
        from_at: u64,
        to: INodeNo,
        _: FileHandle,
        to_at: u64,
        size: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        // The kernel copies by itself where one of them is the server's.
        let (Ok(from), Ok(to)) = (real(from), real(to)) else {
            return reply.error(Errno::EOPNOTSUPP);
        };
        let (from, to) = (
            Place {
                ino: from,
                at: from_at,
            },
            Place { ino: to, at: to_at },
        );
        let caller = caller(request);
        let copy = async |fs: &Below<D>| operations::copy(fs, &caller, from, to, size).await;
        answer_written(reply, self.share.run(copy).map(|count| count as u32));
    }
}
