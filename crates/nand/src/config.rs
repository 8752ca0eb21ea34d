//! Parameters of the flash and the NAND types of the paper.

use crate::EmpiricalConfig;
use serde::{Deserialize, Serialize};
use units::{Bytes, BytesPerSec, FlashGeometry, PageSize, Picos, Ratio, Timing};

units::parameters! {
    /// Organisation, timing and scheduling of the flash.
    pub struct NandConfig: "nand" {
        /// Channels of the device; each has a bus of its own.
        channels: u32, "1 to 256", "SkyByte Table II (16)";
        /// Chips (ways) on a channel.
        chips_per_channel: u32, "1 to 64", "SkyByte Table II (8)";
        /// Dies in a chip; dies work independently of each other.
        dies_per_chip: u32, "1 to 64", "SkyByte Table II (8)";
        /// Planes of a die; they share the die's one operation at a time.
        planes_per_die: u32, "1 to 16", "SkyByte Table II (1)";
        /// Erase blocks of a plane.
        blocks_per_plane: u32, "1 to 65536", "SkyByte Table II (128)";
        /// Pages of an erase block.
        pages_per_block: u32, "1 to 65536", "SkyByte Table II (256)";
        /// Size of a page.
        page_size: PageSize, "a power of two from 64B to 16KiB", "SkyByte Table II (4KiB)";
        /// Page read time: cells to page register.
        t_r: Picos, "1ns to 1s", "SkyByte Table II (3us), Table IV";
        /// Page program time: page register to cells.
        t_prog: Picos, "1ns to 1s", "SkyByte Table II (100us), Table IV";
        /// Block erase time.
        t_bers: Picos, "1ns to 1s", "SkyByte Table II (1ms), Table IV";
        /// Share of `t_bers` that an erase takes, where a block is so small a share of the one that
        /// `t_bers` is of: a block of 32 pages in place of 256 is erased in an eighth.
        erase_share: Ratio, "above 0%, at most 100%",
            "our choice: 1/8 where blocks have 32 pages and Table II's 256 (docs/nand.md)";
        /// Bandwidth of a channel's bus, between page registers and controller.
        channel_bandwidth: BytesPerSec, "1MB/s to 1000GB/s, or unlimited",
            "our choice (D17), the paper gives none: 2.4GB/s, 8 bits at 2400 MT/s, ONFI 5.0";
        /// What a page that is read goes over the bus as: a whole `page`, buses in the order in
        /// which dies ask for them; or `wanted_first`: the codewords that somebody waits for before
        /// all else on the bus, and what is left of the page behind.
        transfer: Transfer, "page or wanted_first",
            "our switch: docs/own-design.md; the paper reads pages";
        /// What the controller corrects at a time, and a part of a page that it can use alone.
        codeword: PageSize, "a power of two from 256B to a mapping unit",
            "our choice: 1KiB, as LDPC codes of SSD controllers; used only with wanted_first";
        /// Order of service at a die: `fifo`, `read_priority`, or `split`: two clocks, of which a
        /// read waits for the host's, but for one program at most of log compaction's.
        scheduling: Scheduling, "fifo, read_priority or split",
            "our switch; the paper names no order; its artifact: split";
        /// Whether a read suspends the program or erase its die is busy with, and goes before one
        /// whose page has just come in.
        suspend: bool, "true only with scheduling = read_priority", "our switch; off in the paper";
        /// Time a die needs to suspend an operation, and to resume it later, charged at suspension.
        t_suspend: Picos, "at most 1ms", "our choice; used only with suspend";
        /// What works independently: each `die`, or only each `channel`.
        parallelism: Parallelism, "die or channel",
            "SkyByte Table II (die); channel is the artifact's one serial unit (D17)";
    }
    groups {
        /// Times that vary, section `nand.empirical`.
        empirical: EmpiricalConfig;
    }
}

/// What a page that is read goes over the bus as.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transfer {
    /// A whole page, in the order in which dies ask for the bus.
    Page,
    /// Wanted codewords before all else, see [`Nand::want`](crate::Nand::want).
    WantedFirst,
}

/// Order of service at a die.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scheduling {
    /// In order of submission.
    Fifo,
    /// Reads first, but never past an earlier program or erase of the same block.
    ReadPriority,
    /// In order of submission on two clocks, see [`Nand::submit_split`](crate::Nand::submit_split).
    Split,
}

/// What serves one operation at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Parallelism {
    /// Every die on its own.
    Die,
    /// All dies of a channel together.
    Channel,
}

impl NandConfig {
    /// The organisation these parameters describe, mapped in units of `unit`, of which a page has
    /// a whole number (`ftl.mapping_unit`).
    pub const fn geometry(&self, unit: PageSize) -> FlashGeometry {
        let units = self.page_size.bytes().get() / unit.bytes().get();
        // A larger unit is a page: whoever sets the two says what is wrong.
        let (unit_size, units_per_page) = match units {
            0 => (self.page_size, 1),
            units => (unit, units as u32),
        };
        FlashGeometry {
            channel_count: self.channels,
            chips_per_channel: self.chips_per_channel,
            dies_per_chip: self.dies_per_chip,
            planes_per_die: self.planes_per_die,
            blocks_per_plane: self.blocks_per_plane,
            units_per_block: self.pages_per_block * units_per_page,
            unit_size,
            units_per_page,
        }
    }

    /// What the cells take where nothing is drawn, and what is expected of them where it is.
    pub const fn timing(&self) -> Timing {
        let overhead = self.empirical.overhead;
        Timing::constant(
            self.t_r.saturating_add(overhead),
            self.t_prog.saturating_add(overhead),
            self.erase_time().saturating_add(overhead),
        )
    }

    /// What an erase takes at the cells: `erase_share` of `t_bers`, rounded up to a picosecond, so
    /// that it is never nothing.
    pub const fn erase_time(&self) -> Picos {
        let (numerator, denominator) = (
            self.erase_share.numerator() as u128,
            self.erase_share.denominator() as u128,
        );
        let share = (self.t_bers.get() as u128 * numerator).div_ceil(denominator);
        // At most `t_bers`, which is checked before any device is made.
        Picos::new(share as u64)
    }

    /// How long a flash page occupies its channel's bus, rounded up to a picosecond.
    pub fn transfer_time(&self) -> Picos {
        self.transfer_time_of(self.page_size)
    }

    /// As [`Self::transfer_time`], of a mapping unit.
    pub fn transfer_time_of(&self, unit: PageSize) -> Picos {
        self.channel_bandwidth.time_for(unit.bytes())
    }

    /// Codewords of a unit that is read; one if a codeword were larger.
    pub const fn codewords_of(&self, unit: PageSize) -> u32 {
        let codewords = unit.bytes().get() / self.codeword.bytes().get();
        if codewords == 0 { 1 } else { codewords as u32 }
    }

    /// Time from the submission of a read of a whole flash page to its completion when nothing else
    /// is going on.
    pub fn unloaded_read(&self) -> Picos {
        self.timing().expected(units::FlashOp::Read) + self.transfer_time()
    }

    /// Everything that is out of range, one sentence each; empty if the section is usable.
    pub fn validate(&self) -> Vec<String> {
        let mut problems = Vec::new();
        self.check_counts(&mut problems);
        self.check_times(&mut problems);
        problems.extend(self.empirical.validate());
        if !self.empirical.is_off() && self.scheduling == Scheduling::Split {
            problems.push(
                "nand.empirical has times that vary, and nand.scheduling = split has constants \
                 alone: take fifo or read_priority"
                    .to_owned(),
            );
        }
        self.check_transfer(&mut problems);
        if self.suspend && self.scheduling != Scheduling::ReadPriority {
            problems.push(
                "nand.suspend = true needs nand.scheduling = \"read_priority\": \
                 in any other order no read may start before the operation it would suspend ends"
                    .to_owned(),
            );
        }
        problems
    }

    fn check_transfer(&self, problems: &mut Vec<String>) {
        let codeword = self.codeword.bytes();
        if codeword < Bytes::new(256) {
            problems.push(format!(
                "nand.codeword is {codeword}; it must be a power of two from 256B to a mapping unit"
            ));
        }
        if self.transfer == Transfer::Page {
            return;
        }
        if self.scheduling == Scheduling::Split || self.parallelism == Parallelism::Channel {
            problems.push(
                "nand.transfer = wanted_first needs dies that share a bus: nand.parallelism = die, \
                 and nand.scheduling = fifo or read_priority"
                    .to_owned(),
            );
        }
        if codeword > self.page_size.bytes() {
            problems.push(format!(
                "nand.codeword is {codeword}, more than nand.page_size; a page has a whole number \
                 of codewords"
            ));
        }
    }

    fn check_counts(&self, problems: &mut Vec<String>) {
        let counts = [
            ("channels", self.channels, 256),
            ("chips_per_channel", self.chips_per_channel, 64),
            ("dies_per_chip", self.dies_per_chip, 64),
            ("planes_per_die", self.planes_per_die, 16),
            ("blocks_per_plane", self.blocks_per_plane, 65_536),
            ("pages_per_block", self.pages_per_block, 65_536),
        ];
        for (name, value, most) in counts {
            if value < 1 || value > most {
                problems.push(format!("nand.{name} is {value}; it must be 1 to {most}"));
            }
        }
        let blocks: u128 = counts[..5]
            .iter()
            .map(|(_, value, _)| u128::from(*value))
            .product();
        if blocks > u128::from(u32::MAX) {
            problems.push(format!(
                "the flash has {blocks} blocks; at most 4294967295 can be addressed, \
                 so lower nand.blocks_per_plane"
            ));
        }
    }

    fn check_times(&self, problems: &mut Vec<String>) {
        let shortest = Picos::from_nanos(1);
        let longest = Picos::from_micros(1_000_000);
        for (name, time) in [
            ("t_r", self.t_r),
            ("t_prog", self.t_prog),
            ("t_bers", self.t_bers),
        ] {
            if time < shortest || time > longest {
                problems.push(format!("nand.{name} is {time}; it must be 1ns to 1s"));
            }
        }
        let share = self.erase_share;
        if share.numerator() == 0 || !share.is_at_most_one() {
            problems.push(format!(
                "nand.erase_share is {share}; it must be above 0%, at most 100%"
            ));
        }
        if self.t_suspend > Picos::from_micros(1_000) {
            problems.push(format!(
                "nand.t_suspend is {}; it must be at most 1ms",
                self.t_suspend
            ));
        }
        let bandwidth = self.channel_bandwidth;
        let is_finite = (1_000_000..=1_000_000_000_000).contains(&bandwidth.get());
        if !is_finite && bandwidth != BytesPerSec::UNLIMITED {
            problems.push(format!(
                "nand.channel_bandwidth is {bandwidth}; it must be 1MB/s to 1000GB/s, or unlimited"
            ));
        }
    }

    /// Raw capacity of the flash.
    pub const fn capacity(&self) -> Bytes {
        self.geometry(self.page_size).capacity()
    }
}
