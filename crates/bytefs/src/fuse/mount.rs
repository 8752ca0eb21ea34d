//! A file system that is mounted, what it does by itself, and how it ends.

use super::below::Below;
use super::clock::{Stopwatch, now};
use super::drive::finish;
use super::server::Adapter;
use super::share::{Served, Share};
use super::teller::Teller;
use crate::{FsError, Ino, Timestamp};
use fuse::{Manner, MountError, MountPoint, Session, Trust};
use nix::unistd::{getgid, getuid};
use port::{Device, Drive};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How often what is old is written back.
const PERIOD: Duration = Duration::from_secs(1);
/// What is older than this is written back. With PERIOD, what was written is on its way to the
/// device within 5 s: the window that a power cut finds open where nobody synced.
const OLD: Duration = Duration::from_secs(4);
/// Files that may wait to be written behind. Those beyond say so again with their next write.
const WAITING: usize = 64;

/// What programs may do with a mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Other users may use it.
    pub for_others: bool,
    /// Nothing may be changed.
    pub read_only: bool,
    /// The kernel gathers writes in its own page cache (`-o writeback`); else each reaches the file
    /// system with its bytes.
    pub writes_back: bool,
    /// What device files and set-ID bits may do.
    pub trust: Trust,
    /// Threads that hear the kernel.
    pub threads: usize,
}

/// A file system that is mounted. Dropped, it ends without patience.
pub struct Mounted<D: Device + Drive + Send + Sync + 'static> {
    share: Arc<Share<D>>,
    session: Session,
    timer: Option<Timer>,
}

/// How it ended.
#[derive(Debug)]
pub struct Ended<D> {
    /// What was done.
    pub served: Served,
    /// Somebody still had files open, who gets errors from now on.
    pub is_open: bool,
    /// The device, to be closed.
    pub device: Option<D>,
    /// Why not everything is on the device.
    pub failure: Option<FsError>,
}

/// A file system that could not be mounted.
#[derive(Debug)]
pub struct Refused<D> {
    /// Why.
    pub error: MountError,
    /// The device, to be closed.
    pub device: Option<D>,
}

impl<D> Mounted<D>
where
    D: Device + Drive + Send + Sync + 'static,
    Below<D>: Send + Sync,
{
    /// Mounts a file system at a place that was found good.
    ///
    /// # Errors
    /// The system refuses. The file system is unmounted in order then.
    pub fn new(
        file_system: Below<D>,
        place: MountPoint,
        terms: Terms,
        teller: Box<dyn Teller<D>>,
    ) -> Result<Self, Refused<D>> {
        let is_real = file_system.shortcuts().is_none();
        let share = Arc::new(Share::new(file_system));
        if !is_real {
            return Err(Refused {
                error: MountError::System {
                    path: place.path().to_path_buf(),
                    error: std::io::Error::other(
                        "a simulated file system, whose contents are lost; mount it without \
                         shortcuts",
                    ),
                },
                device: close(&share).0,
            });
        }
        let owner = (getuid().as_raw(), getgid().as_raw());
        let (asks, asked) = sync_channel(WAITING);
        let writes_back = terms.writes_back;
        let adapter = Adapter::new(share.clone(), teller, owner, writes_back, asks.clone());
        let manner = Manner {
            for_others: terms.for_others,
            read_only: terms.read_only,
            may_execute: true,
            trust: terms.trust,
            threads: terms.threads,
        };
        let path = place.path().to_path_buf();
        let started = Session::new(adapter, place, manner).and_then(|session| {
            let timer = Timer::start(share.clone(), asks, asked);
            let timer = timer.map_err(|error| MountError::System { path, error })?;
            Ok((session, timer))
        });
        match started {
            Ok((session, timer)) => Ok(Self {
                share,
                session,
                timer: Some(timer),
            }),
            Err(error) => Err(Refused {
                error,
                device: close(&share).0,
            }),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.session.path()
    }

    /// Whether a killed server's mount was there and was taken away.
    pub fn was_mended(&self) -> bool {
        self.session.was_mended()
    }

    /// Whether nobody can use it any more: it was unmounted by somebody else.
    pub fn is_over(&self) -> bool {
        self.session.is_over()
    }

    /// Looks at the file system.
    pub fn look<T>(&self, at: impl FnOnce(&Below<D>) -> T) -> Option<T> {
        self.share.look(at)
    }

    /// Why nothing can be written any more, or nothing done at all.
    pub fn failed(&self) -> Option<String> {
        if self.share.is_broken() {
            let broken = "a fault in the file system stopped it; unmount it, and what was synced \
                          is there";
            return Some(broken.to_string());
        }
        self.share.look(|fs| fs.failed()).flatten()
    }

    /// Unmounts it. Who has files open may go on for so long; afterwards everything is written and
    /// the device is handed out.
    pub fn end(mut self, patience: Duration) -> Ended<D> {
        let is_open = self.session.end(patience);
        drop(self.timer.take());
        let (device, failure) = close(&self.share);
        Ended {
            served: self.share.served(),
            is_open,
            device,
            failure,
        }
    }
}

impl<D: Device + Drive + Send + Sync + 'static> Drop for Mounted<D> {
    fn drop(&mut self) {
        // First nobody else asks, then everything is written.
        self.session.end(Duration::ZERO);
        drop(self.timer.take());
        close(&self.share);
    }
}

/// Writes everything and takes the file system apart. One that is broken is left as it is, as a
/// power cut would: what its memory says is not to be trusted.
fn close<D: Device + Drive>(share: &Share<D>) -> (Option<D>, Option<FsError>) {
    let Some(file_system) = share.take() else {
        return (None, None);
    };
    let failure = if share.is_broken() {
        Some(FsError::Io("a fault in the file system stopped it".into()))
    } else {
        let never = AtomicBool::new(false);
        let done = finish(file_system.device(), file_system.unmount(), &never);
        done.and_then(Result::err)
    };
    (Some(file_system.into_device()), failure)
}

/// What the thread that writes back is to do.
#[derive(Clone, Copy, Debug)]
pub(super) enum Task {
    /// A file is written in order, and is to be written behind.
    Behind(Ino),
    /// Nothing any more.
    End,
}

/// A thread that writes back what is old, and behind who writes in order.
struct Timer {
    asks: SyncSender<Task>,
    thread: Option<JoinHandle<()>>,
}

impl Timer {
    fn start<D>(
        share: Arc<Share<D>>,
        asks: SyncSender<Task>,
        asked: Receiver<Task>,
    ) -> std::io::Result<Self>
    where
        D: Device + Drive + Send + Sync + 'static,
        Below<D>: Send + Sync,
    {
        let thread = Builder::new().name("write-back".to_string());
        let again = asks.clone();
        let thread = thread.spawn(move || write_back(&share, &asked, &again))?;
        Ok(Self {
            asks,
            thread: Some(thread),
        })
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // A thread that has gone needs no word.
        let _ = self.asks.send(Task::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn write_back<D: Device + Drive>(
    share: &Share<D>,
    asked: &Receiver<Task>,
    again: &SyncSender<Task>,
) {
    let old = i64::try_from(OLD.as_nanos()).unwrap_or(i64::MAX);
    // What fails here makes the file system read-only, and it says why.
    let mut watch = Stopwatch::start();
    loop {
        let left = PERIOD.saturating_sub(watch.read());
        if left.is_zero() {
            let before = Timestamp(now().0 - old);
            let _ = share.perform(async |fs| fs.flush_old(before).await);
            watch = Stopwatch::start();
            continue;
        }
        match asked.recv_timeout(left) {
            Ok(Task::Behind(ino)) => {
                let done = share.perform(async |fs| fs.write_behind(ino).await);
                // Of what came meanwhile nobody has told, for somebody was at it.
                let is_more = || share.look(|fs| fs.can_write_behind(ino)) == Some(true);
                if done == Some(Ok(())) && is_more() {
                    let _ = again.try_send(Task::Behind(ino));
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Ok(Task::End) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
