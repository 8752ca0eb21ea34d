//! The one surface of file systems that loads use: what a kernel's file layer would ask.

use bytefs::{Caller, FileSystem, FsError, Ino, Timestamp, WriteOptions};
use port::{Clock, Device};
use units::Time;

/// A file system in use by simulated threads.
pub(crate) trait Vfs {
    /// Finds a name; gives inode and size.
    async fn lookup(&self, parent: Ino, name: &[u8]) -> Result<(Ino, u64), FsError>;
    /// The size of a file.
    async fn size(&self, ino: Ino) -> Result<u64, FsError>;
    /// Makes a file and opens it.
    async fn create(&self, by: &Caller, parent: Ino, name: &[u8]) -> Result<Ino, FsError>;
    /// Makes a directory.
    async fn mkdir(&self, by: &Caller, parent: Ino, name: &[u8]) -> Result<Ino, FsError>;
    /// Removes a file's name.
    async fn unlink(&self, by: &Caller, parent: Ino, name: &[u8]) -> Result<(), FsError>;
    /// Removes an empty directory.
    async fn rmdir(&self, by: &Caller, parent: Ino, name: &[u8]) -> Result<(), FsError>;
    /// Opens a file.
    async fn open(&self, ino: Ino) -> Result<(), FsError>;
    /// Closes it.
    async fn release(&self, ino: Ino) -> Result<(), FsError>;
    /// Reads up to so many bytes; fewer at the end.
    async fn read(&self, ino: Ino, at: u64, size: usize) -> Result<Vec<u8>, FsError>;
    /// Writes all; `sync`: answered when it survives a power cut.
    async fn write(
        &self,
        by: &Caller,
        ino: Ino,
        at: u64,
        data: &[u8],
        sync: bool,
    ) -> Result<(), FsError>;
    /// Waits until the file survives a power cut.
    async fn fsync(&self, ino: Ino) -> Result<(), FsError>;
    /// Writes back what was dirtied before a time.
    async fn flush_old(&self, before: Timestamp) -> Result<(), FsError>;
}

/// A file system of ours, used by a program of the superuser on some core.
impl<D: Device, C: Clock> Vfs for FileSystem<D, C> {
    async fn lookup(&self, parent: Ino, name: &[u8]) -> Result<(Ino, u64), FsError> {
        let attr = FileSystem::lookup(self, parent, name).await?;
        Ok((attr.ino, attr.size))
    }
    async fn size(&self, ino: Ino) -> Result<u64, FsError> {
        Ok(self.getattr(ino).await?.size)
    }
    async fn create(&self, by: &Caller, parent: Ino, name: &[u8]) -> Result<Ino, FsError> {
        Ok(FileSystem::create(self, by, parent, name, 0o644).await?.ino)
    }
    async fn mkdir(&self, by: &Caller, parent: Ino, name: &[u8]) -> Result<Ino, FsError> {
        Ok(FileSystem::mkdir(self, by, parent, name, 0o755).await?.ino)
    }
    async fn unlink(&self, by: &Caller, parent: Ino, name: &[u8]) -> Result<(), FsError> {
        FileSystem::unlink(self, by, parent, name).await
    }
    async fn rmdir(&self, by: &Caller, parent: Ino, name: &[u8]) -> Result<(), FsError> {
        FileSystem::rmdir(self, by, parent, name).await
    }
    async fn open(&self, ino: Ino) -> Result<(), FsError> {
        FileSystem::open(self, ino).await.map(drop)
    }
    async fn release(&self, ino: Ino) -> Result<(), FsError> {
        FileSystem::release(self, ino).await
    }
    async fn read(&self, ino: Ino, at: u64, size: usize) -> Result<Vec<u8>, FsError> {
        FileSystem::read(self, ino, at, size, false).await
    }
    async fn write(
        &self,
        by: &Caller,
        ino: Ino,
        at: u64,
        data: &[u8],
        sync: bool,
    ) -> Result<(), FsError> {
        let options = WriteOptions {
            sync,
            ..WriteOptions::default()
        };
        let mut done = 0;
        while done < data.len() {
            let rest = &data[done..];
            let written = FileSystem::write(self, by, ino, at + done as u64, rest, options).await?;
            if written == 0 {
                return Err(FsError::NoSpace);
            }
            done += written;
        }
        Ok(())
    }
    async fn fsync(&self, ino: Ino) -> Result<(), FsError> {
        FileSystem::fsync(self, ino, false).await
    }
    async fn flush_old(&self, before: Timestamp) -> Result<(), FsError> {
        FileSystem::flush_old(self, before).await
    }
}

/// A program of the superuser on a core, now.
pub(crate) fn caller(core: u32, now: Time) -> Caller {
    Caller {
        uid: 0,
        gid: 0,
        core,
        now: timestamp(now),
    }
}

/// The time of day of a run: that of its device.
pub(crate) fn timestamp(now: Time) -> Timestamp {
    Timestamp((now.as_picos() / 1000) as i64)
}
