//! Times at the cells as they were measured: drawn from tables instead of constant.
//!
//! A time is a function of the seed, the kind of operation, how many of the kind were before, how
//! many commands are in flight, and whether the channel's other dies program or erase: draws are
//! counted, not taken from a stream, so that a read more shifts no program's times. Integers
//! throughout.

mod config;
mod table;

pub use config::EmpiricalConfig;
pub use table::{TimeTable, WrongTable};

use crate::Kind;
use table::Curves;
use units::filling::spread;
use units::{Picos, Ratio};

/// All of the 64 bits.
const WHOLE: u128 = 1 << 64;

/// Draws the times of operations whose tables are given.
#[derive(Clone, Debug)]
pub(crate) struct Empirical {
    /// By kind; without rows where the time is the constant.
    curves: [Curves; 3],
    overhead: Picos,
    interference: Ratio,
    /// A read whose draw is below this is repeated.
    retry_below: u64,
    retry_most: u32,
    retry_time: Picos,
    seed: u64,
    /// Draws so far, by kind.
    drawn: [u64; 3],
    /// Programs and erases at the cells, by channel.
    changing: Vec<u32>,
}

impl Empirical {
    /// None if all times are constant. The configuration is valid.
    pub(crate) fn new(config: &EmpiricalConfig, channels: u32) -> Option<Box<Self>> {
        if config.is_off() {
            return None;
        }
        let tables = [&config.read, &config.program, &config.erase];
        let retry = config.retry;
        let below = WHOLE * u128::from(retry.numerator()) / u128::from(retry.denominator());
        Some(Box::new(Self {
            curves: tables.map(Curves::new),
            overhead: config.overhead,
            interference: config.interference,
            retry_below: u64::try_from(below).unwrap_or(u64::MAX),
            retry_most: config.retry_most,
            retry_time: config.retry_time,
            seed: config.seed,
            drawn: [0; 3],
            changing: vec![0; channels as usize],
        }))
    }

    /// What the next operation of this kind takes, of `depth` commands in flight with it;
    /// `constant` where it has no table.
    pub(crate) fn time(&mut self, kind: Kind, depth: u64, channel: u32, constant: Picos) -> Picos {
        let count = &mut self.drawn[kind.index()];
        let mut bits = spread(spread(self.seed ^ ((kind.index() as u64 + 1) << 62)) ^ *count);
        *count += 1;
        let curves = &self.curves[kind.index()];
        let drawn = curves.time(bits, depth);
        let mut time = drawn.map_or(constant, |time| time + self.overhead);
        match kind {
            Kind::Read => {
                if self.changing[channel as usize] > 0 {
                    let share = self.interference;
                    time += time.scale(share.numerator(), share.denominator());
                }
                let mut retries = 0;
                while retries < self.retry_most {
                    bits = spread(bits);
                    if bits >= self.retry_below {
                        break;
                    }
                    retries += 1;
                }
                time += self.retry_time * u64::from(retries);
            }
            Kind::Program | Kind::Erase => self.changing[channel as usize] += 1,
        }
        time
    }

    /// A program or erase is at the cells no more.
    pub(crate) fn leave(&mut self, channel: u32) {
        self.changing[channel as usize] -= 1;
    }

    /// One that was suspended is back.
    pub(crate) fn resume(&mut self, channel: u32) {
        self.changing[channel as usize] += 1;
    }
}

#[cfg(test)]
mod tests;
