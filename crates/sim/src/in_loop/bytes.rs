//! The bytes of a firmware process: eight for each line, its value.

use super::on_drive::OnDrive;
use ::firmware::{Cell, NandFault, NandOp, NandTag, PagePlace, Record};
use hashbrown::HashMap;
use nand::{Day, Fault};
use rustc_hash::FxBuildHasher;
use soc::{Begun, DataPlane, GivenTimes, fault_of};
use units::{LineInPage, LineMask, Lpa, Ppa, RequestId};

type Map<K, V> = HashMap<K, V, FxBuildHasher>;

/// What is in device DRAM, on flash, and on its way. What was never written is zero.
#[derive(Debug, Default)]
pub(crate) struct LineBytes {
    lines: usize,
    log: Vec<u64>,
    frames: Vec<Vec<u64>>,
    buffers: Vec<Vec<u64>>,
    host: Map<RequestId, Vec<u64>>,
    /// With a drive: what is on its way there.
    flash: Map<Ppa, Vec<u64>>,
    drive: Option<Box<OnDrive>>,
    /// What reads of the drive have brought.
    fetched: Map<NandTag, Vec<u64>>,
    /// Reads under way.
    reads: Map<NandTag, Ppa>,
    /// What the read that is being told of has fetched.
    register: Vec<u64>,
}

impl LineBytes {
    /// Of a device with pages of so many lines.
    pub(crate) fn new(lines: usize) -> Self {
        Self {
            lines,
            ..Self::default()
        }
    }

    /// From now on the flash is a drive.
    pub(crate) fn move_to(&mut self, mut drive: Box<OnDrive>) {
        drive.store(&mut self.flash);
        self.drive = Some(drive);
    }

    /// The drive, if the flash is one.
    pub(crate) fn drive(&mut self) -> Option<&mut OnDrive> {
        self.drive.as_deref_mut()
    }

    /// The drive is somebody else's again.
    pub(crate) fn take_drive(&mut self) -> Option<Box<OnDrive>> {
        self.drive.take()
    }

    /// A request comes with this.
    pub(crate) fn bring(&mut self, request: RequestId, value: u64) {
        let payload = self.host.entry(request).or_default();
        payload.clear();
        payload.push(value);
    }

    /// A request is over: what it has.
    pub(crate) fn take(&mut self, request: RequestId) -> u64 {
        let payload = self.host.get_mut(&request);
        let value = payload
            .as_ref()
            .and_then(|payload| payload.first().copied());
        payload.into_iter().for_each(Vec::clear);
        value.unwrap_or_default()
    }

    fn page(&self, place: PagePlace) -> Option<&Vec<u64>> {
        match place {
            PagePlace::Frame(frame) => self.frames.get(frame.index()),
            PagePlace::Buffer(buffer) => self.buffers.get(buffer.index()),
            PagePlace::Host(request) => self.host.get(&request),
            PagePlace::Register(_) => Some(&self.register),
            PagePlace::Zero => None,
        }
    }

    fn page_mut(&mut self, place: PagePlace) -> &mut Vec<u64> {
        let at = |pages: &mut Vec<Vec<u64>>, index: usize| {
            if pages.len() <= index {
                pages.resize(index + 1, Vec::new());
            }
        };
        match place {
            PagePlace::Frame(frame) => {
                at(&mut self.frames, frame.index());
                &mut self.frames[frame.index()]
            }
            PagePlace::Buffer(buffer) => {
                at(&mut self.buffers, buffer.index());
                &mut self.buffers[buffer.index()]
            }
            PagePlace::Host(request) => self.host.entry(request).or_default(),
            PagePlace::Register(_) | PagePlace::Zero => unreachable!("only a source"),
        }
    }

    fn of(&self, cell: Cell) -> u64 {
        let of_page = |place, line: LineInPage| {
            let page = self.page(place);
            page.and_then(|page| page.get(line.index()).copied())
        };
        let value = match cell {
            Cell::Host(request) => of_page(PagePlace::Host(request), LineInPage::new(0)),
            Cell::HostLine(request, line) => of_page(PagePlace::Host(request), line),
            Cell::Log(slot) => self.log.get(slot.index()).copied(),
            Cell::Page(place, line) => of_page(place, line),
            Cell::Window(_) => unreachable!("a simulated host has no window"),
        };
        value.unwrap_or_default()
    }

    fn put(&mut self, cell: Cell, value: u64) {
        let put = |page: &mut Vec<u64>, index: usize| {
            if page.len() <= index {
                page.resize(index + 1, 0);
            }
            page[index] = value;
        };
        match cell {
            Cell::Host(request) => put(self.page_mut(PagePlace::Host(request)), 0),
            Cell::HostLine(request, line) => {
                put(self.page_mut(PagePlace::Host(request)), line.index());
            }
            Cell::Log(slot) => put(&mut self.log, slot.index()),
            Cell::Page(place, line) => put(self.page_mut(place), line.index()),
            Cell::Window(_) => unreachable!("a simulated host has no window"),
        }
    }

    fn whole(&self, place: PagePlace) -> Vec<u64> {
        let mut page = self.page(place).cloned().unwrap_or_default();
        page.resize(self.lines, 0);
        page
    }
}

impl DataPlane for LineBytes {
    fn copy_line(&mut self, from: Cell, to: Cell) {
        let value = self.of(from);
        self.put(to, value);
    }

    fn copy_page(&mut self, from: PagePlace, to: PagePlace, lines: LineMask) {
        for line in lines.iter() {
            let value = self.of(Cell::Page(from, line));
            self.put(Cell::Page(to, line), value);
        }
    }

    fn load_unit(&mut self, ppa: Ppa, _lpa: Lpa, from: PagePlace) {
        let page = self.whole(from);
        self.flash.insert(ppa, page);
    }

    fn nand_begins(&mut self, tag: NandTag, op: &NandOp) {
        match *op {
            NandOp::Read { ppa } => {
                if self.drive.is_none() {
                    self.reads.insert(tag, ppa);
                }
            }
            NandOp::Program { ppa, lpa, from } => self.load_unit(ppa, lpa, from),
            // Nothing reads what is not programmed anew.
            NandOp::Erase { .. } => {}
        }
    }

    fn perform(&mut self, begun: &[Begun], times: &mut GivenTimes) {
        let Some(drive) = self.drive.as_deref_mut() else {
            return;
        };
        let before = drive.took.len();
        let fetched = &mut self.fetched;
        drive.perform(begun, &mut self.flash, |begun, values| {
            fetched.insert(begun.tag, values);
        });
        let took = drive.took[before..].iter();
        took.for_each(|(what, time)| times.give(*what, *time));
    }

    fn nand_done(&mut self, tag: NandTag, fault: Option<Fault>) -> Option<NandFault> {
        if let Some(fetched) = self.fetched.remove(&tag) {
            self.register = fetched;
        }
        if let Some(ppa) = self.reads.remove(&tag) {
            self.register = self.flash.get(&ppa).cloned().unwrap_or_default();
        }
        fault.map(fault_of)
    }

    fn nand_brings(&mut self, tag: NandTag) -> bool {
        let fetched = self.reads.get(&tag).and_then(|ppa| self.flash.get(ppa));
        self.register = fetched.cloned().unwrap_or_default();
        true
    }

    fn nand_ends(&mut self) {
        self.register.clear();
    }

    fn is_poisoned(&self, _request: RequestId) -> bool {
        false
    }
    fn record(&mut self, _record: Record, _today: Day) {}
    fn failure(&self) -> Option<&str> {
        self.drive.as_ref()?.failure.as_deref()
    }
    fn open_buffer(&mut self, _command: usize, _size: usize, _from: &[u8], _offset: usize) {}
    fn place(&mut self, _request: RequestId, _command: usize, _offset: usize, _lines: u64) {}
    fn buffer(&mut self, _command: usize) -> Option<&mut [u8]> {
        None
    }
}
