//! Every policy against lists that do what its source says, under random accesses, arrivals, pages
//! fetched ahead and pages that leave for the host.

use super::*;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use proptest::prelude::*;
use s3_fifo::S3Fifo;
use two_q::TwoQ;

/// One set, by page.
trait Model {
    fn insert(&mut self, page: u64);
    /// The page has come, asked for already or not.
    fn arrive(&mut self, page: u64, is_asked_for: bool);
    fn touch(&mut self, page: u64, is_first: bool);
    /// Takes out the page that leaves; `stays` names those in flight.
    fn replace(&mut self, stays: &dyn Fn(u64) -> bool) -> Option<u64>;
    fn remove(&mut self, page: u64);
}

fn drop_from(queue: &mut VecDeque<u64>, page: u64) -> bool {
    let at = queue.iter().position(|other| *other == page);
    at.map(|at| queue.remove(at)).is_some()
}

fn first_free(queue: &VecDeque<u64>, stays: &dyn Fn(u64) -> bool) -> Option<u64> {
    queue.iter().copied().find(|page| !stays(*page))
}

#[derive(Default)]
struct LruModel(VecDeque<u64>);

impl LruModel {
    fn renew(&mut self, page: u64) {
        drop_from(&mut self.0, page);
        self.0.push_back(page);
    }
}

impl Model for LruModel {
    fn insert(&mut self, page: u64) {
        self.renew(page);
    }
    fn arrive(&mut self, page: u64, _: bool) {
        self.renew(page);
    }
    fn touch(&mut self, page: u64, _: bool) {
        self.renew(page);
    }
    fn replace(&mut self, stays: &dyn Fn(u64) -> bool) -> Option<u64> {
        let page = first_free(&self.0, stays)?;
        self.remove(page);
        Some(page)
    }
    fn remove(&mut self, page: u64) {
        drop_from(&mut self.0, page);
    }
}

struct ClockModel {
    /// Page and mark by way.
    ring: Vec<Option<(u64, bool)>>,
    hand: usize,
}

impl ClockModel {
    fn entry(&mut self, page: u64) -> &mut Option<(u64, bool)> {
        let is_it = |slot: &&mut Option<(u64, bool)>| slot.is_some_and(|(other, _)| other == page);
        self.ring.iter_mut().find(is_it).unwrap()
    }
}

impl Model for ClockModel {
    fn insert(&mut self, page: u64) {
        let free = self.ring.iter_mut().find(|slot| slot.is_none());
        *free.unwrap() = Some((page, false));
    }
    fn arrive(&mut self, page: u64, is_asked_for: bool) {
        *self.entry(page) = Some((page, is_asked_for));
    }
    fn touch(&mut self, page: u64, _: bool) {
        *self.entry(page) = Some((page, true));
    }
    fn replace(&mut self, stays: &dyn Fn(u64) -> bool) -> Option<u64> {
        let pages = || self.ring.iter().flatten().map(|(page, _)| *page);
        if pages().all(stays) {
            // The hand has gone round twice in vain.
            return None;
        }
        loop {
            let slot = &mut self.ring[self.hand];
            self.hand = (self.hand + 1) % 4;
            // The log may have the others.
            let Some((page, was_used)) = *slot else {
                continue;
            };
            if stays(page) {
                continue;
            }
            *slot = was_used.then_some((page, false));
            if !was_used {
                return Some(page);
            }
        }
    }
    fn remove(&mut self, page: u64) {
        *self.entry(page) = None;
    }
}

/// 2Q and S3-FIFO: a queue for newcomers, one for the others, and names.
#[derive(Default)]
struct Queues {
    new: VecDeque<u64>,
    old: VecDeque<u64>,
    names: VecDeque<Option<u64>>,
    most_names: u32,
}

impl Queues {
    fn insert(&mut self, page: u64) {
        let name = self.names.iter_mut().find(|name| **name == Some(page));
        if let Some(name) = name {
            *name = None;
            self.old.push_back(page);
        } else {
            self.new.push_back(page);
        }
    }
    fn remember(&mut self, page: u64) {
        self.names.push_back(Some(page));
        if self.names.len() > self.most_names as usize {
            self.names.pop_front();
        }
    }
    fn remove(&mut self, page: u64) {
        drop_from(&mut self.new, page);
        drop_from(&mut self.old, page);
    }
    fn next(&self, is_from_new: bool, stays: &dyn Fn(u64) -> bool) -> Option<u64> {
        let (new, old) = (first_free(&self.new, stays), first_free(&self.old, stays));
        if is_from_new {
            new.or(old)
        } else {
            old.or(new)
        }
    }
}

struct TwoQModel(Queues);

impl Model for TwoQModel {
    fn insert(&mut self, page: u64) {
        self.0.insert(page);
    }
    fn arrive(&mut self, _: u64, _: bool) {}
    fn touch(&mut self, page: u64, is_first: bool) {
        if !is_first && drop_from(&mut self.0.old, page) {
            self.0.old.push_back(page);
        }
    }
    fn replace(&mut self, stays: &dyn Fn(u64) -> bool) -> Option<u64> {
        let page = self.0.next(self.0.new.len() > 1, stays)?;
        if drop_from(&mut self.0.new, page) {
            self.0.remember(page);
        }
        self.0.remove(page);
        Some(page)
    }
    fn remove(&mut self, page: u64) {
        self.0.remove(page);
    }
}

#[derive(Default)]
struct S3FifoModel {
    queues: Queues,
    returns: BTreeMap<u64, u32>,
    latest: u64,
}

impl Model for S3FifoModel {
    fn insert(&mut self, page: u64) {
        self.queues.insert(page);
        self.returns.insert(page, 0);
        self.latest = page;
    }
    fn arrive(&mut self, page: u64, is_asked_for: bool) {
        if is_asked_for {
            self.latest = page;
        }
    }
    fn touch(&mut self, page: u64, is_first: bool) {
        let is_return = !is_first && self.latest != page;
        self.latest = page;
        let returns = self.returns.get_mut(&page).unwrap();
        *returns = (*returns + u32::from(is_return)).min(3);
    }
    fn replace(&mut self, stays: &dyn Fn(u64) -> bool) -> Option<u64> {
        loop {
            let page = self.queues.next(!self.queues.new.is_empty(), stays)?;
            let returns = self.returns.get_mut(&page).unwrap();
            let is_new = drop_from(&mut self.queues.new, page);
            if is_new && *returns <= 1 {
                self.queues.remember(page);
                return Some(page);
            }
            self.queues.remove(page);
            if !is_new && *returns == 0 {
                return Some(page);
            }
            *returns = if is_new { 0 } else { *returns - 1 };
            self.queues.old.push_back(page);
        }
    }
    fn remove(&mut self, page: u64) {
        self.queues.remove(page);
        // The next page to come lies in the same frame, which S3-FIFO goes by.
        if self.latest == page {
            self.latest = u64::MAX;
        }
    }
}

/// Four ways.
fn model(policy: CachePolicy) -> Box<dyn Model> {
    match policy {
        CachePolicy::Lru | CachePolicy::None => Box::new(LruModel::default()),
        CachePolicy::Clock => Box::new(ClockModel {
            ring: vec![None; 4],
            hand: 0,
        }),
        CachePolicy::TwoQ => Box::new(TwoQModel(Queues {
            most_names: TwoQ::ghost_count(4),
            ..Queues::default()
        })),
        CachePolicy::S3Fifo => Box::new(S3FifoModel {
            queues: Queues {
                most_names: S3Fifo::ghost_count(4),
                ..Queues::default()
            },
            ..S3FifoModel::default()
        }),
    }
}

/// Cache and model side by side, with the pages in flight in order.
struct Pair {
    cache: DataCache,
    sets: [Box<dyn Model>; 2],
    in_flight: VecDeque<u64>,
}

impl Pair {
    fn new(policy: CachePolicy) -> Self {
        Self {
            cache: DataCache::new(8, 4, policy),
            sets: [model(policy), model(policy)],
            in_flight: VecDeque::new(),
        }
    }

    fn access(&mut self, page: u64, is_prefetch: bool) {
        let set = &mut self.sets[(page % 2) as usize];
        match self.cache.find(Lpa::new(page)) {
            None => self.fetch(page, is_prefetch),
            Some(_) if is_prefetch => {}
            Some(frame) if self.cache.mshr_of(frame).is_some() => {
                self.cache.take_prefetched(frame);
            }
            Some(frame) => set.touch(page, self.cache.touch(frame)),
        }
    }

    fn fetch(&mut self, page: u64, is_prefetch: bool) {
        let lpa = Lpa::new(page);
        let set = &mut self.sets[(page % 2) as usize];
        let Some(frame) = self.cache.place_for(lpa, false) else {
            let in_flight = &self.in_flight;
            assert_eq!(set.replace(&|page| in_flight.contains(&page)), None);
            return;
        };
        if let Some(old) = self.cache.page_in(frame) {
            let in_flight = &self.in_flight;
            let expected = set.replace(&|page| in_flight.contains(&page));
            assert_eq!(Some(old.get()), expected, "another page leaves");
            self.cache.evict(frame);
        }
        self.cache.install(frame, lpa, Some(MshrId::new(0)));
        if is_prefetch {
            self.cache.mark_prefetched(frame);
        }
        set.insert(page);
        self.in_flight.push_back(page);
    }

    fn arrive(&mut self) {
        let Some(page) = self.in_flight.pop_front() else {
            return;
        };
        let set = &mut self.sets[(page % 2) as usize];
        let frame = self.cache.find(Lpa::new(page)).unwrap();
        let is_asked_for = !self.cache.is_prefetched(frame);
        self.cache.settle(frame);
        set.arrive(page, is_asked_for);
        if is_asked_for {
            set.touch(page, self.cache.touch(frame));
        }
    }

    fn leave(&mut self, page: u64) {
        if let Some(frame) = self.cache.find(Lpa::new(page))
            && self.cache.mshr_of(frame).is_none()
        {
            self.cache.remove(frame);
            self.sets[(page % 2) as usize].remove(page);
        }
    }
}

impl Pair {
    /// The log takes the next frame, if it can be had and its set keeps one.
    fn reserve(&mut self) {
        if self.cache.reserved() == 6 {
            return;
        }
        let frame = self.cache.next_reserved();
        if let Some(page) = self.cache.page_in(frame) {
            if self.cache.mshr_of(frame).is_some() {
                return;
            }
            self.leave(page.get());
        }
        self.cache.reserve();
    }

    fn give_back(&mut self) {
        if self.cache.reserved() > 0 {
            self.cache.give_back();
        }
    }
}

fn agree(policy: CachePolicy, steps: &[(u8, u64)]) {
    let mut pair = Pair::new(policy);
    for (kind, page) in steps {
        match kind {
            0..=9 => pair.access(*page, false),
            10..=12 => pair.access(*page, true),
            13..=22 => pair.arrive(),
            23 => pair.leave(*page),
            24 => pair.reserve(),
            _ => pair.give_back(),
        }
        pair.cache.audit();
    }
}

fn steps() -> impl Strategy<Value = Vec<(u8, u64)>> {
    // A few pages that return often among many that do not.
    let page = prop_oneof![0..6_u64, 0..12_u64, 0..40_u64];
    prop::collection::vec((0..26_u8, page), 1..400)
}

proptest! {
    #[test]
    fn lru_is_a_list_by_last_use(steps in steps()) {
        agree(CachePolicy::Lru, &steps);
    }
    #[test]
    fn clock_is_a_ring_with_marks(steps in steps()) {
        agree(CachePolicy::Clock, &steps);
    }
    #[test]
    fn two_q_is_two_lists_and_names(steps in steps()) {
        agree(CachePolicy::TwoQ, &steps);
    }
    #[test]
    fn s3_fifo_is_two_queues_with_returns_and_names(steps in steps()) {
        agree(CachePolicy::S3Fifo, &steps);
    }
}

/// Four hot pages are read after every 12 pages of a scan until they are known, then after every
/// 48. Each page of the scan is read line by line. Returns how often the hot pages were still there
/// in the second part.
fn hot_hits_beside_a_scan(policy: CachePolicy) -> usize {
    let mut cache = DataCache::new(32, 16, policy);
    let mut read = |page: u64| {
        let lpa = Lpa::new(page);
        let hit = cache.find(lpa);
        let frame = hit.unwrap_or_else(|| {
            let frame = cache.place_for(lpa, true).unwrap();
            if cache.page_in(frame).is_some() {
                cache.evict(frame);
            }
            cache.install(frame, lpa, None);
            frame
        });
        cache.touch(frame);
        usize::from(hit.is_some())
    };
    let mut hits = 0;
    for scanned in 100..2500 {
        for _line in 0..64 {
            read(scanned);
        }
        let is_known = scanned >= 300;
        if scanned % if is_known { 48 } else { 12 } == 0 {
            let hot: usize = (0..4).map(&mut read).sum();
            hits += if is_known { hot } else { 0 };
        }
    }
    hits
}

#[test]
fn a_scan_drives_hot_pages_out_of_lru_and_clock_but_not_out_of_two_q_and_s3_fifo() {
    // 24 pages of the scan come to a set of 16 frames between two reads of its two hot pages.
    // Multiples of 48 from 300 on and below 2500: 46 rounds, 4 hot pages each.
    let hits = [
        CachePolicy::Lru,
        CachePolicy::Clock,
        CachePolicy::TwoQ,
        CachePolicy::S3Fifo,
    ];
    assert_eq!(hits.map(hot_hits_beside_a_scan), [0, 0, 184, 184]);
}
