//! Numbers of the protocol, as the NBD project's `doc/proto.md` gives them. All are big-endian.

/// Largest payload of one request, read or written: what a client may count on by the protocol, and
/// what it is told.
pub const MOST_PAYLOAD: u32 = 32 << 20;
/// Longest option of a handshake. A name may have 4,096 bytes; nothing that is served is longer.
pub(super) const MOST_OPTION: u32 = 8 << 10;

/// "NBDMAGIC" and "IHAVEOPT", with which a server greets.
pub(super) const GREETING: [u8; 16] = *b"NBDMAGICIHAVEOPT";
/// "IHAVEOPT", with which each option starts.
pub(super) const OPTION_MAGIC: u64 = u64::from_be_bytes(*b"IHAVEOPT");
pub(super) const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
pub(super) const REQUEST_MAGIC: u32 = 0x2560_9513;
pub(super) const SIMPLE_MAGIC: u32 = 0x6744_6698;
pub(super) const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Bytes of the head of a request.
pub(super) const REQUEST_BYTES: usize = 28;
/// Bytes of the head of an option.
pub(super) const OPTION_BYTES: usize = 16;

/// Flags of server and client in the handshake: fixed newstyle; no zeroes after an export's flags.
pub(super) const FIXED_NEWSTYLE: u16 = 1;
pub(super) const NO_ZEROES: u16 = 2;
/// Zeroes that end the answer to an export's name, unless both sides leave them out.
pub(super) const PADDING: usize = 124;

/// Options.
pub(super) mod option {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
}

/// Answers to options.
pub(super) mod answer {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const UNSUPPORTED: u32 = (1 << 31) + 1;
    pub const INVALID: u32 = (1 << 31) + 3;
    pub const UNKNOWN: u32 = (1 << 31) + 6;
    pub const BLOCK_SIZE_REQUIRED: u32 = (1 << 31) + 8;
    pub const TOO_BIG: u32 = (1 << 31) + 9;
}

/// What is told of an export.
pub(super) mod info {
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const DESCRIPTION: u16 = 2;
    pub const BLOCK_SIZE: u16 = 3;
}

/// What an export can do.
pub(super) mod can {
    /// Flags are set at all.
    pub const FLAGS: u16 = 1 << 0;
    pub const FLUSH: u16 = 1 << 2;
    pub const FUA: u16 = 1 << 3;
    pub const TRIM: u16 = 1 << 5;
    pub const WRITE_ZEROES: u16 = 1 << 6;
    /// A read in one piece.
    pub const DF: u16 = 1 << 7;
    /// A flush on one connection covers the writes answered on all.
    pub const MULTI_CONN: u16 = 1 << 8;
    pub const FAST_ZERO: u16 = 1 << 11;
}

/// Commands.
pub(super) mod command {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISCONNECT: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const WRITE_ZEROES: u16 = 6;
}

/// Flags of commands.
pub(super) mod flag {
    pub const FUA: u16 = 1 << 0;
    pub const NO_HOLE: u16 = 1 << 1;
    pub const DF: u16 = 1 << 2;
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// Chunks of structured replies.
pub(super) mod chunk {
    /// The last of a reply.
    pub const DONE: u16 = 1;
    pub const NONE: u16 = 0;
    pub const OFFSET_DATA: u16 = 1;
    pub const ERROR: u16 = (1 << 15) + 1;
}

/// Why a command was not done. The numbers are the protocol's, whatever the system's are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Errno {
    /// Not permitted now.
    NotPermitted = 1,
    /// The bytes are lost.
    Io = 5,
    /// The request is wrong.
    Invalid = 22,
    /// A write beyond the end.
    NoSpace = 28,
    /// Zeroes that cannot be written quickly.
    NotSupported = 95,
    /// The server is about to stop.
    Shutdown = 108,
}

/// Reads big-endian numbers from the front of bytes, as far as there are any.
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*front)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }
}
