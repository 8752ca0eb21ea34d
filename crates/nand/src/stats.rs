//! What the flash did.

use crate::Kind;
use units::Picos;

/// Counters of one kind of operation. For completed commands `latency = wait + channel_wait +
/// suspended + retry_time + completed × (service without waiting)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KindStats {
    /// Commands submitted.
    pub submitted: u64,
    /// Commands completed.
    pub completed: u64,
    /// Sum over completed commands of the time from submission until the die took them up.
    pub wait: Picos,
    /// Sum over completed commands of the time the die waited for its channel's bus.
    pub channel_wait: Picos,
    /// Sum over completed commands of the time they were suspended, suspension and resumption
    /// included.
    pub suspended: Picos,
    /// Times that completed commands read their page again.
    pub retries: u64,
    /// Time that took.
    pub retry_time: Picos,
    /// Completed commands that failed.
    pub failed: u64,
    /// Sum over completed commands of the time from submission to end.
    pub latency: Picos,
}

/// Counters of the flash.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NandStats {
    /// By kind, in the order of [`Kind::ALL`].
    pub kinds: [KindStats; 3],
    /// Programs and erases suspended by a read; one operation may be suspended several times. A
    /// program that gives way before it begins is none.
    pub suspensions: u64,
    /// Time that cells were read, programmed or erased, summed over dies, up to the end of the
    /// last phase that ended.
    pub die_busy: Picos,
    /// Time that dies were occupied: `die_busy`, transfers, waits for the bus and `t_suspend`.
    pub die_occupied: Picos,
    /// Time that buses carried pages, summed over channels, including transfers still under way.
    pub channel_busy: Picos,
}

impl NandStats {
    /// Counters of one kind.
    #[inline]
    pub const fn of(&self, kind: Kind) -> &KindStats {
        &self.kinds[kind.index()]
    }
    #[inline]
    pub(crate) const fn of_mut(&mut self, kind: Kind) -> &mut KindStats {
        &mut self.kinds[kind.index()]
    }
    /// Commands submitted and not completed.
    pub fn in_flight(&self) -> u64 {
        self.kinds
            .iter()
            .map(|kind| kind.submitted - kind.completed)
            .sum()
    }
}
