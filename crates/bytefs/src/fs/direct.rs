//! Writes past the page cache (§4.6): by bytes if they are few, by blocks if they are whole pages.

use super::data::{Coming, DIRECT_BYTES};
use super::{FileSystem, address};
use crate::gate::Gate;
use crate::layout::{BLOCK, LINE};
use crate::segments::Segments;
use crate::state::State;
use crate::state::node::Node;
use crate::stats::Class;
use crate::{BlockNo, Caller, FsError, Ino};
use port::{Acknowledge, Clock, Device};
use units::{ByteAddr, TxId};

const PAGE: u64 = BLOCK as u64;

/// Where bytes go on the device, and which of a write.
type Part = (ByteAddr, core::ops::Range<usize>);

impl<D: Device, C: Clock> FileSystem<D, C> {
    /// Writes past the cache, if the file has blocks there: by bytes if that is little (§4.6).
    /// Otherwise says that it did not.
    pub(super) async fn write_direct(
        &self,
        caller: &Caller,
        ino: Ino,
        at: u64,
        data: &[u8],
    ) -> Result<bool, FsError> {
        let by_bytes = data.len() <= DIRECT_BYTES && self.writes_data_bytes();
        let is_whole = at.is_multiple_of(PAGE) && data.len().is_multiple_of(BLOCK);
        let is_kept = self.shortcuts.kept().is_some();
        // Pages that are written elsewhere, or first to a journal, are so from the cache.
        let is_from_cache = self.is_synchronous || self.journals_data;
        if (!by_bytes && !is_whole) || is_from_cache || is_kept {
            return Ok(false);
        }
        // Cached pages are older from now on; what they have and the device has not goes first.
        self.write_back(ino).await?;
        let gate = match self.state().nodes.get(&ino) {
            Some(node) => node.gate.clone(),
            None => return Ok(false),
        };
        let _passed = gate.pass().await;
        let end = at + data.len() as u64;
        self.leave_pmem(ino, at / PAGE..end.div_ceil(PAGE)).await?;
        let gate = Gate::default();
        let passed = gate.pass().await;
        let writing = Coming {
            fs: self,
            ino,
            gate,
            _passed: passed,
        };
        let (parts, batch) = {
            let mut state = self.state();
            let State { nodes, .. } = &mut *state;
            let Some(mut node) = nodes.remove(&ino) else {
                return Ok(false);
            };
            let end = at + data.len() as u64;
            let range = at / PAGE..end.div_ceil(PAGE);
            let parts = match end <= node.size && !node.dirty.has_any(range.clone()) {
                true => parts_of(&node, at, data.len()),
                false => None,
            };
            let parts = match &mut state.segments {
                Some(segments) => parts.and_then(|parts| overwritten(segments, &parts)),
                None => parts,
            };
            let batches = node.pages.range(range.clone()).map(|(_, page)| page.batch);
            let batch = batches.max().unwrap_or_default();
            if parts.is_some() {
                state.drop_pages(&mut node, range.clone());
                node.epoch.change_all();
                // Who reads these pages waits: what the device has of them is neither yet.
                node.coming.push((range, writing.gate.clone()));
                node.written = Some(caller.now);
            }
            state.nodes.insert(ino, node);
            (parts, batch)
        };
        let Some(parts) = parts else {
            return Ok(false);
        };
        // Lines of an older write must not arrive behind this one.
        self.commit_through(batch).await?;
        let has_segments = self.state().segments.is_some();
        for (place, range) in parts {
            let bytes = &data[range];
            let done = match by_bytes {
                true => self.device.write(place, bytes, TxId::NONE).await,
                false => {
                    self.spend(self.costs.request).await;
                    let when = Acknowledge::Accepted;
                    let done = self.device.write_blocks(place, bytes, when).await;
                    self.spend(self.costs.switch).await;
                    done
                }
            };
            if has_segments && let Some(segments) = &mut self.state().segments {
                let first = (place.get() / PAGE) as u32;
                segments.settle(first..first + (bytes.len() / BLOCK) as u32);
            }
            done.map_err(|error| self.fail(&error.to_string()))?;
            let mut state = self.state();
            let traffic = state.counters.class(Class::Data);
            match by_bytes {
                true => traffic.bytes_written += bytes.len().next_multiple_of(LINE) as u64,
                false => traffic.blocks_written += bytes.len() as u64,
            }
        }
        {
            let mut state = self.state();
            state.counters.0.written += data.len() as u64;
            if let Some(node) = state.nodes.get_mut(&ino) {
                node.epoch.change_all();
                node.posted += u64::from(by_bytes);
            }
        }
        if !by_bytes {
            self.note_block_write();
        }
        self.end_write_back(ino, true);
        drop(writing);
        Ok(true)
    }
}

/// Where bytes of a file lie on the device; none if some have no place or were never written.
fn parts_of(node: &Node, at: u64, size: usize) -> Option<Vec<Part>> {
    let extents = node.extents.as_ref()?;
    let mut parts = Vec::new();
    let mut done = 0;
    while done < size {
        let here = at + done as u64;
        let extent = extents
            .find(here / PAGE)
            .filter(|extent| extent.is_written)?;
        let left = extent.end() * PAGE - here;
        let count = (size - done).min(left as usize);
        let place = address(extent.block_of(here / PAGE)).get() + here % PAGE;
        parts.push((ByteAddr::new(place), done..done + count));
        done += count;
    }
    Some(parts)
}

/// Places of whole blocks that are overwritten where they are; none if one may not be.
fn overwritten(segments: &mut Segments, parts: &[Part]) -> Option<Vec<Part>> {
    let mut places: Vec<Part> = Vec::new();
    for (at, range) in parts {
        for (page, from) in range.clone().step_by(BLOCK).enumerate() {
            let number = BlockNo((at.get() / PAGE) as u32 + page as u32);
            let place = segments.place(number)?;
            if !segments.may_overwrite(place) {
                return None;
            }
            places.push((address(BlockNo(place)), from..from + BLOCK));
        }
    }
    for (place, _) in &places {
        let first = (place.get() / PAGE) as u32;
        segments.overwrite(first..first + 1);
    }
    Some(places)
}
