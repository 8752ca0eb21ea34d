//! The bitmap of a first-level entry: 64 bytes, one bit for each chunk of a huge page.

use super::Chunk;

const WORDS: usize = 8;

/// A set of up to 512 chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ChunkMask([u64; WORDS]);

impl ChunkMask {
    /// No chunk.
    pub const EMPTY: Self = Self([0; WORDS]);

    /// The first `count` chunks.
    pub fn full(count: u32) -> Self {
        let mut mask = Self::EMPTY;
        (0..count)
            .map(Chunk::new)
            .for_each(|chunk| mask.insert(chunk));
        mask
    }

    /// Adds a chunk.
    pub fn insert(&mut self, chunk: Chunk) {
        let (word, bit) = Self::position(chunk);
        self.0[word] |= bit;
    }

    /// Whether the chunk is in the set.
    #[inline]
    pub fn contains(&self, chunk: Chunk) -> bool {
        let (word, bit) = Self::position(chunk);
        self.0[word] & bit != 0
    }

    /// The first of `count` chunks that is not in the set.
    pub fn first_absent(&self, count: u32) -> Option<Chunk> {
        let word = self.0.iter().position(|word| *word != u64::MAX)?;
        let first = word as u32 * 64 + self.0[word].trailing_ones();
        (first < count).then_some(Chunk::new(first))
    }

    #[inline]
    fn position(chunk: Chunk) -> (usize, u64) {
        (chunk.index() / 64, 1 << (chunk.index() % 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_absent_chunk_is_the_first_that_was_not_inserted() {
        for count in [1, 63, 64, 65, 512] {
            let mut mask = ChunkMask::EMPTY;
            let last = Chunk::new(count - 1);
            mask.insert(last);
            for chunk in (0..count - 1).map(Chunk::new) {
                assert!(!mask.contains(chunk));
                assert_eq!(mask.first_absent(count), Some(chunk));
                mask.insert(chunk);
                assert!(mask.contains(chunk));
            }
            assert_eq!(mask.first_absent(count), None);
            assert_eq!(mask, ChunkMask::full(count));
        }
    }
}
