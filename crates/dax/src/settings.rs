//! What a user sets.

use crate::Ratio;
use thiserror::Error;
use units::Picos;

/// What a tracker and its ranges are like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// U, D and F.
    pub policy: Ratio,
    /// G: a range has 2^G pages.
    pub order: u32,
    /// For how long a write counts.
    pub write_delay: Picos,
    /// For how long a write-back counts.
    pub write_back_delay: Picos,
    /// How long a range waits before it is tried again to move it.
    pub retry: Picos,
}

impl Default for Settings {
    fn default() -> Self {
        const SECOND: u64 = 1_000_000;
        Self {
            policy: Ratio::THESIS,
            order: 9,
            // The thesis gives no delays but that of writes is longer. A steady stream of synced
            // writes tends to their quotient: 50 %, which keeps an upgraded range (above D).
            write_delay: Picos::from_micros(20 * SECOND),
            write_back_delay: Picos::from_micros(10 * SECOND),
            retry: Picos::from_micros(SECOND),
        }
    }
}

/// A setting that is none.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum BadSetting {
    /// Ranges would go back and forth.
    #[error(
        "the upgrade threshold is {upgrade} % and the downgrade threshold {downgrade} %, so that \
         ranges would go back and forth; the first must not be below the second"
    )]
    Crossed {
        /// U.
        upgrade: u32,
        /// D.
        downgrade: u32,
    },
    /// Ranges are larger than a file.
    #[error("a range of 2^{order} pages is too large; the order is at most {most}")]
    Order {
        /// G.
        order: u32,
        /// The largest G.
        most: u32,
    },
    /// Counts end at once.
    #[error("{name} is {delay}, and a count must last for 1us at least")]
    Delay {
        /// Which.
        name: &'static str,
        /// How long.
        delay: Picos,
    },
}

impl Settings {
    /// The largest G: ranges of 4 GiB.
    pub const MOST_ORDER: u32 = 20;

    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// The first setting that is none, and why.
    pub fn check(&self) -> Result<(), BadSetting> {
        let Ratio {
            upgrade_above: upgrade,
            downgrade_below: downgrade,
            ..
        } = self.policy;
        if upgrade < downgrade {
            return Err(BadSetting::Crossed { upgrade, downgrade });
        }
        if self.order > Self::MOST_ORDER {
            return Err(BadSetting::Order {
                order: self.order,
                most: Self::MOST_ORDER,
            });
        }
        let delays = [
            ("the delay of writes", self.write_delay),
            ("the delay of write-backs", self.write_back_delay),
        ];
        match delays
            .into_iter()
            .find(|(_, delay)| *delay < Picos::from_micros(1))
        {
            Some((name, delay)) => Err(BadSetting::Delay { name, delay }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn what_makes_no_sense_is_refused_with_a_sentence() {
        let good = Settings::default();
        assert_eq!(good.check(), Ok(()));
        let mut crossed = good;
        crossed.policy.downgrade_below = 61;
        let said = crossed.check().map_err(|error| error.to_string());
        assert!(said.is_err_and(|said| said.contains("back and forth")));
        let order = Settings { order: 21, ..good };
        assert_eq!(
            order.check(),
            Err(BadSetting::Order {
                order: 21,
                most: 20
            })
        );
        let brief = Settings {
            write_delay: Picos::from_nanos(999),
            ..good
        };
        let said = brief.check().map_err(|error| error.to_string());
        assert!(said.is_err_and(|said| said.contains("the delay of writes is 999ns")));
    }
}
