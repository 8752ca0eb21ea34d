//! What a user sets.

use crate::{AnyPolicy, PolicyKind, Ratio};
use alloc::string::{String, ToString};
use thiserror::Error;
use units::Picos;

/// What a tracker and its ranges are like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Who decides.
    pub kind: PolicyKind,
    /// U, D and F.
    pub policy: Ratio,
    /// G: a range has 2^G pages.
    pub order: u32,
    /// For how long a write counts.
    pub write_delay: Picos,
    /// For how long a write-back counts.
    pub write_back_delay: Picos,
    /// How long an upgrade that was decided waits before it begins.
    pub wait: Picos,
    /// How long a range waits before it is tried again to move it.
    pub retry: Picos,
    /// Percent of the device's memory that only explicit mappings may have.
    pub reserve: u32,
}

impl Default for Settings {
    fn default() -> Self {
        const SECOND: u64 = 1_000_000;
        Self {
            kind: PolicyKind::Ratio,
            policy: Ratio::THESIS,
            order: 9,
            // The thesis gives no delays but that of writes is longer. A steady stream of synced
            // writes tends to their quotient: 50 %, which keeps an upgraded range (above D).
            write_delay: Picos::from_micros(20 * SECOND),
            write_back_delay: Picos::from_micros(10 * SECOND),
            wait: Picos::ZERO,
            retry: Picos::from_micros(SECOND),
            reserve: 0,
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
    /// Nothing would ever be upgraded.
    #[error(
        "the upgrade threshold is {upgrade} %, and with {after} writes that count for nothing the \
         ratio is at most {most} %; take a lower one, or mount with dax=explicit"
    )]
    Unreachable {
        /// U.
        upgrade: u32,
        /// F.
        after: u32,
        /// The largest ratio.
        most: u64,
    },
    /// No range has so many writes.
    #[error(
        "{after} writes that count for nothing are more than a range ever has; give at most {most}"
    )]
    After {
        /// F.
        after: u32,
        /// The largest F.
        most: u32,
    },
    /// The end of a span would be behind the end of time.
    #[error("{name} is {span}, and at most {most} make sense")]
    Long {
        /// Which.
        name: &'static str,
        /// What was given.
        span: Picos,
        /// The longest.
        most: Picos,
    },
    /// More is kept than there is.
    #[error(
        "{reserve} % of the device's memory cannot be kept for explicit mappings; give 0 to 100"
    )]
    Reserve {
        /// In percent.
        reserve: u32,
    },
    /// A policy that is none.
    #[error("dax_policy={name}: there is no such policy; known are ratio, predict and adaptive")]
    Policy {
        /// Its name.
        name: String,
    },
    /// A setting that is none.
    #[error("{key}: is no setting of dax; those that can be changed are {known}")]
    Unknown {
        /// Its name.
        key: String,
        /// Those that there are.
        known: &'static str,
    },
    /// A value that is no number.
    #[error("{key}={value}: takes a whole number, as in {key}=5")]
    Number {
        /// Of which setting.
        key: String,
        /// What was given.
        value: String,
    },
    /// Nobody decides.
    #[error("{key}: nothing is decided in a mount with dax={kind}; mount with dax=auto")]
    Nobody {
        /// Of which setting.
        key: String,
        /// How it is mounted.
        kind: PolicyKind,
    },
    /// It is the same for as long as the file system is mounted.
    #[error("{key}: is set when the file system is mounted, with -o dax_{key}=; mount it anew")]
    Fixed {
        /// Which.
        key: &'static str,
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

    /// The largest F, far below where counts end.
    pub const MOST_AFTER: u32 = 1_000_000;

    /// Spans are no longer: 30 days. With any time that a machine comes to they end before time
    /// does.
    pub const MOST_SPAN: Picos = Picos::from_micros(30 * 24 * 3_600_000_000);

    /// What can be changed while a file system is mounted.
    pub const CHANGEABLE: &str = "upgrade, downgrade, after, reserve and policy";

    /// Who decides, with these thresholds.
    pub const fn chosen(&self) -> AnyPolicy {
        AnyPolicy::new(self.kind, self.policy)
    }

    /// Sets something by its name, as users write it; nothing is checked against the rest
    /// ([`Settings::check`]).
    ///
    /// # Errors
    /// It has no such name, or the value is none.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), BadSetting> {
        let place = match key {
            "upgrade" => &mut self.policy.upgrade_above,
            "downgrade" => &mut self.policy.downgrade_below,
            "after" => &mut self.policy.after_writes,
            "order" => &mut self.order,
            "reserve" => &mut self.reserve,
            "policy" => {
                let kind = value.parse().ok();
                // That is another mount option, and no name of a policy there.
                let kind = kind.filter(|kind: &PolicyKind| kind.judges());
                self.kind = kind.ok_or_else(|| BadSetting::Policy {
                    name: value.to_string(),
                })?;
                return Ok(());
            }
            _ => {
                return Err(BadSetting::Unknown {
                    key: key.to_string(),
                    known: Self::CHANGEABLE,
                });
            }
        };
        *place = value.parse().map_err(|_| BadSetting::Number {
            key: key.to_string(),
            value: value.to_string(),
        })?;
        Ok(())
    }

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
        let most = self.policy.most();
        if u64::from(upgrade) >= most {
            return Err(BadSetting::Unreachable {
                upgrade,
                after: self.policy.after_writes,
                most,
            });
        }
        if self.reserve > 100 {
            return Err(BadSetting::Reserve {
                reserve: self.reserve,
            });
        }
        if self.order > Self::MOST_ORDER {
            return Err(BadSetting::Order {
                order: self.order,
                most: Self::MOST_ORDER,
            });
        }
        let after = self.policy.after_writes;
        if after > Self::MOST_AFTER {
            let most = Self::MOST_AFTER;
            return Err(BadSetting::After { after, most });
        }
        let delays = [
            ("the delay of writes", self.write_delay),
            ("the delay of write-backs", self.write_back_delay),
        ];
        let waits = [
            ("the wait before an upgrade", self.wait),
            ("the wait before an upgrade is tried again", self.retry),
        ];
        let spans = delays.into_iter().chain(waits);
        if let Some((name, span)) = { spans }.find(|(_, span)| *span > Self::MOST_SPAN) {
            let most = Self::MOST_SPAN;
            return Err(BadSetting::Long { name, span, most });
        }
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
        let mut never = good;
        never.policy.upgrade_above = 599;
        assert_eq!(
            never.check(),
            Ok(()),
            "5 writes that count for nothing and one"
        );
        never.policy.upgrade_above = 600;
        let said = never.check().map_err(|error| error.to_string());
        assert!(said.is_err_and(|said| said.contains("at most 600 %")));
        let reserve = Settings {
            reserve: 101,
            ..good
        };
        assert_eq!(reserve.check(), Err(BadSetting::Reserve { reserve: 101 }));
        let brief = Settings {
            write_delay: Picos::from_nanos(999),
            ..good
        };
        let said = brief.check().map_err(|error| error.to_string());
        assert!(said.is_err_and(|said| said.contains("the delay of writes is 999ns")));
        let mut late = good;
        late.policy.after_writes = 1_000_000;
        assert_eq!(late.check(), Ok(()));
        late.policy.after_writes += 1;
        let said = late.check().map_err(|error| error.to_string());
        assert!(said.is_err_and(|said| said.contains("give at most 1000000")));
    }

    /// Ranges are moved without an overflow, or the span is refused.
    #[test]
    fn the_longest_spans_end_before_time_does() {
        let spans: [fn(&mut Settings) -> &mut Picos; 4] = [
            |settings| &mut settings.wait,
            |settings| &mut settings.retry,
            |settings| &mut settings.write_delay,
            |settings| &mut settings.write_back_delay,
        ];
        for of in spans {
            let mut settings = Settings::default();
            *of(&mut settings) = Settings::MOST_SPAN;
            let mut dax = crate::Dax::new(&settings).expect("a good span");
            let file = dax.open();
            // Far behind what a machine comes to.
            let now = units::Time::from_picos(u64::MAX / 2);
            for _ in 0..9 {
                dax.wrote(file, 0, 1, now);
                dax.wrote_back(file, 0, 1, now);
            }
            while let Some(job) = dax.next_job(now) {
                dax.finish(job, false, now);
            }
            assert_eq!(dax.stats().wanted_upgrades, 1);
            *of(&mut settings) = Picos::new(u64::MAX);
            let said = settings.check().map_err(|error| error.to_string());
            assert!(said.is_err_and(|said| said.contains("at most")));
        }
    }

    #[test]
    fn settings_have_names() {
        let mut settings = Settings::default();
        for (key, value) in [
            ("upgrade", "70"),
            ("downgrade", "20"),
            ("after", "3"),
            ("order", "4"),
            ("reserve", "25"),
            ("policy", "predict"),
        ] {
            assert_eq!(settings.set(key, value), Ok(()), "{key}");
        }
        assert_eq!(settings.policy.upgrade_above, 70);
        assert_eq!(settings.policy.downgrade_below, 20);
        assert_eq!(settings.policy.after_writes, 3);
        assert_eq!((settings.order, settings.reserve), (4, 25));
        assert_eq!(settings.kind, PolicyKind::Predict);
        for (key, value, wanted) in [
            ("up", "1", "no setting"),
            ("upgrade", "-1", "whole number"),
            ("policy", "explicit", "no such policy"),
        ] {
            let said = settings.set(key, value).map_err(|error| error.to_string());
            assert!(said.is_err_and(|said| said.contains(wanted)), "{key}");
        }
    }
}
