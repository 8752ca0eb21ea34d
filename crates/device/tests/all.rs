//! The device's tests, in one program: it is linked once, and its tests share the cores.

mod bad_images;
mod bare;
mod blocks;
mod common;
mod damaged_tables;
mod draining;
mod driving;
mod extremes;
mod failing;
mod forged;
mod fsck;
mod known_ends;
mod losing;
mod older_images;
mod ports;
mod power_cycle;
mod presets;
mod recovery;
mod recovery_time;
mod same_times;
mod spawning;
mod statistics;
mod transaction_ports;
mod transactions;
mod unprotected;
mod window;
