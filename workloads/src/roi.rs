//! Marks of the region of interest, which the capture plugin looks for (decision D2).
//!
//! Each mark exchanges a register with itself, which changes nothing, and asks for the process's
//! number: a system call in the mark's block lets the plugin be quiet outside the region
//! ([captures](../../docs/trace.md)). Unsafe because there is no other way to place an instruction.
#![allow(unsafe_code)]

/// Number of the system call on x86-64 Linux.
const GETPID: u64 = 39;

/// From here on instructions are captured.
#[inline(never)]
pub fn begin() {
    // SAFETY: `xchg bx, bx` leaves every register and flag as it was, `getpid` writes the three
    // registers that every system call does; no memory is touched.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("xchg bx, bx", "syscall",
            inout("rax") GETPID => _, out("rcx") _, out("r11") _, options(nostack));
    }
}

/// From here on they are not.
#[inline(never)]
pub fn end() {
    // SAFETY: as above, `xchg cx, cx`.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("xchg cx, cx", "syscall",
            inout("rax") GETPID => _, out("rcx") _, out("r11") _, options(nostack));
    }
}
