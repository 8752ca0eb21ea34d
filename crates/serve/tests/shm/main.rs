//! The shared-memory port, server and client in one process, over a real socket. Killed processes
//! are tested from Python (`python/tests/test_device_shm.py`).

mod abandoned;
#[path = "../../../device/tests/common/mod.rs"]
mod common;
mod hostile;
mod limits;
mod pacing;
mod requests;
mod serving;
mod sleeping;
