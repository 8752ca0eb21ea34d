//! Operations on names: looked up, made, removed, moved.

use super::FileSystem;
use crate::dir::{Found, check_name};
use crate::layout::{Extent, Inode, Mode};
use crate::tx::{Done, Stop, Tx};
use crate::{Attr, Caller, DirEntry, FileKind, FsError, Ino, Rename, Timestamp};
use port::{Clock, Device};

/// Names of one file.
const MOST_LINKS: u32 = 65_000;
/// Longest target of a symbolic link, as Linux takes it.
const MOST_TARGET: usize = 4095;
/// Lines that an operation on names changes at most, but for a bucket that is split.
pub(super) const NAME_LINES: usize = 200;
/// Extents that are given back together with the last name.
const FEW_EXTENTS: usize = 8;

const SET_GROUP: u16 = 0o2000;

impl<D: Device, C: Clock> FileSystem<D, C> {
    /// What is known of the file that has a name; "." and ".." are names too.
    ///
    /// # Errors
    /// No directory, no such name.
    pub async fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr, FsError> {
        self.spend(self.costs.operation).await;
        if name.len() > crate::layout::NAME_MOST {
            return Err(FsError::NameTooLong);
        }
        self.run(|tx| {
            let dir = tx.directory(parent)?;
            let ino = match name {
                b"." => parent,
                b".." => dir.parent,
                _ => tx.need_name(parent, &dir, name)?.ino,
            };
            tx.attr(ino)
        })
        .await
    }

    /// Makes a file of any kind but a directory or a symbolic link.
    ///
    /// # Errors
    /// The name is taken or none; the directory is none; no room.
    pub async fn mknod(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        kind: FileKind,
        permissions: u16,
        rdev: u32,
    ) -> Result<Attr, FsError> {
        if matches!(kind, FileKind::Directory | FileKind::Symlink) {
            return Err(FsError::Invalid("this kind has an operation of its own"));
        }
        let mode = Mode { kind, permissions };
        self.make(caller, parent, name, mode, |_, _, inode| {
            if matches!(kind, FileKind::CharDevice | FileKind::BlockDevice) {
                inode.extents_or_rdev = rdev;
            }
            Ok(())
        })
        .await
    }

    /// Makes a regular file and opens it.
    ///
    /// # Errors
    /// As [`FileSystem::mknod`].
    pub async fn create(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        permissions: u16,
    ) -> Result<Attr, FsError> {
        let kind = FileKind::Regular;
        let mode = Mode { kind, permissions };
        self.make(caller, parent, name, mode, |tx, ino, inode| {
            tx.node(ino, inode).opens += 1;
            Ok(())
        })
        .await
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// As [`FileSystem::mknod`].
    pub async fn mkdir(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        permissions: u16,
    ) -> Result<Attr, FsError> {
        let kind = FileKind::Directory;
        let mode = Mode { kind, permissions };
        self.make(caller, parent, name, mode, |tx, ino, inode| {
            inode.links = 2;
            inode.parent = parent;
            match tx.state.first_blocks {
                true => tx.add_first_page(ino, inode),
                false => Ok(()),
            }
        })
        .await
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// As [`FileSystem::mknod`]; a target that is empty or too long.
    pub async fn symlink(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        target: &[u8],
    ) -> Result<Attr, FsError> {
        if target.is_empty() || target.len() > MOST_TARGET {
            return Err(FsError::NameTooLong);
        }
        let kind = FileKind::Symlink;
        let mode = Mode {
            kind,
            permissions: 0o777,
        };
        self.make(caller, parent, name, mode, |tx, ino, inode| {
            // The target goes with the batch: whoever sees the link sees where it leads.
            let block = tx.take_fresh(true)?;
            tx.state.own(ino, block);
            let mut bytes = target.to_vec();
            bytes.resize(target.len().next_multiple_of(crate::layout::LINE), 0);
            tx.write(block, 0, &bytes)?;
            let extent = Extent {
                page: 0,
                block,
                count: 1,
                is_written: true,
            };
            inode.size = target.len() as u64;
            tx.add_extent(ino, inode, extent)
        })
        .await
    }

    /// Where a symbolic link leads.
    ///
    /// # Errors
    /// It is none.
    pub async fn readlink(&self, ino: Ino) -> Result<Vec<u8>, FsError> {
        self.spend(self.costs.operation).await;
        self.run(|tx| {
            let inode = tx.inode(ino)?;
            if inode.mode.kind != FileKind::Symlink {
                return Err(FsError::Invalid("it is no symbolic link").into());
            }
            let extent = tx.extents(ino, &inode)?.find(0);
            let extent = extent.ok_or_else(|| tx.damaged_inode(ino))?;
            let size = inode.size as usize;
            let data = tx.block(extent.block)?;
            let target = data.get(..size).map(<[u8]>::to_vec);
            target.ok_or_else(|| tx.damaged_inode(ino))
        })
        .await
    }

    async fn make(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        mode: Mode,
        mut fill: impl FnMut(&mut Tx<'_>, Ino, &mut Inode) -> Done<()>,
    ) -> Result<Attr, FsError> {
        self.spend(self.costs.operation).await;
        // A name that is taken is told before one that may not be.
        if let Err(error) = check_name(name) {
            return Err(match name {
                b"." | b".." => FsError::Exists,
                _ => error,
            });
        }
        self.change(NAME_LINES, |tx| {
            let mut dir = tx.directory(parent)?;
            if dir.links == 0 {
                return Err(FsError::NotFound.into());
            }
            if tx.find_name(parent, &dir, name)?.is_some() {
                return Err(FsError::Exists.into());
            }
            let is_directory = mode.kind == FileKind::Directory;
            if is_directory && dir.links >= MOST_LINKS {
                return Err(FsError::TooManyLinks.into());
            }
            let (ino, mut inode) = tx.new_inode(caller, &dir, mode)?;
            tx.add_name(parent, &mut dir, name, (ino, mode.kind))?;
            fill(tx, ino, &mut inode)?;
            tx.put_inode(ino, &inode)?;
            dir.links += u32::from(is_directory);
            tx.put_changed_dir(parent, &mut dir, caller.now)?;
            Ok(inode.attr(ino))
        })
        .await
    }

    /// Gives a file another name.
    ///
    /// # Errors
    /// The file is a directory or has as many names as it may; as [`FileSystem::mknod`].
    pub async fn link(
        &self,
        caller: &Caller,
        ino: Ino,
        parent: Ino,
        name: &[u8],
    ) -> Result<Attr, FsError> {
        self.spend(self.costs.operation).await;
        check_name(name)?;
        self.change(NAME_LINES, |tx| {
            let mut dir = tx.directory(parent)?;
            let mut inode = tx.inode(ino)?;
            if dir.links == 0 || inode.links == 0 {
                return Err(FsError::NotFound.into());
            }
            // A name that is taken is told before a file that may have no other one.
            if tx.find_name(parent, &dir, name)?.is_some() {
                return Err(FsError::Exists.into());
            }
            if inode.mode.kind == FileKind::Directory {
                return Err(FsError::NotPermitted.into());
            }
            if inode.links >= MOST_LINKS {
                return Err(FsError::TooManyLinks.into());
            }
            tx.add_name(parent, &mut dir, name, (ino, inode.mode.kind))?;
            inode.links += 1;
            inode.ctime = caller.now;
            tx.put_inode(ino, &inode)?;
            tx.put_changed_dir(parent, &mut dir, caller.now)?;
            tx.attr(ino)
        })
        .await
    }

    /// Removes a name of a file. The file goes with its last name, once nobody has it open.
    ///
    /// # Errors
    /// There is no such name; it is a directory's.
    pub async fn unlink(&self, caller: &Caller, parent: Ino, name: &[u8]) -> Result<(), FsError> {
        self.spend(self.costs.operation).await;
        let rest = self
            .change(NAME_LINES, |tx| {
                let mut dir = tx.directory(parent)?;
                let found = tx.need_name(parent, &dir, name)?;
                if found.kind == FileKind::Directory {
                    return Err(FsError::IsDirectory.into());
                }
                tx.remove_name(&mut dir, &found)?;
                tx.put_changed_dir(parent, &mut dir, caller.now)?;
                tx.lose_name(found.ino, caller.now)
            })
            .await?;
        self.purge_rest(rest).await
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// There is none of that name; it is not empty.
    pub async fn rmdir(&self, caller: &Caller, parent: Ino, name: &[u8]) -> Result<(), FsError> {
        self.spend(self.costs.operation).await;
        if name == b"." {
            return Err(FsError::Invalid("a directory is removed by its name"));
        }
        if name == b".." {
            return Err(FsError::NotEmpty);
        }
        let rest = self
            .change(NAME_LINES, |tx| {
                let mut dir = tx.directory(parent)?;
                let found = tx.need_name(parent, &dir, name)?;
                if found.kind != FileKind::Directory {
                    return Err(FsError::NotDirectory.into());
                }
                if tx.inode(found.ino)?.size != 0 {
                    return Err(FsError::NotEmpty.into());
                }
                tx.remove_name(&mut dir, &found)?;
                dir.links = dir.links.saturating_sub(1);
                tx.put_changed_dir(parent, &mut dir, caller.now)?;
                tx.lose_name(found.ino, caller.now)
            })
            .await?;
        self.purge_rest(rest).await
    }

    /// Moves a name, or exchanges two. A whiteout that it leaves comes in the same batch: no power
    /// cut leaves the old name to nobody.
    ///
    /// # Errors
    /// There is no such name; what it would replace is of the other kind or a directory that is not
    /// empty; a directory would come below itself; no inode for a whiteout.
    pub async fn rename(
        &self,
        caller: &Caller,
        from: Ino,
        name: &[u8],
        to: Ino,
        new_name: &[u8],
        how: Rename,
    ) -> Result<(), FsError> {
        self.spend(self.costs.operation).await;
        for name in [name, new_name] {
            if matches!(name, b"." | b"..") {
                return Err(FsError::Invalid("this name cannot be moved"));
            }
            check_name(name)?;
        }
        let rest = self
            .change(NAME_LINES, |tx| {
                let dir = tx.directory(from)?;
                let source = tx.need_name(from, &dir, name)?;
                let target_dir = tx.directory(to)?;
                if target_dir.links == 0 {
                    return Err(FsError::NotFound.into());
                }
                let target = tx.find_name(to, &target_dir, new_name)?;
                let comes_below =
                    source.kind == FileKind::Directory && tx.is_above(source.ino, to)?;
                let exchanged = target.filter(|_| how == Rename::Exchange);
                let other_comes_below = match exchanged {
                    Some(other) if other.kind == FileKind::Directory => {
                        tx.is_above(other.ino, from)?
                    }
                    _ => false,
                };
                match target {
                    None if how == Rename::Exchange => return Err(FsError::NotFound.into()),
                    Some(_) if how.refuses_taken() => return Err(FsError::Exists.into()),
                    _ => {}
                }
                if comes_below || other_comes_below {
                    return Err(FsError::Invalid("a directory cannot come below itself").into());
                }
                // What lies in a directory cannot take its place.
                if let Some(other) = target.filter(|_| how != Rename::Exchange)
                    && other.kind == FileKind::Directory
                    && tx.is_above(other.ino, from)?
                {
                    return Err(FsError::NotEmpty.into());
                }
                match (how, target) {
                    (_, Some(target)) if target.ino == source.ino => Ok(None),
                    (Rename::Exchange, Some(target)) => {
                        let names = ((from, name), (to, new_name));
                        tx.exchange(names, &source, &target, caller.now)?;
                        Ok(None)
                    }
                    (_, target) => {
                        let names = ((from, name), (to, new_name));
                        tx.move_name(caller, names, &source, target.as_ref(), how)
                    }
                }
            })
            .await?;
        self.purge_rest(rest).await
    }

    /// Names of a directory from a place on, "." and ".." first; from 0, and then from where the
    /// last one says. None: the end.
    ///
    /// # Errors
    /// It is no directory.
    pub async fn readdir(
        &self,
        dir: Ino,
        from: u64,
        most: usize,
    ) -> Result<Vec<DirEntry>, FsError> {
        self.spend(self.costs.operation).await;
        let mut entries: Vec<DirEntry> = Vec::new();
        let mut place = from;
        while entries.len() < most {
            let (found, behind) = self
                .run(|tx| {
                    let inode = tx.directory(dir)?;
                    let dots = [(b".".to_vec(), dir), (b"..".to_vec(), inode.parent)];
                    let dots = dots.into_iter().zip(1..).skip(place.min(2) as usize);
                    let mut found: Vec<_> = dots
                        .map(|((name, ino), next)| DirEntry {
                            ino,
                            kind: FileKind::Directory,
                            next,
                            name,
                        })
                        .collect();
                    // A directory without a name has none in it, not even these.
                    if inode.links == 0 {
                        return Ok((Vec::new(), None));
                    }
                    let (names, behind) = tx.list_names(dir, &inode, place)?;
                    found.extend(names);
                    Ok((found, behind))
                })
                .await?;
            entries.extend(found);
            let Some(behind) = behind else {
                break;
            };
            place = behind;
        }
        entries.truncate(most);
        Ok(entries)
    }
}

/// A directory and a name in it.
type Place<'a> = (Ino, &'a [u8]);

impl Tx<'_> {
    pub(super) fn damaged_inode(&self, ino: Ino) -> crate::tx::Stop {
        crate::tx::Stop::Damaged(ino.to_string())
    }

    /// What is known of a file, with what the device has not yet.
    pub(super) fn attr(&mut self, ino: Ino) -> Done<Attr> {
        let inode = self.inode(ino)?;
        let mut attr = inode.attr(ino);
        if inode.mode.kind == FileKind::Directory {
            attr.size = u64::from(inode.buckets + inode.overflows) * crate::layout::BLOCK as u64;
        }
        if let Some(node) = self.state.nodes.get(&ino)
            && inode.mode.kind == FileKind::Regular
        {
            attr.size = node.size;
            attr.blocks += u64::from(node.reserved + node.planned.pages);
            if let Some(written) = node.written {
                attr.mtime = written;
                attr.ctime = attr.ctime.max(written);
            }
        }
        Ok(attr)
    }

    /// Puts a directory whose names have changed.
    fn put_changed_dir(&mut self, ino: Ino, dir: &mut Inode, now: Timestamp) -> Done<()> {
        dir.mtime = now;
        dir.ctime = now;
        self.put_inode(ino, dir)
    }

    /// Whether a directory is another one or above it.
    fn is_above(&mut self, above: Ino, below: Ino) -> Done<bool> {
        let mut next = below;
        // A path has at most every directory once.
        for _ in 0..=self.geometry().inodes {
            if above == next {
                return Ok(true);
            }
            if next == Ino::ROOT || next == Ino::NONE {
                return Ok(false);
            }
            next = self.directory(next)?.parent;
        }
        let what = format!("the way from directory {below} to the root, which has no end,");
        Err(Stop::Damaged(what))
    }

    /// A file has a name less. Gives it back if it is to go and cannot at once.
    fn lose_name(&mut self, ino: Ino, now: Timestamp) -> Done<Option<Ino>> {
        let mut inode = self.inode(ino)?;
        inode.ctime = now;
        let is_directory = inode.mode.kind == FileKind::Directory;
        inode.links = if is_directory {
            0
        } else {
            inode.links.saturating_sub(1)
        };
        if inode.links > 0 {
            self.put_inode(ino, &inode)?;
            return Ok(None);
        }
        let has_blocks = inode.blocks > 0 || inode.xattrs.0 != 0;
        let extents = if has_blocks {
            self.extents(ino, &inode)?.len()
        } else {
            0
        };
        let is_busy = self
            .state
            .nodes
            .get(&ino)
            .is_some_and(|node| node.is_busy());
        if is_busy || extents > FEW_EXTENTS || inode.blocks > FEW_BLOCKS {
            self.set_orphan(ino, &mut inode, true)?;
            self.put_inode(ino, &inode)?;
            let is_open = self
                .state
                .nodes
                .get(&ino)
                .is_some_and(|node| node.opens > 0);
            return Ok(if is_open { None } else { Some(ino) });
        }
        self.erase(ino, &mut inode)?;
        Ok(None)
    }

    /// Gives back everything that an inode has, and itself.
    pub(super) fn erase(&mut self, ino: Ino, inode: &mut Inode) -> Done<()> {
        let is_metadata = inode.mode.kind != FileKind::Regular;
        if inode.blocks > 0
            && !matches!(
                inode.mode.kind,
                FileKind::CharDevice | FileKind::BlockDevice
            )
        {
            for extent in self.cut_extents(ino, inode, 0..u64::MAX)? {
                self.release(extent.block.0..extent.block.0 + extent.count, is_metadata)?;
            }
            self.free_chain(ino, inode)?;
        }
        if inode.xattrs.0 != 0 {
            self.release(inode.xattrs.0..inode.xattrs.0 + 1, true)?;
        }
        self.set_orphan(ino, inode, false)?;
        self.free_inode(ino, inode.generation)?;
        self.forget_when_done(ino);
        Ok(())
    }

    /// An inode for a file that is made in a directory. It is to be put afterwards.
    fn new_inode(&mut self, caller: &Caller, dir: &Inode, mut mode: Mode) -> Done<(Ino, Inode)> {
        let (ino, generation) = self.take_inode(caller.core)?;
        let mut gid = caller.gid;
        if dir.mode.permissions & SET_GROUP != 0 {
            gid = dir.gid;
            if mode.kind == FileKind::Directory {
                mode.permissions |= SET_GROUP;
            }
        }
        // What the host knew of an earlier file with this number is of no use.
        self.state.drop_node(ino);
        let inode = Inode::new(mode, (caller.uid, gid), generation, caller.now);
        Ok((ino, inode))
    }

    /// Removes what a rename replaces, and moves the name.
    fn move_name(
        &mut self,
        caller: &Caller,
        names: (Place<'_>, Place<'_>),
        source: &Found,
        target: Option<&Found>,
        how: Rename,
    ) -> Done<Option<Ino>> {
        let ((from, name), (to, new_name)) = names;
        let now = caller.now;
        let is_directory = source.kind == FileKind::Directory;
        let mut rest = None;
        let mut dir = self.directory(to)?;
        match target {
            Some(target) => {
                match (is_directory, target.kind == FileKind::Directory) {
                    (true, false) => return Err(FsError::NotDirectory.into()),
                    (false, true) => return Err(FsError::IsDirectory.into()),
                    _ => {}
                }
                if is_directory {
                    if self.inode(target.ino)?.size != 0 {
                        return Err(FsError::NotEmpty.into());
                    }
                    dir.links = dir.links.saturating_sub(1);
                }
                self.change_name(target, source.ino, source.kind, new_name)?;
            }
            None => {
                let is_full = is_directory && from != to && dir.links >= MOST_LINKS;
                if is_full {
                    return Err(FsError::TooManyLinks.into());
                }
                self.add_name(to, &mut dir, new_name, (source.ino, source.kind))?;
            }
        }
        if is_directory {
            dir.links += 1;
        }
        self.put_changed_dir(to, &mut dir, now)?;
        // A bucket that was split may have moved it.
        let mut dir = self.directory(from)?;
        let source = self.need_name(from, &dir, name)?;
        if how.leaves_whiteout() {
            // As Ext4 makes it: nobody may open it, and 0 is the number of no device.
            let mode = Mode {
                kind: FileKind::CharDevice,
                permissions: 0,
            };
            let (ino, inode) = self.new_inode(caller, &dir, mode)?;
            self.put_inode(ino, &inode)?;
            self.change_name(&source, ino, mode.kind, name)?;
        } else {
            self.remove_name(&mut dir, &source)?;
        }
        if is_directory {
            dir.links = dir.links.saturating_sub(1);
        }
        self.put_changed_dir(from, &mut dir, now)?;
        let mut inode = self.inode(source.ino)?;
        inode.ctime = now;
        if is_directory {
            inode.parent = to;
        }
        self.put_inode(source.ino, &inode)?;
        if let Some(target) = target {
            rest = self.lose_name(target.ino, now)?;
        }
        Ok(rest)
    }

    fn exchange(
        &mut self,
        names: (Place<'_>, Place<'_>),
        source: &Found,
        target: &Found,
        now: Timestamp,
    ) -> Done<()> {
        let ((from, name), (to, new_name)) = names;
        self.change_name(source, target.ino, target.kind, name)?;
        self.change_name(target, source.ino, source.kind, new_name)?;
        for (moved, into, out_of) in [(source, to, from), (target, from, to)] {
            let mut inode = self.inode(moved.ino)?;
            inode.ctime = now;
            if moved.kind == FileKind::Directory && into != out_of {
                inode.parent = into;
                let mut dir = self.directory(into)?;
                dir.links += 1;
                self.put_inode(into, &dir)?;
                let mut dir = self.directory(out_of)?;
                dir.links = dir.links.saturating_sub(1);
                self.put_inode(out_of, &dir)?;
            }
            self.put_inode(moved.ino, &inode)?;
        }
        for ino in [from, to] {
            let mut dir = self.directory(ino)?;
            self.put_changed_dir(ino, &mut dir, now)?;
        }
        Ok(())
    }
}

/// Blocks that are given back together with the last name: a few lines of the bitmap.
const FEW_BLOCKS: u32 = 4096;
