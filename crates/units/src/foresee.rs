//! A word to the processor about what is looked at next.

/// Has the processor fetch what somebody looks at soon, who does not wait for memory then. It is a
/// hint, which not every processor gets, and changes nothing that a program can see.
#[inline(always)]
#[allow(unsafe_code)]
pub fn foresee<T>(what: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 processor has the instruction, which changes nothing that a program
        // can see and reports no fault.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(what).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = what;
}
