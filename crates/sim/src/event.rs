//! Everything that can happen, as one small enum.

use crate::request::MissRef;
use host::{HostLine, MissKind, MissSlot};
use soc::DeviceEvent;
use units::{CoreId, Lpa, RequestId, ThreadId};

const _: () = assert!(size_of::<Event>() == 24);

/// An event; what it means is in the handler of the same name.
// With a tag of a byte compilers copy it and the bytes behind it apart, which the processor then
// waits for.
#[derive(Clone, Copy, Debug)]
#[repr(u64)]
pub enum Event {
    /// A core goes on. Ignored if the core's epoch has moved on since.
    CoreRun {
        /// Which core.
        core: CoreId,
        /// The epoch it was scheduled in.
        epoch: u32,
    },
    /// The thread that the scheduler picked starts on its core.
    CoreStart(CoreId),
    /// The Long Delay Exception of a core is taken.
    LongDelay(CoreId),
    /// The system call or futex operation at which a core stands is executed.
    Sync(CoreId),
    /// The last instruction of a core's thread has retired.
    ThreadEnd(CoreId),
    /// A core whose thread's time slice is over has retired everything.
    SliceEnd(CoreId),
    /// A core's L2 miss arrives at L3.
    L3Access {
        /// Whose.
        core: CoreId,
        /// Its MSHR.
        slot: MissSlot,
        /// Which line.
        line: HostLine,
        /// What the core wants it for.
        kind: MissKind,
    },
    /// A line that a core writes back (`clwb`) arrives at L3.
    L3Persist {
        /// Whose instruction it was.
        core: CoreId,
        /// Which line.
        line: HostLine,
        /// Whether the core's own caches held newer bytes.
        is_dirty: bool,
    },
    /// A write-back of a core is acknowledged.
    Persisted(CoreId),
    /// A dirty line that left an L2 arrives at L3.
    L3WriteBack(HostLine),
    /// L3 grants a line whose data are on their way.
    Grant {
        /// Whom.
        core: CoreId,
        /// Its MSHR.
        slot: MissSlot,
    },
    /// A line reaches a core.
    Fill {
        /// Whose.
        core: CoreId,
        /// Its MSHR.
        slot: MissSlot,
    },
    /// Host DRAM has the line of an L3 miss.
    HostDramDone(MissRef),
    /// A request arrives at the device.
    DeviceArrive(RequestId),
    /// The answer to a request leaves the device.
    DeviceSend(RequestId),
    /// The answer to a request arrives at the host.
    HostArrive(RequestId),
    /// Something of the device's own.
    Device(DeviceEvent),
    /// The data of a thread that sleeps are due.
    DataDue(ThreadId),
    /// The notice that a page is in device DRAM reaches the host.
    PageArrived(Lpa),
    /// The MSI-X that offers a page reaches the host.
    Msix(Lpa),
    /// The host's handler begins to copy an offered page.
    MigrationStart(Lpa),
    /// The page table of a copied page has been changed.
    MigrationCommit(Lpa),
    /// The host's word that a page is promoted reaches the device.
    PromotionDone(Lpa),
    /// The tags of the page cache in host DRAM have been looked up for an L3 miss, in vain.
    PageMiss(MissRef),
    /// The operating system arms the next pages for hint faults.
    HintScan,
    /// The handler of a hint fault decides about the page.
    HintFault {
        /// Who ran into it.
        core: CoreId,
        /// Which page.
        lpa: Lpa,
    },
}
