//! Bitmaps: 496 bits and a sum in each line, which is the group that is written at once (§4.5).

use super::{LINE, LINES, get_u16, put_u16, sum};

/// Bits of a line.
pub const BITS_PER_LINE: u32 = ((LINE - 2) * 8) as u32;
/// Bits of a block.
pub const BITS_PER_BLOCK: u32 = BITS_PER_LINE * LINES as u32;

/// Where a bit is: block of the bitmap, line in it, bit in that.
pub fn bit_place(number: u32) -> (u32, usize, u32) {
    let line = number % BITS_PER_BLOCK / BITS_PER_LINE;
    (
        number / BITS_PER_BLOCK,
        line as usize,
        number % BITS_PER_LINE,
    )
}

/// Whether a bit of a line is set.
pub(crate) fn is_set(line: &[u8], bit: u32) -> bool {
    line[(bit / 8) as usize] >> (bit % 8) & 1 == 1
}

/// Sets or clears a bit; the line is to be sealed afterwards.
pub(crate) fn set(line: &mut [u8], bit: u32, value: bool) {
    let mask = 1 << (bit % 8);
    let byte = &mut line[(bit / 8) as usize];
    *byte = if value { *byte | mask } else { *byte & !mask };
}

/// Writes the sum of a line of a bitmap.
pub(crate) fn seal_bits(line: &mut [u8]) {
    let sum = sum(&line[..LINE - 2]) as u16;
    put_u16(line, LINE - 2, sum);
}

/// Whether the sum of a line of a bitmap is right.
pub(crate) fn are_sealed_bits(line: &[u8]) -> bool {
    get_u16(line, LINE - 2) == sum(&line[..LINE - 2]) as u16
}
