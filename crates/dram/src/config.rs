//! Parameters of a DRAM and what follows from them.

use serde::{Deserialize, Serialize};
use units::address::LINE_BYTES;
use units::{Bytes, Cycles, Hertz, Picos};

/// What neighbouring lines of a memory have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mapping {
    /// Consecutive lines are on consecutive channels.
    Lines,
    /// Consecutive lines are in one row; consecutive rows are in consecutive banks, those of a
    /// channel first, in an order that each 32 MiB change (bits 25 on are exclusive-ored).
    Rows,
}

/// Declares a DRAM section: the two sections have the same keys and differ in their sources.
macro_rules! dram_section {
    (
        $(#[doc = $doc:literal])* $name:ident: $section:literal,
        rate: $rate_source:literal, channels: $channels_source:literal,
        timings: $timing_source:literal, layout: $layout_source:literal
    ) => {
        units::parameters! {
            $(#[doc = $doc])*
            pub struct $name: $section {
                /// Transfers per second on a data line; the clock of the timings is half of it.
                data_rate: Hertz, "100MHz to 20GHz", $rate_source;
                /// Independent channels.
                channels: u32, "a power of two from 1 to 64", $channels_source;
                /// What changes first from line to line: the channel (`lines`), or, after a whole
                /// row, the bank (`rows`). With `rows` host DRAM is addressed as the program
                /// addresses it, not by pages in the order of the capture's list.
                mapping: Mapping, "lines or rows", "our choice: lines, as memory controllers do";
                /// Banks of a channel, each with one open row.
                banks: u32, "a power of two from 1 to 256", $layout_source;
                /// Bytes of a row of a bank, over all chips of the channel.
                row_size: Bytes, "a power of two from 64B to 64KiB", $layout_source;
                /// Bytes that the channel's data bus carries in one transfer.
                bus_width: Bytes, "1B to 64B", $layout_source;
                /// Whether a bank takes a command while data of the one before are under way.
                pipelined: bool, "true or false", "our choice: true, as DRAM does";
                /// CL: clocks from column command to data.
                cl: u32, "1 to 1000", $timing_source;
                /// tRCD: clocks from row activation to column command.
                rcd: u32, "1 to 1000", $timing_source;
                /// tRP: clocks from precharge to row activation.
                rp: u32, "1 to 1000", $timing_source;
            }
        }

        impl $name {
            /// The memory that these parameters describe.
            pub fn spec(&self) -> DramSpec {
                DramSpec {
                    section: $section,
                    data_rate: self.data_rate,
                    channels: self.channels,
                    mapping: self.mapping,
                    banks: self.banks,
                    row_size: self.row_size,
                    bus_width: self.bus_width,
                    pipelined: self.pipelined,
                    clocks: [self.cl, self.rcd, self.rp],
                }
            }
            /// Everything that is out of range, one sentence each; empty if the section is usable.
            pub fn validate(&self) -> Vec<String> {
                self.spec().validate()
            }
        }
    };
}

dram_section! {
    /// The host's DRAM, for promoted pages, code and page tables, and everything in DRAM-Only.
    HostDramConfig: "host_dram",
    rate: "SkyByte Table II (DDR5 4800)",
    channels: "SkyByte Table II (8)",
    timings: "SkyByte Table II (36-38-38, read as CL-tRCD-tRP)",
    layout: "JEDEC DDR5: 64 data bits, 32 banks, 8 chips with rows of 1KiB"
}

dram_section! {
    /// The device's DRAM, which holds write log, log index and data cache.
    SsdDramConfig: "ssd_dram",
    rate: "SkyByte Table II (LPDDR4 3200)",
    channels: "SkyByte Table II (2)",
    timings: "SkyByte Table II (16-18-18, read as CL-tRCD-tRP)",
    layout: "JEDEC LPDDR4: 16 data bits, 8 banks, rows of 2KiB"
}

/// A memory, from either section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DramSpec {
    section: &'static str,
    data_rate: Hertz,
    pub(crate) channels: u32,
    pub(crate) mapping: Mapping,
    pub(crate) banks: u32,
    pub(crate) row_size: Bytes,
    bus_width: Bytes,
    pub(crate) pipelined: bool,
    /// CL, tRCD, tRP.
    clocks: [u32; 3],
}

impl DramSpec {
    /// Time from column command to data.
    pub fn cl(&self) -> Picos {
        self.clocks_span(self.clocks[0])
    }
    /// Time from row activation to column command.
    pub fn rcd(&self) -> Picos {
        self.clocks_span(self.clocks[1])
    }
    /// Time from precharge to row activation.
    pub fn rp(&self) -> Picos {
        self.clocks_span(self.clocks[2])
    }
    /// How long a line occupies the data bus.
    pub fn burst(&self) -> Picos {
        let transfers = LINE_BYTES.get().div_ceil(self.bus_width.get());
        span(Cycles::new(transfers), self.data_rate.get())
    }
    /// Lines of a row.
    pub fn lines_per_row(&self) -> u64 {
        self.row_size / LINE_BYTES
    }
    /// From the request to the last byte, with the row open and nothing in the way.
    pub fn unloaded_hit(&self) -> Picos {
        self.cl() + self.burst()
    }
    /// As [`DramSpec::unloaded_hit`], with no row open in the bank.
    pub fn unloaded_closed(&self) -> Picos {
        self.rcd() + self.unloaded_hit()
    }
    /// As [`DramSpec::unloaded_hit`], with another row open in the bank.
    pub fn unloaded_conflict(&self) -> Picos {
        self.rp() + self.unloaded_closed()
    }

    fn clocks_span(&self, clocks: u32) -> Picos {
        // Two transfers a clock.
        span(Cycles::new(u64::from(clocks) * 2), self.data_rate.get())
    }

    fn validate(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let section = self.section;
        if !(100_000_000..=20_000_000_000).contains(&self.data_rate.get()) {
            let rate = self.data_rate;
            problems.push(format!(
                "{section}.data_rate is {rate}; it must be 100MHz to 20GHz"
            ));
        }
        for (name, count, most) in [("channels", self.channels, 64), ("banks", self.banks, 256)] {
            if !count.is_power_of_two() || count > most {
                problems.push(format!(
                    "{section}.{name} is {count}; it must be a power of two from 1 to {most}"
                ));
            }
        }
        let row = self.row_size;
        if !row.get().is_power_of_two() || row < LINE_BYTES || row > Bytes::from_kib(64) {
            problems.push(format!(
                "{section}.row_size is {row}; it must be a power of two from 64B to 64KiB"
            ));
        }
        if self.bus_width == Bytes::ZERO || self.bus_width > LINE_BYTES {
            let width = self.bus_width;
            problems.push(format!(
                "{section}.bus_width is {width}; it must be 1B to 64B"
            ));
        }
        for (name, clocks) in ["cl", "rcd", "rp"].into_iter().zip(self.clocks) {
            if !(1..=1000).contains(&clocks) {
                problems.push(format!(
                    "{section}.{name} is {clocks}; it must be 1 to 1000"
                ));
            }
        }
        problems
    }
}

/// The span of `cycles` at `rate` a second, rounded up to a picosecond: the period of 2.4 GHz is
/// no whole number of them, so each timing is rounded once instead of its clocks one by one.
fn span(cycles: Cycles, rate: u64) -> Picos {
    Picos::new((cycles.get() * 1_000_000_000_000).div_ceil(rate))
}
