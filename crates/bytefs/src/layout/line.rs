//! Lines of 64 bytes, and the sums by which they are known to be whole.

/// Bytes of a line: what the byte port writes at once.
pub const LINE: usize = 64;
/// Lines of a block.
pub const LINES: usize = super::BLOCK / LINE;

/// Bytes that are not as they were written: their sum is wrong, or they say what cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Torn;

/// CRC-32C without its inversions, so that the sum of zeroes is zero: a block that was never
/// written is whole.
pub fn sum(bytes: &[u8]) -> u32 {
    !checksum::crc32c_append(!0, bytes)
}

/// Writes the sum of a line into its last four bytes.
pub fn seal(line: &mut [u8]) {
    let sum = sum(&line[..LINE - 4]);
    put_u32(line, LINE - 4, sum);
}

/// Whether the sum of a line is right.
pub fn is_sealed(line: &[u8]) -> bool {
    get_u32(line, LINE - 4) == sum(&line[..LINE - 4])
}

pub(crate) fn get_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn get_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

pub(crate) fn get_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

pub(crate) fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_zeroes_is_whole_and_a_changed_one_is_not() {
        let mut line = [0; LINE];
        assert!(is_sealed(&line));
        line[3] = 7;
        assert!(!is_sealed(&line));
        seal(&mut line);
        assert!(is_sealed(&line));
        for bit in 0..LINE * 8 {
            let mut broken = line;
            broken[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_sealed(&broken), "bit {bit}");
        }
    }
}
