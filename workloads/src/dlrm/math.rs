//! Loops over vectors. Each element's operations have one order, whatever the width of vectors.

/// Adds `factor` times `x` to `sum`.
#[inline(always)]
pub(super) fn add_scaled(sum: &mut [f32], factor: f32, x: &[f32]) {
    for (sum, x) in sum.iter_mut().zip(x) {
        *sum += factor * x;
    }
}

/// Lanes of a dot product: lane k adds up elements k, k + 8, k + 16 …
const LANES: usize = 8;

/// Dot product of vectors whose length is a multiple of eight: lanes first, then their sum from
/// lane 0 on.
#[inline(always)]
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    for (a, b) in a.chunks_exact(LANES).zip(b.chunks_exact(LANES)) {
        for lane in 0..LANES {
            lanes[lane] += a[lane] * b[lane];
        }
    }
    lanes.iter().fold(0.0, |sum, lane| sum + lane)
}

/// Sets what is not above 0 to 0.
#[inline(always)]
pub(super) fn rectify(x: &mut [f32]) {
    for x in x {
        *x = if *x > 0.0 { *x } else { 0.0 };
    }
}

/// Takes away the gradient where the value was rectified.
#[inline(always)]
pub(super) fn rectify_gradient(gradient: &mut [f32], value: &[f32]) {
    for (gradient, value) in gradient.iter_mut().zip(value) {
        *gradient = if *value > 0.0 { *gradient } else { 0.0 };
    }
}

/// Number between −2⁻⁶ and 2⁻⁶, but not nearer to 0 than 2⁻⁷, from the lower 16 bits. Made of bits:
/// an emulator counts floating-point operations dear, and set-up needs many.
#[inline(always)]
pub(super) fn small(bits: u64) -> f32 {
    let bits = bits as u32;
    f32::from_bits(0x3c00_0000 | (bits & 0x8000) << 16 | (bits & 0x7fff) << 8)
}

/// Probability of a logit.
pub(super) fn sigmoid(logit: f32) -> f32 {
    1.0 / (1.0 + libm::expf(-logit))
}

/// Binary cross-entropy of a probability where the truth is `label`, 0 or 1.
pub(super) fn cross_entropy(probability: f32, label: f32) -> f32 {
    let right = if label > 0.5 {
        probability
    } else {
        1.0 - probability
    };
    -libm::logf(if right > 1e-7 { right } else { 1e-7 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_are_small_and_of_both_signs() {
        let numbers: Vec<_> = (0..=0xffff).map(small).collect();
        assert!(
            numbers
                .iter()
                .all(|x| (0.007_812_5..0.015_625).contains(&x.abs()))
        );
        let sum: f32 = numbers.iter().sum();
        assert!(sum.abs() < 1e-3);
    }

    #[test]
    fn a_dot_product_has_the_order_it_says() {
        let a: Vec<_> = (0..24).map(|i| 1.0 + small(i * 977)).collect();
        let b: Vec<_> = (0..24).map(|i| 1.0 + small(i * 1_999)).collect();
        let lane = |k: usize| ((a[k] * b[k]) + a[k + 8] * b[k + 8]) + a[k + 16] * b[k + 16];
        let sum = (0..8).fold(0.0, |sum, k| sum + lane(k));
        assert_eq!(dot(&a, &b).to_bits(), sum.to_bits());
    }

    #[test]
    fn certain_and_wrong_costs_most() {
        let (sure, unsure) = (sigmoid(6.0), sigmoid(0.0));
        assert_eq!(unsure, 0.5);
        assert!(cross_entropy(sure, 1.0) < cross_entropy(unsure, 1.0));
        assert!(cross_entropy(sure, 0.0) > 5.0);
        assert!(cross_entropy(0.0, 1.0).is_finite());
    }
}
