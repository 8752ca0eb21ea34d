//! What goes into the flash and what comes out of it.

use crate::{Fault, Kind};
use units::{BlockAddr, FlashGeometry, Picos, Ppa, Time};

/// One operation on one page or block, with the caller's name for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command {
    /// Handed back unchanged in the [`Completion`]; need not be unique.
    pub tag: u32,
    /// What to do, and where.
    pub operation: Operation,
}

/// What a die can be asked to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Reads a flash page from the cells and transfers this unit of it to the controller.
    Read(Ppa),
    /// Transfers the flash page of this unit to the die and programs it.
    Program(Ppa),
    /// Erases a block.
    Erase(BlockAddr),
}

impl Operation {
    /// Read, program or erase.
    #[inline]
    pub const fn kind(self) -> Kind {
        match self {
            Self::Read(_) => Kind::Read,
            Self::Program(_) => Kind::Program,
            Self::Erase(_) => Kind::Erase,
        }
    }
    /// The block it works on.
    #[inline]
    pub const fn block(self, geometry: &FlashGeometry) -> BlockAddr {
        match self {
            Self::Read(page) | Self::Program(page) => geometry.block_of(page),
            Self::Erase(block) => block,
        }
    }
}

/// The end of a phase of the work of one unit. The caller keeps it until its time and brings it
/// to [`Nand::on_event`](crate::Nand::on_event), in order of (time, order of creation).
///
/// One number, so that it stays in a register: written as two and read back at once as one, it
/// would wait for both stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NandEvent(u64);

impl NandEvent {
    /// The end of a phase of a die or channel. An event of a phase that was suspended is out of
    /// date, which its number shows.
    #[inline]
    pub(crate) const fn new(unit: u32, phase_number: u32) -> Self {
        Self((phase_number as u64) << 32 | unit as u64)
    }
    /// The die or channel.
    #[inline]
    pub(crate) const fn unit(self) -> u32 {
        self.0 as u32
    }
    /// The number of the phase.
    #[inline]
    pub(crate) const fn phase_number(self) -> u32 {
        (self.0 >> 32) as u32
    }
    /// The event as a number, for a queue that keeps numbers.
    #[inline]
    pub const fn to_bits(self) -> u64 {
        self.0
    }
    /// The event that [`Self::to_bits`] made this number of.
    #[inline]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

/// A finished command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The caller's name for the command.
    pub tag: u32,
    /// What was done, and where.
    pub operation: Operation,
    /// When it was submitted.
    pub submitted: Time,
    /// When its die took it up: what lies before is queueing at the die.
    pub started: Time,
    /// When it ended; a read's page is then in the controller.
    pub finished: Time,
    /// How it failed, if it did. It took its time all the same.
    pub fault: Option<Fault>,
}

impl Completion {
    /// Time from submission to end.
    pub fn latency(&self) -> Picos {
        self.finished - self.submitted
    }
    /// Time from submission until the die took the command up.
    pub fn wait(&self) -> Picos {
        self.started - self.submitted
    }
}
