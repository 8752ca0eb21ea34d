//! What is asked of the device, and in what words.

use super::pattern::Pattern;
use std::path::PathBuf;
use std::str::FromStr;
use units::address::LINE_BYTES;
use units::{Bytes, PageSize, ParseQuantityError, Ratio};

/// A replay's input and how it is offered.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Where requests come from.
    pub input: Input,
    /// When they come.
    pub arrivals: Arrivals,
    /// Through which port they go; left to their size if none is said.
    pub port: Option<Port>,
    /// Requests completed before measurement starts.
    pub warmup: u64,
    /// Requests that are offered at most, warm-up left out; all of a file if none is said.
    pub limit: Option<u64>,
}

/// Where requests come from.
#[derive(Clone, Debug)]
pub enum Input {
    /// A pattern.
    Synthetic(Synthetic),
    /// A block trace.
    File(PathBuf),
}

/// When requests come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrivals {
    /// So many are under way at any time.
    Closed(u32),
    /// At the times of the trace, divided by this many thousandths.
    Open {
        /// 1000 is as recorded, 2000 twice as fast.
        speedup_milli: u64,
    },
}

/// The two doors of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Port {
    /// Lines of 64 B, as CXL.mem carries them.
    Line,
    /// Whole flash pages.
    Block,
}

/// A synthetic pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Synthetic {
    /// Which requests.
    pub pattern: Pattern,
    /// Bytes of a request: a multiple of 64.
    pub block: Bytes,
    /// Share of reads in [`Pattern::RandRw`].
    pub read_share: Ratio,
    /// The part of the device that is used, from its start.
    pub working_set: WorkingSet,
    /// Exponent of Zipf's law in thousandths; 0 means that all addresses are equally likely.
    pub zipf_milli: u32,
}

/// The part of the logical space that a pattern uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkingSet {
    /// A share of the exported space.
    Share(Ratio),
    /// A size.
    Size(Bytes),
}

impl WorkingSet {
    /// Its size on a device that exports `capacity`.
    pub fn on(self, capacity: Bytes) -> Bytes {
        match self {
            Self::Share(share) => Bytes::new(share.of(capacity.get())),
            Self::Size(size) => size,
        }
    }
}

impl FromStr for WorkingSet {
    type Err = ParseQuantityError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let share = text.parse().map(Self::Share);
        share
            .or_else(|_| text.parse().map(Self::Size))
            .map_err(|_| {
                ParseQuantityError::new(text, "a share such as 80% or a size such as 1GiB")
            })
    }
}

impl Port {
    /// Bytes of an operation on a device with this flash page.
    pub fn unit(self, page: PageSize) -> Bytes {
        match self {
            Self::Line => LINE_BYTES,
            Self::Block => page.bytes(),
        }
    }

    /// The port for requests of this size, if the user leaves it open: what is smaller than the
    /// sector of a disk goes line by line.
    pub fn for_size(size: Bytes) -> Self {
        if size < Bytes::new(512) {
            Self::Line
        } else {
            Self::Block
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_working_set_is_a_share_or_a_size() {
        let capacity = Bytes::from_mib(10);
        let on = |text: &str| text.parse::<WorkingSet>().map(|set| set.on(capacity));
        assert_eq!(on("50%"), Ok(Bytes::from_mib(5)));
        assert_eq!(on("3MiB"), Ok(Bytes::from_mib(3)));
        assert!(on("half").is_err());
    }
}
