//! Files whose syncs the device's persistent memory answers: what that costs, and what a power cut
//! leaves.

mod costs;
mod drive;
mod lives;
mod lost;
