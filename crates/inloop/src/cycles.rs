//! The cycle counter of the processor that this runs on.
#![allow(unsafe_code)]

/// Whether there is a counter that [`cycles`] reads.
pub const fn has_counter() -> bool {
    cfg!(target_arch = "x86_64")
}

/// Cycles that have passed, at the constant rate of the counter. What comes before in the program
/// is over, and what comes after has not begun.
#[inline(always)]
pub fn cycles() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_lfence, _rdtsc};
        // SAFETY: every x86-64 processor has both instructions; they touch no memory.
        unsafe {
            _mm_lfence();
            let now = _rdtsc();
            _mm_lfence();
            now
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_goes_on() {
        let before = cycles();
        let mut sum = 0_u64;
        for number in 0..10_000_u64 {
            sum = std::hint::black_box(sum + number);
        }
        assert!(!has_counter() || cycles() > before + 1_000, "{sum}");
    }
}
