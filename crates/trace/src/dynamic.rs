//! Dynamic instructions: one executed instruction, or one piece of it, with its addresses.

use crate::inst::InstId;
use units::{LineAddr, Lpa, ThreadId};

/// An address in the capture's canonical page list: page number × 4 KiB + offset (D9).
///
/// Page numbers are dense and ordered by (address space, virtual page), so they do not depend on
/// the design that is simulated. Consecutive numbers are consecutive virtual pages whenever both
/// are touched; an access that crosses a page simply runs into the next number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct CanonicalAddr(u64);

impl CanonicalAddr {
    /// The address that many bytes into the canonical space.
    #[inline]
    pub const fn new(byte: u64) -> Self {
        Self(byte)
    }
    /// Bytes into the canonical space.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
    /// The canonical page, which is the LPA of a machine with 4 KiB pages.
    #[inline]
    pub const fn page(self) -> Lpa {
        Lpa::new(self.0 >> 12)
    }
    /// The line, for pages of 4 KiB.
    #[inline]
    pub const fn line(self) -> LineAddr {
        LineAddr::new(self.0 >> 6)
    }
    /// Offset in the page, in bytes.
    #[inline]
    pub const fn offset(self) -> u16 {
        (self.0 & 0xfff) as u16
    }
}

/// A load or a store: where and how many bytes (1 to 64; it may cross a line).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemAccess {
    /// First byte.
    pub addr: CanonicalAddr,
    /// Bytes accessed.
    pub bytes: u8,
}

impl MemAccess {
    /// The line of the first byte.
    #[inline]
    pub const fn first_line(self) -> LineAddr {
        self.addr.line()
    }
    /// The line of the last byte: another one when the access is split.
    #[inline]
    pub const fn last_line(self) -> LineAddr {
        CanonicalAddr::new(self.addr.get() + self.bytes as u64 - 1).line()
    }
}

/// A futex word, numbered densely over the capture.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct FutexId(u32);

impl FutexId {
    /// Futex number `index`.
    pub const fn new(index: u32) -> Self {
        Self(index)
    }
    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// How long a system call took when it was captured: bucket `n` holds 2ⁿ to 2ⁿ⁺¹ − 1 ns.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct DurationClass(u8);

impl DurationClass {
    /// The class of bucket `log2`, at most 63.
    pub const fn from_log2(log2: u8) -> Self {
        Self(if log2 < 64 { log2 } else { 63 })
    }
    /// Base-two logarithm of the nanoseconds, rounded down.
    pub const fn log2_nanoseconds(self) -> u8 {
        self.0
    }
}

/// A thread's wake number `count` (from 1): satisfied once that thread has executed that many
/// [`SyncEvent::FutexWake`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wake {
    /// The thread that woke.
    pub thread: ThreadId,
    /// Which of its wakes, counted from 1.
    pub count: u32,
}

/// What a system call did to other threads. Edges are those of the capture: they point to
/// something that happened before, so replaying them cannot deadlock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncEvent {
    /// Starts `child`, which runs no instruction before this.
    ThreadCreate {
        /// The thread that starts.
        child: ThreadId,
    },
    /// The thread's last instruction.
    ThreadExit,
    /// Waits until `child` has ended.
    Join {
        /// The thread waited for.
        child: ThreadId,
    },
    /// Wakes waiters of a futex; the thread's wake number `count`.
    FutexWake {
        /// The futex.
        futex: FutexId,
        /// Which of the thread's wakes this is, counted from 1.
        count: u32,
    },
    /// Slept on a futex until woken.
    FutexWait {
        /// The futex.
        futex: FutexId,
        /// The wake that ended the wait; `None` when it lies outside the captured region.
        woken_by: Option<Wake>,
    },
    /// Any other system call, and futex waits that did not sleep or timed out.
    Syscall {
        /// The system call's number on Linux x86-64.
        number: u16,
        /// How long it took under the capture tool.
        duration: DurationClass,
    },
}

/// One executed instruction, or one piece of it: at most one load and one store.
///
/// An instruction with more accesses (`rep movs`, gathers) becomes several pieces with the same
/// [`DynInst::inst`]; exactly the last of them [`counts`](DynInst::counts).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DynInst {
    /// Address of the load, or first half of a sync event.
    pub(crate) first: u64,
    /// Address of the store, or second half of a sync event.
    pub(crate) second: u64,
    pub(crate) inst: u32,
    pub(crate) flags: u8,
    pub(crate) load_bytes: u8,
    pub(crate) store_bytes: u8,
    pub(crate) sync: u8,
}

const NO_SYNC: u8 = 0;
const CREATE: u8 = 1;
const EXIT: u8 = 2;
const JOIN: u8 = 3;
const WAKE: u8 = 4;
const WAIT: u8 = 5;
const WAIT_UNMATCHED: u8 = 6;
const SYSCALL: u8 = 7;

impl DynInst {
    pub(crate) const TAKEN: u8 = 1;
    pub(crate) const COUNTS: u8 = 2;

    /// A piece of `inst` that touches no memory and counts.
    pub(crate) const fn plain(inst: u32) -> Self {
        Self {
            first: 0,
            second: 0,
            inst,
            flags: Self::COUNTS,
            load_bytes: 0,
            store_bytes: 0,
            sync: NO_SYNC,
        }
    }
    /// The static instruction.
    #[inline]
    pub const fn inst(&self) -> InstId {
        InstId::new(self.inst)
    }
    /// The load.
    #[inline]
    pub const fn load(&self) -> Option<MemAccess> {
        if self.load_bytes == 0 {
            return None;
        }
        Some(MemAccess {
            addr: CanonicalAddr::new(self.first),
            bytes: self.load_bytes,
        })
    }
    /// The store.
    #[inline]
    pub const fn store(&self) -> Option<MemAccess> {
        if self.store_bytes == 0 {
            return None;
        }
        Some(MemAccess {
            addr: CanonicalAddr::new(self.second),
            bytes: self.store_bytes,
        })
    }
    /// First byte and bytes of the load; no bytes without one.
    #[inline]
    pub const fn load_parts(&self) -> (u64, u8) {
        (self.first, self.load_bytes)
    }
    /// First byte and bytes of the store; no bytes without one.
    #[inline]
    pub const fn store_parts(&self) -> (u64, u8) {
        (self.second, self.store_bytes)
    }
    /// Whether a branch left the straight line; false for everything else.
    #[inline]
    pub const fn taken(&self) -> bool {
        self.flags & Self::TAKEN != 0
    }
    /// Whether the instruction is complete with this piece: the sum over a thread is its
    /// instruction count.
    #[inline]
    pub const fn counts(&self) -> bool {
        self.flags & Self::COUNTS != 0
    }
    /// Whether there is a sync event: cheaper than asking for it.
    #[inline]
    pub const fn has_sync(&self) -> bool {
        self.sync != NO_SYNC
    }
    /// What the system call did, on the instruction that made it.
    #[inline]
    pub fn sync(&self) -> Option<SyncEvent> {
        if self.sync == NO_SYNC {
            None
        } else {
            Some(self.unpack_sync())
        }
    }

    fn unpack_sync(&self) -> SyncEvent {
        let low = self.first as u32;
        let high = (self.first >> 32) as u32;
        let count = self.second as u32;
        let futex = FutexId::new(low);
        match self.sync {
            CREATE => SyncEvent::ThreadCreate {
                child: ThreadId::new(low),
            },
            EXIT => SyncEvent::ThreadExit,
            JOIN => SyncEvent::Join {
                child: ThreadId::new(low),
            },
            WAKE => SyncEvent::FutexWake { futex, count },
            WAIT => {
                let thread = ThreadId::new(high);
                SyncEvent::FutexWait {
                    futex,
                    woken_by: Some(Wake { thread, count }),
                }
            }
            WAIT_UNMATCHED => SyncEvent::FutexWait {
                futex,
                woken_by: None,
            },
            _ => SyncEvent::Syscall {
                number: low as u16,
                duration: DurationClass::from_log2(high as u8),
            },
        }
    }
    /// Attaches `event` to a piece without memory accesses.
    pub(crate) fn set_sync(&mut self, event: SyncEvent) {
        assert!(
            self.load_bytes == 0 && self.store_bytes == 0,
            "a system call has no operands"
        );
        let (tag, low, high, count) = match event {
            SyncEvent::ThreadCreate { child } => (CREATE, child.get(), 0, 0),
            SyncEvent::ThreadExit => (EXIT, 0, 0, 0),
            SyncEvent::Join { child } => (JOIN, child.get(), 0, 0),
            SyncEvent::FutexWake { futex, count } => (WAKE, futex.get(), 0, count),
            SyncEvent::FutexWait {
                futex,
                woken_by: Some(wake),
            } => (WAIT, futex.get(), wake.thread.get(), wake.count),
            SyncEvent::FutexWait {
                futex,
                woken_by: None,
            } => (WAIT_UNMATCHED, futex.get(), 0, 0),
            SyncEvent::Syscall { number, duration } => (
                SYSCALL,
                u32::from(number),
                u32::from(duration.log2_nanoseconds()),
                0,
            ),
        };
        self.sync = tag;
        self.first = u64::from(low) | u64::from(high) << 32;
        self.second = u64::from(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dynamic_instruction_is_three_words() {
        assert_eq!(core::mem::size_of::<DynInst>(), 24);
    }

    #[test]
    fn every_sync_event_is_read_back_as_it_was_attached() {
        let futex = FutexId::new(u32::MAX);
        let wake = Wake {
            thread: ThreadId::new(77),
            count: u32::MAX,
        };
        let duration = DurationClass::from_log2(33);
        for event in [
            SyncEvent::ThreadCreate {
                child: ThreadId::new(9),
            },
            SyncEvent::ThreadExit,
            SyncEvent::Join {
                child: ThreadId::new(u32::MAX),
            },
            SyncEvent::FutexWake { futex, count: 5 },
            SyncEvent::FutexWait {
                futex,
                woken_by: Some(wake),
            },
            SyncEvent::FutexWait {
                futex,
                woken_by: None,
            },
            SyncEvent::Syscall {
                number: 449,
                duration,
            },
        ] {
            let mut piece = DynInst::plain(3);
            assert_eq!(piece.sync(), None);
            piece.set_sync(event);
            assert_eq!(piece.sync(), Some(event));
            assert_eq!(piece.inst(), InstId::new(3));
        }
    }

    #[test]
    fn an_access_across_a_line_touches_two_lines() {
        let access = MemAccess {
            addr: CanonicalAddr::new(4096 - 4),
            bytes: 8,
        };
        assert_eq!(access.last_line().get(), access.first_line().get() + 1);
        assert_eq!(access.addr.page(), Lpa::new(0));
        assert_eq!(access.addr.offset(), 4092);
    }
}
