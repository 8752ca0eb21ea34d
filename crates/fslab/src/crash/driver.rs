//! Operations on a file system, and everything that can be seen of it.

use crate::crash::contents::Contents;
use crate::crash::model::{Answer, DIRECTORY_PERMISSIONS, FILE_PERMISSIONS, OWNER, errno};
use crate::crash::op::{self, At, File, Op};
use crate::crash::tree::{Entry, Meta, Tree};
use crate::load::sync::Changes;
use bytefs::{Attr, Caller, FileKind, FileSystem, FsError, Ino, SetAttr, Timestamp, WriteOptions};
use port::{Clock, Device};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

/// Names of a directory that are asked for at a time: few, so that there are several requests.
const NAMES: usize = 3;
/// Bytes of a file that are asked for at a time.
const READ: usize = 64 << 10;

/// Who asks a file system for operations, and what is open.
#[derive(Clone, Default, Debug)]
pub struct Driver {
    open: BTreeMap<u8, Ino>,
    /// Operations so far: the time of day.
    now: i64,
    /// On which core they run.
    core: u32,
    locks: Locks,
    /// Bytes that the last write has written.
    wrote: u32,
}

/// Files that a task writes to, cuts or gives blocks. As below Linux's VFS one does at a time: the
/// kernel lets the next one in when it is done.
#[derive(Clone, Default)]
pub struct Locks(Rc<Table>);

#[derive(Default)]
struct Table {
    held: RefCell<BTreeSet<Ino>>,
    changes: Changes,
}

/// A file that is locked; until it goes.
struct Held(Locks, Ino);

impl Locks {
    async fn lock(&self, ino: Ino) -> Held {
        let take = || self.0.held.borrow_mut().insert(ino).then_some(());
        self.0.changes.until(take).await;
        Held(self.clone(), ino)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Locks(table) = &self.0;
        table.held.borrow_mut().remove(&self.1);
        table.changes.tell();
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Locks").field(&self.0.held).finish()
    }
}

impl Driver {
    /// One that asks from this core, beside others with the same locks.
    pub fn on_core(core: u32, locks: &Locks) -> Self {
        Self {
            core,
            locks: locks.clone(),
            ..Self::default()
        }
    }

    fn caller(&mut self) -> Caller {
        self.now += 1;
        Caller {
            uid: OWNER.0,
            gid: OWNER.1,
            core: self.core,
            now: Timestamp(self.now * 1_000_000),
        }
    }

    /// Bytes that the last write has written, also if it has ended with an error.
    pub fn wrote(&self) -> u32 {
        self.wrote
    }

    /// Does an operation.
    ///
    /// # Errors
    /// The file system has failed, or cannot be asked.
    pub async fn apply<D: Device, C: Clock>(
        &mut self,
        fs: &FileSystem<D, C>,
        op: &Op,
    ) -> Result<Answer, String> {
        let done = self.done(fs, op).await;
        match done {
            Ok(bytes) => Ok(Ok(bytes)),
            Err(Stop::Number(number)) => Ok(Err(number)),
            Err(Stop::Setup) => Err(format!("`{op}` stands in a setup only")),
            Err(Stop::Error(FsError::Io(why) | FsError::ReadOnly(why))) => Err(why),
            Err(Stop::Error(error)) => Ok(Err(error.errno())),
        }
    }

    async fn done<D: Device, C: Clock>(
        &mut self,
        fs: &FileSystem<D, C>,
        op: &Op,
    ) -> Result<Vec<u8>, Stop> {
        let caller = self.caller();
        let caller = &caller;
        match op {
            Op::Create(path) => {
                let (parent, name) = place(fs, path).await?;
                let made = fs.create(caller, parent, name, FILE_PERMISSIONS).await?;
                fs.release(made.ino).await?;
            }
            Op::Mkdir(path) => {
                let (parent, name) = place(fs, path).await?;
                fs.mkdir(caller, parent, name, DIRECTORY_PERMISSIONS)
                    .await?;
            }
            Op::Mkfifo(path) => {
                let (parent, name) = place(fs, path).await?;
                let kind = FileKind::Fifo;
                fs.mknod(caller, parent, name, kind, FILE_PERMISSIONS, 0)
                    .await?;
            }
            Op::Symlink { target, path } => {
                let (parent, name) = place(fs, path).await?;
                fs.symlink(caller, parent, name, target.as_bytes()).await?;
            }
            Op::Link { from, to } => {
                let from = self.file(fs, from).await?;
                let (parent, name) = place(fs, to).await?;
                fs.link(caller, from, parent, name).await?;
            }
            Op::Rename { from, to, how } => {
                let (from, name) = place(fs, from).await?;
                let (to, new_name) = place(fs, to).await?;
                fs.rename(caller, from, name, to, new_name, *how).await?;
            }
            Op::Unlink(path) => {
                let (parent, name) = place(fs, path).await?;
                fs.unlink(caller, parent, name).await?;
            }
            Op::Rmdir(path) => {
                let (parent, name) = place(fs, path).await?;
                fs.rmdir(caller, parent, name).await?;
            }
            Op::Open(path, number) => {
                let ino = lookup(fs, path).await?.ino;
                if self.open.contains_key(number) {
                    return Err(Stop::Number(errno::EBADF));
                }
                fs.open(ino).await?;
                self.open.insert(*number, ino);
            }
            Op::Close(number) => {
                let ino = self.open.remove(number);
                fs.release(ino.ok_or(Stop::Number(errno::EBADF))?).await?;
            }
            Op::Write {
                file,
                at,
                size,
                mark,
                direct,
                sync,
            } => {
                let ino = self.file(fs, file).await?;
                let _held = self.locks.lock(ino).await;
                let at = match at {
                    At::Byte(at) => *at,
                    At::End => fs.getattr(ino).await?.size,
                };
                let bytes = op::data(*mark, at, *size as usize);
                let options = WriteOptions {
                    direct: *direct,
                    sync: *sync,
                    kill_privileges: false,
                };
                let mut done = 0;
                self.wrote = 0;
                while done < bytes.len() {
                    let rest = &bytes[done..];
                    let wrote = fs
                        .write(caller, ino, at + done as u64, rest, options)
                        .await?;
                    assert!(wrote > 0 && wrote <= rest.len(), "a write writes something");
                    done += wrote;
                    self.wrote = done as u32;
                }
            }
            Op::Truncate { file, size } => {
                let ino = self.file(fs, file).await?;
                let _held = self.locks.lock(ino).await;
                let set = SetAttr {
                    size: Some(*size),
                    ..SetAttr::default()
                };
                fs.setattr(caller, ino, set).await?;
            }
            Op::Chmod { file, permissions } => {
                let ino = self.file(fs, file).await?;
                let set = SetAttr {
                    permissions: Some(*permissions),
                    ..SetAttr::default()
                };
                fs.setattr(caller, ino, set).await?;
            }
            Op::Fallocate {
                file,
                how,
                at,
                size,
            } => {
                let ino = self.file(fs, file).await?;
                let _held = self.locks.lock(ino).await;
                fs.fallocate(caller, ino, *how, *at, *size).await?;
            }
            Op::SetXattr {
                file,
                name,
                size,
                mark,
                how,
            } => {
                let ino = self.file(fs, file).await?;
                let value = op::data(*mark, 0, *size as usize);
                fs.set_xattr(caller, ino, name.as_bytes(), &value, *how)
                    .await?;
            }
            Op::RemoveXattr { file, name } => {
                let ino = self.file(fs, file).await?;
                fs.remove_xattr(caller, ino, name.as_bytes()).await?;
            }
            Op::Fsync(file) => fs.fsync(self.file(fs, file).await?, false).await?,
            Op::Fdatasync(file) => fs.fsync(self.file(fs, file).await?, true).await?,
            Op::Sync => fs.sync().await?,
            Op::FlushOld => fs.flush_old(Timestamp(i64::MAX)).await?,
            Op::Tick => fs.flush_old(Timestamp(i64::MIN)).await?,
            Op::Remount | Op::Recover => return Err(Stop::Setup),
            Op::Read {
                file,
                at,
                size,
                direct,
            } => {
                let ino = self.file(fs, file).await?;
                return Ok(fs.read(ino, *at, *size as usize, *direct).await?);
            }
        }
        Ok(Vec::new())
    }

    async fn file<D: Device, C: Clock>(
        &self,
        fs: &FileSystem<D, C>,
        file: &File,
    ) -> Result<Ino, Stop> {
        match file {
            File::Open(number) => {
                let ino = self.open.get(number).copied();
                ino.ok_or(Stop::Number(errno::EBADF))
            }
            File::Path(path) => Ok(lookup(fs, path).await?.ino),
        }
    }
}

/// Why an operation was not done.
enum Stop {
    Error(FsError),
    /// The driver's own.
    Number(i32),
    /// Of a setup only.
    Setup,
}

impl From<FsError> for Stop {
    fn from(error: FsError) -> Self {
        Self::Error(error)
    }
}

/// What a path names.
///
/// # Errors
/// It names nothing.
pub async fn lookup<D: Device, C: Clock>(
    fs: &FileSystem<D, C>,
    path: &str,
) -> Result<Attr, FsError> {
    let mut found = fs.getattr(Ino::ROOT).await?;
    for name in path.split('/').filter(|name| *name != ".") {
        check_directory(&found)?;
        found = fs.lookup(found.ino, name.as_bytes()).await?;
    }
    Ok(found)
}

/// Paths are walked before an operation is asked for: what it is asked on is a directory.
fn check_directory(attr: &Attr) -> Result<(), FsError> {
    match attr.kind {
        FileKind::Directory => Ok(()),
        _ => Err(FsError::NotDirectory),
    }
}

async fn place<'a, D: Device, C: Clock>(
    fs: &FileSystem<D, C>,
    path: &'a str,
) -> Result<(Ino, &'a [u8]), FsError> {
    let (parent, name) = path.rsplit_once('/').unwrap_or((".", path));
    let parent = lookup(fs, parent).await?;
    check_directory(&parent)?;
    if name.len() > bytefs::layout::NAME_MOST {
        return Err(FsError::NameTooLong);
    }
    Ok((parent.ino, name.as_bytes()))
}

/// Everything that can be seen. Names, numbers and kinds must agree wherever they are said.
///
/// # Errors
/// What contradicts itself or cannot be read, one sentence.
pub async fn walk<D: Device, C: Clock>(fs: &FileSystem<D, C>) -> Result<Tree, String> {
    let mut tree = Tree::default();
    let mut directories = vec![(".".to_owned(), Ino::ROOT)];
    let root = said(".", fs.getattr(Ino::ROOT).await)?;
    tree.0.insert(".".to_owned(), entry(fs, ".", root).await?);
    let mut parents = BTreeMap::from([(Ino::ROOT, Ino::ROOT)]);
    while let Some((path, directory)) = directories.pop() {
        for name in names(fs, &path, directory, parents[&directory]).await? {
            let child = String::from_utf8_lossy(&name.name).into_owned();
            let child = match path.as_str() {
                "." => child,
                _ => format!("{path}/{child}"),
            };
            let attr = said(&child, fs.lookup(directory, &name.name).await)?;
            if (attr.ino, attr.kind) != (name.ino, name.kind) {
                return Err(format!(
                    "{child} is {} in its directory and {}",
                    name.ino, attr.ino
                ));
            }
            if attr.kind == FileKind::Directory {
                if parents.insert(attr.ino, directory).is_some() {
                    return Err(format!("{child} is a second name of a directory"));
                }
                directories.push((child.clone(), attr.ino));
            }
            let entry = entry(fs, &child, attr).await?;
            if tree.0.insert(child.clone(), entry).is_some() {
                return Err(format!("{child} is there twice"));
            }
        }
    }
    Ok(tree)
}

fn said<T>(path: &str, result: Result<T, FsError>) -> Result<T, String> {
    result.map_err(|error| format!("{path}: {error}"))
}

async fn names<D: Device, C: Clock>(
    fs: &FileSystem<D, C>,
    path: &str,
    directory: Ino,
    parent: Ino,
) -> Result<Vec<bytefs::DirEntry>, String> {
    let (mut all, mut from) = (Vec::new(), 0);
    loop {
        let some = said(path, fs.readdir(directory, from, NAMES).await)?;
        let Some(last) = some.last() else { break };
        if last.next == from {
            return Err(format!(
                "{path}: a directory is read on from where it was read"
            ));
        }
        from = last.next;
        all.extend(some);
        if all.len() > 1 << 20 {
            return Err(format!("{path}: a directory does not end"));
        }
    }
    let dots: Vec<(&[u8], Ino)> = all.iter().take(2).map(|e| (&e.name[..], e.ino)).collect();
    if dots != [(&b"."[..], directory), (&b".."[..], parent)] {
        return Err(format!("{path}: a directory begins with {dots:?}"));
    }
    Ok(all.split_off(2))
}

async fn entry<D: Device, C: Clock>(
    fs: &FileSystem<D, C>,
    path: &str,
    attr: Attr,
) -> Result<Entry, String> {
    let mut contents = Contents::default();
    let mut target = Vec::new();
    match attr.kind {
        FileKind::Regular => {
            contents.truncate(attr.size);
            let mut at = 0;
            while at < attr.size {
                let wanted = READ.min((attr.size - at) as usize);
                let bytes = said(path, fs.read(attr.ino, at, wanted, false).await)?;
                if bytes.len() != wanted {
                    return Err(format!(
                        "{path}: {} B of {wanted} are read at {at}",
                        bytes.len()
                    ));
                }
                contents.write(at, &bytes);
                at += wanted as u64;
            }
        }
        FileKind::Symlink => {
            target = said(path, fs.readlink(attr.ino).await)?;
            if target.len() as u64 != attr.size {
                return Err(format!(
                    "{path}: a target has another size than its link says"
                ));
            }
        }
        _ => {}
    }
    let mut xattrs = BTreeMap::new();
    let list = said(path, fs.list_xattr(attr.ino).await)?;
    for name in list
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
    {
        let value = said(path, fs.get_xattr(attr.ino, name).await)?;
        xattrs.insert(name.to_vec(), value);
    }
    let meta = Meta {
        kind: attr.kind,
        permissions: attr.permissions,
        uid: attr.uid,
        gid: attr.gid,
        links: attr.links,
        rdev: attr.rdev,
        target,
        xattrs,
    };
    Ok(Entry {
        id: u64::from(attr.ino.0),
        meta,
        contents,
    })
}
