//! What a power cut has left in the window is brought to its files.

use super::FileSystem;
use crate::layout::{BLOCK, LINE};
use crate::state::pmem::{Header, Window};
use crate::{Caller, FsError, Ino, MountError, Timestamp};
use port::{Clock, Device, DeviceError};
use std::collections::{BTreeMap, BTreeSet};
use units::TxId;

const PAGE: u64 = BLOCK as u64;
/// Headers of one read.
const READ: u32 = 1024;

/// Frames of the window that have a page of this file system, and whose they are.
pub(crate) async fn headers<D: Device>(
    device: &D,
    window: &Window,
    seed: u64,
) -> Result<Vec<(u32, Header)>, DeviceError> {
    let mut found = Vec::new();
    for first in (0..window.frames).step_by(READ as usize) {
        let count = READ.min(window.frames - first);
        let mut lines = vec![0; count as usize * LINE];
        device.read(window.header(first), &mut lines).await?;
        let lines = (first..).zip(lines.chunks_exact(LINE));
        found.extend(lines.filter_map(|(frame, line)| Some((frame, Header::decode(line, seed)?))));
    }
    Ok(found)
}

/// Says of frames that they are nobody's.
pub(crate) async fn clear<D: Device>(
    device: &D,
    window: &Window,
    frames: impl IntoIterator<Item = u32>,
) -> Result<(), DeviceError> {
    let parts: Vec<_> = frames
        .into_iter()
        .map(|frame| (window.header(frame), &[0; LINE][..]))
        .collect();
    if parts.is_empty() {
        return Ok(());
    }
    device.write_vectored(&parts, TxId::NONE).await?;
    device.persist_pmem().await.map(|_| ())
}

/// What a replay has brought, and what it has not.
#[derive(Default)]
struct Brought {
    recovered: u64,
    /// Files that could not be written, and why the first of them could not.
    left: BTreeSet<Ino>,
    why: Option<FsError>,
}

impl<D: Device, C: Clock> FileSystem<D, C> {
    /// Frames are nobody's where the file system was unmounted. What an earlier repair may have
    /// left there would come back behind the next power cut, over what was synced since.
    pub(super) async fn clear_window(&self) -> Result<(), MountError> {
        let Some(window) = Window::of(&self.shape) else {
            return Ok(());
        };
        let seed = self.state().hash_seed;
        let found = headers(&self.device, &window, seed).await?;
        let frames = found.into_iter().map(|(frame, _)| frame);
        clear(&self.device, &window, frames).await?;
        Ok(())
    }

    /// Brings to their files the pages that a power cut has left in the window, and says of all
    /// frames that they are nobody's. Frames of files that cannot be written stay as they are for a
    /// later mount, and nothing is changed until then.
    pub(super) async fn replay_window(&self) -> Result<(), MountError> {
        let Some(window) = Window::of(&self.shape) else {
            return Ok(());
        };
        let seed = self.state().hash_seed;
        let found = headers(&self.device, &window, seed).await?;
        if found.is_empty() {
            return Ok(());
        }
        let mut newest: BTreeMap<(Ino, u64), (Header, u32)> = BTreeMap::new();
        for (frame, header) in &found {
            let place = newest.entry((header.ino, header.page));
            let newest = place.or_insert((*header, *frame));
            if newest.0.number < header.number {
                *newest = (*header, *frame);
            }
        }
        let brought = self.replay_frames(&window, newest.into_values()).await;
        self.sync().await.map_err(|error| match error {
            FsError::Io(what) => MountError::Device(what),
            other => MountError::Device(format!(
                "what was synced to persistent memory cannot be written to its files: {other}"
            )),
        })?;
        let is_left = |header: &Header| brought.left.contains(&header.ino);
        let done = found.iter().filter(|(_, header)| !is_left(header));
        clear(&self.device, &window, done.map(|(frame, _)| *frame)).await?;
        if let Some(pmem) = &mut self.state().pmem {
            pmem.stats.recovered = brought.recovered;
        }
        if let Some(why) = brought.why {
            let files: Vec<_> = brought.left.iter().map(Ino::to_string).collect();
            self.fail(&format!(
                "what was synced to persistent memory cannot be written to {}: {why}; it stays \
                 there",
                files.join(", ")
            ));
        }
        Ok(())
    }

    /// Writes frames to their files, by inode and page. Behind a page that cannot be written
    /// nothing more of its file is, or it would come behind zeroes.
    async fn replay_frames(
        &self,
        window: &Window,
        frames: impl Iterator<Item = (Header, u32)>,
    ) -> Brought {
        let mut brought = Brought::default();
        for (header, frame) in frames {
            if brought.left.contains(&header.ino) {
                continue;
            }
            let looked = self.look_at_frame(window, &header, frame).await;
            if looked.is_err() {
                // What is damaged is one file's, and looking has changed nothing: the others can be
                // written.
                self.state().failed = None;
            }
            let done = match looked {
                Ok(None) => Ok(false),
                Ok(Some((bytes, ctime))) => self.replay_frame(&header, &bytes, ctime).await,
                Err(error) => Err(error),
            };
            match done {
                Ok(is_there) => brought.recovered += u64::from(is_there),
                Err(why) => {
                    brought.left.insert(header.ino);
                    brought.why.get_or_insert(why);
                }
            }
        }
        brought
    }

    /// What a frame brings to its file, and when that was changed last; None: the file is gone, or
    /// the frame has nothing. All that it takes to write it is in the cache then.
    async fn look_at_frame(
        &self,
        window: &Window,
        header: &Header,
        frame: u32,
    ) -> Result<Option<(Vec<u8>, Timestamp)>, FsError> {
        let inode = match self.run(|tx| tx.inode(header.ino)).await {
            Ok(inode) => inode,
            Err(FsError::Stale) => return Ok(None),
            Err(error) => return Err(error),
        };
        let is_same = inode.generation == header.generation;
        if !is_same || inode.mode.kind != crate::FileKind::Regular || header.len == 0 {
            return Ok(None);
        }
        let mut bytes = vec![0; BLOCK];
        self.device.read(window.frame(frame), &mut bytes).await?;
        bytes.truncate(header.len as usize);
        let at = header.page * PAGE;
        self.need_edges(header.ino, at, at + bytes.len() as u64)
            .await?;
        Ok(Some((bytes, inode.ctime)))
    }

    /// Writes a frame to its file, which was changed last at `ctime`.
    async fn replay_frame(
        &self,
        header: &Header,
        bytes: &[u8],
        ctime: Timestamp,
    ) -> Result<bool, FsError> {
        let pending = {
            let state = self.state();
            let node = state.nodes.get(&header.ino);
            node.and_then(|node| node.written)
        };
        let written = Timestamp(header.written as i64);
        let caller = Caller {
            uid: 0,
            gid: 0,
            core: 0,
            now: written,
        };
        self.write_to_cache(&caller, header.ino, header.page * PAGE, bytes)
            .await?;
        // Times that are durable and not older stay: a program may have set them.
        let times = match written > ctime {
            true => pending.max(Some(written)),
            false => pending,
        };
        if let Some(node) = self.state().nodes.get_mut(&header.ino) {
            node.written = times;
        }
        Ok(true)
    }

    /// What the journal holds is in its places.
    pub(super) async fn close_journal(&self) -> Result<(), FsError> {
        let journal = self.journal().take();
        if let Some(mut journal) = journal {
            journal
                .close(self)
                .await
                .map_err(|error| self.fail(&error.to_string()))?;
            *self.journal() = Some(journal);
        }
        Ok(())
    }

    /// Why not all that was synced to persistent memory is in its files. What else was recovered is
    /// in its places then, and the device can be looked at.
    pub(crate) async fn failed_to_bring(&self) -> Result<MountError, FsError> {
        let why = self.state().failed.take().unwrap_or_default();
        self.sync().await?;
        self.close_journal().await?;
        self.device.drain().await?;
        self.device.flush().await?;
        Ok(MountError::Device(why))
    }
}
