//! Bugs of copies: bytes that are left behind, stale, or put over newer ones.

use super::{Action, Bug, Sabotage};
use firmware::{BufferId, Cell, PagePlace, Platform, Record, Served};
use std::collections::BTreeMap;
use units::{FrameId, Lpa};

/// What has been copied so far.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// The frame that has just been given a page: what is copied to it next belongs to its fill.
    filled: Option<FrameId>,
    /// A commit has been recorded and not been answered.
    is_committing: bool,
    /// Buffers by what they hold, each page's in order of their writes.
    buffers: BTreeMap<Lpa, Vec<BufferId>>,
}

impl Copies {
    pub(super) fn is_committing(&self) -> bool {
        self.is_committing
    }

    pub(super) fn learn(&mut self, action: Action) {
        match action {
            Action::CopyLine(Cell::Log(_), Cell::Page(PagePlace::Frame(frame), _))
                if self.filled == Some(frame) => {}
            Action::CopyPage(_, PagePlace::Frame(frame), _) => self.filled = Some(frame),
            _ => self.filled = None,
        }
        match action {
            Action::Record(Record::Committed { .. }) => self.is_committing = true,
            Action::Respond(_) => self.is_committing = false,
            Action::CopyPage(_, PagePlace::Buffer(buffer), _) => {
                for held in self.buffers.values_mut() {
                    held.retain(|other| *other != buffer);
                }
            }
            Action::Record(Record::Buffered(buffer, page)) => {
                self.buffers.entry(page.lpa).or_default().push(buffer);
            }
            _ => {}
        }
    }

    /// An older buffer of the page that this one holds, if there is one.
    fn older(&self, buffer: BufferId) -> BufferId {
        let held = self.buffers.values().find(|held| held.contains(&buffer));
        held.map_or(buffer, |held| held[0])
    }
}

impl<P: Platform> Sabotage<P> {
    pub(super) fn spoil_copies(&mut self, bug: Bug, action: Action) {
        if let Some(action) = self.spoiled(bug, action) {
            self.pass(action);
        }
    }

    /// What the firmware with the bug does in place of an action.
    fn spoiled(&self, bug: Bug, action: Action) -> Option<Action> {
        match action {
            Action::CopyLine(Cell::Log(slot), to) => match to {
                Cell::Page(PagePlace::Frame(frame), _) => {
                    let is_fill = self.copies.filled == Some(frame);
                    match bug {
                        Bug::FillUnmerged if is_fill => None,
                        Bug::FetchUnmerged if !is_fill => None,
                        _ => Some(action),
                    }
                }
                Cell::Host(_) | Cell::HostLine(..) if bug == Bug::ReadFromStaleSlot => {
                    Some(Action::CopyLine(Cell::Log(self.before(slot)), to))
                }
                Cell::Log(_) if bug == Bug::MigratedWithoutBytes => None,
                _ => Some(action),
            },
            Action::CopyLine(Cell::Page(PagePlace::Buffer(buffer), line), to) => {
                let from = self.taken_from(bug, buffer);
                Some(Action::CopyLine(Cell::Page(from, line), to))
            }
            Action::CopyPage(PagePlace::Buffer(buffer), to, lines) => {
                Some(Action::CopyPage(self.taken_from(bug, buffer), to, lines))
            }
            Action::CopyPage(from, to @ PagePlace::Frame(_), _) if bug == Bug::FillOverwrites => {
                Some(Action::CopyPage(from, to, self.all_lines))
            }
            Action::CopyPage(from, to @ PagePlace::Buffer(_), lines) => {
                let is_move = self.is_gc_buffer(to);
                let is_eviction = matches!(from, PagePlace::Frame(_));
                match bug {
                    Bug::MoveUnfilled if is_move => None,
                    Bug::EvictedUnwritten if is_eviction => None,
                    Bug::RestForgotten if !is_move && matches!(from, PagePlace::Register(_)) => {
                        Some(Action::CopyPage(PagePlace::Zero, to, lines))
                    }
                    _ => Some(action),
                }
            }
            Action::Respond(response)
                if bug == Bug::WaiterForgotten && response.served == Served::MergedMiss =>
            {
                None
            }
            _ => Some(action),
        }
    }

    /// Where the firmware with the bug finds the page that is in a buffer.
    fn taken_from(&self, bug: Bug, buffer: BufferId) -> PagePlace {
        match bug {
            Bug::BufferUnseen => PagePlace::Zero,
            Bug::OlderBufferFound => PagePlace::Buffer(self.copies.older(buffer)),
            _ => PagePlace::Buffer(buffer),
        }
    }
}
