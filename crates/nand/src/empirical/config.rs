//! The section `nand.empirical`.

use super::TimeTable;
use units::{Picos, Ratio};

units::parameters! {
    /// Times at the cells that vary, from tables of measured ones. What a table says takes the
    /// place of `nand.t_r`, `nand.t_prog` or `nand.t_bers`, which the firmware still expects.
    pub struct EmpiricalConfig: "nand.empirical" {
        /// Time of a page read: `constant`, or a row for each number of commands in flight, as
        /// `1: 0%=98us 50%=100us 100%=110us; 8: 0%=99us 100%=5ms`.
        read: TimeTable, "constant, or rows of 0% to 100%, each at least 1ns and at most 1s", "ours (constant); OpenCXD Table II gives deviations";
        /// Time of a page program, as `read`.
        program: TimeTable, "as nand.empirical.read", "ours (constant); OpenCXD Table II gives deviations";
        /// Time of a block erase, as `read`.
        erase: TimeTable, "as nand.empirical.read", "ours (constant)";
        /// What the flash controller and its firmware take of every operation, with its die, beyond
        /// its time at the cells, be that constant or drawn.
        overhead: Picos, "at most 10ms", "ours (0ns); OpenCXD Figure 5 shows it, without a number";
        /// By how much a read takes longer at the cells while another die of its channel programs
        /// or erases.
        interference: Ratio, "0% to 1000%", "ours (0%): OpenCXD measures reads and programs apart";
        /// Share of the reads that have to be repeated, and of repeated ones again.
        retry: Ratio, "0% to 50%", "ours (0%)";
        /// Times that a read is repeated at most.
        retry_most: u32, "1 to 64", "ours: 5";
        /// What a repetition takes.
        retry_time: Picos, "at most 10ms", "ours (0ns); OpenCXD III-B: a spike of 440us in reads of module (b)";
        /// What draws the times: another seed is another piece of flash.
        seed: u64, "any", "ours: 1";
    }
}

impl EmpiricalConfig {
    /// All times are constants.
    pub fn constant() -> Self {
        Self {
            read: TimeTable::default(),
            program: TimeTable::default(),
            erase: TimeTable::default(),
            overhead: Picos::ZERO,
            interference: Ratio::percent(0),
            retry: Ratio::percent(0),
            retry_most: 5,
            retry_time: Picos::ZERO,
            seed: 1,
        }
    }

    /// Whether every operation takes its constant and nothing else.
    pub fn is_off(&self) -> bool {
        [&self.read, &self.program, &self.erase]
            .iter()
            .all(|table| table.is_constant())
            && self.interference.numerator() == 0
            && (self.retry.numerator() == 0 || self.retry_time.is_zero())
    }

    /// Everything that is out of range, one sentence each.
    pub fn validate(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for (key, share, most) in [
            ("interference", self.interference, Ratio::percent(1000)),
            ("retry", self.retry, Ratio::percent(50)),
        ] {
            let (of_share, of_most) = (share.numerator(), share.denominator());
            if most.is_exceeded_by(of_share, of_most) {
                problems.push(format!(
                    "nand.empirical.{key} is {share}; it must be 0% to {most}"
                ));
            }
        }
        for (key, time) in [("overhead", self.overhead), ("retry_time", self.retry_time)] {
            if time > Picos::from_micros(10_000) {
                problems.push(format!(
                    "nand.empirical.{key} is {time}; it must be at most 10ms"
                ));
            }
        }
        if !(1..=64).contains(&self.retry_most) {
            problems.push(format!(
                "nand.empirical.retry_most is {}; it must be 1 to 64",
                self.retry_most
            ));
        }
        problems
    }
}
