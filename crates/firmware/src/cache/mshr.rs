//! Pages on their way from flash into the data cache, and the requests that wait for them.
//!
//! One MSHR per page in flight, `ssd.cache.mshr_count` of them (SkyByte Table II: 2048). The
//! waiters of all MSHRs lie in one slab as lists in order of arrival.

use crate::data_cache::MshrId;
use crate::ftl::Estimate;
use crate::platform::{NandTag, Request, Served};
use alloc::vec::Vec;
use units::{FrameId, LineInPage, LineMask, Lpa, Time};

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
pub(super) struct Mshr {
    lpa: Lpa,
    frame: FrameId,
    /// Lines of the frame that are newer than what flash will deliver.
    written: LineMask,
    /// Lines that have come from flash before the others.
    brought: LineMask,
    /// The read that fetches the page.
    tag: NandTag,
    /// When Algorithm 1 expects the page.
    expected: Time,
    /// GC stands before the fetch.
    is_behind_gc: bool,
    /// The frame has the bytes already, from a buffer that was on its way to flash.
    is_copied: bool,
    /// A read of the page was answered with SkyByte-Delay.
    has_delayed: bool,
    /// The page is fetched ahead; also after a demand access has joined.
    is_prefetch: bool,
    /// The page went to the host: it leaves the cache as soon as it comes.
    is_unwanted: bool,
    first: u32,
    last: u32,
}

impl Mshr {
    #[inline]
    pub(super) fn lpa(&self) -> Lpa {
        self.lpa
    }
    #[inline]
    pub(super) fn frame(&self) -> FrameId {
        self.frame
    }
    #[inline]
    pub(super) fn written(&self) -> LineMask {
        self.written
    }
    #[inline]
    pub(super) fn expected(&self) -> (Time, bool) {
        (self.expected, self.is_behind_gc)
    }
    pub(super) fn has_delayed(&self) -> bool {
        self.has_delayed
    }
    /// The frame has the page's bytes already.
    pub(super) fn is_copied(&self) -> bool {
        self.is_copied
    }
    #[inline]
    pub(super) fn brought(&self) -> LineMask {
        self.brought
    }
    pub(super) fn add_brought(&mut self, lines: LineMask) {
        self.brought = self.brought.union(lines);
    }
    #[inline]
    pub(super) fn tag(&self) -> NandTag {
        self.tag
    }
    #[inline]
    pub(super) fn set_tag(&mut self, tag: NandTag) {
        self.tag = tag;
    }
    pub(super) fn is_unwanted(&self) -> bool {
        self.is_unwanted
    }
    pub(super) fn note_copied(&mut self) {
        self.is_copied = true;
    }
    #[inline]
    pub(super) fn expect(&mut self, at: Time, estimate: Estimate) {
        self.expected = at + estimate.latency;
        self.is_behind_gc = estimate.gc_in_progress;
    }
    /// Returns the frame.
    pub(super) fn note_prefetch(&mut self) -> FrameId {
        self.is_prefetch = true;
        self.frame
    }
    pub(super) fn note_delay(&mut self) {
        self.has_delayed = true;
    }
    #[inline]
    pub(super) fn add_written(&mut self, lines: LineMask) {
        self.written = self.written.union(lines);
    }
    #[inline]
    pub(super) fn note_write(&mut self, line: LineInPage) {
        self.written.insert(line);
        self.is_unwanted = false;
    }
    pub(super) fn set_unwanted(&mut self, is_unwanted: bool) {
        self.is_unwanted = is_unwanted;
    }
}

/// A page that has come, and the requests that wait for it.
pub(crate) struct Arrived(Mshr);

impl Arrived {
    /// The page that has come.
    #[inline]
    pub(crate) fn lpa(&self) -> Lpa {
        self.0.lpa
    }
    /// The frame that it goes to.
    #[inline]
    pub(crate) fn frame(&self) -> FrameId {
        self.0.frame
    }
    /// Whether it was fetched ahead.
    pub(crate) fn is_prefetch(&self) -> bool {
        self.0.is_prefetch
    }
    /// Whether a read of it was answered with SkyByte-Delay.
    pub(crate) fn has_delayed(&self) -> bool {
        self.0.has_delayed
    }
    /// Of all lines, those that the frame has not got in a newer version.
    pub(crate) fn older_lines(&self, all: LineMask) -> LineMask {
        match self.0.is_copied {
            true => LineMask::EMPTY,
            false => all.without(self.0.written),
        }
    }
    /// The lines that came before the others.
    #[inline]
    pub(crate) fn brought(&self) -> LineMask {
        self.0.brought
    }
    /// The lines that the frame has in a newer version than flash.
    #[inline]
    pub(crate) fn written(&self) -> LineMask {
        self.0.written
    }
    /// Whether it leaves when its waiters are answered.
    #[inline]
    pub(crate) fn only_passes(&self) -> bool {
        self.0.is_unwanted
    }
    /// It leaves then.
    pub(crate) fn let_pass(&mut self) {
        self.0.is_unwanted = true;
    }
}

#[derive(Clone)]
struct Node {
    waiter: Waiter,
    next: u32,
}

/// All MSHRs.
#[derive(Clone)]
pub(super) struct MshrFile {
    entries: Vec<Option<Mshr>>,
    free: Vec<MshrId>,
    nodes: Vec<Node>,
    free_nodes: Vec<u32>,
}

impl MshrFile {
    pub(super) fn new(count: u32) -> Self {
        Self {
            entries: (0..count).map(|_| None).collect(),
            free: (0..count).rev().map(MshrId::new).collect(),
            nodes: Vec::new(),
            free_nodes: Vec::new(),
        }
    }

    pub(super) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    pub(super) fn free_count(&self) -> usize {
        self.free.len()
    }

    pub(super) fn in_use(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(super) fn waiter_count(&self) -> usize {
        self.nodes.len() - self.free_nodes.len()
    }

    /// Waiters in the list of an MSHR in use; walks the list.
    pub(super) fn waiters_of(&self, id: MshrId) -> usize {
        let node = |at: u32| (at != NONE).then(|| &self.nodes[at as usize]);
        core::iter::successors(node(self.get(id).first), |waiter| node(waiter.next)).count()
    }

    /// Takes an MSHR for a page that nothing is known of yet.
    pub(super) fn open(&mut self, lpa: Lpa, frame: FrameId) -> MshrId {
        let id = self
            .free
            .pop()
            .expect("a miss is tracked only when an MSHR is free");
        self.entries[id.index()] = Some(Mshr {
            lpa,
            frame,
            written: LineMask::EMPTY,
            brought: LineMask::EMPTY,
            tag: NandTag::new(u32::MAX),
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

    pub(super) fn get(&self, id: MshrId) -> &Mshr {
        self.entries[id.index()]
            .as_ref()
            .expect("a page in flight has an MSHR")
    }

    pub(super) fn get_mut(&mut self, id: MshrId) -> &mut Mshr {
        self.entries[id.index()]
            .as_mut()
            .expect("a page in flight has an MSHR")
    }

    /// Adds a waiter at the end of the list.
    pub(super) fn wait(&mut self, id: MshrId, waiter: Waiter) {
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

    /// Takes the first waiter that is asked for out of the list; the others keep their order.
    pub(super) fn take_waiter(
        &mut self,
        id: MshrId,
        is_asked_for: impl Fn(&Waiter) -> bool,
    ) -> Option<Waiter> {
        let mut before = NONE;
        let mut at = self.get(id).first;
        while at != NONE && !is_asked_for(&self.nodes[at as usize].waiter) {
            before = at;
            at = self.nodes[at as usize].next;
        }
        if at == NONE {
            return None;
        }
        let node = self.nodes[at as usize].clone();
        match before {
            NONE => self.get_mut(id).first = node.next,
            before => self.nodes[before as usize].next = node.next,
        }
        let mshr = self.get_mut(id);
        if mshr.last == at {
            mshr.last = before;
        }
        self.free_nodes.push(at);
        Some(node.waiter)
    }

    /// Frees the MSHR; its waiters are to be taken one by one with [`Self::next_waiter`].
    pub(super) fn close(&mut self, id: MshrId) -> Arrived {
        let mshr = self.entries[id.index()].take();
        self.free.push(id);
        Arrived(mshr.expect("a page that comes has an MSHR"))
    }

    /// Takes the first waiter of a closed MSHR.
    pub(super) fn next_waiter(&mut self, Arrived(mshr): &mut Arrived) -> Option<Waiter> {
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
