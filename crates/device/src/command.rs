//! Commands: what the host asks for, and the operations of the firmware that make it up.
//!
//! The byte port works through a command piece by piece, a run of lines of one page each; the block
//! port has many pages under way. A write that covers a line in part reads that line first (D21),
//! into the edge of the command's buffer.

use crate::layout::line_bytes;
use firmware::RequestOp;
use port::{Acknowledge, Atomicity, Completion, DeviceError};
use units::{ByteAddr, LineAddr, PageSize, Picos, Time, TxId};

/// Bytes of a line.
const LINE: u64 = line_bytes() as u64;
/// Pages that a block command has under way at a time.
const PAGES_AT_A_TIME: u32 = 256;

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// Byte port.
    Read,
    /// Byte port, under a transaction of the host's or none.
    Write(TxId),
    /// Byte port.
    Persist,
    /// Block port.
    ReadBlocks,
    /// Block port.
    WriteBlocks(Acknowledge),
    /// Block port.
    Trim,
    /// Everything.
    Flush,
    /// Of a transaction of the host's.
    Commit(TxId),
    /// Of a transaction of the host's.
    Abort(TxId),
}

impl Ask {
    /// Whether bytes change.
    pub const fn is_write(self) -> bool {
        matches!(self, Self::Write(_) | Self::WriteBlocks(_) | Self::Trim)
    }
    /// Whether it goes through the block port.
    pub const fn is_block(self) -> bool {
        matches!(self, Self::ReadBlocks | Self::WriteBlocks(_) | Self::Trim)
    }
}

/// How far a command is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Its range overlaps that of an earlier one.
    Held,
    /// It is with the device.
    UnderWay,
    /// It is answered, and the ticket's holder has not asked.
    Done,
}

/// What is left to do of a command, and what came of it.
#[derive(Clone, Debug)]
pub struct Command {
    /// What is asked.
    pub ask: Ask,
    /// How far it is.
    pub state: State,
    /// First byte, as asked.
    pub at: u64,
    /// How many, as asked.
    pub size: u64,
    /// First line of what is transferred.
    pub first: u64,
    /// Line behind the last of it.
    pub end: u64,
    /// Lines before this have been handed out.
    pub next: u64,
    /// Lines at the edges that are still to be read: the first one, the last one.
    pub edges: [bool; 2],
    /// Operations under way.
    pub left: u32,
    /// Its next piece waits until a part of its transaction is committed.
    pub is_parked: bool,
    /// When it was asked.
    pub submitted: Time,
    /// When the host knows of what is done so far.
    pub finished: Time,
    /// In how many parts a transaction was committed before.
    pub parts: u32,
    /// What went wrong first.
    pub error: Option<DeviceError>,
    /// Nobody waits for it any more.
    pub is_abandoned: bool,
}

/// An operation to be handed to the firmware.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// What.
    pub op: RequestOp,
    /// First line.
    pub line: LineAddr,
    /// How many lines it moves.
    pub lines: u64,
    /// Where its bytes are in the command's buffer.
    pub place: usize,
}

impl Command {
    /// A command of a range that has been checked.
    pub fn new(ask: Ask, at: ByteAddr, size: u64, now: Time) -> Self {
        let (at, end) = (at.get(), at.get() + size);
        let (first, end) = match size {
            0 => (at / LINE, at / LINE),
            _ => (at / LINE, end.div_ceil(LINE)),
        };
        let mut edges = [false; 2];
        if matches!(ask, Ask::Write(_)) && size > 0 {
            let (cut_head, cut_tail) =
                (!at.is_multiple_of(LINE), !(at + size).is_multiple_of(LINE));
            let is_one_line = end - first == 1;
            edges = [
                cut_head || is_one_line && cut_tail,
                cut_tail && !is_one_line,
            ];
        }
        Self {
            ask,
            state: State::UnderWay,
            at,
            size,
            first,
            end,
            next: first,
            edges,
            left: 0,
            is_parked: false,
            submitted: now,
            finished: now,
            parts: 0,
            error: None,
            is_abandoned: false,
        }
    }

    /// Whether the two may not be under way together: their lines overlap and one writes, or one
    /// ends the transaction of the other.
    pub fn excludes(&self, other: &Self) -> bool {
        if let (Ask::Commit(ended) | Ask::Abort(ended), Ask::Write(tx)) = (self.ask, other.ask)
            && ended == tx
        {
            return true;
        }
        (self.ask.is_write() || other.ask.is_write())
            && self.first < other.end
            && other.first < self.end
    }

    /// Where the asked bytes begin in the buffer.
    pub fn offset(&self) -> usize {
        (self.at - self.first * LINE) as usize
    }

    /// Bytes of the buffer: the lines, and a line for each edge that is read.
    pub fn buffer_bytes(&self) -> usize {
        match self.ask {
            Ask::Trim => 0,
            Ask::Write(_) if self.edges != [false; 2] => self.edge_place(2),
            _ => self.edge_place(0),
        }
    }

    /// Where the line that is read for an edge is in the buffer.
    fn edge_place(&self, edge: usize) -> usize {
        ((self.end - self.first) * LINE) as usize + edge * line_bytes()
    }

    /// Whether all of it has been handed out.
    pub fn is_handed_out(&self) -> bool {
        self.next == self.end && self.edges == [false; 2]
    }

    /// The next piece, if one may be handed out now.
    pub fn next_piece(&mut self, page: PageSize, name: TxId) -> Option<Piece> {
        if self.is_handed_out() {
            return None;
        }
        if self.ask.is_block() {
            return (self.left < PAGES_AT_A_TIME).then(|| self.next_page(page));
        }
        if self.left > 0 {
            return None;
        }
        if let Some(edge) = self.edges.iter().position(|is_to_be_read| *is_to_be_read) {
            self.edges[edge] = false;
            let line = if edge == 0 { self.first } else { self.end - 1 };
            return Some(Piece {
                op: RequestOp::ReadRun { count: 1 },
                line: LineAddr::new(line),
                lines: 1,
                place: self.edge_place(edge),
            });
        }
        Some(self.next_run(page, name))
    }

    fn next_page(&mut self, page: PageSize) -> Piece {
        let lines = u64::from(page.line_count());
        let line = self.next;
        self.next += lines;
        let op = match self.ask {
            Ask::WriteBlocks(Acknowledge::Accepted) => RequestOp::WritePage,
            Ask::WriteBlocks(Acknowledge::Durable) => RequestOp::WritePageThrough,
            Ask::Trim => RequestOp::Trim,
            _ => RequestOp::ReadPage,
        };
        let is_moved = !matches!(self.ask, Ask::Trim);
        Piece {
            op,
            line: LineAddr::new(line),
            lines: if is_moved { lines } else { 0 },
            place: if is_moved {
                ((line - self.first) * LINE) as usize
            } else {
                0
            },
        }
    }

    fn next_run(&mut self, page: PageSize, name: TxId) -> Piece {
        let lines = u64::from(page.line_count());
        let line = self.next;
        let page_end = (line / lines + 1) * lines;
        self.next = page_end.min(self.end);
        let count = u16::try_from(self.next - line).expect("a page has at most 256 lines");
        let op = match self.ask {
            Ask::Write(_) => RequestOp::WriteRun { count, tx: name },
            _ => RequestOp::ReadRun { count },
        };
        Piece {
            op,
            line: LineAddr::new(line),
            lines: u64::from(count),
            place: ((line - self.first) * LINE) as usize,
        }
    }

    /// Puts what was read of a line at an edge around what the host writes of it.
    pub fn join_edge(&self, place: usize, buffer: &mut [u8]) {
        let lines = self.edge_place(0);
        let is_head = place == lines;
        let line = if is_head { 0 } else { lines - line_bytes() };
        let (asked, asked_end) = (self.offset(), self.offset() + self.size as usize);
        for byte in 0..line_bytes() {
            let at = line + byte;
            if !(asked..asked_end).contains(&at) {
                buffer[at] = buffer[place + byte];
            }
        }
    }

    /// Whether a piece of this command at this place was read for an edge.
    pub fn is_edge(&self, place: usize) -> bool {
        matches!(self.ask, Ask::Write(_)) && place >= self.edge_place(0)
    }

    /// What the host is told.
    pub fn result(&self) -> Result<(Completion, Atomicity), DeviceError> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let completion = Completion {
            submitted: self.submitted,
            finished: self.finished,
        };
        let atomicity = match self.parts {
            0 => Atomicity::Whole,
            before => Atomicity::Parts { count: before + 1 },
        };
        Ok((completion, atomicity))
    }

    /// What it took so far.
    pub fn took(&self) -> Picos {
        self.finished.saturating_since(self.submitted)
    }
}
