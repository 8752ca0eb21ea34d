//! What a line holds in the lab: a number instead of 64 bytes, so that a device fits into a few
//! kilobytes and is copied at every action.

/// The content of a line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(transparent)]
pub struct Token(u32);

impl Token {
    /// A line that was never written, or was trimmed.
    pub const ZERO: Self = Self(0);
    /// What a page has that flash cannot correct.
    pub const POISON: Self = Self(u32::MAX - 1);
    /// What an interrupted copy, program or erase leaves.
    pub const GARBAGE: Self = Self(u32::MAX);

    /// The content with this number.
    #[inline]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }
    /// Its number.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl core::fmt::Display for Token {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::ZERO => f.write_str("zeroes"),
            Self::POISON => f.write_str("poison"),
            Self::GARBAGE => f.write_str("garbage"),
            Self(number) => write!(f, "#{number}"),
        }
    }
}

/// 64 bits that stand for a state. Two states of a million have the same by chance with a
/// probability of 3e-8.
#[derive(Clone, Copy, Debug)]
pub struct Digest(u64);

impl Digest {
    /// Of nothing.
    pub const fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    /// Adds a word.
    #[inline]
    pub fn add(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        self.0 = mixed ^ (mixed >> 32);
    }

    /// Adds tokens.
    #[inline]
    pub fn add_tokens(&mut self, tokens: &[Token]) {
        self.add(tokens.len() as u64);
        for token in tokens {
            self.add(token.0.into());
        }
    }

    /// The bits.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl Default for Digest {
    fn default() -> Self {
        Self::new()
    }
}
