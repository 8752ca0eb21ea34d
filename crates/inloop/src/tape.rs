//! The times of a run in the loop, to be given to a modelled device.
//!
//! `docs/formats/device-times.md` specifies the bytes.

use soc::Timed;
use thiserror::Error;
use units::Picos;

const MAGIC: [u8; 8] = *b"ENTRtime";
/// Version of the file.
const VERSION: u32 = 1;
const HEADER: usize = 48;
const TIME_BITS: u32 = 56;

/// The times of one run, in the order in which its device did its work.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tape {
    /// The run's effective configuration, as it is named in its result.
    pub config_digest: [u8; 16],
    /// What each piece of work took.
    pub times: Vec<(Timed, Picos)>,
}

/// What is no recording, or not of this run.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum TapeError {
    /// Another file.
    #[error("it is no recording of a run in the loop; make one with --device loop -o DIRECTORY")]
    Foreign,
    /// Of a release that is newer.
    #[error("it has version {found} and this program knows {VERSION}; use a newer release")]
    Version {
        /// Its version.
        found: u32,
    },
    /// Part of it is missing or wrong.
    #[error("it is cut short or damaged at byte {at}; record it again")]
    Damaged {
        /// Where.
        at: usize,
    },
}

impl Tape {
    /// Whether operations of a drive were measured, too.
    pub fn has_flash(&self) -> bool {
        let mut times = self.times.iter();
        times.any(|(what, _)| matches!(what, Timed::Flash(_)))
    }

    /// Whether it is of a device of its own: no simulated one can be given its times.
    pub fn is_of_device(&self) -> bool {
        let mut times = self.times.iter();
        times.any(|(what, _)| matches!(what, Timed::Device(_)))
    }

    /// The file's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + self.times.len() * 8);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(0_u32.to_le_bytes());
        bytes.extend(self.config_digest);
        bytes.extend((self.times.len() as u64).to_le_bytes());
        let words = self.times.iter().map(|(work, time)| {
            let most = (1 << TIME_BITS) - 1;
            u64::from(work.code()) << TIME_BITS | time.get().min(most)
        });
        let words: Vec<u64> = words.collect();
        bytes.extend(sum_of(&words).to_le_bytes());
        words
            .iter()
            .for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes
    }

    /// What the file says.
    ///
    /// # Errors
    /// It is none, or damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TapeError> {
        if bytes.len() < 8 || bytes[..8] != MAGIC {
            return Err(TapeError::Foreign);
        }
        if bytes.len() < HEADER {
            return Err(TapeError::Damaged { at: bytes.len() });
        }
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
        let found = word(8) as u32;
        if found != VERSION {
            return Err(TapeError::Version { found });
        }
        if word(8) >> 32 != 0 {
            return Err(TapeError::Damaged { at: 12 });
        }
        let (body, rest) = bytes[HEADER..].as_chunks::<8>();
        if body.len() as u64 != word(32) || !rest.is_empty() {
            return Err(TapeError::Damaged { at: bytes.len() });
        }
        let words: Vec<u64> = body.iter().map(|word| u64::from_le_bytes(*word)).collect();
        if sum_of(&words) != word(40) {
            return Err(TapeError::Damaged { at: 40 });
        }
        let mut times = Vec::with_capacity(words.len());
        for (index, word) in words.into_iter().enumerate() {
            let at = HEADER + index * 8;
            let work = Timed::of_code((word >> TIME_BITS) as u8);
            let work = work.ok_or(TapeError::Damaged { at })?;
            let time = Picos::new(word & ((1 << TIME_BITS) - 1));
            if time > Timed::LONGEST {
                return Err(TapeError::Damaged { at });
            }
            times.push((work, time));
        }
        Ok(Self {
            config_digest: bytes[16..32].try_into().expect("sixteen bytes"),
            times,
        })
    }
}

/// FNV-1a over words: enough to notice damage.
fn sum_of(words: &[u64]) -> u64 {
    words.iter().fold(0xcbf2_9ce4_8422_2325, |sum, word| {
        (sum ^ word).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tapes() -> impl Strategy<Value = Tape> {
        let one = (0..Timed::KINDS as u8, 0..=Timed::LONGEST.get());
        let times = proptest::collection::vec(one, 0..50);
        (any::<[u8; 16]>(), times).prop_map(|(config_digest, times)| {
            let time = |(code, time)| (Timed::of_code(code).unwrap(), Picos::new(time));
            Tape {
                config_digest,
                times: times.into_iter().map(time).collect(),
            }
        })
    }

    proptest! {
        #[test]
        fn a_tape_comes_back_and_damage_is_found(tape in tapes(), at: prop::sample::Index, bit in 0..8_u32) {
            let mut bytes = tape.to_bytes();
            prop_assert_eq!(Tape::from_bytes(&bytes), Ok(tape.clone()));
            let at = at.index(bytes.len());
            bytes[at] ^= 1_u8 << bit;
            let found = Tape::from_bytes(&bytes);
            let is_name = (16..32).contains(&at);
            prop_assert!(is_name || found.is_err(), "byte {at}");
            bytes[at] ^= 1_u8 << bit;
            bytes.truncate(at);
            prop_assert!(Tape::from_bytes(&bytes).is_err());
        }
    }
}
