//! What a power cut may leave: the contract of [`port::Device`], and nothing that a device adds.
//!
//! Behind each event of a journal there are bytes that survive for certain, and *units* that may
//! have happened or not, each by itself:
//! - a store under no transaction from its submission until a `persist` or `flush` that was
//!   submitted behind its answer is answered: line by line;
//! - a store to the window from its submission until a `persist_pmem` that was submitted behind its
//!   answer is answered: line by line;
//! - a block write or trim from its submission until its answer where the block port's domain is
//!   the device, or until a `flush` submitted behind its answer is answered where it is the flash
//!   and the write was not durable: block by block. A trim until its answer too where the byte
//!   port's domain is the device;
//! - a commit from its submission until its answer: all lines of its transaction or none.
//!
//! Stores of a transaction whose commit was not submitted, or that was aborted, have not happened.
//! A request that failed may have happened for ever. Requests that overlap are done in the order of
//! submission, a transaction's when it commits: an older one leaves no byte under a newer one that
//! happened. A `drain` promises nothing about what was not answered for before. Reads change
//! nothing.

use crate::crash::image::{Image, LINE};
use crate::crash::journal::{Event, RequestNo};
use port::{Acknowledge, Command, PersistenceDomain, Shape};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What of a unit may have happened without the rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grain {
    /// Nothing.
    Whole,
    /// So many bytes.
    Bytes(usize),
}

/// A request that may have happened.
#[derive(Clone, Debug)]
pub struct Unit {
    /// Which one.
    pub request: RequestNo,
    /// What of it may have happened alone.
    pub grain: Grain,
    /// Places and bytes.
    parts: Vec<Part>,
    /// Its place in the order of requests.
    order: u64,
    /// It was answered by the event of this number.
    answered: Option<u64>,
    /// What makes it certain.
    certain: Certain,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Certain {
    Answer,
    Persist,
    Flush,
    /// In the window.
    PersistPmem,
}

#[derive(Clone, Debug)]
struct Part {
    at: usize,
    bytes: Arc<[u8]>,
}

/// What survives and what may.
#[derive(Clone, Debug)]
pub struct Power {
    image: Image,
    /// By line: the order of what was last written there for certain, while anything is uncertain.
    newest: BTreeMap<usize, u64>,
    units: Vec<Unit>,
    /// By number: stores of open transactions.
    transactions: BTreeMap<u32, Vec<Part>>,
    /// Barriers under way, and the order of their submission.
    barriers: BTreeMap<RequestNo, (Command, u64)>,
    events: u64,
    block: usize,
    /// Where the window begins.
    window: usize,
    stores_reach_device: bool,
    blocks_reach_device: bool,
}

impl Power {
    /// A device of this shape with these bytes, which survive.
    pub fn new(image: Image, shape: &Shape) -> Self {
        Self {
            image,
            newest: BTreeMap::new(),
            units: Vec::new(),
            transactions: BTreeMap::new(),
            barriers: BTreeMap::new(),
            events: 0,
            block: shape.block.get() as usize,
            window: shape.capacity.get() as usize,
            stores_reach_device: shape.byte_domain == PersistenceDomain::Device,
            blocks_reach_device: shape.block_domain == PersistenceDomain::Device,
        }
    }

    /// What may have happened, oldest first.
    pub fn units(&self) -> &[Unit] {
        &self.units
    }

    /// The bytes that survive if nothing happened that need not have.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// The bytes if of each unit those grains happened that `happened` says, by the unit's place
    /// in [`Power::units`] and the grain's place in its part.
    pub fn image_with(&self, mut happened: impl FnMut(usize, usize) -> bool) -> Image {
        let mut image = self.image.clone();
        for (number, unit) in self.units.iter().enumerate() {
            let Grain::Bytes(grain) = unit.grain else {
                if happened(number, 0) {
                    for part in &unit.parts {
                        self.put(&mut image, unit.order, part.at, &part.bytes);
                    }
                }
                continue;
            };
            let pieces = unit
                .parts
                .iter()
                .flat_map(|part| cut(part.at, &part.bytes, grain));
            for (grain, (at, bytes)) in pieces.enumerate() {
                if happened(number, grain) {
                    self.put(&mut image, unit.order, at, bytes);
                }
            }
        }
        image
    }

    /// Writes where nothing newer is.
    fn put(&self, image: &mut Image, order: u64, at: usize, bytes: &[u8]) {
        if self.newest.is_empty() {
            image.write(at, bytes);
            return;
        }
        let part = (at, bytes);
        for (at, bytes) in lines(part) {
            if self
                .newest
                .get(&(at / LINE))
                .is_none_or(|newest| *newest <= order)
            {
                image.write(at, bytes);
            }
        }
    }

    /// Lines of which it is uncertain what they hold.
    pub fn uncertain_lines(&self) -> BTreeSet<usize> {
        let parts = self.units.iter().flat_map(|unit| &unit.parts);
        let lines = parts.flat_map(|part| lines((part.at, &part.bytes)));
        lines.map(|(at, _)| at / LINE).collect()
    }

    /// The next event.
    pub fn apply(&mut self, event: &Event) {
        self.events += 1;
        match event {
            Event::Submitted {
                request,
                command,
                at,
                size,
                bytes,
            } => self.submitted(*request, *command, (*at as usize, *size as usize), bytes),
            Event::Finished { request, is_ok } => self.finished(*request, *is_ok),
            Event::Began(_) | Event::Ended(_) => {}
        }
    }

    fn submitted(
        &mut self,
        request: RequestNo,
        command: Command,
        (at, size): (usize, usize),
        bytes: &Arc<[u8]>,
    ) {
        let part = |bytes: Arc<[u8]>| vec![Part { at, bytes }];
        let by_line = Grain::Bytes(LINE);
        let by_block = Grain::Bytes(self.block);
        let of_block = match self.blocks_reach_device {
            true => Certain::Answer,
            false => Certain::Flush,
        };
        let (grain, parts, certain) = match command {
            Command::Write(tx) if command.transaction().is_some() => {
                let writes = self.transactions.entry(tx.get()).or_default();
                writes.append(&mut part(Arc::clone(bytes)));
                return;
            }
            Command::Write(_) | Command::WriteLines => {
                let certain = match at < self.window {
                    true => Certain::Persist,
                    false => Certain::PersistPmem,
                };
                (by_line, part(Arc::clone(bytes)), certain)
            }
            Command::WriteBlocks(Acknowledge::Durable) => {
                (by_block, part(Arc::clone(bytes)), Certain::Answer)
            }
            Command::WriteBlocks(Acknowledge::Accepted) => {
                (by_block, part(Arc::clone(bytes)), of_block)
            }
            Command::Trim => {
                let certain = match self.stores_reach_device {
                    true => Certain::Answer,
                    false => of_block,
                };
                (by_block, part(vec![0; size].into()), certain)
            }
            Command::Commit(tx) => {
                let writes = self.transactions.remove(&tx.get()).unwrap_or_default();
                (Grain::Whole, writes, Certain::Answer)
            }
            Command::Abort(tx) => {
                self.transactions.remove(&tx.get());
                return;
            }
            Command::Persist | Command::Flush | Command::PersistPmem => {
                self.barriers.insert(request, (command, self.events));
                return;
            }
            _ => return,
        };
        self.units.push(Unit {
            request,
            grain,
            parts,
            order: self.events,
            answered: None,
            certain,
        });
    }

    fn finished(&mut self, request: RequestNo, is_ok: bool) {
        if let Some((command, submitted)) = self.barriers.remove(&request) {
            if is_ok {
                let flushes = command == Command::Flush || !self.stores_reach_device;
                self.make_certain(|unit| {
                    let is_answered = unit.answered.is_some_and(|at| at < submitted);
                    let is_meant = match (command, unit.certain) {
                        (Command::PersistPmem, certain) => certain == Certain::PersistPmem,
                        (_, Certain::PersistPmem) => false,
                        (_, certain) => flushes || certain == Certain::Persist,
                    };
                    is_answered && is_meant
                });
            }
            return;
        }
        let unit = self.units.iter().position(|unit| unit.request == request);
        let Some(unit) = unit else { return };
        let unit = &mut self.units[unit];
        match (unit.grain, is_ok) {
            (_, true) if unit.certain == Certain::Answer => {
                self.make_certain(|unit| unit.request == request);
            }
            (_, true) => unit.answered = Some(self.events),
            // A commit that fails has aborted.
            (Grain::Whole, false) => self.units.retain(|unit| unit.request != request),
            (Grain::Bytes(_), false) => {}
        }
    }

    fn make_certain(&mut self, mut is_certain: impl FnMut(&Unit) -> bool) {
        let (certain, units) = std::mem::take(&mut self.units)
            .into_iter()
            .partition(|unit| is_certain(unit));
        self.units = units;
        let certain: Vec<Unit> = certain;
        for unit in certain {
            for part in &unit.parts {
                let mut image = std::mem::replace(&mut self.image, Image::new(units::Bytes::ZERO));
                self.put(&mut image, unit.order, part.at, &part.bytes);
                self.image = image;
                if !self.units.is_empty() {
                    for (at, _) in lines((part.at, &part.bytes)) {
                        let newest = self.newest.entry(at / LINE).or_default();
                        *newest = unit.order.max(*newest);
                    }
                }
            }
        }
        if self.units.is_empty() {
            self.newest.clear();
        }
    }
}

fn lines((at, bytes): (usize, &[u8])) -> impl Iterator<Item = (usize, &[u8])> {
    cut(at, bytes, LINE)
}

/// Bytes at multiples of a grain.
fn cut(at: usize, bytes: &[u8], grain: usize) -> impl Iterator<Item = (usize, &[u8])> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let begin = at + done;
        let rest = &bytes[done..];
        let size = rest.len().min(grain - begin % grain);
        done += size;
        (size > 0).then(|| (begin, &rest[..size]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash::journal::Journal;
    use units::{ByteAddr, Bytes, TxId};

    const CAPACITY: u64 = 1 << 16;

    struct Bench {
        journal: Journal,
        power: Power,
        done: usize,
    }

    impl Bench {
        fn new(domain: PersistenceDomain) -> Self {
            let mut shape = Shape::plain(Bytes::new(CAPACITY), Bytes::new(4096));
            (shape.byte_domain, shape.block_domain) = (domain, domain);
            let power = Power::new(Image::new(shape.capacity * 2), &shape);
            Self {
                journal: Journal::default(),
                power,
                done: 0,
            }
        }

        fn follow(&mut self) {
            for event in &self.journal.events[self.done..] {
                self.power.apply(event);
            }
            self.done = self.journal.events.len();
        }

        fn ask(&mut self, command: Command, at: u64, bytes: &[u8]) -> RequestNo {
            let range = (ByteAddr::new(at), Bytes::new(bytes.len() as u64));
            let request = self.journal.submit(command, range, bytes).unwrap();
            self.follow();
            request
        }

        fn end(&mut self, request: RequestNo) {
            self.journal.finish(request, true);
            self.follow();
        }

        fn now(&mut self, command: Command, at: u64, bytes: &[u8]) {
            let request = self.ask(command, at, bytes);
            self.end(request);
        }

        /// Every state of some bytes.
        fn may(&self, places: &[usize]) -> BTreeSet<Vec<u8>> {
            let units = self.power.units().len();
            let subsets = (0..1_usize << units).map(|subset| {
                let image = self.power.image_with(|unit, _| subset >> unit & 1 == 1);
                let mut byte = [0];
                let bytes = places.iter().map(|place| {
                    image.read(*place, &mut byte);
                    byte[0]
                });
                bytes.collect()
            });
            subsets.collect()
        }
    }

    const STORE: Command = Command::Write(TxId::NONE);
    const BLOCK: Command = Command::WriteBlocks(Acknowledge::Accepted);

    fn set<const N: usize, const M: usize>(states: [[u8; N]; M]) -> BTreeSet<Vec<u8>> {
        states.into_iter().map(Vec::from).collect()
    }

    #[test]
    fn a_store_is_certain_behind_a_persist_that_was_asked_behind_its_answer() {
        let mut bench = Bench::new(PersistenceDomain::Device);
        let store = bench.ask(STORE, 0, &[1; 64]);
        assert_eq!(bench.may(&[0]), set([[0], [1]]));
        let early = bench.ask(Command::Persist, 0, &[]);
        bench.end(store);
        bench.end(early);
        assert_eq!(bench.may(&[0]), set([[0], [1]]));
        bench.now(Command::Persist, 0, &[]);
        assert_eq!(bench.may(&[0]), set([[1]]));
    }

    #[test]
    fn a_store_to_the_window_is_certain_behind_its_own_ordering_point() {
        for domain in [PersistenceDomain::Device, PersistenceDomain::Flash] {
            let mut bench = Bench::new(domain);
            bench.now(STORE, CAPACITY, &[1; 64]);
            bench.now(STORE, 0, &[1; 64]);
            let place = CAPACITY as usize;
            bench.now(Command::Persist, 0, &[]);
            bench.now(Command::Flush, 0, &[]);
            assert_eq!(bench.may(&[place, 0]), set([[0, 1], [1, 1]]));
            bench.now(STORE, 0, &[2; 64]);
            bench.now(Command::PersistPmem, 0, &[]);
            assert_eq!(bench.may(&[place, 0]), set([[1, 1], [1, 2]]));
        }
    }

    #[test]
    fn a_transaction_happens_whole_and_with_its_commit() {
        let mut bench = Bench::new(PersistenceDomain::Device);
        let tx = TxId::new(7);
        bench.now(Command::Write(tx), 0, &[1; 64]);
        bench.now(Command::Write(tx), 4096, &[1; 128]);
        bench.now(Command::Flush, 0, &[]);
        assert_eq!(bench.may(&[0, 4096]), set([[0, 0]]));
        let commit = bench.ask(Command::Commit(tx), 0, &[]);
        assert_eq!(bench.may(&[0, 4096]), set([[0, 0], [1, 1]]));
        bench.end(commit);
        assert_eq!(bench.may(&[0, 4096]), set([[1, 1]]));
        let gone = TxId::new(8);
        bench.now(Command::Write(gone), 0, &[2; 64]);
        bench.now(Command::Abort(gone), 0, &[]);
        assert_eq!(bench.may(&[0]), set([[1]]));
    }

    #[test]
    fn a_block_is_certain_when_its_domain_has_it() {
        let mut bench = Bench::new(PersistenceDomain::Device);
        bench.now(BLOCK, 0, &[1; 8192]);
        assert_eq!(bench.may(&[0, 4096]), set([[1, 1]]));
        let mut bench = Bench::new(PersistenceDomain::Flash);
        bench.now(BLOCK, 0, &[1; 4096]);
        bench.now(Command::WriteBlocks(Acknowledge::Durable), 4096, &[2; 4096]);
        assert_eq!(bench.may(&[0, 4096]), set([[0, 2], [1, 2]]));
        bench.now(Command::Flush, 0, &[]);
        assert_eq!(bench.may(&[0, 4096]), set([[1, 2]]));
    }

    #[test]
    fn what_is_newer_and_certain_is_not_overwritten() {
        let mut bench = Bench::new(PersistenceDomain::Device);
        bench.now(STORE, 0, &[1; 128]);
        bench.now(BLOCK, 4096, &[5; 4096]);
        let tx = TxId::new(7);
        bench.now(Command::Write(tx), 64, &[2; 64]);
        bench.now(Command::Commit(tx), 0, &[]);
        assert_eq!(bench.may(&[0, 64]), set([[0, 2], [1, 2]]));
        bench.now(STORE, 64, &[3; 64]);
        assert_eq!(bench.may(&[64]), set([[2], [3]]));
    }

    #[test]
    fn the_last_store_of_a_transaction_to_a_line_counts() {
        let mut bench = Bench::new(PersistenceDomain::Device);
        bench.now(STORE, 8192, &[9; 64]);
        let tx = TxId::new(7);
        bench.now(Command::Write(tx), 0, &[1; 64]);
        bench.now(Command::Write(tx), 0, &[2; 64]);
        bench.now(Command::Commit(tx), 0, &[]);
        assert_eq!(bench.may(&[0]), set([[2]]));
    }

    #[test]
    fn a_commit_is_asked_about_once() {
        let mut bench = Bench::new(PersistenceDomain::Device);
        let tx = TxId::new(7);
        bench.now(Command::Write(tx), 0, &[1; 64]);
        bench.now(Command::Write(tx), 4096, &[1; 128]);
        bench.ask(Command::Commit(tx), 0, &[]);
        let mut asked = Vec::new();
        bench.power.image_with(|unit, grain| {
            asked.push((unit, grain));
            true
        });
        assert_eq!(asked, [(0, 0)]);
    }

    #[test]
    fn stores_tear_between_lines_and_commits_nowhere() {
        let mut bench = Bench::new(PersistenceDomain::Device);
        bench.ask(STORE, 32, &[1; 128]);
        let image = bench.power.image_with(|_, grain| grain == 1);
        let mut bytes = [9; 192];
        image.read(0, &mut bytes);
        let wanted = [[0; 64], [1; 64], [0; 64]].concat();
        assert_eq!(bytes, wanted[..]);
    }
}
