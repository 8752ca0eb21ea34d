//! Which page of host DRAM is coldest: Linux's active and inactive lists, with second chance.
//!
//! A page enters at the head of the inactive list. An access sets its accessed bit, nothing more,
//! as the hardware does. When a victim is wanted, pages at the tail of the inactive list that were
//! accessed move to the head of the active list, their bit cleared; the first one that was not is
//! the victim. When the active list is longer than `inactive_ratio` times the inactive list, the
//! active tail moves to the inactive head, its bit cleared.
//!
//! Where a page may take only some host pages (its set), the one of them accessed longest ago
//! goes, and the lists only say what there is. Under `host.reclaim = lru` there is only the
//! inactive list, kept in order of the last access.

use super::{HostPage, ReclaimPolicy};
use units::Lpa;

const NIL: u32 = u32::MAX;

/// The page to be reclaimed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Victim {
    /// Where it is.
    pub page: HostPage,
    /// Which page it holds.
    pub lpa: Lpa,
    /// Whether it is newer than the device's copy.
    pub is_dirty: bool,
}

/// Which list a page is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Nowhere,
    Active,
    Inactive,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    lpa: Lpa,
    next: u32,
    prev: u32,
    place: Place,
    is_accessed: bool,
    is_dirty: bool,
}

/// Head, tail and length of a list threaded through the nodes.
#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
    len: usize,
}

/// The two lists over all host pages.
#[derive(Clone, Debug)]
pub struct ReclaimLists {
    nodes: Vec<Node>,
    active: List,
    inactive: List,
    inactive_ratio: usize,
    is_lru: bool,
    /// Where pages are in sets: by page, the number of its last access; else empty.
    stamps: Vec<u64>,
    last_stamp: u64,
}

impl ReclaimLists {
    /// Empty lists over `page_count` host pages.
    pub fn new(page_count: u32, inactive_ratio: u32, policy: ReclaimPolicy) -> Self {
        let node = Node {
            lpa: Lpa::new(0),
            next: NIL,
            prev: NIL,
            place: Place::Nowhere,
            is_accessed: false,
            is_dirty: false,
        };
        let empty = List {
            head: NIL,
            tail: NIL,
            len: 0,
        };
        Self {
            nodes: vec![node; page_count as usize],
            active: empty,
            inactive: empty,
            inactive_ratio: inactive_ratio as usize,
            is_lru: policy == ReclaimPolicy::Lru,
            stamps: Vec::new(),
            last_stamp: 0,
        }
    }

    /// Empty lists over `page_count` host pages in sets, for [`Self::coldest_of`].
    pub fn in_sets(page_count: u32) -> Self {
        Self {
            stamps: vec![0; page_count as usize],
            ..Self::new(page_count, 1, ReclaimPolicy::Lru)
        }
    }

    /// A page that has just been filled with `lpa`: clean, not accessed.
    pub fn insert(&mut self, page: HostPage, lpa: Lpa) {
        let node = &mut self.nodes[page.index()];
        assert_eq!(node.place, Place::Nowhere, "{page} is filled when empty");
        node.lpa = lpa;
        node.is_accessed = false;
        node.is_dirty = false;
        self.push_front(page.get(), Place::Inactive);
        if !self.stamps.is_empty() {
            self.make_youngest(page.get());
        }
    }

    /// Sets the accessed bit, under LRU by moving the page to the head. Does nothing for a page of
    /// DRAM-Only, which no list knows.
    #[inline]
    pub fn touch(&mut self, page: HostPage) {
        if let Some(node) = self.nodes.get_mut(page.index()) {
            if self.is_lru {
                self.make_youngest(page.get());
            } else {
                node.is_accessed = true;
            }
        }
    }

    fn make_youngest(&mut self, page: u32) {
        if let Some(stamp) = self.stamps.get_mut(page as usize) {
            self.last_stamp += 1;
            *stamp = self.last_stamp;
            return;
        }
        if self.inactive.head != page {
            self.unlink(page);
            self.push_front(page, Place::Inactive);
        }
    }

    /// Sets the dirty bit, as `touch` the accessed bit.
    #[inline]
    pub fn set_dirty(&mut self, page: HostPage) {
        if let Some(node) = self.nodes.get_mut(page.index()) {
            node.is_dirty = true;
        }
    }

    /// Whether a page is newer than the device's copy.
    pub fn is_dirty(&self, page: HostPage) -> bool {
        self.nodes[page.index()].is_dirty
    }

    /// The page to be reclaimed next; it stays in its list until [`remove`](Self::remove).
    /// Every page that is looked at loses its accessed bit, so a search ends, and costs no more
    /// than what accesses since the last one have set.
    pub fn coldest(&mut self) -> Option<Victim> {
        loop {
            self.balance();
            let tail = self.inactive.tail;
            let node = self.nodes.get_mut(tail as usize)?;
            if !node.is_accessed {
                return Some(Victim {
                    page: HostPage::new(tail),
                    lpa: node.lpa,
                    is_dirty: node.is_dirty,
                });
            }
            node.is_accessed = false;
            self.unlink(tail);
            self.push_front(tail, Place::Active);
        }
    }

    /// Of some host pages in sets, the one accessed longest ago.
    pub fn coldest_of(&self, set: std::ops::Range<usize>) -> Option<Victim> {
        let used = set.filter(|index| self.nodes[*index].place != Place::Nowhere);
        let oldest = used.min_by_key(|index| self.stamps[*index])?;
        let node = &self.nodes[oldest];
        Some(Victim {
            page: HostPage::from_index(oldest),
            lpa: node.lpa,
            is_dirty: node.is_dirty,
        })
    }

    /// Takes a page out; it is empty from now on.
    pub fn remove(&mut self, page: HostPage) {
        self.unlink(page.get());
    }

    /// Pages in both lists.
    pub fn len(&self) -> usize {
        self.active.len + self.inactive.len
    }
    /// Whether both lists are empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Pages in both lists that are newer than the device's copies.
    pub fn dirty_len(&self) -> usize {
        let listed = self.nodes.iter().filter(|n| n.place != Place::Nowhere);
        listed.filter(|node| node.is_dirty).count()
    }

    /// Host pages the lists are made for.
    pub fn capacity(&self) -> usize {
        self.nodes.len()
    }

    /// The pages of both lists and what they hold, from head to tail, active ones first.
    pub(super) fn pages(&self) -> impl Iterator<Item = (HostPage, Lpa)> {
        self.walk(self.active).chain(self.walk(self.inactive))
    }

    /// Both lists read the same forwards and backwards, and have the length they say.
    pub(super) fn audit(&self) {
        for (place, list) in [
            (Place::Active, self.active),
            (Place::Inactive, self.inactive),
        ] {
            let mut prev = NIL;
            for (page, _) in self.walk(list) {
                let node = self.nodes[page.index()];
                assert_eq!((node.place, node.prev), (place, prev), "{page} is linked");
                prev = page.get();
            }
            assert_eq!(list.tail, prev, "the tail is last");
            assert_eq!(self.walk(list).count(), list.len, "the length is kept");
        }
    }

    fn walk(&self, list: List) -> impl Iterator<Item = (HostPage, Lpa)> {
        let at = |page: u32| (page != NIL).then_some(page);
        let pages = std::iter::successors(at(list.head), move |&page| {
            at(self.nodes[page as usize].next)
        });
        pages.map(|page| (HostPage::new(page), self.nodes[page as usize].lpa))
    }

    /// Shortens the active list while the inactive list is too short beside it.
    fn balance(&mut self) {
        while self.active.len > self.inactive.len * self.inactive_ratio {
            let tail = self.active.tail;
            self.nodes[tail as usize].is_accessed = false;
            self.unlink(tail);
            self.push_front(tail, Place::Inactive);
        }
    }

    fn list(&mut self, place: Place) -> &mut List {
        match place {
            Place::Active => &mut self.active,
            Place::Inactive => &mut self.inactive,
            Place::Nowhere => panic!("a page outside the lists has no neighbours"),
        }
    }

    fn push_front(&mut self, page: u32, place: Place) {
        let list = self.list(place);
        let head = list.head;
        list.head = page;
        list.len += 1;
        if head == NIL {
            list.tail = page;
        } else {
            self.nodes[head as usize].prev = page;
        }
        let node = &mut self.nodes[page as usize];
        (node.next, node.prev, node.place) = (head, NIL, place);
    }

    fn unlink(&mut self, page: u32) {
        let Node {
            next, prev, place, ..
        } = self.nodes[page as usize];
        let list = self.list(place);
        list.len -= 1;
        if list.head == page {
            list.head = next;
        }
        if list.tail == page {
            list.tail = prev;
        }
        if next != NIL {
            self.nodes[next as usize].prev = prev;
        }
        if prev != NIL {
            self.nodes[prev as usize].next = next;
        }
        self.nodes[page as usize].place = Place::Nowhere;
    }
}

#[cfg(test)]
mod tests;
