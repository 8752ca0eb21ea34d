//! Counters of the device's whole life, kept in the DRAM file.
//!
//! They are written as the device works, though not with every request: a process that is killed
//! loses the counts of its last [`STEP`] requests at most, and nothing else depends on them. So
//! they can be read while another process has the image open. Health takes a walk over all blocks,
//! and is written every [`HEALTH_STEP`] requests.

use crate::activity::{ACTIVITY, HEALTH, STANDING};
use crate::layout::{COUNTER_BYTES, Layout};
use crate::mapped::Mapped;
use port::{DeviceStats, PortTraffic};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use units::{Bytes, Picos, Time};

/// Requests between two writings.
pub const STEP: u32 = 256;
/// Requests between two writings of the health.
pub const HEALTH_STEP: u32 = 256 * STEP;
/// Whether a process has the image open: 1 from opening to closing in order.
const OPEN: usize = 0;
/// How often the image was opened after a process that did not close it.
const UNSAFE_SHUTDOWNS: usize = 1;
/// Nanoseconds that the device was at work before its clock began anew.
const NANOS_BEFORE: usize = 2;
/// A clock that is beyond this when the image is opened begins anew: 53 days.
const REBASED: Time = Time::from_picos(1 << 62);
/// The first number of [`DeviceStats`].
const FIRST: usize = 8;
/// How many of them there are.
const COUNT: usize = 19;
/// The first number of each group of [`crate::activity`].
const ACTIVITY_AT: usize = 64;
const STANDING_AT: usize = 128;
const HEALTH_AT: usize = 192;

/// What the region says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// How often the device lost its power: its process was killed.
    pub unsafe_shutdowns: u64,
    /// Nanoseconds that it was at work before its clock began anew: a clock of picoseconds in 64
    /// bits would end after 213 days.
    pub nanos_before: u64,
    /// What it has done.
    pub stats: DeviceStats,
    /// What its firmware has done ([`ACTIVITY`]).
    pub activity: [u64; ACTIVITY.len()],
    /// How it stands ([`STANDING`]).
    pub standing: [u64; STANDING.len()],
    /// Its health ([`HEALTH`]).
    pub health: [u64; HEALTH.len()],
}

impl Counters {
    /// What a mapped DRAM file says.
    pub fn read(map: &Mapped) -> Self {
        Self::from_words(|number| map.load(Layout::counter(number)))
    }

    /// What a DRAM file says that may be open elsewhere.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn read_file(file: &mut File) -> io::Result<Self> {
        let mut bytes = [0; COUNTER_BYTES];
        file.seek(SeekFrom::Start(Layout::counter(0) as u64))?;
        file.read_exact(&mut bytes)?;
        Ok(Self::from_words(|number| {
            let word = bytes[number * 8..number * 8 + 8].try_into();
            u64::from_le_bytes(word.expect("eight bytes are eight"))
        }))
    }

    /// Notes that a process has the image, and whether the last one did not close it.
    pub fn open(map: &mut Mapped) {
        if Self::is_marked_open(map) {
            let count = map.load(Layout::counter(UNSAFE_SHUTDOWNS));
            map.store(Layout::counter(UNSAFE_SHUTDOWNS), count.wrapping_add(1));
        }
        map.store(Layout::counter(OPEN), 1);
    }

    /// Whether a process has the image, or had it and did not close it.
    pub fn is_marked_open(map: &Mapped) -> bool {
        map.load(Layout::counter(OPEN)) != 0
    }

    /// Notes that the image is closed in order.
    pub fn close(map: &mut Mapped) {
        map.store(Layout::counter(OPEN), 0);
    }

    /// Lets the clock begin anew if there is not much left of it.
    pub fn rebase(&mut self) {
        let clock = self.stats.clock;
        if clock > REBASED {
            let nanos = clock.as_picos() / 1_000;
            self.nanos_before = self.nanos_before.saturating_add(nanos);
            self.stats.clock = Time::from_picos(clock.as_picos() % 1_000);
        }
    }

    /// Writes what the device has done and how it stands.
    pub fn write(&self, map: &mut Mapped) {
        map.store(Layout::counter(NANOS_BEFORE), self.nanos_before);
        write(map, FIRST, &words(&self.stats));
        write(map, ACTIVITY_AT, &self.activity);
        write(map, STANDING_AT, &self.standing);
    }

    /// Writes how well it is.
    pub fn write_health(map: &mut Mapped, health: &[u64; HEALTH.len()]) {
        write(map, HEALTH_AT, health);
    }

    fn from_words(word: impl Fn(usize) -> u64) -> Self {
        let port = |at: usize| PortTraffic {
            reads: word(at),
            writes: word(at + 1),
            to_host: Bytes::new(word(at + 2)),
            to_device: Bytes::new(word(at + 3)),
            read_time: Picos::new(word(at + 4)),
            write_time: Picos::new(word(at + 5)),
        };
        let mut stats = DeviceStats {
            clock: Time::from_picos(word(FIRST)),
            byte_port: port(FIRST + 1),
            block_port: port(FIRST + 7),
            barriers: word(FIRST + 13),
            commits: word(FIRST + 14),
            aborts: word(FIRST + 15),
            ..DeviceStats::default()
        };
        stats.flash.reads = word(FIRST + 16);
        stats.flash.programs = word(FIRST + 17);
        stats.flash.erases = word(FIRST + 18);
        Self {
            unsafe_shutdowns: word(UNSAFE_SHUTDOWNS),
            nanos_before: word(NANOS_BEFORE),
            stats,
            activity: std::array::from_fn(|nth| word(ACTIVITY_AT + nth)),
            standing: std::array::from_fn(|nth| word(STANDING_AT + nth)),
            health: std::array::from_fn(|nth| word(HEALTH_AT + nth)),
        }
    }

    /// With the bytes of the flash, which are its pages.
    #[must_use]
    pub fn with_page(mut self, page: Bytes) -> Self {
        let flash = &mut self.stats.flash;
        flash.read_bytes = Bytes::new(flash.reads.saturating_mul(page.get()));
        flash.programmed_bytes = Bytes::new(flash.programs.saturating_mul(page.get()));
        self
    }
}

fn write(map: &mut Mapped, first: usize, words: &[u64]) {
    for (nth, word) in words.iter().enumerate() {
        map.store(Layout::counter(first + nth), *word);
    }
}

/// In the order of the region.
fn words(stats: &DeviceStats) -> [u64; COUNT] {
    let port = |port: &PortTraffic| {
        [
            port.reads,
            port.writes,
            port.to_host.get(),
            port.to_device.get(),
            port.read_time.get(),
            port.write_time.get(),
        ]
    };
    let mut words = [0; COUNT];
    words[0] = stats.clock.as_picos();
    words[1..7].copy_from_slice(&port(&stats.byte_port));
    words[7..13].copy_from_slice(&port(&stats.block_port));
    words[13..16].copy_from_slice(&[stats.barriers, stats.commits, stats.aborts]);
    let flash = [stats.flash.reads, stats.flash.programs, stats.flash.erases];
    words[16..19].copy_from_slice(&flash);
    words
}

/// No group reaches into the next.
const _: () = assert!(
    FIRST + COUNT <= ACTIVITY_AT
        && ACTIVITY_AT + ACTIVITY.len() <= STANDING_AT
        && STANDING_AT + STANDING.len() <= HEALTH_AT
        && (HEALTH_AT + HEALTH.len()) * 8 <= COUNTER_BYTES
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mut stats = DeviceStats::default();
        let mut next = 0;
        let mut number = || {
            next += 1;
            next
        };
        stats.clock = Time::from_picos(number());
        for port in [&mut stats.byte_port, &mut stats.block_port] {
            port.reads = number();
            port.writes = number();
            port.to_host = Bytes::new(number());
            port.to_device = Bytes::new(number());
            port.read_time = Picos::new(number());
            port.write_time = Picos::new(number());
        }
        stats.barriers = number();
        stats.commits = number();
        stats.aborts = number();
        stats.flash.reads = number();
        stats.flash.programs = number();
        stats.flash.erases = number();
        let words = words(&stats);
        let read = Counters::from_words(|at| match at {
            UNSAFE_SHUTDOWNS => 9,
            NANOS_BEFORE => 8,
            at if at < FIRST => 0,
            at => words.get(at - FIRST).copied().unwrap_or(1000 + at as u64),
        });
        assert_eq!((read.stats, read.unsafe_shutdowns), (stats, 9));
        assert_eq!(read.nanos_before, 8);
        let nth = |first, nth| (1000 + first + nth) as u64;
        assert_eq!(read.activity[3], nth(ACTIVITY_AT, 3));
        assert_eq!(read.standing[1], nth(STANDING_AT, 1));
        assert_eq!(read.health[2], nth(HEALTH_AT, 2));
        let with_page = read.with_page(Bytes::from_kib(4)).stats.flash;
        assert_eq!(
            with_page.programmed_bytes,
            Bytes::from_kib(4) * stats.flash.programs
        );
    }

    #[test]
    fn a_clock_that_has_run_long_begins_anew_and_nothing_of_it_is_lost() {
        let mut counters = Counters::default();
        counters.stats.clock = REBASED;
        counters.rebase();
        assert_eq!((counters.stats.clock, counters.nanos_before), (REBASED, 0));
        counters.stats.clock = Time::from_picos(u64::MAX);
        counters.rebase();
        assert_eq!(counters.stats.clock, Time::from_picos(u64::MAX % 1_000));
        assert_eq!(counters.nanos_before, u64::MAX / 1_000);
    }
}
