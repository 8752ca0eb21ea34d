//! The captures' tests, in one program: it is linked once, and its tests share the cores.

mod foreign;
mod foreign_export;
mod foreign_golden;
mod foreign_macsim;
mod foreign_readers;
mod forged;
mod forged_foreign;
mod golden;
mod misses;
mod round_trip;
mod shipped;
