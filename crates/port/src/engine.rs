//! A device as whoever owns its clock sees it (architecture B11).
//!
//! Commands go in at a time, deadlines come out; nothing moves because it was looked at. Virtual
//! time and the wall clock are two owners of one engine.

use crate::{Acknowledge, Completion, DeviceError, DeviceStats, Outcome, Shape};
use alloc::vec::Vec;
use units::{ByteAddr, Bytes, Time, TxId};

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Byte port: bytes from the newest lines.
    Read,
    /// Byte port, under a transaction of the host's or none.
    Write(TxId),
    /// Byte port: what was posted before survives a power cut.
    Persist,
    /// Byte port: what was posted to the window before survives a power cut. Flushes nothing.
    PersistPmem,
    /// Line port (CXL.mem): every line by itself.
    ReadLines,
    /// Line port.
    WriteLines,
    /// Block port.
    ReadBlocks,
    /// Block port.
    WriteBlocks(Acknowledge),
    /// Block port.
    Trim,
    /// Everything survives a power cut.
    Flush,
    /// Room in the log for a transaction of the host's that has written nothing: for as many lines
    /// as the range has.
    Reserve(TxId),
    /// Of a transaction of the host's.
    Commit(TxId),
    /// Of a transaction of the host's.
    Abort(TxId),
    /// Everything that is logged is on flash (RECOVER, ByteFS §4.7).
    Drain,
}

/// What a write does where another open transaction has written, and what it or a reservation does
/// if open transactions leave no room in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Conflict {
    /// It waits until one has ended (ByteFS §4.3). A wait that would close a circle is refused.
    Wait,
    /// It is refused.
    Refuse,
}

/// Which door a command takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Door {
    /// Any bytes.
    Bytes,
    /// Lines.
    Lines,
    /// Pages.
    Blocks,
    /// No range at all.
    None,
}

impl Command {
    /// Whether bytes change.
    pub const fn is_write(self) -> bool {
        matches!(
            self,
            Self::Write(_) | Self::WriteLines | Self::WriteBlocks(_) | Self::Trim
        )
    }

    /// Through which door it goes.
    pub const fn door(self) -> Door {
        match self {
            Self::Read | Self::Write(_) => Door::Bytes,
            Self::ReadLines | Self::WriteLines => Door::Lines,
            Self::ReadBlocks | Self::WriteBlocks(_) | Self::Trim => Door::Blocks,
            _ => Door::None,
        }
    }

    /// Whether it goes through the block port.
    pub const fn is_block(self) -> bool {
        matches!(self.door(), Door::Blocks)
    }

    /// The transaction that it writes under, if it writes under one.
    pub const fn transaction(self) -> Option<TxId> {
        match self {
            Self::Write(tx) if tx.get() != TxId::NONE.get() => Some(tx),
            _ => None,
        }
    }
}

/// A command under way; handed back to ask for what came of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ticket(u32);

impl Ticket {
    /// The ticket with this number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }
    /// Its number.
    pub const fn get(self) -> u32 {
        self.0
    }
    /// A small number that no other command under way has.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A command whose end the host knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Finished {
    /// Which one.
    pub ticket: Ticket,
    /// What was asked.
    pub command: Command,
    /// Bytes, as asked.
    pub size: Bytes,
    /// From when to when.
    pub completion: Completion,
    /// It failed.
    pub is_failed: bool,
    /// Nobody will take it: its ticket is used up.
    pub is_abandoned: bool,
}

/// A device that its owner moves.
///
/// The owner keeps three rules: what is submitted at a time was preceded by [`Engine::advance`] to
/// that time; time does not run back; between two deadlines nothing happens, so an owner that wants
/// to react to each end at its own time advances from deadline to deadline.
pub trait Engine {
    /// What the device is.
    fn shape(&self) -> Shape;

    /// The time up to which everything has happened.
    fn now(&self) -> Time;

    /// When something happens next; none before something is submitted if there is none. May change
    /// with each call of the others.
    fn next_deadline(&mut self) -> Option<Time>;

    /// Lets everything happen up to `to`, and adds the commands whose end the host knows then, in
    /// the order in which it comes to know.
    fn advance(&mut self, to: Time, finished: &mut Vec<Finished>);

    /// Submits a command at `at` on `range`; `bytes` are those of a write. Commands of one time are
    /// submitted in the order of calls.
    ///
    /// # Errors
    /// What can be refused at once.
    fn submit(
        &mut self,
        at: Time,
        command: Command,
        range: (ByteAddr, Bytes),
        conflict: Conflict,
        bytes: &[u8],
    ) -> Result<Ticket, DeviceError>;

    /// What came of a command, if its end is known; the ticket is used up then. Bytes that were
    /// read go to `into`, which is as long as was asked.
    fn take(&mut self, ticket: Ticket, into: &mut [u8]) -> Option<Outcome>;

    /// Nobody will take what comes of a command; it is done all the same.
    fn abandon(&mut self, ticket: Ticket);

    /// Opens a transaction, which takes no time; says whether it may be committed in parts.
    ///
    /// # Errors
    /// A device without transactions, or with as many open ones as it takes.
    fn begin(&mut self, may_split: bool) -> Result<TxId, DeviceError>;

    /// What the device has done.
    fn stats(&self) -> DeviceStats;
}
