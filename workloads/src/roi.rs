//! Marks of the region of interest, which the capture plugin looks for (decision D2).
//!
//! Unsafe because there is no other way to place an instruction: each mark exchanges a register
//! with itself, which changes nothing.
#![allow(unsafe_code)]

/// From here on instructions are captured.
#[inline(never)]
pub fn begin() {
    // SAFETY: `xchg bx, bx` leaves every register and flag as it was and touches no memory.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("xchg bx, bx");
    }
}

/// From here on they are not.
#[inline(never)]
pub fn end() {
    // SAFETY: as above, `xchg cx, cx`.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("xchg cx, cx");
    }
}
