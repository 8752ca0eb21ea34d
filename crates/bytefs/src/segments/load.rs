//! From a device to the table of places, as the last checkpoint has it.

use super::Segments;
use super::checkpoint::{Pack, decode_table};
use crate::MountError;
use crate::layout::{BLOCK, Geometry, PLACES, Superblock};
use port::{Device, DeviceError};
use units::ByteAddr;

/// Blocks of the table that are read at a time: both copies of each.
const TABLES: u32 = 32;

/// What was found, and what is damaged although it does not matter.
pub(crate) struct Loaded {
    pub segments: Segments,
    pub damaged: Vec<String>,
}

/// Blocks behind each other. One that the flash has lost is none of ours, and has a twin.
async fn read<D: Device>(device: &D, place: u32, count: u32) -> Result<Vec<u8>, MountError> {
    let mut bytes = vec![0; count as usize * BLOCK];
    let at = |place: u32| ByteAddr::new(u64::from(place) * BLOCK as u64);
    match device.read_blocks(at(place), &mut bytes).await {
        Ok(_) => return Ok(bytes),
        Err(DeviceError::Lost { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    for (place, block) in (place..).zip(bytes.chunks_exact_mut(BLOCK)) {
        match device.read_blocks(at(place), block).await {
            Ok(_) => {}
            Err(DeviceError::Lost { .. }) => block.fill(0xff),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}

/// Reads the newest checkpoint. Behind an unmount both packs and both copies of each block of the
/// table say the same, so that one may be damaged.
pub(crate) async fn load<D: Device>(
    device: &D,
    superblock: &Superblock,
    geometry: &Geometry,
) -> Result<Loaded, MountError> {
    let damaged = |what: &str| MountError::Damaged { what: what.into() };
    let layout = geometry.segments.as_ref();
    let layout = layout.ok_or_else(|| damaged("the superblock"))?;
    let is_clean = superblock.is_clean;
    let mut told = Vec::new();
    let mut newest: Option<(usize, Pack)> = None;
    for (slot, place) in layout.packs.into_iter().enumerate() {
        let bytes = read(device, place, layout.pack).await?;
        let pack = Pack::decode(&bytes, layout);
        let pack = pack.filter(|pack| !is_clean || pack.version == superblock.checkpoint);
        if pack.is_none() && is_clean {
            told.push(format!(
                "the checkpoint in block {place} is not as it was written"
            ));
        }
        if let Some(pack) = pack
            && newest
                .as_ref()
                .is_none_or(|(_, known)| known.version < pack.version)
        {
            newest = Some((slot, pack));
        }
    }
    let (slot, pack) = newest.ok_or_else(|| damaged("the checkpoint, in both places,"))?;
    let mut segments = Segments::new(geometry, layout);
    segments.adopt(&pack, slot);
    let mut places = vec![0; segments.places.len()];
    let mut first = 0;
    while first < layout.tables {
        let count = TABLES.min(layout.tables - first);
        let bytes = read(device, layout.table_place(first, false), 2 * count).await?;
        for (index, copies) in (first..).zip(bytes.chunks_exact(2 * BLOCK)) {
            let copy = pack.copies[index as usize];
            let (zeroth, second) = copies.split_at(BLOCK);
            let (mine, twin) = if copy {
                (second, zeroth)
            } else {
                (zeroth, second)
            };
            let (mine, twin) = (decode_table(index, mine), decode_table(index, twin));
            if is_clean && (mine.is_none() || twin.is_none()) {
                told.push(format!(
                    "block {index} of the table of places is damaged in one copy"
                ));
            }
            // The next unmount makes them equal, not knowing what earlier mounts have written.
            if mine != twin {
                segments.unequal.insert(index);
                segments.copies[index as usize] = copy ^ mine.is_none();
            }
            let found = mine.or_else(|| twin.filter(|_| is_clean));
            let found = found.ok_or_else(|| damaged("the table of places"))?;
            let at = places.len().min((index * PLACES) as usize);
            let end = places.len().min(at + PLACES as usize);
            places[at..end].copy_from_slice(&found[..end - at]);
        }
        first += count;
    }
    for (number, place) in &pack.journal {
        let known = places.get_mut(*number as usize);
        *known.ok_or_else(|| damaged("the checkpoint"))? = *place;
    }
    for (number, place) in (0..).zip(places) {
        if place == 0 {
            continue;
        }
        let is_free = layout.main.contains(&place)
            && segments.owners[(place - layout.main.start) as usize] == 0;
        if !is_free {
            return Err(damaged("the table of places"));
        }
        segments.set(number, place);
    }
    segments.is_dirty = false;
    segments.changed = pack.journal.iter().map(|(number, _)| *number).collect();
    // The next record has a place that is not given to others.
    let next = layout.segment_of(segments.next_record);
    segments.segments[next].busy += 1;
    segments.find_free();
    Ok(Loaded {
        segments,
        damaged: told,
    })
}

impl Segments {
    /// Segments that hold something are not free, nor are those that records are in.
    fn find_free(&mut self) {
        self.free.clear();
        for (index, segment) in (0..).zip(&mut self.segments) {
            segment.is_free = segment.valid + segment.busy == 0;
            if segment.is_free {
                self.free.push_back(index);
            }
        }
    }

    /// Takes over what records say has moved; lines are the caller's. Where the records are nothing
    /// is written before the next checkpoint is durable.
    pub fn roll_forward(&mut self, record: &super::record::Parsed) {
        for place in &record.places {
            self.keep(*place);
        }
        for moved in &record.moved {
            for offset in 0..moved.count {
                if moved.place == 0 {
                    self.unset(moved.number + offset);
                    continue;
                }
                self.keep(moved.place + offset);
                self.set(moved.number + offset, moved.place + offset);
            }
        }
        for (number, place) in &record.nodes {
            self.set(*number, *place);
        }
    }

    /// The next record is none of the older checkpoint's.
    pub fn leave_records(&mut self) {
        let place = core::mem::take(&mut self.next_record);
        if place != 0 {
            self.settle(place..place + 1);
        }
    }

    fn keep(&mut self, place: u32) {
        let index = self.layout.segment_of(place);
        if core::mem::take(&mut self.segments[index].is_free) {
            self.free.retain(|free| *free != index as u32);
        }
    }
}
