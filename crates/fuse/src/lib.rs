//! What every server of ours over FUSE shares: where it may mount, and how it ends.
//!
//! Knows no device and no file system: a session is given one ([`fuser::Filesystem`]).
#![forbid(unsafe_code)]

mod mount_point;
mod session;

pub use mount_point::{MountError, MountPoint};
pub use session::{Manner, Session, Trust};
