//! The server: one thread that owns the device and all sockets.

use super::Export;
use super::connection::{Connection, Spares, Wish};
use super::request::{Cookie, Refusal};
use super::tasks::{Done, Tasks};
use super::wire::Errno;
use crate::address::Listener;
use crate::serving::{QUIET, ServerError, Turn};
use crate::waiting::{sleep_for, wait};
use nix::errno::Errno as SystemErrno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use port::{Device, Drive, block_on_with};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Times that the device is moved before sockets are looked at again, unless something is done:
/// looking costs as much as a few movements.
const MOST_POLLS: u32 = 32;

/// What a server has room and patience for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Clients at once. Others wait until one goes.
    pub connections: usize,
    /// A client that has not asked for an export by then goes.
    pub handshake: Duration,
    /// How long a server that stops waits for its clients to take their answers.
    pub farewell: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 32,
            handshake: Duration::from_secs(10),
            farewell: Duration::from_secs(5),
        }
    }
}

/// What a server has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Served {
    /// Clients that came.
    pub connections: u64,
    /// Requests that the device was given.
    pub requests: u64,
    /// Requests that were answered with an error, by the device or before it.
    pub errors: u64,
}

/// Serves a device until `turn` says stop. That is asked after each signal, and a few times a
/// second. Ends with a flush: then everything that was acknowledged survives a power cut.
///
/// # Errors
/// The system gives no events; the last flush fails. Clients' misdeeds are theirs alone.
pub fn serve<D: Device + Drive>(
    device: &D,
    listener: Listener,
    export: Export,
    limits: Limits,
    mut turn: impl FnMut() -> Turn,
) -> Result<Served, ServerError> {
    let mut server = Server::new(device, listener, export, limits);
    let mut asked = now();
    loop {
        let was_interrupted = server.step(QUIET)?;
        if was_interrupted || asked.elapsed() >= QUIET {
            if turn() == Turn::Stop {
                break;
            }
            asked = now();
        }
    }
    server.farewell()?;
    block_on_with(device, device.flush(), wait).map_err(ServerError::Flush)?;
    Ok(server.served)
}

/// The wall clock: clients' patience is measured by it, nothing that the device does.
#[allow(clippy::disallowed_methods)]
fn now() -> Instant {
    Instant::now()
}

struct Server<'d, D> {
    listener: Option<Listener>,
    export: Export,
    limits: Limits,
    /// A place is free again when its client has gone and the device has nothing of it.
    connections: Vec<Option<(Connection, Instant)>>,
    tasks: Tasks<'d, D>,
    finished: Vec<Done>,
    spares: Spares,
    served: Served,
    is_stopping: bool,
    /// What clients still send is not read any more.
    is_deaf: bool,
}

/// What a socket is ready for.
#[derive(Clone, Copy)]
struct Ready {
    place: usize,
    input: bool,
}

impl<'d, D: Device + Drive> Server<'d, D> {
    fn new(device: &'d D, listener: Listener, export: Export, limits: Limits) -> Self {
        Self {
            listener: Some(listener),
            export,
            limits,
            connections: Vec::new(),
            tasks: Tasks::new(device),
            finished: Vec::new(),
            spares: Spares::default(),
            served: Served::default(),
            is_stopping: false,
            is_deaf: false,
        }
    }

    /// Waits for clients at most so long, and not at all while the device gets on with requests.
    /// Does what there is to do. Says whether a signal came.
    fn step(&mut self, wait: Duration) -> Result<bool, ServerError> {
        let mut open = self.connections.iter().flatten();
        let can_go_on = open.any(|(open, _)| open.can_go_on());
        let wait = match (can_go_on, self.tasks.is_empty()) {
            (true, _) => Duration::ZERO,
            (false, true) => wait,
            // A device may make its clients wait; who sends something wakes the server.
            (false, false) => sleep_for(self.tasks.rest()).min(wait),
        };
        let Some((knocks, ready)) = self.wait(wait)? else {
            return Ok(true);
        };
        if knocks {
            self.welcome();
        }
        for Ready { place, input } in ready {
            if input
                && !self.is_deaf
                && let Some((connection, _)) = &mut self.connections[place]
            {
                connection.receive();
                self.take(place);
            }
        }
        let mut polls = 0;
        while self.finished.is_empty() && !self.tasks.is_empty() && polls < MOST_POLLS {
            self.tasks.poll(&mut self.finished);
            polls += 1;
            if !self.tasks.rest().is_zero() {
                break;
            }
        }
        self.answer();
        for place in 0..self.connections.len() {
            self.tend(place);
        }
        Ok(false)
    }

    /// What can be done, or `None` after a signal.
    fn wait(&self, wait: Duration) -> Result<Option<(bool, Vec<Ready>)>, ServerError> {
        let mut fds = Vec::with_capacity(self.connections.len() + 1);
        let mut places = Vec::with_capacity(self.connections.len());
        for (place, connection) in self.connections.iter().enumerate() {
            let Some((connection, _)) = connection else {
                continue;
            };
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::POLLIN, !self.is_deaf && connection.wants_input());
            flags.set(PollFlags::POLLOUT, connection.wants_output());
            if !flags.is_empty() {
                places.push(place);
                fds.push(PollFd::new(connection.as_fd(), flags));
            }
        }
        let is_full = self.connections.iter().flatten().count() >= self.limits.connections;
        if let Some(listener) = self.listener.as_ref().filter(|_| !is_full) {
            fds.push(PollFd::new(listener.as_fd(), PollFlags::POLLIN));
        }
        match ppoll(&mut fds, Some(TimeSpec::from_duration(wait)), None) {
            Err(SystemErrno::EINTR) => return Ok(None),
            Err(error) => return Err(ServerError::System(error.into())),
            Ok(_) => {}
        }
        // Flags that the library does not know count as something.
        let mut events = fds
            .iter()
            .map(|fd| fd.revents().unwrap_or(PollFlags::POLLERR));
        let ready = places.into_iter().zip(events.by_ref());
        let ready = ready.filter(|(_, events)| !events.is_empty());
        // A socket that went says so when it is read from.
        let ready = ready.map(|(place, events)| Ready {
            place,
            input: events != PollFlags::POLLOUT,
        });
        let ready = ready.collect();
        let knocks = events.next().is_some_and(|events| !events.is_empty());
        Ok(Some((knocks, ready)))
    }

    /// Lets a client in. Where that fails (no file descriptors, a client that went while it
    /// knocked) the others are served on.
    fn welcome(&mut self) {
        let accepted = self.listener.as_ref().map(Listener::accept);
        let Some(Ok(Some(stream))) = accepted else {
            return;
        };
        let Ok(connection) = Connection::new(stream, self.export.clone()) else {
            return;
        };
        self.served.connections += 1;
        let entry = Some((connection, now()));
        match self.connections.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = entry,
            None => self.connections.push(entry),
        }
    }

    /// Hands what a client asks for to the device, as far as there is room.
    fn take(&mut self, place: usize) {
        while let Some((connection, _)) = &mut self.connections[place]
            && let Some(wish) = connection.next(&mut self.spares)
        {
            match wish {
                Wish::Refused(refusal) => {
                    self.served.errors += 1;
                    connection.refuse(&refusal);
                }
                Wish::Request(request, weight) if self.is_stopping => {
                    self.finished.push(too_late(place, request.cookie, weight));
                }
                Wish::Request(request, weight) => {
                    self.served.requests += 1;
                    let spare = self.spares.take();
                    let done = self.tasks.submit(place, request, weight, spare);
                    self.finished.extend(done);
                }
            }
        }
    }

    fn answer(&mut self) {
        for done in self.finished.drain(..) {
            self.served.errors += u64::from(done.outcome.is_err());
            if let Some((connection, _)) = &mut self.connections[done.connection] {
                connection.answer(done, &mut self.spares);
            }
        }
    }

    /// Sends a client its answers, goes on with what it asked for, and lets it go if it is time.
    fn tend(&mut self, place: usize) {
        let Some((connection, since)) = &mut self.connections[place] else {
            return;
        };
        connection.send(&mut self.spares);
        if !connection.is_past_handshake() && since.elapsed() > self.limits.handshake {
            connection.give_up();
        }
        if connection.is_over() {
            self.connections[place] = None;
        } else if connection.can_go_on() {
            self.take(place);
            self.answer();
        }
    }

    /// Ends what the device has, says no to what has come, and waits for clients to hear it.
    fn farewell(&mut self) -> Result<(), ServerError> {
        self.listener = None;
        self.is_stopping = true;
        let since = now();
        self.step(Duration::ZERO)?;
        self.is_deaf = true;
        while !self.is_quiet() && since.elapsed() < self.limits.farewell {
            self.step(QUIET)?;
        }
        // Who does not listen is not waited for; the device ends what it has.
        while !self.tasks.is_empty() {
            self.tasks.poll(&mut self.finished);
        }
        Ok(())
    }

    fn is_quiet(&self) -> bool {
        let mut open = self.connections.iter().flatten();
        self.tasks.is_empty() && open.all(|(connection, _)| connection.is_quiet())
    }
}

fn too_late(connection: usize, cookie: Cookie, weight: usize) -> Done {
    let refusal = Refusal {
        cookie,
        errno: Errno::Shutdown,
        message: "the server stops; what it acknowledged is kept".to_string(),
    };
    Done {
        connection,
        cookie,
        outcome: Err(refusal),
        buffer: Vec::new(),
        weight,
    }
}
