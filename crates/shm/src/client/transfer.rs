//! A command of the host as requests of the ring.

use super::Client;
use super::state::{Sent, State};
use crate::layout::Layout;
use crate::submission::{DataRange, Request};
use port::{Acknowledge, Atomicity, Command, Completion, Conflict, DeviceError, Outcome, Payload};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use units::{ByteAddr, Bytes, TxId};

/// Requests of one command that are under way at once: one is copied while the server has others.
const AT_ONCE: usize = 4;

/// Bytes of a block that is shared.
const BLOCK: usize = 4096;

/// Bytes of a command that go through the data area.
fn moved(payload: &Payload<'_>) -> usize {
    match payload {
        Payload::None(_) => 0,
        _ => payload.size().get() as usize,
    }
}

/// What a command asks for each range of its bytes.
#[derive(Clone, Copy, Debug)]
pub enum Verb {
    Read(ByteAddr),
    Write(ByteAddr, TxId),
    ReadBlocks(ByteAddr),
    WriteBlocks(ByteAddr, Acknowledge),
    Statistics,
    /// Moves nothing.
    Alone(Request),
}

impl Verb {
    /// Of a command of the port.
    pub fn of(command: Command, at: ByteAddr, size: Bytes) -> Self {
        match command {
            Command::Read | Command::ReadLines => Self::Read(at),
            Command::Write(tx) => Self::Write(at, tx),
            Command::WriteLines => Self::Write(at, TxId::NONE),
            Command::ReadBlocks => Self::ReadBlocks(at),
            Command::WriteBlocks(when) => Self::WriteBlocks(at, when),
            Command::Trim => Self::Alone(Request::Trim(at, size)),
            // The protocol has no word for the window alone: what persists all persists it too.
            Command::Persist | Command::PersistPmem => Self::Alone(Request::Persist),
            Command::Flush => Self::Alone(Request::Flush),
            Command::Drain => Self::Alone(Request::Drain),
            Command::Reserve(tx) => Self::Alone(Request::Reserve(tx, size)),
            Command::Commit(tx) => Self::Alone(Request::Commit(tx)),
            Command::Abort(tx) => Self::Alone(Request::Abort(tx)),
        }
    }

    /// The transaction that it is of, and whether it ends that.
    fn transaction(self) -> Option<(TxId, bool)> {
        match self {
            Self::Write(_, tx) if tx != TxId::NONE => Some((tx, false)),
            Self::Alone(request) => {
                let ends = matches!(request, Request::Commit(_) | Request::Abort(_));
                Some((request.transaction()?, ends))
            }
            _ => None,
        }
    }

    fn request(self, offset: usize, range: DataRange) -> Request {
        let place = |at: ByteAddr| ByteAddr::new(at.get() + offset as u64);
        match self {
            Self::Read(at) => Request::Read(place(at), range),
            Self::Write(at, tx) => Request::Write(place(at), range, tx),
            Self::ReadBlocks(at) => Request::ReadBlocks(place(at), range),
            Self::WriteBlocks(at, when) => Request::WriteBlocks(place(at), range, when),
            Self::Statistics => Request::Statistics(range),
            Self::Alone(request) => request,
        }
    }
}

/// A range with the server.
#[derive(Clone, Copy, Debug)]
struct Part {
    sent: Sent,
    offset: usize,
}

/// A command under way. Submits when it is first polled and there is room; commands that were
/// polled before it come first. It is woken when a range of it is answered, and when there may be
/// room for its next one.
pub struct Transfer<'a> {
    client: &'a Client,
    verb: Verb,
    conflict: Conflict,
    payload: Payload<'a>,
    /// Most bytes of a request.
    step: usize,
    /// Bytes that have been handed out.
    next: usize,
    has_begun: bool,
    /// It was polled.
    has_queued: bool,
    ticket: Option<u64>,
    parts: [Option<Part>; AT_ONCE],
    done: Option<(Completion, Atomicity)>,
    error: Option<DeviceError>,
}

impl<'a> Transfer<'a> {
    /// A command, with what was found wrong with its range; `step` is the most that a request of it
    /// moves.
    pub fn new(
        client: &'a Client,
        (verb, conflict): (Verb, Conflict),
        payload: Payload<'a>,
        step: Bytes,
        checked: Result<(), DeviceError>,
    ) -> Self {
        Self {
            client,
            verb,
            conflict,
            payload,
            step: step.get() as usize,
            next: 0,
            has_begun: false,
            has_queued: false,
            ticket: None,
            parts: [None; AT_ONCE],
            done: None,
            error: checked.err(),
        }
    }

    fn is_handed_out(&self) -> bool {
        self.error.is_some() || self.has_begun && self.next == moved(&self.payload)
    }

    /// Takes the answers that are there.
    fn harvest(&mut self, state: &mut State) {
        let region = &self.client.region;
        for place in &mut self.parts {
            let Some(part) = *place else {
                continue;
            };
            let Some(answer) = state.answer(part.sent, region) else {
                continue;
            };
            match answer {
                Ok(done) => {
                    if let Payload::In(into) = &mut self.payload {
                        let range = part.sent.range;
                        let into = &mut into[part.offset..][..range.size];
                        region.read(Layout::place(range.place), into);
                    }
                    self.done = Some(self.done.map_or(done, |before| joined(before, done)));
                }
                Err(error) => {
                    self.error.get_or_insert(error);
                }
            }
            state.forget(part.sent);
            *place = None;
        }
    }

    /// Hands out what there is room for.
    fn feed(&mut self, state: &mut State) {
        let Some(ticket) = self.ticket else {
            return;
        };
        while !self.is_handed_out()
            && let Some(place) = self.parts.iter().position(Option::is_none)
            && let size = self.step.min(moved(&self.payload) - self.next)
            && let Some(sent) = state.room(ticket, size)
        {
            let client = self.client;
            let to = Layout::place(sent.range.place);
            match &self.payload {
                Payload::Out(bytes) => client.region.write(to, &bytes[self.next..][..size]),
                Payload::Shared(blocks) => {
                    let mut done = 0;
                    while done < size {
                        let from = self.next + done;
                        let rest = &blocks[from / BLOCK][from % BLOCK..];
                        let piece = &rest[..rest.len().min(size - done)];
                        client.region.write(to + done, piece);
                        done += piece.len();
                    }
                }
                Payload::None(_) | Payload::In(_) => {}
            }
            let request = (self.verb.request(self.next, sent.range), self.conflict);
            if let Err(error) = state.submit(sent, request, &client.region, &client.socket) {
                self.error = Some(error);
                break;
            }
            let offset = self.next;
            self.parts[place] = Some(Part { sent, offset });
            self.next += size;
            self.has_begun = true;
        }
        if self.is_handed_out() {
            self.leave_queue(state);
        }
    }

    fn leave_queue(&mut self, state: &mut State) {
        if let Some(ticket) = self.ticket.take() {
            state.leave_queue(ticket);
        }
    }

    fn is_over(&self) -> bool {
        self.is_handed_out() && self.parts.iter().all(Option::is_none)
    }

    fn result(&mut self) -> Outcome {
        match (self.error.take(), self.done) {
            (Some(error), _) => Err(error),
            (None, Some(done)) => Ok(done),
            (None, None) => unreachable!("a command has at least one request"),
        }
    }

    fn advance(&mut self, state: &mut State) -> Poll<Outcome> {
        if !self.has_queued {
            self.has_queued = true;
            self.queue_up(state);
        }
        self.harvest(state);
        self.feed(state);
        if self.is_over() {
            return Poll::Ready(self.result());
        }
        match state.gone() {
            None => Poll::Pending,
            Some(_) if self.harvest_last(state) => Poll::Ready(self.result()),
            Some(error) => Poll::Ready(Err(error)),
        }
    }

    /// Takes its place, unless it is known to be wrong.
    fn queue_up(&mut self, state: &mut State) {
        if self.error.is_none()
            && state.gone().is_none()
            && let Some((tx, ends)) = self.verb.transaction()
        {
            self.error = state.numbers.ask(tx, ends).err();
        }
        if self.error.is_none() {
            self.ticket = Some(state.queue_up());
        }
    }

    /// Has itself woken when there is something to look at.
    fn watch(&self, state: &mut State, waker: &Waker) {
        for part in self.parts.iter().flatten() {
            state.watch(part.sent, waker);
        }
        if let Some(ticket) = self.ticket {
            state.watch_queue(ticket, waker);
        }
    }

    /// The server has gone; it may have answered all before.
    fn harvest_last(&mut self, state: &mut State) -> bool {
        self.harvest(state);
        self.is_over()
    }
}

fn joined(
    (one, atomicity): (Completion, Atomicity),
    (other, _): (Completion, Atomicity),
) -> (Completion, Atomicity) {
    let completion = Completion {
        submitted: one.submitted.min(other.submitted),
        finished: one.finished.max(other.finished),
    };
    (completion, atomicity)
}

impl Future for Transfer<'_> {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let client = self.client;
        if client.is_fork() {
            return Poll::Ready(Err(DeviceError::Forked));
        }
        let mut state = client.state();
        let before = state.changes;
        let outcome = self.advance(&mut state);
        if outcome.is_pending() {
            self.watch(&mut state, context.waker());
        }
        client.tell(state, before);
        outcome
    }
}

impl Drop for Transfer<'_> {
    fn drop(&mut self) {
        let client = self.client;
        let is_idle = self.ticket.is_none() && self.parts.iter().all(Option::is_none);
        if is_idle || client.is_fork() {
            return;
        }
        let mut state = client.state();
        let before = state.changes;
        self.leave_queue(&mut state);
        if !self.has_begun
            && let Some((tx, true)) = self.verb.transaction()
        {
            state.abandon_end(tx, &client.region, &client.socket);
        }
        for part in self.parts.iter_mut().filter_map(Option::take) {
            state.abandon(part.sent);
        }
        client.tell(state, before);
    }
}
