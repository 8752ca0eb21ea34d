//! A state as the image of a device, which anybody can mount.

use crate::crash::Image;
use device::{DeviceConfig, Pace, RealDevice};
use port::{Acknowledge, Device};
use std::path::Path;
use units::ByteAddr;

/// Makes an image with the bytes of a state. The file system on it is not recovered yet: who mounts
/// it does what a mount does after a power cut.
///
/// # Errors
/// The image cannot be made or written.
pub fn keep(path: &Path, config: &DeviceConfig, state: &Image) -> Result<(), String> {
    device::Image::create(path, config).map_err(|error| error.to_string())?;
    let device = RealDevice::open(path, Pace::None).map_err(|error| error.to_string())?;
    let written = device.block_on(async {
        for (at, page) in state.pages() {
            let at = ByteAddr::new(at as u64);
            device.write_blocks(at, page, Acknowledge::Accepted).await?;
        }
        device.flush().await
    });
    let closed = device.close().map_err(|error| error.to_string());
    written.map_err(|error| error.to_string())?;
    closed
}
