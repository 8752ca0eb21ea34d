//! Pieces of 256 bytes by carry-less multiplication of 512 bits.
//!
//! A message is a polynomial over GF(2), and its checksum the remainder by another one, P. Bits
//! that stand `n` bits before others may be replaced by their product with x^n mod P, added to
//! those: the remainder is the same. So four registers take up 256 bytes and are moved forward to
//! the next 256 again and again, each as eight products of 64 bits by 32, none of which waits for
//! the others; at the end they are moved into one another, down to 128 bits, of which the
//! processor's own instruction makes the checksum. Bits are in reverse order everywhere, as CRC-32C
//! has them.
//!
//! Source: V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
//! Instruction", Intel, 2009.
#![allow(unsafe_code)]

use bytemuck::pod_read_unaligned;
use core::arch::x86_64::{
    __m128i, __m512i, _mm_clmulepi64_si128, _mm_crc32_u64, _mm_cvtsi128_si64, _mm_extract_epi64,
    _mm_set_epi64x, _mm_xor_si128, _mm512_broadcast_i32x4, _mm512_clmulepi64_epi128,
    _mm512_extracti32x4_epi32, _mm512_set_epi64, _mm512_xor_si512,
};
use core::array::from_fn;

/// Bytes of a piece.
const PIECE: usize = 256;
const REGISTER: usize = 64;
const REGISTERS: usize = PIECE / REGISTER;

/// P without its highest bit, in reverse order (RFC 3720).
const POLYNOMIAL: u32 = 0x82F6_3B78;

/// What moves 128 bits forward by so many: factors of their first and their last 64. A product of
/// numbers in reverse order comes out one bit too low, and a factor stands in the upper half of its
/// 64 bits or the lower one.
const fn forward(bits: usize) -> [i64; 2] {
    [power(bits + 31), power(bits - 33)]
}

/// x^n mod P.
const fn power(n: usize) -> i64 {
    let (mut power, mut reached) = (1_u32 << 31, 0);
    while reached < n {
        let carried = power & 1 == 1;
        power >>= 1;
        if carried {
            power ^= POLYNOMIAL;
        }
        reached += 1;
    }
    power as i64
}

/// The checksum of the whole pieces that the bytes begin with, behind bytes with `sum`; and what is
/// left of them. Where the processor cannot, all are left.
#[inline]
pub fn append(sum: u32, bytes: &[u8]) -> (u32, &[u8]) {
    let (pieces, rest) = bytes.as_chunks();
    match pieces.split_first() {
        Some((first, others)) if has_instructions() => {
            // SAFETY: the processor has all instructions that the function is compiled to.
            let state = unsafe { sum_of(!sum, first, others) };
            (!state, rest)
        }
        _ => (sum, bytes),
    }
}

#[inline]
fn has_instructions() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("vpclmulqdq")
        && is_x86_feature_detected!("pclmulqdq")
        && is_x86_feature_detected!("sse4.2")
}

/// The remainder of what is behind `state`, at least one piece.
#[target_feature(enable = "avx512f,vpclmulqdq,pclmulqdq,sse4.2")]
fn sum_of(state: u32, first: &[u8; PIECE], others: &[[u8; PIECE]]) -> u32 {
    let mut registers: [__m512i; REGISTERS] = from_fn(|at| register(first, at));
    let before = _mm512_set_epi64(0, 0, 0, 0, 0, 0, 0, i64::from(state));
    registers[0] = _mm512_xor_si512(registers[0], before);
    let by = factors(const { forward(8 * PIECE) });
    for piece in others {
        for (at, moved) in registers.iter_mut().enumerate() {
            *moved = onto(*moved, by, register(piece, at));
        }
    }
    let by = factors(const { forward(8 * REGISTER) });
    let [mut one, others @ ..] = registers;
    for other in others {
        one = onto(one, by, other);
    }
    let [mut last, others @ ..] = [
        _mm512_extracti32x4_epi32::<0>(one),
        _mm512_extracti32x4_epi32::<1>(one),
        _mm512_extracti32x4_epi32::<2>(one),
        _mm512_extracti32x4_epi32::<3>(one),
    ];
    let by = factors_of_part(const { forward(128) });
    for other in others {
        let begin = _mm_clmulepi64_si128::<0x00>(last, by);
        let end = _mm_clmulepi64_si128::<0x11>(last, by);
        last = _mm_xor_si128(_mm_xor_si128(begin, end), other);
    }
    let begin = _mm_crc32_u64(0, _mm_cvtsi128_si64(last) as u64);
    _mm_crc32_u64(begin, _mm_extract_epi64::<1>(last) as u64) as u32
}

#[inline]
#[target_feature(enable = "avx512f")]
fn register(piece: &[u8; PIECE], at: usize) -> __m512i {
    pod_read_unaligned(&piece[at * REGISTER..][..REGISTER])
}

#[inline]
#[target_feature(enable = "avx512f")]
fn factors(of_part: [i64; 2]) -> __m512i {
    _mm512_broadcast_i32x4(factors_of_part(of_part))
}

#[inline]
#[target_feature(enable = "sse2")]
fn factors_of_part([first, last]: [i64; 2]) -> __m128i {
    _mm_set_epi64x(last, first)
}

/// Moves bits forward, onto others.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn onto(moved: __m512i, by: __m512i, others: __m512i) -> __m512i {
    let begin = _mm512_clmulepi64_epi128::<0x00>(moved, by);
    let end = _mm512_clmulepi64_epi128::<0x11>(moved, by);
    _mm512_xor_si512(_mm512_xor_si512(begin, end), others)
}
