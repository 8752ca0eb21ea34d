//! Which bytes are poison, for a platform that has bytes.
//!
//! The firmware moves poison like any bytes ([`Platform::is_poisoned`]). Where a line has no room
//! for a mark of its own, this keeps the marks: by place, the lines that are poison. Next to none
//! are, so a copy costs a look whether there are any. What survives a power cut the platform keeps
//! itself: the marks of a page in its spare area, [`PoisonMarks::of`] its source when it is
//! programmed, put into the register with [`PoisonMarks::mark`] when it is read.
//!
//! [`Platform::is_poisoned`]: crate::Platform::is_poisoned

use crate::platform::{Cell, PagePlace};
use alloc::collections::BTreeMap;
use units::{LineInPage, LineMask, RequestId};

/// The lines that are poison, by place.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PoisonMarks {
    places: BTreeMap<PagePlace, LineMask>,
}

impl PoisonMarks {
    /// These lines of the place are poison, and no others.
    pub fn mark(&mut self, place: PagePlace, lines: LineMask) {
        if lines.is_empty() {
            self.places.remove(&place);
        } else {
            self.places.insert(place, lines);
        }
    }

    /// The lines of the place that are poison.
    #[inline]
    pub fn of(&self, place: PagePlace) -> LineMask {
        if self.places.is_empty() {
            return LineMask::EMPTY;
        }
        self.places.get(&place).copied().unwrap_or(LineMask::EMPTY)
    }

    /// A line is copied ([`Platform::copy_line`](crate::Platform::copy_line)).
    #[inline]
    pub fn copy_line(&mut self, from: Cell, to: Cell) {
        if !self.places.is_empty() {
            let is_poison =
                line_of(from).is_some_and(|(place, line)| self.of(place).contains(line));
            if let Some((place, line)) = line_of(to) {
                self.set(place, line, is_poison);
            }
        }
    }

    /// Lines of a page are copied ([`Platform::copy_page`](crate::Platform::copy_page)).
    #[inline]
    pub fn copy_page(&mut self, from: PagePlace, to: PagePlace, lines: LineMask) {
        if !self.places.is_empty() {
            let poison = self.of(from);
            for line in lines.iter() {
                self.set(to, line, poison.contains(line));
            }
        }
    }

    /// Whether a line of the payload is poison ([`Platform::is_poisoned`](crate::Platform)).
    #[inline]
    pub fn is_poisoned(&self, request: RequestId) -> bool {
        !self.of(PagePlace::Host(request)).is_empty()
    }

    #[cold]
    fn set(&mut self, place: PagePlace, line: LineInPage, is_poison: bool) {
        let mut lines = self.of(place);
        let is_changed = match is_poison {
            true => lines.insert(line),
            false => lines.remove(line),
        };
        if is_changed {
            self.mark(place, lines);
        }
    }
}

/// Where a line is; a slot of the log and a line of the window are never poison, for they hold what
/// the host has sent.
fn line_of(cell: Cell) -> Option<(PagePlace, LineInPage)> {
    match cell {
        Cell::Log(_) | Cell::Window(_) => None,
        Cell::Host(request) => Some((PagePlace::Host(request), LineInPage::new(0))),
        Cell::HostLine(request, line) => Some((PagePlace::Host(request), line)),
        Cell::Page(place, line) => Some((place, line)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::{BufferId, NandTag};
    use units::{FrameId, LogSlot, PageSize};

    const REGISTER: PagePlace = PagePlace::Register(NandTag::new(1));
    const FRAME: PagePlace = PagePlace::Frame(FrameId::new(2));
    const BUFFER: PagePlace = PagePlace::Buffer(BufferId::new(3));
    const HOST: RequestId = RequestId::new(4);

    fn line(number: u16) -> LineInPage {
        LineInPage::new(number)
    }

    fn all() -> LineMask {
        LineMask::full(PageSize::KIB_4)
    }

    fn failed_read() -> PoisonMarks {
        let mut marks = PoisonMarks::default();
        marks.mark(REGISTER, all());
        marks
    }

    #[test]
    fn compaction_puts_good_lines_over_poison_and_the_rest_stays() {
        let mut marks = failed_read();
        let mut logged = LineMask::EMPTY;
        logged.insert(line(5));
        marks.copy_page(REGISTER, BUFFER, all().without(logged));
        marks.copy_line(Cell::Log(LogSlot::new(0)), Cell::Page(BUFFER, line(5)));
        assert_eq!(marks.of(BUFFER), all().without(logged));
        marks.copy_line(Cell::Log(LogSlot::new(1)), Cell::Page(BUFFER, line(6)));
        assert!(!marks.of(BUFFER).contains(line(6)));
    }

    #[test]
    fn a_read_of_a_poisoned_line_and_no_other_is_poison() {
        let mut marks = failed_read();
        marks.copy_page(REGISTER, FRAME, all());
        marks.mark(REGISTER, LineMask::EMPTY);
        marks.copy_line(Cell::Host(HOST), Cell::Page(FRAME, line(7)));
        marks.copy_line(Cell::Page(FRAME, line(7)), Cell::Host(HOST));
        assert!(!marks.is_poisoned(HOST));
        marks.copy_line(Cell::Page(FRAME, line(8)), Cell::HostLine(HOST, line(1)));
        assert!(marks.is_poisoned(HOST));
    }

    #[test]
    fn a_page_written_whole_leaves_no_mark() {
        let mut marks = failed_read();
        marks.copy_page(REGISTER, FRAME, all());
        marks.copy_page(PagePlace::Host(HOST), FRAME, all());
        marks.copy_page(PagePlace::Zero, REGISTER, all());
        assert_eq!(marks, PoisonMarks::default());
    }
}
