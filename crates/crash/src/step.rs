//! The steps of a workload, and their text in scripts.
//!
//! A step says what the host or the world does next: ask for something, let the oldest operation
//! of a die end, let a timer ring, cut the power. A step that cannot be done at its moment (the
//! host would break the contract, the die is idle) is passed over, so that any part of a workload
//! is a workload.

use crate::power_cutter::InFlight;
use units::{DieId, TxId};

/// One step. Lines and pages are counted over the device; those beyond its end wrap round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The host writes lines of one page: `count` from `line` on, as far as the page goes.
    Write {
        /// The first line.
        line: u32,
        /// How many; one is a plain write.
        count: u32,
        /// Under which transaction.
        tx: TxId,
    },
    /// The host writes a page through the block port.
    WritePage {
        /// Number of the page, counted in pages of the device.
        page: u32,
        /// It wants the answer only when the page survives a cut (FUA).
        is_through: bool,
    },
    /// The host gives a page up.
    Trim {
        /// Number of the page.
        page: u32,
    },
    /// The host wants to know that what was answered survives.
    Flush,
    /// The host reserves room for a transaction before it writes.
    Reserve {
        /// Name of the transaction.
        tx: TxId,
        /// How many lines.
        lines: u32,
    },
    /// The host commits a transaction.
    Commit {
        /// Name of the transaction.
        tx: TxId,
    },
    /// The host gives a transaction up.
    Abort {
        /// Name of the transaction.
        tx: TxId,
    },
    /// The host reads lines of one page.
    Read {
        /// The first line.
        line: u32,
        /// How many.
        count: u32,
    },
    /// The host reads a page through the block port.
    ReadPage {
        /// Number of the page.
        page: u32,
    },
    /// The oldest NAND operation of a die ends.
    Finish {
        /// Which die.
        die: DieId,
    },
    /// The oldest NAND operation of a die fails.
    Fail {
        /// Which die.
        die: DieId,
    },
    /// The timer that was set first rings.
    Ring,
    /// Everything that is logged is to go to flash.
    Drain,
    /// Everything ends, one operation after the other.
    Settle,
    /// The power goes and comes back.
    PowerCut {
        /// What becomes of the flash operations in flight.
        in_flight: InFlight,
    },
}

impl core::fmt::Display for Step {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Write { line, count, tx } if tx == TxId::NONE => {
                write!(f, "write {line} {count}")
            }
            Self::Write { line, count, tx } => write!(f, "write {line} {count} tx {}", tx.get()),
            Self::WritePage {
                page,
                is_through: false,
            } => write!(f, "write_page {page}"),
            Self::WritePage { page, .. } => write!(f, "write_page_through {page}"),
            Self::Trim { page } => write!(f, "trim {page}"),
            Self::Flush => f.write_str("flush"),
            Self::Reserve { tx, lines } => write!(f, "reserve {} {lines}", tx.get()),
            Self::Commit { tx } => write!(f, "commit {}", tx.get()),
            Self::Abort { tx } => write!(f, "abort {}", tx.get()),
            Self::Read { line, count } => write!(f, "read {line} {count}"),
            Self::ReadPage { page } => write!(f, "read_page {page}"),
            Self::Finish { die } => write!(f, "finish {}", die.get()),
            Self::Fail { die } => write!(f, "fail {}", die.get()),
            Self::Ring => f.write_str("ring"),
            Self::Drain => f.write_str("drain"),
            Self::Settle => f.write_str("settle"),
            Self::PowerCut { in_flight } => write!(f, "power_cut {}", in_flight.name()),
        }
    }
}

impl core::str::FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let number = |word: &str| {
            word.parse::<u32>()
                .map_err(|_| format!("{word:?} is not a number from 0 to 4294967295"))
        };
        Ok(match words[..] {
            ["write", line, count] => Self::Write {
                line: number(line)?,
                count: number(count)?,
                tx: TxId::NONE,
            },
            ["write", line, count, "tx", tx] => Self::Write {
                line: number(line)?,
                count: number(count)?,
                tx: TxId::new(number(tx)?),
            },
            [name @ ("write_page" | "write_page_through"), page] => Self::WritePage {
                page: number(page)?,
                is_through: name == "write_page_through",
            },
            ["trim", page] => Self::Trim {
                page: number(page)?,
            },
            ["flush"] => Self::Flush,
            ["reserve", tx, lines] => Self::Reserve {
                tx: TxId::new(number(tx)?),
                lines: number(lines)?,
            },
            ["commit", tx] => Self::Commit {
                tx: TxId::new(number(tx)?),
            },
            ["abort", tx] => Self::Abort {
                tx: TxId::new(number(tx)?),
            },
            ["read", line, count] => Self::Read {
                line: number(line)?,
                count: number(count)?,
            },
            ["read_page", page] => Self::ReadPage {
                page: number(page)?,
            },
            ["finish", die] => Self::Finish {
                die: DieId::new(number(die)?),
            },
            ["fail", die] => Self::Fail {
                die: DieId::new(number(die)?),
            },
            ["ring"] => Self::Ring,
            ["drain"] => Self::Drain,
            ["settle"] => Self::Settle,
            ["power_cut", in_flight] => Self::PowerCut {
                in_flight: in_flight.parse()?,
            },
            _ => return Err(format!("{text:?} is not a step")),
        })
    }
}
