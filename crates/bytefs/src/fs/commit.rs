//! Batches become durable: one after the other, as a whole.

use super::FileSystem;
use crate::FsError;
use crate::gate::{Passed, either};
use crate::state::batch::{BatchId, Sealed};
use port::{Clock, Device};

impl<D: Device, C: Clock> FileSystem<D, C> {
    /// Makes everything durable that operations have changed so far.
    pub(crate) async fn commit(&self) -> Result<(), FsError> {
        let id = {
            let state = self.state();
            let is_wanted = state
                .segments
                .as_ref()
                .is_some_and(|segments| segments.wants_checkpoint || segments.has_moved());
            match state.batch.is_empty() && !is_wanted {
                true => BatchId(state.batch.id.0 - 1),
                false => state.batch.id,
            }
        };
        self.commit_through(id).await
    }

    /// Makes a batch durable, and all before it.
    pub(crate) async fn commit_through(&self, id: BatchId) -> Result<(), FsError> {
        if self.state().committed >= id {
            return Ok(());
        }
        match self.turn(id).await? {
            Turn::Sealed => {
                self.until_durable(id).await?;
                // Those who were waited for wake all at a time.
                self.spend(self.costs.switch).await;
                Ok(())
            }
            Turn::Mine { passed, waited } => self.seal_and_write(passed, waited).await,
        }
    }

    /// Has a batch sealed, so that there is a new one with room. Its changes need not be durable
    /// for that: whoever writes it goes on, or this one does, and others change something
    /// meanwhile.
    pub(super) async fn seal(&self, id: BatchId) -> Result<(), FsError> {
        match self.turn(id).await? {
            Turn::Sealed => {
                self.spend(self.costs.switch).await;
                Ok(())
            }
            Turn::Mine { passed, waited } => self.seal_and_write(passed, waited).await,
        }
    }

    /// Waits until a batch is sealed by somebody, or may be by this one.
    async fn turn(&self, id: BatchId) -> Result<Turn, FsError> {
        let sealed = || {
            let state = self.state();
            if let Some(reason) = &state.failed {
                return Some(Err(FsError::Io(reason.clone())));
            }
            (state.batch.id > id).then_some(Ok(Turn::Sealed))
        };
        let waited = self.commit_gate.is_closed();
        let mine = async {
            let passed = self.commit_gate.pass().await;
            // Another thread may have sealed it since this one has looked.
            let mine = Ok(Turn::Mine { passed, waited });
            sealed().unwrap_or(mine)
        };
        either(self.progress.until(&sealed), mine).await
    }

    /// Waits until a batch that somebody has sealed is durable.
    async fn until_durable(&self, id: BatchId) -> Result<(), FsError> {
        let durable = || {
            let state = self.state();
            match (&state.failed, state.committed >= id) {
                (_, true) => Some(Ok(())),
                (Some(reason), false) => Some(Err(FsError::Io(reason.clone()))),
                (None, false) => None,
            }
        };
        self.progress.until(durable).await
    }

    /// Seals the running batch and makes it durable. Who does it has passed the gate.
    async fn seal_and_write(&self, passed: Passed, waited: bool) -> Result<(), FsError> {
        // JBD2 has a thread of its own. One that sleeps is woken; one that is busy goes on with
        // the next batch by itself.
        let by_thread = self.state().superblock.personality.commits_by_thread();
        if by_thread != waited {
            self.spend(self.costs.switch).await;
        }
        if let Some(reason) = self.failed() {
            return Err(FsError::Io(reason));
        }
        // Not before: what is changed until now goes with it.
        let sealed = self.state().seal_batch();
        self.progress.ring();
        self.make_durable(sealed, passed).await?;
        if by_thread {
            self.spend(self.costs.switch).await;
        }
        Ok(())
    }

    /// Brings metadata to its place that only the journal has, where a sync of everything does.
    pub(super) async fn write_in_place(&self) -> Result<(), FsError> {
        let _passed = self.commit_gate.pass().await;
        let _order = self.order_gate.pass().await;
        let Some(mut journal) = self.journal().take() else {
            return Err(self.fail("a commit was given up half-way"));
        };
        let done = journal.write_in_place(self).await;
        *self.journal() = Some(journal);
        done.map_err(|error| self.fail(&error.to_string()))
    }

    /// Has a batch that is sealed survive. Who has sealed it has the gate.
    async fn make_durable(&self, mut sealed: Sealed, passed: Passed) -> Result<(), FsError> {
        if let Some(kept) = self.shortcuts.kept() {
            for (at, line) in sealed.data.drain(..) {
                kept.write_line(at, &line);
            }
        }
        if let Some(kept) = self.shortcuts.kept_metadata() {
            sealed.lines.clear();
            for (block, data) in &sealed.blocks {
                kept.write(*block, &data[..]);
            }
        }
        let is_of_firmware = self.state().superblock.personality.needs_transactions();
        let order;
        let given_up = GivenUp(Some(self));
        if !(sealed.is_empty() && self.shortcuts.kept_metadata().is_some()) {
            self.spend(self.costs.commit).await;
        }
        let done = if is_of_firmware {
            let ordered = self.order_blocks().await;
            let (written, in_order) = match ordered {
                Ok(()) => self.write_transaction(&sealed).await,
                Err(error) => (Err(error), self.order_gate.pass().await),
            };
            order = in_order;
            match (written, self.failed()) {
                (Ok(written), None) => {
                    // From here on the next one may be written.
                    drop(passed);
                    match self.commit_transaction(written).await {
                        Ok(()) => self.put_contents(&sealed.contents).await,
                        Err(error) => Err(error),
                    }
                }
                (Err(error), _) => Err(error),
                (Ok(_), Some(reason)) => {
                    given_up.end();
                    return Err(FsError::Io(reason));
                }
            }
        } else {
            order = self.order_gate.pass().await;
            let Some(mut journal) = self.journal().take() else {
                return Err(self.fail("a commit was given up half-way"));
            };
            let done = journal.persist(self, &sealed).await;
            *self.journal() = Some(journal);
            done
        };
        given_up.end();
        if let Err(error) = done {
            return Err(self.fail(&error.to_string()));
        }
        let mut state = self.state();
        state.committed = sealed.id;
        state.counters.0.batches += 1;
        state.counters.0.batch_lines += (sealed.lines.len() + sealed.data.len()) as u64;
        for block in sealed.freed {
            state.space.give(block.0);
            state.pending_free -= 1;
        }
        state.pending_free -= sealed.kept;
        state.reserved -= sealed.kept;
        drop(state);
        drop(order);
        self.progress.ring();
        Ok(())
    }
}

/// Whose turn it is to seal a batch.
enum Turn {
    /// Somebody has done it.
    Sealed,
    /// This one's, who has passed the gate, and whether he had to wait.
    Mine { passed: Passed, waited: bool },
}

/// Somebody makes a batch durable. If he goes before he is done, the batch is lost, and nothing may
/// be built upon it.
struct GivenUp<'a, D: Device, C: Clock>(Option<&'a FileSystem<D, C>>);

impl<D: Device, C: Clock> GivenUp<'_, D, C> {
    fn end(mut self) {
        self.0 = None;
    }
}

impl<D: Device, C: Clock> Drop for GivenUp<'_, D, C> {
    fn drop(&mut self) {
        if let Some(files) = self.0 {
            files.fail("a commit was given up half-way; mount the file system anew");
        }
    }
}
