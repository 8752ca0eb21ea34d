//! What a run is asked for.

use units::Bytes;

/// How many threads work in the region of interest; 1 to [`Threads::MOST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Threads(usize);

impl Threads {
    /// The most that a run takes.
    pub const MOST: usize = 256;

    /// `count` threads, or nothing when that is none or too many.
    #[must_use]
    pub const fn new(count: usize) -> Option<Self> {
        if count == 0 || count > Self::MOST {
            return None;
        }
        Some(Self(count))
    }
    /// The number.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0
    }
}

/// How much is done in the region of interest, in the program's own unit ([`crate::Program`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Work(u64);

impl Work {
    /// `units` units.
    #[must_use]
    pub const fn new(units: u64) -> Self {
        Self(units)
    }
    /// The number of units.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// One run of one program.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Size of all data together; a program may use a little less, never more.
    pub footprint: Bytes,
    /// Threads in the region of interest, the main one among them.
    pub threads: Threads,
    /// What all data and all choices are drawn from.
    pub seed: u64,
    /// The work in the region, the same whatever the threads: captures of 8 and of 24 threads show
    /// the same section of the program.
    pub work: Work,
    /// Whether one value of the result is changed before the check, which must then fail.
    pub spoil: bool,
}
