//! What is served under which name.

use port::{PersistenceDomain, Shape};
use thiserror::Error;
use units::Bytes;

/// The name of the subsystem that tells which others there are.
pub const DISCOVERY: &str = "nqn.2014-08.org.nvmexpress.discovery";
/// Longest name of a subsystem.
const MOST_NAME: usize = 223;

/// A device that cannot be served as it is.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SubsystemError {
    /// NVMe has no such block.
    #[error(
        "blocks of {block} cannot be served by NVMe, which has powers of two from 512 B on; make a \
         device with such pages"
    )]
    Block {
        /// The device's.
        block: Bytes,
    },
}

/// A device as hosts see it: a subsystem with one namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subsystem {
    name: String,
    id: [u8; 16],
    blocks: u64,
    shift: u8,
    is_volatile: bool,
    capacity: Bytes,
    has_transactions: bool,
}

impl Subsystem {
    /// A device of this shape. `name` becomes a part of the subsystem's own; `id` is the device's
    /// alone in the world.
    ///
    /// # Errors
    /// A size of block that the protocol does not have.
    pub fn new(name: &str, id: [u8; 16], shape: Shape) -> Result<Self, SubsystemError> {
        let block = shape.block;
        if !block.get().is_power_of_two() || block < Bytes::new(512) {
            return Err(SubsystemError::Block { block });
        }
        let start = "nqn.2026-11.local.entresol:";
        let plain = |letter: char| match letter {
            letter if letter.is_ascii_alphanumeric() || "-._".contains(letter) => letter,
            _ => '-',
        };
        let room = MOST_NAME - start.len();
        let own: String = name.chars().map(plain).take(room).collect();
        let own = if own.is_empty() { "device" } else { &own };
        Ok(Self {
            name: format!("{start}{own}"),
            id,
            blocks: shape.capacity.get() / block.get(),
            shift: block.get().trailing_zeros() as u8,
            is_volatile: shape.block_domain == PersistenceDomain::Flash,
            capacity: shape.capacity,
            has_transactions: shape.transactions.is_some(),
        })
    }

    /// Its name (NQN), by which hosts ask for it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes that can be asked for: whole blocks.
    pub fn size(&self) -> Bytes {
        Bytes::new(self.blocks << self.shift)
    }

    /// The device's own identifier.
    pub(super) fn id(&self) -> [u8; 16] {
        self.id
    }

    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The size of a block as a power of two.
    pub(super) fn shift(&self) -> u8 {
        self.shift
    }

    /// Whether what was written and not flushed may go with the power.
    pub(super) fn is_volatile(&self) -> bool {
        self.is_volatile
    }

    /// Bytes of the byte port, which may have an end that is no whole block.
    pub(super) fn capacity(&self) -> Bytes {
        self.capacity
    }

    pub(super) fn has_transactions(&self) -> bool {
        self.has_transactions
    }
}
