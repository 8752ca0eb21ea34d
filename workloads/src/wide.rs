//! Work compiled for wide vectors where the processor has them.
//!
//! Unsafe because calling a function compiled for AVX2 is, unless the caller is so compiled too:
//! the caller here has asked the processor. No result depends on the width: integers are exact, and
//! floating-point code has to keep each element's order of operations, which vectors do.
#![allow(unsafe_code)]

/// Work to be compiled twice. The method should be `#[inline(always)]`, else it is compiled once,
/// for narrow vectors.
pub trait Work {
    /// What it gives.
    type Output;
    /// Does it.
    fn run(self) -> Self::Output;
}

/// Does the work, with AVX2 if there is such a thing here.
pub fn run<W: Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { run_avx2(work) };
    }
    work.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn run_avx2<W: Work>(work: W) -> W::Output {
    work.run()
}
