//! Contents of files without a page cache, as on persistent memory (DAX): a read loads from the
//! device what it asks for, and a write stores there what it brings. What has no place yet passes
//! through the cache on its way, where places are given, and leaves it at once.

use super::data::Coming;
use super::{FileSystem, address};
use crate::gate::Gate;
use crate::layout::{BLOCK, LINE};
use crate::state::State;
use crate::state::node::Node;
use crate::stats::Class;
use crate::{Caller, FsError, Ino};
use core::ops::Range;
use port::{Clock, Device};
use units::{ByteAddr, TxId};

const PAGE: u64 = BLOCK as u64;

/// Where bytes are on the device, and which of a read or write.
type Part = (ByteAddr, Range<usize>);

/// How a read goes on.
enum Loads {
    /// The extents were forgotten meanwhile.
    Extents,
    /// Somebody writes these pages.
    Wait(Gate),
    /// These parts are to be loaded; the epoch in which they are there.
    Parts(Vec<Part>, u64),
}

impl<D: Device, C: Clock> FileSystem<D, C> {
    /// Reads at most `size` bytes, of which the host keeps none.
    pub(super) async fn read_past_cache(
        &self,
        ino: Ino,
        at: u64,
        size: usize,
    ) -> Result<Vec<u8>, FsError> {
        let mut out = vec![0; size];
        loop {
            let loads = match self.state().nodes.get_mut(&ino) {
                Some(node) if node.extents.is_some() => {
                    let length = node.size.saturating_sub(at).min(size as u64) as usize;
                    out.resize(length, 0);
                    loads_of(node, at, &mut out)
                }
                _ => Loads::Extents,
            };
            match loads {
                Loads::Extents => self.need_regular(ino).await?,
                Loads::Wait(gate) => {
                    drop(gate.pass().await);
                    self.spend(self.costs.switch).await;
                }
                Loads::Parts(parts, epoch) => {
                    // A processor loads one line behind the other.
                    for (place, range) in &parts {
                        let into = &mut out[range.clone()];
                        self.device.read(*place, into).await?;
                        let lines = lines_of(*place, range.len());
                        self.state().counters.class(Class::Data).bytes_read += lines;
                    }
                    let pages = at / PAGE..(at + out.len() as u64).div_ceil(PAGE);
                    let state = self.state();
                    let node = state.nodes.get(&ino);
                    let is_past = node.is_none_or(|node| node.epoch.is_past(epoch, &pages));
                    if parts.is_empty() || !is_past {
                        break;
                    }
                }
            }
        }
        let pages = (out.len() as u64).div_ceil(PAGE);
        self.spend(self.costs.page * pages).await;
        self.state().counters.0.read += out.len() as u64;
        Ok(out)
    }

    /// Stores the first bytes of a write that have places on the device; says how many. The file
    /// grows if they reach beyond its end.
    pub(super) async fn store_in_place(
        &self,
        caller: &Caller,
        ino: Ino,
        at: u64,
        data: &[u8],
    ) -> Result<usize, FsError> {
        // What a truncation has left in the cache goes first.
        self.write_back(ino).await?;
        let gate = match self.state().nodes.get(&ino) {
            Some(node) => node.gate.clone(),
            None => return Ok(0),
        };
        let _passed = gate.pass().await;
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
                return Ok(0);
            };
            // Behind the end lies what was there before, which a gap would show.
            let parts = match at <= node.size {
                true => places(&node, at, data.len()),
                false => Vec::new(),
            };
            let count = parts.last().map_or(0, |(_, range)| range.end);
            let range = at / PAGE..(at + count as u64).div_ceil(PAGE);
            let is_dirty = node.dirty.has_any(range.clone());
            let batches = node.pages.range(range.clone()).map(|(_, page)| page.batch);
            let batch = batches.max().unwrap_or_default();
            if count > 0 && !is_dirty {
                state.drop_pages(&mut node, range.clone());
                node.epoch.change_all();
                // Who reads these pages waits: what the device has of them is neither yet.
                node.coming.push((range, writing.gate.clone()));
                node.written = Some(caller.now);
            }
            state.nodes.insert(ino, node);
            match is_dirty {
                true => return Ok(0),
                false => (parts, batch),
            }
        };
        let Some(count) = parts.last().map(|(_, range)| range.end) else {
            return Ok(0);
        };
        // Lines of an older write must not arrive behind this one.
        self.commit_through(batch).await?;
        self.spend(self.costs.page * (count as u64).div_ceil(PAGE))
            .await;
        for (place, range) in parts {
            let lines = lines_of(place, range.len());
            let done = self.device.write(place, &data[range], TxId::NONE).await;
            done.map_err(|error| self.fail(&error.to_string()))?;
            self.state().counters.class(Class::Data).bytes_written += lines;
        }
        let grows = {
            let mut state = self.state();
            let node = state.nodes.get_mut(&ino);
            node.is_some_and(|node| {
                let end = at + count as u64;
                let grows = end > node.size;
                node.size = node.size.max(end);
                node.epoch.change_all();
                node.posted += 1;
                grows
            })
        };
        if grows {
            self.put_size(ino).await?;
        }
        drop(writing);
        Ok(count)
    }

    /// Has the inode say how long a file has become, behind the bytes.
    async fn put_size(&self, ino: Ino) -> Result<(), FsError> {
        self.run(|tx| {
            tx.need_room(8)?;
            let mut inode = tx.inode(ino)?;
            let size = tx.size_of(ino).unwrap_or(inode.size);
            inode.size = inode.size.max(size);
            tx.put_times(ino, &mut inode);
            tx.put_inode(ino, &inode)?;
            if let Some(node) = tx.state.nodes.get_mut(&ino) {
                node.written = None;
            }
            Ok(())
        })
        .await
    }

    /// Pages that were written leave the cache, unless lines of them are still in a batch.
    pub(super) fn forget_written(&self, ino: Ino, range: Range<u64>) {
        let mut state = self.state();
        let committed = state.committed;
        let Some(mut node) = state.nodes.remove(&ino) else {
            return;
        };
        let gone = node.pages.range(range);
        let gone = gone.filter(|(at, page)| !node.dirty.contains(**at) && page.batch <= committed);
        let gone: Vec<u64> = gone.map(|(at, _)| *at).collect();
        for at in gone {
            state.drop_pages(&mut node, at..at + 1);
        }
        state.nodes.insert(ino, node);
        state.shrink_pages();
    }
}

/// Bytes of the lines that some bytes lie in: what the link carries.
fn lines_of(place: ByteAddr, size: usize) -> u64 {
    let (line, end) = (LINE as u64, place.get() + size as u64);
    end.next_multiple_of(line) - place.get() / line * line
}

/// Copies out what the cache still has, and says what is to be loaded.
fn loads_of(node: &mut Node, at: u64, out: &mut [u8]) -> Loads {
    // A write that was given up has left its gate open.
    node.coming.retain(|(_, gate)| gate.is_closed());
    let end = at + out.len() as u64;
    let pages = at / PAGE..end.div_ceil(PAGE);
    let mut coming = node.coming.iter();
    let is_of_these = |range: &Range<u64>| range.start < pages.end && pages.start < range.end;
    if let Some((_, gate)) = coming.find(|(range, _)| is_of_these(range)) {
        return Loads::Wait(gate.clone());
    }
    let mut parts: Vec<Part> = Vec::new();
    let mut done = 0;
    while done < out.len() {
        let here = at + done as u64;
        let within = (here % PAGE) as usize;
        let count = (BLOCK - within).min(out.len() - done);
        let range = done..done + count;
        let extents = node.extents.as_ref();
        let extent = extents.and_then(|extents| extents.find(here / PAGE));
        match (node.pages.get(&(here / PAGE)), extent) {
            (Some(page), _) => out[range].copy_from_slice(&page.data[within..within + count]),
            (None, Some(extent)) if extent.is_written => {
                let place = address(extent.block_of(here / PAGE)).get() + within as u64;
                add(&mut parts, place, range);
            }
            (None, _) => out[range].fill(0),
        }
        done += count;
    }
    Loads::Parts(parts, node.epoch.now())
}

/// Where the first bytes of a range of a file lie on the device, up to the first page without a
/// place.
fn places(node: &Node, at: u64, size: usize) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut done = 0;
    while done < size {
        let here = at + done as u64;
        let extents = node.extents.as_ref();
        let extent = extents.and_then(|extents| extents.find(here / PAGE));
        let Some(extent) = extent.filter(|extent| extent.is_written) else {
            break;
        };
        let count = (BLOCK - (here % PAGE) as usize).min(size - done);
        let place = address(extent.block_of(here / PAGE)).get() + here % PAGE;
        add(&mut parts, place, done..done + count);
        done += count;
    }
    parts
}

/// Adds a part, to the last one if it goes on there.
fn add(parts: &mut Vec<Part>, place: u64, range: Range<usize>) {
    match parts.last_mut() {
        Some((first, before))
            if first.get() + before.len() as u64 == place && before.end == range.start =>
        {
            before.end = range.end;
        }
        _ => parts.push((ByteAddr::new(place), range)),
    }
}
