//! The firmware as it begins: anew, or from what a power cut has left.

use crate::config::DeviceConfig;
use crate::error::DeviceFileError;
use crate::tables::Tables;
use crate::world::World;
use firmware::{Controller, Durable};
use std::path::Path;

/// The firmware.
pub type Brain = Controller;

/// The firmware of an image that was just opened.
///
/// # Errors
/// The image was used before: its tables cannot be taken over yet.
pub fn start(
    config: &DeviceConfig,
    world: &mut World,
    path: &Path,
) -> Result<Brain, DeviceFileError> {
    let tables = &world.data.tables;
    if tables.mapped().next().is_some() || tables.logged().next().is_some() {
        return Err(DeviceFileError::damaged(
            path,
            "the image has been used, and this firmware cannot recover it",
        ));
    }
    Ok(Controller::new(&config.controller()))
}

/// The first name for a transaction that nothing in the tables has.
pub fn first_free_transaction(tables: &Tables) -> u32 {
    let logged = tables.logged().map(|(_, line)| line.tx.get());
    let committed = tables.committed().map(|(_, tx)| tx.get());
    logged
        .chain(committed)
        .max()
        .unwrap_or(0)
        .wrapping_add(1)
        .max(1)
}
