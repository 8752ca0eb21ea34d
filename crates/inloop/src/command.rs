//! What the host says, as the words of a ring's entry.

use crate::VERSION;
use firmware::RequestOp;
use shm::ring::Words;
use units::{CoreId, LineAddr, Lpa, RequestId, Time};

/// Bytes of a line.
const LINE: u64 = units::address::LINE_BYTES.get();
/// The request is of warm-up: nothing takes time, and nothing is answered.
const WARM: u8 = 0x40;
const DELAY_ALLOWED: u64 = 1 << 16;
/// The namespace of a device that has one.
const NAMESPACE: u64 = 1;

/// A request of the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    /// Name under which it is answered.
    pub id: RequestId,
    /// What is asked: of a line, or of a whole page.
    pub op: RequestOp,
    /// Of which line.
    pub line: LineAddr,
    /// On behalf of which core, if of one.
    pub source: Option<CoreId>,
    /// What is written: the line's value is its address and this.
    pub value: u64,
}

/// What the host wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A request arrives at the device.
    Request(Asked),
    /// A request of warm-up.
    Warm(Asked),
    /// The device's next event is due.
    Event,
    /// The host does not take a page that it was offered.
    Refused(Lpa),
    /// A page is in host DRAM: the device drops its copies.
    Promoted(Lpa),
    /// The page that the host has taken is programmed, for nothing else keeps it.
    Program(Lpa),
    /// How often pages were used is forgotten.
    ForgetAccesses,
    /// Pages choose the sets that they go to by these numbers, one after the other.
    Numbers {
        /// How many follow here.
        count: u8,
        /// The numbers.
        numbers: [u64; 4],
    },
    /// The numbers are complete.
    NumbersEnd,
    /// Measurement begins.
    Begin,
    /// The run is over.
    End,
    /// What is behind the firmware?
    Flash,
    /// What was said so far of the command with this tag has been read.
    GoOn,
}

/// A command with its name and its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command {
    /// Its name: commands are counted.
    pub tag: u64,
    /// Virtual time.
    pub at: Time,
    /// What is wanted.
    pub what: What,
}

fn op_code(op: RequestOp) -> u8 {
    match op {
        RequestOp::Read { .. } => 0x01,
        RequestOp::Own { .. } => 0x02,
        RequestOp::PromotionRead => 0x03,
        RequestOp::Write => 0x04,
        RequestOp::ReadPage => 0x05,
        RequestOp::WritePage => 0x06,
        op => unreachable!("no simulated host sends {op:?}"),
    }
}

fn op_of(code: u8, delay_allowed: bool) -> Option<RequestOp> {
    Some(match code {
        0x01 => RequestOp::Read { delay_allowed },
        0x02 => RequestOp::Own { delay_allowed },
        0x03 => RequestOp::PromotionRead,
        0x04 => RequestOp::Write,
        0x05 => RequestOp::ReadPage,
        0x06 => RequestOp::WritePage,
        _ => return None,
    })
}

fn first_word(code: u8, count: u8) -> u64 {
    u64::from(code) << 32 | u64::from(VERSION) << 40 | u64::from(count) << 48
}

impl Command {
    /// Its words; the low half of the first is the ring's.
    #[inline]
    pub fn words(&self) -> Words {
        let of_page = |code, lpa: Lpa| {
            let first = first_word(code, 0);
            [first, self.tag, self.at.as_picos(), lpa.get(), 0, 0, 0, 0]
        };
        let plain = |code| of_page(code, Lpa::new(0));
        match self.what {
            What::Request(asked) => self.request_words(asked, 0),
            What::Warm(asked) => self.request_words(asked, WARM),
            What::Event => plain(0x10),
            What::Refused(lpa) => of_page(0x11, lpa),
            What::Promoted(lpa) => of_page(0x12, lpa),
            What::Program(lpa) => of_page(0x13, lpa),
            What::ForgetAccesses => plain(0x14),
            What::Numbers { count, numbers } => {
                let [a, b, c, d] = numbers;
                [first_word(0x15, count), self.tag, 0, a, b, c, d, 0]
            }
            What::NumbersEnd => plain(0x16),
            What::Begin => plain(0x17),
            What::End => plain(0x18),
            What::Flash => plain(0x19),
            What::GoOn => plain(0x1a),
        }
    }

    #[inline]
    fn request_words(&self, asked: Asked, warm: u8) -> Words {
        let delay_allowed = matches!(
            asked.op,
            RequestOp::Read {
                delay_allowed: true
            } | RequestOp::Own {
                delay_allowed: true
            }
        );
        let source = asked.source.map_or(0, |core| u64::from(core.get()) + 1);
        [
            first_word(op_code(asked.op) | warm, 0),
            self.tag,
            self.at.as_picos(),
            asked.line.get() * LINE,
            u64::from(asked.id.get()) | NAMESPACE << 32,
            source | if delay_allowed { DELAY_ALLOWED } else { 0 },
            asked.value,
            0,
        ]
    }

    /// What the words say.
    ///
    /// # Errors
    /// They say nothing; a clause.
    #[inline]
    pub fn from_words(words: &Words) -> Result<Self, String> {
        let [first, tag, at, a, b, c, d, rest] = *words;
        let (code, version, count) = ((first >> 32) as u8, (first >> 40) as u8, first >> 48);
        if version != VERSION {
            return Err(format!(
                "a command is of version {version} of the device protocol, and {VERSION} is known"
            ));
        }
        let strange = |what: &str| Err(format!("command {tag} has {what}"));
        if rest != 0 {
            return strange("bits that mean nothing");
        }
        let what = match code {
            0x10 => What::Event,
            0x11 => What::Refused(Lpa::new(a)),
            0x12 => What::Promoted(Lpa::new(a)),
            0x13 => What::Program(Lpa::new(a)),
            0x14 => What::ForgetAccesses,
            0x15 if (1..=4).contains(&count) => What::Numbers {
                count: count as u8,
                numbers: [a, b, c, d],
            },
            0x16 => What::NumbersEnd,
            0x17 => What::Begin,
            0x18 => What::End,
            0x19 => What::Flash,
            0x1a => What::GoOn,
            _ => {
                let Some(op) = op_of(code & !WARM, c & DELAY_ALLOWED != 0) else {
                    return strange(&format!("operation {code:#x}, which there is not"));
                };
                if b >> 32 != NAMESPACE {
                    return strange(&format!("namespace {}, which there is not", b >> 32));
                }
                if !a.is_multiple_of(LINE) || c >> 17 != 0 {
                    return strange("an address within a line, or flags that mean nothing");
                }
                let asked = Asked {
                    id: RequestId::new(b as u32),
                    op,
                    line: LineAddr::new(a / LINE),
                    source: ((c & 0xffff) as u32).checked_sub(1).map(CoreId::new),
                    value: d,
                };
                match code & WARM {
                    0 => What::Request(asked),
                    _ => What::Warm(asked),
                }
            }
        };
        Ok(Self {
            tag,
            at: Time::from_picos(at),
            what,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ops() -> impl Strategy<Value = RequestOp> + Clone {
        let delays = any::<bool>();
        prop_oneof![
            delays.prop_map(|delay_allowed| RequestOp::Read { delay_allowed }),
            delays.prop_map(|delay_allowed| RequestOp::Own { delay_allowed }),
            Just(RequestOp::PromotionRead),
            Just(RequestOp::Write),
            Just(RequestOp::ReadPage),
            Just(RequestOp::WritePage),
        ]
    }

    fn whats() -> impl Strategy<Value = What> {
        let asked = (ops(), any::<u32>(), 0..u64::MAX / LINE, any::<u64>());
        let asked = (asked, proptest::option::of(0..0xfffe_u32));
        let asked = asked.prop_map(|((op, id, line, value), source)| Asked {
            id: RequestId::new(id),
            op,
            line: LineAddr::new(line),
            source: source.map(CoreId::new),
            value,
        });
        let page = any::<u64>().prop_map(Lpa::new);
        prop_oneof![
            asked.clone().prop_map(What::Request),
            asked.prop_map(What::Warm),
            page.clone().prop_map(What::Refused),
            page.clone().prop_map(What::Promoted),
            page.prop_map(What::Program),
            (1..=4_u8, any::<[u64; 4]>())
                .prop_map(|(count, numbers)| What::Numbers { count, numbers }),
            Just(What::Event),
            Just(What::ForgetAccesses),
            Just(What::NumbersEnd),
            Just(What::Begin),
            Just(What::End),
            Just(What::Flash),
            Just(What::GoOn),
        ]
    }

    proptest! {
        #[test]
        fn a_command_comes_back_from_its_words(tag: u64, at: u64, what in whats()) {
            let at = match what {
                What::Numbers { .. } => Time::ZERO,
                _ => Time::from_picos(at),
            };
            let command = Command { tag, at, what };
            prop_assert_eq!(Command::from_words(&command.words()), Ok(command));
        }

        #[test]
        fn no_words_make_it_panic(words: [u64; 8]) {
            let _ = Command::from_words(&words);
            let mut known = words;
            known[0] = known[0] & !(0xff << 40) | u64::from(VERSION) << 40;
            let _ = Command::from_words(&known);
        }
    }

    #[test]
    fn addresses_have_64_bits_and_namespaces_a_name() {
        let command = |line| Command {
            tag: 1,
            at: Time::ZERO,
            what: What::Request(Asked {
                id: RequestId::new(0),
                op: RequestOp::Write,
                line: LineAddr::new(line),
                source: None,
                value: 0,
            }),
        };
        let low = command(3).words();
        let high = command(3 + (1 << 32) / LINE).words();
        assert_ne!(low[3], high[3], "no aliases at 4 GiB");
        let mut words = low;
        words[4] = 2 << 32;
        let error = Command::from_words(&words).unwrap_err();
        assert!(error.contains("namespace 2"), "{error}");
    }
}
