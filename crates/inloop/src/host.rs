//! The host's end: commands out, replies in, nothing believed that is not due.

use crate::command::{Command, What};
use crate::error::LoopError;
use crate::hello::Hello;
use crate::reply::{Answered, Reply};
use shm::handshake::{self, Heard, Reply as Greeting};
use shm::ring::{Reader, Ring, Writer, must_ring};
use shm::{Layout, Note, Region, Side};
use soc::Timed;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};
use units::{Lpa, Picos, Time};

/// Commands of warm-up that are on their way at most: rings have room for 256, and each is answered
/// with one entry.
const MOST_POSTED: u64 = 128;
/// Replies to one command, at most: a firmware process that says more does not come to an end.
const MOST_SAID: u32 = 1 << 24;
/// Looks at the ring, some ten microseconds, before the processor is offered to others and the
/// system is asked whether the other side is still there.
const LOOKS: u32 = 1_000;
/// How often, and how long between, a socket is tried again that nobody listens at: it is there
/// before its process listens.
const KNOCKS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(10);

/// What the firmware did about one command.
#[derive(Clone, Debug, Default)]
pub struct Reaction {
    /// What its work took, in order.
    pub times: Vec<(Timed, Picos)>,
    /// Requests that are answered.
    pub answered: Vec<Answered>,
    /// Pages that are offered to the host, and when the host knows.
    pub offered: Vec<(Lpa, Time)>,
    /// Pages that have come of which the host is told, and when.
    pub arrived: Vec<(Lpa, Time)>,
    /// When the device's next event is due.
    pub deadline: Option<Time>,
    /// Whether a drive is behind the firmware, if that was asked.
    pub is_drive: bool,
}

impl Reaction {
    fn clear(&mut self) {
        self.times.clear();
        self.answered.clear();
        self.offered.clear();
        self.arrived.clear();
        self.deadline = None;
        self.is_drive = false;
    }
}

/// A connection to a firmware process.
#[derive(Debug)]
pub struct Host {
    socket: UnixStream,
    region: Region,
    commands: Writer,
    replies: Reader,
    /// Commands that were sent, and those that are done.
    sent: u64,
    done: u64,
    patience: Duration,
}

impl Host {
    /// Connects to the firmware process that listens at a path, and says which device it is to be.
    ///
    /// # Errors
    /// Nobody listens there, or not for us, or the device is refused.
    pub fn connect(path: &Path, hello: &Hello, patience: Duration) -> Result<Self, LoopError> {
        let unreachable = |error: io::Error| match error.kind() {
            // It listens, and has let nobody in for so long.
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => LoopError::Busy {
                path: path.to_owned(),
            },
            _ => LoopError::Unreachable {
                path: path.to_owned(),
                error,
            },
        };
        let socket = knock(path).map_err(unreachable)?;
        Self::over(socket, hello, patience).map_err(|error| match error {
            Ok(error) => error,
            Err(error) => unreachable(error),
        })
    }

    /// As [`Host::connect`], over a socket that is connected.
    ///
    /// # Errors
    /// The loop's, or the system's.
    pub fn over(
        mut socket: UnixStream,
        hello: &Hello,
        patience: Duration,
    ) -> Result<Self, Result<LoopError, io::Error>> {
        let prepare = |socket: &mut UnixStream| {
            socket.set_read_timeout(Some(patience))?;
            hello.send(socket)?;
            handshake::reply(&*socket)
        };
        let file = match prepare(&mut socket).map_err(Err)? {
            Greeting::Memory(file) => file,
            Greeting::Refused(why) => return Err(Ok(LoopError::Refused(why))),
            Greeting::Foreign | Greeting::Version(_) => return Err(Ok(LoopError::Foreign)),
        };
        let region = Region::new(&file, Layout::place(0)).map_err(Err)?;
        Ok(Self {
            socket,
            region,
            commands: Writer::new(Ring::Submissions),
            replies: Reader::new(Ring::Answers),
            sent: 0,
            done: 0,
            patience,
        })
    }

    /// Sends a command and waits for no answer to it, which is to say nothing but that it is done.
    ///
    /// # Errors
    /// There is no going on with the firmware process.
    pub fn post(&mut self, at: Time, what: What) -> Result<(), LoopError> {
        while self.sent - self.done >= MOST_POSTED {
            self.take_done()?;
        }
        self.send(at, what);
        Ok(())
    }

    /// Sends a command and waits for what the firmware does about it.
    ///
    /// # Errors
    /// There is no going on with the firmware process.
    pub fn ask(&mut self, at: Time, what: What, reaction: &mut Reaction) -> Result<(), LoopError> {
        while self.sent > self.done {
            self.take_done()?;
        }
        reaction.clear();
        self.send(at, what);
        for _ in 0..MOST_SAID {
            match self.take()? {
                Reply::Answered(answered) => reaction.answered.push(answered),
                Reply::Offered(lpa, at) => reaction.offered.push((lpa, at)),
                Reply::Arrived(lpa, at) => reaction.arrived.push((lpa, at)),
                Reply::Flash { is_drive } => reaction.is_drive = is_drive,
                Reply::Times(times) => reaction.times.extend(times.iter().flatten()),
                Reply::Done { deadline, times } => {
                    reaction.times.extend(times.iter().flatten());
                    reaction.deadline = deadline;
                    return Ok(());
                }
                Reply::More => self.put(self.done, at, What::GoOn),
                Reply::Stopped => return Err(self.stopped()),
            }
        }
        Err(LoopError::Malformed(format!(
            "more than {MOST_SAID} replies to one command"
        )))
    }

    #[inline]
    fn send(&mut self, at: Time, what: What) {
        let tag = self.sent;
        self.sent += 1;
        self.put(tag, at, what);
    }

    #[inline]
    fn put(&mut self, tag: u64, at: Time, what: What) {
        let words = Command { tag, at, what }.words();
        self.commands.push(&self.region, words);
        if must_ring(&self.region, Side::Server) {
            handshake::ring(&self.socket);
        }
    }

    /// The next posted command is done.
    fn take_done(&mut self) -> Result<(), LoopError> {
        match self.take()? {
            Reply::Done { .. } => Ok(()),
            Reply::Stopped => Err(self.stopped()),
            reply => Err(LoopError::Malformed(format!(
                "{reply:?} about a command that wants no answer"
            ))),
        }
    }

    /// The next reply, which is of the command that is due.
    #[inline]
    fn take(&mut self) -> Result<Reply, LoopError> {
        let words = match self.replies.pop(&self.region) {
            Ok(Some(words)) => words,
            Ok(None) => self.wait()?,
            Err(breach) => return Err(LoopError::Malformed(breach.to_string())),
        };
        let (found, reply) = Reply::from_words(&words)?;
        let due = self.done;
        if found != due {
            return Err(match found < self.sent {
                true => LoopError::OutOfOrder { found, due },
                false => LoopError::WrongTag { found, due },
            });
        }
        self.done += u64::from(matches!(reply, Reply::Done { .. }));
        Ok(reply)
    }

    /// Looks until there is a reply, the process is gone, or patience is over.
    #[expect(
        clippy::disallowed_methods,
        reason = "a firmware process that hangs is found out in real time; no result has it"
    )]
    fn wait(&mut self) -> Result<shm::ring::Words, LoopError> {
        let pop = |host: &mut Self| {
            let popped = host.replies.pop(&host.region);
            popped.map_err(|breach| LoopError::Malformed(breach.to_string()))
        };
        let mut began = None;
        loop {
            for _ in 0..LOOKS {
                if let Some(words) = pop(self)? {
                    return Ok(words);
                }
                std::hint::spin_loop();
            }
            let tag = self.done;
            if handshake::listen(&self.socket) == Heard::Gone {
                // What it said before it went is still to be heard.
                return match pop(self)? {
                    Some(words) => Ok(words),
                    None => Err(LoopError::Gone { tag }),
                };
            }
            let patience = self.patience;
            if began.get_or_insert_with(Instant::now).elapsed() > patience {
                return Err(LoopError::Silent { tag, patience });
            }
            std::thread::yield_now();
        }
    }

    #[cold]
    fn stopped(&self) -> LoopError {
        LoopError::Stopped {
            tag: self.done,
            why: Note::Stopped.find(&self.region).unwrap_or_default(),
        }
    }
}

/// Connects, as soon as somebody listens.
#[expect(
    clippy::disallowed_methods,
    reason = "a process that starts is waited for in real time; no result has it"
)]
fn knock(path: &Path) -> io::Result<UnixStream> {
    for _ in 1..KNOCKS {
        match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                std::thread::sleep(PAUSE);
            }
            outcome => return outcome,
        }
    }
    UnixStream::connect(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};

    #[test]
    fn a_process_that_does_not_listen_yet_is_waited_for_and_one_that_never_does_is_not() {
        let name = format!("entresol-knock-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        let late = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        bind(&late, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        let host = std::thread::spawn({
            let path = path.clone();
            move || knock(&path).is_ok()
        });
        // It has been refused by now, or comes later and need not be.
        let refused = UnixStream::connect(&path).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        listen(&late, 1).unwrap();
        assert!(host.join().unwrap());
        drop(late);
        let never = knock(&path).unwrap_err();
        assert_eq!(never.kind(), io::ErrorKind::ConnectionRefused);
        std::fs::remove_file(&path).unwrap();
        let nothing = knock(&path).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::NotFound);
    }
}
