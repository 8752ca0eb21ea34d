//! The loop of every server: one thread that hears clients, turns the device and answers.
//!
//! A round takes what has come, turns the device, and answers what is done. While the device gets
//! on the next round follows at once; between rounds the server looks at rings (each time) and
//! sockets (as often as the protocol says). While the device is early on the wall clock, or has
//! nothing to do, the server spins as long as the protocol says and then sleeps until a socket is
//! ready, a task is woken by another thread, or the device's next event is near.

use crate::bell::Bell;
use crate::tasks::{Job, Tasks};
use crate::waiting::{sleep_for, wait};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use port::{Device, DeviceError, Drive, Turned, block_on_with};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;

/// The longest that a quiet server does not ask whether it should stop.
const QUIET: Duration = Duration::from_millis(250);
/// How soon a job is polled again that waits for what ends without a wake.
const LATER: Duration = Duration::from_millis(5);
/// Idle rounds between two looks at the clock.
const CLOCK: u32 = 64;

/// Whether a server goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Control {
    /// It does.
    Continue,
    /// It takes no more requests, ends those it has, flushes and returns.
    Stop,
}

/// Why a server stopped that was not told to.
#[derive(Debug, Error)]
pub enum ServerError {
    /// The system refuses.
    #[error("the server cannot wait for its clients: {0}; what was acknowledged is in the device")]
    System(io::Error),
    /// The last flush failed.
    #[error("the last flush failed: {0}")]
    Flush(DeviceError),
}

/// How a protocol's server divides its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rhythm {
    /// Turns of the device in a round: few where it costs little to see what has come.
    pub turns: u32,
    /// Rounds between two looks at the sockets while there is something to do.
    pub look: u32,
    /// How long to look for requests before sleeping.
    pub spin: Duration,
    /// How long a server that stops waits for its clients to take their answers.
    pub drain: Duration,
}

/// What a protocol has of its own: its clients, and how they ask and are answered.
pub(crate) trait Protocol<D> {
    /// What a client asks for.
    type Job: Job;

    /// How its server divides its time.
    fn rhythm(&self) -> Rhythm;

    /// Takes requests that come without a socket. Says whether there were any. After
    /// [`Protocol::stop`] there are none.
    fn take(&mut self, tasks: &mut Tasks<'_, D, Self::Job>) -> bool;

    /// Names the sockets to look at.
    fn sockets<'a>(&'a self, sockets: &mut Sockets<'a>);

    /// Something has happened at a socket.
    fn on_ready(&mut self, socket: usize, events: PollFlags, tasks: &mut Tasks<'_, D, Self::Job>);

    /// A request is done.
    fn answer(&mut self, done: <Self::Job as Job>::Done, tasks: &mut Tasks<'_, D, Self::Job>);

    /// The end of each round: sends answers, lets clients go.
    fn settle(&mut self, tasks: &mut Tasks<'_, D, Self::Job>);

    /// The server is about to sleep. It looks for requests once more before it does.
    fn before_sleep(&self) {}

    /// The server is awake.
    fn after_sleep(&self) {}

    /// Whether nobody can come any more.
    fn is_over(&self) -> bool {
        false
    }

    /// Takes no more requests. What has come and was not taken may be refused.
    fn stop(&mut self, tasks: &mut Tasks<'_, D, Self::Job>);

    /// Whether clients have taken all answers.
    fn is_quiet(&self) -> bool {
        true
    }

    /// All requests are done; the clients are sent away. Tasks may be added once more.
    fn end(&mut self, tasks: &mut Tasks<'_, D, Self::Job>);
}

/// Sockets to look at, each with a number of the protocol's.
pub(crate) struct Sockets<'a> {
    files: Vec<PollFd<'a>>,
    numbers: Vec<usize>,
}

impl<'a> Sockets<'a> {
    /// Adds one.
    pub fn add(&mut self, number: usize, socket: &'a impl AsFd, events: PollFlags) {
        self.numbers.push(number);
        self.files.push(PollFd::new(socket.as_fd(), events));
    }

    /// Waits for one of them at most so long. Those that are ready, or nothing after a signal.
    fn wait(mut self, most: Duration) -> io::Result<Option<Vec<(usize, PollFlags)>>> {
        match ppoll(&mut self.files, Some(TimeSpec::from_duration(most)), None) {
            Err(Errno::EINTR) => return Ok(None),
            Err(error) => return Err(error.into()),
            Ok(0) => return Ok(Some(Vec::new())),
            Ok(_) => {}
        }
        // Flags that the library does not know count as something.
        let events = |file: &PollFd<'_>| file.revents().unwrap_or(PollFlags::POLLERR);
        let all = self.numbers.iter().copied();
        let all = all.zip(self.files.iter().map(events));
        Ok(Some(all.filter(|(_, events)| !events.is_empty()).collect()))
    }
}

/// The wall clock: how long to spin, and clients' patience. Nothing that the device does.
#[allow(clippy::disallowed_methods)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Serves a device by a protocol until `control` says stop. That is asked after each signal, and a
/// few times a second. Ends with a flush: then everything that was acknowledged survives a power
/// cut. Gives the protocol back, which knows what was done.
///
/// # Errors
/// The system gives no events; the last flush fails. Clients' misdeeds are theirs alone.
pub(crate) fn run<D: Device + Drive, P: Protocol<D>>(
    device: &D,
    bell: Arc<Bell>,
    protocol: P,
    mut control: impl FnMut() -> Control,
) -> Result<P, ServerError> {
    let mut server = Server::new(device, bell, protocol);
    let mut asked = now();
    while !server.protocol.is_over() {
        let was_interrupted = server.work(asked + QUIET)?;
        if was_interrupted || asked.elapsed() >= QUIET {
            if control() == Control::Stop {
                break;
            }
            asked = now();
        }
    }
    server.stop()?;
    let protocol = server.protocol;
    block_on_with(device, device.flush(), wait).map_err(ServerError::Flush)?;
    Ok(protocol)
}

struct Server<'d, D, P: Protocol<D>> {
    tasks: Tasks<'d, D, P::Job>,
    protocol: P,
    rhythm: Rhythm,
    bell: Arc<Bell>,
    rounds: u32,
    idle_rounds: u32,
    idle_since: Option<Instant>,
    /// When the jobs were polled again that wait for what ends without a wake.
    retried: Instant,
}

impl<'d, D: Device + Drive, P: Protocol<D>> Server<'d, D, P>
where
    P::Job: 'd,
{
    fn new(device: &'d D, bell: Arc<Bell>, protocol: P) -> Self {
        Self {
            tasks: Tasks::new(device, Arc::clone(&bell)),
            rhythm: protocol.rhythm(),
            protocol,
            bell,
            rounds: 0,
            idle_rounds: 0,
            idle_since: None,
            retried: now(),
        }
    }

    /// Works until a signal came, the protocol is over, or `until`. Says whether a signal came.
    fn work(&mut self, until: Instant) -> Result<bool, ServerError> {
        loop {
            let has_moved = self.round();
            let is_busy = has_moved && !self.tasks.is_empty();
            self.rounds = self.rounds.wrapping_add(1);
            let mut was_interrupted = false;
            if is_busy || !self.may_sleep(has_moved) {
                if !self.rounds.is_multiple_of(self.rhythm.look) {
                    continue;
                }
                was_interrupted = self.look(Duration::ZERO)?;
            } else if !self.protocol.is_over() {
                was_interrupted = self.sleep()?;
            }
            if was_interrupted || self.protocol.is_over() || now() >= until {
                return Ok(was_interrupted);
            }
        }
    }

    /// Takes what clients ask, turns the device, and answers. Says whether anything was done, which
    /// is not so while requests wait for the wall clock.
    fn round(&mut self) -> bool {
        let mut has_moved = self.protocol.take(&mut self.tasks);
        has_moved |= self.tasks.turn(self.rhythm.turns);
        if self.tasks.has_late() && self.retried.elapsed() >= LATER {
            self.tasks.poll_late();
            self.retried = now();
        }
        while let Some(done) = self.tasks.next_finished() {
            self.protocol.answer(done, &mut self.tasks);
            has_moved = true;
        }
        self.protocol.settle(&mut self.tasks);
        has_moved
    }

    /// Whether the server has looked in vain for long enough.
    fn may_sleep(&mut self, has_moved: bool) -> bool {
        if self.rhythm.spin.is_zero() {
            return true;
        }
        if has_moved {
            (self.idle_since, self.idle_rounds) = (None, 0);
            return false;
        }
        self.idle_rounds += 1;
        if !self.idle_rounds.is_multiple_of(CLOCK) {
            core::hint::spin_loop();
            return false;
        }
        let time = now();
        time.duration_since(*self.idle_since.get_or_insert(time)) >= self.rhythm.spin
    }

    /// How long nothing happens that neither a client nor another thread brings about.
    fn patience(&self) -> Duration {
        let most = match self.tasks.has_late() {
            true => LATER,
            false => QUIET,
        };
        match self.tasks.turned() {
            Turned::Early(span) if !self.tasks.is_empty() => sleep_for(span).min(most),
            Turned::Moved if !self.tasks.is_empty() => Duration::ZERO,
            // Who turned the device last has woken the tasks, or is about to.
            _ => most,
        }
    }

    /// Sleeps until something happens. Says whether a signal came.
    fn sleep(&mut self) -> Result<bool, ServerError> {
        self.bell.arm();
        self.protocol.before_sleep();
        // Who came before has not rung.
        let was_interrupted = match self.round() {
            true => Ok(false),
            false => self.look(self.patience()),
        };
        self.protocol.after_sleep();
        self.bell.disarm();
        self.idle_since = None;
        was_interrupted
    }

    /// Looks at the sockets; waits at most so long for something to happen there. Says whether a
    /// signal came.
    fn look(&mut self, most: Duration) -> Result<bool, ServerError> {
        let mut sockets = Sockets {
            files: vec![self.bell.to_poll()],
            numbers: vec![usize::MAX],
        };
        self.protocol.sockets(&mut sockets);
        let Some(ready) = sockets.wait(most).map_err(ServerError::System)? else {
            return Ok(true);
        };
        for (socket, events) in ready {
            if socket != usize::MAX {
                self.protocol.on_ready(socket, events, &mut self.tasks);
            }
        }
        Ok(false)
    }

    /// Ends what the device has and waits for clients to take their answers.
    fn stop(&mut self) -> Result<(), ServerError> {
        self.tasks.stop();
        self.protocol.stop(&mut self.tasks);
        let end = now() + self.rhythm.drain;
        while !(self.tasks.is_empty() && self.protocol.is_quiet()) && now() < end {
            if !self.round() {
                self.sleep()?;
            }
        }
        // Who does not take his answers is not waited for; the device ends what it has.
        self.drain()?;
        self.protocol.end(&mut self.tasks);
        self.drain()
    }

    /// Until the device has nothing. What it has may wait for another server's clients: that is
    /// not spun for.
    fn drain(&mut self) -> Result<(), ServerError> {
        while !self.tasks.is_empty() {
            if !self.round() {
                self.sleep()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
