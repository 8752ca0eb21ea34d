//! Parameters of host memory and of migration.

use super::Pinned;
use serde::{Deserialize, Serialize};
use units::{Bytes, PageSize, Picos};

/// How a page comes to host DRAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MigrationKind {
    /// Line by line through the link.
    Copied,
    /// In no time and past the link.
    Instant,
}

/// What becomes of the newer bytes that the device holds of a page when it is promoted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromotedDirt {
    /// The host's copy is dirty if the device's was.
    Kept,
    /// The host's copy is clean, a dirty frame is dropped and the page's lines stay in the log.
    Forgotten,
}

/// What becomes of a dirty page that is taken out of host DRAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DemotionKind {
    /// Its lines are written to the device.
    Written,
    /// Its bytes are lost; a device without a log programs the promoted page instead.
    Lost,
}

/// Which page is taken out of host DRAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReclaimPolicy {
    /// Linux's active and inactive lists.
    Lists,
    /// The one that was accessed longest ago.
    Lru,
}

/// What an access to a promoted page costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PageAccess {
    /// What the host's DRAM takes.
    Timed,
    /// `host.page_latency`.
    Constant,
}

units::parameters! {
    /// Host DRAM for promoted pages, and what moving a page costs.
    pub struct HostConfig: "host" {
        /// Host DRAM for promoted pages. 0B: none, for designs that promote none.
        promoted: Bytes, "whole pages of cpu.page_size, at most 2^30", "SkyByte Table II (2GiB)";
        /// Entries of the promotion look-aside buffer: pages that can be on their way together.
        plb: u32, "1 to 65536", "SkyByte III-C (64)";
        /// Free host pages below which cold pages are demoted, so that promotions find room. 0: no
        /// page is ever demoted; if demotion is lost, one leaves when a promotion finds none free.
        reserve: u32, "at most half of the pages of host.promoted",
            "our choice, as Linux's low watermark: as many pages as plb can promote together";
        /// Active pages per inactive page above which the active list is shortened.
        inactive_ratio: u32, "1 to 1000",
            "Linux mm/vmscan.c, inactive_is_low: integer root of 10 x GiB, at least 1 (4 at 2GiB)";
        /// From the device's MSI-X message to the first instruction of the handler.
        interrupt_latency: Picos, "at most 1ms",
            "our choice, the paper gives none (D20): order of a PCIe interrupt (1us)";
        /// Time the handler takes from the core it runs on, the allocation of a page included.
        handler_cost: Picos, "at most 1ms",
            "our choice, the paper gives none (D20): a short interrupt handler (1us)";
        /// Time to change the page table entry, before the TLBs are shot down.
        page_table_cost: Picos, "at most 1ms",
            "our choice, the paper gives none (D20): lock, walk and write (200ns)";
        /// Time every core loses to a TLB shootdown: interrupt, invalidation, acknowledgement.
        shootdown_cost: Picos, "at most 1ms",
            "our choice, the paper gives none (D20): over 1000 cycles on the remote core (500ns)";
        /// Pages that one shootdown remaps, at most, in either direction, and that reclaim takes at
        /// a time. 1: each page has a shootdown of its own. A page that is copied waits for others
        /// that are on their way. Only where the device offers pages, which are copied.
        migration_batch: u32, "1 to 64; at most host.plb", "SkyByte III-C (1): page by page; more is ours";
        /// What each further page of a batch adds to every core's shootdown.
        batched_cost: Picos, "at most 1ms",
            "ours (100ns): one more TLB entry; used only with migration_batch above 1";
        /// How a page comes to host DRAM: line by line through the link (`copied`), or in no time
        /// and past the link (`instant`). What the handler, the page table and the shootdown cost
        /// is charged either way.
        migration: MigrationKind, "copied or instant", "SkyByte III-C (copied); its artifact: instant";
        /// Whether a page that the device held dirty is dirty in host DRAM (`kept`), or the newer
        /// bytes are forgotten (`forgotten`): a dirty frame is dropped, and lines in the log stay
        /// there until they are compacted.
        promoted_dirt: PromotedDirt, "kept or forgotten", "decision D20 (kept); SkyByte's artifact: forgotten";
        /// Whether a dirty page that leaves host DRAM is written to the device (`written`) or lost
        /// (`lost`). A device without a log then programs the page that is being promoted.
        demotion: DemotionKind, "written or lost", "decision D20 (written); SkyByte's artifact: lost";
        /// Which page leaves host DRAM: `lists` (Linux's active and inactive lists) or `lru`.
        reclaim: ReclaimPolicy, "lists or lru", "Linux mm/vmscan.c (lists); SkyByte's artifact: lru";
        /// Sets of host DRAM: a page may be in that of its number modulo the sets, in which room is
        /// made by LRU. 0: it may be anywhere. Only where the device offers pages (SkyByte's
        /// promotion) in pages of 4 KiB.
        sets: u32, "0 to 65536", "SkyByte III-C (0); its artifact: 8";
        /// Whether an access to a promoted page takes the time of host_dram (`timed`) or always
        /// page_latency, without any limit of bandwidth (`constant`).
        page_access: PageAccess, "timed or constant", "SkyByte Table II (timed); its artifact: constant";
        /// Time of an access to a promoted page if page_access is constant.
        page_latency: Picos, "at most 1ms", "SkyByte's artifact (46ns)";
        /// Pages that stay on the device, where the program wants them to survive a loss of power:
        /// a share or a size from the low (`first`) or the high end (`last`) of the addresses.
        pinned: Pinned, "none, all, \"first 25%\", \"last 64MiB\" and the like",
            "SkyByte IV, data persistence (none)";
    }
}

impl HostConfig {
    /// Pages of host DRAM for promoted pages.
    pub fn host_page_count(&self, page: PageSize) -> u32 {
        u32::try_from(self.promoted / page.bytes()).expect("host pages fit in 32 bits")
    }

    /// Free host pages that reclaim keeps: where demotion takes no time, it may wait for the
    /// promotion that needs the page.
    pub(super) fn effective_reserve(&self) -> u32 {
        self.reserve
            .max(u32::from(self.demotion == DemotionKind::Lost))
    }

    /// What is out of range, as sentences; empty if nothing is.
    /// `page` is the size of what is moved.
    pub fn validate(&self, page: Bytes) -> Vec<String> {
        let mut problems = Vec::new();
        let pages = self.promoted / page;
        if page * pages != self.promoted || pages > 1 << 30 {
            problems.push(format!(
                "host.promoted is {}; it must be whole pages of {page}, at most 2^30.",
                self.promoted
            ));
        } else if u64::from(self.reserve) > pages / 2 && pages > 0 {
            problems.push(format!(
                "host.reserve is {}; it must be at most half of the {pages} pages of host.promoted.",
                self.reserve
            ));
        }
        if self.sets > 65_536 {
            problems.push(format!(
                "host.sets is {}; it must be at most 65536.",
                self.sets
            ));
        }
        for (key, value, most) in [
            ("host.plb", self.plb, 65_536),
            ("host.inactive_ratio", self.inactive_ratio, 1_000),
        ] {
            if !(1..=most).contains(&value) {
                problems.push(format!("{key} is {value}; it must be from 1 to {most}."));
            }
        }
        // Of none is said above that there must be some.
        let most = self.plb.clamp(1, 64);
        if !(1..=most).contains(&self.migration_batch) {
            let batch = self.migration_batch;
            problems.push(format!(
                "host.migration_batch is {batch}; it must be from 1 to {most}, of host.plb = {} at most.",
                self.plb
            ));
        }
        let longest = Picos::from_micros(1_000);
        for (key, span) in [
            ("host.interrupt_latency", self.interrupt_latency),
            ("host.handler_cost", self.handler_cost),
            ("host.page_table_cost", self.page_table_cost),
            ("host.shootdown_cost", self.shootdown_cost),
            ("host.page_latency", self.page_latency),
            ("host.batched_cost", self.batched_cost),
        ] {
            if span > longest {
                problems.push(format!("{key} is {span}; it must be at most {longest}."));
            }
        }
        problems
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Defaults with room for `pages` pages of 4 KiB, none of them in reserve.
    pub(crate) fn config(pages: u64) -> HostConfig {
        HostConfig {
            promoted: PageSize::KIB_4.bytes() * pages,
            plb: 64,
            reserve: 0,
            inactive_ratio: 1,
            interrupt_latency: Picos::from_nanos(1_000),
            handler_cost: Picos::from_nanos(1_000),
            page_table_cost: Picos::from_nanos(200),
            shootdown_cost: Picos::from_nanos(500),
            migration_batch: 1,
            batched_cost: Picos::from_nanos(100),
            migration: MigrationKind::Copied,
            promoted_dirt: PromotedDirt::Kept,
            demotion: DemotionKind::Written,
            reclaim: ReclaimPolicy::Lists,
            sets: 0,
            page_access: PageAccess::Timed,
            page_latency: Picos::from_nanos(46),
            pinned: Pinned::None,
        }
    }

    #[test]
    fn the_defaults_are_in_range_and_each_excess_is_named() {
        assert!(config(524_288).validate(PageSize::KIB_4.bytes()).is_empty());
        assert!(config(0).validate(PageSize::KIB_4.bytes()).is_empty());
        let bad = HostConfig {
            promoted: Bytes::new(4_097),
            plb: 0,
            inactive_ratio: 1_001,
            handler_cost: Picos::from_micros(1_001),
            ..config(1)
        };
        assert_eq!(bad.validate(PageSize::KIB_4.bytes()).len(), 4);
        let greedy = HostConfig {
            reserve: 3,
            ..config(4)
        };
        assert_eq!(
            greedy.validate(PageSize::KIB_4.bytes()),
            ["host.reserve is 3; it must be at most half of the 4 pages of host.promoted."]
        );
    }
}
