//! What tasks have asked for and not been given.

use crate::tasks::TaskId;
use port::{Command, Conflict, DeviceError, Ticket};
use std::fmt;
use std::task::Waker;
use units::{ByteAddr, Bytes, Picos, Time, TxId};

/// A request of a task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct RequestKey(pub u32);

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    /// Of the device; with the bytes of a write.
    Device {
        command: Command,
        range: (ByteAddr, Bytes),
        conflict: Conflict,
        bytes: Vec<u8>,
    },
    /// A transaction, which may be committed in parts or not.
    Open { may_split: bool },
    /// Of a processor.
    Spend(Picos),
    /// Of the clock.
    Sleep(Time),
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device {
                command,
                range: (at, size),
                ..
            } => match command {
                Command::Commit(tx) | Command::Abort(tx) => {
                    let word = if matches!(command, Command::Commit(_)) {
                        "commit"
                    } else {
                        "abort"
                    };
                    write!(f, "the {word} of {tx}")
                }
                Command::Reserve(tx) => write!(f, "room for {size} of {tx}"),
                Command::Write(tx) if tx.get() != 0 => {
                    write!(f, "a write of {size} at byte {at} under {tx}")
                }
                _ => write!(f, "{} of {size} at byte {at}", word_of(*command)),
            },
            Self::Open { .. } => write!(f, "the number of a transaction"),
            Self::Spend(span) => write!(f, "{span} of a processor"),
            Self::Sleep(at) => write!(f, "the time {at}"),
        }
    }
}

fn word_of(command: Command) -> &'static str {
    match command {
        Command::Read | Command::ReadLines => "a read",
        Command::Write(_) | Command::WriteLines => "a write",
        Command::Persist | Command::PersistPmem => "a persist barrier",
        Command::ReadBlocks => "a block read",
        Command::WriteBlocks(_) => "a block write",
        Command::Trim => "a trim",
        Command::Flush => "a flush",
        Command::Commit(_) => "a commit",
        Command::Abort(_) => "an abort",
        Command::Drain => "a drain of the log",
        Command::Reserve(_) => "room",
    }
}

/// How far a request is.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    /// Asked at this instant.
    Asked,
    /// With the device.
    Submitted(Ticket),
    /// A transaction that was opened.
    Opened(TxId),
    /// Refused at once.
    Refused(DeviceError),
    /// With clock or processor.
    Timed,
    /// What was asked of clock or processor is over.
    Over,
}

/// A request that somebody waits for.
#[derive(Debug)]
pub(crate) struct Request {
    pub task: TaskId,
    /// How many requests of the task came before.
    pub sequence: u64,
    pub ask: Ask,
    pub phase: Phase,
    pub waker: Option<Waker>,
    /// Nobody waits for it any more.
    pub is_abandoned: bool,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    slots: Vec<Option<Request>>,
    free: Vec<u32>,
    /// Asked at this instant, but for what is in `openings`.
    asked: Vec<RequestKey>,
    /// Transactions to be opened at this instant.
    openings: Vec<RequestKey>,
    /// By ticket of the device.
    of_ticket: Vec<Option<RequestKey>>,
}

impl Requests {
    /// A task asks.
    pub fn open(&mut self, request: Request) -> RequestKey {
        let is_opening = matches!(request.ask, Ask::Open { .. });
        let key = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(request);
                RequestKey(slot)
            }
            None => {
                self.slots.push(Some(request));
                RequestKey(u32::try_from(self.slots.len() - 1).expect("few requests are open"))
            }
        };
        match is_opening {
            true => self.openings.push(key),
            false => self.asked.push(key),
        }
        key
    }

    pub fn get(&mut self, key: RequestKey) -> &mut Request {
        let request = self.slots[key.0 as usize].as_mut();
        request.expect("a request is open until it was answered")
    }

    pub fn close(&mut self, key: RequestKey) -> Request {
        self.free.push(key.0);
        let request = self.slots[key.0 as usize].take();
        request.expect("a request is closed once")
    }

    /// What was asked at this instant, in the order (task, sequence): transactions to be opened
    /// alone, if there are any.
    pub fn take_asked(&mut self, to: &mut Vec<RequestKey>) {
        match self.openings.is_empty() {
            true => to.append(&mut self.asked),
            false => to.append(&mut self.openings),
        }
        let slots = &self.slots;
        to.sort_unstable_by_key(|key| {
            let request = slots[key.0 as usize].as_ref();
            request.map(|request| (request.task, request.sequence))
        });
    }

    /// Whether anything is asked that was not taken.
    pub fn has_asked(&self) -> bool {
        !self.asked.is_empty() || !self.openings.is_empty()
    }

    /// The device has a request under this ticket.
    pub fn note_ticket(&mut self, ticket: Ticket, key: RequestKey) {
        if ticket.index() >= self.of_ticket.len() {
            self.of_ticket.resize(ticket.index() + 1, None);
        }
        self.of_ticket[ticket.index()] = Some(key);
    }

    /// The request of a ticket.
    pub fn take_ticket(&mut self, ticket: Ticket) -> Option<RequestKey> {
        self.of_ticket
            .get_mut(ticket.index())
            .and_then(Option::take)
    }

    /// Those that are open, in the order of their tasks.
    pub fn open_ones(&self) -> Vec<&Request> {
        let mut open: Vec<&Request> = self.slots.iter().flatten().collect();
        open.sort_by_key(|request| (request.task, request.sequence));
        open
    }
}
