//! The firmware's end: it is asked, and answers.

use crate::command::Command;
use crate::hello::Hello;
use crate::reply::Reply;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use shm::handshake::{self, Heard};
use shm::ring::{Reader, Ring, Words, Writer, announce_awake, announce_sleep};
use shm::{Layout, Note, Region, Side};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Looks at the ring, some ten microseconds, before the processor is offered to others.
const LOOKS: u32 = 1_000;
/// Offers before the firmware sleeps.
const OFFERS: u32 = 200;
/// A run that does not say what it wants by then wants nothing.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where runs find a firmware process.
#[derive(Debug)]
pub struct Listener {
    listener: UnixListener,
    path: PathBuf,
}

impl Listener {
    /// Listens at a path, where nothing may be.
    ///
    /// # Errors
    /// The system's.
    pub fn at(path: &Path) -> io::Result<Self> {
        Ok(Self {
            listener: UnixListener::bind(path)?,
            path: path.to_owned(),
        })
    }

    /// Waits for the next run. Nothing if nobody came for so long.
    ///
    /// # Errors
    /// The system's.
    pub fn accept(&self, longest: Duration) -> io::Result<Option<UnixStream>> {
        match is_ready(&self.listener, longest) {
            true => Ok(Some(self.listener.accept()?.0)),
            false => Ok(None),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Whoever has taken it away already has done no harm.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn is_ready(fd: impl AsFd, longest: Duration) -> bool {
    let fd = fd.as_fd();
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    let timeout = Timespec {
        tv_sec: longest.as_secs() as i64,
        tv_nsec: i64::from(longest.subsec_nanos()),
    };
    poll(&mut fds, Some(&timeout)).is_ok_and(|ready| ready > 0)
}

/// A connection to a run.
#[derive(Debug)]
pub struct Board {
    socket: UnixStream,
    region: Region,
    commands: Reader,
    replies: Writer,
}

impl Board {
    /// Hears which device a run wants, makes it, and lets the run in; it is refused with the
    /// sentence of `make` if that has one. Nothing if the run was refused.
    ///
    /// # Errors
    /// The run has gone, or the system's.
    pub fn welcome<D>(
        mut socket: UnixStream,
        make: impl FnOnce(&Hello) -> Result<D, String>,
    ) -> io::Result<Option<(Self, D)>> {
        socket.set_read_timeout(Some(PATIENCE))?;
        let made = Hello::receive(&mut socket)?.and_then(|hello| make(&hello));
        let device = match made {
            Ok(device) => device,
            Err(why) => {
                handshake::refuse(&socket, &why)?;
                return Ok(None);
            }
        };
        let (file, region) = handshake::memory(Layout::place(0))?;
        handshake::welcome(&socket, &file)?;
        let board = Self {
            socket,
            region,
            commands: Reader::new(Ring::Submissions),
            replies: Writer::new(Ring::Answers),
        };
        Ok(Some((board, device)))
    }

    /// The next command; nothing when the run has gone.
    ///
    /// # Errors
    /// It means nothing; a sentence.
    #[inline]
    pub fn next_command(&mut self) -> Result<Option<Command>, String> {
        loop {
            for _ in 0..OFFERS {
                for _ in 0..LOOKS {
                    match self.commands.pop(&self.region) {
                        Ok(Some(words)) => return Command::from_words(&words).map(Some),
                        Ok(None) => std::hint::spin_loop(),
                        Err(breach) => return Err(breach.to_string()),
                    }
                }
                std::thread::yield_now();
            }
            if !self.sleep() {
                return Ok(None);
            }
        }
    }

    /// Sleeps until there may be something; says whether the run is still there.
    #[cold]
    fn sleep(&mut self) -> bool {
        announce_sleep(&self.region, Side::Server);
        let mut looked = self.commands.clone();
        if !matches!(looked.pop(&self.region), Ok(None)) {
            announce_awake(&self.region, Side::Server);
            return true;
        }
        is_ready(&self.socket, Duration::from_millis(200));
        announce_awake(&self.region, Side::Server);
        handshake::listen(&self.socket) != Heard::Gone
    }

    /// Says something about a command.
    #[inline]
    pub fn say(&mut self, tag: u64, reply: &Reply) {
        self.push(reply.words(tag));
    }

    /// Puts words into the ring as they are.
    #[inline]
    pub fn push(&mut self, words: Words) {
        self.replies.push(&self.region, words);
    }

    /// Stops at a command, and says why.
    pub fn stop(&mut self, tag: u64, why: &str) {
        Note::Stopped.leave(&self.region, why);
        self.say(tag, &Reply::Stopped);
    }
}
