//! Host DRAM as a hardware-managed, set-associative cache of pages (AstriFlash, HPCA'23).
//!
//! Knows pages, sets and ways; knows no time, no link and no device. A page that an access misses
//! is filled as a whole; until it has come, accesses to it wait at the caller. What makes room is
//! the page of the set used longest ago, among those that are not on their way themselves.

use super::HostPage;
use crate::page_numbers::PageNumbers;
use serde::{Deserialize, Serialize};
use units::{Bytes, Lpa, PageSize, Picos};

/// When a page comes to the page cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FillPolicy {
    /// When an access misses it.
    OnDemand,
    /// When the device offers it as hot: adaptive migration into sets.
    Hotness,
}

units::parameters! {
    /// Host DRAM as a page cache, and the user-level threads that hide its misses (AstriFlash).
    pub struct AstriflashConfig: "astriflash" {
        /// Ways of the page cache; its size is host.promoted.
        ways: u32, "1 to 64, a divisor of the pages of host.promoted", "SkyByte's artifact: 8";
        /// When a page comes: at every miss, threads switching in user space (`on_demand`), or when
        /// the device offers it, as in SkyByte-CP but for the sets (`hotness`): misses are then of
        /// lines, may be answered by SkyByte-Delay, and cost the operating system's switch.
        fill: FillPolicy, "on_demand or hotness", "AstriFlash (on_demand); SkyByte's artifact: hotness";
        /// Time to look a page's tag up, added to every access to host DRAM and to every miss.
        tag_latency: Picos, "at most 1us",
            "our choice: tags beside the data in DRAM, a row hit and a compare (15ns)";
        /// From the moment a core leaves a thread at a miss to the first instruction of the next
        /// one; the operating system takes no part.
        switch_cost: Picos, "at most 1ms",
            "our choice: AstriFlash's user-level threads, order of 100ns (200ns with the flush)";
    }
}

impl AstriflashConfig {
    /// What is out of range, as sentences; empty if nothing is. `promoted` is the cache's size.
    pub fn validate(&self, promoted: Bytes, page: PageSize) -> Vec<String> {
        let mut problems = Vec::new();
        let pages = promoted / page.bytes();
        if !(1..=64).contains(&self.ways) || !pages.is_multiple_of(u64::from(self.ways)) {
            problems.push(format!(
                "astriflash.ways is {}; it must be from 1 to 64 and divide the {pages} pages of \
                 host.promoted.",
                self.ways
            ));
        }
        for (key, span, most) in [
            ("tag_latency", self.tag_latency, Picos::from_micros(1)),
            ("switch_cost", self.switch_cost, Picos::from_micros(1_000)),
        ] {
            if span > most {
                problems.push(format!(
                    "astriflash.{key} is {span}; it must be at most {most}."
                ));
            }
        }
        problems
    }
}

/// Where an access finds its page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lookup {
    /// In this page of host DRAM.
    Present(HostPage),
    /// On its way: the access waits.
    Coming,
    /// Nowhere: the page must be fetched.
    Absent,
}

/// A fill that has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Begun {
    /// Where the page will be.
    pub page: HostPage,
    /// The dirty page that was there, which must be written to the device.
    pub dirty_victim: Option<Lpa>,
}

/// What the cache did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PageCacheStats {
    /// Pages that came.
    pub fills: u64,
    /// Dirty pages that left.
    pub write_backs: u64,
    /// Clean pages that left.
    pub drops: u64,
    /// Fills that found every way of their set on its way and had to wait.
    pub conflicts: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Empty,
    Coming,
    Clean,
    Dirty,
}

#[derive(Clone, Copy, Debug)]
struct Way {
    lpa: Lpa,
    used: u64,
    state: State,
}

/// The cache. Page `p` is in set `p` modulo the number of sets.
#[derive(Clone, Debug)]
pub struct PageCache {
    ways: Vec<Way>,
    way_count: usize,
    set_count: u64,
    /// What chooses the sets of pages, if not their own numbers.
    numbers: Option<PageNumbers>,
    /// Counts uses: the youngest use is the greatest.
    clock: u64,
    stats: PageCacheStats,
}

impl PageCache {
    /// An empty cache; `config` is one that `validate` accepts, `promoted` not empty.
    pub fn new(config: &AstriflashConfig, promoted: Bytes, page: PageSize) -> Self {
        let pages = promoted / page.bytes();
        let way = Way {
            lpa: Lpa::new(0),
            used: 0,
            state: State::Empty,
        };
        Self {
            ways: vec![way; pages as usize],
            way_count: config.ways as usize,
            set_count: pages / u64::from(config.ways),
            numbers: None,
            clock: 0,
            stats: PageCacheStats::default(),
        }
    }

    /// An access; a write makes a page that is present dirty.
    pub fn access(&mut self, lpa: Lpa, is_write: bool) -> Lookup {
        let Some(index) = self.find(lpa) else {
            return Lookup::Absent;
        };
        self.clock += 1;
        let way = &mut self.ways[index];
        way.used = self.clock;
        if way.state == State::Coming {
            return Lookup::Coming;
        }
        if is_write {
            way.state = State::Dirty;
        }
        Lookup::Present(HostPage::from_index(index))
    }

    /// Whether a page is on its way.
    pub fn is_coming(&self, lpa: Lpa) -> bool {
        self.find(lpa)
            .is_some_and(|index| self.ways[index].state == State::Coming)
    }

    /// Whether a way of the page's set waits for no page itself.
    pub fn has_way(&self, lpa: Lpa) -> bool {
        self.set(lpa)
            .any(|index| self.ways[index].state != State::Coming)
    }

    /// Takes a way for an absent page; nothing if every way of its set waits for a page itself.
    pub fn begin_fill(&mut self, lpa: Lpa) -> Option<Begun> {
        let is_free = |index: &usize| self.ways[*index].state != State::Coming;
        let oldest = self.set(lpa).filter(is_free);
        let Some(index) = oldest.min_by_key(|index| self.ways[*index].used) else {
            self.stats.conflicts += 1;
            return None;
        };
        self.clock += 1;
        let fresh = Way {
            lpa,
            used: self.clock,
            state: State::Coming,
        };
        let old = std::mem::replace(&mut self.ways[index], fresh);
        self.stats.write_backs += u64::from(old.state == State::Dirty);
        self.stats.drops += u64::from(old.state == State::Clean);
        Some(Begun {
            page: HostPage::from_index(index),
            dirty_victim: (old.state == State::Dirty).then_some(old.lpa),
        })
    }

    /// The page has come, clean.
    pub fn filled(&mut self, lpa: Lpa) -> HostPage {
        let index = self.find(lpa).expect("a page that comes has a way");
        let way = &mut self.ways[index];
        assert_eq!(way.state, State::Coming, "{lpa} comes once");
        way.state = State::Clean;
        self.stats.fills += 1;
        HostPage::from_index(index)
    }

    /// Pages that are there, and how many of them are newer than the device's. Looks at all.
    pub fn counts(&self) -> (usize, usize) {
        let of = |states: &[State]| {
            let ways = self.ways.iter();
            ways.filter(|way| states.contains(&way.state)).count()
        };
        (of(&[State::Clean, State::Dirty]), of(&[State::Dirty]))
    }

    /// Counters since the start or the last `reset_stats`.
    pub fn stats(&self) -> PageCacheStats {
        self.stats
    }
    /// Starts the counters afresh.
    pub fn reset_stats(&mut self) {
        self.stats = PageCacheStats::default();
    }

    /// Checks that each page is in its set, and once.
    ///
    /// # Panics
    /// With a sentence, if one is not.
    pub fn audit(&self) {
        for (index, way) in self.ways.iter().enumerate() {
            if way.state != State::Empty {
                assert_eq!(self.find(way.lpa), Some(index), "{} is in one way", way.lpa);
            }
        }
    }

    /// From now on these numbers of pages choose their sets. The cache is empty.
    pub fn number_pages(&mut self, numbers: &PageNumbers) {
        self.numbers = Some(numbers.clone());
    }

    /// An empty way has never been used, so it is taken first.
    fn set(&self, lpa: Lpa) -> std::ops::Range<usize> {
        let numbers = self.numbers.as_ref();
        let number = numbers.map_or(lpa.get(), |all| all.of(lpa));
        let first = (number % self.set_count) as usize * self.way_count;
        first..first + self.way_count
    }
    fn find(&self, lpa: Lpa) -> Option<usize> {
        let is_it = |way: &Way| way.lpa == lpa && way.state != State::Empty;
        self.set(lpa).find(|index| is_it(&self.ways[*index]))
    }
}

#[cfg(test)]
mod tests;
