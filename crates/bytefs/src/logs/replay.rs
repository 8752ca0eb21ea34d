//! What logs say when nobody has unmounted: their tails are made whole, what they say is brought to
//! its place in the order of batches, and they are emptied.

use super::group::{WORD, decode, linked};
use super::{Area, Change, ENTRIES, ENTRY, PAGE_END, Place, head_epoch, head_line, next_epoch};
use crate::fs::address;
use crate::journal::Line;
use crate::layout::{BLOCK, Geometry, LINE, get_u32, is_sealed, put_u32, seal, sum};
use crate::{BlockNo, Ino, MountError};
use port::{Device, DeviceError};
use std::collections::BTreeMap;
use units::{ByteAddr, TxId};

/// What came of it.
pub(crate) struct Recovered {
    /// Logs count from now on that have this number.
    pub epoch: u32,
    /// Bytes of lines that were written.
    pub written: u64,
    /// What is not as it was written, and was left out.
    pub damaged: Vec<String>,
}

/// The record that takes tails back: lines of the table as they were.
pub(crate) fn record_lines(area: &Area, epoch: u32, old: &[(u32, [u8; LINE])]) -> Vec<Line> {
    let mut bytes = vec![0; (old.len() * 4).next_multiple_of(LINE)];
    for (index, (number, _)) in old.iter().enumerate() {
        put_u32(&mut bytes, index * 4, *number);
    }
    for (_, line) in old {
        bytes.extend_from_slice(line);
    }
    let head = record_head(epoch, old.len() as u32, sum(&bytes));
    let mut lines = vec![(area.record_head(), head)];
    for (number, bytes) in (0..).zip(bytes.chunks_exact(LINE)) {
        let mut line = [0; LINE];
        line.copy_from_slice(bytes);
        lines.push((area.record(number), line));
    }
    lines
}

/// The line that says whether a record counts: none does if it is of no lines.
pub(crate) fn record_head(epoch: u32, count: u32, sum: u32) -> [u8; LINE] {
    let mut line = [0; LINE];
    put_u32(&mut line, 0, epoch);
    put_u32(&mut line, 4, count);
    put_u32(&mut line, 8, sum);
    seal(&mut line);
    line
}

struct Recovery<'d, D> {
    device: &'d D,
    area: Area,
    geometry: &'d Geometry,
    epoch: u32,
    damaged: Vec<String>,
    /// By batch, revoked blocks before lines.
    changes: Vec<(u32, Change)>,
    /// Pages that were read: none is in two logs, or twice in one.
    seen: Vec<bool>,
    written: u64,
}

/// Recovers logs of a file system that was not unmounted.
///
/// # Errors
/// The device fails; something is not as it was written, unless that is to be left out.
pub(crate) async fn recover<D: Device>(
    device: &D,
    geometry: &Geometry,
    leaves_out: bool,
) -> Result<Recovered, MountError> {
    let damaged = |what: &str| MountError::Damaged { what: what.into() };
    let area = Area::of(geometry).ok_or_else(|| damaged("the superblock"))?;
    let mut head = [0; LINE];
    device.read(area.head(), &mut head).await?;
    let epoch = head_epoch(&head).ok_or_else(|| damaged("the head of the logs"))?;
    let mut recovery = Recovery {
        device,
        geometry,
        epoch,
        damaged: Vec::new(),
        changes: Vec::new(),
        seen: vec![false; area.pages as usize],
        area,
        written: 0,
    };
    recovery.take_tails_back().await?;
    recovery.read_logs().await?;
    if let (Some(what), false) = (recovery.damaged.first(), leaves_out) {
        return Err(damaged(what));
    }
    recovery.bring_home().await?;
    let next = next_epoch(epoch);
    let head = recovery.area.head();
    recovery.write(&[(head, head_line(next))]).await?;
    Ok(Recovered {
        epoch: next,
        written: recovery.written,
        damaged: recovery.damaged,
    })
}

impl<D: Device> Recovery<'_, D> {
    /// Writes lines that survive when it is done.
    async fn write(&mut self, lines: &[Line]) -> Result<(), DeviceError> {
        let parts: Vec<(ByteAddr, &[u8])> =
            lines.iter().map(|(at, line)| (*at, &line[..])).collect();
        self.device.write_vectored(&parts, TxId::NONE).await?;
        self.device.persist().await?;
        self.written += (lines.len() * LINE) as u64;
        Ok(())
    }

    /// A batch that appended to several logs and whose tails have not all moved has moved none.
    async fn take_tails_back(&mut self) -> Result<(), MountError> {
        let mut head = [0; LINE];
        self.device.read(self.area.record_head(), &mut head).await?;
        let (count, total) = (get_u32(&head, 4), get_u32(&head, 8));
        if !is_sealed(&head) {
            self.damaged.push("the head of the record of tails".into());
            return Ok(());
        }
        let counts = get_u32(&head, 0) == self.epoch && count > 0;
        if !counts || count > self.area.record_most() {
            return Ok(());
        }
        let numbers = (count as usize * 4).next_multiple_of(LINE);
        let mut bytes = vec![0; numbers + count as usize * LINE];
        self.device.read(self.area.record(0), &mut bytes).await?;
        if sum(&bytes) != total {
            // It was not whole yet, so no tail has moved.
            return Ok(());
        }
        let mut lines = Vec::with_capacity(count as usize);
        for (index, old) in bytes[numbers..].chunks_exact(LINE).enumerate() {
            let number = get_u32(&bytes, index * 4);
            if number >= self.area.table_lines() {
                self.damaged.push("the record of tails".into());
                return Ok(());
            }
            let mut line = [0; LINE];
            line.copy_from_slice(old);
            lines.push((self.area.table_line(number), line));
        }
        self.write(&lines).await?;
        let head = self.area.record_head();
        self.write(&[(head, record_head(self.epoch, 0, 0))]).await?;
        Ok(())
    }

    async fn read_logs(&mut self) -> Result<(), MountError> {
        let (first, blocks) = self.area.table();
        let mut table = vec![0; BLOCK];
        for block in 0..blocks {
            let at = address(BlockNo(first.0 + block));
            self.device.read_blocks(at, &mut table).await?;
            let begin = block * (BLOCK / ENTRY) as u32;
            debug_assert!(begin.is_multiple_of(ENTRIES));
            for (number, entry) in (begin..self.area.numbers).zip(table.chunks_exact(ENTRY)) {
                let ino = Ino(number);
                match Place::decode(ino, entry, self.epoch, self.area.pages) {
                    Ok(None) => {}
                    Ok(Some(place)) => self.read_log(ino, place).await?,
                    Err(_) => self.damaged.push(format!("the tail of the log of {ino}")),
                }
            }
        }
        // In each log they are in order already.
        self.changes
            .sort_by_key(|(batch, change)| (*batch, matches!(change, Change::Words(..))));
        Ok(())
    }

    /// Reads a log as far as it is whole.
    async fn read_log(&mut self, ino: Ino, place: Place) -> Result<(), MountError> {
        let mut page = place.head;
        let mut bytes = vec![0; BLOCK];
        while let Some(false) = self.seen.get(page as usize) {
            self.seen[page as usize] = true;
            let at = address(self.area.page(page));
            self.device.read_blocks(at, &mut bytes).await?;
            let is_last = page == place.tail.0;
            let link = match is_last {
                true => Ok((page, place.tail.1)),
                false => linked(&bytes[PAGE_END..], self.epoch),
            };
            let Ok((next, end)) = link else {
                self.damaged.push(format!("a page of the log of {ino}"));
                return Ok(());
            };
            let mut done = 0;
            while done < end {
                let Ok(group) = decode(&bytes[done..end], self.epoch) else {
                    self.damaged.push(format!("the log of {ino}"));
                    return Ok(());
                };
                done += group.size;
                let changes = group.changes.into_iter();
                self.changes
                    .extend(changes.map(|change| (group.batch, change)));
            }
            if is_last {
                return Ok(());
            }
            page = next;
        }
        self.damaged
            .push(format!("the list of pages of the log of {ino}"));
        Ok(())
    }

    /// Brings what logs say to its place.
    async fn bring_home(&mut self) -> Result<(), MountError> {
        let mut found: BTreeMap<BlockNo, BTreeMap<u8, (u8, [u8; LINE])>> = BTreeMap::new();
        for (_, change) in core::mem::take(&mut self.changes) {
            match change {
                Change::Revoked(block) => {
                    found.remove(&block);
                }
                Change::Words((block, line), words, bytes) => {
                    let lines = found.entry(block).or_default();
                    let (known, newest) = lines.entry(line).or_insert((0, [0; LINE]));
                    *known |= words;
                    put_words(newest, words, &bytes);
                }
            }
        }
        for (block, lines) in found {
            let geometry = self.geometry;
            let is_metadata = block == crate::layout::STATE_BLOCK
                || geometry.inode_table.contains(&block.0)
                || geometry.files.contains(&block.0);
            if !is_metadata {
                self.damaged.push(format!("what a log says of {block}"));
                continue;
            }
            let mut home = vec![0; BLOCK];
            self.device.read_blocks(address(block), &mut home).await?;
            let lines = lines.into_iter().map(|(line, (words, newest))| {
                let at = usize::from(line) * LINE;
                let mut bytes = [0; LINE];
                bytes.copy_from_slice(&home[at..at + LINE]);
                put_words(&mut bytes, words, &newest);
                (ByteAddr::new(address(block).get() + at as u64), bytes)
            });
            let lines: Vec<Line> = lines.collect();
            self.write(&lines).await?;
        }
        Ok(())
    }
}

/// Puts words of a line in the place of those of another.
fn put_words(line: &mut [u8; LINE], words: u8, from: &[u8; LINE]) {
    let all = line.chunks_exact_mut(WORD).zip(from.chunks_exact(WORD));
    for (_, (old, new)) in all.enumerate().filter(|(word, _)| words >> word & 1 == 1) {
        old.copy_from_slice(new);
    }
}
