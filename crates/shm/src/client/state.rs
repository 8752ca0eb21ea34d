//! What the threads of a client share under its lock.

use super::numbers::Numbers;
use super::space::Space;
use crate::answer;
use crate::breach::Breach;
use crate::handshake::{self, Heard};
use crate::layout::{ENTRIES, Layout, Note, Side};
use crate::region::Region;
use crate::ring::{Reader, Ring, Words, Writer, must_ring};
use crate::submission::{DataRange, Request, Submission};
use port::{Conflict, DeviceError, Outcome};
use std::collections::VecDeque;
use std::os::unix::net::UnixStream;
use std::task::Waker;
use units::TxId;

/// Looks in vain at the ring before the socket is asked whether the server lives: looking costs
/// some nanoseconds, asking some hundred.
const PATIENCE: u32 = 4096;

/// A request under way: its number in the ring, and its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    slot: usize,
    /// Its bytes of the data area.
    pub range: DataRange,
}

#[derive(Clone, Copy, Debug)]
enum Slot {
    Free,
    UnderWay,
    /// Nobody waits for the answer, but the server may still use the range.
    Abandoned(DataRange),
    Answered(Words),
}

/// Rings, numbers, bytes, and who waits for room.
#[derive(Debug)]
pub struct State {
    submissions: Writer,
    answers: Reader,
    slots: Vec<Slot>,
    /// Who waits for the answer in a slot.
    watchers: Vec<Option<Waker>>,
    free: Vec<usize>,
    space: Space,
    /// Transactions that have begun.
    pub numbers: Numbers,
    /// Transactions whose abort nobody waits for and there was no room for yet.
    abandoned: Vec<TxId>,
    /// Who has not submitted everything, in the order of coming, and whom to wake for it.
    queue: VecDeque<(u64, Option<Waker>)>,
    /// Watchers of what has happened.
    to_wake: Vec<Waker>,
    next_ticket: u64,
    /// Grows with everything that somebody might wait for.
    pub changes: u64,
    /// Threads that wait for the one that sleeps at the socket.
    pub waiters: u32,
    /// A thread sleeps at the socket.
    pub has_sleeper: bool,
    looks: u32,
    gone: Option<String>,
}

impl State {
    pub fn new(layout: &Layout) -> Self {
        Self {
            submissions: Writer::new(Ring::Submissions),
            answers: Reader::new(Ring::Answers),
            slots: vec![Slot::Free; ENTRIES],
            watchers: vec![None; ENTRIES],
            free: (0..ENTRIES).rev().collect(),
            space: Space::new(layout.data().get() as usize),
            numbers: Numbers::new(),
            abandoned: Vec::new(),
            queue: VecDeque::new(),
            to_wake: Vec::new(),
            next_ticket: 0,
            changes: 0,
            waiters: 0,
            has_sleeper: false,
            looks: 0,
            gone: None,
        }
    }

    /// A place in the order of submission.
    pub fn queue_up(&mut self) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.queue.push_back((ticket, None));
        ticket
    }

    /// Whether somebody waits for room.
    pub fn has_queue(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Everything was submitted, or will not be.
    pub fn leave_queue(&mut self, ticket: u64) {
        if let Some(place) = self.queue.iter().position(|(other, _)| *other == ticket) {
            self.queue.remove(place);
            self.there_is_room();
        }
    }

    /// Whoever is first in the queue looks again.
    fn there_is_room(&mut self) {
        if let Some((_, watcher)) = self.queue.front_mut() {
            self.to_wake.extend(watcher.take());
            self.changes += 1;
        }
    }

    /// Someone is to be woken when a request is answered.
    pub fn watch(&mut self, sent: Sent, waker: &Waker) {
        watched(&mut self.watchers[sent.slot], waker);
    }

    /// Someone is to be woken when there may be room for him.
    pub fn watch_queue(&mut self, ticket: u64, waker: &Waker) {
        if let Some((_, watcher)) = self.queue.iter_mut().find(|(other, _)| *other == ticket) {
            watched(watcher, waker);
        }
    }

    /// The next one to be woken.
    pub fn next_to_wake(&mut self) -> Option<Waker> {
        self.to_wake.pop()
    }

    /// Whether the server has requests.
    pub fn is_busy(&self) -> bool {
        self.free.len() < ENTRIES
    }

    /// Looks at the ring, and once in a while whether the server lives. Says whether there was
    /// something.
    pub fn look(&mut self, region: &Region, socket: &UnixStream) -> bool {
        if !self.abandoned.is_empty() {
            self.submit_aborts(region, socket);
        }
        if self.collect(region) {
            return true;
        }
        if self.gone.is_some() {
            return false;
        }
        self.looks += 1;
        if self.looks < PATIENCE {
            return false;
        }
        self.looks = 0;
        let before = self.changes;
        // While somebody sleeps, bells are for him.
        if !self.has_sleeper {
            self.hear(region, socket);
        }
        self.changes != before
    }

    /// Room for a request, if it is this one's turn and there is some.
    pub fn room(&mut self, ticket: u64, size: usize) -> Option<Sent> {
        let is_first = matches!(self.queue.front(), Some((first, _)) if *first == ticket);
        if !is_first || self.free.is_empty() {
            return None;
        }
        let range = self.space.take(size)?;
        let slot = self.free.pop().expect("there is a free number");
        Some(Sent { slot, range })
    }

    /// Hands a request to the server. What it writes is in the data area.
    ///
    /// # Errors
    /// Its transaction was abandoned meanwhile; the room is given back.
    pub fn submit(
        &mut self,
        sent: Sent,
        (request, conflict): (Request, Conflict),
        region: &Region,
        socket: &UnixStream,
    ) -> Result<(), DeviceError> {
        let ends = matches!(request, Request::Commit(_) | Request::Abort(_));
        let may_split = match request.transaction() {
            None => true,
            Some(tx) => match self.numbers.submit(tx, ends) {
                Ok(may_split) => may_split,
                Err(error) => {
                    self.release(sent);
                    return Err(error);
                }
            },
        };
        self.slots[sent.slot] = Slot::UnderWay;
        self.push(
            Submission {
                cookie: sent.slot as u64,
                request,
                conflict,
                may_split,
            },
            (region, socket),
        );
        Ok(())
    }

    fn push(&mut self, submission: Submission, (region, socket): (&Region, &UnixStream)) {
        self.submissions.push(region, submission.encode());
        if must_ring(region, Side::Server) {
            handshake::ring(socket);
        }
    }

    /// Aborts a transaction for which nobody waits, when there is room for that.
    pub fn abandon_transaction(&mut self, tx: TxId, region: &Region, socket: &UnixStream) {
        if self.gone.is_none() && self.numbers.abandon(tx) {
            self.abandoned.push(tx);
            self.submit_aborts(region, socket);
        }
    }

    /// The commit or abort of a transaction was given up before it was submitted.
    pub fn abandon_end(&mut self, tx: TxId, region: &Region, socket: &UnixStream) {
        if self.gone.is_none() && self.numbers.forget(tx) {
            self.abandoned.push(tx);
            self.submit_aborts(region, socket);
        }
    }

    fn submit_aborts(&mut self, region: &Region, socket: &UnixStream) {
        while !self.abandoned.is_empty()
            && let Some(slot) = self.free.pop()
            && let Some(tx) = self.abandoned.pop()
        {
            self.slots[slot] = Slot::Abandoned(DataRange::NONE);
            let submission = Submission {
                cookie: slot as u64,
                request: Request::Abort(tx),
                conflict: Conflict::Wait,
                may_split: true,
            };
            self.push(submission, (region, socket));
        }
    }

    /// Takes what the server has answered into the slots. Says whether there was something.
    pub fn collect(&mut self, region: &Region) -> bool {
        let before = self.changes;
        loop {
            match self.answers.pop(region) {
                Ok(None) => break,
                Ok(Some(words)) => self.note(words),
                Err(breach) => return self.give_up(&breach),
            }
        }
        self.changes != before
    }

    fn note(&mut self, words: Words) {
        let cookie = words[1];
        let index = usize::try_from(cookie).unwrap_or(usize::MAX);
        match self.slots.get(index) {
            Some(Slot::UnderWay) => {
                self.slots[index] = Slot::Answered(words);
                self.to_wake.extend(self.watchers[index].take());
            }
            Some(Slot::Abandoned(range)) => {
                let range = *range;
                self.release(Sent { slot: index, range });
                self.there_is_room();
            }
            _ => {
                self.give_up(&Breach::Cookie { cookie });
            }
        }
        self.changes += 1;
        self.looks = 0;
    }

    #[cold]
    fn give_up(&mut self, breach: &Breach) -> bool {
        let reason = format!("its server has broken the protocol: {breach}");
        self.end(reason);
        true
    }

    /// The server is no more: everybody looks again.
    fn end(&mut self, reason: String) {
        self.gone.get_or_insert(reason);
        self.changes += 1;
        let watchers = self.watchers.iter_mut();
        let queue = self.queue.iter_mut().map(|(_, watcher)| watcher);
        let all = watchers.chain(queue).filter_map(Option::take);
        self.to_wake.extend(all);
    }

    fn release(&mut self, sent: Sent) {
        self.slots[sent.slot] = Slot::Free;
        self.free.push(sent.slot);
        self.space.give(sent.range);
    }

    /// The answer to a request, if it is there.
    pub fn answer(&self, sent: Sent, region: &Region) -> Option<Outcome> {
        match &self.slots[sent.slot] {
            Slot::Answered(words) => Some(answer::decode(words, region)),
            _ => None,
        }
    }

    /// An answer was taken: number and bytes are free again.
    pub fn forget(&mut self, sent: Sent) {
        self.release(sent);
        self.there_is_room();
    }

    /// Nobody waits for the answer any more.
    pub fn abandon(&mut self, sent: Sent) {
        match self.slots[sent.slot] {
            Slot::Answered(_) => self.forget(sent),
            _ => {
                self.watchers[sent.slot] = None;
                self.slots[sent.slot] = Slot::Abandoned(sent.range);
            }
        }
    }

    /// Why the server is no more, if that is known.
    pub fn gone(&self) -> Option<DeviceError> {
        let reason = self.gone.clone()?;
        Some(DeviceError::Stopped { reason })
    }

    /// Listens at the socket, and takes what came before its end.
    pub fn hear(&mut self, region: &Region, socket: &UnixStream) {
        if handshake::listen(socket) != Heard::Gone || self.gone.is_some() {
            return;
        }
        self.collect(region);
        let reason = Note::Ended.find(region).map_or_else(
            || {
                "its server has gone without a word; what it acknowledged is in the image: \
                 serve that again and connect anew"
                    .to_owned()
            },
            |text| format!("its server has ended the connection: {text}"),
        );
        self.end(reason);
    }
}

fn watched(place: &mut Option<Waker>, waker: &Waker) {
    match place {
        Some(known) => known.clone_from(waker),
        none => *none = Some(waker.clone()),
    }
}
