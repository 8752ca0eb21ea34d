//! CRC-32C, the checksum of pages, captures, images and messages: one place for all of them.
//!
//! The value is that of RFC 3720 wherever it is computed. Crate `crc-fast` has it by carry-less
//! multiplication of 512 bits, in half the time for a page, where a processor can; elsewhere it is
//! slower than crate `crc32c`, which takes the processor's instruction for eight bytes, or tables
//! where there is none ([bench log](../../../docs/bench-log.md)).
#![forbid(unsafe_code)]

use crc_fast::{CrcAlgorithm, Digest};

/// Fewer bytes than this are not worth going wide.
const WIDE: usize = 256;

/// The checksum of some bytes.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c_append(0, bytes)
}

/// The checksum of bytes with `sum` and of these behind them.
#[inline]
pub fn crc32c_append(sum: u32, bytes: &[u8]) -> u32 {
    if bytes.len() >= WIDE && is_wide() {
        return wide(sum, bytes);
    }
    crc32c::crc32c_append(sum, bytes)
}

/// Whether `crc-fast` takes 512 bits at a time here.
#[inline]
fn is_wide() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("vpclmulqdq");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

fn wide(sum: u32, bytes: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!sum));
    digest.update(bytes);
    digest.finalize() as u32
}
