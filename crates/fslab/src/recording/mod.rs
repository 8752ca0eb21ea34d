//! What a program asked a file system for, written down so that it can be done again.
//!
//! A recording has every operation that reached the file system, in the order in which they began,
//! with thread and times. Of contents it has sums, one for each line of 64 bytes that a write
//! covers: bytes made of them are equal where the program's were equal, and zero where they were,
//! so that a file system that writes only lines that differ (ByteFS §4.6) finds as many. Format:
//! docs/formats/recording.md.

mod contents;
mod op;
mod order;
mod recorder;
mod text;

pub use contents::{bytes_of, sums_of};
pub use op::{Entry, How, Kind, Op, Room, sums as sums_from};
pub use order::dependencies;
pub use recorder::Recorder;
pub use text::{Recording, RecordingError};
