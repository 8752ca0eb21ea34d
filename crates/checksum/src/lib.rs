//! CRC-32C, the checksum of pages, captures, images and messages: one place for all of them.
//!
//! The value is that of RFC 3720 wherever it is computed. Crate `crc32c` has it by the processor's
//! instruction for eight bytes, three at a time, and by tables where there is none; where a
//! processor multiplies polynomials of 512 bits, pieces of 256 bytes go by those instead, in less
//! than half the time ([bench log](../../../docs/bench-log.md)).
#![deny(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod wide;

/// The checksum of some bytes.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c_append(0, bytes)
}

/// The checksum of bytes with `sum` and of these behind them.
#[inline]
pub fn crc32c_append(sum: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    let (sum, bytes) = wide::append(sum, bytes);
    crc32c::crc32c_append(sum, bytes)
}
