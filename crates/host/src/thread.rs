//! A captured thread as a core's source of instructions.

use crate::port::{Access, InstructionSource, Step};
use crate::program::Program;
use std::sync::Arc;
use trace::{SyncEvent, ThreadCursor, Wake};
use units::{Lpa, ThreadId};

/// Where a capture lies in a run: not at zero for the second program of a co-run (D3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin {
    /// The capture's first page among the run's canonical pages.
    pub page: Lpa,
    /// The capture's first thread among the run's.
    pub thread: ThreadId,
}

impl Origin {
    /// A capture that runs alone.
    pub const ALONE: Self = Self {
        page: Lpa::new(0),
        thread: ThreadId::new(0),
    };

    /// The run's name of a thread of the capture.
    pub fn thread(self, thread: ThreadId) -> ThreadId {
        ThreadId::new(self.thread.get() + thread.get())
    }

    /// An event with the run's names of threads. Futexes need none: edges name threads (D1).
    fn event(self, event: SyncEvent) -> SyncEvent {
        match event {
            SyncEvent::ThreadCreate { child } => SyncEvent::ThreadCreate {
                child: self.thread(child),
            },
            SyncEvent::Join { child } => SyncEvent::Join {
                child: self.thread(child),
            },
            SyncEvent::FutexWait { futex, woken_by } => SyncEvent::FutexWait {
                futex,
                woken_by: woken_by.map(|wake| Wake {
                    thread: self.thread(wake.thread),
                    ..wake
                }),
            },
            SyncEvent::ThreadExit | SyncEvent::FutexWake { .. } | SyncEvent::Syscall { .. } => {
                event
            }
        }
    }
}

/// A thread of a capture, placed in the run's canonical pages and threads.
#[derive(Clone)]
pub struct TracedThread {
    cursor: ThreadCursor,
    program: Arc<Program>,
    origin: Origin,
}

impl TracedThread {
    /// The thread of `cursor`, from which nothing has been read, whose capture's instructions are
    /// `program` and whose capture lies at `origin`.
    pub fn new(cursor: ThreadCursor, program: Arc<Program>, origin: Origin) -> Self {
        Self {
            cursor: cursor.placed_behind(origin.page.get()),
            program,
            origin,
        }
    }
    /// The same thread, of whose sync events only creation and exit of threads are seen
    /// (`os.edges = ignored`).
    #[must_use]
    pub fn ignoring_edges(self) -> Self {
        Self {
            cursor: self.cursor.ignoring_edges(),
            ..self
        }
    }
    /// The same thread, of whose accesses only the first byte is seen, and so one line
    /// (`cpu.split_accesses`).
    #[must_use]
    pub fn in_one_line(self) -> Self {
        Self {
            cursor: self.cursor.in_one_line(),
            ..self
        }
    }
    /// The capture's instructions.
    pub fn shared_program(&self) -> Arc<Program> {
        Arc::clone(&self.program)
    }
    /// The cursor, to read errors from or to seek before the run.
    pub fn cursor(&mut self) -> &mut ThreadCursor {
        &mut self.cursor
    }
}

impl InstructionSource for TracedThread {
    #[inline]
    fn program(&self) -> &Program {
        &self.program
    }
    // As `Core::execute`.
    #[inline(always)]
    fn peek(&mut self) -> Option<Step> {
        let access = |(byte, size)| Access::new(byte, size);
        self.cursor.peek().map(|piece| Step {
            inst: piece.inst().get(),
            load: access(piece.load_parts()),
            store: access(piece.store_parts()),
            taken: piece.taken(),
            counts: piece.counts(),
            has_sync: piece.has_sync(),
        })
    }
    #[inline]
    fn sync(&mut self) -> Option<SyncEvent> {
        let event = self.cursor.peek().and_then(|piece| piece.sync());
        event.map(|event| self.origin.event(event))
    }
    #[inline]
    fn advance(&mut self) {
        self.cursor.advance();
    }
    #[inline]
    fn position(&self) -> u64 {
        self.cursor.position()
    }
    fn rewind_to(&mut self, position: u64) {
        self.cursor.rewind_to(position);
    }
}
