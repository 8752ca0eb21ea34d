//! A file system below FUSE, and who looks on.

use super::clock::WallClock;
use super::witness::{Asked, Witness};
use crate::{
    Allocate, Attr, Caller, DirEntry, FileKind, FileSystem, FsError, Ino, Rename, Seek, SetAttr,
    SetXattr, WriteOptions,
};
use core::ops::Deref;
use core::pin::{Pin, pin};
use port::Device;
use std::sync::Arc;

/// A file system below FUSE. Operations that programs ask for are shown to a witness, if there is
/// one; everything else is the file system's.
pub struct Below<D> {
    files: FileSystem<D, WallClock>,
    witness: Option<Arc<dyn Witness>>,
}

impl<D> Deref for Below<D> {
    type Target = FileSystem<D, WallClock>;

    fn deref(&self) -> &Self::Target {
        &self.files
    }
}

impl<D> From<FileSystem<D, WallClock>> for Below<D> {
    fn from(files: FileSystem<D, WallClock>) -> Self {
        Self {
            files,
            witness: None,
        }
    }
}

/// What operations give, as far as a witness hears of it.
trait Found {
    fn ino(&self) -> Option<Ino> {
        None
    }
}

impl Found for () {}
impl Found for usize {}
impl Found for u64 {}
impl<T> Found for Vec<T> {}
impl Found for Attr {
    fn ino(&self) -> Option<Ino> {
        Some(self.ino)
    }
}

impl<D: Device> Below<D> {
    /// With somebody who looks on.
    #[must_use]
    pub fn seen_by(self, witness: Arc<dyn Witness>) -> Self {
        Self {
            witness: Some(witness),
            ..self
        }
    }

    /// Gives the device back, as [`FileSystem::into_device`] does.
    pub fn into_device(self) -> D {
        self.files.into_device()
    }

    /// Has an operation seen. It stays where it is: futures of operations have kilobytes.
    async fn seen<T: Found>(
        &self,
        asked: Asked<'_>,
        operation: Pin<&mut impl Future<Output = Result<T, FsError>>>,
    ) -> Result<T, FsError> {
        let Some(witness) = &self.witness else {
            return operation.await;
        };
        let number = witness.began(&asked);
        let done = operation.await;
        let told = done.as_ref().map(Found::ino).map_err(FsError::errno);
        witness.ended(number, &asked, told);
        done
    }
}

/// The operations, as those of [`FileSystem`] that have their names.
#[expect(
    clippy::missing_errors_doc,
    missing_docs,
    reason = "they are those of the operations of their names"
)]
impl<D: Device> Below<D> {
    pub async fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr, FsError> {
        let asked = Asked::Lookup { parent, name };
        self.seen(asked, pin!(self.files.lookup(parent, name)))
            .await
    }

    pub async fn getattr(&self, ino: Ino) -> Result<Attr, FsError> {
        self.seen(Asked::Getattr { ino }, pin!(self.files.getattr(ino)))
            .await
    }

    pub async fn setattr(&self, caller: &Caller, ino: Ino, set: SetAttr) -> Result<Attr, FsError> {
        let asked = Asked::Setattr { ino, set: &set };
        self.seen(asked, pin!(self.files.setattr(caller, ino, set)))
            .await
    }

    pub async fn mknod(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        kind: FileKind,
        permissions: u16,
        rdev: u32,
    ) -> Result<Attr, FsError> {
        let asked = make(parent, name, kind, permissions);
        let made = pin!(
            self.files
                .mknod(caller, parent, name, kind, permissions, rdev)
        );
        self.seen(asked, made).await
    }

    pub async fn create(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        permissions: u16,
    ) -> Result<Attr, FsError> {
        let asked = Asked::Make {
            parent,
            name,
            kind: FileKind::Regular,
            permissions,
            is_opened: true,
        };
        let made = pin!(self.files.create(caller, parent, name, permissions));
        self.seen(asked, made).await
    }

    pub async fn mkdir(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        permissions: u16,
    ) -> Result<Attr, FsError> {
        let asked = make(parent, name, FileKind::Directory, permissions);
        let made = pin!(self.files.mkdir(caller, parent, name, permissions));
        self.seen(asked, made).await
    }

    pub async fn symlink(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        target: &[u8],
    ) -> Result<Attr, FsError> {
        let asked = Asked::Symlink {
            parent,
            name,
            target,
        };
        let made = pin!(self.files.symlink(caller, parent, name, target));
        self.seen(asked, made).await
    }

    pub async fn readlink(&self, ino: Ino) -> Result<Vec<u8>, FsError> {
        self.seen(Asked::Readlink { ino }, pin!(self.files.readlink(ino)))
            .await
    }

    pub async fn link(
        &self,
        caller: &Caller,
        ino: Ino,
        parent: Ino,
        name: &[u8],
    ) -> Result<Attr, FsError> {
        let asked = Asked::Link { ino, parent, name };
        self.seen(asked, pin!(self.files.link(caller, ino, parent, name)))
            .await
    }

    pub async fn unlink(&self, caller: &Caller, parent: Ino, name: &[u8]) -> Result<(), FsError> {
        let asked = Asked::Unlink { parent, name };
        self.seen(asked, pin!(self.files.unlink(caller, parent, name)))
            .await
    }

    pub async fn rmdir(&self, caller: &Caller, parent: Ino, name: &[u8]) -> Result<(), FsError> {
        let asked = Asked::Rmdir { parent, name };
        self.seen(asked, pin!(self.files.rmdir(caller, parent, name)))
            .await
    }

    pub async fn rename(
        &self,
        caller: &Caller,
        from: Ino,
        name: &[u8],
        to: Ino,
        new_name: &[u8],
        how: Rename,
    ) -> Result<(), FsError> {
        let asked = Asked::Rename {
            from,
            name,
            to,
            new_name,
            how,
        };
        let done = pin!(self.files.rename(caller, from, name, to, new_name, how));
        self.seen(asked, done).await
    }

    pub async fn open(&self, ino: Ino) -> Result<Attr, FsError> {
        self.seen(Asked::Open { ino }, pin!(self.files.open(ino)))
            .await
    }

    pub async fn release(&self, ino: Ino) -> Result<(), FsError> {
        self.seen(Asked::Release { ino }, pin!(self.files.release(ino)))
            .await
    }

    pub async fn read(
        &self,
        ino: Ino,
        at: u64,
        size: usize,
        direct: bool,
    ) -> Result<Vec<u8>, FsError> {
        let asked = Asked::Read {
            ino,
            at,
            size,
            direct,
        };
        self.seen(asked, pin!(self.files.read(ino, at, size, direct)))
            .await
    }

    pub async fn write(
        &self,
        caller: &Caller,
        ino: Ino,
        at: u64,
        data: &[u8],
        options: WriteOptions,
    ) -> Result<usize, FsError> {
        let asked = Asked::Write {
            ino,
            at,
            data,
            options,
        };
        let done = pin!(self.files.write(caller, ino, at, data, options));
        self.seen(asked, done).await
    }

    pub async fn fallocate(
        &self,
        caller: &Caller,
        ino: Ino,
        how: Allocate,
        at: u64,
        size: u64,
    ) -> Result<(), FsError> {
        let asked = Asked::Allocate { ino, how, at, size };
        let done = pin!(self.files.fallocate(caller, ino, how, at, size));
        self.seen(asked, done).await
    }

    pub async fn seek(&self, ino: Ino, at: u64, what: Seek) -> Result<u64, FsError> {
        let asked = Asked::Seek { ino, at, what };
        self.seen(asked, pin!(self.files.seek(ino, at, what))).await
    }

    pub async fn readdir(
        &self,
        ino: Ino,
        from: u64,
        most: usize,
    ) -> Result<Vec<DirEntry>, FsError> {
        let asked = Asked::Readdir { ino, from, most };
        self.seen(asked, pin!(self.files.readdir(ino, from, most)))
            .await
    }

    pub async fn set_xattr(
        &self,
        caller: &Caller,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<(), FsError> {
        let asked = Asked::SetXattr { ino, name, value };
        let done = pin!(self.files.set_xattr(caller, ino, name, value, how));
        self.seen(asked, done).await
    }

    pub async fn get_xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>, FsError> {
        let asked = Asked::GetXattr { ino, name };
        self.seen(asked, pin!(self.files.get_xattr(ino, name)))
            .await
    }

    pub async fn list_xattr(&self, ino: Ino) -> Result<Vec<u8>, FsError> {
        self.seen(Asked::ListXattr { ino }, pin!(self.files.list_xattr(ino)))
            .await
    }

    pub async fn remove_xattr(
        &self,
        caller: &Caller,
        ino: Ino,
        name: &[u8],
    ) -> Result<(), FsError> {
        let asked = Asked::RemoveXattr { ino, name };
        let done = pin!(self.files.remove_xattr(caller, ino, name));
        self.seen(asked, done).await
    }

    pub async fn fsync(&self, ino: Ino, data_only: bool) -> Result<(), FsError> {
        let asked = Asked::Fsync { ino, data_only };
        self.seen(asked, pin!(self.files.fsync(ino, data_only)))
            .await
    }

    pub async fn sync(&self) -> Result<(), FsError> {
        self.seen(Asked::Sync, pin!(self.files.sync())).await
    }
}

fn make<'a>(parent: Ino, name: &'a [u8], kind: FileKind, permissions: u16) -> Asked<'a> {
    Asked::Make {
        parent,
        name,
        kind,
        permissions,
        is_opened: false,
    }
}
