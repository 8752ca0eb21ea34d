//! Rows of one size in large chunks.

/// A row's place in its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Slot(u32);

impl Slot {
    /// Place `index`.
    #[must_use]
    pub const fn new(index: u32) -> Self {
        Self(index)
    }
    /// The place as a number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// Rows of one partition. A chunk is allocated when its first row is needed; slots of removed rows
/// are used again, the newest first.
#[derive(Clone, Debug)]
pub struct Arena {
    row_bytes: usize,
    chunk_shift: u32,
    chunks: Vec<Box<[u8]>>,
    used: u32,
    free: Vec<Slot>,
}

impl Arena {
    /// An empty arena for rows of `row_bytes`, `chunk_rows` (rounded up to a power of two) to a
    /// chunk.
    #[must_use]
    pub fn new(row_bytes: usize, chunk_rows: usize) -> Self {
        assert!(row_bytes > 0, "a row has at least one byte");
        Self {
            row_bytes,
            chunk_shift: chunk_rows.next_power_of_two().trailing_zeros(),
            chunks: Vec::new(),
            used: 0,
            free: Vec::new(),
        }
    }

    /// Live rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.used as usize - self.free.len()
    }

    /// Slots ever used; live rows are below it.
    #[must_use]
    pub fn used(&self) -> u32 {
        self.used
    }

    /// A slot for a new row, whose bytes are whatever its last row left, or zero.
    pub fn take(&mut self) -> Slot {
        if let Some(slot) = self.free.pop() {
            return slot;
        }
        let slot = Slot(self.used);
        if (slot.0 >> self.chunk_shift) as usize == self.chunks.len() {
            let bytes = self.row_bytes << self.chunk_shift;
            self.chunks.push(vec![0; bytes].into_boxed_slice());
        }
        self.used += 1;
        slot
    }

    /// Gives a slot back.
    pub fn release(&mut self, slot: Slot) {
        debug_assert!(slot.0 < self.used && !self.free.contains(&slot));
        self.free.push(slot);
    }

    #[inline]
    fn place(&self, slot: Slot) -> (usize, usize) {
        let chunk = (slot.0 >> self.chunk_shift) as usize;
        let row = slot.0 as usize & ((1 << self.chunk_shift) - 1);
        (chunk, row * self.row_bytes)
    }

    /// The row's bytes.
    #[inline]
    #[must_use]
    pub fn row(&self, slot: Slot) -> &[u8] {
        let (chunk, start) = self.place(slot);
        &self.chunks[chunk][start..start + self.row_bytes]
    }

    /// The row's bytes, to be changed.
    #[inline]
    pub fn row_mut(&mut self, slot: Slot) -> &mut [u8] {
        let (chunk, start) = self.place(slot);
        &mut self.chunks[chunk][start..start + self.row_bytes]
    }

    /// Bytes of all chunks.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.chunks.len() * (self.row_bytes << self.chunk_shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_their_bytes_across_chunks() {
        let mut arena = Arena::new(5, 4);
        for value in 0..40_u8 {
            let slot = arena.take();
            arena.row_mut(slot).fill(value);
        }
        assert_eq!((arena.rows(), arena.bytes()), (40, 200));
        for value in 0..40 {
            assert_eq!(arena.row(Slot(value)), [value as u8; 5]);
        }
    }

    #[test]
    fn a_slot_given_back_is_used_before_a_new_one() {
        let mut arena = Arena::new(8, 2);
        let slots = [arena.take(), arena.take(), arena.take()];
        arena.release(slots[1]);
        assert_eq!(arena.rows(), 2);
        assert_eq!(arena.take(), slots[1]);
        assert_eq!(arena.take(), Slot(3));
    }
}
