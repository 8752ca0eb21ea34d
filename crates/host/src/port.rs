//! The border of a core: what it executes, and where its misses go.

use crate::program::Program;
use std::num::NonZeroU8;
use trace::SyncEvent;
use units::{CoreId, LineInPage, Lpa, PageSize, Picos, Time};

/// A line of memory, named independently of where its page lives.
///
/// Three regions share one number space: data (canonical page × 64 + line in the page), page-table
/// lines (the eight leaf entries of eight consecutive data pages) and code. 32 bits hold 192 GiB of
/// data, far beyond any capture's canonical page list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct HostLine(u32);

/// What a [`HostLine`] is a line of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Region {
    /// A line of a canonical data page.
    Data(Lpa, LineInPage),
    /// A line of leaf page-table entries; lives in host DRAM.
    PageTable(u32),
    /// A line of code; lives in host DRAM.
    Code(u32),
}

impl HostLine {
    /// First line that is not data.
    const PAGE_TABLE: u32 = 0xc000_0000;
    /// First line of code.
    const CODE: u32 = 0xd000_0000;
    /// No line: the tag of an empty way. The last code line is never used.
    pub(crate) const NONE: u32 = u32::MAX;
    /// Data pages that fit in the number space.
    pub const MAX_DATA_PAGES: u64 = (Self::PAGE_TABLE / 64) as u64;

    /// Line `line` of canonical page `page`.
    pub fn data(page: Lpa, line: LineInPage) -> Self {
        assert!(
            page.get() < Self::MAX_DATA_PAGES,
            "canonical pages fit in 192 GiB"
        );
        Self((page.get() as u32) << 6 | u32::from(line.get()))
    }
    /// The data line that holds byte `byte` of the canonical space.
    #[inline]
    pub const fn of_byte(byte: u64) -> Self {
        Self((byte >> 6) as u32)
    }
    /// Code line `index` of the program.
    pub const fn code(index: u32) -> Self {
        assert!(index < Self::NONE - Self::CODE, "code fits in 51 GiB");
        Self(Self::CODE + index)
    }
    /// The line of the leaf page-table entry of data page `page`.
    #[inline]
    pub const fn page_table(page: u32) -> Self {
        Self(Self::PAGE_TABLE + (page >> 3))
    }
    /// The line with this raw number, as [`HostLine::get`] gives it.
    #[inline]
    pub(crate) const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }
    /// The raw number.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }
    /// The 4 KiB that a data line is of.
    #[inline]
    pub(crate) const fn chunk(self) -> u32 {
        self.0 >> 6
    }
    /// What it is a line of.
    pub fn region(self) -> Region {
        match self.0 {
            code @ Self::CODE.. => Region::Code(code - Self::CODE),
            table @ Self::PAGE_TABLE.. => Region::PageTable(table - Self::PAGE_TABLE),
            data => Region::Data(
                Lpa::new(u64::from(data) / u64::from(PageSize::KIB_4.line_count())),
                LineInPage::new((data & 63) as u16),
            ),
        }
    }
    /// Whether this is a line of a data page.
    #[inline]
    pub const fn is_data(self) -> bool {
        self.0 < Self::PAGE_TABLE
    }
}

/// Why a core reads a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MissKind {
    /// A load waits for it.
    Load,
    /// A retired store wants to write it.
    Ownership,
    /// The front end waits for code.
    Fetch,
    /// A page walk reads a leaf page-table entry.
    Walk,
}

/// An L2 MSHR of one core. Carries a generation, so that an answer that comes after the MSHR was
/// freed (squash) is recognised even if the MSHR is in use again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MissSlot(u32);

impl MissSlot {
    /// MSHRs a core may have.
    pub const MAX: u32 = 1 << Self::INDEX_BITS;
    const INDEX_BITS: u32 = 10;

    /// The MSHR number `index` in its use number `generation`.
    pub const fn new(index: u32, generation: u32) -> Self {
        Self(generation << Self::INDEX_BITS | index)
    }
    /// The number of the MSHR, below `cpu.l2_mshrs`.
    #[inline]
    pub const fn index(self) -> usize {
        (self.0 & (Self::MAX - 1)) as usize
    }
    /// The slot as it is stored.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// What lies beyond a core's L2: implemented by the simulator.
pub trait Uncore {
    /// Reads a line for an MSHR of the core's L2; the request leaves L2 at `at` (now or later). The
    /// data comes back as [`Core::on_fill`](crate::core::Core::on_fill), never from within the
    /// call.
    fn read(&mut self, at: Time, core: CoreId, slot: MissSlot, line: HostLine, kind: MissKind);
    /// Takes a dirty line that L2 has evicted.
    fn write_back(&mut self, at: Time, core: CoreId, line: HostLine);
    /// A line is to be written back and to stay in the caches (`clwb`). `is_dirty`: the core's own
    /// caches held newer bytes. Acknowledged by
    /// [`Core::on_persisted`](crate::core::Core::on_persisted), never from within the call.
    fn persist(&mut self, at: Time, core: CoreId, line: HostLine, is_dirty: bool);
    /// Forgets a read: everything that waited for it was squashed and the MSHR is free (SkyByte
    /// §III-A). An answer that still comes is ignored by the core.
    fn cancel(&mut self, core: CoreId, slot: MissSlot);
    /// A page walk of the core ends at `at`. Gives what a hint fault takes from the core, and from
    /// the access; nothing if the page has its right of access.
    #[inline]
    fn walked(&mut self, _at: Time, _core: CoreId, _page: Lpa) -> Picos {
        Picos::ZERO
    }
}

/// What lies beyond a core's L2 during functional warm-up: everything happens at once.
pub trait WarmUncore {
    /// Reads a line.
    fn read(&mut self, core: CoreId, line: HostLine, kind: MissKind);
    /// Takes a dirty line that L2 has evicted.
    fn write_back(&mut self, core: CoreId, line: HostLine);
    /// A line is to be written back and to stay in the caches.
    fn persist(&mut self, core: CoreId, line: HostLine, is_dirty: bool);
    /// A page walk ends.
    #[inline]
    fn walked(&mut self, _core: CoreId, _page: Lpa) {}
}

/// A load or a store: where and how many bytes (1 to 64; it may cross a line).
///
/// An optional one takes no room for whether there is one: every instruction has two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// First byte, counted over the canonical space (D9).
    pub byte: u64,
    size: NonZeroU8,
}

impl Access {
    /// The access of `size` bytes from `byte` on; none of no bytes.
    #[inline]
    pub const fn new(byte: u64, size: u8) -> Option<Self> {
        match NonZeroU8::new(size) {
            Some(size) => Some(Self { byte, size }),
            None => None,
        }
    }
    /// Bytes accessed.
    #[inline]
    pub const fn size(self) -> u64 {
        self.size.get() as u64
    }
    /// The last byte.
    #[inline]
    pub const fn last(self) -> u64 {
        self.byte + self.size() - 1
    }
}

/// One dynamic instruction, or one piece of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Index into the program's instructions.
    pub inst: u32,
    /// The load.
    pub load: Option<Access>,
    /// The store.
    pub store: Option<Access>,
    /// Whether a branch was taken.
    pub taken: bool,
    /// Whether the instruction is complete with this piece.
    pub counts: bool,
    /// Whether [`InstructionSource::sync`] has an event.
    pub has_sync: bool,
}

/// Dynamic instructions of one thread, with a memory of the recent ones so that squashed
/// instructions can be fetched again (D12).
pub trait InstructionSource {
    /// The static instructions that [`Step::inst`] counts in.
    fn program(&self) -> &Program;
    /// The instruction at the current position; `None` at the end.
    fn peek(&mut self) -> Option<Step>;
    /// The sync event of the instruction at the current position.
    fn sync(&mut self) -> Option<SyncEvent>;
    /// Moves one instruction on; only after `peek` returned one.
    fn advance(&mut self);
    /// The number of the instruction at the current position, from 0.
    fn position(&self) -> u64;
    /// Goes back to `position`, which was not released.
    fn rewind_to(&mut self, position: u64);
}

/// Why [`Core::run`](crate::core::Core::run) returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pause {
    /// The next instruction would be dispatched at `at`, not before the horizon. Call again then.
    Horizon {
        /// When the next instruction can be dispatched.
        at: Time,
    },
    /// Nothing can be done before a fill. Call again when `on_fill` returns true.
    Waiting,
    /// The oldest unretired instruction is a load whose access was answered by SkyByte-Delay: the
    /// Long Delay Exception is raised.
    LongDelay {
        /// When it is raised.
        at: Time,
    },
    /// Everything older has retired and the next instruction has a sync event. The caller replays
    /// it and calls [`Core::complete_sync`](crate::core::Core::complete_sync) once.
    Sync {
        /// When the instruction would retire by itself.
        at: Time,
        /// What it does.
        event: SyncEvent,
    },
    /// The thread has no more instructions and all have retired.
    End {
        /// When the last one retired.
        at: Time,
    },
}

/// Who waits for an access that was answered by SkyByte-Delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Delayed {
    /// Loads of the window: they are flagged, and `run` will return [`Pause::LongDelay`] once one
    /// of them is the oldest unretired instruction. Call `run` now.
    pub load_waits: bool,
    /// Something that cannot switch (a retired store, a page walk, instruction fetch): the access
    /// must be re-issued (D13).
    pub other_waits: bool,
}

/// What becomes of squashed instructions at [`Core::except`](crate::core::Core::except).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Squash {
    /// They are gone, and so are the misses that only they wait for.
    AtOnce,
    /// They are gone, but their misses go on and fill the caches.
    MissesRunOn,
    /// They stay, execute and retire, without counting as retired.
    RunsOn,
}

/// What [`Core::squash`](crate::core::Core::squash) threw away.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Squashed {
    /// Pieces of the window that will be executed again.
    pub instructions: u64,
    /// MSHRs freed.
    pub cancelled: u64,
    /// From when on the core is free: the youngest retired instruction has retired, and it is not
    /// before the caller's present.
    pub at: Time,
}
