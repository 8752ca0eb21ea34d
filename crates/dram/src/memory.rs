//! Channels, banks and buses.
//!
//! A line's number is, from its lowest bits up: channel, column (line of the row), bank, row. So
//! neighbouring lines use all channels, a page lies in one row of each, and neighbouring rows are
//! in different banks. Mapped by rows it is column, bank, channel, row, with higher bits of the row
//! folded into bank and channel.

use crate::{DramSpec, DramStats, Mapping};
use units::address::LINE_BYTES;
use units::{Bytes, Picos, Time};

/// A line of a memory, counted from its start. Not a line of the device's logical space: what
/// stands where in a memory is its user's decision.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct DramLine(u64);

impl DramLine {
    /// Line number `line`.
    #[inline]
    pub const fn new(line: u64) -> Self {
        Self(line)
    }
    /// The line that holds the byte at `offset` from the start of the memory.
    #[inline]
    pub const fn at(offset: Bytes) -> Self {
        Self(offset.get() / LINE_BYTES.get())
    }
    /// The line `lines` further on.
    #[inline]
    pub const fn offset(self, lines: u64) -> Self {
        Self(self.0 + lines)
    }
    /// The line's number.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Which way the data go. Both take the same time; reads and writes are counted apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Out of the memory.
    Read,
    /// Into the memory.
    Write,
}

/// A memory. Accesses are served in the order of the calls: one that is called later never goes
/// before an earlier one on the same bank or bus, even if its `at` is earlier.
#[derive(Clone, Debug)]
pub struct Dram {
    /// Channel-major.
    banks: Vec<Bank>,
    /// When each channel's data bus is free.
    bus_free: Vec<Time>,
    /// When each channel would be through with what goes behind, if nothing more went ahead.
    behind_free: Vec<Time>,
    stats: DramStats,
    map: Map,
    timing: Timing,
}

#[derive(Clone, Copy, Debug)]
struct Bank {
    /// `NO_ROW` before the first access.
    open_row: u64,
    /// Earliest data of a further column command on the open row. The next command, also one that
    /// closes the row, is taken CL before that.
    next_data: Time,
}

const NO_ROW: u64 = u64::MAX;

/// Shifts and widths of the fields of a line's number.
#[derive(Clone, Copy, Debug)]
struct Map {
    channel_bits: u32,
    column_bits: u32,
    bank_bits: u32,
    mapping: Mapping,
}

#[derive(Clone, Copy, Debug)]
struct Timing {
    cl: Picos,
    rcd: Picos,
    rp: Picos,
    burst: Picos,
    /// From the end of a bank's data to those of its next column command.
    gap: Picos,
}

/// Neighbouring lines of one row.
#[derive(Clone, Copy, Debug)]
struct Run {
    channel: usize,
    bank: usize,
    row: u64,
    line_count: u64,
}

impl Dram {
    /// A memory with all rows closed. The section it comes from has passed `validate`.
    pub fn new(spec: &DramSpec) -> Self {
        let bank_count = (spec.channels * spec.banks) as usize;
        Self {
            banks: vec![
                Bank {
                    open_row: NO_ROW,
                    next_data: Time::ZERO
                };
                bank_count
            ],
            bus_free: vec![Time::ZERO; spec.channels as usize],
            behind_free: vec![Time::ZERO; spec.channels as usize],
            stats: DramStats::default(),
            map: Map {
                channel_bits: spec.channels.trailing_zeros(),
                column_bits: spec.lines_per_row().trailing_zeros(),
                bank_bits: spec.banks.trailing_zeros(),
                mapping: spec.mapping,
            },
            timing: Timing {
                cl: spec.cl(),
                rcd: spec.rcd(),
                rp: spec.rp(),
                burst: spec.burst(),
                gap: if spec.pipelined {
                    Picos::ZERO
                } else {
                    spec.cl()
                },
            },
        }
    }

    /// What the memory did so far.
    pub const fn stats(&self) -> &DramStats {
        &self.stats
    }

    /// Reads or writes a line that is asked for at `at`; gives the time at which its last byte
    /// has crossed the data bus.
    #[inline]
    pub fn access(&mut self, at: Time, line: DramLine, access: Access) -> Time {
        self.count(access, 1);
        let run = match self.map.mapping {
            Mapping::Lines => self.map.run(line.0, 1),
            Mapping::Rows => self.map.run_in_rows(line.0, 1),
        };
        // One line is in one row, which the compiler is told.
        let run = Run {
            line_count: 1,
            ..run
        };
        self.run(at, run)
    }

    /// Reads or writes `line_count` neighbouring lines, all asked for at `at`; gives the time at
    /// which the last is done (`at` if there is none). Equal to that many calls of
    /// [`Dram::access`], at the cost of one for each row touched.
    pub fn bulk(&mut self, at: Time, first: DramLine, line_count: u64, access: Access) -> Time {
        self.count(access, line_count);
        let channel_count = self.bus_free.len() as u64;
        let end = first.0 + line_count;
        let mut done = at;
        if self.map.mapping == Mapping::Rows {
            let mut line = first.0;
            while line < end {
                let run = self.map.run_in_rows(line, end - line);
                done = done.max(self.run(at, run));
                line += run.line_count;
            }
            return done;
        }
        // A page lies in whole columns of one row of each channel: all serve the same run.
        let in_each = line_count >> self.map.channel_bits;
        if (first.0 | line_count) & (channel_count - 1) == 0 && in_each > 0 {
            let run = self.map.run(first.0, in_each);
            if run.line_count == in_each {
                return self.run_in_each(at, run);
            }
        }
        // Channels do not influence each other, so they may be served one after the other.
        for start in first.0..end.min(first.0 + channel_count) {
            let mut line = start;
            while line < end {
                let left = (end - line + channel_count - 1) >> self.map.channel_bits;
                let run = self.map.run(line, left);
                done = done.max(self.run(at, run));
                line += run.line_count * channel_count;
            }
        }
        done
    }

    /// As [`Dram::access`], ahead of what was put behind: of that, at most the burst on the bus is
    /// waited for, and the rest is done as much later as this takes the bus, and longer by what it
    /// takes to open a row again.
    #[inline]
    pub fn access_ahead(&mut self, at: Time, line: DramLine, access: Access) -> Time {
        self.count(access, 1);
        let run = match self.map.mapping {
            Mapping::Lines => self.map.run(line.0, 1),
            Mapping::Rows => self.map.run_in_rows(line.0, 1),
        };
        // One line is in one row, which the compiler is told.
        let run = Run {
            line_count: 1,
            ..run
        };
        self.run_ahead(at, run)
    }

    /// As [`Dram::bulk`], ahead of what was put behind, as [`Dram::access_ahead`].
    pub fn bulk_ahead(
        &mut self,
        at: Time,
        first: DramLine,
        line_count: u64,
        access: Access,
    ) -> Time {
        self.count(access, line_count);
        self.each_run(at, first, line_count, Self::run_ahead)
    }

    /// As [`Dram::bulk`], behind everything that goes ahead: the buses carry it while nothing else
    /// is there for them. Gives the time at which it is done if nothing more goes ahead of it.
    pub fn bulk_behind(
        &mut self,
        at: Time,
        first: DramLine,
        line_count: u64,
        access: Access,
    ) -> Time {
        self.count(access, line_count);
        self.each_run(at, first, line_count, Self::run_behind)
    }

    /// Serves the runs of neighbouring lines; gives the time at which the last one is done.
    fn each_run(
        &mut self,
        at: Time,
        first: DramLine,
        line_count: u64,
        serve: fn(&mut Self, Time, Run) -> Time,
    ) -> Time {
        let end = first.0 + line_count;
        let channels = self.bus_free.len() as u64;
        let mut done = at;
        for start in first.0..end.min(first.0 + channels) {
            let mut line = start;
            while line < end {
                let (run, next) = match self.map.mapping {
                    Mapping::Lines => {
                        let left = (end - line + channels - 1) >> self.map.channel_bits;
                        let run = self.map.run(line, left);
                        (run, line + run.line_count * channels)
                    }
                    Mapping::Rows => {
                        let run = self.map.run_in_rows(line, end - line);
                        (run, line + run.line_count)
                    }
                };
                done = done.max(serve(self, at, run));
                line = next;
            }
            if self.map.mapping == Mapping::Rows {
                break;
            }
        }
        done
    }

    /// Serves a run ahead of what was put behind, which ends so much later.
    #[inline(always)]
    fn run_ahead(&mut self, at: Time, run: Run) -> Time {
        let Timing {
            burst,
            rp,
            rcd,
            gap,
            ..
        } = self.timing;
        let behind = self.behind_free[run.channel];
        let is_behind = behind > at;
        if is_behind {
            let bus_free = &mut self.bus_free[run.channel];
            *bus_free = (*bus_free).max(at + burst.min(behind - at));
        }
        let conflicts = self.stats.row_conflicts;
        let done = self.run(at, run);
        if is_behind {
            let reopens = match self.stats.row_conflicts > conflicts {
                true => rp + rcd,
                false => Picos::ZERO,
            };
            let taken = burst * run.line_count + gap * (run.line_count - 1);
            self.behind_free[run.channel] = behind + taken + reopens;
        }
        done
    }

    /// Puts a run behind: its row is open from now on, its bank takes commands all the while.
    fn run_behind(&mut self, at: Time, run: Run) -> Time {
        let Timing {
            cl,
            rcd,
            rp,
            burst,
            gap,
        } = self.timing;
        let bank = &mut self.banks[run.bank];
        let opening = if bank.open_row == run.row {
            self.stats.row_hits += run.line_count;
            Picos::ZERO
        } else {
            match bank.open_row {
                NO_ROW => self.stats.row_misses += 1,
                _ => self.stats.row_conflicts += 1,
            }
            self.stats.row_hits += run.line_count - 1;
            match bank.open_row {
                NO_ROW => rcd,
                _ => rp + rcd,
            }
        };
        bank.open_row = run.row;
        let free = self.behind_free[run.channel].max(self.bus_free[run.channel]);
        let data = (at + cl + opening).max(free);
        let done = data + (burst + gap) * run.line_count;
        self.stats.busy += burst * run.line_count;
        self.stats.wait += done - (at + cl + opening + burst);
        self.behind_free[run.channel] = done;
        done
    }

    /// Checks the invariants of `docs/dram.md` that counters can show (architecture B6); panics at
    /// the first that does not hold.
    pub fn audit(&self) {
        let stats = &self.stats;
        assert_eq!(
            stats.accesses(),
            stats.row_hits + stats.row_misses + stats.row_conflicts,
            "each access finds its row open, none open, or another"
        );
        assert_eq!(
            stats.busy,
            self.timing.burst * stats.accesses(),
            "each access is one burst"
        );
        let ends = self.bus_free.iter().zip(&self.behind_free);
        let passed: Picos = ends
            .map(|(free, behind)| *free.max(behind) - Time::ZERO)
            .sum();
        assert!(stats.busy <= passed, "a bus carries one line at a time");
    }

    #[inline]
    fn count(&mut self, access: Access, line_count: u64) {
        match access {
            Access::Read => self.stats.reads += line_count,
            Access::Write => self.stats.writes += line_count,
        }
    }

    /// Serves a run of lines of one row: the first opens the row, the others follow at the speed
    /// of the bus. In each of its callers, because for one line most of it falls away.
    #[inline(always)]
    fn run(&mut self, at: Time, run: Run) -> Time {
        let bank = &mut self.banks[run.bank];
        let bus_free = &mut self.bus_free[run.channel];
        self.timing
            .serve(at, run.row, run.line_count, bank, bus_free, &mut self.stats)
    }

    /// Serves a run in the first channel and the same in each of the others.
    fn run_in_each(&mut self, at: Time, run: Run) -> Time {
        // Not counted through `self`, which the banks might overlap for all that is known.
        let (timing, mut stats) = (self.timing, self.stats);
        let mut done = at;
        let banks = self.banks[run.bank..].iter_mut();
        let banks = banks.step_by(1 << self.map.bank_bits);
        for (bank, bus_free) in banks.zip(&mut self.bus_free) {
            let end = timing.serve(at, run.row, run.line_count, bank, bus_free, &mut stats);
            done = done.max(end);
        }
        self.stats = stats;
        done
    }
}

impl Timing {
    /// When the last of `line_count` lines of a row has crossed the bus.
    #[inline(always)]
    fn serve(
        &self,
        at: Time,
        row: u64,
        line_count: u64,
        bank: &mut Bank,
        bus_free: &mut Time,
        stats: &mut DramStats,
    ) -> Time {
        let Self {
            cl,
            rcd,
            rp,
            burst,
            gap,
        } = *self;
        let opening = if bank.open_row == row {
            stats.row_hits += 1;
            Picos::ZERO
        } else if bank.open_row == NO_ROW {
            stats.row_misses += 1;
            rcd
        } else {
            stats.row_conflicts += 1;
            rp + rcd
        };
        let data = ((at + cl).max(bank.next_data) + opening).max(*bus_free);
        let following = line_count - 1;
        let last_data = data + (burst + gap) * following;
        bank.open_row = row;
        // Column commands follow each other by one burst, so that their data come without a gap.
        bank.next_data = last_data + burst + gap;
        *bus_free = last_data + burst;
        stats.row_hits += following;
        stats.busy += burst * line_count;
        // Line k of the run is a hit after k bursts: it waits for data + k × burst − (at + CL).
        stats.wait += (data - (at + opening + cl))
            + ((data - (at + cl)) * following + (burst + gap) * (following * (following + 1) / 2));
        *bus_free
    }
}

impl Map {
    /// The place of a line, and how many of the `wanted` lines from it on, each a channel count
    /// further than the one before, are in the same row.
    #[inline]
    fn run(&self, line: u64, wanted: u64) -> Run {
        let channel = line & ((1 << self.channel_bits) - 1);
        let in_channel = line >> self.channel_bits;
        let columns = 1 << self.column_bits;
        let column = in_channel & (columns - 1);
        let row_and_bank = in_channel >> self.column_bits;
        let bank = row_and_bank & ((1 << self.bank_bits) - 1);
        Run {
            channel: channel as usize,
            bank: ((channel << self.bank_bits) | bank) as usize,
            row: row_and_bank >> self.bank_bits,
            line_count: wanted.min(columns - column),
        }
    }

    /// As [`Map::run`], mapped by rows: the place of a line, and how many of the `wanted` lines
    /// from it on are in the same row.
    fn run_in_rows(&self, line: u64, wanted: u64) -> Run {
        let bits = self.bank_bits + self.channel_bits;
        let banks = (1 << bits) - 1;
        let columns = 1 << self.column_bits;
        let row_and_bank = line >> self.column_bits;
        let bank = (row_and_bank ^ line >> Self::FOLDED) & banks;
        Run {
            channel: (bank >> self.bank_bits) as usize,
            bank: bank as usize,
            row: row_and_bank >> bits,
            line_count: wanted.min(columns - line % columns),
        }
    }

    /// Where the bits of a line's number begin that are folded into its bank: 32 MiB.
    const FOLDED: u32 = 19;
}
