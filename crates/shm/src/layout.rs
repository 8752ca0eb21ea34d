//! Where what is in a region.

use crate::region::Region;
use port::{PersistenceDomain, PortCosts, Shape, TxLimits};
use std::sync::atomic::Ordering;
use thiserror::Error;
use units::{Bytes, BytesPerSec, Picos};

/// Entries of a ring: as many requests of a client are under way at most.
pub const ENTRIES: usize = 256;
/// Words of an entry: a line of the host's caches.
pub const ENTRY_WORDS: usize = 8;
/// Most bytes that a request moves.
pub const MOST_REQUEST: Bytes = Bytes::from_kib(256);
/// Largest data area.
pub const MOST_DATA: Bytes = Bytes::from_mib(16);
/// The data area is a multiple of it.
const GRAIN: u64 = 64 << 10;

/// Version of the region and of the handshake.
pub const VERSION: u32 = 2;
const MAGIC: u64 = u64::from_le_bytes(*b"ENTRshmr");

const ENTRY: usize = ENTRY_WORDS * 8;
const HEADER: usize = 4096;
const SUBMISSIONS: usize = HEADER;
const ANSWERS: usize = SUBMISSIONS + ENTRIES * ENTRY;
const DATA: usize = ANSWERS + ENTRIES * ENTRY;

/// Words of the header, in bytes from its beginning.
mod at {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 8;
    pub const CAPACITY: usize = 16;
    pub const BLOCK: usize = 24;
    pub const FLAGS: usize = 32;
    pub const ENTRIES: usize = 40;
    pub const DATA: usize = 48;
    pub const MOST_REQUEST: usize = 56;
    pub const LINE: usize = 384;
    pub const OPEN: usize = 392;
    pub const LINES: usize = 400;
    pub const LINE_READ: usize = 408;
    pub const LINE_WRITE: usize = 416;
    pub const LINE_READS: usize = 424;
    pub const LINE_WRITES: usize = 432;
    pub const BLOCK_COMMAND: usize = 440;
    pub const READ_BANDWIDTH: usize = 448;
    pub const WRITE_BANDWIDTH: usize = 456;
    pub const PMEM: usize = 464;
    /// On lines of their own, for each is written by one side and read often by the other.
    pub const SERVER_SLEEPS: usize = 128;
    pub const CLIENT_SLEEPS: usize = 256;
    pub const STOPPED: usize = 1024;
    pub const ENDED: usize = 2048;
}

/// Bits of the word of flags.
mod flag {
    pub const TRANSACTIONS: u64 = 1;
    /// What the byte port has pushed into the device survives.
    pub const BYTES_SURVIVE: u64 = 2;
    /// What the block port has answered for survives.
    pub const BLOCKS_SURVIVE: u64 = 4;
    pub const ALL: u64 = TRANSACTIONS | BYTES_SURVIVE | BLOCKS_SURVIVE;
}
/// Bytes of a text in the header, its length before it.
const MOST_NOTE: usize = 1024 - 8;

/// A region that is not as this program lays them out.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum LayoutError {
    /// Not a region at all.
    #[error("the memory that the server has sent is no region of Entresol; check the path")]
    Foreign,
    /// Of another release.
    #[error(
        "the region has version {found} and this program knows {VERSION}; use the same release \
         of server and client"
    )]
    Version {
        /// Its version.
        found: u64,
    },
    /// It contradicts itself.
    #[error("the region's {what} is {found}, which cannot be; use the same release of both")]
    Value {
        /// Of what.
        what: &'static str,
        /// The value.
        found: u64,
    },
    /// A client wants too much, or too little.
    #[error("a data area of {wanted} is not between {MOST_REQUEST} and {MOST_DATA}")]
    Data {
        /// What it wants.
        wanted: Bytes,
    },
}

/// A text that the server leaves for the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Note {
    /// Why the device has stopped.
    Stopped,
    /// Why the server has ended the connection.
    Ended,
}

impl Note {
    const fn place(self) -> usize {
        match self {
            Self::Stopped => at::STOPPED,
            Self::Ended => at::ENDED,
        }
    }

    /// Leaves a text; what is too long of it is cut off.
    pub fn leave(self, region: &Region, text: &str) {
        let mut size = text.len().min(MOST_NOTE);
        while !text.is_char_boundary(size) {
            size -= 1;
        }
        region.write(self.place() + 8, &text.as_bytes()[..size]);
        let length = region.word(self.place());
        length.store(size as u64, Ordering::Release);
    }

    /// The text that was left, if any.
    pub fn find(self, region: &Region) -> Option<String> {
        let length = region.word(self.place()).load(Ordering::Acquire);
        let size = usize::try_from(length).map_or(MOST_NOTE, |size| size.min(MOST_NOTE));
        let mut text = vec![0; size];
        region.read(self.place() + 8, &mut text);
        (size > 0).then(|| String::from_utf8_lossy(&text).into_owned())
    }
}

/// Who may sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Who has the device.
    Server,
    /// Who asks.
    Client,
}

impl Side {
    /// Offset of the word that says that it sleeps.
    pub(crate) const fn sleeps(self) -> usize {
        match self {
            Self::Server => at::SERVER_SLEEPS,
            Self::Client => at::CLIENT_SLEEPS,
        }
    }
}

/// A region: header, submission ring, answer ring, data area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    shape: Shape,
    data: Bytes,
}

impl Layout {
    /// Of a device, with a data area of the wanted size, rounded up.
    ///
    /// # Errors
    /// A data area that is too small or too large.
    pub fn new(shape: Shape, wanted: Bytes) -> Result<Self, LayoutError> {
        if wanted < MOST_REQUEST || wanted > MOST_DATA {
            return Err(LayoutError::Data { wanted });
        }
        let data = Bytes::new(wanted.get().next_multiple_of(GRAIN));
        Ok(Self { shape, data })
    }

    /// What the device is.
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// Size of the data area.
    pub const fn data(&self) -> Bytes {
        self.data
    }

    /// All of the region.
    pub const fn bytes(&self) -> usize {
        DATA + self.data.get() as usize
    }

    /// Most bytes of a request of the block port: whole blocks.
    pub fn most_blocks(&self) -> Bytes {
        let block = self.shape.block.get();
        Bytes::new(MOST_REQUEST.get() / block * block)
    }

    /// Where the submission ring begins.
    pub(crate) const fn submissions() -> usize {
        SUBMISSIONS
    }

    /// Where the answer ring begins.
    pub(crate) const fn answers() -> usize {
        ANSWERS
    }

    /// Where a byte of the data area is in the region.
    pub const fn place(offset: usize) -> usize {
        DATA + offset
    }

    /// Writes the header; the magic number last.
    pub fn write(&self, region: &Region) {
        let Shape {
            capacity,
            block,
            line,
            byte_domain,
            block_domain,
            transactions,
            costs,
            // No request reaches it.
            pmem: _,
        } = self.shape;
        let survives = |domain| u64::from(domain == PersistenceDomain::Device);
        let flags = flag::TRANSACTIONS * u64::from(transactions.is_some())
            + flag::BYTES_SURVIVE * survives(byte_domain)
            + flag::BLOCKS_SURVIVE * survives(block_domain);
        let TxLimits { open, lines } = transactions.unwrap_or(TxLimits { open: 0, lines: 0 });
        for (at, value) in [
            (at::VERSION, u64::from(VERSION)),
            (at::CAPACITY, capacity.get()),
            (at::BLOCK, block.get()),
            (at::FLAGS, flags),
            (at::LINE, line.get()),
            (at::OPEN, u64::from(open)),
            (at::LINES, u64::from(lines)),
            (at::LINE_READ, costs.line_read.get()),
            (at::LINE_WRITE, costs.line_write.get()),
            (at::LINE_READS, u64::from(costs.line_reads)),
            (at::LINE_WRITES, u64::from(costs.line_writes)),
            (at::BLOCK_COMMAND, costs.block_command.get()),
            (at::READ_BANDWIDTH, costs.read_bandwidth.get()),
            (at::WRITE_BANDWIDTH, costs.write_bandwidth.get()),
            (at::PMEM, 0),
            (at::ENTRIES, ENTRIES as u64),
            (at::DATA, self.data.get()),
            (at::MOST_REQUEST, MOST_REQUEST.get()),
            (at::MAGIC, MAGIC),
        ] {
            region.word(at).store(value, Ordering::Release);
        }
    }

    /// Reads the header of a region, which is at least as long as one.
    ///
    /// # Errors
    /// It is none, of another version, or contradicts itself.
    pub fn read(region: &Region) -> Result<Self, LayoutError> {
        if region.len() < Self::least_bytes() {
            return Err(LayoutError::Foreign);
        }
        let word = |at: usize| region.word(at).load(Ordering::Acquire);
        if word(at::MAGIC) != MAGIC {
            return Err(LayoutError::Foreign);
        }
        let found = word(at::VERSION);
        if found != u64::from(VERSION) {
            return Err(LayoutError::Version { found });
        }
        let (capacity, block) = (word(at::CAPACITY), word(at::BLOCK));
        let (data, flags) = (word(at::DATA), word(at::FLAGS));
        let is_data = data.is_multiple_of(GRAIN) && data <= MOST_DATA.get();
        let fits = is_data && DATA as u64 + data == region.len() as u64;
        for (what, found, is_right) in [
            ("block", block, block > 0 && block <= MOST_REQUEST.get()),
            ("data area", data, fits),
            ("line", word(at::LINE), word(at::LINE) > 0),
            ("word of flags", flags, flags <= flag::ALL),
            (
                "number of entries",
                word(at::ENTRIES),
                word(at::ENTRIES) == ENTRIES as u64,
            ),
            (
                "largest request",
                word(at::MOST_REQUEST),
                word(at::MOST_REQUEST) == MOST_REQUEST.get(),
            ),
        ] {
            if !is_right {
                return Err(LayoutError::Value { what, found });
            }
        }
        let small = |what, at| {
            let found = word(at);
            u32::try_from(found).map_err(|_| LayoutError::Value { what, found })
        };
        let limits = TxLimits {
            open: small("number of open transactions", at::OPEN)?,
            lines: small("number of open lines", at::LINES)?,
        };
        let domain = |bit| match flags & bit {
            0 => PersistenceDomain::Flash,
            _ => PersistenceDomain::Device,
        };
        let shape = Shape {
            capacity: Bytes::new(capacity),
            block: Bytes::new(block),
            line: Bytes::new(word(at::LINE)),
            byte_domain: domain(flag::BYTES_SURVIVE),
            block_domain: domain(flag::BLOCKS_SURVIVE),
            transactions: (flags & flag::TRANSACTIONS != 0).then_some(limits),
            costs: PortCosts {
                line_read: Picos::new(word(at::LINE_READ)),
                line_write: Picos::new(word(at::LINE_WRITE)),
                line_reads: small("number of loads at a time", at::LINE_READS)?,
                line_writes: small("number of stores at a time", at::LINE_WRITES)?,
                block_command: Picos::new(word(at::BLOCK_COMMAND)),
                read_bandwidth: BytesPerSec::new(word(at::READ_BANDWIDTH)),
                write_bandwidth: BytesPerSec::new(word(at::WRITE_BANDWIDTH)),
            },
            pmem: Bytes::new(word(at::PMEM)),
        };
        let data = Bytes::new(data);
        Ok(Self { shape, data })
    }

    /// Bytes of the smallest region.
    pub(crate) const fn least_bytes() -> usize {
        DATA + MOST_REQUEST.get() as usize
    }
}
