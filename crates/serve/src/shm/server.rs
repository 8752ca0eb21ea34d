//! The server: one thread that looks at all rings and moves the device.

use super::lanes::{Job, Lanes, Outcome};
use super::peer::{Greeting, Peer, Seat, Wish};
use crate::address::Listener;
use crate::serving::{QUIET, ServerError, Turn};
use crate::waiting::{sleep_for, wait};
use ::shm::ring::{get_up, lie_down, must_ring};
use ::shm::{Breach, Request, Side, Submission};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use port::{Device, Drive, Shape, block_on_with};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Clients at once; more are refused.
pub const MOST_CLIENTS: usize = 32;
/// Requests of a client that are taken before the next client's turn.
const BATCH: usize = 32;
/// Times that the device is moved before the rings are looked at again, unless something is done.
const MOST_POLLS: u32 = 32;
/// Rounds between two looks at the sockets while there is something to do.
const LOOK: u32 = 512;
/// How long the server looks for requests before it sleeps: about what waking it takes.
const SPIN: Duration = Duration::from_micros(50);
/// Rounds between two looks at the clock while there is nothing to do.
const CLOCK: u32 = 64;

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

/// Serves a device at a unix socket until `turn` says stop. That is asked after each signal, and a
/// few times a second. Ends with a flush: then everything that was acknowledged survives a power
/// cut.
///
/// # Errors
/// The system gives no events; the last flush fails. Clients' misdeeds are theirs alone.
pub fn serve<D: Device + Drive>(
    device: &D,
    listener: &Listener,
    mut turn: impl FnMut() -> Turn,
) -> Result<Served, ServerError> {
    let mut server = Server::new(device, listener);
    while turn() == Turn::On {
        server.work()?;
    }
    server.farewell();
    block_on_with(device, device.flush(), wait).map_err(ServerError::Flush)?;
    Ok(server.served)
}

/// The wall clock: how long to spin and to wait for a hello. Nothing that the device does.
#[allow(clippy::disallowed_methods)]
fn now() -> Instant {
    Instant::now()
}

struct Server<'d, D> {
    shape: Shape,
    listener: &'d Listener,
    peers: Vec<Option<Peer>>,
    lanes: Lanes<'d, D>,
    finished: Vec<Outcome>,
    served: Served,
    spin: Duration,
    /// When it was last asked, the device waited for the wall clock to reach its next event.
    device_rests: bool,
}

impl<'d, D: Device + Drive> Server<'d, D> {
    fn new(device: &'d D, listener: &'d Listener) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            shape: device.shape(),
            listener,
            peers: Vec::new(),
            lanes: Lanes::new(device),
            finished: Vec::new(),
            served: Served::default(),
            // On one core, who spins keeps away whom he waits for.
            spin: if cores > 1 { SPIN } else { Duration::ZERO },
            device_rests: false,
        }
    }

    /// Works until there was nothing to do for a while, a signal came, or some time is over.
    fn work(&mut self) -> Result<(), ServerError> {
        let begun = now();
        let mut idle_since = None;
        let (mut rounds, mut idle_rounds) = (0_u32, 0_u32);
        loop {
            let has_moved = self.round();
            // Knocks and ends are heard while the device works or rests; who is idle sleeps soon.
            if has_moved || self.device_rests {
                rounds += 1;
                if rounds.is_multiple_of(LOOK) && (self.look(Duration::ZERO)? || is_past(begun)) {
                    return Ok(());
                }
            }
            if has_moved {
                (idle_since, idle_rounds) = (None, 0);
                continue;
            }
            idle_rounds += 1;
            if !idle_rounds.is_multiple_of(CLOCK) && !self.spin.is_zero() {
                core::hint::spin_loop();
                continue;
            }
            let time = now();
            if time.duration_since(*idle_since.get_or_insert(time)) < self.spin {
                continue;
            }
            if self.patience().is_zero() {
                continue;
            }
            if self.sleep()? || is_past(begun) {
                return Ok(());
            }
            idle_since = None;
        }
    }

    /// How long nothing happens that no client asks for.
    fn patience(&self) -> Duration {
        match self.lanes.is_empty() {
            true => QUIET,
            false => sleep_for(self.lanes.rest()).min(QUIET),
        }
    }

    /// Takes what clients ask, moves the device, and answers. Says whether anything was done, which
    /// is not so while requests wait for the wall clock.
    fn round(&mut self) -> bool {
        let mut moved = false;
        for place in 0..self.peers.len() {
            moved |= self.take(place);
        }
        // While the device rests, others may ask: a poll in each round is enough to hear its end.
        let most = if self.device_rests { 1 } else { MOST_POLLS };
        let mut polls = 0;
        while self.finished.is_empty() && !self.lanes.is_empty() && polls < most {
            self.lanes.poll(&mut self.finished);
            polls += 1;
        }
        if !self.finished.is_empty() {
            self.answer();
            self.device_rests = false;
            return true;
        }
        self.device_rests = polls > 0 && !self.lanes.rest().is_zero();
        moved || (polls > 0 && !self.device_rests)
    }

    fn seat(&mut self, place: usize) -> Option<&mut Seat> {
        let peer = self.peers[place].as_mut()?;
        peer.seat.as_mut().filter(|_| !peer.is_gone)
    }

    /// Hands what a client asks for to the device.
    fn take(&mut self, place: usize) -> bool {
        let mut taken = 0;
        while taken < BATCH
            && let Some(seat) = self.seat(place)
        {
            match seat.next() {
                Ok(None) => break,
                Ok(Some(Wish::Ask(submission))) => {
                    let region = Rc::clone(&seat.region);
                    self.ask(place, region, submission);
                }
                Ok(Some(Wish::Refuse(submission, error))) => {
                    seat.answer(submission.cookie, &Err(error));
                    self.served.requests += 1;
                    self.served.errors += 1;
                }
                Err(breach) => self.expel(place, &breach),
            }
            taken += 1;
        }
        if taken > 0 {
            self.tell(place);
        }
        taken > 0
    }

    fn ask(&mut self, peer: usize, region: Rc<::shm::Region>, submission: Submission) {
        let done = self.lanes.submit(Job {
            peer,
            region,
            submission,
        });
        self.finished.extend(done);
    }

    #[cold]
    fn expel(&mut self, place: usize, breach: &Breach) {
        self.served.breaches += 1;
        if let Some(peer) = &mut self.peers[place] {
            let reason = format!("the client has broken the protocol: {breach}");
            peer.end(&reason);
        }
        self.bury(place);
    }

    /// Answers what is done.
    fn answer(&mut self) {
        let mut finished = std::mem::take(&mut self.finished);
        for outcome in finished.drain(..) {
            let Outcome {
                peer: place,
                submission,
                result,
            } = outcome;
            let Some(peer) = &mut self.peers[place] else {
                continue;
            };
            let is_gone = peer.is_gone;
            let seat = peer.seat.as_mut().expect("who asked has a seat");
            seat.settle(&submission.request);
            if let (Request::Begin, Ok(done)) = (submission.request, &result) {
                seat.begun(done.tx);
            }
            if !is_gone {
                self.served.requests += 1;
                self.served.errors += u64::from(result.is_err());
                seat.answer(submission.cookie, &result);
            }
        }
        // The vector's memory is used again.
        finished.append(&mut self.finished);
        self.finished = finished;
        for place in 0..self.peers.len() {
            self.tell(place);
            if self.peers[place].as_ref().is_some_and(|peer| peer.is_gone) {
                self.bury(place);
            }
        }
    }

    /// Rings at a client that sleeps and has news.
    fn tell(&mut self, place: usize) {
        let Some(peer) = &mut self.peers[place] else {
            return;
        };
        if let Some(seat) = peer.seat.as_mut().filter(|seat| seat.has_news) {
            seat.has_news = false;
            if must_ring(&seat.region, Side::Client) {
                peer.ring();
            }
        }
    }

    /// Aborts the transactions of a client that has gone, a few at a time: each that is done brings
    /// it here again. Forgets it when the device has nothing of it any more.
    fn bury(&mut self, place: usize) {
        while let Some(peer) = &mut self.peers[place]
            && let Some(seat) = &mut peer.seat
            && let Some(submission) = seat.last_will()
        {
            let region = Rc::clone(&seat.region);
            self.ask(place, region, submission);
        }
        if self.peers[place].as_ref().is_some_and(Peer::is_over) {
            self.peers[place] = None;
        }
    }

    /// Sleeps until a client rings or knocks, or the device gets on. Says whether a signal came.
    fn sleep(&mut self) -> Result<bool, ServerError> {
        self.each_region(|region| lie_down(region, Side::Server));
        // Who wrote before has not rung.
        let interrupted = if self.round() {
            Ok(false)
        } else {
            self.look(self.patience())
        };
        self.each_region(|region| get_up(region, Side::Server));
        interrupted
    }

    fn each_region(&self, act: impl Fn(&::shm::Region)) {
        let seats = self.peers.iter().flatten();
        for seat in seats.filter_map(|peer| peer.seat.as_ref()) {
            act(&seat.region);
        }
    }

    /// Looks at the sockets; waits at most so long for something to happen there. Says whether a
    /// signal came.
    fn look(&mut self, wait: Duration) -> Result<bool, ServerError> {
        let mut fds = vec![PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
        let mut places = Vec::with_capacity(self.peers.len());
        for (place, peer) in self.peers.iter().enumerate() {
            if let Some(peer) = peer.as_ref().filter(|peer| !peer.is_gone) {
                fds.push(PollFd::new(peer.as_fd(), PollFlags::POLLIN));
                places.push(place);
            }
        }
        match ppoll(&mut fds, Some(TimeSpec::from_duration(wait)), None) {
            Err(Errno::EINTR) => return Ok(true),
            Err(error) => return Err(ServerError::System(error.into())),
            Ok(_) => {}
        }
        // Flags that the library does not know count as something.
        let mut ready = fds
            .iter()
            .map(|fd| !fd.revents().is_some_and(|events| events.is_empty()));
        let knocks = ready.next().is_some_and(|is_ready| is_ready);
        let heard: Vec<usize> = places
            .into_iter()
            .zip(ready)
            .filter_map(|(place, is_ready)| is_ready.then_some(place))
            .collect();
        for place in heard {
            self.hear(place);
        }
        self.dismiss_the_silent();
        if knocks {
            self.welcome();
        }
        Ok(false)
    }

    fn hear(&mut self, place: usize) {
        let Some(peer) = &mut self.peers[place] else {
            return;
        };
        if peer.seat.is_some() {
            peer.listen();
        } else {
            match peer.greet(self.shape) {
                Greeting::Incomplete => {}
                Greeting::Seated => self.served.clients += 1,
                Greeting::Over => {
                    self.served.refused += 1;
                    peer.is_gone = true;
                }
            }
        }
        if peer.is_gone {
            self.bury(place);
        }
    }

    fn dismiss_the_silent(&mut self) {
        if self.peers.iter().flatten().all(|peer| peer.seat.is_some()) {
            return;
        }
        let time = now();
        for peer in &mut self.peers {
            if peer.as_ref().is_some_and(|peer| peer.is_too_late(time)) {
                self.served.refused += 1;
                *peer = None;
            }
        }
    }

    /// Lets a client in, or says why not. Where that fails the others are served on.
    fn welcome(&mut self) {
        let Ok(Some(socket)) = self.listener.accept_unix() else {
            return;
        };
        let Ok(peer) = Peer::new(socket, now()) else {
            return;
        };
        if self.peers.iter().flatten().count() >= MOST_CLIENTS {
            self.served.refused += 1;
            peer.refuse(&format!(
                "{MOST_CLIENTS} clients are connected, as many as the server takes; \
                 let one of them go first"
            ));
            return;
        }
        match self.peers.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(peer),
            None => self.peers.push(Some(peer)),
        }
    }

    /// Ends what the device has, answers it, aborts what is open, and says good-bye.
    fn farewell(&mut self) {
        self.drain();
        for place in 0..self.peers.len() {
            if let Some(peer) = &mut self.peers[place] {
                peer.end("the server has stopped; what it acknowledged is in the image");
            }
            self.bury(place);
        }
        self.drain();
    }

    fn drain(&mut self) {
        while !self.lanes.is_empty() || !self.finished.is_empty() {
            self.lanes.poll(&mut self.finished);
            self.answer();
        }
    }
}

/// Whether it is time to ask whether to stop.
fn is_past(begun: Instant) -> bool {
    now().duration_since(begun) >= QUIET
}
