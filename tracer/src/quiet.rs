//! `quiet=on`: outside the region of interest the program runs as without a plugin, five times
//! faster than with its callbacks. Only blocks that hold a marker are instrumented; at a marker
//! QEMU forgets all its translations, and translates anew with callbacks or without.
//!
//! QEMU 7.2 keeps a thread listening with the callbacks of its last instruction if that was a `ret`
//! or an indirect jump ([`crate::recorder`]), and forgetting frees them: the next atomic operation
//! that is not instrumented would call what is gone. A system call ends the listening. So it
//! becomes quiet after a region only if the marker's block ends with a system call and no other
//! thread is there; else it stays loud, which is slower and as right.

use std::sync::atomic::{AtomicBool, Ordering};

/// `syscall`, the last bytes of a marker's block that ends all listening of its thread.
const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// Whether this capture is quiet outside the region at all.
static WANTED: AtomicBool = AtomicBool::new(false);
/// Whether it is quiet now.
static QUIET: AtomicBool = AtomicBool::new(false);

/// A marker, as translation sees it and hands it to the callback.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marker {
    /// Whether the region begins.
    pub begins: bool,
    /// Whether its block ends with a system call.
    pub calls: bool,
}

impl Marker {
    /// The marker in a block of these bytes.
    pub fn new(begins: bool, block: &[u8]) -> Self {
        let calls = block.ends_with(&SYSCALL);
        Self { begins, calls }
    }
    /// As the number that a callback carries.
    pub fn pack(self) -> usize {
        usize::from(self.begins) | usize::from(self.calls) << 1
    }
    /// What [`Marker::pack`] packed.
    pub fn unpack(number: usize) -> Self {
        Self {
            begins: number & 1 != 0,
            calls: number & 2 != 0,
        }
    }
}

/// The program begins outside its region.
pub fn install(wanted: bool) {
    WANTED.store(wanted, Ordering::Relaxed);
    QUIET.store(wanted, Ordering::Relaxed);
}

/// Whether blocks without a marker are left alone.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// A marker was executed in a process of so many threads; whether all blocks must be translated
/// anew.
pub fn mark(marker: Marker, threads: usize) -> bool {
    let quiet = !marker.begins && marker.calls && threads == 1;
    WANTED.load(Ordering::Relaxed) && QUIET.swap(quiet, Ordering::Relaxed) != quiet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_quiet_again_only_if_no_thread_can_be_listening() {
        install(true);
        let end = Marker::new(false, &[0x66, 0x87, 0xc9, 0x0f, 0x05]);
        let bare = Marker::new(false, &[0x66, 0x87, 0xc9, 0xc3]);
        let begin = Marker::unpack(Marker::new(true, &[]).pack());
        assert!(is_quiet() && mark(begin, 8) && !is_quiet());
        assert!(!mark(end, 2) && !mark(bare, 1) && !is_quiet());
        assert!(mark(Marker::unpack(end.pack()), 1) && is_quiet());
    }
}
