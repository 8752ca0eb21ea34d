//! Loops over vectors. Each element's operations have one order, whatever the width of vectors.

/// Elements of a vector register.
const LANES: usize = 8;

/// Adds `factor` times `x` to `sum`. Copies come first and the store last, so that the compiler
/// need not fear that one changes the other.
#[inline(always)]
fn add_lanes(sum: &mut [f32; LANES], factor: f32, x: &[f32; LANES]) {
    let (mut result, x) = (*sum, *x);
    for lane in 0..LANES {
        result[lane] += factor * x[lane];
    }
    *sum = result;
}

/// Adds `factor` times `x` to `sum`, of a length that the compiler knows, a multiple of eight.
#[inline(always)]
pub(super) fn add_row<const N: usize>(sum: &mut [f32; N], factor: f32, x: &[f32; N]) {
    const { assert!(N.is_multiple_of(LANES)) };
    for (sum, x) in sum.as_chunks_mut().0.iter_mut().zip(x.as_chunks().0) {
        add_lanes(sum, factor, x);
    }
}

/// Adds `factor` times `x` to `sum`, of any length: in blocks of four vector registers, of one, and
/// what is left.
#[inline(always)]
pub(super) fn add_scaled(sum: &mut [f32], factor: f32, x: &[f32]) {
    let ((sums, sum), (blocks, x)) = (sum.as_chunks_mut::<32>(), x.as_chunks::<32>());
    for (sum, x) in sums.iter_mut().zip(blocks) {
        add_row(sum, factor, x);
    }
    let ((sums, sum), (blocks, x)) = (sum.as_chunks_mut(), x.as_chunks());
    for (sum, x) in sums.iter_mut().zip(blocks) {
        add_lanes(sum, factor, x);
    }
    for (sum, x) in sum.iter_mut().zip(x) {
        *sum += factor * x;
    }
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
    fn scaled_vectors_are_added_to_the_last_element() {
        for length in 0..90 {
            let x: Vec<_> = (0..length).map(|i| i as f32).collect();
            let mut sum = vec![1.0; length];
            add_scaled(&mut sum, 2.0, &x);
            assert!(
                sum.iter().zip(&x).all(|(sum, x)| *sum == 1.0 + 2.0 * x),
                "{length}"
            );
        }
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
