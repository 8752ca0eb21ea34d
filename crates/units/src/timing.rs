//! How long flash cells take: one source for the flash and for the firmware's estimate of it.

use crate::{Picos, Stream};

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

/// Which cells an operation is of, as far as its time may depend on them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cells {
    /// Number of the flash page in its block; of an erase 0.
    pub page: u32,
    /// Erases of the block so far, as far as the flash counts them.
    pub wear: u32,
}

/// Times at the cells, without transfers.
///
/// The flash takes the time of each operation from here ([`Timing::time`]), and the firmware what
/// it expects of one ([`Timing::expected`]), so the two cannot disagree by a slip. Today's times
/// are constants (SkyByte Tables II and IV); measured ones vary by page, wear and chance, and take
/// their place behind the same two questions.
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

    /// What this operation takes. `cells` is asked, and `stream` drawn from, only if the time
    /// depends on it.
    #[inline]
    pub fn time(
        &self,
        operation: FlashOp,
        cells: impl FnOnce() -> Cells,
        stream: &mut Stream,
    ) -> Picos {
        let _ = (cells, stream);
        self.array[operation.index()]
    }

    /// What an operation takes on the average: what SkyByte's Algorithm 1 multiplies.
    #[inline]
    pub const fn expected(&self, operation: FlashOp) -> Picos {
        self.array[operation.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_time_is_the_expected_one_on_all_cells_and_draws_nothing() {
        let timing = Timing::constant(
            Picos::from_micros(3),
            Picos::from_micros(100),
            Picos::from_micros(1000),
        );
        let mut stream = Stream::new(1, "timing");
        for (operation, micros) in FlashOp::ALL.into_iter().zip([3, 100, 1000]) {
            for (page, wear) in [(0, 0), (255, 3000)] {
                let time = timing.time(operation, || Cells { page, wear }, &mut stream);
                assert_eq!(time, Picos::from_micros(micros));
                assert_eq!(time, timing.expected(operation));
            }
        }
        assert_eq!(stream.bits(), Stream::new(1, "timing").bits());
    }
}
