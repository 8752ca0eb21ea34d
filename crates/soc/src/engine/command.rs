//! Commands: what the host asks for, whatever its length.
//!
//! A command becomes one *operation* for each page, or for each line of the line port; an operation
//! is one request of the firmware at a time. The byte port works through its operations one after
//! the other, a run of lines of one page each; the other ports have many under way. A write of the
//! byte port that covers a line in part reads that line first (D21), into an edge behind the
//! command's buffer.

use core::ops::Range;
use port::{Atomicity, Command, Completion, Conflict, DeviceError};
use units::address::LINE_BYTES;
use units::{ByteAddr, Bytes, PageSize, Picos, Time, TxId};

/// No operation.
pub(crate) const NONE: u32 = u32::MAX;
/// Bytes of a line.
pub(crate) const LINE: u64 = LINE_BYTES.get();

/// What a command waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// There is no such command: its place is free.
    Free,
    /// Operations before it, or nothing: it is with the device.
    UnderWay,
    /// The end of the transaction that the firmware knows by this name.
    Conflict(TxId),
    /// Room for lines of open transactions.
    Room,
    /// The commit of a part of its transaction.
    Part,
    /// Reservations before it, or room for its own.
    Reserving,
    /// The writes of the transaction that it ends.
    Writes,
    /// Nothing: the owner of its ticket has not asked what came of it.
    Done,
}

/// A command that is not forgotten.
#[derive(Clone, Debug)]
pub struct Running {
    /// What is asked.
    pub command: Command,
    /// What it waits for.
    pub state: State,
    /// What happens where another open transaction has written.
    pub conflict: Conflict,
    /// First byte, as asked.
    pub at: u64,
    /// How many, as asked.
    pub size: u64,
    /// First line of what is transferred.
    pub first: u64,
    /// Line behind the last of it.
    pub end: u64,
    /// Its first operation, or [`NONE`].
    pub head: u32,
    /// Its first operation that is not done and not with the device, as far as is known: none
    /// before it is. Behind the last one: [`NONE`].
    pub next: u32,
    /// Operations that wait for others of their lines.
    pub held: u32,
    /// Operations that are not done.
    pub left: u32,
    /// Requests that are with the device.
    pub in_flight: u32,
    /// Lines at the edges that are still to be read: the first one, the last one.
    pub edges: [bool; 2],
    /// Of the first page and the last one that are written in part: how many aborts had reached the
    /// device when they were read.
    pub aborts: [u64; 2],
    /// When it was asked.
    pub submitted: Time,
    /// When the host knows of what is done so far.
    pub finished: Time,
    /// In how many parts a transaction was committed before.
    pub parts: u32,
    /// What went wrong first.
    pub error: Option<Box<DeviceError>>,
    /// Nobody waits for it any more.
    pub is_abandoned: bool,
}

impl Default for Running {
    fn default() -> Self {
        Self {
            command: Command::Read,
            state: State::Free,
            conflict: Conflict::Refuse,
            at: 0,
            size: 0,
            first: 0,
            end: 0,
            head: NONE,
            next: NONE,
            held: 0,
            left: 0,
            in_flight: 0,
            edges: [false; 2],
            aborts: [0; 2],
            submitted: Time::ZERO,
            finished: Time::ZERO,
            parts: 0,
            error: None,
            is_abandoned: false,
        }
    }
}

impl Running {
    /// A command of a range that has been checked takes the place of one that is over.
    #[inline]
    pub fn begin(
        &mut self,
        command: Command,
        (at, size): (ByteAddr, Bytes),
        conflict: Conflict,
        now: Time,
    ) {
        let (at, size) = (at.get(), size.get());
        self.command = command;
        self.state = State::UnderWay;
        self.conflict = conflict;
        self.at = at;
        self.size = size;
        self.first = at / LINE;
        self.end = match size {
            0 => self.first,
            _ => (at + size).div_ceil(LINE),
        };
        self.head = NONE;
        self.next = NONE;
        // One that failed left operations that were never sent.
        (self.held, self.left, self.in_flight) = (0, 0, 0);
        self.submitted = now;
        self.finished = now;
        self.parts = 0;
        debug_assert!(self.error.is_none(), "whoever had the place was told");
        self.is_abandoned = false;
        self.edges = self.cut_edges();
    }

    /// Whether the first line and the last one are covered in part; one line counts once.
    pub fn cut_edges(&self) -> [bool; 2] {
        if !matches!(self.command, Command::Write(_)) || self.size == 0 {
            return [false; 2];
        }
        let cut_head = !self.at.is_multiple_of(LINE);
        let cut_tail = !(self.at + self.size).is_multiple_of(LINE);
        let is_one_line = self.end - self.first == 1;
        [
            cut_head || is_one_line && cut_tail,
            cut_tail && !is_one_line,
        ]
    }

    /// Where the asked bytes begin in the buffer.
    pub fn offset(&self) -> usize {
        usize::try_from(self.at - self.first * LINE).expect("less than a line")
    }

    /// Bytes of the buffer: the lines, and a line for each edge that is read; of the block port a
    /// page for each that is read and not wholly of the command.
    pub fn buffer_bytes(&self, page: PageSize) -> usize {
        let whole = page.bytes().get() - 1;
        match self.command {
            command if command.is_block() && (self.at | self.size) & whole != 0 => {
                self.part_place(2, page)
            }
            Command::Trim | Command::Reserve(_) => 0,
            _ if self.edges != [false; 2] => self.edge_place(2),
            _ => self.edge_place(0),
        }
    }

    /// Where the line that is read for an edge is in the buffer.
    pub fn edge_place(&self, edge: usize) -> usize {
        let lines = usize::try_from((self.end - self.first) * LINE).expect("it is in memory");
        lines + edge * (LINE as usize)
    }

    /// Where the page is in the buffer of which the first or last part is of the command.
    pub fn part_place(&self, part: usize, page: PageSize) -> usize {
        let lines = match self.command {
            Command::Trim => 0,
            _ => self.edge_place(0),
        };
        lines + part * page.bytes().get() as usize
    }

    /// Which of the two pages of which a part is of the command is at this place of the buffer, if
    /// one is. An operation that moves no lines, as the trim of a whole page, has no place there.
    #[inline]
    pub fn part_at(&self, place: usize, lines: u16, page: PageSize) -> Option<usize> {
        if lines == 0 {
            return None;
        }
        let part = place.checked_sub(self.part_place(0, page))? / page.bytes().get() as usize;
        (self.command.is_block() && part < 2).then_some(part)
    }

    /// The lines of `lines` lines from `first` on that are of the command.
    #[inline]
    pub fn asked_of(&self, first: u64, lines: u16) -> Range<u64> {
        first.max(self.first)..(first + u64::from(lines)).min(self.end)
    }

    /// Puts together what the host asks for and the page at `place` of which it is a part, and
    /// which begins with line `first`: what is read goes to the host, what is written into the
    /// page.
    pub fn join_part(&self, place: usize, (first, lines): (u64, u16), buffer: &mut [u8]) {
        let bytes = |lines: u64| usize::try_from(lines * LINE).expect("it is in memory");
        let asked = self.asked_of(first, lines);
        let in_page = place + bytes(asked.start - first)..place + bytes(asked.end - first);
        let of_host = bytes(asked.start - self.first)..bytes(asked.end - self.first);
        match self.command {
            Command::Trim => buffer[in_page].fill(0),
            command if command.is_write() => buffer.copy_within(of_host, in_page.start),
            _ => buffer.copy_within(in_page, of_host.start),
        }
    }

    /// Puts what was read of a line at an edge around what the host writes of it.
    pub fn join_edge(&self, place: usize, buffer: &mut [u8]) {
        let line_bytes = LINE as usize;
        let lines = self.edge_place(0);
        let line = if place == lines {
            0
        } else {
            lines - line_bytes
        };
        let asked = self.offset()..self.offset() + self.size as usize;
        for byte in 0..line_bytes {
            let at = line + byte;
            if !asked.contains(&at) {
                buffer[at] = buffer[place + byte];
            }
        }
    }

    /// What the host is told of a command that did not fail.
    pub fn result(&self) -> (Completion, Atomicity) {
        let completion = Completion {
            submitted: self.submitted,
            finished: self.finished,
        };
        let atomicity = match self.parts {
            0 => Atomicity::Whole,
            before => Atomicity::Parts { count: before + 1 },
        };
        (completion, atomicity)
    }

    /// What it took so far.
    pub fn took(&self) -> Picos {
        self.finished.saturating_since(self.submitted)
    }
}
