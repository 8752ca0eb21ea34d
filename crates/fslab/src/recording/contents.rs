//! Contents as sums of their lines, and bytes that are made of sums.

/// Bytes of a line.
const LINE: u64 = 64;
/// Parts of lines that are no longer are kept as they are: sums of so few bytes would be too.
const SHORT: usize = 4;

/// One sum for each line that bytes at a place cover, or for the part of a line: 0 of zeroes, and
/// of nothing else.
pub fn sums_of(at: u64, bytes: &[u8]) -> Vec<u32> {
    parts(at, bytes.len())
        .map(|(from, to)| match &bytes[from..to] {
            part if part.iter().all(|byte| *byte == 0) => 0,
            part if part.len() <= SHORT => {
                let mut word = [0; SHORT];
                word[..part.len()].copy_from_slice(part);
                u32::from_le_bytes(word)
            }
            part => checksum::crc32c(part).max(1),
        })
        .collect()
}

/// Bytes of a write at a place: the same for the same sums, and no line of others the same.
pub fn bytes_of(at: u64, size: usize, sums: &[u32]) -> Vec<u8> {
    let mut bytes = vec![0; size];
    for ((from, to), sum) in parts(at, size).zip(sums) {
        if *sum == 0 {
            continue;
        }
        if to - from <= SHORT {
            bytes[from..to].copy_from_slice(&sum.to_le_bytes()[..to - from]);
            continue;
        }
        // By place in the line: a part that is written again is the same as in the whole.
        for (place, byte) in (at + from as u64..).zip(&mut bytes[from..to]) {
            let word = mix((u64::from(*sum) << 8) | (place % LINE / 8));
            *byte = (word >> (place % 8 * 8)) as u8 | 1;
        }
    }
    bytes
}

/// Where the parts begin and end that lie in one line each.
fn parts(at: u64, size: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let here = at + from as u64;
        let to = size.min(from + (LINE - here % LINE) as usize);
        let part = (from < to).then_some((from, to));
        from = to;
        part
    })
}

/// The finaliser of SplitMix64.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Line by line, what is made is equal where the original was, and zero where it was.
        #[test]
        fn lines_differ_where_the_original_differs(
            at in 0..200_u64,
            words in proptest::collection::vec(0..3_u8, 1..400),
            changes in proptest::collection::vec((0..400_usize, 0..3_u8), 0..6),
        ) {
            let mut changed = words.clone();
            for (place, value) in changes {
                let end = changed.len();
                changed[place % end] = value;
            }
            let made = |bytes: &[u8]| bytes_of(at, bytes.len(), &sums_of(at, bytes));
            let (one, other) = (made(&words), made(&changed));
            for (from, to) in parts(at, words.len()) {
                let is_equal = words[from..to] == changed[from..to];
                prop_assert_eq!(one[from..to] == other[from..to], is_equal);
                let is_zero = words[from..to].iter().all(|byte| *byte == 0);
                prop_assert_eq!(one[from..to].iter().all(|byte| *byte == 0), is_zero);
            }
        }
    }
}
