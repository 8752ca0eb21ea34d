//! The server's clients: who comes, asks, is answered and goes. The loop is `crate::server`.

use super::Export;
use super::connection::{Connection, Received};
use super::perform::{Done, Submission};
use super::request::{Cookie, Refusal};
use crate::address::Listener;
use crate::bell::Bell;
use crate::conflict::PATIENCE;
use crate::output::Buffers;
use crate::server::{Control, Protocol, Rhythm, ServerError, Sockets, now, run};
use crate::tasks::Tasks;
use nix::poll::PollFlags;
use port::{Device, Drive};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Turns of the device before the sockets are looked at again: a look is a system call, which takes
/// as long as a few turns.
const TURNS: u32 = 32;
/// The number of the listener's socket.
const LISTENER: usize = usize::MAX - 1;

/// What a server has room and patience for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Clients at once. Others wait until one goes.
    pub connections: usize,
    /// A client that has not asked for an export by then goes.
    pub handshake: Duration,
    /// How long a server that stops waits for its clients to take their answers.
    pub drain: Duration,
    /// How long a request waits, from when it came, for a transaction of another protocol's client
    /// that has written there.
    pub patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 32,
            handshake: Duration::from_secs(10),
            drain: Duration::from_secs(5),
            patience: PATIENCE,
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

/// Serves a device until `control` says stop. That is asked after each signal, and a few times a
/// second. Ends with a flush: then everything that was acknowledged survives a power cut.
///
/// # Errors
/// The system gives no events; the last flush fails. Clients' misdeeds are theirs alone.
pub fn serve<D: Device + Drive>(
    device: &D,
    listener: Listener,
    export: Export,
    limits: Limits,
    control: impl FnMut() -> Control,
) -> Result<Served, ServerError> {
    let bell = Arc::new(Bell::new().map_err(ServerError::System)?);
    let clients = Clients {
        listener: Some(listener),
        export,
        limits,
        connections: Vec::new(),
        buffers: Buffers::default(),
        served: Served::default(),
        is_stopping: false,
    };
    run(device, bell, clients, control).map(|clients| clients.served)
}

struct Clients {
    /// Nothing when no more clients may come.
    listener: Option<Listener>,
    export: Export,
    limits: Limits,
    /// A place is free again when its client has gone and the device has nothing of it.
    connections: Vec<Option<(Connection, Instant)>>,
    buffers: Buffers,
    served: Served,
    is_stopping: bool,
}

impl<D: Device + Drive> Protocol<D> for Clients {
    type Job = Submission;

    fn rhythm(&self) -> Rhythm {
        Rhythm {
            turns: TURNS,
            look: 1,
            // Who spins takes from its client the core that it waits for.
            spin: Duration::ZERO,
            drain: self.limits.drain,
        }
    }

    /// All requests come through sockets.
    fn take(&mut self, _: &mut Tasks<'_, D, Submission>) -> bool {
        false
    }

    fn sockets<'a>(&'a self, sockets: &mut Sockets<'a>) {
        for (place, connection) in self.connections.iter().enumerate() {
            let Some((connection, _)) = connection else {
                continue;
            };
            let mut events = PollFlags::empty();
            let may_ask = !self.is_stopping && connection.wants_input();
            events.set(PollFlags::POLLIN, may_ask);
            events.set(PollFlags::POLLOUT, connection.wants_output());
            if !events.is_empty() {
                sockets.add(place, connection, events);
            }
        }
        let is_full = self.connections.iter().flatten().count() >= self.limits.connections;
        if let Some(listener) = self.listener.as_ref().filter(|_| !is_full) {
            sockets.add(LISTENER, listener, PollFlags::POLLIN);
        }
    }

    fn on_ready(&mut self, socket: usize, events: PollFlags, tasks: &mut Tasks<'_, D, Submission>) {
        if socket == LISTENER {
            return self.accept();
        }
        // A socket that went says so when it is read from.
        if events != PollFlags::POLLOUT && !self.is_stopping {
            self.receive(socket, tasks);
        }
    }

    fn answer(&mut self, done: Done, _: &mut Tasks<'_, D, Submission>) {
        self.served.errors += u64::from(done.outcome.is_err());
        if let Some((connection, _)) = &mut self.connections[done.connection] {
            connection.answer(done, &mut self.buffers);
        }
    }

    /// Sends clients their answers, goes on with what they asked for, and lets them go if it is
    /// time.
    fn settle(&mut self, tasks: &mut Tasks<'_, D, Submission>) {
        for place in 0..self.connections.len() {
            let Some((connection, since)) = &mut self.connections[place] else {
                continue;
            };
            connection.send(&mut self.buffers);
            if !connection.is_past_handshake() && since.elapsed() > self.limits.handshake {
                connection.give_up();
            }
            if connection.is_over() {
                self.connections[place] = None;
            } else if connection.can_go_on() {
                self.submit(place, tasks);
            }
        }
    }

    /// Lets nobody in any more, and refuses what has come.
    fn stop(&mut self, tasks: &mut Tasks<'_, D, Submission>) {
        self.listener = None;
        self.is_stopping = true;
        for place in 0..self.connections.len() {
            self.receive(place, tasks);
        }
    }

    fn is_quiet(&self) -> bool {
        let mut open = self.connections.iter().flatten();
        open.all(|(connection, _)| connection.is_quiet())
    }

    fn end(&mut self, _: &mut Tasks<'_, D, Submission>) {
        self.connections.clear();
    }
}

impl Clients {
    /// Lets a client in. Where that fails (no file descriptors, a client that went before it was
    /// let in) the others are served on.
    fn accept(&mut self) {
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

    fn receive<D: Device + Drive>(&mut self, place: usize, tasks: &mut Tasks<'_, D, Submission>) {
        if let Some((connection, _)) = &mut self.connections[place]
            && connection.wants_input()
        {
            connection.receive();
            self.submit(place, tasks);
        }
    }

    /// Hands what a client asks for to the device, as far as there is room.
    fn submit<D: Device + Drive>(&mut self, place: usize, tasks: &mut Tasks<'_, D, Submission>) {
        let until = now() + self.limits.patience;
        while let Some((connection, _)) = &mut self.connections[place]
            && let Some(received) = connection.next(&mut self.buffers)
        {
            match received {
                Received::Refused(refusal) => {
                    self.served.errors += 1;
                    connection.refuse(&refusal);
                }
                Received::Request(request, weight) if self.is_stopping => {
                    self.served.errors += 1;
                    connection.answer(too_late(place, request.cookie, weight), &mut self.buffers);
                }
                Received::Request(request, weight) => {
                    self.served.requests += 1;
                    tasks.submit(Submission {
                        connection: place,
                        request,
                        weight,
                        buffer: self.buffers.take(),
                        until,
                    });
                }
            }
        }
    }
}

fn too_late(connection: usize, cookie: Cookie, weight: usize) -> Done {
    Done {
        connection,
        cookie,
        outcome: Err(Refusal::too_late(cookie, "what it acknowledged is kept")),
        buffer: Vec::new(),
        weight,
    }
}
