//! Answers as they stand in the answer ring.

use crate::layout::Note;
use crate::region::Region;
use crate::ring::Words;
use port::{Atomicity, Completion, DeviceError, Outcome};
use units::{ByteAddr, Bytes, Time, TxId};

/// Numbers of outcomes.
mod status {
    pub const DONE: u32 = 0;
    pub const OUT_OF_RANGE: u32 = 1;
    pub const NOT_BLOCKS: u32 = 2;
    pub const LOCKED: u32 = 3;
    pub const UNKNOWN_TRANSACTION: u32 = 4;
    pub const TOO_MANY_TRANSACTIONS: u32 = 5;
    pub const NO_TRANSACTIONS: u32 = 6;
    pub const LOG_FULL: u32 = 7;
    pub const READ_ONLY: u32 = 8;
    pub const LOST: u32 = 9;
    pub const STOPPED: u32 = 10;
    pub const DEADLOCK: u32 = 11;
    pub const TOO_LARGE: u32 = 12;
    pub const BEYOND_RESERVATION: u32 = 13;
    pub const LATE_RESERVATION: u32 = 14;
}

/// The log whose want leaves a device without transactions.
mod lack {
    pub const WRITE_LOG: u64 = 1;
    pub const TX_LOG: u64 = 2;
}

/// The entry of an answer. The reason of a device that has stopped goes into the region's header.
pub fn encode(cookie: u64, outcome: &Outcome, region: &Region) -> Words {
    let (status, [a, b, c, d]) = match outcome {
        Ok(done) => (status::DONE, done_words(done)),
        Err(error) => refusal(error, region),
    };
    [u64::from(status) << 32, cookie, a, b, c, d, 0, 0]
}

fn done_words((completion, atomicity): &(Completion, Atomicity)) -> [u64; 4] {
    let parts = match atomicity {
        Atomicity::Whole => 0,
        Atomicity::Parts { count } => u64::from(*count),
    };
    [
        completion.submitted.as_picos(),
        completion.finished.as_picos(),
        parts,
        0,
    ]
}

fn refusal(error: &DeviceError, region: &Region) -> (u32, [u64; 4]) {
    match error {
        DeviceError::OutOfRange { at, size, capacity } => (
            status::OUT_OF_RANGE,
            [at.get(), size.get(), capacity.get(), 0],
        ),
        DeviceError::NotBlocks { at, size, block } => {
            (status::NOT_BLOCKS, [at.get(), size.get(), block.get(), 0])
        }
        DeviceError::Locked { at } => (status::LOCKED, [at.get(), 0, 0, 0]),
        DeviceError::Deadlock { at } => (status::DEADLOCK, [at.get(), 0, 0, 0]),
        DeviceError::UnknownTransaction { tx } => {
            let tx = u64::from(tx.get());
            (status::UNKNOWN_TRANSACTION, [tx, 0, 0, 0])
        }
        DeviceError::TooManyTransactions { open } => {
            let open = u64::from(*open);
            (status::TOO_MANY_TRANSACTIONS, [open, 0, 0, 0])
        }
        DeviceError::NoTransactions { has_log } => {
            let lack = match has_log {
                true => lack::TX_LOG,
                false => lack::WRITE_LOG,
            };
            (status::NO_TRANSACTIONS, [lack, 0, 0, 0])
        }
        DeviceError::TooLarge { most } => (status::TOO_LARGE, [u64::from(*most), 0, 0, 0]),
        DeviceError::BeyondReservation { tx, lines } => {
            let words = [u64::from(tx.get()), u64::from(*lines), 0, 0];
            (status::BEYOND_RESERVATION, words)
        }
        DeviceError::LateReservation { tx } => {
            let tx = u64::from(tx.get());
            (status::LATE_RESERVATION, [tx, 0, 0, 0])
        }
        DeviceError::LogFull => (status::LOG_FULL, [0; 4]),
        DeviceError::ReadOnly => (status::READ_ONLY, [0; 4]),
        DeviceError::Lost { at } => (status::LOST, [at.get(), 0, 0, 0]),
        DeviceError::Forked => {
            Note::Stopped.leave(region, &error.to_string());
            (status::STOPPED, [0; 4])
        }
        DeviceError::Stopped { reason } => {
            Note::Stopped.leave(region, reason);
            (status::STOPPED, [0; 4])
        }
    }
}

/// What an entry answers; its cookie is the second word.
///
/// # Errors
/// What the device refused, or an outcome that this program does not know.
pub fn decode(words: &Words, region: &Region) -> Outcome {
    let [_, _, a, b, c, ..] = *words;
    let low = |word: u64| (word & u64::from(u32::MAX)) as u32;
    let at = ByteAddr::new(a);
    let size = Bytes::new(b);
    Err(match (words[0] >> 32) as u32 {
        status::DONE => {
            let completion = Completion {
                submitted: Time::from_picos(a),
                finished: Time::from_picos(b),
            };
            let atomicity = match low(c) {
                0 => Atomicity::Whole,
                count => Atomicity::Parts { count },
            };
            return Ok((completion, atomicity));
        }
        status::OUT_OF_RANGE => {
            let capacity = Bytes::new(c);
            DeviceError::OutOfRange { at, size, capacity }
        }
        status::NOT_BLOCKS => {
            let block = Bytes::new(c);
            DeviceError::NotBlocks { at, size, block }
        }
        status::LOCKED => DeviceError::Locked { at },
        status::DEADLOCK => DeviceError::Deadlock { at },
        status::UNKNOWN_TRANSACTION => {
            let tx = TxId::new(low(a));
            DeviceError::UnknownTransaction { tx }
        }
        status::TOO_MANY_TRANSACTIONS => DeviceError::TooManyTransactions { open: low(a) },
        status::NO_TRANSACTIONS => DeviceError::NoTransactions {
            has_log: a == lack::TX_LOG,
        },
        status::TOO_LARGE => DeviceError::TooLarge { most: low(a) },
        status::BEYOND_RESERVATION => DeviceError::BeyondReservation {
            tx: TxId::new(low(a)),
            lines: low(b),
        },
        status::LATE_RESERVATION => DeviceError::LateReservation {
            tx: TxId::new(low(a)),
        },
        status::LOG_FULL => DeviceError::LogFull,
        status::READ_ONLY => DeviceError::ReadOnly,
        status::LOST => DeviceError::Lost { at },
        status::STOPPED => {
            let reason = Note::Stopped.find(region);
            let reason = reason.unwrap_or_else(|| "its server did not say why".to_owned());
            DeviceError::Stopped { reason }
        }
        status => {
            let reason = format!(
                "its server answers with outcome {status}, which this program does not know; \
                 use the same release of both"
            );
            DeviceError::Stopped { reason }
        }
    })
}
