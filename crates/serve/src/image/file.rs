//! The directory and its file, as the kernel asks for them.
#![allow(
    clippy::disallowed_types,
    reason = "times of a file are the wall clock's; nothing of the device depends on them"
)]

use super::FILE_NAME;
use super::inbox::Inbox;
use super::request::Request as DeviceRequest;
use core::time::Duration;
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use nix::fcntl::{FallocateFlags, OFlag};
use nix::unistd::Whence;
use port::{Device, Drive, Shape};
use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::time::SystemTime;
use units::{ByteAddr, Bytes};

const FILE: INodeNo = INodeNo(2);
/// Nothing that the kernel keeps of names and attributes changes.
const FOR_EVER: Duration = Duration::from_hours(24);
const HANDLE: FileHandle = FileHandle(0);
/// Bytes of a request: what the kernel sends at once without being told otherwise.
const MOST_BYTES: u32 = 1 << 20;
/// Requests that the kernel lets wait of those that no program waits for.
const MOST_WAITING: u16 = 64;

/// The file system of one file.
pub(super) struct OneFile<D> {
    inbox: Arc<Inbox<D>>,
    shape: Shape,
    owner: (u32, u32),
    for_others: bool,
    since: SystemTime,
}

impl<D: Device + Drive> OneFile<D> {
    pub fn new(inbox: Arc<Inbox<D>>, shape: Shape, owner: (u32, u32), for_others: bool) -> Self {
        Self {
            inbox,
            shape,
            owner,
            for_others,
            since: SystemTime::now(),
        }
    }

    fn capacity(&self) -> u64 {
        self.shape.capacity.get()
    }

    fn attributes(&self, node: INodeNo) -> Option<FileAttr> {
        let (kind, size, mine, others) = match node {
            INodeNo::ROOT => (FileType::Directory, 0, 0o500, 0o555),
            FILE => (FileType::RegularFile, self.capacity(), 0o600, 0o666),
            _ => return None,
        };
        Some(FileAttr {
            ino: node,
            size,
            blocks: size / 512,
            atime: self.since,
            mtime: self.since,
            ctime: self.since,
            crtime: self.since,
            kind,
            perm: if self.for_others { others } else { mine },
            nlink: 1,
            uid: self.owner.0,
            gid: self.owner.1,
            rdev: 0,
            blksize: self.shape.block.get() as u32,
            flags: 0,
        })
    }

    fn send_attributes(&self, node: INodeNo, reply: ReplyAttr) {
        match self.attributes(node) {
            Some(attributes) => reply.attr(&FOR_EVER, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    /// What a change of size is answered with: the file has that of the device.
    fn resize(&self, size: u64) -> Result<(), Errno> {
        match size.cmp(&self.capacity()) {
            core::cmp::Ordering::Equal => Ok(()),
            core::cmp::Ordering::Less => Err(Errno::EPERM),
            core::cmp::Ordering::Greater => Err(Errno::EFBIG),
        }
    }
}

impl<D: Device + Drive + Send + Sync + 'static> Filesystem for OneFile<D> {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Each is a gain and none is needed: an older kernel goes without.
        for gain in [
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
        ] {
            let _ = config.add_capabilities(gain);
        }
        let _ = config.set_max_write(MOST_BYTES);
        let _ = config.set_max_background(MOST_WAITING);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(FILE) {
            Some(found) if parent == INodeNo::ROOT && name == FILE_NAME => {
                reply.entry(&FOR_EVER, &found, Generation(0));
            }
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.send_attributes(node, reply);
    }

    fn setattr(
        &self,
        _: &Request,
        node: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        if mode.is_some() || uid.is_some() || gid.is_some() {
            return reply.error(Errno::EPERM);
        }
        match size.map(|size| self.resize(size)) {
            Some(Err(error)) => reply.error(error),
            // Times are not kept.
            _ => self.send_attributes(node, reply),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // No page cache: a write that is answered is with the device, and seen by all its ports.
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(HANDLE, flags | FopenFlags::FOPEN_NOFLUSH);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        at: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let size = u64::from(size).min(self.capacity().saturating_sub(at)) as usize;
        if size == 0 {
            return reply.data(&[]);
        }
        let at = ByteAddr::new(at);
        self.inbox.put(DeviceRequest::Read { at, size, reply });
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        at: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let size = (data.len() as u64).min(self.capacity().saturating_sub(at)) as usize;
        if size == 0 && !data.is_empty() {
            return reply.error(Errno::ENOSPC);
        }
        let (at, bytes) = (ByteAddr::new(at), data[..size].to_vec());
        // Without a page cache the kernel leaves this to the server, of the file's flags and of a
        // single call's. O_SYNC has the bit of O_DSYNC.
        let is_synced = OFlag::from_bits_retain(flags.0).contains(OFlag::O_DSYNC);
        self.inbox.put(DeviceRequest::Write {
            at,
            bytes,
            is_synced,
            reply,
        });
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        self.inbox.put(DeviceRequest::Flush { reply });
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        at: u64,
        size: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let keep = FallocateFlags::FALLOC_FL_KEEP_SIZE;
        let holes =
            FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_ZERO_RANGE | keep;
        let Some(mode) = FallocateFlags::from_bits(mode).filter(|mode| holes.contains(*mode))
        else {
            return reply.error(Errno::EOPNOTSUPP);
        };
        let end = at.saturating_add(size);
        if end > self.capacity() && !mode.contains(keep) {
            return reply.error(Errno::EFBIG);
        }
        let size = Bytes::new(end.min(self.capacity()).saturating_sub(at));
        // The device has room for everything.
        if mode.difference(keep).is_empty() || size == Bytes::ZERO {
            return reply.ok();
        }
        let at = ByteAddr::new(at);
        self.inbox.put(DeviceRequest::Zero { at, size, reply });
    }

    fn lseek(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let end = self.capacity() as i64;
        if offset < 0 || offset >= end {
            return reply.error(Errno::ENXIO);
        }
        // What was trimmed is not known to the host: all is data, with the hole at the end.
        if whence == Whence::SeekData as i32 {
            reply.offset(offset);
        } else if whence == Whence::SeekHole as i32 {
            reply.offset(end);
        } else {
            reply.error(Errno::EINVAL);
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let block = self.shape.block.get();
        let size = block as u32;
        reply.statfs(self.capacity() / block, 0, 0, 1, 0, size, 255, size);
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        from: u64,
        mut reply: ReplyDirectory,
    ) {
        let entries = [
            (INodeNo::ROOT, FileType::Directory, "."),
            (INodeNo::ROOT, FileType::Directory, ".."),
            (FILE, FileType::RegularFile, FILE_NAME),
        ];
        for (place, (node, kind, name)) in (1..).zip(entries).skip(from as usize) {
            if reply.add(node, place, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn create(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        reply.error(Errno::EPERM);
    }

    fn mkdir(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn unlink(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }

    fn rename(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: INodeNo,
        _: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::EPERM);
    }
}
