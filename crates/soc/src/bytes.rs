//! The data plane: whether bytes exist, and where (architecture B2).

use crate::work_times::GivenTimes;
use firmware::{Cell, NandFault, NandOp, NandTag, PagePlace, Record};
use nand::{Day, Fault, Operation};
use port::{Payload, SharedBlock};
use units::{LineMask, LogSlot, Lpa, Ppa, RequestId, Time};

/// An operation that a measured flash begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Begun {
    /// The firmware's name for it.
    pub tag: NandTag,
    /// When.
    pub at: Time,
    /// What, and where.
    pub operation: Operation,
}

/// What a command brings.
#[derive(Clone, Copy, Debug)]
pub enum Brought<'a> {
    /// Bytes, to be copied.
    Bytes(&'a [u8]),
    /// Blocks, which may be kept.
    Shared(&'a [SharedBlock]),
}

impl Brought<'_> {
    /// Gives them to a command, whose buffer has `size` bytes and takes them from `offset` on.
    #[inline]
    pub fn open(self, data: &mut impl DataPlane, command: usize, (size, offset): (usize, usize)) {
        match self {
            Self::Bytes(bytes) => data.open_buffer(command, size, bytes, offset),
            Self::Shared(blocks) => {
                let payload = Payload::Shared(blocks);
                // Otherwise pages of the device are larger, and some are read.
                match offset == 0 && payload.size().get() == size as u64 {
                    true => data.open_shared(command, blocks),
                    false => data.open_buffer(command, size, &payload.bytes_out(), offset),
                }
            }
        }
    }
}

/// Where the bytes of a device are: nowhere, in memory, in files.
///
/// The firmware says what moves, the flash says when; this does it and takes no time. Payloads of
/// requests are in buffers of the host's commands: a command has one buffer, a request is a part of
/// it.
pub trait DataPlane {
    /// Whether it is of use to say that lines of the log are asked for soon.
    #[inline(always)]
    fn foresees(&self) -> bool {
        false
    }

    /// The line of a slot is asked for soon, and what is known of it changes then. Nothing has to
    /// be done.
    #[inline(always)]
    fn foresee(&mut self, _slot: LogSlot) {}

    /// Copies one line.
    fn copy_line(&mut self, from: Cell, to: Cell);

    /// Copies the lines of `lines` from a page to a page.
    fn copy_page(&mut self, from: PagePlace, to: PagePlace, lines: LineMask);

    /// The bytes of a further unit of the flash page that is programmed next are taken.
    fn load_unit(&mut self, ppa: Ppa, lpa: Lpa, from: PagePlace);

    /// A NAND command was handed over: the bytes of a program are taken, an erase happens.
    fn nand_begins(&mut self, tag: NandTag, op: &NandOp);

    /// A measured flash begins these, all at one instant: whoever measures does them now, and gives
    /// what each took. Of times that are given by others nothing is to be done.
    fn perform(&mut self, _begun: &[Begun], _times: &mut GivenTimes) {}

    /// A NAND operation has ended, with this fault of the flash if any. What a read fetched is in
    /// the register of its tag until [`DataPlane::nand_ends`]. Gives how the firmware is told.
    fn nand_done(&mut self, tag: NandTag, fault: Option<Fault>) -> Option<NandFault>;

    /// A part of what a read fetches has come: it is in the register of its tag until
    /// [`DataPlane::nand_ends`]. Says whether it is sound; else the end of the read says what is
    /// wrong.
    fn nand_brings(&mut self, tag: NandTag) -> bool;

    /// The firmware knows of the end, or of the part.
    fn nand_ends(&mut self);

    /// The firmware has done one thing, and power may be cut before the next one.
    #[inline(always)]
    fn end_step(&mut self) {}

    /// Whether a line of the payload that this read was given is poison.
    fn is_poisoned(&self, request: RequestId) -> bool;

    /// Changes what survives a power cut beside the bytes. `today` is the flash's day.
    fn record(&mut self, record: Record, today: Day);

    /// Why the device must stop: there is no room for its bytes. From then on nothing changes.
    fn failure(&self) -> Option<&str>;

    /// Gives a command of the host a buffer of so many bytes, and takes over the bytes `from` at
    /// `offset` of it.
    fn open_buffer(&mut self, command: usize, size: usize, from: &[u8], offset: usize);

    /// As [`DataPlane::open_buffer`], of blocks that nobody changes before the command is over:
    /// they may be kept as they are.
    fn open_shared(&mut self, command: usize, blocks: &[SharedBlock]) {
        let bytes = Payload::Shared(blocks);
        let bytes = bytes.bytes_out();
        self.open_buffer(command, bytes.len(), &bytes, 0);
    }

    /// A command is over: nobody asks for what it writes any more.
    #[inline]
    fn close_shared(&mut self, _command: usize) {}

    /// The payload of a request: `lines` lines at `offset` of the buffer of a command.
    fn place(&mut self, request: RequestId, command: usize, offset: usize, lines: u64);

    /// The buffer of a command; nothing where there are no bytes.
    fn buffer(&mut self, command: usize) -> Option<&mut [u8]>;
}

/// No bytes: what is simulated is when they move.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NoBytes;

impl DataPlane for NoBytes {
    #[inline]
    fn copy_line(&mut self, _from: Cell, _to: Cell) {}
    #[inline]
    fn copy_page(&mut self, _from: PagePlace, _to: PagePlace, _lines: LineMask) {}
    #[inline]
    fn load_unit(&mut self, _ppa: Ppa, _lpa: Lpa, _from: PagePlace) {}
    #[inline]
    fn nand_begins(&mut self, _tag: NandTag, _op: &NandOp) {}
    #[inline]
    fn nand_done(&mut self, _tag: NandTag, fault: Option<Fault>) -> Option<NandFault> {
        fault.map(fault_of)
    }
    #[inline]
    fn nand_brings(&mut self, _tag: NandTag) -> bool {
        true
    }
    #[inline]
    fn nand_ends(&mut self) {}
    #[inline]
    fn is_poisoned(&self, _request: RequestId) -> bool {
        false
    }
    #[inline]
    fn record(&mut self, _record: Record, _today: Day) {}
    #[inline]
    fn failure(&self) -> Option<&str> {
        None
    }
    #[inline]
    fn open_buffer(&mut self, _command: usize, _size: usize, _from: &[u8], _offset: usize) {}
    #[inline]
    fn open_shared(&mut self, _command: usize, _blocks: &[SharedBlock]) {}
    #[inline]
    fn place(&mut self, _request: RequestId, _command: usize, _offset: usize, _lines: u64) {}
    #[inline]
    fn buffer(&mut self, _command: usize) -> Option<&mut [u8]> {
        None
    }
}

/// What the firmware is told of a fault of the flash.
pub fn fault_of(fault: Fault) -> NandFault {
    match fault {
        Fault::ProgramFailed => NandFault::ProgramFailed,
        Fault::EraseFailed => NandFault::EraseFailed,
        Fault::Uncorrectable => NandFault::Uncorrectable,
    }
}
