//! The flash of a firmware process as a drive: each flash page has a place there, and what
//! operations take is measured.

use hashbrown::{HashMap, HashSet};
use inloop::{Drive, GRAIN, Transfer};
use nand::Operation;
use rustc_hash::FxBuildHasher;
use soc::{Begun, Timed};
use units::address::LINE_BYTES;
use units::filling::spread;
use units::{Bytes, FlashGeometry, FlashOp, Picos, Ppa, Time};

type Map<K, V> = HashMap<K, V, FxBuildHasher>;

const LINE: usize = LINE_BYTES.get() as usize;
/// Writes under way while the state after warm-up goes to the drive.
const STORE_DEPTH: usize = 64;

/// Where flash pages are on the drive.
#[derive(Debug)]
struct Places {
    /// By flash page.
    of_page: Map<u64, u64>,
    is_taken: Vec<bool>,
}

impl Places {
    /// That of a flash page, which has it until its block is erased: the page's own number, as far
    /// as the drive goes, or the next that is free. Nothing if none is.
    fn of(&mut self, page: u64) -> Option<u64> {
        if let Some(place) = self.of_page.get(&page) {
            return Some(*place);
        }
        let count = self.is_taken.len() as u64;
        if self.of_page.len() as u64 == count {
            return None;
        }
        let mut place = page % count;
        while self.is_taken[place as usize] {
            place = (place + 1) % count;
        }
        self.is_taken[place as usize] = true;
        self.of_page.insert(page, place);
        Some(place)
    }

    fn give_back(&mut self, page: u64) -> Option<u64> {
        let place = self.of_page.remove(&page)?;
        self.is_taken[place as usize] = false;
        Some(place)
    }
}

/// A transfer with the operation that it is of.
#[derive(Debug)]
struct Step {
    begun: Begun,
    place: u64,
}

/// A drive with the flash's pages.
#[derive(Debug)]
pub(crate) struct OnDrive {
    drive: Drive,
    geometry: FlashGeometry,
    places: Places,
    /// Units that the flash has been given; what others have on the drive is nothing.
    written: HashSet<Ppa, FxBuildHasher>,
    /// Operations that end later in virtual time, with their place.
    under_way: Vec<(Time, u64, Transfer)>,
    /// What operations took, in order.
    pub(crate) took: Vec<(Timed, Picos)>,
    pub(crate) failure: Option<String>,
}

impl OnDrive {
    /// The drive as this flash, with room for so many bytes of data at least.
    ///
    /// # Errors
    /// A sentence, and the drive.
    pub(crate) fn new(
        drive: Drive,
        geometry: FlashGeometry,
        wanted: Bytes,
    ) -> Result<Self, Box<(Drive, String)>> {
        if let Err(error) = drive.must_hold(wanted) {
            return Err(Box::new((drive, error.to_string())));
        }
        let unit = geometry.unit_size.bytes().get();
        if !unit.is_multiple_of(GRAIN as u64) {
            let text =
                format!("a drive is read in pieces of {GRAIN} B, and ftl.mapping_unit is not");
            return Err(Box::new((drive, text)));
        }
        let count = drive.size().get() / geometry.page_size().get();
        Ok(Self {
            drive,
            geometry,
            places: Places {
                of_page: Map::default(),
                is_taken: vec![false; count as usize],
            },
            written: HashSet::default(),
            under_way: Vec::new(),
            took: Vec::new(),
            failure: None,
        })
    }

    pub(crate) fn into_drive(self) -> Drive {
        self.drive
    }

    /// Puts there what the flash has already. Nothing is measured.
    pub(crate) fn store(&mut self, flash: &mut Map<Ppa, Vec<u64>>) {
        let mut first: Vec<Ppa> = flash.keys().copied().collect();
        first.sort_unstable();
        first.dedup_by_key(|unit| self.geometry.page_of(*unit));
        for some in first.chunks(STORE_DEPTH) {
            let mut writes = Vec::with_capacity(some.len());
            for unit in some {
                let Some(place) = self.place_of(*unit) else {
                    return;
                };
                writes.push(self.write_of(*unit, place, flash));
            }
            self.transfer(&mut writes);
        }
    }

    /// Does operations that begin at one instant, together with those that are under way then in
    /// virtual time: the run is slower than the drive, which has been done with them for long. A
    /// read's units go to `fetched`, by its unit.
    pub(crate) fn perform(
        &mut self,
        begun: &[Begun],
        flash: &mut Map<Ppa, Vec<u64>>,
        mut fetched: impl FnMut(&Begun, Vec<u64>),
    ) {
        let mut steps = Vec::new();
        let mut transfers = Vec::new();
        for one in begun {
            let unit = match one.operation {
                Operation::Erase(_) => {
                    self.perform_group(&mut steps, &mut transfers, &mut fetched);
                    self.erase(one);
                    continue;
                }
                Operation::Read(unit) | Operation::Program(unit) => unit,
            };
            let Some(place) = self.place_of(unit) else {
                return;
            };
            let is_program = one.operation.kind() == FlashOp::Program;
            // What changes a page is over before the page is used again.
            let meets = steps.iter().any(|step: &Step| {
                let changes = step.begun.operation.kind() == FlashOp::Program;
                step.place == place && (changes || is_program)
            });
            if meets {
                self.perform_group(&mut steps, &mut transfers, &mut fetched);
            }
            transfers.push(match is_program {
                true => self.write_of(unit, place, flash),
                false => self.read_of(unit, place),
            });
            steps.push(Step { begun: *one, place });
        }
        self.perform_group(&mut steps, &mut transfers, &mut fetched);
    }

    fn perform_group(
        &mut self,
        steps: &mut Vec<Step>,
        transfers: &mut Vec<Transfer>,
        fetched: &mut impl FnMut(&Begun, Vec<u64>),
    ) {
        let Some(now) = steps.first().map(|step| step.begun.at) else {
            return;
        };
        self.under_way.retain(|(end, _, _)| *end > now);
        let mut all: Vec<Transfer> = Vec::new();
        let mut kept: Vec<(Time, u64)> = Vec::new();
        for (end, place, transfer) in self.under_way.drain(..) {
            kept.push((end, place));
            all.push(transfer);
        }
        all.append(transfers);
        self.transfer(&mut all);
        let measured = all.split_off(kept.len());
        let again = kept.into_iter().zip(all);
        self.under_way
            .extend(again.map(|((end, place), transfer)| (end, place, transfer)));
        for (step, transfer) in steps.drain(..).zip(measured) {
            let kind = step.begun.operation.kind();
            self.took.push((Timed::Flash(kind), transfer.took));
            if let Operation::Read(unit) = step.begun.operation {
                let units = self.values_of(unit, &transfer);
                fetched(&step.begun, units);
            }
            let end = step.begun.at + transfer.took;
            self.under_way.push((end, step.place, transfer));
        }
    }

    /// The drive erases by itself, and its writes wait for that.
    fn erase(&mut self, begun: &Begun) {
        let Operation::Erase(block) = begun.operation else {
            unreachable!("it erases");
        };
        for unit in 0..self.geometry.units_per_block {
            let unit = self.geometry.unit_on(block, unit);
            self.written.remove(&unit);
            if let Some(place) = self.places.give_back(self.geometry.page_of(unit).get()) {
                self.under_way.retain(|(_, of, _)| *of != place);
            }
        }
        self.took.push((Timed::Flash(FlashOp::Erase), Picos::ZERO));
    }

    fn place_of(&mut self, unit: Ppa) -> Option<u64> {
        let place = self.places.of(self.geometry.page_of(unit).get());
        if place.is_none() {
            let count = self.places.is_taken.len();
            let size = self.geometry.page_size();
            self.failure.get_or_insert_with(|| {
                format!(
                    "the drive has room for {count} flash pages of {size}, and the run uses more; \
                     give a larger one"
                )
            });
        }
        place
    }

    fn transfer(&mut self, transfers: &mut [Transfer]) {
        if self.failure.is_none()
            && let Err(error) = self.drive.perform(transfers)
        {
            self.failure = Some(error.to_string());
        }
    }

    fn unit_bytes(&self) -> usize {
        self.geometry.unit_size.bytes().get() as usize
    }

    /// The write of a whole flash page, with those of its units that were loaded.
    fn write_of(&mut self, unit: Ppa, place: u64, flash: &mut Map<Ppa, Vec<u64>>) -> Transfer {
        let size = self.geometry.page_size().get();
        let mut write = Transfer::new(true, place * size, size as usize);
        for (index, unit) in self.geometry.units_of_page(unit).enumerate() {
            let Some(values) = flash.remove(&unit) else {
                continue;
            };
            self.written.insert(unit);
            for (line, value) in values.into_iter().enumerate() {
                let at = index * self.unit_bytes() + line * LINE;
                put_line(write.bytes_mut(at, LINE), unit, line, value);
            }
        }
        write
    }

    fn read_of(&self, unit: Ppa, place: u64) -> Transfer {
        let size = self.unit_bytes();
        let mut units = self.geometry.units_of_page(unit);
        let index = units.position(|one| one == unit);
        let index = index.expect("a unit of its page") as u64;
        let at = place * self.geometry.page_size().get() + index * size as u64;
        Transfer::new(false, at, size)
    }

    /// What a read has brought: the values that were written there last.
    fn values_of(&mut self, unit: Ppa, read: &Transfer) -> Vec<u64> {
        if !self.written.contains(&unit) {
            return Vec::new();
        }
        let mut values = Vec::with_capacity(read.size() / LINE);
        for line in 0..read.size() / LINE {
            match value_of(read.bytes(line * LINE, LINE), unit, line) {
                Some(value) => values.push(value),
                None => {
                    let at = read.at + (line * LINE) as u64;
                    self.failure.get_or_insert_with(|| {
                        format!(
                            "the drive gives back something else at byte {at} than was written; \
                             let nobody else write to it, or use another one"
                        )
                    });
                    return Vec::new();
                }
            }
        }
        values
    }
}

/// Word `index` of a line beside its value: says which unit, line and value it is of, so that
/// another line's bytes are found out, and does not compress.
fn word(unit: Ppa, line: usize, value: u64, index: usize) -> u64 {
    spread(spread(unit.get() << 16 | line as u64) ^ value.rotate_left(32) ^ index as u64)
}

fn put_line(bytes: &mut [u8], unit: Ppa, line: usize, value: u64) {
    for (index, bytes) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let word = match index {
            0 => value,
            _ => word(unit, line, value, index),
        };
        *bytes = word.to_le_bytes();
    }
}

fn value_of(bytes: &[u8], unit: Ppa, line: usize) -> Option<u64> {
    let (words, _) = bytes.as_chunks::<8>();
    let value = u64::from_le_bytes(*words.first()?);
    let mut others = words.iter().enumerate().skip(1);
    let is_right =
        others.all(|(index, found)| u64::from_le_bytes(*found) == word(unit, line, value, index));
    is_right.then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_a_pages_own_until_they_are_taken_and_come_back() {
        let mut places = Places {
            of_page: Map::default(),
            is_taken: vec![false; 3],
        };
        assert_eq!(places.of(4), Some(1));
        assert_eq!(places.of(1), Some(2));
        assert_eq!(places.of(4), Some(1));
        assert_eq!(places.of(7), Some(0));
        assert_eq!(places.of(9), None);
        assert_eq!(places.give_back(1), Some(2));
        assert_eq!(places.give_back(1), None);
        assert_eq!(places.of(9), Some(2));
    }

    #[test]
    fn a_line_says_which_it_is() {
        let mut bytes = [0; LINE];
        put_line(&mut bytes, Ppa::new(77), 5, 1234);
        assert_eq!(value_of(&bytes, Ppa::new(77), 5), Some(1234));
        assert_eq!(value_of(&bytes, Ppa::new(77), 6), None);
        assert_eq!(value_of(&bytes, Ppa::new(78), 5), None);
        for at in 0..LINE {
            bytes[at] ^= 0x10;
            assert_eq!(value_of(&bytes, Ppa::new(77), 5), None, "byte {at}");
            bytes[at] ^= 0x10;
        }
    }
}
