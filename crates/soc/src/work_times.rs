//! Where times come from that are measured instead of modelled: those of the firmware's own work,
//! and those of flash operations.

use firmware::{Charge, Work, WorkCosts};
use std::collections::VecDeque;
use units::{FlashOp, Picos};

/// What somebody has measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timed {
    /// A piece of the firmware's work.
    Work(Work),
    /// An operation of the flash, from its start to its end, waiting included.
    Flash(FlashOp),
    /// What a device of its own says of an access, which no simulated device can be given.
    Device(DeviceTime),
}

/// What a device says that is not simulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceTime {
    /// An access that did not wait for flash.
    Hit,
    /// One that did.
    Miss,
    /// What of the one before was not the flash's.
    Overhead,
    /// One that the log served, of a device that says so.
    Log,
}

impl DeviceTime {
    /// All, by their number.
    pub const ALL: [Self; 4] = [Self::Hit, Self::Miss, Self::Overhead, Self::Log];
}

impl Timed {
    /// Nothing takes longer: an hour.
    pub const LONGEST: Picos = Picos::from_micros(3_600_000_000);

    /// How many kinds there are.
    pub const KINDS: usize = Self::DEVICE + DeviceTime::ALL.len();

    /// The first number of a device of its own.
    const DEVICE: usize = Work::KINDS + FlashOp::ALL.len();

    /// Its number in messages and files: work first, then the flash, then a device of its own.
    #[inline]
    pub const fn code(self) -> u8 {
        match self {
            Self::Work(work) => work.code(),
            Self::Flash(op) => (Work::KINDS + op.index()) as u8,
            Self::Device(time) => (Self::DEVICE + time as usize) as u8,
        }
    }

    /// What has a number; of work, that of a request that reads where that matters.
    pub fn of_code(code: u8) -> Option<Self> {
        let of_flash = || {
            let index = usize::from(code).checked_sub(Work::KINDS)?;
            FlashOp::ALL.get(index).copied().map(Self::Flash)
        };
        let of_device = || {
            let index = usize::from(code).checked_sub(Self::DEVICE)?;
            DeviceTime::ALL.get(index).copied().map(Self::Device)
        };
        let of_work = Work::of_code(code).map(Self::Work);
        of_work.or_else(of_flash).or_else(of_device)
    }

    /// What people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Work(work) => work.name(),
            Self::Flash(FlashOp::Read) => "flash read",
            Self::Flash(FlashOp::Program) => "flash program",
            Self::Flash(FlashOp::Erase) => "flash erase",
            Self::Device(DeviceTime::Hit) => "line without flash",
            Self::Device(DeviceTime::Miss) => "line from flash",
            Self::Device(DeviceTime::Overhead) => "overhead of a line from flash",
            Self::Device(DeviceTime::Log) => "line from the log",
        }
    }
}

/// What the firmware's own work takes.
#[derive(Clone, Debug)]
pub(crate) enum WorkTimes {
    /// What the configuration says.
    Constant(WorkCosts),
    /// What is given, one time for each piece of work in its order.
    Given(Box<GivenTimes>),
}

/// Times of pieces of work that are still to be done, in their order.
#[derive(Clone, Debug, Default)]
pub struct GivenTimes {
    times: VecDeque<(Work, Picos)>,
    flash: VecDeque<(FlashOp, Picos)>,
    taken: u64,
    failure: Option<String>,
}

impl GivenTimes {
    /// The next piece of work, or the next operation of the flash, is this and takes so long.
    #[inline]
    pub fn give(&mut self, what: Timed, time: Picos) {
        match what {
            Timed::Work(work) => self.times.push_back((work, time)),
            Timed::Flash(op) => self.flash.push_back((op, time)),
            Timed::Device(_) => {
                let why = || "they are of a device that is not simulated".to_owned();
                self.failure.get_or_insert_with(why);
            }
        }
    }

    /// How many are left.
    pub fn left(&self) -> usize {
        self.times.len() + self.flash.len()
    }

    /// Why the times are not of this device, if they are not; its times are worth nothing then.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    #[inline]
    pub(crate) fn next(&mut self, work: Work) -> Charge {
        let time = match self.times.pop_front() {
            Some((found, time)) if found.code() == work.code() => time,
            other => {
                let found = other.map(|(found, _)| Timed::Work(found));
                self.mismatch(Timed::Work(work), found)
            }
        };
        self.taken += 1;
        work.as_software(time)
    }

    /// What the next operation of the flash takes.
    pub(crate) fn next_flash(&mut self, op: FlashOp) -> Picos {
        let time = match self.flash.pop_front() {
            Some((found, time)) if found == op => time,
            other => {
                let found = other.map(|(found, _)| Timed::Flash(found));
                self.mismatch(Timed::Flash(op), found)
            }
        };
        self.taken += 1;
        time
    }

    #[cold]
    fn mismatch(&mut self, due: Timed, found: Option<Timed>) -> Picos {
        let number = self.taken;
        self.failure.get_or_insert_with(|| match found {
            Some(found) => format!(
                "time {number} is of the work \u{201c}{}\u{201d} where the device does \u{201c}{}\u{201d}",
                found.name(),
                due.name()
            ),
            None => format!("there are {number} times, and the device works on"),
        });
        self.times.clear();
        self.flash.clear();
        Picos::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_taken_in_order_and_a_strange_one_is_told() {
        let mut times = GivenTimes::default();
        times.give(Timed::Work(Work::LogAppend), Picos::from_nanos(7));
        times.give(Timed::Work(Work::CompactionStep), Picos::from_nanos(9));
        assert_eq!(times.next(Work::LogAppend).latency, Picos::from_nanos(7));
        assert_eq!(times.failure(), None);
        assert_eq!(times.next(Work::CacheInsert).latency, Picos::ZERO);
        assert!(times.failure().unwrap().contains("compaction step"));
        assert!(times.failure().unwrap().contains("insert"));
    }

    #[test]
    fn the_flash_has_a_queue_of_its_own() {
        let mut times = GivenTimes::default();
        times.give(Timed::Flash(FlashOp::Program), Picos::from_micros(3));
        times.give(Timed::Work(Work::LogAppend), Picos::from_nanos(7));
        times.give(Timed::Flash(FlashOp::Read), Picos::from_micros(2));
        assert_eq!(times.left(), 3);
        assert_eq!(times.next_flash(FlashOp::Program), Picos::from_micros(3));
        assert_eq!(times.next(Work::LogAppend).latency, Picos::from_nanos(7));
        assert_eq!(times.next_flash(FlashOp::Erase), Picos::ZERO);
        let failure = times.failure().unwrap();
        assert!(failure.contains("flash read"), "{failure}");
        assert!(failure.contains("flash erase"), "{failure}");
    }

    #[test]
    fn numbers_name_kinds_and_no_two_are_the_same() {
        for code in 0..Timed::KINDS as u8 {
            assert_eq!(Timed::of_code(code).unwrap().code(), code);
        }
        assert_eq!(Timed::of_code(Timed::KINDS as u8), None);
    }

    #[test]
    fn the_end_of_the_times_is_told() {
        let mut times = GivenTimes::default();
        times.next(Work::LogAppend);
        let failure = times.failure().unwrap();
        assert!(failure.contains("there are 0 times"), "{failure}");
    }
}
