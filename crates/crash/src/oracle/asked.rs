//! What the host may ask for.

use crate::token::Token;
use units::TxId;

/// Lines, counted over the device, and what they are to hold.
pub type Lines = Vec<(usize, Token)>;

/// What the host has asked for and not been answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Asked {
    /// To read this line and those after it.
    Read {
        /// The first.
        first: usize,
        /// How many.
        count: usize,
    },
    /// To write, outside of transactions.
    Write {
        /// The lines, with what is written to each.
        lines: Lines,
        /// After a cut all of the lines are new or none is.
        is_whole: bool,
        /// It is answered when it survives a cut, whatever the device has that it could lose.
        is_through: bool,
    },
    /// To write under a transaction.
    WriteUnder(TxId, Lines),
    /// To make everything that was written under the transaction count.
    Commit(TxId),
    /// To forget everything that was written under it.
    Abort(TxId),
    /// To make what was answered survive where batteries do not.
    Flush,
}

impl Asked {
    /// To write lines, each of which is there or not after a cut.
    pub fn lines(tx: TxId, lines: Lines) -> Self {
        match tx {
            TxId::NONE => Self::Write {
                lines,
                is_whole: false,
                is_through: false,
            },
            tx => Self::WriteUnder(tx, lines),
        }
    }

    /// To write a page, through (FUA) or not.
    pub fn page(lines: Lines, is_through: bool) -> Self {
        Self::Write {
            lines,
            is_whole: true,
            is_through,
        }
    }

    /// To read lines.
    pub fn read(lines: core::ops::Range<usize>) -> Self {
        Self::Read {
            first: lines.start,
            count: lines.len(),
        }
    }

    /// The lines that it writes.
    pub fn written(&self) -> &[(usize, Token)] {
        match self {
            Self::Write { lines, .. } | Self::WriteUnder(_, lines) => lines,
            _ => &[],
        }
    }

    /// Whether it reads or writes the line.
    pub(super) fn touches(&self, line: usize) -> bool {
        match self {
            Self::Read { first, count } => (*first..first + count).contains(&line),
            _ => self.written().iter().any(|(written, _)| *written == line),
        }
    }

    /// Under which transaction, if under one.
    pub(super) fn tx(&self) -> Option<TxId> {
        match self {
            Self::WriteUnder(tx, _) | Self::Commit(tx) | Self::Abort(tx) => Some(*tx),
            _ => None,
        }
    }
}
