//! Commands of an I/O queue, and what is refused before the device sees it.

use super::entry::{EVERY_NAMESPACE, Entry, MOST_DATA, NAMESPACE};
use super::status::Status;
use super::subsystem::Subsystem;
use super::wire::{u32_at, u64_at};
use crate::order::Ranges;
use port::Acknowledge;
use units::{ByteAddr, Bytes, TxId};

/// Opcodes. The two lowest bits say which way data go.
pub(super) mod opcode {
    pub const FLUSH: u8 = 0x00;
    pub const WRITE: u8 = 0x01;
    pub const READ: u8 = 0x02;
    pub const COMPARE: u8 = 0x05;
    pub const WRITE_ZEROES: u8 = 0x08;
    pub const DATASET: u8 = 0x09;
    /// Ours, for the byte port and transactions.
    pub const STORE: u8 = 0xc1;
    pub const LOAD: u8 = 0xc2;
    pub const PERSIST: u8 = 0xc4;
    pub const BEGIN: u8 = 0xc8;
    pub const COMMIT: u8 = 0xcc;
    pub const ABORT: u8 = 0xd0;
    pub const RECOVER: u8 = 0xd4;

    /// Those that change no block.
    pub const READING: [u8; 4] = [READ, COMPARE, LOAD, BEGIN];
    /// Those that may change blocks, or make changes count.
    pub const CHANGING: [u8; 9] = [
        FLUSH,
        WRITE,
        WRITE_ZEROES,
        DATASET,
        STORE,
        PERSIST,
        COMMIT,
        ABORT,
        RECOVER,
    ];
}

const DEALLOCATE: u32 = 1 << 25;
const FORCE_UNIT_ACCESS: u32 = 1 << 30;
/// Bytes of a range of dataset management.
const RANGE_BYTES: usize = 16;
/// Ranges of a command.
const MOST_RANGES: u32 = 256;
/// Attribute of dataset management: deallocate.
const DATASET_DEALLOCATE: u32 = 1 << 2;

/// What a host asks for: ranges within the namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Whole blocks, please.
    Read {
        /// First byte.
        at: ByteAddr,
        /// How many.
        size: Bytes,
    },
    /// Takes whole blocks.
    Write {
        /// First byte.
        at: ByteAddr,
        /// How many.
        size: Bytes,
        /// When to answer.
        when: Acknowledge,
    },
    /// Whether whole blocks are what the host thinks.
    Compare {
        /// First byte.
        at: ByteAddr,
        /// How many.
        size: Bytes,
    },
    /// What was answered is to survive.
    Flush,
    /// Zeroes, or a hole that reads as zeroes.
    Zero {
        /// First byte.
        at: ByteAddr,
        /// How many, without data: up to 65,536 blocks.
        size: Bytes,
        /// When to answer.
        when: Acknowledge,
        /// A hole will do.
        may_deallocate: bool,
    },
    /// Forgets ranges; which, its data say.
    Trim {
        /// How many there are.
        ranges: u32,
    },
    /// Bytes, please.
    Load {
        /// First byte.
        at: ByteAddr,
        /// How many.
        size: Bytes,
    },
    /// Takes bytes.
    Store {
        /// First byte.
        at: ByteAddr,
        /// How many.
        size: Bytes,
        /// Under which transaction.
        tx: TxId,
    },
    /// Stores that were answered are to survive.
    Persist,
    /// A new transaction.
    Begin {
        /// Lines to reserve; 0: none.
        lines: u32,
        /// It may be committed in parts.
        may_split: bool,
    },
    /// All of it, for ever.
    Commit(TxId),
    /// Nothing of it.
    Abort(TxId),
    /// All that is logged goes to flash.
    Recover,
}

impl Operation {
    /// What an entry asks for.
    pub(super) fn read(entry: &Entry, subsystem: &Subsystem) -> Result<Self, Status> {
        let opcode = entry.opcode();
        let known = opcode::READING.iter().chain(&opcode::CHANGING);
        if !known.into_iter().any(|known| *known == opcode) {
            return Err(Status::OPCODE);
        }
        match entry.namespace() {
            NAMESPACE => {}
            EVERY_NAMESPACE if opcode == opcode::FLUSH => {}
            _ => return Err(Status::NAMESPACE),
        }
        let operation = match opcode {
            opcode::FLUSH => Self::Flush,
            opcode::DATASET => {
                let ranges = (entry.dword(10) & 0xff) + 1;
                // Linux sends room for all ranges that there may be.
                let fit = ranges * RANGE_BYTES as u32..=MOST_RANGES * RANGE_BYTES as u32;
                return match fit.contains(&entry.length()) {
                    true => Ok(Self::Trim { ranges }),
                    false => Err(Status::LENGTH),
                };
            }
            opcode::READ | opcode::WRITE | opcode::COMPARE | opcode::WRITE_ZEROES => {
                return Self::of_blocks(entry, subsystem);
            }
            opcode::LOAD | opcode::STORE => return Self::of_bytes(entry, subsystem),
            opcode::PERSIST => Self::Persist,
            opcode::BEGIN => Self::Begin {
                lines: entry.dword(12),
                may_split: entry.dword(13) & 1 == 0,
            },
            opcode::COMMIT => Self::Commit(TxId::new(entry.dword(13))),
            opcode::ABORT => Self::Abort(TxId::new(entry.dword(13))),
            _ => Self::Recover,
        };
        let needs = matches!(
            operation,
            Self::Begin { .. } | Self::Commit(_) | Self::Abort(_)
        );
        match needs && !subsystem.has_transactions() {
            true => Err(Status::NO_TRANSACTIONS),
            false => Ok(operation),
        }
    }

    fn of_blocks(entry: &Entry, subsystem: &Subsystem) -> Result<Self, Status> {
        let (first, count) = (entry.u64(40), u64::from(entry.dword(12) & 0xffff) + 1);
        let (at, size) = blocks(first, count, subsystem)?;
        let flags = entry.dword(12);
        let when = match flags & FORCE_UNIT_ACCESS {
            0 => Acknowledge::Accepted,
            _ => Acknowledge::Durable,
        };
        if entry.opcode() == opcode::WRITE_ZEROES {
            return Ok(Self::Zero {
                at,
                size,
                when,
                may_deallocate: flags & DEALLOCATE != 0,
            });
        }
        if size > Bytes::new(u64::from(MOST_DATA)) {
            return Err(Status::FIELD);
        }
        if size != Bytes::new(u64::from(entry.length())) {
            return Err(Status::LENGTH);
        }
        Ok(match entry.opcode() {
            opcode::READ => Self::Read { at, size },
            opcode::WRITE => Self::Write { at, size, when },
            _ => Self::Compare { at, size },
        })
    }

    /// A range of the byte port: its length is told twice, as that of blocks is.
    fn of_bytes(entry: &Entry, subsystem: &Subsystem) -> Result<Self, Status> {
        let (at, size) = (ByteAddr::new(entry.u64(40)), entry.dword(12));
        if size == 0 || size > MOST_DATA {
            return Err(Status::FIELD);
        }
        if size != entry.length() {
            return Err(Status::LENGTH);
        }
        let size = Bytes::new(u64::from(size));
        let end = at.checked_add(size).map(ByteAddr::get);
        if end.is_none_or(|end| end > subsystem.capacity().get()) {
            return Err(Status::RANGE);
        }
        let tx = TxId::new(entry.dword(13));
        Ok(match entry.opcode() {
            opcode::LOAD => Self::Load { at, size },
            _ => Self::Store { at, size, tx },
        })
    }

    /// Bytes that it holds while it is with the device.
    pub(super) fn weight(&self) -> usize {
        match self {
            // What there is beside what the host thinks.
            Self::Compare { size, .. } => 2 * size.get() as usize,
            Self::Read { size, .. }
            | Self::Write { size, .. }
            | Self::Load { size, .. }
            | Self::Store { size, .. } => size.get() as usize,
            Self::Trim { ranges } => *ranges as usize * RANGE_BYTES,
            _ => 0,
        }
    }

    /// Which transaction it is about, if any.
    pub(super) fn transaction(&self) -> Option<TxId> {
        match self {
            Self::Store { tx, .. } | Self::Commit(tx) | Self::Abort(tx) => Some(*tx),
            _ => None,
        }
        .filter(|tx| *tx != TxId::NONE || !matches!(self, Self::Store { .. }))
    }
}

/// The bytes of blocks that there are.
fn blocks(first: u64, count: u64, subsystem: &Subsystem) -> Result<(ByteAddr, Bytes), Status> {
    let end = first.checked_add(count);
    if end.is_none_or(|end| end > subsystem.blocks()) {
        return Err(Status::RANGE);
    }
    let shift = subsystem.shift();
    Ok((ByteAddr::new(first << shift), Bytes::new(count << shift)))
}

/// The ranges that a host gives up, each block once, in the order of their addresses.
pub(super) fn ranges(entry: &Entry, data: &[u8], subsystem: &Subsystem) -> Result<Ranges, Status> {
    if entry.dword(11) & DATASET_DEALLOCATE == 0 {
        // Hints about use, of which the device makes nothing.
        return Ok(Ranges::default());
    }
    let range = |bytes: &[u8]| blocks(u64_at(bytes, 8), u64::from(u32_at(bytes, 4)), subsystem);
    let count = (entry.dword(10) & 0xff) as usize + 1;
    let ranges = data.chunks_exact(RANGE_BYTES).take(count);
    let mut ranges = ranges.map(range).collect::<Result<Vec<_>, _>>()?;
    ranges.sort_unstable();
    let mut merged: Vec<(ByteAddr, Bytes)> = Vec::with_capacity(ranges.len());
    for (at, size) in ranges.into_iter().filter(|(_, size)| *size > Bytes::ZERO) {
        let end = at.get() + size.get();
        match merged.last_mut() {
            Some((first, size)) if first.get() + size.get() >= at.get() => {
                *size = Bytes::new(size.get().max(end - first.get()));
            }
            _ => merged.push((at, size)),
        }
    }
    Ok(merged.into())
}
