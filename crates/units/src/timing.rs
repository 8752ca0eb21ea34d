//! How long flash cells take: one source for the flash and for the firmware's estimate of it.

use crate::Picos;

/// What a die can be asked to do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FlashOp {
    /// Page read.
    Read,
    /// Page program.
    Program,
    /// Block erase.
    Erase,
}

impl FlashOp {
    /// All of them, in the order of their statistics.
    pub const ALL: [Self; 3] = [Self::Read, Self::Program, Self::Erase];

    /// Position in [`FlashOp::ALL`].
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Times at the cells, without transfers: what the flash takes for an operation unless it draws
/// measured times, and what the firmware expects of one. Both ask here, so they cannot disagree by
/// a slip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    array: [Picos; 3],
}

impl Timing {
    /// Every operation of a kind takes the same: tR, tProg, tBERS.
    pub const fn constant(read: Picos, program: Picos, erase: Picos) -> Self {
        Self {
            array: [read, program, erase],
        }
    }

    /// What an operation takes on the average: what SkyByte's Algorithm 1 multiplies.
    #[inline]
    pub const fn expected(&self, operation: FlashOp) -> Picos {
        self.array[operation.index()]
    }
}
