//! Pages on their way from flash into the data cache, and the requests that wait for them.
//!
//! One MSHR per page in flight, `ssd.mshr_count` of them (SkyByte Table II: 2048). The waiters of
//! all MSHRs lie in one slab as lists in order of arrival.

use crate::data_cache::MshrId;
use crate::platform::{Request, Served};
use alloc::vec::Vec;
use units::{FrameId, LineMask, Lpa, Time};

const NONE: u32 = u32::MAX;

/// A request that has been looked up and not answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pending {
    pub(crate) request: Request,
    /// When it came to the device.
    pub(crate) arrived: Time,
    /// When the data cache has been looked up.
    pub(crate) cache_ready: Time,
    /// When the log index has been looked up; without a log the same.
    pub(crate) log_ready: Time,
}

impl Pending {
    /// A request that arrives now and needs no lookup.
    pub(crate) fn ready_at(now: Time, request: Request) -> Self {
        Self {
            request,
            arrived: now,
            cache_ready: now,
            log_ready: now,
        }
    }

    /// When it is known that neither log nor data cache holds the line.
    pub(crate) fn miss_ready(&self) -> Time {
        self.cache_ready.max(self.log_ready)
    }
}

/// A request that waits for a page in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Waiter {
    pub(crate) pending: Pending,
    /// When it began to wait for flash; before, it waited for room.
    pub(crate) since: Time,
    /// As what it will be counted.
    pub(crate) served: Served,
}

/// A page in flight.
#[derive(Clone)]
pub(crate) struct Mshr {
    pub(crate) lpa: Lpa,
    pub(crate) frame: FrameId,
    /// Lines of the frame that are newer than what flash will deliver.
    pub(crate) written: LineMask,
    /// When Algorithm 1 expects the page.
    pub(crate) expected: Time,
    /// GC stands before the fetch.
    pub(crate) is_behind_gc: bool,
    /// The frame has the bytes already, from a buffer that was on its way to flash.
    pub(crate) is_copied: bool,
    /// A read of the page was answered with SkyByte-Delay.
    pub(crate) has_delayed: bool,
    /// The page is fetched ahead; also after a demand access has joined.
    pub(crate) is_prefetch: bool,
    /// The page went to the host: it leaves the cache as soon as it comes.
    pub(crate) is_unwanted: bool,
    first: u32,
    last: u32,
}

#[derive(Clone)]
struct Node {
    waiter: Waiter,
    next: u32,
}

/// All MSHRs.
#[derive(Clone)]
pub(crate) struct MshrFile {
    entries: Vec<Option<Mshr>>,
    free: Vec<MshrId>,
    nodes: Vec<Node>,
    free_nodes: Vec<u32>,
}

impl MshrFile {
    pub(crate) fn new(count: u32) -> Self {
        Self {
            entries: (0..count).map(|_| None).collect(),
            free: (0..count).rev().map(MshrId::new).collect(),
            nodes: Vec::new(),
            free_nodes: Vec::new(),
        }
    }

    pub(crate) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    pub(crate) fn free_count(&self) -> usize {
        self.free.len()
    }

    pub(crate) fn in_use(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(crate) fn waiter_count(&self) -> usize {
        self.nodes.len() - self.free_nodes.len()
    }

    /// Waiters in the list of an MSHR in use; walks the list.
    pub(crate) fn waiters_of(&self, id: MshrId) -> usize {
        let node = |at: u32| (at != NONE).then(|| &self.nodes[at as usize]);
        core::iter::successors(node(self.get(id).first), |waiter| node(waiter.next)).count()
    }

    /// Takes an MSHR for a page that nothing is known of yet.
    pub(crate) fn open(&mut self, lpa: Lpa, frame: FrameId) -> MshrId {
        let id = self
            .free
            .pop()
            .expect("a miss is tracked only when an MSHR is free");
        self.entries[id.index()] = Some(Mshr {
            lpa,
            frame,
            written: LineMask::EMPTY,
            expected: Time::ZERO,
            is_behind_gc: false,
            is_copied: false,
            has_delayed: false,
            is_prefetch: false,
            is_unwanted: false,
            first: NONE,
            last: NONE,
        });
        id
    }

    pub(crate) fn get(&self, id: MshrId) -> &Mshr {
        self.entries[id.index()]
            .as_ref()
            .expect("a page in flight has an MSHR")
    }

    pub(crate) fn get_mut(&mut self, id: MshrId) -> &mut Mshr {
        self.entries[id.index()]
            .as_mut()
            .expect("a page in flight has an MSHR")
    }

    /// Adds a waiter at the end of the list.
    pub(crate) fn wait(&mut self, id: MshrId, waiter: Waiter) {
        let node = Node { waiter, next: NONE };
        let at = match self.free_nodes.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                u32::try_from(self.nodes.len() - 1).expect("fewer waiters than request ids")
            }
        };
        let mshr = self.get_mut(id);
        let last = core::mem::replace(&mut mshr.last, at);
        if last == NONE {
            mshr.first = at;
        } else {
            self.nodes[last as usize].next = at;
        }
    }

    /// Frees the MSHR; its waiters are to be taken one by one with [`Self::next_waiter`].
    pub(crate) fn close(&mut self, id: MshrId) -> Mshr {
        let mshr = self.entries[id.index()].take();
        self.free.push(id);
        mshr.expect("a page that comes has an MSHR")
    }

    /// Takes the first waiter of a closed MSHR.
    pub(crate) fn next_waiter(&mut self, mshr: &mut Mshr) -> Option<Waiter> {
        if mshr.first == NONE {
            return None;
        }
        let node = &self.nodes[mshr.first as usize];
        let waiter = node.waiter;
        self.free_nodes.push(mshr.first);
        mshr.first = node.next;
        Some(waiter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::RequestOp;
    use units::{LineAddr, RequestId};

    fn waiter(id: u32) -> Waiter {
        let request = Request {
            id: RequestId::new(id),
            op: RequestOp::PromotionRead,
            line: LineAddr::new(0),
            source: None,
        };
        Waiter {
            pending: Pending {
                request,
                arrived: Time::ZERO,
                cache_ready: Time::ZERO,
                log_ready: Time::ZERO,
            },
            since: Time::ZERO,
            served: Served::Flash,
        }
    }

    #[test]
    fn waiters_leave_in_order_of_arrival_and_their_places_are_reused() {
        let mut file = MshrFile::new(2);
        for round in 0..3 {
            let a = file.open(Lpa::new(1), FrameId::new(0));
            let b = file.open(Lpa::new(2), FrameId::new(1));
            assert!(!file.has_free());
            for id in [1, 2, 3] {
                file.wait(a, waiter(id));
                file.wait(b, waiter(10 * id));
            }
            assert_eq!(file.waiter_count(), 6, "round {round}");
            assert_eq!((file.waiters_of(a), file.waiters_of(b)), (3, 3));
            for (mshr, factor) in [(b, 10), (a, 1)] {
                let mut closed = file.close(mshr);
                let order: Vec<u32> = core::iter::from_fn(|| file.next_waiter(&mut closed))
                    .map(|waiter| waiter.pending.request.id.get())
                    .collect();
                assert_eq!(order, [factor, 2 * factor, 3 * factor]);
            }
            assert_eq!((file.in_use(), file.waiter_count()), (0, 0));
            assert_eq!(file.nodes.len(), 6);
        }
    }
}
