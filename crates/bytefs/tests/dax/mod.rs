//! Files whose syncs the device's persistent memory answers: what that costs, and what a power cut
//! leaves.

mod beside;
mod by_log;
mod clock;
mod costs;
mod damaged;
mod drive;
mod explicit;
mod lives;
mod lost;
mod pressure;
mod removed;
mod small;
mod usual;
