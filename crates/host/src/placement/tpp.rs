//! Hint sampling as TPP does it (ASPLOS'23, on Linux's NUMA balancing): which pages of the device
//! are hot, found by faults.
//!
//! From time to time the next pages of the address space are *armed*: their page table entries
//! lose their right of access. The next access to such a page takes a *hint fault*. A page whose
//! fault finds it on the inactive list of the device's node goes to the active list; one that is
//! found on the active list is promoted, as far as the rate limit allows.

use std::collections::VecDeque;
use units::{BytesPerSec, Lpa, PageSize, Picos, Ratio, Time};

units::parameters! {
    /// TPP, transparent page placement by the operating system: sampling and migration.
    pub struct TppConfig: "tpp" {
        /// From one scan to the next.
        scan_period: Picos, "1us to 1000s",
            "Linux numa_balancing scan_period_min_ms (1s), which TPP keeps; SkyByte's artifact: 100ms";
        /// Pages of the device that a scan arms, in the order of addresses. 0: nothing is sampled.
        scan_pages: u32, "at most 2^30",
            "Linux numa_balancing scan_size_mb (256 MB), as SkyByte's artifact: 65536";
        /// Time a scan takes from a core for each page it arms.
        arm_cost: Picos, "at most 1ms", "our choice: a page table entry changed in a batch (20ns)";
        /// Time a hint fault takes from its core, and from the access.
        fault_cost: Picos, "at most 1ms",
            "our choice: order of a minor page fault on Linux (1us)";
        /// Time that isolating, allocating and remapping a page takes from the core that moves it,
        /// beside host.page_table_cost and the copy itself.
        migration_cost: Picos, "at most 1ms",
            "our choice: migrate_pages of one page, a few us with its copy and shootdown (2us)";
        /// Pages that can be under migration together; each is locked while it is.
        migrations: u32, "1 to 65536", "our choice: Linux has no limit; 64, as host.plb";
        /// Most bytes promoted in a second; a page beyond it stays on the active list.
        promotion_rate: BytesPerSec, "at least 1MB/s",
            "Linux numa_balancing_promote_rate_limit_MBps (65536 MB/s)";
        /// Share of host.promoted kept free: below it, inactive pages are demoted, independently of
        /// who wants to allocate.
        demotion_watermark: Ratio, "0% (nothing is demoted) to 50%", "TPP 5.2: demote_scale_factor (2%)";
        /// Pages of the device on its active list; beyond it the page longest there is inactive.
        active_pages: u32, "1 to 2^30",
            "SkyByte's artifact: 524288; Linux shortens the list only when the node is short of memory";
    }
}

impl TppConfig {
    /// Host pages kept free of so many: the watermark, at least one page unless it is 0%.
    pub fn kept_free(&self, host_page_count: u64) -> u64 {
        let share = self.demotion_watermark;
        share
            .of(host_page_count)
            .max(u64::from(share.numerator() > 0))
    }

    /// What is out of range, as sentences; empty if nothing is.
    pub fn validate(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let (least, most) = (Picos::from_micros(1), Picos::from_micros(1_000_000_000));
        if !(least..=most).contains(&self.scan_period) {
            problems.push(format!(
                "tpp.scan_period is {}; it must be from {least} to {most}.",
                self.scan_period
            ));
        }
        for (key, value, least, most) in [
            ("scan_pages", self.scan_pages, 0, 1 << 30),
            ("migrations", self.migrations, 1, 65_536),
            ("active_pages", self.active_pages, 1, 1 << 30),
        ] {
            if !(least..=most).contains(&value) {
                problems.push(format!(
                    "tpp.{key} is {value}; it must be from {least} to {most}."
                ));
            }
        }
        let longest = Picos::from_micros(1_000);
        for (key, span) in [
            ("arm_cost", self.arm_cost),
            ("fault_cost", self.fault_cost),
            ("migration_cost", self.migration_cost),
        ] {
            if span > longest {
                problems.push(format!(
                    "tpp.{key} is {span}; it must be at most {longest}."
                ));
            }
        }
        if self.promotion_rate.get() < 1_000_000 {
            problems.push(format!(
                "tpp.promotion_rate is {}; it must be at least 1MB/s.",
                self.promotion_rate
            ));
        }
        let watermark = self.demotion_watermark;
        if Ratio::percent(50).is_exceeded_by(watermark.numerator(), watermark.denominator()) {
            problems.push(format!(
                "tpp.demotion_watermark is {watermark}; it must be at most 50%."
            ));
        }
        problems
    }
}

/// A set of pages, a bit each.
#[derive(Clone, Debug)]
struct PageSet(Vec<u64>);

impl PageSet {
    fn new(page_count: u64) -> Self {
        Self(vec![0; page_count.div_ceil(64) as usize])
    }
    #[inline]
    fn contains(&self, lpa: Lpa) -> bool {
        self.0[(lpa.get() / 64) as usize] >> (lpa.get() % 64) & 1 == 1
    }
    /// Says whether it was new.
    fn insert(&mut self, lpa: Lpa) -> bool {
        let is_new = !self.contains(lpa);
        self.0[(lpa.get() / 64) as usize] |= 1 << (lpa.get() % 64);
        is_new
    }
    /// Says whether it was there.
    #[inline]
    fn remove(&mut self, lpa: Lpa) -> bool {
        let was_there = self.contains(lpa);
        self.0[(lpa.get() / 64) as usize] &= !(1 << (lpa.get() % 64));
        was_there
    }
}

/// What a hint fault leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HintFault {
    /// The page was inactive and is active now.
    Activated,
    /// The page was active: it is to be promoted.
    Promote,
    /// The page was active, but so many have been promoted that it must wait.
    RateLimited,
}

/// What the sampler did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SamplerStats {
    /// Scans.
    pub scans: u64,
    /// Pages armed.
    pub armed: u64,
    /// Hint faults taken.
    pub faults: u64,
    /// Faults on active pages that the rate limit held back.
    pub rate_limited: u64,
}

/// Which pages are armed, and the lists of the device's node.
#[derive(Clone, Debug)]
pub struct HintSampler {
    page_count: u64,
    scan_pages: u64,
    /// Where the next scan goes on.
    cursor: u64,
    armed: PageSet,
    /// By page: the stamp with which it went to the active list; 0 of an inactive page.
    stamps: Vec<u32>,
    last_stamp: u32,
    /// Active pages with their stamps, oldest first. An entry whose stamp is not its page's any
    /// more is of a page that has been promoted since.
    order: VecDeque<(Lpa, u32)>,
    active_count: usize,
    active_limit: usize,
    /// What a promoted page takes of the rate.
    page_time: Picos,
    /// When the rate allows the next promotion.
    allowed_from: Time,
    stats: SamplerStats,
}

impl HintSampler {
    /// `page_count` pages, none armed, none active.
    pub fn new(config: &TppConfig, page: PageSize, page_count: u64) -> Self {
        let limit = u64::from(config.active_pages).min(page_count.max(1));
        Self {
            page_count,
            scan_pages: u64::from(config.scan_pages),
            cursor: 0,
            armed: PageSet::new(page_count),
            stamps: vec![0; page_count as usize],
            last_stamp: 0,
            order: VecDeque::new(),
            active_count: 0,
            active_limit: limit as usize,
            page_time: config.promotion_rate.time_for(page.bytes()),
            allowed_from: Time::ZERO,
            stats: SamplerStats::default(),
        }
    }

    /// Arms the next `tpp.scan_pages` pages for which `is_on_device` holds, at most once round the
    /// address space, and appends to `newly` those that were not armed: their translations must go.
    pub fn scan(&mut self, is_on_device: impl Fn(Lpa) -> bool, newly: &mut Vec<Lpa>) {
        let mut left = self.scan_pages;
        for _ in 0..self.page_count {
            if left == 0 {
                break;
            }
            let lpa = Lpa::new(self.cursor);
            self.cursor = (self.cursor + 1) % self.page_count;
            if is_on_device(lpa) {
                left -= 1;
                if self.armed.insert(lpa) {
                    newly.push(lpa);
                    self.stats.armed += 1;
                }
            }
        }
        self.stats.scans += 1;
    }

    /// Whether the next access to the page that needs a page walk will fault.
    #[inline]
    pub fn is_armed(&self, lpa: Lpa) -> bool {
        self.armed.contains(lpa)
    }

    /// A page walk ends: if the page is armed, that is a hint fault, and it is armed no longer.
    #[inline]
    pub fn take_armed(&mut self, lpa: Lpa) -> bool {
        let is_fault = self.armed.remove(lpa);
        self.stats.faults += u64::from(is_fault);
        is_fault
    }

    /// The handler of a hint fault looks where the page is on the lists.
    pub fn on_fault(&mut self, now: Time, lpa: Lpa) -> HintFault {
        if self.stamps[lpa.get() as usize] == 0 {
            self.activate(lpa);
            return HintFault::Activated;
        }
        if now < self.allowed_from {
            self.stats.rate_limited += 1;
            return HintFault::RateLimited;
        }
        HintFault::Promote
    }

    /// The page leaves the device: it takes its share of the rate, and is on no list there.
    pub fn promoted(&mut self, now: Time, lpa: Lpa) {
        self.allowed_from = now.max(self.allowed_from) + self.page_time;
        self.armed.remove(lpa);
        self.deactivate(lpa);
        if self.order.len() > 2 * self.active_count + 64 {
            let stamps = &self.stamps;
            self.order
                .retain(|(page, stamp)| stamps[page.get() as usize] == *stamp);
        }
    }

    fn activate(&mut self, lpa: Lpa) {
        self.last_stamp += 1;
        self.stamps[lpa.get() as usize] = self.last_stamp;
        self.order.push_back((lpa, self.last_stamp));
        self.active_count += 1;
        while self.active_count > self.active_limit {
            let (oldest, stamp) = self.order.pop_front().expect("active pages are listed");
            if self.stamps[oldest.get() as usize] == stamp {
                self.deactivate(oldest);
            }
        }
    }

    fn deactivate(&mut self, lpa: Lpa) {
        let stamp = std::mem::take(&mut self.stamps[lpa.get() as usize]);
        self.active_count -= usize::from(stamp != 0);
    }

    /// Counters since the start or the last `reset_stats`.
    pub fn stats(&self) -> SamplerStats {
        self.stats
    }
    /// Starts the counters, and the rate of promotion, afresh: measurement begins.
    pub fn reset_stats(&mut self) {
        self.allowed_from = Time::ZERO;
        self.stats = SamplerStats::default();
    }

    /// Checks that every active page is listed once, and is a page of the device.
    ///
    /// # Panics
    /// With a sentence, if one is not.
    pub fn audit(&self, is_on_device: impl Fn(Lpa) -> bool) {
        let is_current = |(lpa, stamp): &&(Lpa, u32)| self.stamps[lpa.get() as usize] == *stamp;
        let listed = self.order.iter().filter(is_current).count();
        let active = self.stamps.iter().filter(|stamp| **stamp != 0).count();
        assert_eq!(
            (listed, active),
            (self.active_count, self.active_count),
            "active pages"
        );
        let mut pages = self.order.iter().filter(is_current);
        let elsewhere = pages.find(|(lpa, _)| !is_on_device(*lpa));
        assert_eq!(elsewhere, None, "an active page of the device is there");
    }
}

#[cfg(test)]
pub(super) mod tests;
