//! A plain file system in memory: what POSIX and Linux say of each operation.
//!
//! It has no device, no cache and no limits but those of names; errors are numbers of Linux.
//! Permissions are checked by nobody, as in [`bytefs::FileSystem`]: who asks has been let.

use crate::crash::contents::Contents;
use crate::crash::op::{self, At, File, Op};
use crate::crash::tree::{Entry, Meta, Tree};
use bytefs::{Allocate, FileKind, Rename, SetXattr};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Numbers of Linux.
pub mod errno {
    #![allow(missing_docs, reason = "the names are those of the manual")]
    pub const EPERM: i32 = 1;
    pub const ENOENT: i32 = 2;
    pub const EBADF: i32 = 9;
    pub const EEXIST: i32 = 17;
    pub const ENODEV: i32 = 19;
    pub const ENOTDIR: i32 = 20;
    pub const EISDIR: i32 = 21;
    pub const EINVAL: i32 = 22;
    pub const ENOSPC: i32 = 28;
    pub const ENAMETOOLONG: i32 = 36;
    pub const ENOTEMPTY: i32 = 39;
    pub const ENODATA: i32 = 61;
}
use errno::*;

/// What an operation gives: bytes that were read, or an error's number.
pub type Answer = Result<Vec<u8>, i32>;

/// Which file: no number is given twice.
pub type Id = u64;

/// Who makes files: owner, group, and the permissions of files and of directories.
pub const OWNER: (u32, u32) = (1000, 100);
/// Permissions of new files.
pub const FILE_PERMISSIONS: u16 = 0o644;
/// Permissions of new directories.
pub const DIRECTORY_PERMISSIONS: u16 = 0o755;
/// Longest name.
const NAME_MOST: usize = 255;
const ROOT: Id = 1;

/// A file system.
#[derive(Clone, Debug)]
pub struct Model {
    nodes: BTreeMap<Id, Arc<Node>>,
    next: Id,
    /// By number of [`Op::Open`].
    open: BTreeMap<u8, Id>,
}

#[derive(Clone, Debug)]
struct Node {
    meta: Meta,
    contents: Contents,
    entries: BTreeMap<String, Id>,
    /// Of a directory.
    parent: Id,
}

/// A name in a directory that is there.
struct Place<'a> {
    directory: Id,
    name: &'a str,
}

impl Model {
    /// A root directory with these permissions, owner and group.
    pub fn new(permissions: u16, (uid, gid): (u32, u32)) -> Self {
        let mut meta = meta_of(FileKind::Directory, permissions, uid, gid);
        meta.links = 2;
        let root = Node {
            meta,
            contents: Contents::default(),
            entries: BTreeMap::new(),
            parent: ROOT,
        };
        Self {
            nodes: BTreeMap::from([(ROOT, Arc::new(root))]),
            next: ROOT + 1,
            open: BTreeMap::new(),
        }
    }

    /// Does an operation, or nothing if it gives an error.
    ///
    /// # Errors
    /// The number that Linux gives.
    pub fn apply(&mut self, op: &Op) -> Answer {
        let done = match op {
            Op::Create(path) => self.make(path, FileKind::Regular, FILE_PERMISSIONS, ""),
            Op::Mkdir(path) => self.make(path, FileKind::Directory, DIRECTORY_PERMISSIONS, ""),
            Op::Mkfifo(path) => self.make(path, FileKind::Fifo, FILE_PERMISSIONS, ""),
            Op::Symlink { target, path } => self.make(path, FileKind::Symlink, 0o777, target),
            Op::Link { from, to } => self.link(from, to),
            Op::Rename { from, to, how } => self.rename(from, to, *how).and_then(|is_moved| {
                let leaves = matches!(how, Rename::Whiteout | Rename::WhiteoutNoReplace);
                match is_moved && leaves {
                    // A whiteout, which nobody may open.
                    true => self.make(from, FileKind::CharDevice, 0, ""),
                    false => Ok(()),
                }
            }),
            Op::Unlink(path) => self.unlink(path),
            Op::Rmdir(path) => self.rmdir(path),
            Op::Open(path, number) => self.open(path, *number),
            Op::Close(number) => self.close(*number),
            Op::Write {
                file,
                at,
                size,
                mark,
                ..
            } => self.write(file, *at, *size, *mark),
            Op::Truncate { file, size } => self.truncate(file, *size),
            Op::Fallocate {
                file,
                how,
                at,
                size,
            } => self.fallocate(file, *how, *at, *size),
            Op::SetXattr {
                file,
                name,
                size,
                mark,
                how,
            } => self.set_xattr(file, name, op::data(*mark, 0, *size as usize), *how),
            Op::RemoveXattr { file, name } => self.remove_xattr(file, name),
            Op::Chmod { file, permissions } => self.file(file).map(|id| {
                self.node(id).meta.permissions = *permissions;
            }),
            Op::Fsync(file) | Op::Fdatasync(file) => self.file(file).map(|_| ()),
            Op::Sync | Op::FlushOld | Op::Tick => Ok(()),
            Op::Remount | Op::Recover => {
                let open: Vec<u8> = self.open.keys().copied().collect();
                open.into_iter().try_for_each(|number| self.close(number))
            }
            Op::Read { file, at, size, .. } => return self.read(file, *at, *size as usize),
        };
        done.map(|()| Vec::new())
    }

    /// The file that an operation names, if it is there.
    ///
    /// # Errors
    /// As [`Model::apply`].
    pub fn file(&self, file: &File) -> Result<Id, i32> {
        match file {
            File::Open(number) => self.open.get(number).copied().ok_or(EBADF),
            File::Path(path) => self.lookup(path),
        }
    }

    /// Whether something is open under a number.
    pub fn is_open(&self, number: u8) -> bool {
        self.open.contains_key(&number)
    }

    /// The file of a path.
    ///
    /// # Errors
    /// As [`Model::apply`].
    pub fn lookup(&self, path: &str) -> Result<Id, i32> {
        if path == "." {
            return Ok(ROOT);
        }
        let Place { directory, name } = self.place(path)?;
        self.entry(directory, name)?.ok_or(ENOENT)
    }

    /// Bytes of a regular file that is there, open or named.
    pub fn contents(&self, id: Id) -> Option<&Contents> {
        let node = self.nodes.get(&id)?;
        (node.meta.kind == FileKind::Regular).then_some(&node.contents)
    }

    /// The kind of what a path names.
    pub fn kind(&self, path: &str) -> Option<FileKind> {
        let id = self.lookup(path).ok()?;
        Some(self.nodes[&id].meta.kind)
    }

    /// Attributes of what a path names.
    pub fn has_xattr(&self, path: &str, name: &str) -> bool {
        let id = self.lookup(path);
        id.is_ok_and(|id| self.nodes[&id].meta.xattrs.contains_key(name.as_bytes()))
    }

    /// How many files there are: with names, or open.
    pub fn files(&self) -> usize {
        self.nodes.len()
    }

    /// Everything that can be seen.
    pub fn tree(&self) -> Tree {
        let mut tree = Tree::default();
        self.add(&mut tree, ".", ROOT);
        tree
    }

    fn add(&self, tree: &mut Tree, path: &str, id: Id) {
        let node = &self.nodes[&id];
        let entry = Entry {
            id,
            meta: node.meta.clone(),
            contents: node.contents.clone(),
        };
        tree.0.insert(path.to_owned(), entry);
        for (name, id) in &node.entries {
            let path = match path {
                "." => name.clone(),
                _ => format!("{path}/{name}"),
            };
            self.add(tree, &path, *id);
        }
    }

    fn node(&mut self, id: Id) -> &mut Node {
        let node = self
            .nodes
            .get_mut(&id)
            .expect("a file that is named is there");
        Arc::make_mut(node)
    }

    fn directory(&self, id: Id) -> Result<&Node, i32> {
        let node = &self.nodes[&id];
        match node.meta.kind {
            FileKind::Directory => Ok(node),
            _ => Err(ENOTDIR),
        }
    }

    fn entry(&self, directory: Id, name: &str) -> Result<Option<Id>, i32> {
        let node = self.directory(directory)?;
        if name.len() > NAME_MOST {
            return Err(ENAMETOOLONG);
        }
        Ok(node.entries.get(name).copied())
    }

    fn place<'a>(&self, path: &'a str) -> Result<Place<'a>, i32> {
        let (parent, name) = path.rsplit_once('/').unwrap_or((".", path));
        let directory = self.lookup(parent)?;
        self.entry(directory, name)?;
        Ok(Place { directory, name })
    }

    fn free_place<'a>(&self, path: &'a str) -> Result<Place<'a>, i32> {
        let place = self.place(path)?;
        match self.entry(place.directory, place.name)? {
            None => Ok(place),
            Some(_) => Err(EEXIST),
        }
    }

    fn make(
        &mut self,
        path: &str,
        kind: FileKind,
        mut permissions: u16,
        target: &str,
    ) -> Result<(), i32> {
        let Place { directory, name } = self.free_place(path)?;
        let is_directory = kind == FileKind::Directory;
        let (uid, mut gid) = OWNER;
        let parent = &self.nodes[&directory].meta;
        if parent.permissions & 0o2000 != 0 {
            gid = parent.gid;
            permissions |= if is_directory { 0o2000 } else { 0 };
        }
        let mut meta = meta_of(kind, permissions, uid, gid);
        meta.target = target.as_bytes().to_vec();
        meta.links = if is_directory { 2 } else { 1 };
        let id = self.next;
        self.next += 1;
        let node = Node {
            meta,
            contents: Contents::default(),
            entries: BTreeMap::new(),
            parent: directory,
        };
        self.nodes.insert(id, Arc::new(node));
        let parent = self.node(directory);
        parent.entries.insert(name.to_owned(), id);
        parent.meta.links += u32::from(is_directory);
        Ok(())
    }

    fn link(&mut self, from: &File, to: &str) -> Result<(), i32> {
        let id = self.file(from)?;
        let Place { directory, name } = self.free_place(to)?;
        if self.nodes[&id].meta.links == 0 {
            return Err(ENOENT);
        }
        if self.nodes[&id].meta.kind == FileKind::Directory {
            return Err(EPERM);
        }
        self.node(id).meta.links += 1;
        self.node(directory).entries.insert(name.to_owned(), id);
        Ok(())
    }

    fn unlink(&mut self, path: &str) -> Result<(), i32> {
        let Place { directory, name } = self.place(path)?;
        let id = self.entry(directory, name)?.ok_or(ENOENT)?;
        if self.nodes[&id].meta.kind == FileKind::Directory {
            return Err(EISDIR);
        }
        self.node(directory).entries.remove(name);
        self.node(id).meta.links -= 1;
        self.forget(id);
        Ok(())
    }

    fn rmdir(&mut self, path: &str) -> Result<(), i32> {
        let Place { directory, name } = self.place(path)?;
        let id = self.entry(directory, name)?.ok_or(ENOENT)?;
        if !self.directory(id)?.entries.is_empty() {
            return Err(ENOTEMPTY);
        }
        let parent = self.node(directory);
        parent.entries.remove(name);
        parent.meta.links -= 1;
        self.node(id).meta.links = 0;
        self.forget(id);
        Ok(())
    }

    /// A file without names goes when nobody has it open.
    fn forget(&mut self, id: Id) {
        let is_open = self.open.values().any(|open| *open == id);
        if self.nodes[&id].meta.links == 0 && !is_open {
            self.nodes.remove(&id);
        }
    }

    /// Whether the old name is free then: it is not of two names of one file, or if others have it.
    fn rename(&mut self, from: &str, to: &str, how: Rename) -> Result<bool, i32> {
        let (from, to) = (self.place(from)?, self.place(to)?);
        let moved = self.entry(from.directory, from.name)?.ok_or(ENOENT)?;
        let other = self.entry(to.directory, to.name)?;
        match (how, other) {
            (Rename::NoReplace | Rename::WhiteoutNoReplace, Some(_)) => return Err(EEXIST),
            (Rename::Exchange, None) => return Err(ENOENT),
            _ => {}
        }
        if self.is_within(to.directory, moved) {
            return Err(EINVAL);
        }
        let is_directory = |id: Id| self.nodes[&id].meta.kind == FileKind::Directory;
        let moves_directory = is_directory(moved);
        let Some(other) = other else {
            self.take(&from, moves_directory);
            self.put(&to, moved, moves_directory);
            return Ok(true);
        };
        if self.is_within(from.directory, other) {
            return Err(if how == Rename::Exchange {
                EINVAL
            } else {
                ENOTEMPTY
            });
        }
        if other == moved {
            return Ok(false);
        }
        let meets_directory = is_directory(other);
        if how == Rename::Exchange {
            self.take(&from, moves_directory);
            self.take(&to, meets_directory);
            self.put(&to, moved, moves_directory);
            self.put(&from, other, meets_directory);
            return Ok(false);
        }
        match (moves_directory, meets_directory) {
            (true, false) => return Err(ENOTDIR),
            (false, true) => return Err(EISDIR),
            (true, true) if !self.nodes[&other].entries.is_empty() => return Err(ENOTEMPTY),
            _ => {}
        }
        self.take(&to, meets_directory);
        let links = &mut self.node(other).meta.links;
        *links = if meets_directory { 0 } else { *links - 1 };
        self.forget(other);
        self.take(&from, moves_directory);
        self.put(&to, moved, moves_directory);
        Ok(true)
    }

    /// Whether a directory is `above`, or lies below it.
    fn is_within(&self, mut directory: Id, above: Id) -> bool {
        while directory != above && directory != ROOT {
            directory = self.nodes[&directory].parent;
        }
        directory == above
    }

    fn take(&mut self, place: &Place<'_>, is_directory: bool) {
        let directory = self.node(place.directory);
        directory.entries.remove(place.name);
        directory.meta.links -= u32::from(is_directory);
    }

    fn put(&mut self, place: &Place<'_>, id: Id, is_directory: bool) {
        let directory = self.node(place.directory);
        directory.entries.insert(place.name.to_owned(), id);
        directory.meta.links += u32::from(is_directory);
        self.node(id).parent = place.directory;
    }

    fn open(&mut self, path: &str, number: u8) -> Result<(), i32> {
        let id = self.lookup(path)?;
        // Numbers are the caller's, not those of a process: one is given once.
        if self.is_open(number) {
            return Err(EBADF);
        }
        self.open.insert(number, id);
        Ok(())
    }

    fn close(&mut self, number: u8) -> Result<(), i32> {
        let id = self.open.remove(&number).ok_or(EBADF)?;
        self.forget(id);
        Ok(())
    }

    /// A file whose bytes are asked for; `other` is the error of what has none.
    fn regular(&self, file: &File, other: i32) -> Result<Id, i32> {
        let id = self.file(file)?;
        match self.nodes[&id].meta.kind {
            FileKind::Regular => Ok(id),
            FileKind::Directory => Err(EISDIR),
            _ => Err(other),
        }
    }

    fn write(&mut self, file: &File, at: At, size: u32, mark: u32) -> Result<(), i32> {
        let id = self.regular(file, EINVAL)?;
        let contents = &mut self.node(id).contents;
        let at = match at {
            At::Byte(at) => at,
            At::End => contents.size(),
        };
        contents.write(at, &op::data(mark, at, size as usize));
        Ok(())
    }

    fn read(&self, file: &File, at: u64, size: usize) -> Answer {
        let id = self.regular(file, EINVAL)?;
        Ok(self.nodes[&id].contents.read(at, size))
    }

    fn truncate(&mut self, file: &File, size: u64) -> Result<(), i32> {
        let id = self.regular(file, EINVAL)?;
        self.node(id).contents.truncate(size);
        Ok(())
    }

    fn fallocate(&mut self, file: &File, how: Allocate, at: u64, size: u64) -> Result<(), i32> {
        let id = self.regular(file, ENODEV)?;
        if size == 0 {
            return Err(EINVAL);
        }
        let contents = &mut self.node(id).contents;
        let end = at + size;
        if !matches!(how, Allocate::Grow | Allocate::KeepSize) {
            contents.zero(at, size);
        }
        if matches!(how, Allocate::Grow | Allocate::ZeroRange) && contents.size() < end {
            contents.truncate(end);
        }
        Ok(())
    }

    fn set_xattr(
        &mut self,
        file: &File,
        name: &str,
        value: Vec<u8>,
        how: SetXattr,
    ) -> Result<(), i32> {
        let id = self.file(file)?;
        let xattrs = &mut self.node(id).meta.xattrs;
        match (how, xattrs.contains_key(name.as_bytes())) {
            (SetXattr::Create, true) => return Err(EEXIST),
            (SetXattr::Replace, false) => return Err(ENODATA),
            _ => {}
        }
        xattrs.insert(name.as_bytes().to_vec(), value);
        Ok(())
    }

    fn remove_xattr(&mut self, file: &File, name: &str) -> Result<(), i32> {
        let id = self.file(file)?;
        let removed = self.node(id).meta.xattrs.remove(name.as_bytes());
        removed.map(|_| ()).ok_or(ENODATA)
    }
}

fn meta_of(kind: FileKind, permissions: u16, uid: u32, gid: u32) -> Meta {
    Meta {
        kind,
        permissions,
        uid,
        gid,
        links: 1,
        rdev: 0,
        target: Vec::new(),
        xattrs: BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash::op::parse_all;

    fn model() -> Model {
        Model::new(0o755, (0, 0))
    }

    /// Runs operations; each line that is to fail ends with `# ERROR number`.
    fn check(text: &str) -> Model {
        let mut model = model();
        for line in text.lines() {
            let (op, wanted) = match line.split_once('=') {
                Some((op, errno)) => (op, Err(errno.trim().parse::<i32>().unwrap())),
                None => (line, Ok(())),
            };
            let op = &parse_all(op).unwrap()[0];
            let answer = model.apply(op).map(|_| ());
            assert_eq!(answer, wanted, "{op}");
        }
        model
    }

    fn paths(model: &Model) -> Vec<String> {
        model.tree().0.into_keys().collect()
    }

    #[test]
    fn names_follow_the_rules_of_linux() {
        let long = "x".repeat(256);
        let model = check(&format!(
            "mkdir A\nmkdir A = 17\ncreate A/foo\ncreate A/foo = 17\ncreate B/foo = 2\n\
             create A/foo/bar = 20\ncreate {long} = 36\nlink A B = 1\nlink A/foo bar\n\
             unlink A = 21\nrmdir A = 39\nrmdir bar = 20\nunlink bar\nunlink bar = 2\n\
             symlink nowhere s\nmkfifo p\nwrite s 0 1 1 = 22\nwrite A 0 1 1 = 21"
        ));
        assert_eq!(paths(&model), [".", "A", "A/foo", "p", "s"]);
        let tree = model.tree();
        assert_eq!(tree.0["."].meta.links, 3);
        assert_eq!(tree.0["A/foo"].meta.links, 1);
    }

    #[test]
    fn renames_follow_the_rules_of_linux() {
        let model = check(
            "mkdir A\nmkdir B\nmkdir A/C\ncreate foo\ncreate B/bar\n\
             rename nothing foo = 2\nrename A A/C/D = 22\nrename A/C A = 39\n\
             rename foo A = 21\nrename A foo = 20\nrename A/C B = 39\n\
             rename-noreplace foo B/bar = 17\nrename-exchange foo no = 2\n\
             rename-exchange A A/C = 22\nrename-exchange A/C A = 22\n\
             rename A/C B/C\nrename-exchange A B/C\nrename-exchange foo B\n\
             link B bar\nrename B bar\nrename-whiteout B bar\nunlink B\n\
             rename-whiteout-noreplace bar foo/bar = 17\nrename-whiteout foo/bar foo/baz\n\
             rename-whiteout-noreplace bar D\nrename-whiteout D bar\nrename-whiteout A E\n\
             unlink D",
        );
        let names = [".", "A", "E", "bar", "foo", "foo/C", "foo/bar", "foo/baz"];
        assert_eq!(paths(&model), names);
        let tree = model.tree();
        for path in ["A", "foo/bar"] {
            let meta = &tree.0[path].meta;
            let (kind, device) = (FileKind::CharDevice, 0);
            assert_eq!((meta.kind, meta.rdev, meta.links), (kind, device, 1));
        }
        assert_eq!(tree.0["."].meta.links, 4);
        assert_eq!(tree.0["foo"].meta.links, 3);
        assert_eq!(tree.0["E"].meta.links, 2);
    }

    #[test]
    fn an_unlinked_file_stays_until_it_is_closed() {
        let mut model = check("create foo\nopen foo 1\nunlink foo\nwrite %1 0 10 1\nfsync %1");
        assert_eq!(model.files(), 2);
        let read = "read %1 0 100".parse().unwrap();
        assert_eq!(model.apply(&read), Ok(op::data(1, 0, 10)));
        model.apply(&Op::Close(1)).unwrap();
        assert_eq!(model.files(), 1);
    }

    #[test]
    fn ranges_are_given_and_taken() {
        let model = check(
            "create foo\nwrite foo 0 9000 1\nfallocate foo punch 100 5000\n\
             fallocate foo keep-size 0 20000\nfallocate foo grow 0 10000\n\
             fallocate foo zero-keep-size 9900 5000\nfallocate foo zero 9990 20\n\
             fallocate foo grow 0 0 = 22\ntruncate foo 8000\ntruncate foo 8200\n\
             fallocate . grow 0 1 = 21",
        );
        let id = model.lookup("foo").unwrap();
        let bytes = model.contents(id).unwrap().read(0, 20_000);
        let mut wanted = op::data(1, 0, 8000);
        wanted[100..5100].fill(0);
        wanted.resize(8200, 0);
        assert_eq!(bytes, wanted);
    }

    #[test]
    fn attributes_are_new_or_not_as_they_must_be() {
        let model = check(
            "create foo\nsetxattr foo user.a 10 1\nsetxattr-create foo user.a 10 1 = 17\n\
             setxattr-replace foo user.b 10 1 = 61\nsetxattr-replace foo user.a 20 2\n\
             removexattr foo user.b = 61\nsetxattr foo user.b 5 3\nremovexattr foo user.b",
        );
        let meta = &model.tree().0["foo"].meta;
        let wanted = BTreeMap::from([(b"user.a".to_vec(), op::data(2, 0, 20))]);
        assert_eq!(meta.xattrs, wanted);
    }
}
