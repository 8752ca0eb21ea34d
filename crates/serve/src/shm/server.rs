//! The server's clients: who comes, asks, is answered and goes. The loop is `crate::server`.

use super::client::{Admitted, Channel, Client, Handshake};
use super::perform::{Job, Outcome, piece_of};
use crate::address::Listener;
use crate::bell::Bell;
use crate::ranges::PIECE;
use crate::server::{Control, Protocol, Rhythm, ServerError, Sockets, now, run};
use crate::tasks::Tasks;
use ::shm::ring::{announce_awake, announce_sleep, must_ring};
use ::shm::{Breach, Region, Request, Side};
use nix::poll::PollFlags;
use port::{Device, Drive};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Clients at once; more are refused.
pub const MOST_CLIENTS: usize = 32;
/// Requests of a client that are taken before the next client's turn.
const BATCH: usize = 32;
/// Rounds between two looks at the sockets while there is something to do.
const LOOK: u32 = 512;
/// How long the server looks for requests before it sleeps: about what waking it takes.
const SPIN: Duration = Duration::from_micros(50);
/// The number of the listener's socket.
const LISTENER: usize = usize::MAX - 1;

/// What a server has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Served {
    /// Clients that got a region.
    pub clients: u64,
    /// Clients that were refused.
    pub refused: u64,
    /// Requests that were answered.
    pub requests: u64,
    /// Requests that were answered with an error.
    pub errors: u64,
    /// Connections that were ended because the client broke the protocol.
    pub breaches: u64,
}

/// Serves a device at a unix socket until `control` says stop. That is asked after each signal, and
/// a few times a second. Ends with a flush: then everything that was acknowledged survives a power
/// cut.
///
/// # Errors
/// The system gives no events; the last flush fails. Clients' misdeeds are theirs alone.
pub fn serve<D: Device + Drive>(
    device: &D,
    listener: &Listener,
    control: impl FnMut() -> Control,
) -> Result<Served, ServerError> {
    let bell = Arc::new(Bell::new().map_err(ServerError::System)?);
    let clients = Clients {
        listener,
        clients: Vec::new(),
        served: Served::default(),
        has_answers: false,
        has_gone: false,
        has_strangers: false,
        is_stopping: false,
    };
    run(device, bell, clients, control).map(|clients| clients.served)
}

struct Clients<'l> {
    listener: &'l Listener,
    /// A place is free again when its client has gone and the device has nothing of it.
    clients: Vec<Option<Client>>,
    served: Served,
    /// Some have answers for which no bell was rung.
    has_answers: bool,
    /// Of some that have gone the device may have nothing any more.
    has_gone: bool,
    /// Some have connected and not said what they want.
    has_strangers: bool,
    is_stopping: bool,
}

impl<D: Device + Drive> Protocol<D> for Clients<'_> {
    type Job = Job;

    fn rhythm(&self) -> Rhythm {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Rhythm {
            // It costs a few loads to see what has come.
            turns: 1,
            look: LOOK,
            // On one core, who spins keeps away whom he waits for.
            spin: if cores > 1 { SPIN } else { Duration::ZERO },
            // Answers are in the clients' memory.
            drain: Duration::ZERO,
        }
    }

    fn take(&mut self, tasks: &mut Tasks<'_, D, Job>) -> bool {
        if self.is_stopping {
            return false;
        }
        let mut has_taken = false;
        for place in 0..self.clients.len() {
            has_taken |= self.take_of(place, tasks);
        }
        has_taken
    }

    fn sockets<'a>(&'a self, sockets: &mut Sockets<'a>) {
        sockets.add(LISTENER, self.listener, PollFlags::POLLIN);
        for (place, client) in self.clients.iter().enumerate() {
            if let Some(client) = client.as_ref().filter(|client| !client.is_gone) {
                sockets.add(place, client, PollFlags::POLLIN);
            }
        }
    }

    fn on_ready(&mut self, socket: usize, _: PollFlags, tasks: &mut Tasks<'_, D, Job>) {
        if socket == LISTENER {
            return self.accept();
        }
        let Some(client) = &mut self.clients[socket] else {
            return;
        };
        if client.channel.is_some() {
            client.listen();
        } else {
            match client.shake_hands(tasks.device().shape()) {
                Handshake::Incomplete => {}
                Handshake::Done => self.served.clients += 1,
                Handshake::Failed => {
                    self.served.refused += 1;
                    client.is_gone = true;
                }
            }
        }
        self.has_gone |= client.is_gone;
    }

    fn answer(&mut self, outcome: Outcome, _: &mut Tasks<'_, D, Job>) {
        let Outcome {
            client: place,
            submission,
            is_own,
            result,
        } = outcome;
        let Some(client) = &mut self.clients[place] else {
            return;
        };
        let is_gone = client.is_gone;
        let channel = client.channel.as_mut().expect("who asked has one");
        channel.settle(&submission.request, is_own);
        if is_gone || is_own {
            self.has_gone = true;
            return;
        }
        self.served.requests += 1;
        self.served.errors += u64::from(result.is_err());
        channel.answer(submission.cookie, &result);
        self.has_answers = true;
    }

    fn settle(&mut self, tasks: &mut Tasks<'_, D, Job>) {
        if std::mem::take(&mut self.has_answers) {
            self.clients.iter_mut().flatten().for_each(ring);
        }
        if self.has_strangers {
            self.time_out_handshakes();
        }
        if std::mem::take(&mut self.has_gone) {
            for place in 0..self.clients.len() {
                self.clear(place, tasks);
            }
        }
    }

    fn before_sleep(&self) {
        self.each_region(|region| announce_sleep(region, Side::Server));
    }

    fn after_sleep(&self) {
        self.each_region(|region| announce_awake(region, Side::Server));
    }

    /// Takes nothing more; what is with the device is answered. What is open is aborted at once:
    /// nobody can commit it any more, and others may wait for it.
    fn stop(&mut self, tasks: &mut Tasks<'_, D, Job>) {
        self.is_stopping = true;
        for place in 0..self.clients.len() {
            self.clear(place, tasks);
        }
    }

    /// Aborts what is open, and ends the connections.
    fn end(&mut self, tasks: &mut Tasks<'_, D, Job>) {
        for place in 0..self.clients.len() {
            if let Some(client) = &mut self.clients[place] {
                client.end("the server has stopped; what it acknowledged is in the image");
            }
            self.clear(place, tasks);
        }
    }
}

impl Clients<'_> {
    fn channel(&mut self, place: usize) -> Option<&mut Channel> {
        let client = self.clients[place].as_mut()?;
        client.channel.as_mut().filter(|_| !client.is_gone)
    }

    /// Hands what a client asks for to the device.
    fn take_of<D: Device + Drive>(&mut self, place: usize, tasks: &mut Tasks<'_, D, Job>) -> bool {
        let mut taken = 0;
        while taken < BATCH
            && let Some(channel) = self.channel(place)
        {
            match channel.next(tasks.device()) {
                Ok(None) => break,
                Ok(Some(Admitted::Submit(submission, tx))) => {
                    let region = Rc::clone(&channel.region);
                    let piece = match submission.request {
                        Request::Trim(..) => piece_of(&tasks.device().shape()),
                        _ => PIECE,
                    };
                    tasks.submit(Job {
                        client: place,
                        region,
                        submission,
                        tx,
                        is_own: false,
                        piece,
                    });
                }
                Ok(Some(Admitted::Answer(submission, outcome))) => {
                    channel.answer(submission.cookie, &outcome);
                    self.has_answers = true;
                    self.served.requests += 1;
                    self.served.errors += u64::from(outcome.is_err());
                }
                Err(breach) => self.disconnect(place, &breach),
            }
            taken += 1;
        }
        taken > 0
    }

    #[cold]
    fn disconnect(&mut self, place: usize, breach: &Breach) {
        self.served.breaches += 1;
        if let Some(client) = &mut self.clients[place] {
            let reason = format!("the client has broken the protocol: {breach}");
            client.end(&reason);
        }
        self.has_gone = true;
    }

    /// Aborts the transactions of a client that has gone, or of whom the server takes no more, a
    /// few at a time: each that is done brings it here again. Forgets it when it has gone and the
    /// device has nothing of it any more.
    fn clear<D: Device + Drive>(&mut self, place: usize, tasks: &mut Tasks<'_, D, Job>) {
        let is_stopping = self.is_stopping;
        let client = self.clients[place].as_mut();
        let Some(client) = client.filter(|client| client.is_gone || is_stopping) else {
            return;
        };
        if let Some(channel) = &mut client.channel {
            while let Some((submission, tx)) = channel.next_abort() {
                let region = Rc::clone(&channel.region);
                tasks.submit(Job {
                    client: place,
                    region,
                    submission,
                    tx,
                    is_own: true,
                    piece: PIECE,
                });
            }
        }
        if client.is_over() {
            self.clients[place] = None;
        }
    }

    fn each_region(&self, act: impl Fn(&Region)) {
        let channels = self.clients.iter().flatten();
        for channel in channels.filter_map(|client| client.channel.as_ref()) {
            act(&channel.region);
        }
    }

    fn time_out_handshakes(&mut self) {
        let has_channel = |client: &Client| client.channel.is_some() || client.is_gone;
        self.has_strangers = !self.clients.iter().flatten().all(has_channel);
        if !self.has_strangers {
            return;
        }
        let time = now();
        for client in &mut self.clients {
            if client
                .as_ref()
                .is_some_and(|client| client.is_too_late(time))
            {
                self.served.refused += 1;
                *client = None;
            }
        }
    }

    /// Lets a client in, or says why not. Where that fails the others are served on.
    fn accept(&mut self) {
        let Ok(Some(socket)) = self.listener.accept_unix() else {
            return;
        };
        let Ok(client) = Client::new(socket, now()) else {
            return;
        };
        if self.clients.iter().flatten().count() >= MOST_CLIENTS {
            self.served.refused += 1;
            client.refuse(&format!(
                "{MOST_CLIENTS} clients are connected, as many as the server takes; \
                 let one of them go first"
            ));
            return;
        }
        self.has_strangers = true;
        match self.clients.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(client),
            None => self.clients.push(Some(client)),
        }
    }
}

/// Wakes a client that sleeps and has answers.
fn ring(client: &mut Client) {
    if let Some(channel) = &mut client.channel
        && std::mem::take(&mut channel.has_answers)
        && must_ring(&channel.region, Side::Client)
    {
        client.ring();
    }
}
