//! Fields packed one after the other, least significant bit first.

/// Packs fields.
pub(crate) struct Writer {
    bits: u128,
    used: u32,
}

impl Writer {
    pub const fn new() -> Self {
        Self { bits: 0, used: 0 }
    }
    /// Appends a field of `width` bits.
    #[must_use]
    pub fn field(mut self, width: u32, value: u64) -> Self {
        assert!(value >> width == 0, "a field's value fits in its width");
        self.bits |= u128::from(value) << self.used;
        self.used += width;
        self
    }
    /// The packed message, which has `width` bits.
    pub fn finish(self, width: u32) -> u128 {
        assert!(self.used == width, "a message has the width of its class");
        self.bits
    }
}

/// Unpacks fields.
pub(crate) struct Reader {
    bits: u128,
}

impl Reader {
    pub const fn new(bits: u128) -> Self {
        Self { bits }
    }
    /// Takes the next `width` bits (at most 63).
    pub fn field(&mut self, width: u32) -> u64 {
        let value = (self.bits & ((1 << width) - 1)) as u64;
        self.bits >>= width;
        value
    }
}
