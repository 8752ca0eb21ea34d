//! The border between the firmware and whatever runs it.
//!
//! One trait to the outside. Observation and disturbance are wrappers that implement [`Platform`]
//! by holding another one; the firmware itself has no test hook and no logger.

use crate::durable::Record;
use crate::work::Work;
use units::{
    BlockAddr, Bytes, CoreId, FrameId, LineAddr, LineInPage, LineMask, LogSlot, Lpa, PageSize,
    Picos, Ppa, RequestId, Time, TxId,
};

units::ids! {
    /// A page buffer of the controller: coalescing, write-back and relocation go through one.
    BufferId, "buffer";
    /// A NAND operation in flight; also names the page register that holds what a read fetched.
    NandTag, "tag";
    /// A timer that the firmware has set; meaning is the firmware's own.
    Timer, "timer";
}

/// What the host asks of a line, of consecutive lines of one page, of a page, or of all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestOp {
    /// CXL.mem MemRd. If `delay_allowed`, the device may answer [`Answer::Delay`] instead of data
    /// (SkyByte §III-A C2); a re-issued or non-demand read must be answered with data (D13).
    Read {
        /// Whether the SkyByte-Delay answer is acceptable.
        delay_allowed: bool,
    },
    /// A read by the host bridge that copies a page under promotion: the newest bytes are
    /// returned; it counts neither for hotness nor for the eviction policy (D20).
    PromotionRead,
    /// A store's fetch of its line, taken for a write (SkyByte's artifact). A device with a log
    /// appends the line and answers [`Answer::Written`] at once; one without answers as to a read,
    /// and the page is dirty from then on.
    Own {
        /// Whether the SkyByte-Delay answer is acceptable.
        delay_allowed: bool,
    },
    /// CXL.mem MemWr of a whole line.
    Write,
    /// The byte port reads lines of one page: `Request::line` and those after it.
    ReadRun {
        /// How many; the last one is in the same page.
        count: u16,
    },
    /// The byte port writes lines of one page: `Request::line` and those after it. Each line is
    /// written or not when power fails; all of a transaction's or none if it is of one.
    WriteRun {
        /// How many; the last one is in the same page.
        count: u16,
        /// The transaction that the lines are of, which the first run of it opens;
        /// [`TxId::NONE`]: of none, committed by being written.
        tx: TxId,
    },
    /// The block port reads the page that `Request::line` is the first line of.
    ReadPage,
    /// The block port writes that page as a whole. Not part of a transaction (ByteFS §4.4).
    WritePage,
    /// As `WritePage`; what it is answered with survives a power cut (FUA).
    WritePageThrough,
    /// The block port gives the page up: it reads as zeroes from now on.
    Trim,
    /// What was answered as written before survives a power cut once this is answered.
    /// `Request::line` says nothing.
    Flush,
    /// ByteFS §4.3, COMMIT(TxID): the transaction's lines are written, all of them.
    /// `Request::line` says nothing.
    Commit {
        /// Which one.
        tx: TxId,
    },
    /// The transaction's lines are as if never written. `Request::line` says nothing.
    Abort {
        /// Which one.
        tx: TxId,
    },
}

impl RequestOp {
    /// Whether bytes change.
    #[inline]
    pub const fn is_write(self) -> bool {
        matches!(
            self,
            Self::Write
                | Self::Own { .. }
                | Self::WriteRun { .. }
                | Self::WritePage
                | Self::WritePageThrough
                | Self::Trim
        )
    }
    /// Whether it is of a whole page, through the block port.
    #[inline]
    pub const fn is_page(self) -> bool {
        matches!(
            self,
            Self::ReadPage | Self::WritePage | Self::WritePageThrough | Self::Trim
        )
    }
    /// The transaction that it writes under.
    #[inline]
    pub const fn transaction(self) -> TxId {
        match self {
            Self::WriteRun { tx, .. } => tx,
            _ => TxId::NONE,
        }
    }
    /// Lines that it is of, beginning with `Request::line`, on a device with pages of `page`.
    #[inline]
    pub const fn line_count(self, page: PageSize) -> u16 {
        match self {
            Self::Read { .. } | Self::PromotionRead | Self::Own { .. } | Self::Write => 1,
            Self::ReadRun { count } | Self::WriteRun { count, .. } => count,
            Self::ReadPage | Self::WritePage | Self::WritePageThrough | Self::Trim => {
                page.line_count()
            }
            Self::Flush | Self::Commit { .. } | Self::Abort { .. } => 0,
        }
    }
}

/// A host request that has arrived at the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Name under which it is answered, exactly once; also names its payload: [`Cell::Host`] of a
    /// line, [`Cell::HostLine`] of a run, [`PagePlace::Host`] of a page.
    pub id: RequestId,
    /// What is asked.
    pub op: RequestOp,
    /// Of which line; of a page its first.
    pub line: LineAddr,
    /// On behalf of which host core; None if the host does not say, as for a write-back or a copy.
    pub source: Option<CoreId>,
}

impl Request {
    /// The lines of its page that it is of, in ascending order.
    #[inline]
    pub(crate) fn lines(&self, page: PageSize) -> impl Iterator<Item = LineInPage> + use<> {
        let first = self.line.in_page(page).get();
        (first..first + self.op.line_count(page)).map(LineInPage::new)
    }
}

/// How a request is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// S2M DRS with the line.
    Data,
    /// S2M NDR Cmp: the line is in battery-backed DRAM or in the data cache.
    Written,
    /// S2M NDR SkyByte-Delay (111b): the data will take longer than the threshold.
    Delay,
    /// Nothing was done, for this reason. Of a run that had to wait for room until the device
    /// became read-only some lines may be written; a page write that had to be on flash before its
    /// answer may be read until the power goes.
    Refused(Refusal),
    /// Flash has lost bytes that were asked for: no data, or such as must not be used (S2M DRS with
    /// the poison bit).
    Poison,
}

/// Why a request was not done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// So many blocks of the flash are lost that nothing more may be written, or that there is no
    /// room at the moment and nothing makes any.
    ReadOnly,
    /// The run has no line or goes beyond its page.
    BadRun,
    /// The device has nothing that does it: no write log for transactions.
    Unsupported,
    /// A line of it was written by a transaction that is open, and is not of it.
    Conflict {
        /// The transaction that has to end first.
        with: TxId,
    },
    /// No transaction of that name has written anything since the last one of that name ended, or
    /// its commit has come already and waits.
    UnknownTransaction,
    /// A transaction of that name is committed and still in the TxLog, or is to reserve room and
    /// has begun: another name is needed.
    NameInUse,
    /// The transaction is larger than what the log keeps of transactions that are open.
    TooLarge,
    /// Transactions that are open take up what the log keeps of them; one has to end first.
    NoRoom,
    /// The transaction has reserved room for fewer lines.
    BeyondReservation,
}

/// Where the answer came from, for the request breakdown (SkyByte Fig. 16).
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum Served {
    /// The line was in the write log.
    LogHit,
    /// The page was in the data cache.
    CacheHit,
    /// The page was in a controller buffer on its way to flash.
    BufferHit,
    /// The page was fetched from flash for this request.
    Flash,
    /// The page was already being fetched for another request.
    MergedMiss,
    /// The page is not mapped: no NAND was involved (D9).
    Unmapped,
    /// A write, absorbed by log, data cache or buffer.
    Write,
}

/// How long each part took; they add up to the time from arrival to answer exactly (B6).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Breakdown {
    /// Waiting for room: log full, no MSHR, no frame to evict.
    pub stall: Picos,
    /// Index lookup (log, data cache), including waiting for the lookup pipeline.
    pub index: Picos,
    /// Device DRAM.
    pub dram: Picos,
    /// Flash: queue of the die, tR, channel transfer.
    pub flash: Picos,
}

/// An answer to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Response {
    /// Which request.
    pub request: RequestId,
    /// With data, done, or refused and why.
    pub answer: Answer,
    /// When the answer leaves the device; not before the call.
    pub at: Time,
    /// From where.
    pub served: Served,
    /// Where the time since arrival went.
    pub breakdown: Breakdown,
}

/// A place that holds one line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cell {
    /// The payload of a host request: source of a write, destination of a read.
    Host(RequestId),
    /// A line of the payload of a run, counted from its first.
    HostLine(RequestId, LineInPage),
    /// A slot of the write log.
    Log(LogSlot),
    /// A line of a page-sized place.
    Page(PagePlace, LineInPage),
    /// A line of the window, counted from its first.
    Window(LineAddr),
}

/// A place that holds one page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PagePlace {
    /// A frame of the data cache.
    Frame(FrameId),
    /// A controller buffer.
    Buffer(BufferId),
    /// The payload of a page request: source of a write, destination of a read.
    Host(RequestId),
    /// What the finished read with this tag fetched, or of one that goes on the lines that have
    /// come; valid during `on_nand_done` and `on_lines` only.
    Register(NandTag),
    /// An unmapped page: all zeroes. Only a source.
    Zero,
}

/// Work that the NAND is asked to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NandOp {
    /// Fetch a unit into the register of the tag.
    Read {
        /// Which unit.
        ppa: Ppa,
    },
    /// Program a flash page. The platform takes the bytes of `from` when the command is handed
    /// over; the firmware keeps the buffer until the operation is done all the same, because reads
    /// of the page are served from it. If the flash page has more units, those that are filled were
    /// handed over just before ([`Platform::load_unit`]); what is left holds nothing until the
    /// block is erased.
    Program {
        /// The first unit of the flash page.
        ppa: Ppa,
        /// Whose bytes the first unit gets: written to the page's spare area, with them.
        lpa: Lpa,
        /// Source of the bytes.
        from: PagePlace,
    },
    /// Erase a block.
    Erase {
        /// Which block.
        block: BlockAddr,
    },
}

/// A NAND operation with the name under which its completion comes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NandCommand {
    /// Name; unique among operations in flight.
    pub tag: NandTag,
    /// What to do.
    pub op: NandOp,
    /// Whether log compaction asks for it.
    pub is_compaction: bool,
}

/// How a NAND operation failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NandFault {
    /// The flash page was not programmed, none of its units; it is not read, nor programmed before
    /// its block is erased.
    ProgramFailed,
    /// The block was not erased; it is not used any more.
    EraseFailed,
    /// The page cannot be corrected, however it is read: every line of the register is poison.
    Uncorrectable,
}

/// What the firmware may do to the world.
///
/// A generic parameter, never `dyn`. Methods that return a [`Time`] serve in order of call (FIFO
/// resources, for which the completion is known at once: architecture B4); everything else
/// completes by a later call of the firmware.
pub trait Platform {
    /// The firmware has this done: the unit begins at `at` or when it is free. Returns when it is
    /// done. What it takes is the platform's to know ([`crate::WorkCosts`]).
    fn charge(&mut self, at: Time, work: Work) -> Time;

    /// Does work that is charged next. A platform that measures takes the time of `act` for what
    /// that charge costs; any other one just has it done.
    #[inline(always)]
    fn timed<R>(&mut self, work: Work, act: impl FnOnce(&mut Self) -> R) -> R
    where
        Self: Sized,
    {
        let _ = work;
        act(self)
    }

    /// Whether what work takes is measured, or was. The firmware then looks up once more what it
    /// looks up in several places, and times that; and it does as software does, one thing at a
    /// time and nothing in vain.
    #[inline(always)]
    fn measures(&self) -> bool {
        false
    }

    /// What the work that is charged next took, where that is measured.
    #[inline(always)]
    fn took(&mut self, work: Work, time: Picos) {
        let _ = (work, time);
    }

    /// Moves `size` bytes to (`is_write`) or from device DRAM at `address` (an offset in the
    /// device's DRAM), starting at `at` or when the DRAM is free. Returns when they have moved.
    fn dram(&mut self, at: Time, address: Bytes, size: Bytes, is_write: bool) -> Time;

    /// As [`Platform::dram`], for copies that nobody waits for: a page on its way between flash,
    /// frame and buffer, and lines that go with it. Accesses of [`Platform::dram`] may go ahead of
    /// it (`ssd.dram_order`); what it returns is then when it is done if none does.
    #[inline]
    fn dram_behind(&mut self, at: Time, address: Bytes, size: Bytes, is_write: bool) -> Time {
        self.dram(at, address, size, is_write)
    }

    /// Data plane only: whether it is of use to say that lines of the log are asked for soon.
    #[inline(always)]
    fn foresees(&self) -> bool {
        false
    }

    /// Data plane only: the line of a slot is asked for soon, and what is known of it changes then.
    #[inline(always)]
    fn foresee(&mut self, slot: LogSlot) {
        let _ = slot;
    }

    /// Data plane only: copies one line. Takes no time of its own.
    fn copy_line(&mut self, from: Cell, to: Cell);

    /// Data plane only: copies the lines of `lines` from a page to a page.
    fn copy_page(&mut self, from: PagePlace, to: PagePlace, lines: LineMask);

    /// Data plane only: the program that is handed over next fills this unit of its flash page,
    /// too, with the bytes that are in `from` now. Never called for the first unit of a flash page.
    fn load_unit(&mut self, ppa: Ppa, lpa: Lpa, from: PagePlace);

    /// Starts a NAND operation at `at` (now or later). Its end comes back as
    /// `Controller::on_nand_done`, or `Controller::on_nand_failed`, with the tag.
    fn nand(&mut self, at: Time, command: NandCommand);

    /// Somebody waits for this line of what the operation with this tag reads, which was handed
    /// over before. Flash that can bring it before the others does (`nand.transfer`), and says so
    /// with `Controller::on_lines`; the end of the operation says that all lines are there.
    #[inline]
    fn wants(&mut self, tag: NandTag, line: LineInPage) {
        let _ = (tag, line);
    }

    /// When the operation with this tag, handed over before, will be done, if that is certain.
    /// Asked only with `ftl.estimator = exact`.
    fn expected_end(&self, tag: NandTag) -> Option<Time> {
        let _ = tag;
        None
    }

    /// Whether a line that the payload of this read has been given is poison.
    ///
    /// Data plane only, and where poison lives: the bytes of every place may be poison, line by
    /// line. Those in the register of a read that failed are ([`NandFault::Uncorrectable`]). A copy
    /// carries poison along, and bytes that are not poison clear it where they go; a program puts
    /// it into the page's spare area, from where a read brings it back. So the firmware merges and
    /// moves poison like any bytes, and it ends where the line is written anew.
    #[inline]
    fn is_poisoned(&self, request: RequestId) -> bool {
        let _ = request;
        false
    }

    /// Answers a request, once.
    fn respond(&mut self, response: Response);

    /// Asks the host, by MSI-X, to promote a page (§III-C). The host answers with
    /// `Controller::on_promotion_done` or `Controller::on_promotion_refused`.
    fn request_promotion(&mut self, at: Time, lpa: Lpa);

    /// Tells the host, by MSI-X, that a page is in device DRAM at `at` of which a read was answered
    /// with [`Answer::Delay`] (`os.wake = on_data`, D11). A host that does not sleep until then has
    /// no use for it: nothing is done if this is left out.
    fn page_arrived(&mut self, at: Time, lpa: Lpa) {
        let _ = (at, lpa);
    }

    /// Changes what survives a power cut beside the bytes. Comes after the copies that it vouches
    /// for, and before the answer that relies on it. Takes no time of its own: the device DRAM that
    /// holds it is battery-backed and written in passing. A platform whose power never fails keeps
    /// nothing.
    #[inline]
    fn record(&mut self, record: Record) {
        let _ = record;
    }

    /// Asks for `Controller::on_timer` at `at`.
    fn wake_at(&mut self, at: Time, timer: Timer);
}
