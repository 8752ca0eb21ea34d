//! A batch is a transaction of the firmware (§4.3, §4.7): the device's log is the journal. While
//! one is being committed the next one is written; commits are asked for in order, each when the
//! one before is answered.

use super::Line;
use crate::fs::FileSystem;
use crate::gate::Passed;
use crate::shortcuts::Batches;
use crate::state::batch::Sealed;
use crate::stats::Class;
use port::{Clock, Device, DeviceError, Transaction, TxOptions};
use units::TxId;

/// A batch whose lines are with the device; a transaction, unless they are durable already.
pub(crate) struct Written<'a, D: Device>(Option<Transaction<'a, D>>);

impl<D: Device, C: Clock> FileSystem<D, C> {
    /// Writes the lines of a batch, and waits until all batches before it are durable.
    pub(crate) async fn write_transaction(
        &self,
        batch: &Sealed,
    ) -> (Result<Written<'_, D>, DeviceError>, Passed) {
        let line = match self.write_record(batch).await {
            Ok(line) => line,
            Err(error) => return (Err(error), self.order_gate.pass().await),
        };
        let line = line.as_slice();
        match batch.lines.len() + batch.data.len() + line.len() {
            0 => (Ok(Written(None)), self.order_gate.pass().await),
            _ if self.shortcuts.batches == Batches::Lines => {
                let order = self.order_gate.pass().await;
                let done = self.write_batch(batch, line, TxId::NONE).await;
                (done.map(|()| Written(None)), order)
            }
            // A line is atomic by itself (§4.5), and durable at once: it must not be before others.
            1 => {
                let order = self.order_gate.pass().await;
                if self.failed().is_some() {
                    return (Ok(Written(None)), order);
                }
                let done = async {
                    self.write_batch(batch, line, TxId::NONE).await?;
                    self.persist_lines().await
                };
                (done.await.map(|()| Written(None)), order)
            }
            // It reserves no room, which would be a command more. At most one other transaction is
            // open, whose lines are all written, so that it ends: the device never has to refuse
            // this one for room (see the port's page).
            _ => {
                let options = TxOptions {
                    may_split: false,
                    ..TxOptions::default()
                };
                // The batch before writes blocks once it is committed. Where the device maps larger
                // units they would wait for lines of this one beside them, and it for that batch.
                let order = match batch.follows_contents {
                    true => Some(self.order_gate.pass().await),
                    false => None,
                };
                let written = async {
                    let tx = Transaction::begin(&self.device, options).await?;
                    self.write_batch(batch, line, tx.id()).await?;
                    Ok(Written(Some(tx)))
                };
                let written = written.await;
                match order {
                    Some(order) => (written, order),
                    None => (written, self.order_gate.pass().await),
                }
            }
        }
    }

    /// Has a batch count.
    pub(crate) async fn commit_transaction(
        &self,
        written: Written<'_, D>,
    ) -> Result<(), DeviceError> {
        match written.0 {
            None => Ok(()),
            Some(tx) => tx.commit().await.map(|_| ()),
        }
    }

    async fn write_batch(
        &self,
        batch: &Sealed,
        closing: &[Line],
        tx: TxId,
    ) -> Result<(), DeviceError> {
        self.write_lines(&batch.lines, tx, Class::Metadata).await?;
        self.write_lines(&batch.data, tx, Class::Data).await?;
        match closing {
            [] => Ok(()),
            _ => self.write_lines(closing, tx, Class::Journal).await,
        }
    }
}
