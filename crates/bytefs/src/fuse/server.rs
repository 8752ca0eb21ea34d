//! What the server has beside the file system: files of its own, and what several requests share.

use super::answers::real;
use super::clock::{Stopwatch, now, system_time};
use super::convert::{BLOCK, caller, file_type};
use super::flags::AskedFlags;
use super::mount::Task;
use super::open_specials::OpenSpecials;
use super::operations::{self, New, make};
use super::share::Share;
use super::special::{FOLDER, Special};
use super::teller::{Teller, Told};
use crate::{Attr, Caller, FileKind, Ino, Timestamp};
use fuser::{Errno, FileAttr, FileHandle, INodeNo, OpenAccMode, OpenFlags, Request};
use port::{Device, Drive};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

/// The kernel's side of a file system.
pub(super) struct Adapter<D: Device> {
    pub share: Arc<Share<D>>,
    pub specials: OpenSpecials,
    teller: Box<dyn Teller<D>>,
    owner: (u32, u32),
    since: Timestamp,
    /// The thread that writes back.
    asks: SyncSender<Task>,
    pub writes_back: bool,
    /// The kernel decides what goes past its cache.
    pub kernel_decides: bool,
}

impl<D: Device + Drive> Adapter<D> {
    pub fn new(
        share: Arc<Share<D>>,
        teller: Box<dyn Teller<D>>,
        owner: (u32, u32),
        writes_back: bool,
        asks: SyncSender<Task>,
    ) -> Self {
        Self {
            share,
            specials: OpenSpecials::default(),
            teller,
            owner,
            since: now(),
            asks,
            writes_back,
            kernel_decides: writes_back,
        }
    }

    /// Has a file written behind that was just written to, if that is of use.
    pub fn write_behind(&self, node: INodeNo) {
        let Ok(ino) = real(node) else { return };
        if self.share.look(|fs| fs.can_write_behind(ino)) == Some(true) {
            // Who finds no place asks again with the next write.
            let _ = self.asks.try_send(Task::Behind(ino));
        }
    }

    /// A directory of the file system's, and a name that may be changed in it.
    pub fn place(parent: INodeNo, name: &OsStr) -> Result<(Ino, &[u8]), Errno> {
        let name = name.as_bytes();
        if parent == INodeNo::ROOT && name == FOLDER.as_bytes() {
            return Err(Errno::EPERM);
        }
        Ok((real(parent)?, name))
    }

    /// What is known of a file of the server's own.
    pub fn special_attributes(&self, special: Special) -> FileAttr {
        let kind = special.kind();
        let (permissions, links) = match kind {
            FileKind::Directory => (0o555, 2),
            _ if special == Special::Dax => (0o644, 1),
            _ => (0o444, 1),
        };
        let time = system_time(self.since);
        FileAttr {
            ino: special.node(),
            // As of files of the kernel's own: whoever reads finds the end.
            size: 0,
            blocks: 0,
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind: file_type(kind),
            perm: permissions,
            nlink: links,
            uid: self.owner.0,
            gid: self.owner.1,
            rdev: 0,
            blksize: BLOCK,
            flags: 0,
        }
    }

    /// Opens a file of the server's own: it stays as it is now.
    pub fn open_special(&self, special: Special, flags: OpenFlags) -> Result<FileHandle, Errno> {
        if flags.acc_mode() != OpenAccMode::O_RDONLY && special != Special::Dax {
            return Err(Errno::EROFS);
        }
        let content = match special {
            // Who writes only has nothing to read but why it was refused.
            Special::Dax if flags.acc_mode() != OpenAccMode::O_RDONLY => String::new(),
            Special::Dax => {
                let told = self.share.look(|fs| self.teller.dax(fs));
                told.ok_or(Errno::ENOTCONN)?
            }
            Special::Folder | Special::Maps | Special::Fsyncs => return Err(Errno::EISDIR),
            Special::Sync | Special::Fsync(_) => String::new(),
            Special::Stats => {
                let served = self.share.served();
                let told = self.share.look(|fs| self.teller.stats(fs, served));
                told.ok_or(Errno::ENOTCONN)?
            }
            Special::Map(ino) => {
                let map = self.share.run(async |fs| {
                    let places = |at, size| self.teller.places(fs.device(), at, size);
                    operations::map(fs, ino, places).await
                });
                // Not that it was there once: no such inode is in use.
                map.map_err(|error| match error {
                    Errno::ESTALE => Errno::ENOENT,
                    other => other,
                })?
            }
        };
        Ok(self.specials.add(content))
    }

    /// Has a file, or everything, survive a power cut.
    pub fn sync(&self, node: INodeNo, handle: FileHandle, data_only: bool) -> Result<(), Errno> {
        match Special::of(node) {
            Some(Special::Fsync(ino)) => {
                let told = self.told_sync(ino)?;
                self.specials.replace(handle, told.to_string());
                Ok(())
            }
            // Of the directory too: what a shell has is `sync FILE` and `sync DIR`.
            Some(Special::Sync | Special::Folder) => self.share.run(async |fs| fs.sync().await),
            Some(_) => Ok(()),
            None => {
                let ino = real(node)?;
                self.share.run(async |fs| fs.fsync(ino, data_only).await)
            }
        }
    }

    /// Changes settings of transparent DAX: `key=value`, several of them between white space. All
    /// before one that is refused are changed; the handle says then why, and so does what is
    /// refused of [`crate::DaxView`].
    pub fn change_dax(&self, handle: FileHandle, data: &[u8]) -> Result<u32, Errno> {
        let changed = self.share.look(|fs| {
            let refused = |word: &str, why: String| {
                fs.note_refused(None, None, word.to_owned(), why.clone());
                why
            };
            let text = String::from_utf8_lossy(data);
            text.split_whitespace().try_for_each(|word| {
                let (key, value) = word
                    .split_once('=')
                    .ok_or_else(|| refused(word, format!("{word}: is not as in upgrade=60")))?;
                let changed = fs.change_dax(key, value);
                changed.map_err(|why| refused(word, why))
            })
        });
        match changed.ok_or(Errno::ENOTCONN)? {
            Ok(()) => Ok(data.len() as u32),
            Err(why) => {
                self.specials.replace(handle, why);
                Err(Errno::EINVAL)
            }
        }
    }

    /// Tells or sets flags of a file.
    pub fn flags(
        &self,
        caller: &Caller,
        node: INodeNo,
        command: u32,
        data: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        let asked = AskedFlags::of(command, data)?;
        let ino = real(node).map_err(|_| Errno::ENOTTY)?;
        self.share.run(async |fs| asked.done(fs, caller, ino).await)
    }

    /// Syncs a file, and tells where the time went.
    fn told_sync(&self, ino: Ino) -> Result<Told, Errno> {
        let account = || self.share.look(|fs| self.teller.account(fs.device()));
        let before = account().flatten();
        let watch = Stopwatch::start();
        let (done, device) = self.share.run_timed(async |fs| fs.fsync(ino, false).await);
        let server = watch.read();
        done?;
        let after = account().flatten();
        Ok(Told {
            server_ns: server.as_nanos(),
            device_code_ns: device.as_nanos(),
            accounts: before.zip(after),
        })
    }

    /// Makes a file or a directory; `new` says which, and its name is filled in.
    pub fn make(
        &self,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        new: impl FnOnce(Ino) -> New<'static>,
    ) -> Result<Attr, Errno> {
        let (parent, name) = Self::place(parent, name)?;
        let new = New {
            name,
            ..new(parent)
        };
        let caller = caller(request);
        self.share.run(async |fs| make(fs, &caller, new).await)
    }

    /// What is listed in a directory of the server's own.
    pub fn list_special(
        special: Special,
        from: u64,
    ) -> Vec<(INodeNo, u64, FileKind, &'static str)> {
        let own = [
            (special.node(), special.kind(), "."),
            (special.parent(), FileKind::Directory, ".."),
        ];
        let inner = special.entries();
        let inner = inner
            .iter()
            .map(|(entry, name)| (entry.node(), entry.kind(), *name));
        (1..)
            .zip(own.into_iter().chain(inner))
            .skip(from as usize)
            .map(|(next, (node, kind, name))| (node, next, kind, name))
            .collect()
    }
}
