//! Wakes a server that sleeps.

use nix::poll::{PollFd, PollFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// A file at which a server sleeps besides its sockets, and whether it does. Ringing costs a system
/// call only if the server sleeps.
#[derive(Debug)]
pub(crate) struct Bell {
    file: EventFd,
    is_armed: AtomicBool,
}

impl Bell {
    /// One that is not armed.
    ///
    /// # Errors
    /// The system has no more files.
    pub fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        Ok(Self {
            file: EventFd::from_value_and_flags(0, flags)?,
            is_armed: AtomicBool::new(false),
        })
    }

    /// The server is about to sleep. It looks for work once more before it does: either it finds
    /// what there is, or who brings it finds the bell armed: both sides store and then load, in the
    /// one order of all such operations (`SeqCst`), or hold the same lock.
    pub fn arm(&self) {
        self.is_armed.store(true, Ordering::SeqCst);
    }

    /// The server is awake.
    pub fn disarm(&self) {
        if !self.is_armed.swap(false, Ordering::Relaxed) {
            // Somebody rang, or is about to: then it is heard at the next sleep, for nothing.
            let _ = self.file.read();
        }
    }

    /// Wakes the server if it sleeps. To be called after there is something for it.
    pub fn ring(&self) {
        if self.is_armed.load(Ordering::SeqCst) && self.is_armed.swap(false, Ordering::Relaxed) {
            // A full counter has been rung already.
            let _ = self.file.write(1);
        }
    }

    /// What to wait for.
    pub fn to_poll(&self) -> PollFd<'_> {
        PollFd::new(self.file.as_fd(), PollFlags::POLLIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollTimeout, poll};

    fn rings(bell: &Bell) -> bool {
        poll(&mut [bell.to_poll()], PollTimeout::ZERO) == Ok(1)
    }

    #[test]
    fn a_bell_rings_for_who_sleeps_and_is_silent_afterwards() {
        let bell = Bell::new().expect("a file");
        bell.ring();
        assert!(!rings(&bell), "nobody sleeps");
        for _ in 0..2 {
            bell.arm();
            assert!(!rings(&bell));
            bell.ring();
            bell.ring();
            assert!(rings(&bell));
            bell.disarm();
            assert!(!rings(&bell));
        }
        bell.arm();
        bell.disarm();
        bell.ring();
        assert!(!rings(&bell), "it is awake again");
    }
}
