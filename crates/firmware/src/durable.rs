//! What survives a power cut: the records that the firmware leaves in battery-backed DRAM, and how
//! they are read again.
//!
//! Bytes survive where they are (log slots, page buffers, frames that are kept, flash); what they
//! mean is in the firmware's tables, which do not. So every change of meaning is a [`Record`],
//! handed to [`Platform::record`](crate::Platform::record): small, wholly there or not at all after
//! a cut, and never before the copies that came before it. Recovery reads the tables that the
//! records make up through [`Durable`] and builds the firmware's own anew. A record never says how
//! the firmware arranges its tables, so an index or a policy can change and an image stays
//! readable.
//!
//! Which of two copies of a line is newer is decided by [`WriteOrder`] alone.
//!
//! Sources: ByteFS §4.3 (TxID with the entry, TxLog), §4.7 (recovery); the rest is ours: the papers
//! say that DRAM is battery-backed and not how its tables are found again.

use crate::platform::BufferId;
use units::{BlockAddr, FrameId, LineInPage, LineMask, LogSlot, Lpa, Ppa, TxId};

/// When something was written, in the order of writes of the device's whole life. 48 bits: 8.9
/// years of a million writes a second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(transparent)]
pub struct WriteOrder(u64);

impl WriteOrder {
    /// The write with this number.
    #[inline]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }
    /// Its number.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
    /// The write after this one.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
    /// Whether enough writes can follow for a device to work with: 2^40, 12 days of a million a
    /// second.
    pub(crate) const fn has_room(self) -> bool {
        self.0 < (1 << 48) - (1 << 40)
    }
}

/// What a slot of the log holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoggedLine {
    /// Of which page.
    pub lpa: Lpa,
    /// Which line of it.
    pub line: LineInPage,
    /// Under which transaction it was written.
    pub tx: TxId,
    /// Its place among all writes: of two copies of a line the higher one is newer.
    pub order: WriteOrder,
}

/// What a page buffer holds that the host has been told is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferedPage {
    /// Which page.
    pub lpa: Lpa,
    /// When it was written: log lines of the page that are older count no more.
    pub order: WriteOrder,
}

/// What a frame of the data cache holds that survives a power cut, on a device that keeps frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeptFrame {
    /// Which page.
    pub lpa: Lpa,
    /// When it became newer than flash and than every buffer of the page that is older. Lines that
    /// are written to the frame later are in it as well.
    pub order: WriteOrder,
    /// The lines that count: all, or those written so far of a page that comes from flash.
    pub lines: LineMask,
}

/// What is known of an erase block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BlockRecord {
    /// Erases so far.
    pub wear: u32,
    /// Units from its first on that may have been programmed since the last erase: those of whole
    /// flash pages.
    pub begun: u32,
    /// A program of it has failed: nothing more is written to it, and when its pages are elsewhere
    /// it is retired.
    pub is_condemned: bool,
    /// It is never used again.
    pub is_retired: bool,
}

/// One change of what survives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    /// The slot, which counted for nothing, holds this line from now on.
    Logged(LogSlot, LoggedLine),
    /// The slot counts for nothing: a newer committed copy of its line is durable, or its
    /// transaction was given up.
    Dropped(LogSlot),
    /// The buffer, which counted for nothing, holds this page from now on.
    Buffered(BufferId, BufferedPage),
    /// The buffer counts for nothing: its page is on flash and mapped, or was written anew.
    Unbuffered(BufferId),
    /// The frame, which counted for nothing, holds these lines from now on, in every version that
    /// is written to it. Only with [`PowerLossProtection::Dram`](crate::PowerLossProtection::Dram).
    Framed(FrameId, KeptFrame),
    /// These lines of a frame that counts, count too.
    FramedMore(FrameId, LineMask),
    /// The frame counts for nothing: a newer copy of its page is durable, or the page was given up.
    Unframed(FrameId),
    /// Entry `at` of the TxLog says that the transaction is committed (ByteFS §4.3).
    Committed {
        /// Which entry.
        at: u32,
        /// Which transaction.
        tx: TxId,
    },
    /// Entry `at` of the TxLog is free: nothing of its transaction is left in the log.
    Forgotten {
        /// Which entry.
        at: u32,
    },
    /// The page is on flash there, and no longer where it was.
    Mapped(Lpa, Ppa),
    /// The page is nowhere: it reads as zeroes.
    Unmapped(Lpa),
    /// The flash page that ends with this unit is about to be programmed. Whatever became of it, it
    /// is not programmed again before its block is erased: a cut may have torn it, all its units.
    /// Blocks are programmed from their first page on.
    Begun(Ppa),
    /// The block was erased, so often by now; no page of it has begun.
    Erased(BlockAddr, u32),
    /// A program of the block has failed: it is never programmed again.
    Condemned(BlockAddr),
    /// The block is never used again. Nothing is mapped to it.
    Retired(BlockAddr),
}

/// The tables that records make up, as found after a power cut. Each iteration is in ascending
/// order of the first item.
pub trait Durable {
    /// Slots that count.
    fn logged(&self) -> impl Iterator<Item = (LogSlot, LoggedLine)>;
    /// Buffers that count.
    fn buffered(&self) -> impl Iterator<Item = (BufferId, BufferedPage)>;
    /// Frames that count.
    fn framed(&self) -> impl Iterator<Item = (FrameId, KeptFrame)>;
    /// Entries of the TxLog that are not free.
    fn committed(&self) -> impl Iterator<Item = (u32, TxId)>;
    /// Pages that are mapped.
    fn mapped(&self) -> impl Iterator<Item = (Lpa, Ppa)>;
    /// Blocks that ever began, were erased or retired.
    fn blocks(&self) -> impl Iterator<Item = (BlockAddr, BlockRecord)>;
}
