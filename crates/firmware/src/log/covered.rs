//! Lines that a page in a buffer has replaced, where buffers are lost with the power.
//!
//! They are in no index any more, for the buffer is the page. But the device has answered for them,
//! and for the page it has not until a flush: after a cut they must be there. So each counts until
//! a program of the page is done whose buffer was taken no earlier than the one that replaced it,
//! and until then its half of the log is not free.

use alloc::vec::Vec;
use units::{LogSlot, Lpa};

/// A line that was replaced.
#[derive(Clone, Copy, Debug)]
struct Replaced {
    lpa: Lpa,
    /// Of the buffer that has replaced it, in the order of taking.
    age: u64,
    slot: LogSlot,
}

/// All of them, in the order in which they were replaced; of one page the older line first.
#[derive(Clone, Default)]
pub(super) struct Covered(Vec<Replaced>);

impl Covered {
    /// A buffer has replaced these lines of a page.
    pub(super) fn add(&mut self, lpa: Lpa, age: u64, slots: impl Iterator<Item = LogSlot>) {
        self.0.extend(slots.map(|slot| Replaced { lpa, age, slot }));
    }

    /// Takes the lines of a page that buffers have replaced which were taken until then; `each` is
    /// told of the slots, the older one of a line first: no cut may bring it back.
    pub(super) fn take(&mut self, lpa: Lpa, until: u64, mut each: impl FnMut(LogSlot)) {
        self.0.retain(|replaced| {
            let is_over = replaced.lpa == lpa && replaced.age <= until;
            if is_over {
                each(replaced.slot);
            }
            !is_over
        });
    }

    /// Whether there are any of which this holds.
    pub(super) fn has(&self, holds: impl Fn(LogSlot) -> bool) -> bool {
        self.0.iter().any(|replaced| holds(replaced.slot))
    }
}
