//! How a command ends: the status of its completion.

use super::wire::{COMPLETION_BYTES, CommandId};
use port::DeviceError;

/// The status field of a completion without its phase bit: SC, SCT, DNR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status(pub u16);

/// Do not retry: the same command would fail again.
const DO_NOT_RETRY: u16 = 1 << 14;

const fn generic(code: u16) -> Status {
    Status(code | DO_NOT_RETRY)
}

const fn specific(code: u16) -> Status {
    Status(0x100 | code | DO_NOT_RETRY)
}

const fn medium(code: u16) -> Status {
    Status(0x200 | code | DO_NOT_RETRY)
}

const fn vendor(code: u16) -> Status {
    Status(0x700 | code | DO_NOT_RETRY)
}

impl Status {
    /// It was done.
    pub const SUCCESS: Self = Self(0);
    /// No such command.
    pub const OPCODE: Self = generic(0x01);
    /// A field has a value that it cannot have.
    pub const FIELD: Self = generic(0x02);
    /// Another command under way has its identifier. With another one it may go well.
    pub const NAME_IN_USE: Self = Self(0x03);
    /// The device has stopped.
    pub const INTERNAL: Self = generic(0x06);
    /// The server stops, or the controller is reset. Another one may do it.
    pub const STOPPING: Self = Self(0x08);
    /// No such namespace.
    pub const NAMESPACE: Self = generic(0x0b);
    /// Not now: no controller, or one that is not enabled.
    pub const SEQUENCE: Self = generic(0x0c);
    /// Data of another length than the command has.
    pub const LENGTH: Self = generic(0x0f);
    /// A data pointer that there is not in a capsule or transfer.
    pub const POINTER: Self = generic(0x11);
    /// Data in a capsule begin where its data begin.
    pub const OFFSET: Self = generic(0x16);
    /// A host that is not the one that the controller belongs to.
    pub const HOST: Self = generic(0x18);
    /// The flash is worn out.
    pub const PROTECTED: Self = generic(0x20);
    /// A digest of data was wrong; the same may go well.
    pub const TRANSIENT: Self = Self(0x22);
    /// Beyond the end.
    pub const RANGE: Self = generic(0x80);
    /// More asynchronous event requests than are kept.
    pub const EVENT_LIMIT: Self = specific(0x05);
    /// No such log page.
    pub const LOG_PAGE: Self = specific(0x09);
    /// A feature is not kept over a reset.
    pub const NOT_SAVEABLE: Self = specific(0x0d);
    /// A connect of a format that there is not.
    pub const CONNECT_FORMAT: Self = specific(0x80);
    /// As many controllers or queues as there may be.
    pub const BUSY: Self = Self(0x181);
    /// A connect with a wrong field.
    pub const CONNECT_FIELD: Self = specific(0x82);
    /// A host that may not join a controller.
    pub const CONNECT_HOST: Self = specific(0x84);
    /// A write that the flash did not take.
    pub const WRITE_FAULT: Self = medium(0x80);
    /// Bytes that are lost.
    pub const UNREADABLE: Self = medium(0x81);
    /// A compare has found other bytes.
    pub const DIFFERENT: Self = medium(0x85);
    /// Vendor: another transaction has written there. It may go well once that has ended.
    pub const LOCKED: Self = Self(0x7c0);
    /// Vendor: transactions would wait for each other for ever.
    pub const DEADLOCK: Self = vendor(0xc1);
    /// Vendor: no such transaction is open.
    pub const TRANSACTION: Self = vendor(0xc2);
    /// Vendor: as many transactions are open as may be.
    pub const TRANSACTIONS: Self = vendor(0xc3);
    /// Vendor: the device has no transactions.
    pub const NO_TRANSACTIONS: Self = vendor(0xc4);
    /// Vendor: more than the log has room for, or than was reserved.
    pub const ROOM: Self = vendor(0xc5);
    /// Vendor: more than the log has room for beside other transactions. It may go well once one
    /// has ended.
    pub const ROOM_NOW: Self = Self(0x7c5);

    /// Why the device has not done it; `is_write` tells what was lost.
    pub(super) fn of(error: &DeviceError, is_write: bool) -> Self {
        match error {
            DeviceError::OutOfRange { .. } => Self::RANGE,
            DeviceError::NotBlocks { .. } => Self::FIELD,
            DeviceError::Locked { .. } => Self::LOCKED,
            DeviceError::Deadlock { .. } => Self::DEADLOCK,
            DeviceError::UnknownTransaction { .. } => Self::TRANSACTION,
            DeviceError::TooManyTransactions { .. } => Self::TRANSACTIONS,
            DeviceError::NoTransactions { .. } => Self::NO_TRANSACTIONS,
            DeviceError::TooLarge { .. }
            | DeviceError::BeyondReservation { .. }
            | DeviceError::LateReservation { .. } => Self::ROOM,
            DeviceError::LogFull => Self::ROOM_NOW,
            DeviceError::ReadOnly => Self::PROTECTED,
            DeviceError::Lost { .. } if is_write => Self::WRITE_FAULT,
            DeviceError::Lost { .. } => Self::UNREADABLE,
            DeviceError::Forked | DeviceError::Stopped { .. } => Self::INTERNAL,
        }
    }
}

/// What a completion says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Of which command.
    pub command: CommandId,
    /// How it ended.
    pub status: Status,
    /// What the command gives, if it gives a number.
    pub value: u64,
    /// Where the submission queue's head is; 0xffff: nobody counts.
    pub head: u16,
    /// Which submission queue.
    pub queue: u16,
}

impl Completion {
    /// As a completion queue entry.
    pub fn to_bytes(self) -> [u8; COMPLETION_BYTES] {
        let mut out = [0; COMPLETION_BYTES];
        out[..8].copy_from_slice(&self.value.to_le_bytes());
        out[8..10].copy_from_slice(&self.head.to_le_bytes());
        out[10..12].copy_from_slice(&self.queue.to_le_bytes());
        out[12..14].copy_from_slice(&self.command.0.to_le_bytes());
        out[14..].copy_from_slice(&(self.status.0 << 1).to_le_bytes());
        out
    }

    /// Out of a completion queue entry.
    pub fn from_bytes(bytes: &[u8; COMPLETION_BYTES]) -> Self {
        use super::wire::{u16_at, u64_at};
        Self {
            command: CommandId(u16_at(bytes, 12)),
            status: Status(u16_at(bytes, 14) >> 1),
            value: u64_at(bytes, 0),
            head: u16_at(bytes, 8),
            queue: u16_at(bytes, 10),
        }
    }
}
