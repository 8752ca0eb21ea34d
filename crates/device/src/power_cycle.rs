//! A power cut of a device in memory: what it leaves, opened anew.

use crate::config::DeviceConfig;
use crate::engine::DeviceEngine;
use crate::error::DeviceFileError;
use crate::image::Image;
use crate::layout::Layout;
use crate::pace::Pace;
use crate::recovery;
use crate::superblock::VERSION;
use crate::unbegun::{self, Unbegun};
use std::path::PathBuf;
use units::Bytes;

impl DeviceEngine {
    /// The device after a power cut at this moment, in memory alone: what is in battery-backed
    /// memory and on flash, recovered as [`DeviceEngine::open`] recovers the image of a killed
    /// process. Stores on the link, what waits, open transactions and a data cache that
    /// does not survive are gone. This one goes on as if nothing had been.
    ///
    /// # Errors
    /// What is left cannot be recovered; the system has not so much memory.
    pub fn power_cycled(&self) -> Result<Self, DeviceFileError> {
        Self::of_image(self.left()?, Pace::None)
    }

    fn left(&self) -> Result<Image, DeviceFileError> {
        let config: DeviceConfig = self.config.as_ref().clone();
        let layout = Layout::new(&config);
        let no_memory = |error| DeviceFileError::NoMemory {
            path: PathBuf::new(),
            wanted: Bytes::new((layout.dram_bytes + layout.media_bytes) as u64),
            error,
        };
        let bytes = self.engine.bytes();
        let mut tables = bytes.tables.snapshot().map_err(no_memory)?;
        let media = bytes.media.snapshot().map_err(no_memory)?;
        let image = PathBuf::new();
        if let Some(ppa) = Unbegun::of(&tables, &media, layout).first_programmed() {
            let what = unbegun::sentence(ppa);
            return Err(DeviceFileError::damaged(&image, what));
        }
        // A view of a file sees what is lost of it; one of memory is made when it is lost.
        let protection = config.ssd.power_loss_protection;
        if !protection.keeps_buffers() {
            recovery::check(&config, &tables, &image)?;
            tables.lose(protection);
        }
        Ok(Image {
            path: image,
            id: bytes.id(),
            version: VERSION,
            view: tables.snapshot().map_err(no_memory)?,
            was_cut_off: true,
            config,
            layout,
            tables,
            media,
        })
    }
}
