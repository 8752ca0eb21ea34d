//! `quiet=on`: outside the region of interest the program runs as without a plugin, five times
//! faster than with its callbacks. Only blocks that hold a marker are instrumented; at a marker
//! QEMU forgets all its translations, and translates anew with callbacks or without.
//!
//! On demand only. QEMU 7.2 keeps a thread listening with the callbacks of its last instruction if
//! that was a `ret` or an indirect jump ([`crate::recorder`]), and forgetting frees them: a signal
//! frame or an x87 access in the first blocks after the region would call what is gone. So the
//! program must have no signal handlers and do no `long double` arithmetic there.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this capture is quiet outside the region at all.
static WANTED: AtomicBool = AtomicBool::new(false);
/// Whether the program is outside now.
static OUTSIDE: AtomicBool = AtomicBool::new(false);

/// The program begins outside its region.
pub fn install(wanted: bool) {
    WANTED.store(wanted, Ordering::Relaxed);
    OUTSIDE.store(wanted, Ordering::Relaxed);
}

/// Whether blocks without a marker are left alone.
pub fn is_quiet() -> bool {
    OUTSIDE.load(Ordering::Relaxed)
}

/// A marker was executed; whether all blocks must be translated anew.
pub fn mark(inside: bool) -> bool {
    WANTED.load(Ordering::Relaxed) && OUTSIDE.swap(!inside, Ordering::Relaxed) == inside
}
