//! A cache line of an index's memory.

use bytemuck::{Pod, Zeroable};

/// A cache line: codes of 4 B, or words of 2 B.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub(super) struct Line {
    pub(super) codes: [u32; Line::CODES],
}

impl Line {
    pub(super) const CODES: usize = 16;
    pub(super) const WORDS: usize = 32;

    #[inline(always)]
    pub(super) fn words(&self) -> &[u16; Self::WORDS] {
        bytemuck::must_cast_ref(self)
    }
}

/// The codes of lines.
#[inline(always)]
pub(super) fn codes(lines: &[Line]) -> &[u32] {
    bytemuck::must_cast_slice(lines)
}

pub(super) fn codes_mut(lines: &mut [Line]) -> &mut [u32] {
    bytemuck::must_cast_slice_mut(lines)
}

/// The words of lines.
#[inline(always)]
pub(super) fn words(lines: &[Line]) -> &[u16] {
    bytemuck::must_cast_slice(lines)
}

pub(super) fn words_mut(lines: &mut [Line]) -> &mut [u16] {
    bytemuck::must_cast_slice_mut(lines)
}
