//! What a file system asked of its device, in order, and what it was asked meanwhile.

use port::{Atomicity, Command, Conflict, DeviceError, DeviceStats, Engine, Finished, Outcome};
use port::{Shape, Ticket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::{ByteAddr, Bytes, Time, TxId};

/// A request of a journal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RequestNo(pub u32);

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// The device was asked for something that is no read.
    Submitted {
        /// Which request.
        request: RequestNo,
        /// What was asked.
        command: Command,
        /// Where.
        at: u64,
        /// How much.
        size: u64,
        /// The bytes of a write.
        bytes: Arc<[u8]>,
    },
    /// The device has answered.
    Finished {
        /// Which request.
        request: RequestNo,
        /// Whether it did what was asked.
        is_ok: bool,
    },
    /// The file system was asked for an operation of the sequence.
    Began(usize),
    /// It has answered.
    Ended(usize),
}

impl Event {
    /// Whether the device has to do with it: the power can be cut behind it.
    pub fn is_of_device(&self) -> bool {
        matches!(self, Self::Submitted { .. } | Self::Finished { .. })
    }
}

/// Everything that happened.
#[derive(Clone, Default, Debug)]
pub struct Journal {
    /// In order.
    pub events: Vec<Event>,
    /// Transactions that the device committed in parts: they are not atomic.
    pub splits: u32,
    requests: u32,
}

/// A journal that several write, of any thread.
#[derive(Clone, Default, Debug)]
pub struct SharedJournal(Arc<Mutex<Journal>>);

impl SharedJournal {
    /// The journal, for who reads or writes it; nobody else does meanwhile.
    pub fn lock(&self) -> MutexGuard<'_, Journal> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was noted so far; it begins anew.
    pub fn take(&self) -> Journal {
        std::mem::take(&mut *self.lock())
    }
}

impl Journal {
    /// Notes a request; reads have no number.
    pub fn submit(
        &mut self,
        command: Command,
        (at, size): (ByteAddr, Bytes),
        bytes: &[u8],
    ) -> Option<RequestNo> {
        let is_read = matches!(
            command,
            Command::Read | Command::ReadLines | Command::ReadBlocks | Command::Reserve(_)
        );
        if is_read {
            return None;
        }
        let request = RequestNo(self.requests);
        self.requests += 1;
        self.events.push(Event::Submitted {
            request,
            command,
            at: at.get(),
            size: size.get(),
            bytes: bytes.into(),
        });
        Some(request)
    }

    /// Notes an answer.
    pub fn finish(&mut self, request: RequestNo, is_ok: bool) {
        self.events.push(Event::Finished { request, is_ok });
    }
}

/// Looks at the device behind an event of this number.
pub type Look<E> = Box<dyn FnMut(&E, usize)>;

/// A device that notes in a journal what it is asked and when it answers.
pub struct Recorder<E> {
    engine: E,
    journal: SharedJournal,
    /// By ticket.
    requests: Vec<Option<RequestNo>>,
    look: Option<Look<E>>,
}

impl<E> Recorder<E> {
    /// Notes what `engine` is asked, and shows it to `look` behind each event.
    pub fn new(engine: E, journal: SharedJournal, look: Option<Look<E>>) -> Self {
        Self {
            engine,
            journal,
            requests: Vec::new(),
            look,
        }
    }

    /// The device.
    pub fn engine(&self) -> &E {
        &self.engine
    }

    fn look(&mut self) {
        let event = self.journal.lock().events.len() - 1;
        if let Some(look) = &mut self.look {
            look(&self.engine, event);
        }
    }
}

impl<E: Engine> Engine for Recorder<E> {
    fn shape(&self) -> Shape {
        self.engine.shape()
    }

    fn now(&self) -> Time {
        self.engine.now()
    }

    fn next_deadline(&mut self) -> Option<Time> {
        self.engine.next_deadline()
    }

    fn advance(&mut self, to: Time, finished: &mut Vec<Finished>) {
        let first = finished.len();
        self.engine.advance(to, finished);
        for done in &finished[first..] {
            let place = self.requests.get_mut(done.ticket.index());
            if let Some(request) = place.and_then(Option::take) {
                self.journal.lock().finish(request, !done.is_failed);
                self.look();
            }
        }
    }

    fn submit(
        &mut self,
        at: Time,
        command: Command,
        range: (ByteAddr, Bytes),
        conflict: Conflict,
        bytes: &[u8],
    ) -> Result<Ticket, DeviceError> {
        let ticket = self.engine.submit(at, command, range, conflict, bytes)?;
        let request = self.journal.lock().submit(command, range, bytes);
        if ticket.index() >= self.requests.len() {
            self.requests.resize(ticket.index() + 1, None);
        }
        self.requests[ticket.index()] = request;
        if request.is_some() {
            self.look();
        }
        Ok(ticket)
    }

    fn take(&mut self, ticket: Ticket, into: &mut [u8]) -> Option<Outcome> {
        let outcome = self.engine.take(ticket, into);
        if let Some(Ok((_, Atomicity::Parts { .. }))) = &outcome {
            self.journal.lock().splits += 1;
        }
        outcome
    }

    fn abandon(&mut self, ticket: Ticket) {
        self.engine.abandon(ticket);
    }

    fn begin(&mut self, may_split: bool) -> Result<TxId, DeviceError> {
        self.engine.begin(may_split)
    }

    fn stats(&self) -> DeviceStats {
        self.engine.stats()
    }
}
