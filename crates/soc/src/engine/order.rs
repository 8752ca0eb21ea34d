//! The order that the firmware asks its host to keep: two operations of one line are not under way
//! together unless both read.
//!
//! Operations are in lists by a hash of their page, in the order in which they were submitted. An
//! operation goes as soon as none that stands before it shares a line with it, one of the two
//! writing. Most lists have one operation at a time, and most that have more are only read: both
//! are decided without a look at the list. There are more lists than operations, so that few pages
//! share one.

use std::hash::BuildHasher;

use rustc_hash::FxBuildHasher;
use units::{Lpa, RequestId};

/// No operation.
const NIL: u32 = u32::MAX;
/// Lists for each operation; a power of two, as is the number of lists.
const LISTS_EACH: usize = 4;
/// Lists of an empty order.
const FEWEST_LISTS: usize = 64;

/// Lines of a page that an operation is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Which page.
    pub page: Lpa,
    /// First line in it.
    pub first: u16,
    /// Line behind the last.
    pub end: u16,
    /// Whether bytes change.
    pub is_write: bool,
}

impl Claim {
    fn excludes(&self, other: &Self) -> bool {
        self.page == other.page
            && (self.is_write || other.is_write)
            && self.first < other.end
            && other.first < self.end
    }
}

/// An operation in its list.
#[derive(Clone, Copy, Debug)]
struct Entry {
    claim: Claim,
    is_waiting: bool,
    before: u32,
    next: u32,
}

/// A list of operations.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
    /// How many of them write.
    writers: u32,
    /// How many of them wait.
    waiting: u32,
}

impl List {
    const EMPTY: Self = Self {
        first: NIL,
        last: NIL,
        writers: 0,
        waiting: 0,
    };
}

/// Operations that are under way or wait for each other. No result depends on a hash.
#[derive(Clone, Debug)]
pub struct Order {
    lists: Vec<List>,
    /// By operation.
    entries: Vec<Entry>,
}

impl Default for Order {
    fn default() -> Self {
        Self {
            lists: vec![List::EMPTY; FEWEST_LISTS],
            entries: Vec::new(),
        }
    }
}

impl Order {
    /// Which list a page is in.
    #[inline]
    fn list_of(&self, page: Lpa) -> usize {
        FxBuildHasher.hash_one(page) as usize & (self.lists.len() - 1)
    }

    /// An operation is submitted; says whether it may go at once. If it may not, it waits until
    /// [`Order::leave`] gives it back.
    #[inline(always)]
    pub fn enter(&mut self, id: RequestId, claim: Claim) -> bool {
        if id.index() >= self.entries.len() {
            self.grow(id);
        }
        let at = self.list_of(claim.page);
        let list = &mut self.lists[at];
        let is_alone = list.last == NIL || list.writers == 0 && !claim.is_write;
        let may_go = is_alone || may_go(&self.entries, list.first, NIL, &claim);
        self.entries[id.index()] = Entry {
            claim,
            is_waiting: !may_go,
            before: list.last,
            next: NIL,
        };
        match list.last {
            NIL => list.first = id.get(),
            last => self.entries[last as usize].next = id.get(),
        }
        list.last = id.get();
        list.writers += u32::from(claim.is_write);
        list.waiting += u32::from(!may_go);
        may_go
    }

    /// Makes a place for an operation, and lists enough: each keeps its order, for the operations
    /// of a list go to its own new ones.
    #[cold]
    fn grow(&mut self, id: RequestId) {
        let nothing = Entry {
            claim: Claim {
                page: Lpa::new(0),
                first: 0,
                end: 0,
                is_write: false,
            },
            is_waiting: false,
            before: NIL,
            next: NIL,
        };
        self.entries.resize(id.index() + 1, nothing);
        let enough = (self.entries.len() * LISTS_EACH).next_power_of_two();
        if enough <= self.lists.len() {
            return;
        }
        let lists = std::mem::replace(&mut self.lists, vec![List::EMPTY; enough]);
        for list in lists {
            let mut at = list.first;
            while at != NIL {
                let Entry {
                    claim,
                    is_waiting,
                    next,
                    ..
                } = self.entries[at as usize];
                let place = self.list_of(claim.page);
                let list = &mut self.lists[place];
                self.entries[at as usize].before = list.last;
                self.entries[at as usize].next = NIL;
                match list.last {
                    NIL => list.first = at,
                    last => self.entries[last as usize].next = at,
                }
                list.last = at;
                list.writers += u32::from(claim.is_write);
                list.waiting += u32::from(is_waiting);
                at = next;
            }
        }
    }

    /// An operation is over, or gives its place up; those that may go now are appended to `freed`,
    /// in the order in which they were submitted.
    #[inline]
    pub fn leave(&mut self, id: RequestId, freed: &mut Vec<RequestId>) {
        let Entry {
            claim,
            is_waiting,
            before,
            next,
        } = self.entries[id.index()];
        let at = self.list_of(claim.page);
        let list = &mut self.lists[at];
        match before {
            NIL => list.first = next,
            before => self.entries[before as usize].next = next,
        }
        match next {
            NIL => list.last = before,
            next => self.entries[next as usize].before = before,
        }
        list.writers -= u32::from(claim.is_write);
        list.waiting -= u32::from(is_waiting);
        if list.waiting > 0 {
            self.release(at, freed);
        }
    }

    /// Lets those of a list go that nothing stands before any more.
    fn release(&mut self, list: usize, freed: &mut Vec<RequestId>) {
        let list = &mut self.lists[list];
        let mut at = list.first;
        while at != NIL {
            let Entry {
                claim,
                is_waiting,
                next,
                ..
            } = self.entries[at as usize];
            if is_waiting && may_go(&self.entries, list.first, at, &claim) {
                self.entries[at as usize].is_waiting = false;
                list.waiting -= 1;
                freed.push(RequestId::new(at));
            }
            at = next;
        }
    }

    /// Whether nothing is under way. Looks at all lists.
    pub fn is_empty(&self) -> bool {
        self.lists.iter().all(|list| list.first == NIL)
    }
}

/// Whether nothing from `first` to before `end` stands before a claim.
fn may_go(entries: &[Entry], first: u32, end: u32, claim: &Claim) -> bool {
    let mut at = first;
    while at != end {
        let entry = &entries[at as usize];
        if claim.excludes(&entry.claim) {
            return false;
        }
        at = entry.next;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn claim(page: u64, first: u16, end: u16, is_write: bool) -> Claim {
        Claim {
            page: Lpa::new(page),
            first,
            end,
            is_write,
        }
    }

    fn numbers(freed: &[RequestId]) -> Vec<u32> {
        freed.iter().map(|id| id.get()).collect()
    }

    #[test]
    fn reads_go_together_and_a_write_goes_alone_in_order_of_arrival() {
        let mut order = Order::default();
        // R0 R1 W2 R3 R4 W5 of one line.
        let arrivals = [false, false, true, false, false, true];
        let went: Vec<bool> = arrivals
            .iter()
            .enumerate()
            .map(|(id, is_write)| order.enter(RequestId::from_index(id), claim(7, 3, 4, *is_write)))
            .collect();
        assert_eq!(went, [true, true, false, false, false, false]);
        let mut leave = |id| {
            let mut freed = Vec::new();
            order.leave(RequestId::new(id), &mut freed);
            numbers(&freed)
        };
        assert_eq!(leave(0), [0; 0]);
        assert_eq!(leave(1), [2]);
        assert_eq!(leave(2), [3, 4]);
        assert_eq!(leave(3), [0; 0]);
        assert_eq!(leave(4), [5]);
        assert_eq!(leave(5), [0; 0]);
        assert!(order.is_empty());
    }

    #[test]
    fn other_pages_and_other_lines_do_not_wait() {
        let mut order = Order::default();
        assert!(order.enter(RequestId::new(0), claim(1, 0, 8, true)));
        assert!(order.enter(RequestId::new(1), claim(2, 0, 8, true)));
        assert!(order.enter(RequestId::new(2), claim(1, 8, 9, true)));
        assert!(!order.enter(RequestId::new(3), claim(1, 7, 9, false)));
        let mut freed = Vec::new();
        order.leave(RequestId::new(0), &mut freed);
        assert!(freed.is_empty(), "line 8 is still being written");
        order.leave(RequestId::new(2), &mut freed);
        assert_eq!(numbers(&freed), [3]);
    }

    proptest! {
        /// Against a list of all operations in order of submission.
        #[test]
        fn it_is_the_order_of_a_plain_list(
            steps in prop::collection::vec((prop_oneof![0u64..3, 0u64..1000], 0u16..6, 1u16..4, any::<bool>(), 0usize..4), 1..120),
        ) {
            let mut order = Order::default();
            // (id, claim, goes)
            let mut model: Vec<(u32, Claim, bool)> = Vec::new();
            for (id, (page, first, count, is_write, leavers)) in steps.into_iter().enumerate() {
                let claim = claim(page, first, first + count, is_write);
                let id = RequestId::from_index(id);
                let goes = model.iter().all(|(_, other, _)| other.page != claim.page || !claim.excludes(other));
                prop_assert_eq!(order.enter(id, claim), goes);
                model.push((id.get(), claim, goes));
                for _ in 0..leavers {
                    let Some(at) = model.iter().position(|(_, _, goes)| *goes) else { break };
                    let (gone, _, _) = model.remove(at);
                    let mut expected = Vec::new();
                    for at in 0..model.len() {
                        let (id, claim, goes) = model[at];
                        let free = model[..at].iter().all(|(_, other, _)| other.page != claim.page || !claim.excludes(other));
                        if free && !goes {
                            model[at].2 = true;
                            expected.push(id);
                        }
                    }
                    let mut freed = Vec::new();
                    order.leave(RequestId::new(gone), &mut freed);
                    prop_assert_eq!(numbers(&freed), expected);
                }
            }
        }
    }
}
