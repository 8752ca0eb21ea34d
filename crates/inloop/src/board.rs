//! The firmware's end: it is asked, and answers.

use crate::command::{Command, What};
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
/// Entries about one command before the firmware waits until they are read. The ring has twice as
/// many, and who writes into it does not look at who reads.
const MOST_AT_ONCE: usize = shm::ENTRIES / 2;
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

/// Why a run was not let in, and the device that was made for it, if it was.
pub type Unwelcome<D> = (io::Error, Option<D>);

/// A connection to a run.
#[derive(Debug)]
pub struct Board {
    socket: UnixStream,
    region: Region,
    commands: Reader,
    replies: Writer,
    /// Entries that were written since the run was last known to have read all.
    unread: usize,
}

impl Board {
    /// Hears which device a run wants, makes it, and lets the run in; it is refused with the
    /// sentence of `make` if that has one. Nothing if the run was refused.
    ///
    /// # Errors
    /// The run has gone, or the system's; with the device, if it was made.
    pub fn welcome<D>(
        mut socket: UnixStream,
        make: impl FnOnce(&Hello) -> Result<D, String>,
    ) -> Result<Option<(Self, D)>, Unwelcome<D>> {
        let before = |error| (error, None);
        socket.set_read_timeout(Some(PATIENCE)).map_err(before)?;
        let hello = Hello::receive(&mut socket).map_err(before)?;
        let device = match hello.and_then(|hello| make(&hello)) {
            Ok(device) => device,
            Err(why) => {
                handshake::refuse(&socket, &why).map_err(before)?;
                return Ok(None);
            }
        };
        match Self::let_in(socket) {
            Ok(board) => Ok(Some((board, device))),
            Err(error) => Err((error, Some(device))),
        }
    }

    fn let_in(socket: UnixStream) -> io::Result<Self> {
        let (file, region) = handshake::memory(Layout::place(0))?;
        handshake::welcome(&socket, &file)?;
        Ok(Self {
            socket,
            region,
            commands: Reader::new(Ring::Submissions),
            replies: Writer::new(Ring::Answers),
            unread: 0,
        })
    }

    /// The next command; nothing when the run has gone.
    ///
    /// # Errors
    /// It means nothing; a sentence.
    #[inline]
    pub fn next_command(&mut self) -> Result<Option<Command>, String> {
        self.unread = 0;
        match self.hear()? {
            Some(Command {
                tag,
                what: What::GoOn,
                ..
            }) => Err(format!("command {tag} is to go on, and does not wait")),
            command => Ok(command),
        }
    }

    #[inline]
    fn hear(&mut self) -> Result<Option<Command>, String> {
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
        // What the run said before it went is still to be heard.
        let has_gone = handshake::listen(&self.socket) == Heard::Gone;
        !has_gone || !matches!(self.commands.clone().pop(&self.region), Ok(None))
    }

    /// Says something about a command. Behind many things it waits until the run has read them.
    ///
    /// # Errors
    /// The run does something else meanwhile; a sentence. Or it has gone: none.
    #[inline]
    pub fn say(&mut self, tag: u64, reply: &Reply) -> Result<(), Option<String>> {
        self.push(reply.words(tag))
    }

    /// Puts words about a command into the ring as they are.
    ///
    /// # Errors
    /// As of [`Board::say`].
    #[inline]
    pub fn push(&mut self, words: Words) -> Result<(), Option<String>> {
        if self.unread == MOST_AT_ONCE {
            self.wait_until_read(words[1])?;
        }
        self.unread += 1;
        self.replies.push(&self.region, words);
        Ok(())
    }

    #[cold]
    fn wait_until_read(&mut self, tag: u64) -> Result<(), Option<String>> {
        self.replies.push(&self.region, Reply::More.words(tag));
        match self.hear()? {
            None => Err(None),
            Some(command) if command.what == What::GoOn && command.tag == tag => {
                self.unread = 0;
                Ok(())
            }
            Some(command) => Err(Some(format!(
                "command {} comes before command {tag} is answered",
                command.tag
            ))),
        }
    }

    /// Stops at a command, and says why.
    pub fn stop(&mut self, tag: u64, why: &str) {
        Note::Stopped.leave(&self.region, why);
        self.replies.push(&self.region, Reply::Stopped.words(tag));
    }
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "a run that reads late rests in real time"
)]
mod tests {
    use super::*;
    use crate::host::{Host, Reaction};
    use firmware::Work;
    use soc::Timed;
    use std::thread::{sleep, spawn};
    use units::{Picos, Time};

    const MANY: u64 = 2_000;

    fn timed(number: u64) -> Option<(Timed, Picos)> {
        Some((Timed::Work(Work::CacheInsert), Picos::new(number)))
    }

    /// A firmware process that says about its first command more than the ring has room for.
    /// What it hears last of the run: a command, that the run has gone, or why it stops.
    fn talkative(socket: UnixStream) -> Result<Option<Command>, String> {
        let welcome = Board::welcome(socket, |_| Ok(()));
        let (mut board, ()) = welcome.unwrap().unwrap();
        let command = board.next_command()?.unwrap();
        let said = (0..MANY).try_for_each(|number| {
            let times = Reply::Times([timed(number), None, None, None, None]);
            board.say(command.tag, &times)
        });
        let done = Reply::Done {
            deadline: None,
            times: [None; 5],
        };
        match said.and_then(|()| board.say(command.tag, &done)) {
            Ok(()) => board.next_command(),
            Err(None) => Ok(None),
            Err(Some(why)) => Err(why),
        }
    }

    /// A run that reads nothing for a while.
    struct Slow {
        socket: UnixStream,
        region: Region,
        commands: Writer,
        replies: Reader,
    }

    impl Slow {
        fn begin(mut socket: UnixStream) -> Self {
            Hello::default().send(&mut socket).unwrap();
            let handshake::Reply::Memory(file) = handshake::reply(&socket).unwrap() else {
                panic!("the run is refused")
            };
            let mut slow = Self {
                socket,
                region: Region::new(&file, Layout::place(0)).unwrap(),
                commands: Writer::new(Ring::Submissions),
                replies: Reader::new(Ring::Answers),
            };
            slow.send(0, What::Event);
            sleep(Duration::from_millis(50));
            slow
        }

        fn send(&mut self, tag: u64, what: What) {
            let at = Time::ZERO;
            let words = Command { tag, at, what }.words();
            self.commands.push(&self.region, words);
            if shm::ring::must_ring(&self.region, Side::Server) {
                handshake::ring(&self.socket);
            }
        }

        fn next(&mut self) -> Reply {
            loop {
                if let Some(words) = self.replies.pop(&self.region).unwrap() {
                    return Reply::from_words(&words).unwrap().1;
                }
                std::thread::yield_now();
            }
        }
    }

    fn pair() -> (
        UnixStream,
        std::thread::JoinHandle<Result<Option<Command>, String>>,
    ) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (ours, spawn(move || talkative(theirs)))
    }

    #[test]
    fn a_run_that_reads_late_misses_nothing() {
        let (socket, firmware) = pair();
        let mut run = Slow::begin(socket);
        let mut number = 0;
        loop {
            match run.next() {
                Reply::Times(times) => {
                    assert_eq!(times[0], timed(number));
                    number += 1;
                }
                Reply::More => {
                    sleep(Duration::from_millis(1));
                    run.send(0, What::GoOn);
                }
                Reply::Done { .. } => break,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(number, MANY);
        drop(run);
        assert_eq!(firmware.join().unwrap(), Ok(None));
    }

    #[test]
    fn a_host_reads_any_number_of_times() {
        let (socket, firmware) = pair();
        let mut host = Host::over(socket, &Hello::default(), PATIENCE).unwrap();
        let mut reaction = Reaction::default();
        host.ask(Time::ZERO, What::Event, &mut reaction).unwrap();
        let expected: Vec<_> = (0..MANY).filter_map(timed).collect();
        assert_eq!(reaction.times, expected);
        drop(host);
        assert_eq!(firmware.join().unwrap(), Ok(None));
    }

    #[test]
    fn what_comes_instead_of_going_on_is_a_sentence() {
        let cases = [
            (1, What::Event, "command 1 comes before command 0"),
            (1, What::GoOn, "command 1 comes before command 0"),
        ];
        for (tag, what, expected) in cases {
            let (socket, firmware) = pair();
            let mut run = Slow::begin(socket);
            while run.next() != Reply::More {}
            run.send(tag, what);
            let why = firmware.join().unwrap().unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn a_run_that_leaves_instead_of_going_on_has_gone() {
        let (socket, firmware) = pair();
        let mut run = Slow::begin(socket);
        while run.next() != Reply::More {}
        drop(run);
        assert_eq!(firmware.join().unwrap(), Ok(None));
    }

    #[test]
    fn going_on_without_waiting_is_a_sentence() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let firmware = spawn(move || {
            let welcome = Board::welcome(theirs, |_| Ok(()));
            let mut board = welcome.unwrap().unwrap().0;
            board.next_command()?;
            board.next_command()
        });
        Slow::begin(ours).send(0, What::GoOn);
        let why = firmware.join().unwrap().unwrap_err();
        assert!(why.contains("does not wait"), "{why}");
    }
}
