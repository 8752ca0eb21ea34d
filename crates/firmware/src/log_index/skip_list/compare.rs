//! Sixteen page numbers, compared side by side.

use wide::{i8x16, i16x16};

/// Numbers that one comparison compares.
pub(super) const VECTOR: usize = 16;

/// Which of the numbers, 2^15 - 1 at most, are larger than `number`: a bit each.
#[inline(always)]
pub(super) fn larger(numbers: &[u16; VECTOR], number: u16) -> u32 {
    let larger = i16x16::new(numbers.map(|own| own as i16)).simd_gt(i16x16::splat(number as i16));
    i8x16::from_i16x16_saturate(larger).to_bitmask()
}

/// Which of the numbers are `number`: a bit each.
#[inline(always)]
pub(super) fn equal(numbers: &[u16; VECTOR], number: u16) -> u32 {
    let equal = i16x16::new(numbers.map(|own| own as i16)).simd_eq(i16x16::splat(number as i16));
    i8x16::from_i16x16_saturate(equal).to_bitmask()
}
