//! A file system over FUSE that passes everything on to a directory: what the way through the
//! kernel to a server and back costs by itself. Same library, same answers to the kernel about what
//! it may keep, and as many threads as a mounted file system of ours.
#![allow(
    clippy::disallowed_types,
    reason = "times of files are the wall clock's; nothing that is simulated depends on them"
)]

use crate::text;
use fuse::{Manner, MountPoint, Session, Trust};
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use nix::dir::Dir;
use nix::errno::Errno as SystemError;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{FileStat, Mode, fstat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const FOR_EVER: Duration = Duration::from_hours(24);
const MOST_BYTES: u32 = 1 << 20;
const MOST_WAITING: u16 = 64;

/// Serves a directory at another one until its standard input ends.
pub fn serve(below: &str, place: &str, threads: u64) -> Result<(), String> {
    let place = MountPoint::find(Path::new(place)).map_err(text)?;
    let path = OFlag::O_PATH | OFlag::O_DIRECTORY;
    let root = openat(nix::fcntl::AT_FDCWD, below, path, Mode::empty()).map_err(text)?;
    let manner = Manner {
        for_others: false,
        read_only: false,
        may_execute: true,
        trust: Trust::default(),
        threads: threads as usize,
    };
    let _session = Session::new(Passing::new(root), place, manner).map_err(text)?;
    println!("ready");
    io::stdin().read_to_end(&mut Vec::new()).map_err(text)?;
    Ok(())
}

/// Nodes that a descriptor is kept of: a process may not have many more.
const MOST_KEPT: usize = 10_000;

/// What names a node below.
enum Node {
    Kept(Arc<OwnedFd>),
    /// A file of which no descriptor is kept: its directory and its name there. Nothing is renamed.
    Named(Arc<OwnedFd>, OsString),
}

struct Passing {
    /// By the number that the kernel knows it under.
    nodes: RwLock<BTreeMap<u64, Node>>,
    files: RwLock<BTreeMap<u64, Arc<File>>>,
    next: AtomicU64,
}

type Done<T> = Result<T, SystemError>;

impl Passing {
    fn new(root: OwnedFd) -> Self {
        Self {
            nodes: RwLock::new(BTreeMap::from([(
                INodeNo::ROOT.0,
                Node::Kept(Arc::new(root)),
            )])),
            files: RwLock::default(),
            next: AtomicU64::new(1),
        }
    }

    fn node(&self, node: INodeNo) -> Done<Arc<OwnedFd>> {
        let nodes = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        match nodes.get(&node.0).ok_or(SystemError::ESTALE)? {
            Node::Kept(node) => Ok(node.clone()),
            Node::Named(below, name) => {
                let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW;
                let found = openat(&**below, name.as_os_str(), flags, Mode::empty());
                found.map(Arc::new)
            }
        }
    }

    fn file(&self, handle: FileHandle) -> Done<Arc<File>> {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        files.get(&handle.0).cloned().ok_or(SystemError::EBADF)
    }

    fn keep_file(&self, file: OwnedFd) -> FileHandle {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut files = self.files.write().unwrap_or_else(PoisonError::into_inner);
        files.insert(number, Arc::new(File::from(file)));
        FileHandle(number)
    }

    /// What is named in a directory, and known by its number from now on.
    fn entry(&self, parent: INodeNo, name: &OsStr) -> Done<FileAttr> {
        let parent = self.node(parent)?;
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW;
        let found = openat(&*parent, name, flags, Mode::empty())?;
        let attributes = attributes(&fstat(&found)?);
        let mut nodes = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        let is_kept = nodes.len() < MOST_KEPT || attributes.kind == FileType::Directory;
        let node = match is_kept {
            true => Node::Kept(Arc::new(found)),
            false => Node::Named(parent, name.to_owned()),
        };
        nodes.insert(attributes.ino.0, node);
        Ok(attributes)
    }

    /// Opens what a number names: a file is opened anew by its name among the process' files.
    fn opened(&self, node: INodeNo, flags: OFlag) -> Done<OwnedFd> {
        let node = self.node(node)?;
        let path = format!("/proc/self/fd/{}", node.as_raw_fd());
        openat(nix::fcntl::AT_FDCWD, path.as_str(), flags, Mode::empty())
    }

    fn removed(&self, parent: INodeNo, name: &OsStr, how: UnlinkatFlags) -> Done<()> {
        unlinkat(&*self.node(parent)?, name, how)
    }
}

fn time(seconds: i64, nanos: i64) -> SystemTime {
    UNIX_EPOCH + Duration::new(seconds.unsigned_abs(), nanos.unsigned_abs() as u32)
}

fn attributes(stat: &FileStat) -> FileAttr {
    let kind = match stat.st_mode & libc_mode::FORMAT {
        libc_mode::DIRECTORY => FileType::Directory,
        _ => FileType::RegularFile,
    };
    FileAttr {
        ino: INodeNo(stat.st_ino),
        size: stat.st_size.unsigned_abs(),
        blocks: stat.st_blocks.unsigned_abs(),
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
        crtime: UNIX_EPOCH,
        kind,
        perm: (stat.st_mode & 0o7777) as u16,
        nlink: stat.st_nlink as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

/// Bits of a mode that say what a file is.
mod libc_mode {
    pub const FORMAT: u32 = 0o170_000;
    pub const DIRECTORY: u32 = 0o040_000;
}

fn number(error: SystemError) -> Errno {
    Errno::from_i32(error as i32)
}

fn system(error: io::Error) -> SystemError {
    SystemError::from_raw(error.raw_os_error().unwrap_or(SystemError::EIO as i32))
}

impl Filesystem for Passing {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let gains = [
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
        ];
        for gain in gains {
            let _ = config.add_capabilities(gain);
        }
        let _ = config.set_max_write(MOST_BYTES);
        let _ = config.set_max_background(MOST_WAITING);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.entry(parent, name) {
            Ok(found) => reply.entry(&FOR_EVER, &found, Generation(0)),
            Err(error) => reply.error(number(error)),
        }
    }

    fn forget(&self, _: &Request, node: INodeNo, _: u64) {
        if node != INodeNo::ROOT {
            let mut nodes = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
            nodes.remove(&node.0);
        }
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.node(node).and_then(|node| fstat(&*node)) {
            Ok(stat) => reply.attr(&FOR_EVER, &attributes(&stat)),
            Err(error) => reply.error(number(error)),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        node: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        // Only what the measured programs ask for.
        let done = match size {
            Some(size) => self.opened(node, OFlag::O_WRONLY).and_then(|file| {
                let file = File::from(file);
                file.set_len(size).map_err(system)
            }),
            None => Ok(()),
        };
        let found = done.and_then(|()| self.node(node).and_then(|node| fstat(&*node)));
        match found {
            Ok(stat) => reply.attr(&FOR_EVER, &attributes(&stat)),
            Err(error) => reply.error(number(error)),
        }
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let made = self.node(parent).and_then(|below| {
            mkdirat(&*below, name, Mode::from_bits_truncate(mode))?;
            self.entry(parent, name)
        });
        match made {
            Ok(found) => reply.entry(&FOR_EVER, &found, Generation(0)),
            Err(error) => reply.error(number(error)),
        }
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let made = self.node(parent).and_then(|below| {
            let flags = OFlag::O_CREAT | OFlag::O_RDWR | OFlag::O_NOFOLLOW;
            let file = openat(&*below, name, flags, Mode::from_bits_truncate(mode))?;
            Ok((self.entry(parent, name)?, self.keep_file(file)))
        });
        match made {
            Ok((found, handle)) => {
                let kept = FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH;
                reply.created(&FOR_EVER, &found, Generation(0), handle, kept);
            }
            Err(error) => reply.error(number(error)),
        }
    }

    fn open(&self, _: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.opened(node, OFlag::O_RDWR) {
            Ok(file) => {
                let kept = FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH;
                reply.opened(self.keep_file(file), kept);
            }
            Err(error) => reply.error(number(error)),
        }
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let mut files = self.files.write().unwrap_or_else(PoisonError::into_inner);
        files.remove(&handle.0);
        reply.ok();
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        at: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut bytes = vec![0; size as usize];
        let read = self.file(handle).and_then(|file| {
            let mut done = 0;
            while done < bytes.len() {
                match file.read_at(&mut bytes[done..], at + done as u64) {
                    Ok(0) => break,
                    Ok(some) => done += some,
                    Err(error) => return Err(system(error)),
                }
            }
            Ok(done)
        });
        match read {
            Ok(done) => reply.data(&bytes[..done]),
            Err(error) => reply.error(number(error)),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        at: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let file = self.file(handle);
        match file.and_then(|file| file.write_all_at(data, at).map_err(system)) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(number(error)),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        let file = self.file(handle);
        match file.and_then(|file| file.sync_data().map_err(system)) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(number(error)),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        match self.removed(parent, name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(number(error)),
        }
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        match self.removed(parent, name, UnlinkatFlags::RemoveDir) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(number(error)),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        from: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.node(node).and_then(|below| {
            let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
            let mut dir = Dir::openat(below.as_fd(), ".", flags, Mode::empty())?;
            let skipped = usize::try_from(from).unwrap_or(usize::MAX);
            for (next, entry) in (1..).zip(dir.iter()).skip(skipped) {
                let entry = entry?;
                let kind = match entry.file_type() {
                    Some(nix::dir::Type::Directory) => FileType::Directory,
                    _ => FileType::RegularFile,
                };
                let name = OsStr::from_bytes(entry.file_name().to_bytes());
                if reply.add(INodeNo(entry.ino()), next, kind, name) {
                    break;
                }
            }
            Ok(())
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(number(error)),
        }
    }
}
