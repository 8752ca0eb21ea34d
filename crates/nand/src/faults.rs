//! What goes wrong in flash, and how it grows with wear and age.
//!
//! Every outcome is a pure function of the seed, the place, and the condition of the block: erases
//! so far, days since it was written. So it does not depend on what else was done or in which
//! order, a read that cannot be corrected cannot be corrected again, and a shorter run that writes
//! the same page has the same faults. Integers throughout.
//!
//! - *Bad blocks*: a share is bad from the factory; another goes bad by the rated wear, each at a
//!   wear of its own, evenly spread. Programs and erases of a bad block fail.
//! - *Programs and erases* fail at a rate that grows tenfold, linearly, from new to rated wear.
//! - *Reads*: a page has raw bit errors in its worst codeword: the mean for its wear and age, times
//!   a factor of its own, `7/8 + x/8`, where one page in 2 to the power of *k* has *x* above *k*.
//!   The mean grows with wear as the failures do, and fourfold, linearly, from fresh to rated
//!   retention. What the code cannot correct is read again with shifted levels, up to
//!   `retry_steps` times; each time a share `retry_gain` of the errors goes.
//!
//! That growth is linear is ours: charge really leaks quickly at first (Luo et al., "Improving 3D
//! NAND flash memory lifetime", SIGMETRICS 2018). Reads do not disturb, temperature is constant.

use crate::Kind;
use serde::{Deserialize, Serialize};
use units::{BlockAddr, FlashGeometry, Picos, Ppa, Ratio, Stream, Time};

units::parameters! {
    /// What goes wrong in the flash. With the rates at zero nothing does.
    pub struct FaultConfig: "faults" {
        /// What draws which blocks and pages fail: another seed is another piece of flash.
        seed: u64, "any", "ours: 1";
        /// Erases that a block is rated for; the rates below are those at that wear. Health reports
        /// the share that is used.
        rated_wear: u32, "1 to 10000000", "ours: 3000, usual for TLC";
        /// Erases that every block has had when the device is made.
        initial_wear: u32, "0 to 10000000", "ours: 0, new flash";
        /// Days that a page at rated wear is to be kept.
        rated_retention_days: u32, "1 to 36500", "JEDEC JESD218, client class: 1 year";
        /// Device time that counts as a day of retention; less ages the flash faster, as baking it
        /// does.
        day: Picos, "10ms to 86400s", "ours: 86400s, a day; JESD218 bakes too";
        /// Share of the blocks that are bad from the factory.
        factory_bad: Ratio, "0% to 50%", "data sheets (S34ML: factory and grown, at most 2%)";
        /// Share of the blocks that go bad by the rated wear.
        grown_bad: Ratio, "0% to 100%", "data sheets (S34ML: factory and grown, at most 2%)";
        /// Share of the programs that fail.
        program_failure: Ratio, "0% to 100%", "ours";
        /// Share of the erases that fail.
        erase_failure: Ratio, "0% to 100%", "ours";
        /// Raw bit errors in the worst codeword of an average page at rated wear and retention.
        raw_errors: u32, "0 to 10000", "ours; ECC is made for about twice as many";
        /// Bit errors that the code corrects in a codeword.
        correctable: u32, "1 to 10000", "ours: 72 in 1 KiB, as codes of TLC do";
        /// Times a page is read again, with shifted levels, before it is given up.
        retry_steps: u32, "0 to 64", "ours: 5";
        /// Share of the raw bit errors that each such read does away with.
        retry_gain: Ratio, "0% to 100%", "ours: 25%";
    }
}

impl FaultConfig {
    /// Whether nothing can go wrong.
    pub const fn is_off(&self) -> bool {
        self.factory_bad.numerator() == 0
            && self.grown_bad.numerator() == 0
            && self.program_failure.numerator() == 0
            && self.erase_failure.numerator() == 0
            && self.raw_errors == 0
    }

    /// Everything that is out of range, one sentence each.
    pub fn validate(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let numbers = [
            ("rated_wear", self.rated_wear, 1, 10_000_000),
            ("initial_wear", self.initial_wear, 0, 10_000_000),
            ("rated_retention_days", self.rated_retention_days, 1, 36_500),
            ("raw_errors", self.raw_errors, 0, 10_000),
            ("correctable", self.correctable, 1, 10_000),
            ("retry_steps", self.retry_steps, 0, 64),
        ];
        for (key, value, low, high) in numbers {
            if !(low..=high).contains(&value) {
                problems.push(format!(
                    "faults.{key} is {value}; it must be {low} to {high}"
                ));
            }
        }
        let (shortest, longest) = (
            Picos::from_micros(10_000),
            Picos::from_micros(86_400_000_000),
        );
        if !(shortest..=longest).contains(&self.day) {
            problems.push(format!(
                "faults.day is {}; it must be {shortest} to {longest}",
                self.day
            ));
        }
        let shares = [
            ("factory_bad", self.factory_bad, Ratio::percent(50)),
            ("grown_bad", self.grown_bad, Ratio::percent(100)),
            ("program_failure", self.program_failure, Ratio::percent(100)),
            ("erase_failure", self.erase_failure, Ratio::percent(100)),
            ("retry_gain", self.retry_gain, Ratio::percent(100)),
        ];
        for (key, share, most) in shares {
            if most.is_exceeded_by(share.numerator(), share.denominator()) {
                problems.push(format!(
                    "faults.{key} is {share}; it must be at most {most}"
                ));
            }
        }
        problems
    }
}

/// How a command failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The page was not programmed; what it holds is undefined until its block is erased.
    ProgramFailed,
    /// The block was not erased; what it holds is undefined.
    EraseFailed,
    /// The page has more bit errors than can be corrected, however it is read.
    Uncorrectable,
}

/// A day in the life of the flash; virtual: it comes when the harness says so.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Day(u32);

impl Day {
    /// The day with this number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }
    /// Its number.
    pub const fn get(self) -> u32 {
        self.0
    }
    /// The day it is when a device has been at work until `now` and a day has this length.
    pub fn at(now: Time, length: Picos) -> Self {
        Calendar {
            day: length,
            nanos_before: 0,
        }
        .today(now)
    }
}

/// How a device's clock becomes days.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Calendar {
    /// How long a day is.
    pub day: Picos,
    /// Nanoseconds that the device was at work before its clock began anew: 584 years at most.
    pub nanos_before: u64,
}

impl Calendar {
    /// The day it is at `now`.
    pub fn today(&self, now: Time) -> Day {
        let before = u128::from(self.nanos_before) * 1_000;
        let number = (before + u128::from(now.as_picos())) / u128::from(self.day.get().max(1));
        Day(u32::try_from(number).unwrap_or(u32::MAX))
    }
}

/// What a block has been through; a harness keeps it over a power cycle.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Condition {
    /// Erases so far.
    pub wear: u32,
    /// When its first page was programmed; None while it is erased.
    pub written: Option<Day>,
}

/// How the read of a page ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadOutcome {
    /// How often the page was read again.
    pub retries: u32,
    /// Whether its bytes are right.
    pub is_corrected: bool,
}

/// What goes wrong in one device.
#[derive(Clone, Debug)]
pub struct Faults {
    config: FaultConfig,
    geometry: FlashGeometry,
    today: Day,
    blocks: Vec<Condition>,
}

impl Faults {
    /// Flash as it leaves the factory. The configuration has passed [`FaultConfig::validate`].
    pub fn new(config: &FaultConfig, geometry: FlashGeometry) -> Self {
        let problems = config.validate();
        assert!(problems.is_empty(), "a usable faults section: {problems:?}");
        let first = Condition {
            wear: config.initial_wear,
            written: None,
        };
        Self {
            config: config.clone(),
            geometry,
            today: Day::default(),
            blocks: vec![first; geometry.block_count() as usize],
        }
    }

    /// Blocks that are marked bad when the flash leaves the factory, in ascending order.
    pub fn factory_bad_blocks(&self) -> impl Iterator<Item = BlockAddr> {
        (0..self.geometry.block_count())
            .map(BlockAddr::new)
            .filter(|block| self.is_factory_bad(*block))
    }
    /// What each block has been through.
    pub fn conditions(&self) -> &[Condition] {
        &self.blocks
    }
    /// A block has been through this before the power came on.
    pub fn restore(&mut self, block: BlockAddr, condition: Condition) {
        self.blocks[block.index()] = condition;
    }
    /// The day it is.
    pub fn today(&self) -> Day {
        self.today
    }
    /// A later day has come.
    pub fn set_today(&mut self, today: Day) {
        assert!(self.today <= today, "days do not come back");
        self.today = today;
    }

    /// How a read of the flash page of this unit ends.
    pub fn read(&self, page: Ppa) -> ReadOutcome {
        let fine = ReadOutcome {
            retries: 0,
            is_corrected: true,
        };
        if self.config.raw_errors == 0 {
            return fine;
        }
        let most = u64::from(self.config.correctable) * UNIT;
        let mut errors = self.raw_errors(page);
        for retries in 0..=self.config.retry_steps {
            if errors <= most {
                return ReadOutcome { retries, ..fine };
            }
            errors = self.config.retry_gain.rest().of(errors);
        }
        ReadOutcome {
            retries: self.config.retry_steps,
            is_corrected: false,
        }
    }

    /// Programs the flash page of this unit; says whether that succeeded.
    pub fn program(&mut self, page: Ppa) -> bool {
        let block = self.geometry.block_of(page);
        let today = self.today;
        let wear = self.blocks[block.index()].wear;
        self.blocks[block.index()].written.get_or_insert(today);
        let rate = self.config.program_failure;
        let page = self.geometry.page_of(page).get();
        !self.is_bad(block) && !self.fails(rate, wear, "nand/faults/program", page)
    }

    /// Erases the block; says whether that succeeded.
    pub fn erase(&mut self, block: BlockAddr) -> bool {
        let wear = self.blocks[block.index()].wear;
        let rate = self.config.erase_failure;
        let is_erased =
            !self.is_bad(block) && !self.fails(rate, wear, "nand/faults/erase", block.get().into());
        if is_erased {
            self.blocks[block.index()] = Condition {
                wear: wear + 1,
                written: None,
            };
        }
        is_erased
    }

    fn is_factory_bad(&self, block: BlockAddr) -> bool {
        self.draw("nand/faults/factory", block.get().into(), 0)
            .chance(self.config.factory_bad)
    }

    /// Whether programs and erases of the block fail, always.
    fn is_bad(&self, block: BlockAddr) -> bool {
        let share = self.config.grown_bad;
        self.is_factory_bad(block)
            || share.numerator() > 0 && {
                let mut draw = self.draw("nand/faults/grown", block.get().into(), 0);
                // It fails from a wear on that is below the rated one for this share of blocks.
                let span = u128::from(self.config.rated_wear) * u128::from(share.denominator())
                    / u128::from(share.numerator());
                let end = draw.below(u64::try_from(span).unwrap_or(u64::MAX).max(1));
                u64::from(self.blocks[block.index()].wear) >= end.max(1)
            }
    }

    fn fails(&self, rate: Ratio, wear: u32, path: &str, place: u64) -> bool {
        if rate.numerator() == 0 {
            return false;
        }
        // Out of 2 to the power of 32: at rated wear the rate, of new flash a tenth.
        let rated = u64::from(self.config.rated_wear);
        let grown = ((rated + 9 * u64::from(wear)) << 32) / (10 * rated);
        self.draw(path, place, wear).below(1 << 32) < rate.of(grown)
    }

    /// Bit errors in the worst codeword of a page, in parts of a [`UNIT`].
    fn raw_errors(&self, page: Ppa) -> u64 {
        let block = &self.blocks[self.geometry.block_of(page).index()];
        let written = block.written.unwrap_or(self.today);
        let age = u128::from(self.today.get() - written.get().min(self.today.get()));
        let (wear, rated) = (u128::from(block.wear), u128::from(self.config.rated_wear));
        let kept = u128::from(self.config.rated_retention_days);
        let mean = u128::from(self.config.raw_errors) * u128::from(UNIT) * (rated + 9 * wear)
            / (10 * rated)
            * (kept + 3 * age)
            / (4 * kept);
        let bits = self
            .draw(
                "nand/faults/read",
                self.geometry.page_of(page).get(),
                block.wear,
            )
            .bits();
        // Minus the binary logarithm of the draw, its fraction by a straight line.
        let whole = u64::from(bits.leading_zeros());
        let mantissa = bits.checked_shl(bits.leading_zeros() + 1).unwrap_or(0) >> 32;
        let weakness = (whole << 32) + ((1 << 32) - mantissa);
        let factor = 7 * (1_u128 << 32) + u128::from(weakness);
        u64::try_from((mean * factor) >> 35).unwrap_or(u64::MAX)
    }

    /// What is drawn for a place at a wear.
    fn draw(&self, path: &str, place: u64, wear: u32) -> Stream {
        let identity = place ^ u64::from(wear).rotate_left(40);
        Stream::new(
            self.config.seed ^ identity.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            path,
        )
    }
}

/// In how many parts a bit error is counted.
const UNIT: u64 = 1024;

/// The fault of a command of this kind that does not succeed.
pub(crate) const fn fault_of(kind: Kind) -> Fault {
    match kind {
        Kind::Read => Fault::Uncorrectable,
        Kind::Program => Fault::ProgramFailed,
        Kind::Erase => Fault::EraseFailed,
    }
}

#[cfg(test)]
mod tests;
