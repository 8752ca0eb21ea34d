//! What no honest process writes.

use thiserror::Error;
use units::Bytes;

/// Something in shared memory or on the socket that the protocol does not have. The connection
/// ends with it.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Breach {
    /// A ring's next entry is of no turn that it can have.
    #[error("the ring's next entry says turn {found} where {due} or the turn before is due")]
    Turn {
        /// What it says.
        found: u32,
        /// What the next one would say.
        due: u32,
    },
    /// No operation has this number.
    #[error("there is no operation {code}")]
    Operation {
        /// The number.
        code: u32,
    },
    /// A transaction's name has 32 bits, and what is kept free is zero.
    #[error("word {word} of the request has bits that mean nothing")]
    Bits {
        /// Which word of the entry.
        word: usize,
    },
    /// A request's bytes are not within the data area.
    #[error(
        "the request's {size} B at {place} are not within the data area of {data}, at a multiple \
         of 8 B"
    )]
    DataRange {
        /// Offset in the data area.
        place: u64,
        /// How many.
        size: u64,
        /// Of how many.
        data: Bytes,
    },
    /// A request moves more than any may.
    #[error("the request moves {size} B; split it into requests of at most {most}")]
    Large {
        /// How many.
        size: u64,
        /// Of how many.
        most: Bytes,
    },
    /// The pieces of requests under way overlap.
    #[error("requests under way have more bytes than the data area's {data}: they overlap")]
    Overlap {
        /// Size of the area.
        data: Bytes,
    },
    /// An answer to nothing, or of no kind.
    #[error("the answer has the number {cookie}, which no request has")]
    Cookie {
        /// The number.
        cookie: u64,
    },
}
