//! Random numbers that are a function of their place, so that threads build data in any order.

/// 64 bits for place `index` in the sequence `key`: SplitMix64's step and finaliser.
#[inline]
#[must_use]
pub const fn hash(key: u64, index: u64) -> u64 {
    let value = key.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The key of the sequence with this name in the run with this seed.
#[must_use]
pub fn key(seed: u64, name: &str) -> u64 {
    name.bytes()
        .fold(hash(seed, 1), |key, byte| hash(key, u64::from(byte) + 1))
}

/// Maps 64 random bits to `0..bound`, evenly up to bound ÷ 2⁶⁴.
#[inline]
#[must_use]
pub const fn below(bits: u64, bound: u64) -> u64 {
    ((bits as u128 * bound as u128) >> 64) as u64
}

/// Maps the upper 53 of 64 random bits to the interval from 0 to 1, without 1.
#[inline]
#[must_use]
pub const fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_differ_by_seed_and_by_name() {
        let keys = [
            key(1, "a"),
            key(2, "a"),
            key(1, "b"),
            key(1, "ab"),
            key(1, "ba"),
        ];
        for (place, first) in keys.iter().enumerate() {
            assert!(keys[..place].iter().all(|second| first != second));
        }
    }

    #[test]
    fn numbers_below_a_bound_cover_it_evenly() {
        let mut counts = [0_u32; 10];
        for index in 0..10_000 {
            counts[below(hash(7, index), 10) as usize] += 1;
        }
        assert!(
            counts.iter().all(|count| (850..1150).contains(count)),
            "{counts:?}"
        );
    }
}
