//! A device as one file, over FUSE: for loop devices, and for programs that know files only.
//!
//! A directory holds a file [`FILE_NAME`] of the device's capacity. What is written is with the
//! device when the call returns, `fsync` is its flush, and holes are trimmed. There is no page
//! cache between (`docs/fuse-image.md`).

mod file;
mod inbox;
mod mount;
mod request;

pub use fuse::MountError;
pub use mount::{Ended, Manner, Mounted, Served};

/// The name of the file.
pub const FILE_NAME: &str = "device";
