//! What the threads of a client share under its lock.

use super::space::Space;
use crate::answer::{self, Done};
use crate::breach::Breach;
use crate::handshake::{self, Heard};
use crate::layout::{ENTRIES, Layout, Note, Side};
use crate::region::Region;
use crate::ring::{Reader, Ring, Words, Writer, must_ring};
use crate::submission::{Piece, Request, Submission};
use port::DeviceError;
use std::collections::VecDeque;
use std::os::unix::net::UnixStream;

/// Looks in vain at the ring before the socket is asked whether the server lives: looking costs
/// some nanoseconds, asking some hundred.
const PATIENCE: u32 = 4096;

/// A request under way: its number in the ring, and its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    slot: usize,
    /// Its bytes of the data area.
    pub piece: Piece,
}

#[derive(Clone, Copy, Debug)]
enum Slot {
    Free,
    UnderWay,
    /// Nobody waits for the answer, but the server may still use the piece.
    Abandoned(Piece),
    Answered(Words),
}

/// Rings, numbers, bytes, and who waits for room.
#[derive(Debug)]
pub struct State {
    submissions: Writer,
    answers: Reader,
    slots: Vec<Slot>,
    free: Vec<usize>,
    space: Space,
    /// Who has not submitted everything, in the order of coming.
    queue: VecDeque<u64>,
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
            free: (0..ENTRIES).rev().collect(),
            space: Space::new(layout.data().get() as usize),
            queue: VecDeque::new(),
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
        self.queue.push_back(ticket);
        ticket
    }

    /// Whether somebody waits for room.
    pub fn has_queue(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Everything was submitted, or will not be.
    pub fn leave_queue(&mut self, ticket: u64) {
        if let Some(place) = self.queue.iter().position(|other| *other == ticket) {
            self.queue.remove(place);
            self.changes += u64::from(!self.queue.is_empty());
        }
    }

    /// Room for a request, if it is this one's turn and there is some.
    pub fn room(&mut self, ticket: u64, size: usize) -> Option<Sent> {
        if self.queue.front() != Some(&ticket) || self.free.is_empty() {
            return None;
        }
        let piece = self.space.take(size)?;
        let slot = self.free.pop().expect("there is a free number");
        Some(Sent { slot, piece })
    }

    /// Hands a request to the server. What it writes is in the data area.
    pub fn submit(&mut self, sent: Sent, request: Request, region: &Region, socket: &UnixStream) {
        self.slots[sent.slot] = Slot::UnderWay;
        let cookie = sent.slot as u64;
        let submission = Submission { cookie, request };
        self.submissions.push(region, submission.encode());
        if must_ring(region, Side::Server) {
            handshake::ring(socket);
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
            Some(Slot::UnderWay) => self.slots[index] = Slot::Answered(words),
            Some(Slot::Abandoned(piece)) => {
                let piece = *piece;
                self.release(Sent { slot: index, piece });
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
        self.gone.get_or_insert(reason);
        self.changes += 1;
        true
    }

    fn release(&mut self, sent: Sent) {
        self.slots[sent.slot] = Slot::Free;
        self.free.push(sent.slot);
        self.space.give(sent.piece);
    }

    /// The answer to a request, if it is there.
    pub fn answer(&self, sent: Sent, region: &Region) -> Option<Result<Done, DeviceError>> {
        match &self.slots[sent.slot] {
            Slot::Answered(words) => Some(answer::decode(words, region)),
            _ => None,
        }
    }

    /// An answer was taken: number and bytes are free again.
    pub fn forget(&mut self, sent: Sent) {
        self.release(sent);
        self.changes += u64::from(!self.queue.is_empty());
    }

    /// Nobody waits for the answer any more.
    pub fn abandon(&mut self, sent: Sent) {
        match self.slots[sent.slot] {
            Slot::Answered(_) => self.forget(sent),
            _ => self.slots[sent.slot] = Slot::Abandoned(sent.piece),
        }
    }

    /// Why the server is no more, if so. Asks the socket once in a while.
    pub fn gone(&mut self, region: &Region, socket: &UnixStream) -> Option<DeviceError> {
        self.looks += 1;
        if self.gone.is_none() && self.looks >= PATIENCE {
            self.looks = 0;
            // While somebody sleeps, bells are for him.
            if !self.has_sleeper {
                self.hear(region, socket);
            }
        }
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
        self.gone.get_or_insert(reason);
        self.changes += 1;
    }
}
