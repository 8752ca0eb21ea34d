//! What the firmware says, as the words of a ring's entry.

use crate::VERSION;
use crate::error::LoopError;
use firmware::{Answer, Response, Served};
use shm::ring::Words;
use soc::Timed;
use units::{Lpa, Picos, RequestId, Time};

/// Most times of work in one entry.
pub(crate) const MOST_TIMES: usize = 5;
const TIME_BITS: u32 = 56;

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// With data.
    Data,
    /// Written.
    Written,
    /// SkyByte-Delay.
    Delay,
}

impl Outcome {
    fn of(answer: Answer) -> Self {
        match answer {
            Answer::Data => Self::Data,
            Answer::Written => Self::Written,
            Answer::Delay => Self::Delay,
            answer => unreachable!("no request of a simulated host is answered with {answer:?}"),
        }
    }
}

/// The answer to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answered {
    /// Which request.
    pub request: RequestId,
    /// How it ended.
    pub outcome: Outcome,
    /// From where; a number of its own ([`Served`] in its order).
    pub served: u8,
    /// On the device, from arrival to answer.
    pub latency: Picos,
    /// What of it was not the flash's: the operation's overhead.
    pub overhead: Picos,
    /// What of it was the flash's.
    pub nand: Picos,
    /// When it leaves the device.
    pub at: Time,
    /// What was read: the line's value.
    pub value: u64,
}

impl Answered {
    /// That of a response, with the value that was read.
    #[inline]
    pub fn of(response: &Response, value: u64) -> Self {
        let parts = response.breakdown;
        let overhead = parts.stall + parts.index + parts.dram;
        Self {
            request: response.request,
            outcome: Outcome::of(response.answer),
            served: served_code(response.served),
            latency: overhead + parts.flash,
            overhead,
            nand: parts.flash,
            at: response.at,
            value,
        }
    }
}

fn served_code(served: Served) -> u8 {
    match served {
        Served::LogHit => 0,
        Served::CacheHit => 1,
        Served::BufferHit => 2,
        Served::Flash => 3,
        Served::MergedMiss => 4,
        Served::Unmapped => 5,
        Served::Write => 6,
    }
}

/// What the firmware says of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply {
    /// A request is answered.
    Answered(Answered),
    /// A page is offered to the host.
    Offered(Lpa, Time),
    /// A page is in device DRAM of which a read was delayed.
    Arrived(Lpa, Time),
    /// What its work took, in order; the rest is nothing.
    Times([Option<(Timed, Picos)>; MOST_TIMES]),
    /// What is behind the firmware: a drive, or the model of the flash.
    Flash {
        /// Whether it is a drive, whose times are measured.
        is_drive: bool,
    },
    /// The command is done.
    Done {
        /// When the device's next event is due.
        deadline: Option<Time>,
        /// The last of what its work took.
        times: [Option<(Timed, Picos)>; MOST_TIMES],
    },
    /// More follows when the host has read what is there.
    More,
    /// The firmware has stopped; why is in the region.
    Stopped,
}

const DONE: u8 = 0x80;
const ANSWERED: u8 = 0x81;
const OFFERED: u8 = 0x82;
const ARRIVED: u8 = 0x83;
const TIMES: u8 = 0x84;
const FLASH: u8 = 0x85;
const MORE: u8 = 0x86;
const STOPPED: u8 = 0x8f;

impl Reply {
    /// Its words, of the command with this tag.
    #[inline]
    pub fn words(&self, tag: u64) -> Words {
        let first =
            |code: u8, count: u64| u64::from(code) << 32 | u64::from(VERSION) << 40 | count << 48;
        let timed = |code, second, times: &[Option<(Timed, Picos)>; MOST_TIMES]| {
            let mut words = [0; 8];
            let mut count = 0;
            for (word, (work, time)) in words[3..].iter_mut().zip(times.iter().flatten()) {
                let most = (1 << TIME_BITS) - 1;
                *word = u64::from(work.code()) << TIME_BITS | time.get().min(most);
                count += 1;
            }
            (words[0], words[1], words[2]) = (first(code, count), tag, second);
            words
        };
        let of_page =
            |code, lpa: Lpa, at: Time| [first(code, 0), tag, lpa.get(), at.as_picos(), 0, 0, 0, 0];
        match self {
            Self::Answered(answered) => {
                let outcome = match answered.outcome {
                    Outcome::Data => 0_u64,
                    Outcome::Written => 1,
                    Outcome::Delay => 2,
                };
                let request = u64::from(answered.request.get());
                [
                    first(ANSWERED, 0),
                    tag,
                    request | outcome << 32 | u64::from(answered.served) << 40,
                    answered.latency.get(),
                    answered.overhead.get(),
                    answered.nand.get(),
                    answered.at.as_picos(),
                    answered.value,
                ]
            }
            Self::Offered(lpa, at) => of_page(OFFERED, *lpa, *at),
            Self::Arrived(lpa, at) => of_page(ARRIVED, *lpa, *at),
            Self::Times(times) => timed(TIMES, 0, times),
            Self::Flash { is_drive } => [first(FLASH, 0), tag, u64::from(*is_drive), 0, 0, 0, 0, 0],
            Self::Done { deadline, times } => {
                let due = deadline.map_or(u64::MAX, Time::as_picos);
                timed(DONE, due, times)
            }
            Self::More => [first(MORE, 0), tag, 0, 0, 0, 0, 0, 0],
            Self::Stopped => [first(STOPPED, 0), tag, 0, 0, 0, 0, 0, 0],
        }
    }

    /// What the words say, and of which command.
    ///
    /// # Errors
    /// They are of another version, or say nothing.
    #[inline]
    pub fn from_words(words: &Words) -> Result<(u64, Self), LoopError> {
        let [first, tag, second, a, b, c, d, e] = *words;
        let (code, version, count) = ((first >> 32) as u8, (first >> 40) as u8, first >> 48);
        if version != VERSION {
            return Err(LoopError::Version {
                found: version,
                known: VERSION,
            });
        }
        let strange = |what: &str| Err(LoopError::Malformed(what.to_owned()));
        let times = || {
            let mut times = [None; MOST_TIMES];
            if count as usize > MOST_TIMES {
                return Err(LoopError::Malformed(format!("{count} times in one entry")));
            }
            for (place, word) in times.iter_mut().zip([a, b, c, d, e]).take(count as usize) {
                let code = (word >> TIME_BITS) as u8;
                let work = Timed::of_code(code)
                    .filter(|timed| !matches!(timed, Timed::Device(_)))
                    .ok_or_else(|| LoopError::Malformed(format!("the time of work {code}")))?;
                let time = Picos::new(word & ((1 << TIME_BITS) - 1));
                if time > Timed::LONGEST {
                    let what = format!("{time} for a piece of work, and none takes an hour");
                    return Err(LoopError::Malformed(what));
                }
                *place = Some((work, time));
            }
            Ok(times)
        };
        let reply = match code {
            ANSWERED => {
                let outcome = match (second >> 32) as u8 {
                    0 => Outcome::Data,
                    1 => Outcome::Written,
                    2 => Outcome::Delay,
                    _ => return strange("an outcome that there is not"),
                };
                let (latency, overhead, nand) = (Picos::new(a), Picos::new(b), Picos::new(c));
                if b.checked_add(c) != Some(a) {
                    return strange("a latency that is not overhead and flash together");
                }
                Self::Answered(Answered {
                    request: RequestId::new(second as u32),
                    outcome,
                    served: (second >> 40) as u8,
                    latency,
                    overhead,
                    nand,
                    at: Time::from_picos(d),
                    value: e,
                })
            }
            OFFERED => Self::Offered(Lpa::new(second), Time::from_picos(a)),
            ARRIVED => Self::Arrived(Lpa::new(second), Time::from_picos(a)),
            TIMES => Self::Times(times()?),
            FLASH if second < 2 => Self::Flash {
                is_drive: second == 1,
            },
            DONE => Self::Done {
                deadline: (second != u64::MAX).then(|| Time::from_picos(second)),
                times: times()?,
            },
            MORE => Self::More,
            STOPPED => Self::Stopped,
            _ => return strange(&format!("a reply of kind {code:#x}")),
        };
        Ok((tag, reply))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use soc::DeviceTime;

    fn times() -> impl Strategy<Value = [Option<(Timed, Picos)>; MOST_TIMES]> {
        let kinds = Timed::KINDS as u8 - DeviceTime::ALL.len() as u8;
        let one = (0..kinds, 0..=Timed::LONGEST.get());
        proptest::collection::vec(one, 0..=MOST_TIMES).prop_map(|some| {
            let mut times = [None; MOST_TIMES];
            for (place, (code, time)) in times.iter_mut().zip(some) {
                *place = Some((Timed::of_code(code).unwrap(), Picos::new(time)));
            }
            times
        })
    }

    fn replies() -> impl Strategy<Value = Reply> {
        let outcomes = prop_oneof![
            Just(Outcome::Data),
            Just(Outcome::Written),
            Just(Outcome::Delay)
        ];
        let answered = (outcomes, any::<(u32, u8, u32, u64, u64, u64)>()).prop_map(
            |(outcome, (request, served, overhead, nand, at, value))| {
                let (overhead, nand) = (u64::from(overhead), nand >> 1);
                Reply::Answered(Answered {
                    request: RequestId::new(request),
                    outcome,
                    served,
                    latency: Picos::new(overhead + nand),
                    overhead: Picos::new(overhead),
                    nand: Picos::new(nand),
                    at: Time::from_picos(at),
                    value,
                })
            },
        );
        let page = any::<(u64, u64)>();
        let page = page.prop_map(|(lpa, at)| (Lpa::new(lpa), Time::from_picos(at)));
        let deadline = proptest::option::of((0..u64::MAX).prop_map(Time::from_picos));
        prop_oneof![
            answered,
            page.clone().prop_map(|(lpa, at)| Reply::Offered(lpa, at)),
            page.prop_map(|(lpa, at)| Reply::Arrived(lpa, at)),
            times().prop_map(Reply::Times),
            (deadline, times()).prop_map(|(deadline, times)| Reply::Done { deadline, times }),
            Just(Reply::More),
            Just(Reply::Stopped),
        ]
    }

    proptest! {
        #[test]
        fn a_reply_comes_back_from_its_words(tag: u64, reply in replies()) {
            prop_assert_eq!(Reply::from_words(&reply.words(tag)).unwrap(), (tag, reply));
        }

        #[test]
        fn no_words_make_it_panic(words: [u64; 8]) {
            let _ = Reply::from_words(&words);
            let mut known = words;
            known[0] = known[0] & !(0xffff << 32) | u64::from(VERSION) << 40 | 0x80 << 32;
            known[0] |= (words[1] % 7) << 32;
            let _ = Reply::from_words(&known);
        }
    }

    #[test]
    fn a_time_of_a_device_that_is_not_simulated_is_none_of_firmware() {
        let times = [
            Some((Timed::Device(DeviceTime::Hit), Picos::ZERO)),
            None,
            None,
            None,
            None,
        ];
        let found = Reply::from_words(&Reply::Times(times).words(0)).unwrap_err();
        assert!(found.to_string().contains("the time of work 10"), "{found}");
    }

    #[test]
    fn latency_and_overhead_have_64_bits() {
        let overhead = Picos::from_micros(7_651);
        let answered = Reply::Answered(Answered {
            request: RequestId::new(1),
            outcome: Outcome::Data,
            served: 3,
            latency: overhead,
            overhead,
            nand: Picos::ZERO,
            at: Time::ZERO,
            value: 0,
        });
        assert_eq!(Reply::from_words(&answered.words(0)).unwrap().1, answered);
    }
}
