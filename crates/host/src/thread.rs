//! A captured thread as a core's source of instructions.

use crate::port::{Access, InstructionSource, Step};
use crate::program::Program;
use std::sync::Arc;
use trace::{MemAccess, SyncEvent, ThreadCursor};
use units::Lpa;

/// A thread of a capture, placed in the run's canonical pages.
pub struct TracedThread {
    cursor: ThreadCursor,
    program: Arc<Program>,
    /// First byte of the capture's pages among the run's: not zero in a co-run (D3).
    first_byte: u64,
}

impl TracedThread {
    /// The thread of `cursor`, whose capture's instructions are `program` and whose capture's
    /// pages begin at `first_page`.
    pub fn new(cursor: ThreadCursor, program: Arc<Program>, first_page: Lpa) -> Self {
        Self {
            cursor,
            program,
            first_byte: first_page.get() << 12,
        }
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
    #[inline]
    fn peek(&mut self) -> Option<Step> {
        let first_byte = self.first_byte;
        let place = |access: MemAccess| Access {
            byte: access.addr.get() + first_byte,
            size: access.bytes,
        };
        self.cursor.peek().map(|piece| Step {
            inst: piece.inst().get(),
            load: piece.load().map(place),
            store: piece.store().map(place),
            taken: piece.taken(),
            counts: piece.counts(),
            has_sync: piece.has_sync(),
        })
    }
    #[inline]
    fn sync(&mut self) -> Option<SyncEvent> {
        self.cursor.peek().and_then(|piece| piece.sync())
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
