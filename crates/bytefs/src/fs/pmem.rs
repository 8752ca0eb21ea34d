//! Syncs by the device's persistent memory, and pages that come there and leave it.

use super::FileSystem;
use super::replay::clear;
use crate::gate::Passed;
use crate::state::pmem::{
    DAX_ATTRIBUTE, DaxAt, DaxView, Pmem, Reclaimed, Refused, Stores, Whose, Window, wanted_pages,
    whole_file,
};
use crate::tx::{Done, Stop, Tx};
use crate::{FsError, Ino, PmemStats};
use core::ops::Range;
use dax::{DaxStats, Decision, Footprint, Move, PolicyKind};
use port::{Clock, Device};
use units::{ByteAddr, TxId};

const NO_FRAME: &str = "no frame of the window is free; make the device with a larger device.pmem, or lower dax_reserve";

/// What is asked of a file whose frames others need.
const RECLAIM: &str = "reclaim";

/// What transparent DAX has done, and what it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DaxReport {
    /// Decisions and moves.
    pub ranges: DaxStats,
    /// The window's part in syncs.
    pub pmem: PmemStats,
    /// Frames of the window in use, and all of them.
    pub frames: (u64, u64),
    /// Memory of the tracker.
    pub footprint: Footprint,
}

impl<D: Device, C: Clock> FileSystem<D, C> {
    /// What transparent DAX has done; None without it.
    pub fn dax_report(&self) -> Option<DaxReport> {
        self.state().pmem.as_ref().map(Pmem::report)
    }

    /// All that is known of transparent DAX; None without it.
    pub fn dax_view(&self) -> Option<DaxView> {
        let now = self.clock.now();
        let mut state = self.state();
        state.pmem.as_mut().map(|pmem| pmem.view(now))
    }

    /// Changes a setting of transparent DAX by its name.
    ///
    /// # Errors
    /// It is off; there is no such setting; it makes no sense. One sentence.
    pub fn change_dax(&self, key: &str, value: &str) -> Result<(), String> {
        let mut state = self.state();
        let Some(pmem) = &mut state.pmem else {
            return Err("dax is off; mount with -o dax=auto".to_owned());
        };
        if pmem.at == DaxAt::Log && key == "reserve" {
            return Err(
                "reserve keeps frames of the window for some pages, and dax_at=log has none"
                    .to_owned(),
            );
        }
        let changed = pmem.dax.change(key, value);
        changed.map_err(|error| error.to_string())
    }

    /// Keeps what is not done, and why, for who looks at [`FileSystem::dax_view`].
    pub(crate) fn note_refused(
        &self,
        ino: Option<Ino>,
        pages: Option<Range<u64>>,
        asked: String,
        why: String,
    ) {
        let at = self.clock.now();
        if let Some(pmem) = &mut self.state().pmem {
            pmem.refused.keep(Refused {
                at,
                ino,
                pages,
                asked,
                why,
                times: 1,
            });
        }
    }

    /// Keeps what is judged and decided from now on, for [`FileSystem::take_dax_trace`].
    pub fn keep_dax_trace(&self) {
        if let Some(pmem) = &mut self.state().pmem {
            pmem.dax.keep_trace();
        }
    }

    /// What was judged and decided since this was asked for last, with the inodes of its files; and
    /// how many are lost since it was not asked for.
    pub fn take_dax_trace(&self) -> (Vec<(Ino, Decision)>, u64) {
        let mut state = self.state();
        let Some(pmem) = &mut state.pmem else {
            return (Vec::new(), 0);
        };
        let (decisions, lost) = pmem.dax.take_trace();
        let decisions = decisions.into_iter();
        let named = decisions.map(|decision| (Ino(decision.name as u32), decision));
        (named.collect(), lost)
    }

    /// Has the pages that a value of `user.entresol.dax` asks for be in persistent memory when they
    /// are synced, and no others that only programs have asked for. None: there is no such value.
    pub(super) async fn map_explicitly(
        &self,
        ino: Ino,
        value: Option<&[u8]>,
    ) -> Result<(), FsError> {
        let wanted = value.map_or(Ok(Vec::new()), wanted_pages)?;
        let kind = {
            let state = self.state();
            state.pmem.as_ref().map(|pmem| pmem.dax.settings().kind)
        };
        if kind.is_none_or(|kind| kind == PolicyKind::Always) {
            return Ok(());
        }
        match self.need_regular(ino).await {
            Ok(()) => {}
            // A directory has the attribute and no pages.
            Err(FsError::IsDirectory | FsError::Invalid(_) | FsError::Stale) => return Ok(()),
            Err(error) => return Err(error),
        }
        let Some(gate) = self.state().nodes.get(&ino).map(|node| node.gate.clone()) else {
            return Ok(());
        };
        let _passed = gate.pass().await;
        let gone = match &mut self.state().pmem {
            Some(pmem) => pmem.want_pages(ino, &wanted),
            None => Vec::new(),
        };
        for pages in gone {
            let left = self.leave_pmem(ino, pages.clone()).await;
            left.inspect_err(|error| {
                let asked = Move::Downgrade.name().to_owned();
                self.note_refused(Some(ino), Some(pages), asked, error.to_string());
            })?;
        }
        Ok(())
    }

    /// Makes a file durable by stores to the window, if all that it takes is there, and says
    /// whether there was something to be made so; None: it takes the usual way. Counts what is
    /// synced in any case.
    pub(super) async fn sync_to_pmem(
        &self,
        ino: Ino,
        data_only: bool,
    ) -> Result<Option<bool>, FsError> {
        let gate = {
            let state = self.state();
            let node = state.nodes.get(&ino).filter(|_| state.pmem.is_some());
            // Of others nothing is tracked.
            match node.filter(|node| node.is_regular) {
                Some(node) => node.gate.clone(),
                None => return Ok(None),
            }
        };
        let passed = gate.pass().await;
        let (at, lacks_generation) = {
            let mut state = self.state();
            state.note_synced(ino, data_only, self.clock.now());
            let pmem = state.pmem.as_ref();
            let lacks = pmem.is_some_and(|pmem| pmem.lacks_generation(ino));
            (pmem.map(|pmem| pmem.at), lacks)
        };
        if lacks_generation {
            let (generation, mut wanted) = self.run(|tx| tx.dax_of(ino)).await?;
            if let Some(pmem) = &mut self.state().pmem {
                if pmem.dax.settings().kind == PolicyKind::Always {
                    wanted = whole_file();
                }
                pmem.set_generation(ino, generation, &wanted);
                // Nobody knows whether the inode is durable: the first sync takes the usual way.
                pmem.begin_write_back(ino);
            }
        }
        if at == Some(DaxAt::Log) {
            return self.sync_to_log(ino, data_only, passed).await;
        }
        // Times are metadata, and go with a batch.
        if !data_only {
            return Ok(None);
        }
        let lacking = self.state().lacking(ino).map_or(0, |pages| pages.len());
        if lacking > 0 {
            self.free_frames(lacking, Some(ino)).await?;
        }
        let now = self.clock.now();
        let stores = self.state().stores_of_sync(ino, now);
        match stores {
            None => {
                self.state().evict_for(ino, now);
                Ok(None)
            }
            Some(stores) => {
                let (size, has_work) = (stores.size, stores.has_work);
                self.store(stores).await?;
                if let Some(pmem) = &mut self.state().pmem {
                    pmem.set_durable(ino, size);
                }
                Ok(Some(has_work))
            }
        }
    }

    /// As [`FileSystem::sync_to_pmem`], by lines of the log.
    /// Lines of pages go with the batch that says where they are, so there is nothing to be put in
    /// order, and times can go too.
    async fn sync_to_log(
        &self,
        ino: Ino,
        data_only: bool,
        passed: Passed,
    ) -> Result<Option<bool>, FsError> {
        let Some(has_work) = self.state().begin_sync_by_log(ino) else {
            return Ok(None);
        };
        self.write_back_by_lines(ino).await?;
        drop(passed);
        if !data_only {
            self.put_pending_times(ino).await?;
        }
        let posted = self.posted(Some(ino));
        self.commit().await?;
        if !posted.is_empty() {
            self.persist_posted().await?;
        }
        self.note_persisted(&posted);
        Ok(Some(has_work))
    }

    /// Brings frames of a file up to its pages, before these are written back.
    pub(super) async fn renew_frames(&self, ino: Ino) -> Result<(), FsError> {
        let stores = {
            let mut state = self.state();
            if let Some(pmem) = &mut state.pmem {
                // A header may say less than its page has by now, until that is on flash. Whoever
                // syncs before has to wait for that.
                pmem.begin_write_back(ino);
            }
            state.stores_of_write_back(ino)
        };
        self.store(stores.unwrap_or_default()).await
    }

    /// Contents first: a header that says more than its frame has would show what was there before.
    /// Then headers, those of a longer file one behind the other.
    async fn store(&self, stores: Stores) -> Result<(), FsError> {
        self.spend(self.costs.page * stores.pages).await;
        let parts: Vec<_> = stores
            .parts
            .iter()
            .map(|(at, bytes)| (*at, &bytes[..]))
            .collect();
        self.write_window(&parts).await?;
        let (first, rest) = stores.growing.split_at(stores.growing.len().min(1));
        let at_once = stores.headers.iter().chain(first);
        let at_once: Vec<_> = at_once.map(|(at, line)| (*at, &line[..])).collect();
        self.write_window(&at_once).await?;
        for (at, line) in rest {
            self.write_window(&[(*at, &line[..])]).await?;
        }
        Ok(())
    }

    async fn write_window(&self, parts: &[(ByteAddr, &[u8])]) -> Result<(), FsError> {
        if parts.is_empty() {
            return Ok(());
        }
        let done = async {
            self.device.write_vectored(parts, TxId::NONE).await?;
            self.device.persist_pmem().await
        };
        let done: Result<_, port::DeviceError> = done.await;
        done.map_err(|error| self.fail(&error.to_string()))?;
        Ok(())
    }

    /// Says of frames that they are nobody's.
    async fn give_frames(&self, window: Window, frames: Vec<u32>) -> Result<(), FsError> {
        let done = clear(&self.device, &window, frames.iter().copied()).await;
        done.map_err(|error| self.fail(&error.to_string()))?;
        if let Some(pmem) = &mut self.state().pmem {
            pmem.free.extend(frames);
        }
        Ok(())
    }

    /// Has frames free for so many pages, if there can be any. Of `mine` the caller has passed the
    /// gate.
    async fn free_frames(&self, pages: usize, mine: Option<Ino>) -> Result<(), FsError> {
        for is_last in [false, true] {
            let (window, reclaimed) = {
                let mut state = self.state();
                let committed = state.committed;
                let Some(pmem) = &mut state.pmem else {
                    return Ok(());
                };
                let wanted = pmem.wanted_frames(pages);
                if pmem.free.len() >= wanted {
                    return Ok(());
                }
                let (window, dead) = (pmem.window, pmem.take_dead(committed));
                let mut reclaimed = match dead.len() < wanted {
                    true => state.reclaim_frames(wanted, mine),
                    false => Reclaimed::default(),
                };
                reclaimed.frames.extend(dead);
                (window, reclaimed)
            };
            let given = self.give_frames(window, reclaimed.frames).await;
            drop(reclaimed.passed);
            given?;
            if is_last || reclaimed.unknown.is_empty() {
                return Ok(());
            }
            // They get a gate, and are asked once more.
            for ino in reclaimed.unknown {
                self.know(ino).await;
            }
        }
        Ok(())
    }

    /// Has a file that has frames be known, so that these may be taken. One that the device does
    /// not give, or that is damaged, keeps its frames, and the file system goes on: the sync that
    /// lacks them is of another file, and changes nothing of this one.
    async fn know(&self, ino: Ino) {
        let known = self.run(|tx| match tx.need_regular(ino) {
            Err(Stop::Damaged(what)) => {
                Err(FsError::Io(format!("{what} is damaged; run `entresol fsck`")).into())
            }
            known => known,
        });
        if let Err(FsError::Io(why)) = known.await {
            self.note_refused(Some(ino), None, RECLAIM.to_owned(), why);
        }
    }

    /// What [`Pmem::begin_write_back`] was told of is with the device and the running batch.
    /// Where the log is persistent memory, lines need no flush.
    pub(super) fn end_write_back(&self, ino: Ino, has_blocks: bool) {
        if let Some(pmem) = &mut self.state().pmem
            && (pmem.at == DaxAt::Window || has_blocks)
        {
            pmem.begin_write_back(ino);
        }
    }

    /// Has pages of a file be on flash alone. The caller has passed the file's gate.
    pub(super) async fn leave_pmem(&self, ino: Ino, pages: Range<u64>) -> Result<(), FsError> {
        self.leave_as(ino, pages, Whose::All).await
    }

    async fn leave_as(&self, ino: Ino, pages: Range<u64>, whose: Whose) -> Result<(), FsError> {
        {
            let mut state = self.state();
            let Some(pmem) = &mut state.pmem else {
                return Ok(());
            };
            // What comes next changes pages of the file, and is no write.
            pmem.begin_write_back(ino);
            if !pmem.has_frames(ino, pages.clone()) {
                return Ok(());
            }
        }
        self.write_back_within(ino).await?;
        self.commit().await?;
        self.flush_blocks().await?;
        let (window, frames) = {
            let mut state = self.state();
            let Some(pmem) = &mut state.pmem else {
                return Ok(());
            };
            (pmem.window, pmem.take_frames(ino, pages, whose))
        };
        self.give_frames(window, frames).await
    }

    /// Has pages of a range that leaves be on flash alone if they are there as they are, which
    /// costs their headers only; says whether they were. The caller has passed the file's gate.
    async fn leave_clean(&self, ino: Ino, pages: Range<u64>) -> Result<bool, FsError> {
        let Some((window, frames)) = self.state().take_clean_frames(ino, pages) else {
            return Ok(false);
        };
        self.give_frames(window, frames).await?;
        Ok(true)
    }

    /// All frames are nobody's: their pages are durable on flash.
    pub(super) async fn leave_pmem_for_good(&self) -> Result<(), FsError> {
        let (window, frames) = {
            let mut state = self.state();
            let Some(pmem) = &mut state.pmem else {
                return Ok(());
            };
            (pmem.window, pmem.take_all())
        };
        self.give_frames(window, frames).await
    }

    /// Moves the ranges that the policy wants moved.
    pub(super) async fn move_ranges(&self) -> Result<(), FsError> {
        loop {
            let (job, ino, at) = {
                let mut state = self.state();
                let Some(pmem) = &mut state.pmem else {
                    return Ok(());
                };
                let Some(job) = pmem.dax.next_job(self.clock.now()) else {
                    return Ok(());
                };
                let ino = pmem.name(job.file);
                (job, ino, pmem.at)
            };
            // Until the range is plain no sync may give its pages frames again.
            let mut passed = None;
            // A device that fails has been told of; the range is no worker's any more.
            let moved = match (job.to, ino) {
                // It is removed: nothing failed.
                (_, None) => Err(None),
                // Pages go by lines from now on, or no more.
                (_, Some(_)) if at == DaxAt::Log => Ok(()),
                // Pages come to the window when they are synced.
                (Move::Upgrade, Some(ino)) => {
                    let dirty = {
                        let state = self.state();
                        state.nodes.get(&ino).map_or(0, |node| node.dirty.len())
                    };
                    let freed = self.free_frames(dirty, None).await;
                    let state = self.state();
                    let has_free = state.pmem.as_ref().is_some_and(|of| !of.free.is_empty());
                    match freed {
                        Ok(()) if !has_free => Err(Some(NO_FRAME.to_owned())),
                        freed => freed.map_err(|error| Some(error.to_string())),
                    }
                }
                (Move::Downgrade, Some(ino)) => {
                    let gate = || self.state().nodes.get(&ino).map(|node| node.gate.clone());
                    let mut known = gate();
                    if known.is_none() {
                        // Nobody has it open, and somebody may while its frames are taken.
                        self.know(ino).await;
                        known = gate();
                    }
                    match known {
                        // It cannot be read, which `know` has told of.
                        None => Err(None),
                        Some(gate) => {
                            passed = Some(gate.pass().await);
                            let left = match self.leave_clean(ino, job.pages.clone()).await {
                                Ok(false) => {
                                    self.leave_as(ino, job.pages.clone(), Whose::Policy).await
                                }
                                left => left.map(|_| ()),
                            };
                            left.map_err(|error| Some(error.to_string()))
                        }
                    }
                }
            };
            let is_done = moved.is_ok();
            if let Err(Some(why)) = moved {
                let asked = job.to.name().to_owned();
                self.note_refused(ino, Some(job.pages.clone()), asked, why);
            }
            if let Some(pmem) = &mut self.state().pmem {
                pmem.dax.finish(job, is_done, self.clock.now());
            }
            drop(passed);
        }
    }
}

impl Tx<'_> {
    /// The generation of an inode, and the pages that its attribute asks for. A value that is none
    /// asks for nothing: it was set where nobody has looked at it. Nor do attributes that are
    /// damaged: a sync needs none.
    fn dax_of(&mut self, ino: Ino) -> Done<(u32, Vec<Range<u64>>)> {
        let inode = self.inode(ino)?;
        let found = match self.xattrs(ino, &inode) {
            Err(Stop::Damaged(_)) => Vec::new(),
            found => found?,
        };
        let mut values = found.into_iter().filter(|(name, _)| name == DAX_ATTRIBUTE);
        let wanted = values
            .next()
            .and_then(|(_, value)| wanted_pages(&value).ok());
        Ok((inode.generation, wanted.unwrap_or_default()))
    }
}

#[cfg(test)]
#[path = "pmem_tests.rs"]
mod tests;
