//! A file system that is mounted, and how that ends.
#![allow(
    clippy::disallowed_methods,
    reason = "programs' patience is measured by the wall clock, nothing that is served does"
)]

use crate::mount_point::{MountError, MountPoint, detach};
use fuser::{Config, Filesystem, MountOption, SessionACL, SessionUnmounter};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often it is looked whether all files are closed.
const LOOK: Duration = Duration::from_millis(5);

/// What the kernel does with files that could give away more than their owner may. Root's to allow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Trust {
    /// Device files open the devices that they stand for (`-o dev`).
    pub devices: bool,
    /// Set-ID bits and capabilities of programs count (`-o suid`).
    pub set_id: bool,
}

/// How a file system is mounted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Manner {
    /// Other users may use it; the kernel checks permissions for all.
    pub for_others: bool,
    /// Nothing may be changed.
    pub read_only: bool,
    /// Programs on it may be run.
    pub may_execute: bool,
    /// What else files may do.
    pub trust: Trust,
    /// Threads that hear the kernel, at least one.
    pub threads: usize,
}

/// A file system that is mounted. Unmounted when dropped, without patience.
#[derive(Debug)]
pub struct Session {
    place: MountPoint,
    unmounter: SessionUnmounter,
    hearing: Option<JoinHandle<io::Result<()>>>,
    kernel: OwnedFd,
}

impl Session {
    /// Mounts a file system at a directory that [`MountPoint::find`] has found good.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new(
        file_system: impl Filesystem,
        place: MountPoint,
        manner: Manner,
    ) -> Result<Self, MountError> {
        let system = |error| MountError::System {
            path: place.path().to_path_buf(),
            error,
        };
        let config = config(manner, place.source());
        let mut session =
            fuser::Session::new(file_system, place.path(), &config).map_err(system)?;
        let kernel = session.as_fd().try_clone_to_owned().map_err(system)?;
        let unmounter = session.unmount_callable();
        let named = thread::Builder::new().name("fuse".to_string());
        let hearing = named.spawn(move || session.run()).map_err(system)?;
        Ok(Self {
            place,
            unmounter,
            hearing: Some(hearing),
            kernel,
        })
    }

    /// The kernel's side: readable while requests wait.
    ///
    /// # Errors
    /// The process has as many files as it may.
    pub fn kernel(&self) -> io::Result<OwnedFd> {
        self.kernel.try_clone()
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.place.path()
    }

    /// Whether a killed server's mount was there and was taken away.
    pub fn was_mended(&self) -> bool {
        self.place.was_mended()
    }

    /// Whether nobody can use it any more: it was unmounted by somebody else.
    pub fn is_over(&self) -> bool {
        self.hearing.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Unmounts it: at once nobody else finds it. Who has files open may go on for so long; whether
    /// somebody still has.
    pub fn end(&mut self, patience: Duration) -> bool {
        let Some(hearing) = self.hearing.take() else {
            return false;
        };
        if !hearing.is_finished() && self.unmounter.unmount().is_err() {
            // Open files keep it: nobody else finds it, and it goes when they are closed.
            let _ = detach(self.place.path());
        }
        let since = Instant::now();
        while !hearing.is_finished() && since.elapsed() < patience {
            thread::sleep(LOOK);
        }
        // A thread that waits for the kernel ends with the last open file, or with the process.
        !hearing.is_finished()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

fn config(manner: Manner, source: &str) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(source.to_string()),
        MountOption::DefaultPermissions,
    ];
    if !manner.may_execute {
        config.mount_options.push(MountOption::NoExec);
    }
    if manner.trust.devices {
        config.mount_options.push(MountOption::Dev);
    }
    if manner.trust.set_id {
        config.mount_options.push(MountOption::Suid);
    }
    if manner.read_only {
        config.mount_options.push(MountOption::RO);
    }
    if manner.for_others {
        config.acl = SessionACL::All;
    }
    config.n_threads = Some(manner.threads.max(1));
    // Each thread its own file: their reads do not meet in one lock of the kernel.
    config.clone_fd = manner.threads > 1;
    config
}
