//! Decisions drawn from bytes.

/// Draws decisions from bytes, one after the other; when there are no more, each is the first of
/// its kind. So any bytes are good, and fewer of them are a simpler input.
#[derive(Clone, Debug)]
pub struct Choices<'a> {
    bytes: &'a [u8],
}

impl<'a> Choices<'a> {
    /// Decisions of these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Whether there are bytes left.
    pub fn is_over(&self) -> bool {
        self.bytes.is_empty()
    }

    /// A byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.bytes.split_first() else {
            return 0;
        };
        self.bytes = rest;
        *first
    }

    /// A number of 64 bits.
    pub fn word(&mut self) -> u64 {
        (0..8).fold(0, |word, _| word << 8 | u64::from(self.byte()))
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        let drawn = usize::from(self.byte()) << 8 | usize::from(self.byte());
        drawn % end
    }

    /// One of some.
    ///
    /// # Panics
    /// There is none.
    pub fn of<'t, T>(&mut self, all: &'t [T]) -> &'t T {
        &all[self.below(all.len())]
    }

    /// All bytes that are left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }

    /// Another value for a number: near to it, or where readers make mistakes.
    pub fn instead_of(&mut self, value: u64) -> u64 {
        match self.byte() % 8 {
            0 => value.wrapping_add(1),
            1 => value.wrapping_sub(1),
            2 => 0,
            3 => value.wrapping_mul(2),
            4 => u64::from(u32::MAX) >> (self.byte() % 32),
            5 => u64::MAX >> (self.byte() % 64),
            6 => 1 << (self.byte() % 64),
            _ => self.word(),
        }
    }

    /// Changes bytes: one of them, or their number.
    pub fn damage(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len().max(1));
        match self.byte() % 4 {
            0 => bytes.truncate(at),
            1 => bytes.insert(at.min(bytes.len()), self.byte()),
            2 => {
                let (many, byte) = (1 << (self.byte() % 12), self.byte());
                bytes.extend(std::iter::repeat_n(byte, many));
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = self.byte();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_bytes_every_choice_is_the_first() {
        let mut choices = Choices::new(&[]);
        assert_eq!(
            (choices.byte(), choices.word(), choices.below(7)),
            (0, 0, 0)
        );
        assert_eq!(choices.of(&["a", "b"]), &"a");
        assert!(choices.is_over());
    }

    #[test]
    fn bytes_are_used_once_and_in_order() {
        let mut choices = Choices::new(&[1, 0, 5, 9]);
        assert_eq!((choices.byte(), choices.below(100)), (1, 5));
        assert_eq!(choices.rest(), [9]);
    }
}
