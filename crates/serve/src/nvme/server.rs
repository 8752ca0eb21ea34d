//! The server's hosts: who comes, connects, asks, is answered and goes. The loop is
//! `crate::server`.

use super::connection::{Connection, Held, Opened, Started};
use super::controller::{Controller, Reply, Scene};
use super::ending::abandon;
use super::entry::{Entry, FABRICS, NAMESPACE, Source};
use super::io::{self, Operation};
use super::logs::{Health, Warning};
use super::perform::{Answer, Done, ROOM, Submission};
use super::session::Capsule;
use super::status::Status;
use super::subsystem::Subsystem;
use super::wire::CommandId;
use crate::address::Listener;
use crate::bell::Bell;
use crate::output::Buffers;
use crate::server::{Control, Protocol, Rhythm, ServerError, Sockets, now, run};
use crate::tasks::Tasks;
use nix::poll::PollFlags;
use port::{Acknowledge, Device, DeviceError, Drive};
use std::sync::Arc;
use std::time::{Duration, Instant};
use units::TxId;

/// Turns of the device before the sockets are looked at again: a look is a system call, which takes
/// as long as a few turns.
const TURNS: u32 = 32;
/// The number of the listener's socket.
const LISTENER: usize = usize::MAX - 1;

/// What a server has room and patience for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections at once: each queue of each controller is one. Others wait until one goes.
    pub connections: usize,
    /// Controllers at once; others are told that it is busy.
    pub controllers: usize,
    /// Open transactions of a controller; one more is refused.
    pub transactions: usize,
    /// A connection that belongs to no controller by then ends.
    pub handshake: Duration,
    /// How long a connection that ends, or a server that stops, waits for hosts to take their
    /// answers.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 128,
            controllers: 16,
            transactions: 1024,
            handshake: Duration::from_secs(10),
            drain: Duration::from_secs(5),
        }
    }
}

/// What a server has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Served {
    /// Controllers that hosts connected.
    pub controllers: u64,
    /// Commands of I/O queues that the device was given.
    pub requests: u64,
    /// Commands that were answered with an error, by the device or before it.
    pub errors: u64,
}

/// Serves a device until `control` says stop. That is asked after each signal, and a few times a
/// second. Ends with a flush: then everything that was acknowledged survives a power cut.
///
/// # Errors
/// The system gives no events; the last flush fails. Hosts' misdeeds are theirs alone.
pub fn serve<D: Device + Drive>(
    device: &D,
    listener: Listener,
    subsystem: Subsystem,
    limits: Limits,
    control: impl FnMut() -> Control,
) -> Result<Served, ServerError> {
    let bell = Arc::new(Bell::new().map_err(ServerError::System)?);
    let hosts = Hosts {
        listener: Some(listener),
        subsystem,
        limits,
        connections: Vec::new(),
        controllers: Vec::new(),
        next_id: 1,
        buffers: Buffers::default(),
        served: Served::default(),
        health: Health::default(),
        has_news: false,
        is_stopping: false,
    };
    run(device, bell, hosts, control).map(|hosts| hosts.served)
}

/// A connection, and since when it is one without a queue, or one that ends.
pub(super) struct Place {
    pub(super) connection: Connection,
    since: Instant,
    is_ending: bool,
}

pub(super) struct Hosts {
    /// Nothing when no more hosts may come.
    listener: Option<Listener>,
    pub(super) subsystem: Subsystem,
    pub(super) limits: Limits,
    /// A place is free again when its host has gone and the device has nothing of it.
    pub(super) connections: Vec<Option<Place>>,
    pub(super) controllers: Vec<Option<Controller>>,
    pub(super) next_id: u16,
    buffers: Buffers,
    pub(super) served: Served,
    pub(super) health: Health,
    /// A controller has news for its host.
    has_news: bool,
    pub(super) is_stopping: bool,
}

impl<D: Device + Drive> Protocol<D> for Hosts {
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

    /// All commands come through sockets.
    fn take(&mut self, _: &mut Tasks<'_, D, Submission>) -> bool {
        false
    }

    fn sockets<'a>(&'a self, sockets: &mut Sockets<'a>) {
        for (number, place) in self.connections.iter().enumerate() {
            let Some(Place { connection, .. }) = place else {
                continue;
            };
            let mut events = PollFlags::empty();
            let may_ask = !self.is_stopping && connection.wants_input();
            events.set(PollFlags::POLLIN, may_ask);
            events.set(PollFlags::POLLOUT, connection.wants_output());
            if !events.is_empty() {
                sockets.add(number, connection, events);
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

    fn answer(&mut self, mut done: Done, tasks: &mut Tasks<'_, D, Submission>) {
        self.transaction_of(&mut done, tasks.device());
        if matches!(done.outcome, Ok(Answer::Unfinished)) {
            let status = Status::STOPPING;
            self.note(done.connection, done.command, status, Some(&done.operation));
        }
        if let Err((status, error)) = &done.outcome {
            self.note(
                done.connection,
                done.command,
                *status,
                Some(&done.operation),
            );
            match error {
                DeviceError::Stopped { .. } => self.warn(Warning::STOPPED),
                DeviceError::ReadOnly => self.warn(Warning::READ_ONLY),
                DeviceError::Lost { .. } => self.health.lost += 1,
                _ => {}
            }
        }
        let Some(place) = &mut self.connections[done.connection] else {
            return;
        };
        let connection = &mut place.connection;
        let is_awaited = connection.ended(done.weight);
        if let Some(shutdown) = done.shutdown {
            let queue = connection.queue.as_ref();
            let controller = queue.and_then(|queue| self.controllers[queue.controller].as_mut());
            if let Some(controller) = controller {
                controller.was_shut_down(shutdown);
            }
            return;
        }
        match done.outcome {
            Ok(Answer::Read(value)) if is_awaited => {
                return connection.give(done.command, done.buffer, value);
            }
            Ok(Answer::Read(_)) => {}
            Ok(Answer::Done(value)) => connection.complete(done.command, Status::SUCCESS, value),
            Ok(Answer::Begun(tx)) => {
                connection.complete(done.command, Status::SUCCESS, u64::from(tx.get()));
            }
            Ok(Answer::Different) => connection.complete(done.command, Status::DIFFERENT, 0),
            Ok(Answer::Unfinished) => connection.complete(done.command, Status::STOPPING, 0),
            Err((status, _)) => connection.complete(done.command, status, 0),
        }
        self.buffers.give(done.buffer);
    }

    /// Sends hosts their answers, goes on with what they asked for, and lets them go if it is time.
    fn settle(&mut self, tasks: &mut Tasks<'_, D, Submission>) {
        let time = now();
        self.end_late_controllers(time);
        if core::mem::take(&mut self.has_news) {
            self.tell_news();
        }
        for number in 0..self.connections.len() {
            let Some(place) = &mut self.connections[number] else {
                continue;
            };
            let connection = &mut place.connection;
            connection.send(&mut self.buffers);
            if connection.is_ending() && !place.is_ending {
                (place.is_ending, place.since) = (true, time);
                self.part(number, tasks.device());
                continue;
            }
            let patience = match place.is_ending {
                true => self.limits.drain,
                false => self.limits.handshake,
            };
            let is_in_passing = place.is_ending || connection.queue.is_none();
            if is_in_passing && time.saturating_duration_since(place.since) > patience {
                connection.give_up();
            }
            if connection.is_over() {
                self.connections[number] = None;
            } else if connection.can_go_on() {
                self.submit(number, tasks);
            }
        }
    }

    /// Lets nobody in any more, and refuses what has come. What is open is aborted at once: nobody
    /// can commit it any more, and others may wait for it.
    fn stop(&mut self, tasks: &mut Tasks<'_, D, Submission>) {
        self.listener = None;
        self.is_stopping = true;
        for number in 0..self.connections.len() {
            self.refuse_held(number);
            self.receive(number, tasks);
        }
        for controller in self.controllers.iter_mut().flatten() {
            abandon(&mut controller.transactions, tasks.device());
        }
    }

    fn is_quiet(&self) -> bool {
        let mut open = self.connections.iter().flatten();
        open.all(|place| place.connection.is_quiet())
    }

    fn end(&mut self, tasks: &mut Tasks<'_, D, Submission>) {
        for mut controller in self.controllers.drain(..).flatten() {
            abandon(&mut controller.transactions, tasks.device());
        }
        self.connections.clear();
    }
}

impl Hosts {
    pub(super) fn connection(&mut self, number: usize) -> Option<&mut Connection> {
        let place = self.connections[number].as_mut()?;
        Some(&mut place.connection)
    }

    /// The controller of a connection.
    pub(super) fn controller(&mut self, number: usize) -> Option<&mut Controller> {
        let place = self.connections[number].as_ref()?;
        let queue = place.connection.queue.as_ref()?;
        self.controllers[queue.controller].as_mut()
    }

    /// Whether a queue of a controller is connected.
    pub(super) fn has_queue(&self, controller: usize, id: u16) -> bool {
        let places = self.connections.iter().flatten();
        let mut queues = places.filter_map(|place| place.connection.queue.as_ref());
        queues.any(|queue| queue.controller == controller && queue.id == id)
    }

    /// Lets a host in. Where that fails (no file descriptors, a host that went before it was let
    /// in) the others are served on.
    fn accept(&mut self) {
        let accepted = self.listener.as_ref().map(Listener::accept);
        let Some(Ok(Some(stream))) = accepted else {
            return;
        };
        let Ok(connection) = Connection::new(stream) else {
            return;
        };
        let entry = Some(Place {
            connection,
            since: now(),
            is_ending: false,
        });
        match self.connections.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = entry,
            None => self.connections.push(entry),
        }
    }

    fn receive<D: Device + Drive>(&mut self, number: usize, tasks: &mut Tasks<'_, D, Submission>) {
        let Some(connection) = self.connection(number) else {
            return;
        };
        if !connection.wants_input() {
            return;
        }
        connection.receive();
        if let Some(controller) = self.controller(number) {
            controller.heard = now();
        }
        self.submit(number, tasks);
    }

    /// Goes on with what a host asks for, as far as there is room.
    fn submit<D: Device + Drive>(&mut self, number: usize, tasks: &mut Tasks<'_, D, Submission>) {
        self.release(number, tasks);
        while let Some(place) = &mut self.connections[number]
            && let Some(capsule) = place.connection.next(&mut self.buffers)
        {
            self.command(number, capsule, tasks);
        }
    }

    /// Begins what was kept until there is room.
    fn release<D: Device + Drive>(&mut self, number: usize, tasks: &mut Tasks<'_, D, Submission>) {
        while let Some(connection) = self.connection(number)
            && let Some(started) = connection.release()
        {
            self.start(number, started, tasks);
        }
    }

    fn start<D: Device + Drive>(
        &mut self,
        connection: usize,
        started: Started,
        tasks: &mut Tasks<'_, D, Submission>,
    ) {
        self.served.requests += 1;
        let weight = started.operation.weight();
        let data = match started.data.capacity() {
            0 => self.buffers.take(),
            _ => started.data,
        };
        tasks.submit(Submission {
            connection,
            command: started.command,
            operation: started.operation,
            ranges: started.ranges,
            data,
            weight,
            shutdown: None,
        });
    }

    /// A command has come, or the data of one.
    fn command<D: Device + Drive>(
        &mut self,
        number: usize,
        capsule: Capsule,
        tasks: &mut Tasks<'_, D, Submission>,
    ) {
        let entry = Entry(capsule.entry);
        let command = entry.command();
        let Some(connection) = self.connection(number) else {
            return;
        };
        if !capsule.was_asked_for {
            match connection.open(command) {
                Opened::Begun => {}
                Opened::NameInUse => {
                    connection.refuse_name(command);
                    self.note(number, command, Status::NAME_IN_USE, None);
                    return self.buffers.give(capsule.data);
                }
                Opened::Ended => return,
            }
        }
        let outcome = if self.is_stopping {
            Err(Status::STOPPING)
        } else if capsule.is_damaged {
            Err(Status::TRANSIENT)
        } else {
            self.execute(number, &entry, capsule, tasks)
        };
        match outcome {
            Ok(None) => self.release(number, tasks),
            Ok(Some(reply)) => self.reply(number, &entry, reply, tasks),
            Err(status) => self.finish(number, command, Err(status)),
        }
    }

    /// What comes of a command at once; nothing if it is under way.
    fn execute<D: Device + Drive>(
        &mut self,
        number: usize,
        entry: &Entry,
        capsule: Capsule,
        tasks: &mut Tasks<'_, D, Submission>,
    ) -> Result<Option<Reply>, Status> {
        let queue = self.connections[number]
            .as_ref()
            .and_then(|place| place.connection.queue.as_ref());
        let queue = queue.map(|queue| (queue.controller, queue.id));
        // What will not be done is not asked for.
        let operation = match (queue, entry.opcode()) {
            (_, FABRICS) | (Some((_, 0)), _) => None,
            (None, _) => return Err(Status::SEQUENCE),
            (Some((controller, _)), _) => Some(self.operation(controller, entry)?),
        };
        match entry.source()? {
            Source::Host(size) if !capsule.was_asked_for => {
                if let Some(connection) = self.connection(number) {
                    connection.hold(Held::Ask(*entry, size));
                }
                return Ok(None);
            }
            Source::Nowhere if capsule.data.is_empty() => {}
            Source::Capsule(size) | Source::Host(size) if size as usize == capsule.data.len() => {}
            _ => return Err(Status::LENGTH),
        }
        let Some(operation) = operation else {
            if entry.opcode() == FABRICS {
                return self.fabrics(number, entry, &capsule.data).map(Some);
            }
            let scene = Scene {
                subsystem: &self.subsystem,
                stats: tasks.device().stats(),
                health: self.health,
                place: self.connections[number]
                    .as_ref()
                    .and_then(|place| place.connection.place),
            };
            let controller =
                queue.and_then(|(controller, _)| self.controllers[controller].as_mut());
            let controller = controller.ok_or(Status::SEQUENCE)?;
            return controller.admin(entry, &scene).map(Some);
        };
        let (ranges, data) = match operation {
            Operation::Trim { .. } => {
                let ranges = io::ranges(entry, &capsule.data, &self.subsystem)?;
                self.buffers.give(capsule.data);
                (Some(ranges), Vec::new())
            }
            _ => (None, capsule.data),
        };
        let started = Started {
            command: entry.command(),
            operation,
            ranges,
            data,
        };
        if let Some(connection) = self.connection(number) {
            if capsule.was_asked_for {
                // What it counts for, its data have counted for since they were asked for. Behind
                // others that wait it would be kept beside what they ask for.
                connection.begun(started.operation.weight());
                self.start(number, started, tasks);
            } else {
                connection.hold(Held::Start(started));
            }
        }
        Ok(None)
    }

    /// What a command of an I/O queue asks for.
    fn operation(&self, controller: usize, entry: &Entry) -> Result<Operation, Status> {
        let controller = self.controllers[controller].as_ref();
        let controller = controller.filter(|controller| controller.is_ready());
        let controller = controller.ok_or(Status::SEQUENCE)?;
        let mut operation = Operation::read(entry, &self.subsystem)?;
        let is_own = |tx: TxId| controller.transactions.contains(&tx);
        if operation.transaction().is_some_and(|tx| !is_own(tx)) {
            return Err(Status::TRANSACTION);
        }
        if let Operation::Write { when, .. } | Operation::Zero { when, .. } = &mut operation
            && !controller.is_caching
        {
            *when = Acknowledge::Durable;
        }
        Ok(operation)
    }

    fn reply<D: Device + Drive>(
        &mut self,
        number: usize,
        entry: &Entry,
        reply: Reply,
        tasks: &mut Tasks<'_, D, Submission>,
    ) {
        match reply {
            Reply::Value(value) => self.finish(number, entry.command(), Ok(value)),
            Reply::Data(mut data) => {
                data.truncate(entry.length() as usize);
                let Some(connection) = self.connection(number) else {
                    return;
                };
                if data.is_empty() {
                    return self.finish(number, entry.command(), Ok(0));
                }
                let mut buffer = vec![0; ROOM];
                buffer.append(&mut data);
                connection.give(entry.command(), buffer, 0);
            }
            // News may wait for it.
            Reply::Later => self.has_news = true,
            Reply::Reset(waiting) => {
                self.delete_queues(number, tasks.device());
                for command in waiting {
                    self.finish(number, command, Err(Status::STOPPING));
                }
                self.finish(number, entry.command(), Ok(0));
            }
            Reply::Shutdown(shutdown) => {
                for queue in self.queues_of(number) {
                    self.refuse_held(queue);
                }
                self.finish(number, entry.command(), Ok(0));
                let Some(connection) = self.connection(number) else {
                    return;
                };
                connection.begun(0);
                tasks.submit(Submission {
                    connection: number,
                    command: entry.command(),
                    operation: Operation::Flush,
                    ranges: None,
                    data: Vec::new(),
                    weight: 0,
                    shutdown: Some(shutdown),
                });
            }
        }
    }

    /// Answers what was kept until there is room: it will not be done.
    fn refuse_held(&mut self, number: usize) {
        let held = self.connection(number).map(Connection::refuse_held);
        for command in held.into_iter().flatten() {
            self.finish(number, command, Err(Status::STOPPING));
        }
    }

    /// Answers a command that moves no bytes to its host.
    fn finish(&mut self, number: usize, command: CommandId, outcome: Result<u64, Status>) {
        if let Err(status) = outcome {
            self.note(number, command, status, None);
        }
        let Some(connection) = self.connection(number) else {
            return;
        };
        match outcome {
            Ok(value) => connection.complete(command, Status::SUCCESS, value),
            Err(status) => connection.complete(command, status, 0),
        }
    }

    /// Counts an error, for its host too.
    pub(super) fn note(
        &mut self,
        number: usize,
        command: CommandId,
        status: Status,
        operation: Option<&Operation>,
    ) {
        self.served.errors += 1;
        let shift = self.subsystem.shift();
        let queue = self.connections[number]
            .as_ref()
            .and_then(|place| place.connection.queue.as_ref())
            .map_or(0, |queue| queue.id);
        let (block, namespace) = match operation {
            Some(
                Operation::Read { at, .. }
                | Operation::Write { at, .. }
                | Operation::Compare { at, .. }
                | Operation::Zero { at, .. },
            ) => (at.get() >> shift, NAMESPACE),
            Some(_) => (0, NAMESPACE),
            None => (0, 0),
        };
        if let Some(controller) = self.controller(number) {
            controller.note(queue, command, status, block, namespace);
        }
    }

    fn warn(&mut self, warning: Warning) {
        if warning.is_in(self.health.warning) {
            return;
        }
        self.health.warning.0 |= warning.0;
        for controller in self.controllers.iter_mut().flatten() {
            controller.warn(warning, true);
        }
        self.has_news = true;
    }

    fn tell_news(&mut self) {
        for place in 0..self.controllers.len() {
            let Some(controller) = &mut self.controllers[place] else {
                continue;
            };
            let admin = controller.admin;
            if let Some((command, value)) = controller.event() {
                self.finish(admin, command, Ok(value));
            }
        }
    }
}
