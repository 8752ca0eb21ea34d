//! Batches become durable: one after the other, as a whole.

use super::FileSystem;
use crate::FsError;
use crate::gate::Passed;
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
        loop {
            if self.state().committed >= id {
                return Ok(());
            }
            // JBD2 has a thread of its own, that is woken and wakes who waits.
            let by_thread = self.state().superblock.personality.commits_by_thread();
            let waits = by_thread || self.commit_gate.is_closed();
            let passed = self.commit_gate.pass().await;
            let sealed = {
                let mut state = self.state();
                if let Some(reason) = &state.failed {
                    return Err(FsError::Io(reason.clone()));
                }
                (state.committed < id && state.batch.id <= id).then(|| state.seal_batch())
            };
            let Some(sealed) = sealed else {
                // It is durable, or somebody has written it and is about to have it count. Those
                // who were waited for wake all at a time.
                drop(passed);
                if self.state().committed < id {
                    drop(self.order_gate.pass().await);
                }
                self.spend(self.costs.switch).await;
                continue;
            };
            if waits {
                self.spend(self.costs.switch).await;
            }
            self.spend(self.costs.commit).await;
            self.make_durable(sealed, passed).await?;
            if by_thread {
                self.spend(self.costs.switch).await;
            }
            return Ok(());
        }
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
        let is_of_firmware = self.state().superblock.personality.needs_transactions();
        let order;
        let given_up = GivenUp(Some(self));
        let done = if is_of_firmware {
            let (written, in_order) = self.write_transaction(&sealed).await;
            order = in_order;
            match (written, self.failed()) {
                (Ok(written), None) => {
                    // From here on the next one may be written.
                    drop(passed);
                    self.commit_transaction(written).await
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
        drop(state);
        drop(order);
        Ok(())
    }
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
