//! A device that is mounted, and how that ends.

use super::file::OneFile;
use super::inbox::Inbox;
use crate::bell::Bell;
use fuse::{MountError, MountPoint, Session};
use nix::unistd::{getgid, getuid};
use port::{Device, Drive};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How a device is mounted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Manner {
    /// Other users may open the file.
    pub for_others: bool,
    /// Callers wait for the device's time, so none may keep the others waiting.
    pub is_paced: bool,
    /// Other clients of the device have transactions, for which none may keep the others waiting.
    pub beside_transactions: bool,
}

/// What was done through the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Served {
    /// Reads, writes, flushes and holes.
    pub requests: u64,
    /// Those that the device answered with an error.
    pub errors: u64,
}

/// How it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// What was done.
    pub served: Served,
    /// Somebody still had the file open, who gets errors from now on.
    pub is_open: bool,
}

/// A device that is mounted. Ended when dropped, without patience.
pub struct Mounted<D: Device + Drive + Send + Sync + 'static> {
    inbox: Arc<Inbox<D>>,
    session: Session,
    server: Option<JoinHandle<()>>,
}

impl<D: Device + Drive + Send + Sync + 'static> Mounted<D> {
    /// Mounts a device at an empty directory, or at one where a killed server left its mount.
    ///
    /// # Errors
    /// No FUSE; no empty directory; the system refuses.
    pub fn new(device: Arc<D>, directory: &Path, manner: Manner) -> Result<Self, MountError> {
        let place = MountPoint::find(directory)?;
        let path = place.path().to_path_buf();
        let system = |error| MountError::System {
            path: path.clone(),
            error,
        };
        let shape = device.shape();
        let bell = Bell::new().map_err(system)?;
        let does_alone = !(manner.is_paced || manner.beside_transactions);
        let inbox = Arc::new(Inbox::new(device, bell, does_alone));
        let owner = (getuid().as_raw(), getgid().as_raw());
        let file = OneFile::new(inbox.clone(), shape, owner, manner.for_others);
        let session = Session::new(file, place, shown(manner))?;
        inbox.watch(session.kernel().map_err(system)?);
        let serving = inbox.clone();
        let named = thread::Builder::new().name("image".to_string());
        let server = named.spawn(move || serving.serve()).map_err(system)?;
        Ok(Self {
            inbox,
            session,
            server: Some(server),
        })
    }

    /// The file.
    pub fn file(&self) -> PathBuf {
        self.session.path().join(super::FILE_NAME)
    }

    /// Whether a killed server's mount was there and was taken away.
    pub fn was_mended(&self) -> bool {
        self.session.was_mended()
    }

    /// Whether nobody can use it any more: it was unmounted by somebody else.
    pub fn is_over(&self) -> bool {
        self.session.is_over() || self.server.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Unmounts it. Who has the file open may go on for so long; afterwards the device is given up,
    /// with everything done that was asked.
    pub fn end(mut self, patience: Duration) -> Ended {
        let is_open = self.leave(patience);
        Ended {
            served: self.inbox.served(),
            is_open,
        }
    }

    fn leave(&mut self, patience: Duration) -> bool {
        let is_open = self.session.end(patience);
        self.inbox.close();
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
        self.inbox.forget();
        is_open
    }
}

impl<D: Device + Drive + Send + Sync + 'static> Drop for Mounted<D> {
    fn drop(&mut self) {
        self.leave(Duration::ZERO);
    }
}

/// The directory with the file.
fn shown(manner: Manner) -> fuse::Manner {
    fuse::Manner {
        for_others: manner.for_others,
        read_only: false,
        may_execute: false,
        trust: fuse::Trust::default(),
        threads: 1,
    }
}
