//! Submission queue entries: fields that all commands have, and where their data are.

use super::status::Status;
use super::wire::{CommandId, ENTRY_BYTES, u16_at, u32_at, u64_at};

/// Most bytes that a command moves (MDTS, in pages of 4 KiB as a power of two).
pub const MOST_DATA: u32 = 4096 << MOST_DATA_SHIFT;
pub(super) const MOST_DATA_SHIFT: u8 = 8;
/// The only namespace.
pub(super) const NAMESPACE: u32 = 1;
/// All namespaces.
pub(super) const EVERY_NAMESPACE: u32 = u32::MAX;

/// The opcode of all commands of fabrics.
pub(super) const FABRICS: u8 = 0x7f;

/// Commands of fabrics, by their type.
pub(super) mod fabrics {
    pub const PROPERTY_SET: u8 = 0x00;
    pub const CONNECT: u8 = 0x01;
    pub const PROPERTY_GET: u8 = 0x04;
    pub const DISCONNECT: u8 = 0x08;
}

/// Commands of an admin queue.
pub(super) mod admin {
    pub const GET_LOG_PAGE: u8 = 0x02;
    pub const IDENTIFY: u8 = 0x06;
    pub const ABORT: u8 = 0x08;
    pub const SET_FEATURES: u8 = 0x09;
    pub const GET_FEATURES: u8 = 0x0a;
    pub const ASYNC_EVENT: u8 = 0x0c;
    pub const KEEP_ALIVE: u8 = 0x18;
}

/// A submission queue entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry(pub [u8; ENTRY_BYTES]);

/// Where the data of a command to the controller are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    Nowhere,
    Capsule(u32),
    /// The controller is to ask for so many bytes.
    Host(u32),
}

impl Entry {
    pub fn opcode(&self) -> u8 {
        self.0[0]
    }

    pub fn command(&self) -> CommandId {
        CommandId(u16_at(&self.0, 2))
    }

    /// Of a command of fabrics: which.
    pub fn fabrics_type(&self) -> u8 {
        self.0[4]
    }

    pub fn namespace(&self) -> u32 {
        u32_at(&self.0, 4)
    }

    /// Command dword 10 to 15.
    pub fn dword(&self, number: usize) -> u32 {
        u32_at(&self.0, number * 4)
    }

    pub fn u16(&self, at: usize) -> u16 {
        u16_at(&self.0, at)
    }

    pub fn u64(&self, at: usize) -> u64 {
        u64_at(&self.0, at)
    }

    /// Bytes that the data pointer says.
    pub fn length(&self) -> u32 {
        u32_at(&self.0, 32)
    }

    /// Whether data go to the controller: the low bits of the opcode say so.
    fn is_to_controller(&self) -> bool {
        let code = match self.opcode() {
            FABRICS => self.fabrics_type(),
            code => code,
        };
        code & 3 == 1
    }

    /// Where the data for the controller are.
    pub fn source(&self) -> Result<Source, Status> {
        const IN_CAPSULE: u8 = 0x01;
        const TRANSPORT: u8 = 0x5a;
        let (kind, length) = (self.0[39], self.length());
        if !self.is_to_controller() || length == 0 {
            return Ok(Source::Nowhere);
        }
        match kind {
            IN_CAPSULE if self.u64(24) != 0 => Err(Status::OFFSET),
            IN_CAPSULE => Ok(Source::Capsule(length)),
            TRANSPORT if length > MOST_DATA => Err(Status::FIELD),
            TRANSPORT => Ok(Source::Host(length)),
            _ => Err(Status::POINTER),
        }
    }
}
