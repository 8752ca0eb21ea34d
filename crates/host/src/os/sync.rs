//! Replay of the capture's synchronisation: who starts whom, and who waits for whom (D1).
//!
//! The edges of a capture point to something that happened earlier, so replaying all of them
//! cannot deadlock. Where the other end of an edge is missing (a thread that is not in the run, a
//! wait whose wake lies outside the captured region, a thread that ended early), nobody waits.

use std::fmt::Write;
use trace::{SyncEvent, Wake};
use units::{Picos, ThreadId};

/// How a thread of the capture gets going in this run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThreadOrigin {
    /// It is not in the run: it never starts, and nobody waits for it.
    Absent,
    /// It runs from the beginning.
    First,
    /// Another thread creates it; it runs from the beginning if that one is absent.
    CreatedBy(ThreadId),
}

/// What the thread that made the system call does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// It goes on after `cost` in the kernel.
    Continue {
        /// Time in the kernel.
        cost: Picos,
    },
    /// It waits until it is listed as resumed; the system call is over then.
    Block,
    /// It has ended.
    End,
}

/// What a blocked thread waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Await {
    Wake(Wake),
    End(ThreadId),
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    origin: ThreadOrigin,
    has_started: bool,
    has_ended: bool,
    /// Wakes it has executed.
    wake_count: u32,
    awaits: Option<Await>,
    /// First and last of the threads that wait for this one, in order of arrival.
    first_waiter: Option<ThreadId>,
    last_waiter: Option<ThreadId>,
    /// The next that waits for the same thread as this one.
    next_waiter: Option<ThreadId>,
}

/// The replay of creation, exit, join and futex edges.
#[derive(Clone, Debug)]
pub struct SyncEngine {
    threads: Vec<Thread>,
    syscall_cost: Picos,
}

impl SyncEngine {
    /// One origin for each thread of the capture, in the capture's numbering.
    pub fn new(origins: &[ThreadOrigin], syscall_cost: Picos) -> Self {
        let threads = origins.iter().map(|&origin| Thread {
            origin,
            has_started: false,
            has_ended: origin == ThreadOrigin::Absent,
            wake_count: 0,
            awaits: None,
            first_waiter: None,
            last_waiter: None,
            next_waiter: None,
        });
        Self {
            threads: threads.collect(),
            syscall_cost,
        }
    }

    /// Appends the threads that run from the beginning. Called once, before any event.
    pub fn start(&mut self, resumed: &mut Vec<ThreadId>) {
        for index in 0..self.threads.len() {
            let runs_first = match self.threads[index].origin {
                ThreadOrigin::Absent => false,
                ThreadOrigin::First => true,
                ThreadOrigin::CreatedBy(creator) => self.is_absent(creator),
            };
            if runs_first {
                self.start_thread(ThreadId::from_index(index), resumed);
            }
        }
    }

    /// `thread` executes `event`. Threads that can go on because of it are appended to `resumed`,
    /// each once, in the order in which they began to wait.
    pub fn on_event(
        &mut self,
        thread: ThreadId,
        event: SyncEvent,
        resumed: &mut Vec<ThreadId>,
    ) -> Action {
        match event {
            SyncEvent::ThreadCreate { child } => self.start_thread(child, resumed),
            SyncEvent::ThreadExit => {
                self.on_end(thread, resumed);
                return Action::End;
            }
            SyncEvent::Join { child } => return self.wait_for(thread, Await::End(child)),
            SyncEvent::FutexWake { count, .. } => {
                let entry = &mut self.threads[thread.index()];
                entry.wake_count = entry.wake_count.max(count);
                self.resume_waiters(thread, resumed);
            }
            SyncEvent::FutexWait {
                woken_by: Some(wake),
                ..
            } => return self.wait_for(thread, Await::Wake(wake)),
            SyncEvent::FutexWait { woken_by: None, .. } | SyncEvent::Syscall { .. } => {}
        }
        Action::Continue {
            cost: self.syscall_cost,
        }
    }

    /// The stream of `thread` is over, with or without a ThreadExit: whoever waits for it goes on,
    /// and whoever it would have created runs. Harmless when repeated.
    pub fn on_end(&mut self, thread: ThreadId, resumed: &mut Vec<ThreadId>) {
        if self.threads[thread.index()].has_ended {
            return;
        }
        self.threads[thread.index()].has_ended = true;
        self.resume_waiters(thread, resumed);
        for index in 0..self.threads.len() {
            if self.threads[index].origin == ThreadOrigin::CreatedBy(thread) {
                self.start_thread(ThreadId::from_index(index), resumed);
            }
        }
    }

    /// Whether `thread` waits for another one.
    pub fn is_waiting(&self, thread: ThreadId) -> bool {
        self.threads[thread.index()].awaits.is_some()
    }

    /// Whether `thread` waits for another one, to be woken or to be created by it.
    pub fn is_held(&self, thread: ThreadId) -> bool {
        self.is_waiting(thread) || !self.threads[thread.index()].has_started
    }

    /// Whether every thread of the run has ended.
    pub fn is_done(&self) -> bool {
        self.threads.iter().all(|thread| thread.has_ended)
    }

    /// One sentence for each thread that cannot go on; for the error when nothing can run.
    pub fn explain_deadlock(&self) -> String {
        let mut text = String::new();
        for (index, thread) in self.threads.iter().enumerate() {
            let name = ThreadId::from_index(index);
            let written = match (thread.awaits, thread.origin) {
                _ if thread.has_ended => Ok(()),
                (Some(Await::End(other)), _) => {
                    writeln!(text, "{name} waits for the end of {other}.")
                }
                (Some(Await::Wake(wake)), _) => writeln!(
                    text,
                    "{name} waits for wake {} of {}, which has made {}.",
                    wake.count,
                    wake.thread,
                    self.threads[wake.thread.index()].wake_count
                ),
                (None, ThreadOrigin::CreatedBy(creator)) if !thread.has_started => {
                    writeln!(text, "{name} has not been created by {creator}.")
                }
                (None, _) => writeln!(text, "{name} waits for no thread."),
            };
            written.expect("text can be written to a string");
        }
        text
    }

    /// Checks the invariants S5 and S6 of `docs/os.md`; panics at the first that does not hold.
    pub fn audit(&self) {
        let mut listed = 0;
        for index in 0..self.threads.len() {
            let awaited = ThreadId::from_index(index);
            let mut next = self.threads[index].first_waiter;
            while let Some(waiter) = next {
                let awaits = self.threads[waiter.index()].awaits;
                let awaits = awaits.expect("a listed thread waits");
                assert_eq!(target(awaits), awaited, "{waiter} is listed where it waits");
                assert!(
                    !self.is_satisfied(awaits),
                    "{waiter} waits for something to come"
                );
                listed += 1;
                next = self.threads[waiter.index()].next_waiter;
            }
        }
        let waiting = self.threads.iter().filter(|thread| thread.awaits.is_some());
        assert_eq!(
            waiting.count(),
            listed,
            "every waiting thread is listed once"
        );
    }
}

/// The thread that ends the wait.
fn target(awaits: Await) -> ThreadId {
    match awaits {
        Await::Wake(wake) => wake.thread,
        Await::End(thread) => thread,
    }
}

impl SyncEngine {
    fn is_absent(&self, thread: ThreadId) -> bool {
        let entry = self.threads.get(thread.index());
        entry.is_none_or(|entry| entry.origin == ThreadOrigin::Absent)
    }

    fn is_satisfied(&self, awaits: Await) -> bool {
        let Some(other) = self.threads.get(target(awaits).index()) else {
            return true;
        };
        match awaits {
            Await::Wake(wake) => other.has_ended || other.wake_count >= wake.count,
            Await::End(_) => other.has_ended,
        }
    }

    fn start_thread(&mut self, thread: ThreadId, resumed: &mut Vec<ThreadId>) {
        if self.is_absent(thread) || self.threads[thread.index()].has_started {
            return;
        }
        self.threads[thread.index()].has_started = true;
        resumed.push(thread);
    }

    fn wait_for(&mut self, thread: ThreadId, awaits: Await) -> Action {
        let other = target(awaits);
        // A thread cannot wake itself: such an edge says only that the wait is over.
        if other == thread || self.is_satisfied(awaits) {
            return Action::Continue {
                cost: self.syscall_cost,
            };
        }
        let entry = &mut self.threads[thread.index()];
        entry.awaits = Some(awaits);
        entry.next_waiter = None;
        self.append_waiter(other, thread);
        Action::Block
    }

    fn append_waiter(&mut self, awaited: ThreadId, waiter: ThreadId) {
        match self.threads[awaited.index()].last_waiter {
            Some(last) => self.threads[last.index()].next_waiter = Some(waiter),
            None => self.threads[awaited.index()].first_waiter = Some(waiter),
        }
        self.threads[awaited.index()].last_waiter = Some(waiter);
    }

    /// Takes out of the list of `awaited` whoever need not wait any more.
    fn resume_waiters(&mut self, awaited: ThreadId, resumed: &mut Vec<ThreadId>) {
        let entry = &mut self.threads[awaited.index()];
        let mut next = entry.first_waiter.take();
        entry.last_waiter = None;
        while let Some(waiter) = next {
            next = self.threads[waiter.index()].next_waiter.take();
            let awaits = self.threads[waiter.index()].awaits;
            if awaits.is_some_and(|awaits| self.is_satisfied(awaits)) {
                self.threads[waiter.index()].awaits = None;
                resumed.push(waiter);
            } else {
                self.append_waiter(awaited, waiter);
            }
        }
    }
}

#[cfg(test)]
mod tests;
