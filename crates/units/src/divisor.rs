//! Numbers that other numbers are divided by again and again.

/// A divisor. Of a power of two, which sizes of flash mostly are, the quotient is a shift: a
/// division takes as long as a dozen other instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Divisor {
    number: u64,
    /// Its logarithm; `NONE` if it is no power of two.
    shift: u32,
}

const NONE: u32 = u32::MAX;

impl Divisor {
    /// A divisor.
    ///
    /// # Panics
    /// If it is zero.
    pub const fn new(number: u64) -> Self {
        assert!(number > 0, "nothing is divided by zero");
        let shift = match number.is_power_of_two() {
            true => number.trailing_zeros(),
            false => NONE,
        };
        Self { number, shift }
    }
    /// How often it is in a number.
    #[inline(always)]
    pub const fn quotient(self, of: u64) -> u64 {
        match self.shift {
            NONE => of / self.number,
            shift => of >> (shift % u64::BITS),
        }
    }
    /// What is left of a number then.
    #[inline(always)]
    pub const fn rest(self, of: u64) -> u64 {
        match self.shift {
            NONE => of % self.number,
            _ => of & (self.number - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_divides(
            number in prop_oneof![1u64..2000, (0u32..64).prop_map(|bit| 1 << bit), Just(u64::MAX)],
            of in prop_oneof![0u64..5000, any::<u64>()],
        ) {
            let divisor = Divisor::new(number);
            prop_assert_eq!(divisor.quotient(of), of / number);
            prop_assert_eq!(divisor.rest(of), of % number);
        }
    }
}
