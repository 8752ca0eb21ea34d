//! What a device refuses, and why.

use alloc::string::String;
use thiserror::Error;
use units::{ByteAddr, Bytes, TxId};

/// Why a request was not done. Each is one sentence: what, where, what to do.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum DeviceError {
    /// The range does not lie within the logical space.
    #[error("{size} at byte {at} reach beyond the device's {capacity}; ask for less")]
    OutOfRange {
        /// First byte.
        at: ByteAddr,
        /// How many.
        size: Bytes,
        /// Of how many there are.
        capacity: Bytes,
    },
    /// The block port was asked for something else than whole blocks.
    #[error(
        "{size} at byte {at} are not whole blocks of {block}; use the byte port or align the request"
    )]
    NotBlocks {
        /// First byte.
        at: ByteAddr,
        /// How many.
        size: Bytes,
        /// The size of a block.
        block: Bytes,
    },
    /// Another open transaction has written there.
    #[error("byte {at} was written by a transaction that is still open; commit or abort it first")]
    Locked {
        /// First byte of the line or block.
        at: ByteAddr,
    },
    /// Open transactions would wait for each other for ever.
    #[error(
        "byte {at} was written by a transaction that waits for this one; abort this one and begin \
         it anew"
    )]
    Deadlock {
        /// First byte of the line or block.
        at: ByteAddr,
    },
    /// No such transaction is open.
    #[error("{tx} is not open; it was never begun, or is committed or aborted already")]
    UnknownTransaction {
        /// Its name.
        tx: TxId,
    },
    /// As many transactions are open as the device takes.
    #[error("{open} transactions are open, as many as the device takes; commit or abort one first")]
    TooManyTransactions {
        /// How many are open.
        open: u32,
    },
    /// The device has not the logs that transactions need.
    #[error(
        "the device has no {}, which transactions need; create one with {}",
        if *.has_log { "TxLog" } else { "write log" },
        if *.has_log { "ssd.log.tx_log=2MiB" } else { "ssd.log.size=64MiB and ssd.log.tx_log=2MiB" }
    )]
    NoTransactions {
        /// It has a write log; what it lacks is the TxLog.
        has_log: bool,
    },
    /// There never is so much room for one transaction.
    #[error(
        "the log keeps {most} lines of open transactions, and this one wants more; write fewer \
         lines in one, or reserve none and let it be split"
    )]
    TooLarge {
        /// Lines of open transactions that the log keeps.
        most: u32,
    },
    /// A transaction writes more than it has reserved.
    #[error("{tx} has reserved {lines} lines and writes more; abort it and reserve more")]
    BeyondReservation {
        /// Its name.
        tx: TxId,
        /// How many it has reserved.
        lines: u32,
    },
    /// A reservation that comes too late.
    #[error("{tx} has written or reserved already; reserve room when a transaction begins")]
    LateReservation {
        /// Its name.
        tx: TxId,
    },
    /// What open transactions have written or reserved fills the log.
    #[error(
        "open transactions leave no room in the log; commit or abort one first, or reserve room \
         when one begins"
    )]
    LogFull,
    /// So many blocks of the flash have failed that nothing more may be written.
    #[error("the flash is worn out and can only be read; copy what is on it to another device")]
    ReadOnly,
    /// The bytes are lost, which the device knows: it never answers with wrong ones.
    #[error("the flash has lost the block at byte {at}; write it anew or restore it from a copy")]
    Lost {
        /// First byte of the block.
        at: ByteAddr,
    },
    /// A connection to a device of another process, in a fork of the process that connected.
    #[error(
        "the connection to the device was made before this process was forked, and is the other \
         process' alone; connect anew in this one"
    )]
    Forked,
    /// The device has stopped and answers nothing any more; what it acknowledged is in its image.
    #[error("the device has stopped: {reason}")]
    Stopped {
        /// Why, and what to do.
        reason: String,
    },
}

impl DeviceError {
    /// The same, told to a host that knows the transaction by another name.
    #[must_use]
    pub fn under(self, tx: TxId) -> Self {
        match self {
            Self::UnknownTransaction { .. } => Self::UnknownTransaction { tx },
            Self::LateReservation { .. } => Self::LateReservation { tx },
            Self::BeyondReservation { lines, .. } => Self::BeyondReservation { tx, lines },
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn an_error_says_what_where_and_what_to_do() {
        let error = DeviceError::NotBlocks {
            at: ByteAddr::new(512),
            size: Bytes::from_kib(1),
            block: Bytes::from_kib(4),
        };
        assert_eq!(
            error.to_string(),
            "1KiB at byte 512 are not whole blocks of 4KiB; use the byte port or align the request"
        );
        let tx = TxId::new(7);
        let error = DeviceError::UnknownTransaction { tx }.to_string();
        assert!(error.starts_with("transaction 7 is not open;"), "{error}");
        let told = |has_log| DeviceError::NoTransactions { has_log }.to_string();
        assert_eq!(
            told(true),
            "the device has no TxLog, which transactions need; create one with ssd.log.tx_log=2MiB"
        );
        assert_eq!(
            told(false),
            "the device has no write log, which transactions need; create one with \
             ssd.log.size=64MiB and ssd.log.tx_log=2MiB"
        );
    }
}
