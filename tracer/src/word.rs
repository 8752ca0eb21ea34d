//! The raw stream: one word for each block entered and for each memory access.
//!
//! ```text
//! block   1 | 0 (5) | instructions (10) | 0 (16) | block number (32)
//! access  0 | store, load (2) | log2 of bytes (3) | instruction in block (10) | address (48)
//! ```

use trace::AccessKind;

const BLOCK: u64 = 1 << 63;
const INST_SHIFT: u32 = 48;
const INST_MASK: u64 = 0x3ff;
const ADDRESS_MASK: u64 = (1 << 48) - 1;

/// The word of block `number`, which has `instructions` (at most 1,023).
pub fn block(number: u32, instructions: usize) -> u64 {
    assert!(
        instructions as u64 <= INST_MASK,
        "the emulator's blocks are shorter"
    );
    BLOCK | (instructions as u64) << INST_SHIFT | u64::from(number)
}

/// Whether the word enters a block.
#[inline]
pub const fn is_block(word: u64) -> bool {
    word & BLOCK != 0
}

/// Number of the block entered, or of an access's origin.
#[inline]
pub const fn block_number(word: u64) -> u32 {
    word as u32
}

/// Instructions of the block entered.
#[inline]
pub const fn instructions(word: u64) -> u64 {
    word >> INST_SHIFT & INST_MASK
}

/// Who makes an access: instruction `index` of block `number`.
pub const fn origin(number: u32, index: usize) -> u64 {
    (index as u64 & INST_MASK) << INST_SHIFT | number as u64
}

/// An access's word, from the emulator's description and the origin's instruction.
#[inline]
pub const fn access(info: u32, addr: u64, origin: u64) -> u64 {
    let inst_bits = origin & INST_MASK << INST_SHIFT;
    let size = (info >> 4 & 7) as u64;
    let kind = (info >> 16 & 3) as u64;
    kind << 61 | size << 58 | inst_bits | addr & ADDRESS_MASK
}

/// An access's instruction, kind, bytes and address; `None` for a kind that does not exist.
#[inline]
pub fn parts(word: u64) -> Option<(u16, AccessKind, u8, u64)> {
    let kind = match word >> 61 & 3 {
        1 => AccessKind::Load,
        2 => AccessKind::Store,
        3 => AccessKind::Update,
        _ => return None,
    };
    let inst = (word >> INST_SHIFT & INST_MASK) as u16;
    Some((
        inst,
        kind,
        1 << (word >> 58 & 7).min(6),
        word & ADDRESS_MASK,
    ))
}

/// Whether `size_shift` and `is_store`, which ask the emulator, agree with how [`access`] reads
/// its descriptions: checked once, because this emulator's packing is not part of its interface.
pub fn packing_is_known(size_shift: impl Fn(u32) -> u32, is_store: impl Fn(u32) -> bool) -> bool {
    (0..5).all(|size| {
        [1_u32, 2, 3].iter().all(|kind| {
            let info = kind << 16 | size << 4 | 1;
            size_shift(info) == size && is_store(info) == (kind & 2 != 0)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_is_read_back_from_its_word() {
        for (kind, expected) in [
            (1, AccessKind::Load),
            (2, AccessKind::Store),
            (3, AccessKind::Update),
        ] {
            for (shift, bytes) in [(0, 1), (3, 8), (4, 16)] {
                let word = access(kind << 16 | shift << 4, 0x7fff_ffff_f123, origin(7, 511));
                assert!(!is_block(word));
                assert_eq!(parts(word), Some((511, expected, bytes, 0x7fff_ffff_f123)));
            }
        }
    }

    #[test]
    fn a_block_is_read_back_from_its_word() {
        let word = block(u32::MAX, 512);
        assert!(is_block(word));
        assert_eq!((block_number(word), instructions(word)), (u32::MAX, 512));
    }

    #[test]
    fn another_packing_is_noticed() {
        let size = |info: u32| info >> 4 & 7;
        assert!(packing_is_known(size, |info| info >> 16 & 2 != 0));
        assert!(!packing_is_known(size, |info| info >> 20 & 2 != 0));
        assert!(!packing_is_known(
            |info| info & 7,
            |info| info >> 16 & 2 != 0
        ));
    }
}
