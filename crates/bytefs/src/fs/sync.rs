//! Syncs of a file, of everything, and of what is old.

use super::FileSystem;
use crate::state::node::Node;
use crate::{FsError, Ino, Timestamp};
use port::{Clock, Device, PersistenceDomain};
use units::Time;

impl<D: Device, C: Clock> FileSystem<D, C> {
    /// Makes a file or a directory durable: contents, and everything that operations have changed
    /// up to now.
    ///
    /// # Errors
    /// There is no such file; the device fails.
    pub async fn fsync(&self, ino: Ino, data_only: bool) -> Result<(), FsError> {
        self.spend(self.costs.operation).await;
        if self.is_read_only {
            return Ok(());
        }
        self.writable()?;
        self.state().counters.0.syncs += 1;
        let begun = self.clock.now();
        if let Some(has_work) = self.sync_to_pmem(ino, data_only).await? {
            if has_work {
                self.note_sync_took(begun, true);
            }
            return self.move_ranges().await;
        }
        self.balance().await?;
        self.write_back_synced(ino, data_only).await?;
        if !data_only {
            self.put_pending_times(ino).await?;
        }
        self.wish_sync(ino).await?;
        // What was written back before is, when a flush ends that is asked for behind it.
        let mark = self.write_backs();
        let asked = self.state().barriers.0;
        let posted = self.posted(Some(ino));
        self.commit().await?;
        if !posted.is_empty() {
            self.persist_posted().await?;
        }
        self.flush_unless_since(asked).await?;
        self.note_persisted(&posted);
        self.settle_write_backs(Some(ino), mark);
        if data_only {
            self.note_sync_took(begun, false);
        }
        self.move_ranges().await
    }

    /// Files, or one, to which lines were posted under no transaction that may be lost, and how
    /// often.
    pub(super) fn posted(&self, ino: Option<Ino>) -> Vec<(Ino, u64)> {
        let state = self.state();
        let posted = |(ino, node): (&Ino, &Node)| {
            (node.posted > node.persisted).then_some((*ino, node.posted))
        };
        match ino {
            Some(ino) => {
                let node = state.nodes.get_key_value(&ino);
                node.and_then(posted).into_iter().collect()
            }
            None => state.nodes.iter().filter_map(posted).collect(),
        }
    }

    /// Has posted lines survive a power cut. Where nothing survives but on flash, the flush that
    /// comes does it; where blocks survive in the device and lines on flash alone, none comes.
    pub(super) async fn persist_posted(&self) -> Result<(), FsError> {
        let on_flash = PersistenceDomain::Flash;
        if (self.shape.byte_domain, self.shape.block_domain) == (on_flash, on_flash) {
            return Ok(());
        }
        let done = self.device.persist().await;
        done.map(|_| ())
            .map_err(|error| self.fail(&error.to_string()))
    }

    pub(super) fn note_persisted(&self, posted: &[(Ino, u64)]) {
        let mut state = self.state();
        for (ino, posted) in posted {
            if let Some(node) = state.nodes.get_mut(ino) {
                node.persisted = node.persisted.max(*posted);
            }
        }
    }

    /// A sync that ends now was light or not; policies may want to know how long it took.
    fn note_sync_took(&self, begun: Time, is_light: bool) {
        if let Some(pmem) = &mut self.state().pmem {
            let took = self.clock.now().saturating_since(begun);
            pmem.dax.timed_sync(is_light, took);
        }
    }

    /// How many write-backs there were, and that those of a file, or of all, up to a number are
    /// durable.
    fn write_backs(&self) -> u64 {
        self.state().pmem.as_ref().map_or(0, |pmem| pmem.mark)
    }

    fn settle_write_backs(&self, ino: Option<Ino>, mark: u64) {
        if let Some(pmem) = &mut self.state().pmem {
            pmem.settle(ino, mark);
        }
    }

    /// Waits until what the block port was answered for survives a power cut; a barrier of the
    /// journal that was asked for later than this one has done it for contents too.
    async fn flush_unless_since(&self, asked: u64) -> Result<(), FsError> {
        // Nothing went by blocks.
        if self.is_synchronous {
            return Ok(());
        }
        let is_flushed = {
            let state = self.state();
            let writes = &state.block_writes;
            let has_none = self.orders_blocks && writes.flushed == writes.last;
            has_none || state.writes_blocks && state.barriers.1 > asked
        };
        match is_flushed {
            true => Ok(()),
            false => self.flush_blocks().await,
        }
    }

    /// Puts the times of a file that its inode does not have yet.
    pub(super) async fn put_pending_times(&self, ino: Ino) -> Result<(), FsError> {
        let is_pending = self
            .state()
            .nodes
            .get(&ino)
            .is_some_and(|node| node.written.is_some());
        if !is_pending {
            return Ok(());
        }
        self.run(|tx| {
            tx.need_room(8)?;
            let mut inode = tx.inode(ino)?;
            tx.put_times(ino, &mut inode);
            tx.put_inode(ino, &inode)?;
            if let Some(node) = tx.state.nodes.get_mut(&ino) {
                node.written = None;
            }
            Ok(())
        })
        .await
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// The device fails.
    pub async fn sync(&self) -> Result<(), FsError> {
        self.flush_since(None).await
    }

    /// Writes back what became dirty before, and makes durable what operations have changed. Its
    /// owner calls it every second or so, and so says how much a power cut can take.
    ///
    /// # Errors
    /// The device fails.
    pub async fn flush_old(&self, older_than: Timestamp) -> Result<(), FsError> {
        self.flush_since(Some(older_than)).await
    }

    async fn flush_since(&self, older_than: Option<Timestamp>) -> Result<(), FsError> {
        if self.is_read_only {
            return Ok(());
        }
        self.writable()?;
        let mut files: Vec<Ino> = {
            let state = self.state();
            let nodes = state.nodes.iter();
            let old = nodes.filter(|(_, node)| match older_than {
                None => {
                    let is_changed = !node.dirty.is_empty() || node.written.is_some();
                    is_changed || (node.is_regular && node.gate.is_closed())
                }
                Some(time) => {
                    (!node.dirty.is_empty() && node.dirty_since <= time)
                        || node.written.is_some_and(|written| written <= time)
                }
            });
            old.map(|(ino, _)| *ino).collect()
        };
        files.sort_unstable();
        for ino in files {
            let done = async {
                self.write_back(ino).await?;
                self.put_pending_times(ino).await
            };
            match done.await {
                // It went meanwhile.
                Err(FsError::Stale) | Ok(()) => {}
                Err(error) => return Err(error),
            }
        }
        // What was written back before is, when a flush ends that is asked for behind it.
        let mark = self.write_backs();
        let asked = self.state().barriers.0;
        if older_than.is_none() {
            self.checkpoint().await?;
        } else if !self.beat().await? {
            return Ok(());
        }
        let posted = self.posted(None);
        self.commit().await?;
        let stores_reach_device = self.shape.byte_domain == PersistenceDomain::Device;
        if !posted.is_empty() || (older_than.is_none() && stores_reach_device) {
            self.persist_posted().await?;
        }
        self.flush_unless_since(asked).await?;
        self.note_persisted(&posted);
        self.settle_write_backs(None, mark);
        self.move_ranges().await?;
        match older_than {
            None => self.write_in_place().await,
            Some(_) => Ok(()),
        }
    }
}

impl crate::tx::Tx<'_> {
    /// Gives an inode the times that are pending, and the size if nothing else is: pages that
    /// would have brought it may have been punched out before they were written back.
    pub(super) fn put_times(&mut self, ino: Ino, inode: &mut crate::layout::Inode) {
        let Some(node) = self.state.nodes.get(&ino) else {
            return;
        };
        if let Some(written) = node.written {
            inode.mtime = written;
            inode.ctime = inode.ctime.max(written);
        }
        if node.is_regular && node.dirty.is_empty() && !node.gate.is_closed() {
            inode.size = node.size;
        }
    }
}
