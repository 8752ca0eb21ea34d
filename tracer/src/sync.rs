//! Which thread woke, created or awaited which: matched while the program runs.
//!
//! A wake is numbered on entry to its call, a wait takes the futex's last wake when it returns,
//! both under one lock: so an edge always points to something that happened before.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use trace::chunk::{RawSync, StreamId};

/// Numbers of system calls on x86-64.
mod number {
    pub const RT_SIGACTION: i64 = 13;
    pub const CLONE: i64 = 56;
    pub const EXECVE: i64 = 59;
    pub const EXIT: i64 = 60;
    pub const FUTEX: i64 = 202;
    pub const EXIT_GROUP: i64 = 231;
    pub const EXECVEAT: i64 = 322;
}

const CLONE_VM: u64 = 0x100;
const CLONE_THREAD: u64 = 0x1_0000;
const CLONE_CHILD_CLEARTID: u64 = 0x20_0000;

/// Result of a wait on a word that has changed already (-EAGAIN).
const GONE: i64 = -11;

/// A system call in progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// Its event was noted on entry.
    Noted,
    /// Ends the thread, or all of them.
    Exit,
    /// Creates a thread whose end clears the word at `ctid`.
    Create {
        /// Address of the word, if there is one.
        ctid: Option<u64>,
        /// The stream that appeared meanwhile.
        child: Option<StreamId>,
    },
    /// Waits for a thread to end.
    Join(StreamId),
    /// Waits on a futex word.
    Wait(u64),
    /// Replaces the program; the address of its path.
    Exec(u64),
    /// Sets what a signal does: the signal and the address of its `struct sigaction`.
    Action(u64, u64),
    /// Anything else.
    Other,
}

/// The state of all futexes.
#[derive(Default)]
pub struct Futexes {
    ids: HashMap<u64, u32, FxBuildHasher>,
    last_wake: HashMap<u64, (StreamId, u32), FxBuildHasher>,
    wakes: HashMap<StreamId, u32, FxBuildHasher>,
    /// The stream whose end clears a word.
    ends: HashMap<u64, StreamId, FxBuildHasher>,
}

impl Futexes {
    /// A system call begins: what it is, and an event to note at once.
    pub fn enter(
        &mut self,
        stream: StreamId,
        call: i64,
        args: [u64; 4],
    ) -> (Call, Option<RawSync>) {
        match call {
            number::FUTEX => self.enter_futex(stream, args[0], args[1]),
            number::CLONE if args[0] & CLONE_VM != 0 && args[0] & CLONE_THREAD != 0 => {
                let ctid = (args[0] & CLONE_CHILD_CLEARTID != 0).then_some(args[3]);
                (Call::Create { ctid, child: None }, None)
            }
            number::EXIT | number::EXIT_GROUP => (Call::Exit, Some(RawSync::Exit)),
            number::RT_SIGACTION if args[1] != 0 => (Call::Action(args[0], args[1]), None),
            number::EXECVE => (Call::Exec(args[0]), None),
            number::EXECVEAT => (Call::Exec(args[1]), None),
            _ => (Call::Other, None),
        }
    }

    fn enter_futex(&mut self, stream: StreamId, addr: u64, op: u64) -> (Call, Option<RawSync>) {
        // FUTEX_WAKE, REQUEUE, CMP_REQUEUE, WAKE_OP, UNLOCK_PI, WAKE_BITSET wake;
        // FUTEX_WAIT, LOCK_PI, WAIT_BITSET, LOCK_PI2 wait.
        match op & 0x7f {
            1 | 3 | 4 | 5 | 7 | 10 => {
                let count = self.wakes.entry(stream).or_insert(0);
                *count += 1;
                let count = *count;
                self.last_wake.insert(addr, (stream, count));
                (Call::Noted, Some(RawSync::Wake(self.id(addr), count)))
            }
            0 | 6 | 9 | 13 => match self.ends.get(&addr) {
                Some(child) if *child != stream => (Call::Join(*child), None),
                _ => (Call::Wait(addr), None),
            },
            _ => (Call::Other, None),
        }
    }

    /// Notes that the end of `child` clears the word at `ctid`.
    pub fn ends_at(&mut self, ctid: u64, child: StreamId) {
        self.ends.insert(ctid, child);
    }

    /// A system call returned: the event to note.
    pub fn leave(&mut self, call: Call, number: i64, result: i64, log2: u8) -> Option<RawSync> {
        let plain = RawSync::Syscall(number as u16, log2);
        Some(match call {
            Call::Noted | Call::Exit => return None,
            Call::Create {
                child: Some(child), ..
            } if result > 0 => RawSync::Create(child),
            // Interrupted by a signal, or at its timeout, the thread still runs.
            Call::Join(child) if matches!(result, 0 | GONE) => RawSync::Join(child),
            Call::Wait(addr) if result == 0 => {
                RawSync::Wait(self.id(addr), self.last_wake.get(&addr).copied())
            }
            _ => plain,
        })
    }

    fn id(&mut self, addr: u64) -> u32 {
        let next = self.ids.len() as u32;
        *self.ids.entry(addr).or_insert(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: u64 = 128;
    const WAKE: u64 = 129;
    const MAIN: StreamId = StreamId(0);
    const CHILD: StreamId = StreamId(1);

    #[test]
    fn a_wait_points_to_the_last_wake_of_its_word() {
        let mut futexes = Futexes::default();
        let (wait, event) = futexes.enter(CHILD, 202, [0x100, WAIT, 0, 0]);
        assert_eq!((wait, event), (Call::Wait(0x100), None));
        for addr in [0x100, 0x200, 0x100, 0x200] {
            futexes.enter(MAIN, 202, [addr, WAKE, 1, 0]);
        }
        let by = Some((MAIN, 3));
        assert_eq!(futexes.leave(wait, 202, 0, 5), Some(RawSync::Wait(0, by)));
        assert_eq!(
            futexes.leave(wait, 202, -11, 5),
            Some(RawSync::Syscall(202, 5))
        );
    }

    #[test]
    fn a_wait_on_the_word_a_thread_clears_at_its_end_is_a_join() {
        let mut futexes = Futexes::default();
        let flags = CLONE_VM | CLONE_THREAD | CLONE_CHILD_CLEARTID;
        let (call, _) = futexes.enter(MAIN, 56, [flags, 0, 0, 0x500]);
        assert_eq!(
            call,
            Call::Create {
                ctid: Some(0x500),
                child: None
            }
        );
        futexes.ends_at(0x500, CHILD);
        let (call, _) = futexes.enter(MAIN, 202, [0x500, 9, 0, 0]);
        assert_eq!(futexes.leave(call, 202, -11, 9), Some(RawSync::Join(CHILD)));
    }

    #[test]
    fn a_wait_for_a_threads_end_that_a_signal_interrupts_is_no_join() {
        let mut futexes = Futexes::default();
        futexes.ends_at(0x500, CHILD);
        for interrupted in [-4, -110, -512] {
            let (call, _) = futexes.enter(MAIN, 202, [0x500, 9, 0, 0]);
            assert_eq!(
                futexes.leave(call, 202, interrupted, 9),
                Some(RawSync::Syscall(202, 9))
            );
        }
        let (call, _) = futexes.enter(MAIN, 202, [0x500, 9, 0, 0]);
        assert_eq!(futexes.leave(call, 202, 0, 9), Some(RawSync::Join(CHILD)));
    }

    #[test]
    fn a_new_process_is_not_a_thread() {
        let mut futexes = Futexes::default();
        assert_eq!(
            futexes.enter(MAIN, 56, [0x0120_0011, 0, 0, 0]).0,
            Call::Other
        );
    }
}
