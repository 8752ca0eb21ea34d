//! A device that is mounted, and how that ends.
#![allow(
    clippy::disallowed_methods,
    reason = "programs' patience is measured by the wall clock, nothing that the device does"
)]

use super::file::OneFile;
use super::inbox::Inbox;
use super::mount_point::{MountError, MountPoint, SOURCE};
use crate::bell::Bell;
use fuser::{Config, MountOption, Session, SessionACL, SessionUnmounter};
use nix::mount::{MntFlags, umount2};
use nix::unistd::{getgid, getuid};
use port::{Device, Drive};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often it is looked whether all files are closed.
const LOOK: Duration = Duration::from_millis(5);

/// How a device is mounted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Manner {
    /// Other users may open the file.
    pub for_others: bool,
    /// Callers wait for the device's time, so none may keep the others waiting.
    pub is_paced: bool,
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
    place: MountPoint,
    unmounter: SessionUnmounter,
    kernel: Option<JoinHandle<io::Result<()>>>,
    server: Option<JoinHandle<()>>,
}

impl<D: Device + Drive + Send + Sync + 'static> Mounted<D> {
    /// Mounts a device at an empty directory, or at one where a killed server left its mount.
    ///
    /// # Errors
    /// No FUSE; no empty directory; the system refuses.
    pub fn new(device: Arc<D>, directory: &Path, manner: Manner) -> Result<Self, MountError> {
        let place = MountPoint::find(directory)?;
        let system = |error| MountError::System {
            path: place.path.clone(),
            error,
        };
        let shape = device.shape();
        let bell = Bell::new().map_err(system)?;
        let inbox = Arc::new(Inbox::new(device, bell, !manner.is_paced));
        let owner = (getuid().as_raw(), getgid().as_raw());
        let file = OneFile::new(inbox.clone(), shape, owner, manner.for_others);
        let mut session =
            Session::new(file, &place.path, &config(manner.for_others)).map_err(system)?;
        inbox.watch(session.as_fd().try_clone_to_owned().map_err(system)?);
        let unmounter = session.unmount_callable();
        let named = |name: &str| thread::Builder::new().name(name.to_string());
        let serving = inbox.clone();
        let server = named("image")
            .spawn(move || serving.serve())
            .map_err(system)?;
        let kernel = named("fuse").spawn(move || session.run()).map_err(system)?;
        Ok(Self {
            inbox,
            place,
            unmounter,
            kernel: Some(kernel),
            server: Some(server),
        })
    }

    /// The file.
    pub fn file(&self) -> PathBuf {
        self.place.path.join(super::FILE_NAME)
    }

    /// Whether a killed server's mount was there and was taken away.
    pub fn was_mended(&self) -> bool {
        self.place.was_mended
    }

    /// Whether nobody can use it any more: it was unmounted by somebody else.
    pub fn is_over(&self) -> bool {
        let is_over =
            |thread: &Option<JoinHandle<_>>| thread.as_ref().is_none_or(|t| t.is_finished());
        is_over(&self.kernel) || self.server.as_ref().is_none_or(JoinHandle::is_finished)
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
        let Some(kernel) = self.kernel.take() else {
            return false;
        };
        if !kernel.is_finished() && self.unmounter.unmount().is_err() {
            // Open files keep it: nobody else finds it, and it goes when they are closed.
            let _ = umount2(&self.place.path, MntFlags::MNT_DETACH);
        }
        let since = Instant::now();
        while !kernel.is_finished() && since.elapsed() < patience {
            thread::sleep(LOOK);
        }
        self.inbox.close();
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
        self.inbox.forget();
        // A thread that waits for the kernel ends with the last open file, or with the process.
        !kernel.is_finished()
    }
}

impl<D: Device + Drive + Send + Sync + 'static> Drop for Mounted<D> {
    fn drop(&mut self) {
        self.leave(Duration::ZERO);
    }
}

fn config(for_others: bool) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(SOURCE.to_string()),
        MountOption::DefaultPermissions,
        MountOption::NoExec,
    ];
    if for_others {
        config.acl = SessionACL::All;
    }
    config
}
