//! The file system's tests, in one program: it is linked once, and its tests share the cores.

mod behind;
mod commits;
mod common;
mod concurrent;
mod damage;
mod data_journal;
mod dax;
mod ext4_like;
mod format;
mod fsck;
mod full;
mod fuzz;
mod host_journals;
mod logs;
mod past_cache;
mod read_ahead;
mod segments;
mod shortcuts;
mod smoke;
mod tails;
mod whiteouts;
mod worn;
