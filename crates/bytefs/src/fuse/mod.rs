//! A file system below FUSE: real programs use it, in real time.
//!
//! File system and device are in one process, and the thread that hears the kernel does the
//! operation itself ([`Mounted`]): handing it over would cost more than most operations. The
//! kernel keeps pages, names and attributes, for nobody else changes them; it writes through, so
//! that each write reaches the file system with its bytes. See docs/howto/mount.md.

mod acl;
mod adapter;
mod answers;
mod below;
mod clock;
mod convert;
mod drive;
mod flags;
mod mount;
mod open_specials;
mod operations;
mod server;
mod share;
mod special;
mod teller;
mod witness;

pub use self::below::Below;
pub use self::clock::WallClock;
pub use self::mount::{Ended, Mounted, Refused, Terms};
pub use self::share::Served;
pub use self::special::FOLDER;
pub use self::teller::{Account, Places, Silent, Teller};
pub use self::witness::{Asked, Witness, asker};
pub use ::fuse::{MountError, MountPoint, Trust};
