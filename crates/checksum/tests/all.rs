//! The checksum is CRC-32C whatever the processor can, of any bytes, in any parts.

use checksum::{crc32c, crc32c_append};
use units::Stream;

/// By the definition, bit by bit.
fn defined(bytes: &[u8]) -> u32 {
    let sum = bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| match sum & 1 {
            1 => sum >> 1 ^ 0x82F6_3B78,
            _ => sum >> 1,
        })
    });
    !sum
}

fn bytes(count: usize) -> Vec<u8> {
    let mut random = Stream::new(1, "checksum");
    (0..count).map(|_| random.bits() as u8).collect()
}

/// RFC 3720, B.4, and the check value of the catalogue of CRCs.
#[test]
fn known_values_come_out() {
    let ascending: Vec<u8> = (0..32).collect();
    assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
    assert_eq!(crc32c(&[u8::MAX; 32]), 0x62A8_AB43);
    assert_eq!(crc32c(&ascending), 0x46DD_794E);
    assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    assert_eq!(crc32c(b""), 0);
}

#[test]
fn bytes_of_every_length_and_place_have_the_sum_of_the_definition() {
    let bytes = bytes(1400);
    for size in 0..=bytes.len() - 64 {
        let part = &bytes[size % 64..][..size];
        assert_eq!(crc32c(part), defined(part), "{size} bytes");
    }
    let long = self::bytes(10_000);
    for size in [4096, 4104, 8192, long.len()] {
        assert_eq!(
            crc32c(&long[..size]),
            defined(&long[..size]),
            "{size} bytes"
        );
    }
}

#[test]
fn parts_behind_each_other_have_the_sum_of_the_whole() {
    let bytes = bytes(1500);
    let whole = defined(&bytes);
    for at in 0..=bytes.len() {
        let (one, other) = bytes.split_at(at);
        assert_eq!(crc32c_append(crc32c(one), other), whole, "at {at}");
    }
}

#[test]
fn every_bit_of_a_page_counts() {
    let mut page = bytes(4096);
    let sum = crc32c(&page);
    for bit in 0..8 * page.len() {
        page[bit / 8] ^= 1 << (bit % 8);
        assert_ne!(crc32c(&page), sum, "bit {bit}");
        page[bit / 8] ^= 1 << (bit % 8);
    }
}
