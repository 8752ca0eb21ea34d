//! A batch is a transaction of the firmware (§4.3, §4.7): the device's log is the journal.

use crate::fs::FileSystem;
use crate::state::batch::Sealed;
use crate::stats::Class;
use port::{Clock, Device, DeviceError, TxOptions};
use units::TxId;

pub(super) async fn persist<D: Device, C: Clock>(
    fs: &FileSystem<D, C>,
    batch: &Sealed,
) -> Result<(), DeviceError> {
    let lines = batch.lines.len() + batch.data.len();
    match lines {
        0 => Ok(()),
        // A line is atomic by itself (§4.5).
        1 => {
            fs.write_lines(&batch.lines, TxId::NONE, Class::Metadata)
                .await?;
            fs.write_lines(&batch.data, TxId::NONE, Class::Data).await?;
            fs.persist_lines().await
        }
        _ => {
            let options = TxOptions::reserving(lines as u32);
            let tx = port::Transaction::begin(&fs.device, options).await?;
            fs.write_lines(&batch.lines, tx.id(), Class::Metadata)
                .await?;
            fs.write_lines(&batch.data, tx.id(), Class::Data).await?;
            tx.commit().await.map(|_| ())
        }
    }
}
