//! Two clocks per unit: `nand.scheduling = split`, which is how SkyByte's artifact keeps time.
//!
//! One clock is the host's, the other that of log compaction. A read waits for all that is on the
//! host's clock, but of the programs of compaction only for what is left of one: the rest of their
//! sum divided by the time of a program. A program of compaction only moves its own clock on.
//! Nothing is queued, suspended or put in order, so the end of a command is known when it is
//! submitted, and the bus of a channel is part of the command.
//!
//! What compaction submits at one instant is one chain: each command is booked where the last read
//! of the chain ends, ahead of time, so that a later read of the host's may wait for a coalescing
//! read that lies in the future. To compaction itself everything is done at once: the artifact's
//! helper thread is outside simulated time. What is submitted at time zero is no chain: that is the
//! drain of a log before the run (`run.drain_log`), all of which the artifact books at zero.

use crate::{Kind, Nand, Operation};
use units::{Picos, Time};

/// Until when a unit is busy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clocks {
    /// With reads, erases, and programs for the host or GC.
    host: Time,
    /// With programs of log compaction.
    compaction: Time,
}

/// The commands that compaction submits at one instant.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chain {
    /// That instant.
    ordered: Time,
    /// Where its last read ends.
    end: Time,
}

impl Chain {
    /// When a command that is submitted at `at` is booked.
    fn booked(&mut self, at: Time) -> Time {
        if at == Time::ZERO {
            return at;
        }
        if at > self.ordered {
            *self = Self {
                ordered: at,
                end: at,
            };
        }
        self.end
    }
}

impl Nand {
    /// Whether the flash keeps two clocks, so that commands go to [`Nand::submit_split`].
    #[inline]
    pub fn is_split(&self) -> bool {
        !self.clocks.is_empty()
    }

    /// Takes a command that starts at `at` or when its clock allows; gives its end, which counts
    /// as completion. `is_compaction`: on behalf of log compaction, for which all is done at once.
    pub fn submit_split(&mut self, at: Time, operation: Operation, is_compaction: bool) -> Time {
        let kind = operation.kind();
        let unit = self.unit_of(operation.block(self.geometry())) as usize;
        let service = self.service_time(kind);
        let program = self.service_time(Kind::Program);
        let booked = if is_compaction {
            self.chain.booked(at)
        } else {
            at
        };
        let clocks = &mut self.clocks[unit];
        let mut latency = service;
        if kind == Kind::Program && is_compaction {
            clocks.compaction = clocks.compaction.max(booked) + service;
        } else {
            clocks.host = clocks.host.max(booked) + service;
            latency = clocks.host - booked;
        }
        if kind == Kind::Read {
            if clocks.compaction > booked {
                let ahead = clocks.compaction - booked;
                latency += Picos::new(ahead.get() % program.get());
                clocks.compaction += service;
            }
            if is_compaction {
                self.chain.end = booked + latency;
            }
        }
        let stats = self.stats.of_mut(kind);
        stats.submitted += 1;
        stats.completed += 1;
        stats.wait += latency - service;
        stats.latency += latency;
        self.stats.die_busy += service;
        self.stats.die_occupied += service;
        self.units[unit].occupied += service;
        if is_compaction { at } else { at + latency }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EmpiricalConfig, NandConfig, Parallelism, Scheduling, Transfer};
    use units::{BytesPerSec, PageSize, Ppa, Ratio};

    /// One channel, one die: tR 3 us, tPROG 80 us, no transfer.
    fn nand() -> Nand {
        let config = NandConfig {
            channels: 1,
            chips_per_channel: 1,
            dies_per_chip: 1,
            planes_per_die: 1,
            blocks_per_plane: 2,
            pages_per_block: 8,
            page_size: PageSize::KIB_4,
            t_r: Picos::from_micros(3),
            t_prog: Picos::from_micros(80),
            t_bers: Picos::from_micros(1000),
            erase_share: Ratio::percent(100),
            channel_bandwidth: BytesPerSec::UNLIMITED,
            transfer: Transfer::Page,
            codeword: PageSize::KIB_4,
            scheduling: Scheduling::Split,
            suspend: false,
            t_suspend: Picos::ZERO,
            parallelism: Parallelism::Channel,
            empirical: EmpiricalConfig::constant(),
        };
        Nand::new(&config, config.page_size)
    }

    fn at(micros: u64) -> Time {
        Time::ZERO + Picos::from_micros(micros)
    }

    const READ: Operation = Operation::Read(Ppa::new(0));
    const PROGRAM: Operation = Operation::Program(Ppa::new(1));

    /// Three evicted pages are programmed at 0: the host's clock is at 240. A read at 10 ends at
    /// 243.
    #[test]
    fn a_read_waits_for_every_program_of_the_host() {
        let mut nand = nand();
        for end in [80, 160, 240] {
            assert_eq!(nand.submit_split(at(0), PROGRAM, false), at(end));
        }
        assert_eq!(nand.submit_split(at(10), READ, false), at(243));
        nand.audit();
    }

    /// The same three for compaction: done at once, compaction's clock at 240. A read at 10 takes
    /// 3 and what is left of one program, (240 - 10) mod 80 = 70: it ends at 83. Compaction's clock
    /// goes on to 243 and the host's is at 13, so a read at 11 takes 2 + 3 and (243 - 11) mod 80 =
    /// 72: it ends at 88.
    #[test]
    fn a_read_waits_for_what_is_left_of_one_program_of_compaction() {
        let mut nand = nand();
        for _ in 0..3 {
            assert_eq!(nand.submit_split(at(0), PROGRAM, true), at(0));
        }
        assert_eq!(nand.submit_split(at(10), READ, false), at(83));
        assert_eq!(nand.submit_split(at(11), READ, false), at(88));
        nand.audit();
    }

    /// Compaction orders at 1000 a coalescing read, a program, another read. The first read is
    /// booked at 1000 and ends at 1003, where the program is booked: compaction's clock is at 1083.
    /// So the second read is booked at 1003, takes 3 and (1083 - 1003) mod 80 = 0, ends at 1006,
    /// and moves that clock to 1086. A host's read at 1001 waits for 1006 and ends at 1009, plus
    /// (1086 - 1001) mod 80 = 5: 1014. The next order, at 1002, begins at 1002 again: its read
    /// waits for 1009, takes 3 and (1089 - 1002) mod 80 = 7.
    #[test]
    fn what_compaction_orders_at_once_is_booked_ahead() {
        let mut nand = nand();
        for operation in [READ, PROGRAM, READ] {
            let end = nand.submit_split(at(1000), operation, true);
            assert_eq!(end, at(1000));
        }
        assert_eq!(nand.submit_split(at(1001), READ, false), at(1014));
        assert_eq!(nand.submit_split(at(1002), READ, true), at(1002));
        assert_eq!(nand.chain.end, at(1019));
        nand.audit();
    }

    /// A read, a program and another read at 0: both reads are booked there, and the second finds
    /// the program 80 long, of which nothing is left over. The clocks are at 6 and 83. A host's
    /// read at 1 ends at 9, plus (83 - 1) mod 80 = 2.
    #[test]
    fn the_drain_before_the_run_is_no_chain() {
        let mut nand = nand();
        for operation in [READ, PROGRAM, READ] {
            assert_eq!(nand.submit_split(at(0), operation, true), at(0));
        }
        assert_eq!(nand.submit_split(at(1), READ, false), at(11));
        nand.audit();
    }
}
