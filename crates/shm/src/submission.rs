//! Requests as they stand in the submission ring.

use crate::breach::Breach;
use crate::layout::{Layout, MOST_REQUEST};
use crate::ring::Words;
use crate::statistics::STATISTICS_BYTES;
use port::{Acknowledge, Conflict};
use units::{ByteAddr, Bytes, TxId};

/// Numbers of operations.
mod code {
    pub const READ: u32 = 1;
    pub const WRITE: u32 = 2;
    pub const PERSIST: u32 = 3;
    pub const READ_BLOCKS: u32 = 4;
    pub const WRITE_BLOCKS: u32 = 5;
    pub const WRITE_DURABLE: u32 = 6;
    pub const TRIM: u32 = 7;
    pub const FLUSH: u32 = 8;
    pub const RESERVE: u32 = 9;
    pub const COMMIT: u32 = 10;
    pub const ABORT: u32 = 11;
    pub const STATISTICS: u32 = 12;
    pub const DRAIN: u32 = 13;
}

/// Bits of the word of flags.
mod flag {
    /// It is refused where it would wait for other transactions.
    pub const REFUSE: u64 = 1;
    /// The transaction, which it may begin, must not be committed in parts.
    pub const WHOLE: u64 = 2;
    pub const ALL: u64 = REFUSE | WHOLE;
}

/// Bytes of the data area, within it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataRange {
    /// Offset of the first, a multiple of 8.
    pub place: usize,
    /// How many.
    pub size: usize,
}

impl DataRange {
    /// None at all.
    pub const NONE: Self = Self { place: 0, size: 0 };
}

/// What a client asks ([`port::Device`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// Byte port: into the range.
    Read(ByteAddr, DataRange),
    /// Byte port: from the range, under a transaction or none.
    Write(ByteAddr, DataRange, TxId),
    /// Byte port.
    Persist,
    /// Block port: into the range.
    ReadBlocks(ByteAddr, DataRange),
    /// Block port: from the range.
    WriteBlocks(ByteAddr, DataRange, Acknowledge),
    /// Block port.
    Trim(ByteAddr, Bytes),
    /// Everything.
    Flush,
    /// Room for so many bytes of a transaction.
    Reserve(TxId, Bytes),
    /// Closes a transaction.
    Commit(TxId),
    /// Closes a transaction.
    Abort(TxId),
    /// What the device has done, into the range.
    Statistics(DataRange),
    /// Everything that is logged goes to flash.
    Drain,
}

/// A request with the number that its answer will have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Submission {
    /// The client's; means nothing to the server.
    pub cookie: u64,
    /// What is asked.
    pub request: Request,
    /// What it does where it would have to wait for other transactions.
    pub conflict: Conflict,
    /// Whether its transaction, if it is the first that is heard of that, may be committed in
    /// parts.
    pub may_split: bool,
}

impl Request {
    /// The transaction that it is of.
    pub const fn transaction(&self) -> Option<TxId> {
        match self {
            Self::Write(_, _, tx) if tx.get() != TxId::NONE.get() => Some(*tx),
            Self::Reserve(tx, _) | Self::Commit(tx) | Self::Abort(tx) => Some(*tx),
            _ => None,
        }
    }

    /// The bytes of the data area that it needs.
    pub const fn range(&self) -> DataRange {
        match self {
            Self::Read(_, range)
            | Self::Write(_, range, _)
            | Self::ReadBlocks(_, range)
            | Self::WriteBlocks(_, range, _)
            | Self::Statistics(range) => *range,
            _ => DataRange::NONE,
        }
    }
}

impl Submission {
    /// The entry of the ring.
    pub fn encode(&self) -> Words {
        let zero = ByteAddr::new(0);
        let (code, at, tx) = match self.request {
            Request::Read(at, _) => (code::READ, at, TxId::NONE),
            Request::Write(at, _, tx) => (code::WRITE, at, tx),
            Request::Persist => (code::PERSIST, zero, TxId::NONE),
            Request::ReadBlocks(at, _) => (code::READ_BLOCKS, at, TxId::NONE),
            Request::WriteBlocks(at, _, Acknowledge::Accepted) => {
                (code::WRITE_BLOCKS, at, TxId::NONE)
            }
            Request::WriteBlocks(at, _, Acknowledge::Durable) => {
                (code::WRITE_DURABLE, at, TxId::NONE)
            }
            Request::Trim(at, _) => (code::TRIM, at, TxId::NONE),
            Request::Flush => (code::FLUSH, zero, TxId::NONE),
            Request::Reserve(tx, _) => (code::RESERVE, zero, tx),
            Request::Commit(tx) => (code::COMMIT, zero, tx),
            Request::Abort(tx) => (code::ABORT, zero, tx),
            Request::Statistics(_) => (code::STATISTICS, zero, TxId::NONE),
            Request::Drain => (code::DRAIN, zero, TxId::NONE),
        };
        let range = self.request.range();
        let size = match self.request {
            Request::Trim(_, size) | Request::Reserve(_, size) => size.get(),
            _ => range.size as u64,
        };
        let refuse = u64::from(self.conflict == Conflict::Refuse) * flag::REFUSE;
        let whole = u64::from(!self.may_split) * flag::WHOLE;
        [
            u64::from(code) << 32,
            self.cookie,
            at.get(),
            size,
            range.place as u64,
            u64::from(tx.get()),
            refuse | whole,
            0,
        ]
    }

    /// What an entry asks. Words that an operation has no use for are not looked at.
    ///
    /// # Errors
    /// No operation; bytes outside the data area; bits that mean nothing.
    pub fn decode(words: &Words, layout: &Layout) -> Result<Self, Breach> {
        let code = (words[0] >> 32) as u32;
        for (word, known) in [(6, flag::ALL), (7, 0)] {
            if words[word] & !known != 0 {
                return Err(Breach::Bits { word });
            }
        }
        let at = ByteAddr::new(words[2]);
        let range = || range(words[4], words[3], layout);
        let tx = || match u32::try_from(words[5]) {
            Ok(name) => Ok(TxId::new(name)),
            Err(_) => Err(Breach::Bits { word: 5 }),
        };
        let request = match code {
            code::READ => Request::Read(at, range()?),
            code::WRITE => Request::Write(at, range()?, tx()?),
            code::PERSIST => Request::Persist,
            code::READ_BLOCKS => Request::ReadBlocks(at, range()?),
            code::WRITE_BLOCKS => Request::WriteBlocks(at, range()?, Acknowledge::Accepted),
            code::WRITE_DURABLE => Request::WriteBlocks(at, range()?, Acknowledge::Durable),
            code::TRIM => Request::Trim(at, Bytes::new(words[3])),
            code::FLUSH => Request::Flush,
            code::RESERVE => Request::Reserve(tx()?, Bytes::new(words[3])),
            code::COMMIT => Request::Commit(tx()?),
            code::ABORT => Request::Abort(tx()?),
            code::STATISTICS => {
                let range = range()?;
                if range.size != STATISTICS_BYTES {
                    return Err(outside(words[4], words[3], layout));
                }
                Request::Statistics(range)
            }
            code::DRAIN => Request::Drain,
            _ => return Err(Breach::Operation { code }),
        };
        Ok(Self {
            cookie: words[1],
            request,
            conflict: match words[6] & flag::REFUSE {
                0 => Conflict::Wait,
                _ => Conflict::Refuse,
            },
            may_split: words[6] & flag::WHOLE == 0,
        })
    }
}

fn outside(place: u64, size: u64, layout: &Layout) -> Breach {
    let data = layout.data();
    Breach::DataRange { place, size, data }
}

fn range(place: u64, size: u64, layout: &Layout) -> Result<DataRange, Breach> {
    let most = MOST_REQUEST;
    if size > most.get() {
        return Err(Breach::Large { size, most });
    }
    let end = place.checked_add(size);
    let fits = end.is_some_and(|end| end <= layout.data().get());
    if !fits || !place.is_multiple_of(8) {
        return Err(outside(place, size, layout));
    }
    Ok(DataRange {
        place: place as usize,
        size: size as usize,
    })
}
