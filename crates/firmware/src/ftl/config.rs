//! Parameters of the FTL.

use super::allocator::{WRITTEN_BLOCKS, units_that_count};
use super::failures::least_spare;
use super::precondition::Layout;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use units::{FlashGeometry, PageSize, Picos, Ratio};

/// When and how much garbage collection runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GcKind {
    /// Per die, a few pages at a time, while it has fewer free blocks than `gc_start_blocks`.
    Incremental,
    /// The whole device at once: beyond `gc_threshold` of its blocks in use, erase
    /// `gc_bulk_blocks` (SkyByte Table II).
    Bulk,
}

/// Whose queue Algorithm 1 adds up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EstimatorKind {
    /// The channel's, as the paper writes it.
    Channel,
    /// The die's, which is what the page really waits for.
    Die,
    /// The die's reads alone: for flash that lets reads go first and suspends what is under way.
    Reads,
    /// None's: the flash says when the page will come, and a wait of just the threshold is too
    /// long as well. Where the flash cannot know, the channel's queue is added up.
    Exact,
}

/// Which die the first program of the host's goes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FirstWrite {
    /// The first.
    FirstDie,
    /// That of the page behind the last of the program's.
    BehindPages,
}

/// Which die a program of the host's goes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramTo {
    /// The next one in turn.
    InTurn,
    /// The next one in turn that has nothing to do; if none has, the next one.
    IdleDie,
}

units::parameters! {
    /// Flash translation layer: space, preconditioning, garbage collection, delay estimate.
    pub struct FtlConfig: "ftl" {
        /// What a logical page is: the unit of mapping, data cache and log. A flash page
        /// (`nand.page_size`) is programmed with as many as it holds, and read one by one.
        mapping_unit: PageSize, "a power of two from 64B to nand.page_size", "SkyByte Table II (4KiB, as its flash pages); 4KiB in flash pages of 16KiB is usual";
        /// Share of the raw flash that is not exported.
        over_provisioning: Ratio, "above 0% and below 100%; leaves each die gc_start_blocks + reserve_blocks + 2 blocks or more", "D18; SkyByte gives none, 12.5% is usual";
        /// Share of the exported pages that hold data at the start, from page 0 up.
        fill: Ratio, "0% to 100%", "D18: a device in use";
        /// Share of the filled pages that was overwritten before the start; their old copies still
        /// occupy blocks, up to where GC would have reclaimed them.
        overwritten: Ratio, "0% or more", "D18; SkyByte §VI-A preconditions so that GC is triggered, without a number";
        /// Where pages lie at the start: 0 puts each stripe of pages on the dies in order, any
        /// other number turns each stripe by an amount of its own. For runs over several
        /// placements.
        placement: u64, "any", "ours; which pages share a die is chance on a device in use";
        /// Which die the first program goes to; the next ones take turns: the first (`first_die`),
        /// or the one behind that of the program's last page (`behind_pages`).
        first_write: FirstWrite, "first_die or behind_pages",
            "ours (first_die); SkyByte's artifact: behind_pages";
        /// Which die a page of the controller's is programmed on, whether it leaves the data cache,
        /// the log or a buffer of the block port: dies take turns (`in_turn`), or those with
        /// nothing to do do (`idle_die`). GC stays on its die.
        program_to: ProgramTo, "in_turn or idle_die", "D18 (in_turn): the papers stripe pages over dies; idle_die is ours";
        /// How GC is scheduled.
        gc: GcKind, "incremental or bulk", "D18: the bulk policy of Table II cannot run within milliseconds";
        /// Incremental: GC of a die runs while it has fewer free blocks than this.
        gc_start_blocks: u32, "more than reserve_blocks", "ours: one block for GC, one for the host";
        /// Free blocks of a die that the host leaves to GC: one to write to, and one more for every
        /// failed program or power cut in a row that it is to live through.
        reserve_blocks: u32, "1 to 64", "ours: 1 where neither flash nor power fails";
        /// Flash pages that GC of one die has in flight beside host work.
        gc_pages: u32, "at least 1", "ours: bounds the delay of a host read to a few operations";
        /// Flash pages that GC of one die has in flight when host programs wait for it.
        gc_foreground_pages: u32, "at least gc_pages", "ours";
        /// Buffers that GC of all dies share, a flash page each.
        gc_buffers: u32, "1 to 65536", "ours";
        /// Work of a firmware core per relocated mapping unit.
        gc_page_cost: Picos, "at most 1ms", "D16; no value in the paper";
        /// Bulk: GC starts beyond this share of blocks in use.
        gc_threshold: Ratio, "above fill × exported share, at most 100%", "SkyByte Table II";
        /// Bulk: blocks that one GC erases, spread evenly over the dies.
        gc_bulk_blocks: u32, "at least 1", "SkyByte Table II";
        /// Erases by which the most worn block of a die may be ahead of the least worn one that
        /// holds data, before that one is emptied for its sake; 0: however many.
        wear_spread: u32, "0, or 1 to 10000000", "ours: 0, since a run of milliseconds wears nothing out";
        /// Whose queue the delay estimate adds up.
        estimator: EstimatorKind, "channel, die, reads or exact",
            "SkyByte Algorithm 1; D14; its artifact: exact; reads, of the die and nothing else, is ours";
    }
}

impl FtlConfig {
    /// Pages of the logical space that a device of this flash exports.
    pub fn exported_pages(&self, geometry: &FlashGeometry) -> u64 {
        Layout::new(geometry, self).exported * u64::from(geometry.die_count())
    }

    /// Whether flash has room for the exported pages, and takes writes, of which so many blocks of
    /// each die are bad. Dies that are not named have none.
    pub fn has_room_without(&self, geometry: &FlashGeometry, bad_of_die: &[u32]) -> bool {
        let bad = bad_of_die.iter().copied().chain(core::iter::repeat(0));
        let dies = bad.take(geometry.die_count() as usize);
        let kept = WRITTEN_BLOCKS.saturating_add(self.reserve_blocks);
        let usable = |bad: u32| geometry.blocks_per_die().saturating_sub(bad);
        let beyond_one = u64::from(geometry.units_per_page - 1);
        let pages_of = |blocks: u32| u64::from(blocks) * u64::from(units_that_count(geometry));
        let pages: u64 = dies
            .map(|bad| pages_of(usable(bad).saturating_sub(kept)).saturating_sub(beyond_one))
            .sum();
        pages.saturating_sub(self.exported_pages(geometry)) >= least_spare(geometry)
    }

    /// Everything wrong with the parameters on this flash, one sentence each.
    pub fn validate(&self, geometry: &FlashGeometry) -> Vec<String> {
        let mut problems = Vec::new();
        let mut require = |holds: bool, problem: String| {
            if !holds {
                problems.push(problem);
            }
        };
        let (unit, page) = (self.mapping_unit, geometry.page_size());
        require(
            unit == geometry.unit_size,
            format!(
                "ftl.mapping_unit is {unit}; it must be at most nand.page_size, which is {page}: \
                 set one or the other"
            ),
        );
        let share = self.over_provisioning;
        let is_proper = share.numerator() > 0 && share.numerator() < share.denominator();
        require(
            is_proper,
            format!("ftl.over_provisioning is {share}; it must be above 0% and below 100%"),
        );
        require(
            self.fill.is_at_most_one(),
            format!("ftl.fill is {}; it must be at most 100%", self.fill),
        );
        let at_least = [
            ("gc_pages", self.gc_pages, 1),
            (
                "gc_foreground_pages",
                self.gc_foreground_pages,
                self.gc_pages,
            ),
            ("gc_buffers", self.gc_buffers, 1),
            ("gc_bulk_blocks", self.gc_bulk_blocks, 1),
        ];
        for (name, value, least) in at_least {
            require(
                value >= least,
                format!("ftl.{name} is {value}; it must be at least {least}"),
            );
        }
        let (start, reserve) = (self.gc_start_blocks, self.reserve_blocks);
        require(
            (1..=64).contains(&reserve),
            format!("ftl.reserve_blocks is {reserve}; it must be 1 to 64"),
        );
        require(
            start > reserve,
            format!(
                "ftl.gc_start_blocks is {start}; it must be more than ftl.reserve_blocks, which \
                 is {reserve}"
            ),
        );
        require(
            self.gc_buffers <= 65_536,
            format!(
                "ftl.gc_buffers is {}; it must be at most 65536",
                self.gc_buffers
            ),
        );
        let longest = Picos::from_micros(1_000);
        require(
            self.gc_page_cost <= longest,
            format!(
                "ftl.gc_page_cost is {}; it must be at most {longest}",
                self.gc_page_cost
            ),
        );
        require(
            self.wear_spread <= 10_000_000,
            format!(
                "ftl.wear_spread is {}; it must be at most 10000000",
                self.wear_spread
            ),
        );
        let threshold = self.gc_threshold;
        require(
            threshold.is_at_most_one(),
            format!("ftl.gc_threshold is {threshold}; it must be at most 100%"),
        );
        if problems.is_empty() {
            self.validate_room(geometry, &mut problems);
        }
        problems
    }

    /// Whether GC has room to work in.
    fn validate_room(&self, geometry: &FlashGeometry, problems: &mut Vec<String>) {
        let (blocks, pages) = (geometry.blocks_per_die(), geometry.units_per_block);
        if geometry.unit_count() >= u64::from(u32::MAX) || pages > u32::from(u16::MAX) {
            problems.push(format!(
                "the flash has {} mapping units in blocks of {pages}; the FTL takes fewer than {} in blocks of at most {}",
                geometry.unit_count(), u32::MAX, u16::MAX,
            ));
        }
        let layout = Layout::new(geometry, self);
        let kept = [WRITTEN_BLOCKS, self.reserve_blocks, self.gc_start_blocks];
        let spare: u64 = kept.into_iter().map(u64::from).sum();
        let that_count = u64::from(units_that_count(geometry));
        let most = u64::from(blocks).saturating_sub(spare) * that_count;
        if layout.exported > most || layout.exported == 0 {
            problems.push(self.room_problem(geometry, (layout.exported, most), spare));
        } else if !layout.fits(geometry) {
            problems.push(format!(
                "ftl.gc_threshold is {}, but ftl.fill alone puts {} pages on each die of {blocks} blocks of {pages}; bulk GC would never reach it",
                self.gc_threshold, layout.mapped,
            ));
        }
    }

    /// Why GC has no room beside the exported units of a die, of which there may be `most`, and
    /// what to change. It needs `spare` blocks.
    fn room_problem(
        &self,
        geometry: &FlashGeometry,
        (exported, most): (u64, u64),
        spare: u64,
    ) -> String {
        let (blocks, in_block) = (geometry.blocks_per_die(), geometry.units_per_block);
        let in_page = geometry.units_per_page;
        let units = u64::from(blocks) * u64::from(in_block);
        let share = self.over_provisioning;
        let name = if in_page == 1 {
            "pages"
        } else {
            "mapping units"
        };
        // Of each block that may be full, what units_that_count leaves out.
        let beyond_one = match in_page {
            1 => String::new(),
            _ => format!(
                " and {} {name} of each other block, because nand.page_size is {in_page} {name} and \
                 GC gains a flash page only from a block with {in_page} invalid ones",
                in_page - 1
            ),
        };
        let needs = format!("GC needs {spare} blocks of {in_block} {name} beyond them{beyond_one}");
        // In tenths of a percent, upwards.
        let least =
            (u128::from(units - most.min(units)) * 1_000).div_ceil(u128::from(units.max(1)));
        let what = match least {
            1_000.. => format!(
                "a die of {blocks} blocks has not so much: lower ftl.gc_start_blocks or \
                 ftl.reserve_blocks, or give it more or larger blocks"
            ),
            _ => format!("set it to {}.{}% or more", least / 10, least % 10),
        };
        format!(
            "ftl.over_provisioning is {share}: {exported} of the {units} {name} of a die are \
             exported; {needs}; {what}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftl::testing::{self, GEOMETRY};

    fn problem(config: &FtlConfig) -> String {
        let problems = config.validate(&GEOMETRY);
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems[0].clone()
    }

    #[test]
    fn a_valid_section_has_no_problems() {
        assert!(testing::config().validate(&GEOMETRY).is_empty());
    }

    #[test]
    fn all_problems_are_found_at_once() {
        let config = FtlConfig {
            gc_start_blocks: 1,
            gc_buffers: 0,
            fill: Ratio::percent(101),
            ..testing::config()
        };
        assert_eq!(config.validate(&GEOMETRY).len(), 3);
        let config = FtlConfig {
            gc_buffers: 65_537,
            gc_page_cost: Picos::from_micros(1_001),
            ..testing::config()
        };
        assert_eq!(config.validate(&GEOMETRY).len(), 2);
    }

    #[test]
    fn gc_needs_room() {
        // 16 blocks less 3 and the watermark of 3 are 62.5 % of a die.
        let config = FtlConfig {
            over_provisioning: Ratio::percent(37),
            ..testing::config()
        };
        assert_eq!(
            problem(&config),
            "ftl.over_provisioning is 37%: 81 of the 128 pages of a die are exported; GC needs 6 \
             blocks of 8 pages beyond them; set it to 37.5% or more"
        );
        let enough = Ratio::new(375, 1_000);
        assert!(with_share(testing::config(), enough).is_empty());
    }

    /// What is wrong with another share, on the flash of the configuration.
    fn with_share(config: FtlConfig, over_provisioning: Ratio) -> Vec<String> {
        let geometry = testing::geometry(&config);
        let config = FtlConfig {
            over_provisioning,
            ..config
        };
        config.validate(&geometry)
    }

    /// With several mapping units in a flash page it needs more, and says why and how much.
    #[test]
    fn gc_needs_more_room_with_large_flash_pages_and_says_why() {
        let config = testing::paged(4);
        assert_eq!(
            with_share(config.clone(), Ratio::percent(40)),
            [
                "ftl.over_provisioning is 40%: 308 of the 512 mapping units of a die are exported; \
                 GC needs 6 blocks of 32 mapping units beyond them and 3 mapping units of each \
                 other block, because nand.page_size is 4 mapping units and GC gains a flash page \
                 only from a block with 4 invalid ones; set it to 43.4% or more"
            ]
        );
        assert!(with_share(config.clone(), Ratio::new(434, 1_000)).is_empty());
        assert_eq!(with_share(config, Ratio::new(433, 1_000)).len(), 1);
    }

    #[test]
    fn a_die_that_is_too_small_for_gc_is_told_so() {
        let config = FtlConfig {
            gc_start_blocks: 14,
            ..testing::config()
        };
        let none = problem(&config);
        assert!(
            none.contains("a die of 16 blocks has not so much: lower ftl.gc_start_blocks or"),
            "{none}"
        );
    }

    #[test]
    fn a_watermark_above_all_blocks_is_refused() {
        for gc_start_blocks in [14, u32::MAX - 3, u32::MAX] {
            let config = FtlConfig {
                gc_start_blocks,
                ..testing::config()
            };
            assert!(problem(&config).starts_with("ftl.over_provisioning is"));
        }
    }

    /// What may be written in a file: a sentence or a device, but no overflow.
    #[test]
    fn no_number_is_too_large_to_be_checked() {
        let most = FtlConfig {
            fill: Ratio::percent(u64::MAX),
            overwritten: Ratio::percent(u64::MAX),
            placement: u64::MAX,
            gc_start_blocks: u32::MAX,
            reserve_blocks: u32::MAX,
            gc_pages: u32::MAX,
            gc_foreground_pages: u32::MAX,
            gc_buffers: u32::MAX,
            gc_bulk_blocks: u32::MAX,
            wear_spread: u32::MAX,
            ..testing::config()
        };
        assert!(!most.validate(&GEOMETRY).is_empty());
        most.exported_pages(&GEOMETRY);
        most.has_room_without(&GEOMETRY, &[u32::MAX]);
        let overwritten = FtlConfig {
            overwritten: Ratio::percent(u64::MAX),
            ..testing::config()
        };
        assert!(overwritten.validate(&GEOMETRY).is_empty());
    }

    #[test]
    fn bulk_gc_needs_a_threshold_above_the_fill() {
        let config = FtlConfig {
            gc: GcKind::Bulk,
            gc_threshold: Ratio::percent(60),
            ..testing::config()
        };
        assert!(problem(&config).starts_with("ftl.gc_threshold is 60%"));
    }
}
