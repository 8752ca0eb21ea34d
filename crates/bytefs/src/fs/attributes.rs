//! What is known of files: attributes, and extended ones.

use super::FileSystem;
use super::data::killed;
use crate::layout::{self, BLOCK, Inode, Torn};
use crate::state::pmem::{DAX_ATTRIBUTE, wanted_pages};
use crate::tx::{Done, Tx};
use crate::{Attr, BlockNo, Caller, FileKind, FsError, Ino, SetAttr, SetXattr};
use port::{Clock, Device};

/// Longest name of an extended attribute.
const XATTR_NAME: usize = 255;

impl<D: Device, C: Clock> FileSystem<D, C> {
    /// What is known of a file.
    ///
    /// # Errors
    /// There is no such file; the device fails.
    pub async fn getattr(&self, ino: Ino) -> Result<Attr, FsError> {
        self.spend(self.costs.operation).await;
        self.run(|tx| tx.attr(ino)).await
    }

    /// Changes what is known of a file. Who may do so has been checked.
    ///
    /// # Errors
    /// There is no such file; it has no size to change; no room.
    pub async fn setattr(&self, caller: &Caller, ino: Ino, set: SetAttr) -> Result<Attr, FsError> {
        self.spend(self.costs.operation).await;
        self.writable()?;
        if let Some(size) = set.size {
            self.resize(ino, size, caller.now, set.kill_privileges)
                .await?;
        }
        let only_size = SetAttr {
            size: None,
            kill_privileges: false,
            ..set
        } == SetAttr::default();
        if !(only_size && (set.size.is_some() || !set.kill_privileges)) {
            self.change(8, |tx| {
                let mut inode = tx.inode(ino)?;
                if inode.mode.kind == FileKind::Regular {
                    tx.put_times(ino, &mut inode);
                }
                if let Some(permissions) = set.permissions {
                    inode.mode.permissions = permissions & 0o7777;
                }
                if set.kill_privileges
                    && let Some(permissions) = killed(inode.mode.permissions)
                {
                    inode.mode.permissions = permissions;
                }
                inode.uid = set.uid.unwrap_or(inode.uid);
                inode.gid = set.gid.unwrap_or(inode.gid);
                inode.atime = set.atime.unwrap_or(inode.atime);
                inode.mtime = set.mtime.unwrap_or(inode.mtime);
                inode.ctime = caller.now;
                tx.put_inode(ino, &inode)?;
                if let Some(node) = tx.state.nodes.get_mut(&ino) {
                    node.written = None;
                }
                Ok(())
            })
            .await?;
        }
        self.run(|tx| tx.attr(ino)).await
    }

    /// The value of an extended attribute.
    ///
    /// # Errors
    /// There is no such attribute, or no such file.
    pub async fn get_xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>, FsError> {
        self.spend(self.costs.operation).await;
        self.run(|tx| {
            let inode = tx.inode(ino)?;
            let found = tx.xattrs(ino, &inode)?;
            let found = found.into_iter().find(|(other, _)| other == name);
            found
                .map(|(_, value)| value)
                .ok_or_else(|| FsError::NoAttribute.into())
        })
        .await
    }

    /// The names of all extended attributes, each ended by a zero byte.
    ///
    /// # Errors
    /// There is no such file.
    pub async fn list_xattr(&self, ino: Ino) -> Result<Vec<u8>, FsError> {
        self.spend(self.costs.operation).await;
        self.run(|tx| {
            let inode = tx.inode(ino)?;
            let mut names = Vec::new();
            for (name, _) in tx.xattrs(ino, &inode)? {
                names.extend_from_slice(&name);
                names.push(0);
            }
            Ok(names)
        })
        .await
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// It is there, or not, and should not be; all attributes of a file find room in 4 KiB or are
    /// refused.
    pub async fn set_xattr(
        &self,
        caller: &Caller,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<(), FsError> {
        self.spend(self.costs.operation).await;
        if name.is_empty() || name.len() > XATTR_NAME {
            return Err(FsError::Range);
        }
        let maps = name == DAX_ATTRIBUTE;
        if maps {
            // What makes no sense is not kept either. Who asks is told EINVAL alone.
            wanted_pages(value).inspect_err(|error| {
                let asked = String::from_utf8_lossy(value).into_owned();
                self.note_refused(Some(ino), None, asked, error.to_string());
            })?;
        }
        self.change(80, |tx| {
            let mut inode = tx.inode(ino)?;
            let mut all = tx.xattrs(ino, &inode)?;
            let old = all.iter_mut().find(|(other, _)| other == name);
            match (how, old) {
                (SetXattr::Create, Some(_)) => return Err(FsError::Exists.into()),
                (SetXattr::Replace, None) => return Err(FsError::NoAttribute.into()),
                (_, Some((_, old))) => *old = value.to_vec(),
                (_, None) => all.push((name.to_vec(), value.to_vec())),
            }
            inode.ctime = caller.now;
            tx.put_xattrs(ino, &mut inode, &all)
        })
        .await?;
        match maps {
            true => self.map_explicitly(ino, Some(value)).await,
            false => Ok(()),
        }
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// There is no such attribute, or no such file.
    pub async fn remove_xattr(
        &self,
        caller: &Caller,
        ino: Ino,
        name: &[u8],
    ) -> Result<(), FsError> {
        self.spend(self.costs.operation).await;
        self.change(80, |tx| {
            let mut inode = tx.inode(ino)?;
            let mut all = tx.xattrs(ino, &inode)?;
            let count = all.len();
            all.retain(|(other, _)| other != name);
            if all.len() == count {
                return Err(FsError::NoAttribute.into());
            }
            inode.ctime = caller.now;
            tx.put_xattrs(ino, &mut inode, &all)
        })
        .await?;
        match name == DAX_ATTRIBUTE {
            true => self.map_explicitly(ino, None).await,
            false => Ok(()),
        }
    }
}

impl Tx<'_> {
    pub(super) fn xattrs(
        &mut self,
        ino: Ino,
        inode: &Inode,
    ) -> Done<Vec<layout::xattr::Attribute>> {
        if inode.xattrs.0 == 0 {
            return Ok(Vec::new());
        }
        let found = layout::xattr::decode(&self.block(inode.xattrs)?[..]);
        found.map_err(|Torn| self.damaged_inode(ino))
    }

    fn put_xattrs(
        &mut self,
        ino: Ino,
        inode: &mut Inode,
        all: &[layout::xattr::Attribute],
    ) -> Done<()> {
        if all.is_empty() {
            self.release(inode.xattrs.0..inode.xattrs.0 + 1, true)?;
            inode.xattrs = BlockNo(0);
            inode.blocks = inode.blocks.saturating_sub(1);
            return self.put_inode(ino, inode);
        }
        let Some(bytes) = layout::xattr::encode(all) else {
            return Err(FsError::NoSpace.into());
        };
        debug_assert_eq!(bytes.len(), BLOCK);
        if inode.xattrs.0 == 0 {
            inode.xattrs = self.take_fresh(true)?;
            inode.blocks += 1;
        }
        self.state.own(ino, inode.xattrs);
        self.write(inode.xattrs, 0, &bytes)?;
        self.put_inode(ino, inode)
    }
}
