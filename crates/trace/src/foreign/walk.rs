//! A thread's instructions as an exporter wants them: whole, with virtual addresses and what comes
//! next, from a window of the thread.

use super::ExportOptions;
use crate::container::VirtualPage;
use crate::cursor::ThreadCursor;
use crate::dictionary::AccessKind;
use crate::dynamic::{CanonicalAddr, SyncEvent};
use crate::file::{Thread, TraceFile};
use crate::inst::Inst;
use crate::writer::Operand;
use units::ThreadId;

/// The part of a thread that is exported, in instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Window {
    /// Instructions left out at the start.
    pub(super) skip: u64,
    /// Instructions after that.
    pub(super) count: u64,
}

impl Window {
    /// The window of `thread` under `options`.
    pub(super) fn of(trace: &TraceFile, thread: ThreadId, options: &ExportOptions) -> Self {
        let all = trace.threads()[thread.index()].instructions;
        let skip = options.skip.of(all);
        let wanted = options.limit.map_or(all, |limit| limit.of(all));
        Self {
            skip,
            count: wanted.min(all - skip),
        }
    }
}

/// Refuses a part that is of no thread, or that holds nothing.
pub(super) fn check(trace: &TraceFile, options: &ExportOptions) -> Result<(), String> {
    let threads = trace.threads();
    if let Some(asked) = options.thread.filter(|t| t.index() >= threads.len()) {
        return Err(format!(
            "cannot be written: the capture has {} threads, and none has number {}",
            threads.len(),
            asked.index()
        ));
    }
    let mut wanted = threads
        .iter()
        .filter(|thread| options.thread.is_none_or(|only| only == thread.id));
    if wanted.all(|thread| Window::of(trace, thread.id, options).count == 0) {
        return Err("would hold no instruction; choose a smaller --skip, a larger --limit".into());
    }
    Ok(())
}

/// One executed instruction.
pub(super) struct Step<'a> {
    /// The static instruction.
    pub(super) inst: Inst,
    /// Its loads and stores in order; an update is a load and a store of the same bytes.
    pub(super) accesses: &'a [(AccessKind, Operand)],
    /// Whether a branch was taken.
    pub(super) taken: bool,
    /// Where the thread goes on, if it does.
    pub(super) next: Option<u64>,
    /// What a system call did.
    pub(super) sync: Option<SyncEvent>,
}

/// Walks the window of a thread.
pub(super) struct Walk {
    trace: TraceFile,
    cursor: ThreadCursor,
    left: u64,
    accesses: Vec<(AccessKind, Operand)>,
}

impl Walk {
    pub(super) fn new(trace: &TraceFile, thread: ThreadId, window: Window) -> Self {
        let mut cursor = trace.cursor(thread);
        if window.skip > 0 {
            cursor.seek(window.skip);
        }
        Self {
            trace: trace.clone(),
            cursor,
            left: window.count,
            accesses: Vec::new(),
        }
    }
    /// The next instruction of the window.
    pub(super) fn step(&mut self) -> Option<Step<'_>> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        self.accesses.clear();
        let last = loop {
            let piece = self.cursor.take()?;
            let pages = self.trace.pages();
            for (kind, access) in [
                (AccessKind::Load, piece.load()),
                (AccessKind::Store, piece.store()),
            ] {
                let operand = access.map(|access| (virtual_addr(pages, access.addr), access.bytes));
                self.accesses.extend(operand.map(|operand| (kind, operand)));
            }
            if piece.counts() {
                break piece;
            }
        };
        let next = self.cursor.peek().map(|next| next.inst());
        Some(Step {
            inst: *self.trace.inst(last.inst()),
            accesses: &self.accesses,
            taken: last.taken(),
            next: next.map(|next| self.trace.inst(next).pc),
            sync: last.sync(),
        })
    }
}

/// The program's own address.
fn virtual_addr(pages: &[VirtualPage], addr: CanonicalAddr) -> u64 {
    let page = pages[(addr.get() >> 12) as usize].page;
    page << 12 | u64::from(addr.offset())
}

/// When each thread starts, in instructions of the first one: of a thread that another created, the
/// creator's start and what it had executed by then.
pub(super) fn births(trace: &TraceFile) -> Vec<u64> {
    let mut births = vec![0_u64; trace.threads().len()];
    let mut creator = vec![None; births.len()];
    for thread in trace.threads() {
        let ends = |child: &Thread| child.parent == Some(thread.id);
        let mut children = trace.threads().iter().filter(|t| ends(t)).count();
        let mut walk = Walk::new(
            trace,
            thread.id,
            Window {
                skip: 0,
                count: u64::MAX,
            },
        );
        let mut executed = 0;
        while children > 0 {
            let Some(step) = walk.step() else { break };
            executed += 1;
            if let Some(SyncEvent::ThreadCreate { child }) = step.sync {
                births[child.index()] = executed;
                creator[child.index()] = Some(thread.id);
                children -= 1;
            }
        }
    }
    // A thread is created by one that exists, so a chain of creators ends.
    (0..births.len())
        .map(|thread| {
            let (mut sum, mut at) = (births[thread], creator[thread]);
            for _ in 0..births.len() {
                let Some(parent) = at else { break };
                sum += births[parent.index()];
                at = creator[parent.index()];
            }
            sum
        })
        .collect()
}
